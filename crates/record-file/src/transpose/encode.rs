//! Taking records apart.
//!
//! Each record is told to be a message or not ([`fields`]). Of a message, every field is an *event*: what a state
//! of the decoder's machine emits. Its value goes to the *column* of its path ([`columns`]), the chain of events is
//! kept as steps from one event to the next, and from how often each step is taken comes the state machine
//! ([`machine`]). What another writer of this format makes of the same records is the same, byte by byte, as far
//! as the compressor gives it.
mod columns;
mod fields;
mod machine;
mod pairs;

use columns::{Column, Columns};
use fields::Fields;

use super::wire;
use crate::chunk::{ChunkHeader, ChunkKind};
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::Result;
use crate::varint;

/// A transposed chunk, encoded.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) num_records: u64,
    pub(crate) decoded_data_size: u64,
    pub(crate) data: Vec<u8>,
}

impl Encoded {
    pub(crate) fn header(&self, data_size: u64, data_hash: u64) -> ChunkHeader {
        ChunkHeader {
            kind: ChunkKind::Transposed,
            data_size,
            data_hash,
            num_records: self.num_records,
            decoded_data_size: self.decoded_data_size,
        }
    }
}

/// Encodes chunks one after the other, keeping memory from each for the next.
#[derive(Debug, Default)]
pub(crate) struct ChunkEncoder {
    fields: Fields,
    columns: Columns,
    /// The buffers of a bucket, joined to be compressed.
    joined: Vec<u8>,
}

impl ChunkEncoder {
    /// Encodes a chunk of records that lie in `values` one after the other, `sizes` having one varint each.
    ///
    /// A bucket gets as many buffers as make about `bucket_size` bytes; without compression that is not
    /// looked at, since buckets only say what must be decompressed together.
    pub(crate) fn encode(
        &mut self,
        encoders: &mut Encoders,
        compression: &Compression,
        bucket_size: u64,
        mut sizes: &[u8],
        values: &[u8],
    ) -> Result<Encoded> {
        self.columns.clear();
        let mut rest = values;
        let mut num_records = 0;
        while let Some(size) = varint::take(&mut sizes) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let (record, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            num_records += 1;
            if self.fields.find(record) {
                self.columns.add_message(record, self.fields.as_slice());
            } else {
                self.columns.add_other(record);
            }
        }
        let bucket_size = match compression {
            Compression::None => u64::MAX,
            _ => bucket_size.max(1),
        };
        Ok(Encoded {
            num_records,
            decoded_data_size: values.len() as u64,
            data: self.finish(encoders, compression, bucket_size)?,
        })
    }

    fn finish(
        &mut self,
        encoders: &mut Encoders,
        compression: &Compression,
        bucket_size: u64,
    ) -> Result<Vec<u8>> {
        let columns = &self.columns;
        let order = columns.order();
        let mut body = Vec::with_capacity(columns.total_size() + 1024);
        let mut buckets = Vec::new();
        for group in columns.groups(&order) {
            for bucket in split_into_buckets(&group, bucket_size) {
                let begin = body.len();
                if *compression == Compression::None {
                    bucket
                        .iter()
                        .for_each(|column| body.extend_from_slice(column.bytes()));
                } else {
                    self.joined.clear();
                    bucket
                        .iter()
                        .for_each(|column| self.joined.extend_from_slice(column.bytes()));
                    encoders.compress(compression, &[&self.joined], &mut body)?;
                }
                buckets.push(body.len() - begin);
            }
        }
        let machine = machine::Machine::build(&columns.chain());
        let header = self.header(&machine, &order, &buckets);
        let transitions = machine.transitions(columns.chain().path);
        encoders.compress(compression, &[&transitions], &mut body)?;

        let mut data = vec![compression.kind().byte()];
        let mut stored = Vec::new();
        encoders.compress(compression, &[&header], &mut stored)?;
        varint::push(&mut data, stored.len() as u64);
        data.reserve_exact(stored.len() + body.len());
        data.append(&mut stored);
        data.append(&mut body);
        Ok(data)
    }

    fn header(&self, machine: &machine::Machine, order: &[u32], buckets: &[usize]) -> Vec<u8> {
        let columns = &self.columns;
        let lengths = columns.lengths();
        let mut header = Vec::new();
        varint::push(&mut header, buckets.len() as u64);
        varint::push(
            &mut header,
            order.len() as u64 + u64::from(!lengths.is_empty()),
        );
        buckets
            .iter()
            .for_each(|&size| varint::push(&mut header, size as u64));
        let mut buffer_of = vec![0u64; order.len()];
        for (buffer, &column) in order.iter().enumerate() {
            buffer_of[column as usize] = buffer as u64;
            varint::push(&mut header, columns.get(column).len() as u64);
        }
        if !lengths.is_empty() {
            varint::push(&mut header, lengths.len() as u64);
        }

        varint::push(&mut header, machine.states.len() as u64);
        let mut next = Vec::new();
        let mut kinds = Vec::new();
        let mut buffers = Vec::new();
        for state in &machine.states {
            varint::push(&mut next, machine.next_of(state));
            let Some(event) = state.event() else {
                varint::push(&mut header, u64::from(super::tag::NO_OP));
                continue;
            };
            let shown = columns.show(event);
            varint::push(&mut header, u64::from(shown.tag));
            if shown.tag >= 8 && shown.tag & 7 == wire::VARINT {
                kinds.push(shown.kind);
            }
            if let Some(column) = shown.column {
                varint::push(&mut buffers, buffer_of[column as usize]);
            }
        }
        header.append(&mut next);
        header.append(&mut kinds);
        header.append(&mut buffers);
        varint::push(&mut header, machine.first as u64);
        header
    }
}

/// Divides the buffers of a group, which come smallest first, among buckets.
///
/// Sizes are decided from the largest buffer down: a bucket is complete when half of the next buffer would
/// reach its size, and takes all the rest once that is at most half of it.
fn split_into_buckets<'c, 'a>(
    group: &'c [&'a Column],
    bucket_size: u64,
) -> impl Iterator<Item = &'c [&'a Column]> {
    let mut remaining: u64 = group.iter().map(|column| column.len() as u64).sum();
    let mut current = 0;
    let mut starts = Vec::new();
    for (index, column) in group.iter().enumerate().rev() {
        let size = column.len() as u64;
        if current > 0 && current + size / 2 >= bucket_size {
            starts.push(index + 1);
            current = 0;
        }
        current += size;
        remaining -= size;
        if remaining <= bucket_size / 2 {
            break;
        }
    }
    starts.push(0);
    starts.reverse();
    let ends = starts.clone().into_iter().skip(1).chain([group.len()]);
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| group.get(start..end).unwrap_or_default())
        .filter(|bucket| !bucket.is_empty())
}
