//! Encoding of transposed chunks: records are split into fields.
//!
//! Each record is classified as a message or as other bytes ([`fields`]). Every field of a message
//! is an *event*, the output of a state of the decoder's machine. The field's value is added to the
//! *column* of its path ([`columns`]), the chain of events is stored as steps from one event to the
//! next, and the frequencies of the steps determine the state machine ([`machine`]). Other writers
//! for this format produce the same bytes from the same records, except for differences between
//! compressors.
mod chain;
mod column;
mod columns;
mod fields;
mod lists;
mod machine;
mod pairs;
mod records;
mod state;

use std::ops::Range;

use chain::Chain;
use columns::{Columns, LENGTHS};
use fields::Fields;
use machine::Machine;
pub(crate) use records::Records;

use super::{tag, wire};
use crate::block_pool::{BlockPool, PieceQueue};
use crate::codec::Encoders;
use crate::compression::Compression;
use crate::error::Result;
use crate::varint;

/// Options for storing a transposed chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage<'a> {
    pub(crate) compression: &'a Compression,
    /// Approximate number of bytes compressed together. Ignored without compression, since buckets
    /// only determine the bytes that are decompressed together.
    pub(crate) bucket_size: u64,
}

/// An encoder for transposed chunks, which is reused for one chunk after another.
///
/// The memory of a chunk consists of blocks, which one step frees and the next step reuses: records
/// are freed as they are split into columns, and columns are freed as they are compressed. Thus,
/// the memory never holds much more than the records, or the columns and their compressed form.
#[derive(Debug, Default)]
pub(crate) struct ChunkEncoder {
    fields: Fields,
    columns: Columns,
    chain: Chain,
}

impl ChunkEncoder {
    /// Encodes a chunk of records. `sizes` has one varint per record. Appends the first part of the
    /// chunk's data, which ends with the description of the state machine and the buffers, to
    /// `front`. Returns the remaining data.
    pub(crate) fn encode(
        &mut self,
        encoders: &mut Encoders,
        storage: Storage<'_>,
        sizes: &[u8],
        records: &mut Records,
        blocks: &mut BlockPool,
        front: &mut Vec<u8>,
    ) -> Result<PieceQueue> {
        self.take_apart(sizes, records, blocks);
        let machine = Machine::build(&self.chain, self.columns.events());
        let mut transitions = machine.transitions(&mut self.chain, blocks);
        let order = self.columns.order();
        let lens: Vec<_> = order.iter().map(|&id| self.columns.len(id)).collect();
        let lengths = self.columns.len(LENGTHS);
        let mut out = PieceQueue::default();
        let mut buckets = Vec::new();
        let Storage {
            compression,
            bucket_size,
        } = storage;
        let bucket_size = match compression {
            Compression::None => u64::MAX,
            _ => bucket_size.max(1),
        };
        for group in self.columns.groups(&order) {
            let sizes: Vec<_> = group.iter().map(|&id| self.columns.len(id)).collect();
            for range in split_into_buckets(&sizes, bucket_size) {
                let size = sizes.get(range.clone()).unwrap_or_default().iter().sum();
                let begin = out.len();
                let mut bucket = encoders.compress_pieces(compression, size, &mut out, blocks)?;
                for &id in group.get(range).unwrap_or_default() {
                    for piece in self.columns.take(id) {
                        bucket.add(piece)?;
                    }
                }
                bucket.finish()?;
                buckets.push(out.len() - begin);
            }
        }
        let header = self.header(&machine, &order, &lens, lengths, &buckets);
        front.push(compression.kind().byte());
        let mut stored = Vec::new();
        encoders.compress(compression, &[&header], &mut stored)?;
        varint::push(front, stored.len() as u64);
        front.append(&mut stored);
        let size = transitions.len();
        let mut stream = encoders.compress_pieces(compression, size, &mut out, blocks)?;
        for piece in transitions.drain() {
            stream.add(piece)?;
        }
        stream.finish()?;
        Ok(out)
    }

    /// Splits the records: adds all values to columns, and all events to the chain. Frees the
    /// records.
    fn take_apart(&mut self, mut sizes: &[u8], records: &mut Records, blocks: &mut BlockPool) {
        let ChunkEncoder {
            fields,
            columns,
            chain,
        } = self;
        columns.clear(records.size());
        chain.clear(records.size(), blocks);
        while let Some(size) = varint::take(&mut sizes) {
            let record = records.take(usize::try_from(size).unwrap_or(usize::MAX), blocks);
            if fields.find(record) {
                columns.add_message(record, fields.as_slice(), blocks);
            } else {
                columns.add_other(record, blocks);
            }
            chain.add(columns.happened(), blocks);
        }
        records.clear(blocks);
    }

    fn header(
        &self,
        machine: &Machine,
        order: &[u32],
        lens: &[u64],
        lengths: u64,
        buckets: &[u64],
    ) -> Vec<u8> {
        let columns = &self.columns;
        let mut header = Vec::new();
        varint::push(&mut header, buckets.len() as u64);
        let buffers = order.len() + usize::from(lengths > 0);
        varint::push(&mut header, buffers as u64);
        for &size in buckets {
            varint::push(&mut header, size);
        }
        let mut buffer_of = vec![0u64; order.len()];
        for ((buffer, &column), &len) in (0..).zip(order).zip(lens) {
            buffer_of[column as usize] = buffer;
            varint::push(&mut header, len);
        }
        if lengths > 0 {
            varint::push(&mut header, lengths);
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

/// Divides the buffers of a group, which are sorted by ascending size, among buckets.
///
/// Buckets are filled from the largest buffer down. A bucket is complete when its size plus half
/// the size of the next buffer reaches `bucket_size`. Once the remaining buffers have at most half
/// of `bucket_size` in total, the current bucket takes all of them.
fn split_into_buckets(sizes: &[u64], bucket_size: u64) -> Vec<Range<usize>> {
    let mut remaining: u64 = sizes.iter().sum();
    let mut current = 0;
    let mut end = sizes.len();
    let mut buckets = Vec::new();
    for (index, &size) in sizes.iter().enumerate().rev() {
        if current > 0 && current + size / 2 >= bucket_size {
            buckets.push(index + 1..end);
            end = index + 1;
            current = 0;
        }
        current += size;
        remaining -= size;
        if remaining <= bucket_size / 2 {
            break;
        }
    }
    buckets.push(0..end);
    buckets.reverse();
    buckets.retain(|bucket| !bucket.is_empty());
    buckets
}
