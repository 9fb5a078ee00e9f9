//! Snappy decompression, piece by piece.
//!
//! The format doesn't limit how far back a copy may refer. Known compressors work on fragments of
//! 64 KiB and never exceed this distance, so the decoder keeps the last 64 KiB of its output, and
//! fails if a copy refers to bytes that weren't kept.
use super::super::step::{Progress, SNAPPY_FRAGMENT, bad_stream, size_differs, window_too_large};
use crate::error::Result;
use crate::varint;

/// Number of decoded bytes at which decoding pauses until the caller has taken them.
const AHEAD: usize = 64 << 10;

/// A decoder for one snappy stream.
pub(crate) struct Decoder {
    /// Decompressed size, decoded from the start of the stream; `None` until it is known.
    size: Option<u64>,
    produced: u64,
    /// The first bytes of the size or of an element whose remaining bytes haven't arrived yet.
    partial: Vec<u8>,
    /// Number of bytes of the current literal that haven't arrived yet.
    literal: u64,
    /// The bytes that copies may refer to, followed by the decoded bytes that the caller hasn't
    /// taken yet.
    window: Vec<u8>,
    taken: usize,
}

/// The tag and operands of an element, decoded.
enum Element {
    Literal(u64),
    Copy { offset: usize, len: usize },
}

impl Decoder {
    pub(crate) fn new() -> Result<Decoder> {
        Ok(Decoder {
            size: None,
            produced: 0,
            partial: Vec::new(),
            literal: 0,
            window: Vec::new(),
            taken: 0,
        })
    }

    /// Decodes some of `input` into `output`. Returns the progress, and true if the stream has
    /// ended.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(Progress, bool)> {
        let mut rest = input;
        while self.window.len() - self.taken < AHEAD.min(output.len().max(1)) {
            let before = rest.len();
            self.decode_some(&mut rest)?;
            if rest.len() == before {
                break;
            }
        }
        let written = output.len().min(self.window.len() - self.taken);
        output[..written].copy_from_slice(&self.window[self.taken..self.taken + written]);
        self.taken += written;
        if self.taken > 4 * SNAPPY_FRAGMENT {
            self.window.drain(..self.taken - SNAPPY_FRAGMENT);
            self.taken = SNAPPY_FRAGMENT;
        }
        let progress = Progress {
            read: input.len() - rest.len(),
            written,
        };
        let is_done = self.size == Some(self.produced) && self.taken == self.window.len();
        Ok((progress, is_done && self.literal == 0))
    }

    /// Decodes an element or a part of it, if the input isn't empty.
    fn decode_some(&mut self, input: &mut &[u8]) -> Result<()> {
        let Some(size) = self.size else {
            return self.read_size(input);
        };
        if self.literal > 0 {
            // At most `AHEAD` bytes of a literal are decoded at once.
            let most = usize::try_from(self.literal)
                .unwrap_or(usize::MAX)
                .min(AHEAD);
            let (now, behind) = input.split_at(most.min(input.len()));
            self.window.extend_from_slice(now);
            self.literal -= now.len() as u64;
            *input = behind;
            return Ok(());
        }
        if self.produced == size {
            return Ok(());
        }
        let Some(element) = self.element(input) else {
            return Ok(());
        };
        let len = match element {
            Element::Literal(len) => {
                self.literal = len;
                len
            }
            Element::Copy { offset, len } => {
                self.copy(offset, len)?;
                len as u64
            }
        };
        self.produced += len;
        if self.produced > size {
            return Err(size_differs(size));
        }
        Ok(())
    }

    fn read_size(&mut self, input: &mut &[u8]) -> Result<()> {
        let Some((&byte, behind)) = input.split_first() else {
            return Ok(());
        };
        *input = behind;
        self.partial.push(byte);
        if byte < 0x80 {
            let size = varint::take(&mut &self.partial[..]);
            self.size = Some(size.ok_or_else(|| bad_stream("snappy stream has no size"))?);
            self.partial.clear();
        } else if self.partial.len() >= varint::MAX_LEN {
            return Err(bad_stream("snappy stream has no size"));
        }
        Ok(())
    }

    /// Removes the tag and operands of an element from the input. Returns `None` if the input ends
    /// before they are complete.
    fn element(&mut self, input: &mut &[u8]) -> Option<Element> {
        if let [tag, ..] = **input
            && self.partial.is_empty()
            && input.len() >= element_len(tag)
        {
            let (head, behind) = input.split_at(element_len(tag));
            *input = behind;
            return Some(parsed(head));
        }
        while let Some((&byte, behind)) = input.split_first() {
            *input = behind;
            self.partial.push(byte);
            if self.partial.len() == element_len(self.partial[0]) {
                let element = parsed(&self.partial);
                self.partial.clear();
                return Some(element);
            }
        }
        None
    }

    fn copy(&mut self, offset: usize, len: usize) -> Result<()> {
        let begin = self.window.len().checked_sub(offset).filter(|_| offset > 0);
        let Some(begin) = begin else {
            return Err(
                if offset > SNAPPY_FRAGMENT && offset as u64 <= self.produced {
                    window_too_large()
                } else {
                    bad_stream("snappy stream copies from before the beginning")
                },
            );
        };
        if offset >= len {
            self.window.extend_from_within(begin..begin + len);
        } else {
            // A copy may repeat its own output.
            for at in begin..begin + len {
                self.window.push(self.window[at]);
            }
        }
        Ok(())
    }
}

/// Returns the length of an element's tag and operands, in bytes. The bytes of a literal don't
/// count.
const fn element_len(tag: u8) -> usize {
    match tag & 3 {
        0 => match tag >> 2 {
            60 => 2,
            61 => 3,
            62 => 4,
            63 => 5,
            _ => 1,
        },
        1 => 2,
        2 => 3,
        _ => 5,
    }
}

fn parsed(head: &[u8]) -> Element {
    let tag = head[0];
    let behind = &head[1..];
    let number = behind
        .iter()
        .rev()
        .fold(0, |all: u32, byte| all << 8 | u32::from(*byte));
    let upper = tag >> 2;
    match tag & 3 {
        0 if upper < 60 => Element::Literal(u64::from(upper) + 1),
        0 => Element::Literal(u64::from(number) + 1),
        1 => Element::Copy {
            offset: (usize::from(tag >> 5) << 8) | number as usize,
            len: usize::from(upper & 7) + 4,
        },
        _ => Element::Copy {
            offset: number as usize,
            len: usize::from(upper) + 1,
        },
    }
}
