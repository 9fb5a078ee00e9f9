//! Taking records apart.
//!
//! Each record is told to be a message or not ([`fields`]). Of a message, every field is an *event*: what a state
//! of the decoder's machine emits. Its value goes to the *column* of its path ([`columns`]), the chain of events is
//! kept as steps from one event to the next, and from how often each step is taken comes the state machine
//! ([`machine`]). What another writer of this format makes of the same records is the same, byte by byte, as far
//! as the compressor gives it.
mod chain;
mod columns;
mod fields;
mod lists;
mod machine;
mod pairs;

use chain::Chain;
use columns::{Column, Columns};
use fields::Fields;
use machine::Machine;

use super::{tag, wire};
use crate::codec::{Encoders, most_compressed};
use crate::compression::Compression;
use crate::error::Result;
use crate::varint;

/// Bytes of most headers.
const HEADER: usize = 4 << 10;
/// Memory that is kept for the next chunk even if this one needed less.
const KEPT: usize = 4 << 20;

/// Encodes chunks one after the other, keeping memory from each for the next.
#[derive(Debug, Default)]
pub(crate) struct ChunkEncoder {
    fields: Fields,
    columns: Columns,
    chain: Chain,
    /// The buffers of a bucket, joined to be compressed.
    joined: Vec<u8>,
}

impl ChunkEncoder {
    /// Appends to `out` a chunk of records that lie in `values` one after the other, `sizes` having one varint each.
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
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.columns.clear(values.len());
        let mut rest = values;
        while let Some(size) = varint::take(&mut sizes) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let (record, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            if self.fields.find(record) {
                self.columns.add_message(record, self.fields.as_slice());
            } else {
                self.columns.add_other(record);
            }
        }
        let columns = &self.columns;
        self.chain.find_steps(columns.events(), columns.chain());
        let machine = Machine::build(&self.chain);
        let transitions = machine.transitions(&self.chain);
        let order = columns.order();
        out.push(compression.kind().byte());
        if *compression == Compression::None {
            let groups = columns.groups(&order);
            let buckets: Vec<_> = groups.iter().map(|group| size_of_all(group)).collect();
            let header = self.header(&machine, &order, &buckets);
            varint::push(out, header.len() as u64);
            out.reserve(header.len() + columns.total_size() + transitions.len());
            out.extend_from_slice(&header);
            for column in groups.iter().flatten() {
                out.extend_from_slice(column.bytes());
            }
            out.extend_from_slice(&transitions);
            return Ok(());
        }

        // The header comes first, but says how long the buckets are: it is put in front of them in the end.
        let front = out.len();
        let room = |size| most_compressed(compression, size);
        out.reserve_exact(room(columns.total_size()) + room(transitions.len()) + room(HEADER));
        let mut buckets = Vec::new();
        for group in columns.groups(&order) {
            for bucket in split_into_buckets(&group, bucket_size.max(1)) {
                let bytes = if let [one] = bucket {
                    one.bytes()
                } else {
                    self.joined.clear();
                    for column in bucket {
                        self.joined.extend_from_slice(column.bytes());
                    }
                    &self.joined
                };
                let begin = out.len();
                encoders.compress(compression, &[bytes], out)?;
                buckets.push((out.len() - begin) as u64);
            }
        }
        let mut header = Vec::new();
        let plain = self.header(&machine, &order, &buckets);
        encoders.compress(compression, &[&plain], &mut header)?;
        let mut len = Vec::with_capacity(varint::MAX_LEN);
        varint::push(&mut len, header.len() as u64);
        out.splice(front..front, len.into_iter().chain(header));
        encoders.compress(compression, &[&transitions], out)?;
        if self.joined.capacity() > KEPT.max(values.len().saturating_mul(4)) {
            self.joined = Vec::new();
        }
        Ok(())
    }

    fn header(&self, machine: &Machine, order: &[u32], buckets: &[u64]) -> Vec<u8> {
        let columns = &self.columns;
        let lengths = columns.lengths();
        let mut header = Vec::new();
        varint::push(&mut header, buckets.len() as u64);
        let buffers = order.len() + usize::from(!lengths.is_empty());
        varint::push(&mut header, buffers as u64);
        for &size in buckets {
            varint::push(&mut header, size);
        }
        let mut buffer_of = vec![0u64; order.len()];
        for (buffer, &column) in (0..).zip(order) {
            buffer_of[column as usize] = buffer;
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
                varint::push(&mut header, u64::from(tag::NO_OP));
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

fn size_of_all(columns: &[&Column]) -> u64 {
    columns.iter().map(|column| column.len() as u64).sum()
}

/// Divides the buffers of a group, which come smallest first, among buckets.
///
/// Sizes are decided from the largest buffer down: a bucket is complete when half of the next buffer would
/// reach its size, and takes all the rest once that is at most half of it.
fn split_into_buckets<'c, 'a>(
    group: &'c [&'a Column],
    bucket_size: u64,
) -> impl Iterator<Item = &'c [&'a Column]> {
    let mut remaining = size_of_all(group);
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
