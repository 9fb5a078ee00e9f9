//! Files put together chunk by chunk, with whatever claims: what no writer would write.
use highway::{HighwayHash, HighwayHasher, Key};

const BLOCK: usize = 1 << 16;

/// A chunk to be: its kind, its claims, its data.
#[derive(Debug, Clone)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) num_records: u64,
    pub(crate) decoded_data_size: u64,
    pub(crate) data: &'a [u8],
    /// Other than the length of the data, if it lies.
    pub(crate) data_size: Option<u64>,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(kind: u8, num_records: u64, decoded_data_size: u64, data: &'a [u8]) -> Self {
        Frame {
            kind,
            num_records,
            decoded_data_size,
            data,
            data_size: None,
        }
    }
}

/// A file of the frames, after a signature.
pub(crate) fn file(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, &Frame::new(b's', 0, 0, &[]));
    for frame in frames {
        push(&mut out, frame);
    }
    out
}

/// Appends a chunk where the file ends, and returns where that was.
pub(crate) fn push(file: &mut Vec<u8>, frame: &Frame<'_>) -> usize {
    let begin = file.len();
    let mut header = Vec::new();
    let data_size = frame.data_size.unwrap_or(frame.data.len() as u64);
    header.extend(data_size.to_le_bytes());
    header.extend(hash(frame.data).to_le_bytes());
    header.extend((frame.num_records << 8 | u64::from(frame.kind)).to_le_bytes());
    header.extend(frame.decoded_data_size.to_le_bytes());
    let mut payload = hash(&header).to_le_bytes().to_vec();
    payload.extend(header);
    payload.extend(frame.data);

    let end_of_data = end_after(begin, payload.len());
    // Every record needs a position of its own; of claims beyond that nothing is written.
    let records = usize::try_from(frame.num_records.min(1 << 20)).unwrap_or(0);
    let end = end_of_data.max(boundary_from(begin + records));
    let mut payload = payload.into_iter();
    while file.len() < end {
        if file.len().is_multiple_of(BLOCK) {
            let distances = [file.len() - begin, end - file.len()];
            let words: Vec<u8> = distances
                .iter()
                .flat_map(|&distance| (distance as u64).to_le_bytes())
                .collect();
            file.extend(hash(&words).to_le_bytes());
            file.extend(words);
        }
        file.push(payload.next().unwrap_or(0));
    }
    begin
}

/// Where so many bytes end that begin at `begin`, past the block headers between them.
fn end_after(begin: usize, len: usize) -> usize {
    let mut end = begin;
    for _ in 0..len {
        if end.is_multiple_of(BLOCK) {
            end += 24;
        }
        end += 1;
    }
    end
}

/// The first position from `pos` on at which a chunk can begin: a block's header can't be.
fn boundary_from(pos: usize) -> usize {
    match pos % BLOCK {
        within @ 1..=24 => pos - within + 25,
        _ => pos,
    }
}

/// HighwayHash-64, with the format's key.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let half = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let [a, b] = [half(b"Riegeli/"), half(b"records\n")];
    HighwayHasher::new(Key([a, b, a, b])).hash64(bytes)
}

/// Appends a varint.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A varint.
pub(crate) fn varint_of(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, value);
    out
}
