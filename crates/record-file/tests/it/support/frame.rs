//! Files assembled chunk by chunk, which can make claims that no writer would make.
use highway::{HighwayHash, HighwayHasher, Key};

const BLOCK: usize = 1 << 16;

/// A chunk to assemble, with its kind, its claims and its data.
#[derive(Debug, Clone)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) num_records: u64,
    pub(crate) decoded_data_size: u64,
    pub(crate) data: &'a [u8],
    /// Claimed length of the data, if the claim is false; `None` for the true length.
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

/// Returns a file with a signature, followed by the frames.
pub(crate) fn file(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, &Frame::new(b's', 0, 0, &[]));
    for frame in frames {
        push(&mut out, frame);
    }
    out
}

/// Appends a chunk at the end of the file, and returns its position.
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
    // Every record needs its own position. The fill is limited, so it is too short for excessive
    // claims.
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

/// Returns the end of `len` payload bytes that begin at `begin`, including the block headers inside
/// them.
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

/// Returns the first position at or after `pos` where a chunk can begin, which is never in a block
/// header.
fn boundary_from(pos: usize) -> usize {
    match pos % BLOCK {
        within @ 1..=24 => pos - within + 25,
        _ => pos,
    }
}

/// Computes the HighwayHash-64 with the key of the file format.
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

/// Returns an encoded varint.
pub(crate) fn varint_of(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, value);
    out
}

/// Corrects the hash of every block header in a file, and the hashes of all chunks that can be
/// located by the sizes of earlier chunks, so that the checks after the hashes are tested.
pub(crate) fn mend(file: &mut [u8]) {
    for block in (0..file.len()).step_by(BLOCK) {
        if let Some(header) = file.get_mut(block..block + 24) {
            let sum = hash(&header[8..]);
            header[..8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let mut begin = 0;
    // A chunk has at least its header.
    while let Some(header) = payload(file, begin, 40) {
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        let data_size = usize::try_from(word(8)).unwrap_or(usize::MAX);
        let num_records = usize::try_from(word(24) >> 8).unwrap_or(usize::MAX);
        let data = data_size
            .checked_add(40)
            .and_then(|len| payload(file, begin, len));
        let mut mended = header.clone();
        if let Some(data) = &data {
            mended[16..24].copy_from_slice(&hash(&data[40..]).to_le_bytes());
        }
        let sum = hash(&mended[8..]);
        mended[..8].copy_from_slice(&sum.to_le_bytes());
        for (index, byte) in mended.into_iter().enumerate() {
            file[end_after(begin, index + 1) - 1] = byte;
        }
        let Some(data) = data else { return };
        let end = end_after(begin, data.len());
        begin = end.max(boundary_from(begin.saturating_add(num_records)));
    }
}

/// Returns the first `len` bytes of a chunk that begins at `begin`, without the block headers
/// inside them.
fn payload(file: &[u8], begin: usize, len: usize) -> Option<Vec<u8>> {
    if len > file.len() || begin > file.len() {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut at = begin;
    while out.len() < len {
        if at.is_multiple_of(BLOCK) {
            at += 24;
        }
        out.push(*file.get(at)?);
        at += 1;
    }
    Some(out)
}
