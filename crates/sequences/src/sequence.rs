//! Presenting a sequence of messages as one message, which can be read by position.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use proto_splitter_core::formats::FileOffsets;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::wire::{Input, MAX_VARINT_LEN, SourceInput, decode_varint, put_varint};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{ReadAt, is_record_file};

use crate::group::{Group, Groups};
use crate::recent::{Costly, Recent};
use crate::records::Records;
use crate::root::Root;

/// Maximum total size of groups of small elements in the cache, in bytes.
const MAX_KEPT: u64 = 8 << 20;

/// A sequence of messages, presented as one message that contains them in a repeated field.
///
/// A delimited file contains, for each message:
///
/// ```text
/// | length (varint) | message |
/// ```
///
/// This is the format that [protobuf's libraries
/// write](https://protobuf.dev/programming-guides/techniques/#streaming). In a Riegeli file, each
/// message is a record. The message that represents the sequence contains, for each message in the
/// file:
///
/// ```text
/// | tag (varint) | length (varint) | message |
/// ```
///
/// If the file is delimited, the message contains each length as it is encoded in the file. When
/// the sequence is opened, all lengths are read once to build an index, which needs 24 bytes of
/// memory for each 256 KiB of elements.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::progress::Progress;
/// use proto_splitter_sequences::{Root, Sequence};
/// use record_file::ReadAt;
///
/// // Two messages, with one field each.
/// let file = Arc::new(b"\x02\x08\x01\x02\x08\x02".to_vec());
/// let sequence = Sequence::open(file, &Root::untyped(), &Progress::default())?;
/// assert_eq!((sequence.len(), sequence.size()?), (2, 8));
/// let mut bytes = [0; 8];
/// sequence.read_exact_at(0, &mut bytes)?;
/// assert_eq!(&bytes, b"\x0a\x02\x08\x01\x0a\x02\x08\x02");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sequence {
    source: Source,
    tag: Vec<u8>,
    groups: Groups,
    recent: Recent<Small>,
}

/// The file that contains the sequence.
#[derive(Debug)]
enum Source {
    /// Delimited file, in which each element is preceded by its length.
    Delimited(Arc<dyn ReadAt>),
    /// Riegeli file, in which each element is a record.
    Records(Box<Records>),
}

/// The encoded bytes of a group of small elements in the message, including tags and lengths.
#[derive(Debug)]
struct Small(Bytes);

impl Costly for Small {
    fn is_costly(&self) -> bool {
        true
    }
}

impl Sequence {
    /// Opens a Riegeli file or, if the source isn't one, a delimited file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] with the index of the element and its offset if a delimited
    /// file ends inside an element, or a length is missing; [`ErrorKind::Record`] if a Riegeli file
    /// is damaged; [`ErrorKind::Io`] if the file can't be read; [`ErrorKind::Cancelled`] if the
    /// work was cancelled.
    pub fn open(source: Arc<dyn ReadAt>, root: &Root, progress: &Progress) -> Result<Sequence> {
        let tag = root.tag();
        let tag_len = tag.len() as u64;
        let (source, groups) = if is_record_file(&source)? {
            let mut records = Records::new(source)?;
            records.find(u64::MAX)?;
            let groups = Groups::of_records(&records, tag_len, progress)?;
            (Source::Records(Box::new(records)), groups)
        } else {
            let groups = Groups::of_delimited(&*source, tag_len, progress)?;
            (Source::Delimited(source), groups)
        };
        Ok(Sequence {
            source,
            tag,
            groups,
            recent: Recent::new(MAX_KEPT),
        })
    }

    /// Returns the number of elements in the sequence.
    pub fn len(&self) -> u64 {
        self.groups.count()
    }

    /// Returns true if the sequence has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the elements are records, so that reading an element verifies its checksum.
    pub fn is_checked(&self) -> bool {
        matches!(self.source, Source::Records(_))
    }

    /// Returns the bytes that are inserted before an element that is alone in its group: the tag
    /// and, for a record, the length.
    fn front(&self, group: Group, next: Group) -> Vec<u8> {
        let mut front = self.tag.clone();
        if self.is_checked() {
            put_varint(&mut front, next.at - group.at);
        }
        front
    }

    fn read_source(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.source {
            Source::Delimited(source) => source.read_exact_at(offset, buf),
            Source::Records(records) => records.read_exact_at(offset, buf),
        }
    }

    /// Returns the bytes of the message that encode a group of several elements.
    fn small(&self, index: usize, group: Group, next: Group) -> Result<Small> {
        let size = usize::try_from(next.start - group.start).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        match &self.source {
            Source::Records(records) => records.records_in(index, |record| {
                bytes.extend_from_slice(&self.tag);
                put_varint(&mut bytes, record.len() as u64);
                bytes.extend_from_slice(record);
                Ok(())
            })?,
            Source::Delimited(source) => {
                let len = usize::try_from(next.at - group.at).unwrap_or(usize::MAX);
                let mut stored = vec![0; len];
                source.read_exact_at(group.at, &mut stored)?;
                let mut rest = &stored[..];
                while let Some((len, len_len)) = decode_varint(rest) {
                    let end = usize::try_from(len).ok();
                    let end = end.and_then(|len| len_len.checked_add(len));
                    let Some((element, others)) = end.and_then(|end| rest.split_at_checked(end))
                    else {
                        break;
                    };
                    bytes.extend_from_slice(&self.tag);
                    bytes.extend_from_slice(element);
                    rest = others;
                }
            }
        }
        if bytes.len() == size {
            return Ok(Small(bytes.into()));
        }
        let message = "the lengths of the messages have changed since the file was opened";
        let error = Error::new(ErrorKind::SourceChanged, message).at_offset(group.at);
        Err(error.context(format_args!("message {}", group.first)))
    }
}

impl FileOffsets for Sequence {
    fn file_offset(&self, offset: u64) -> Option<u64> {
        let Source::Delimited(source) = &self.source else {
            // Records may be compressed, so their bytes have no offsets in the file.
            return None;
        };
        let size = source.size().ok()?;
        let Some((_, group, _)) = self.groups.find(offset) else {
            return Some(size);
        };
        let mut input = SourceInput::new(&**source, size);
        let (mut start, mut at) = (group.start, group.at);
        let tag_len = self.tag.len() as u64;
        loop {
            let bytes = input.fetch(at, MAX_VARINT_LEN).ok()?;
            let (len, len_len) = decode_varint(bytes)?;
            let stored = len.checked_add(len_len as u64)?;
            let end = start.checked_add(tag_len)?.checked_add(stored)?;
            if offset < end {
                return at.checked_add((offset - start).saturating_sub(tag_len));
            }
            start = end;
            at = at.checked_add(stored).filter(|&at| at < size)?;
        }
    }
}

impl ReadAt for Sequence {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some((index, group, next)) = self.groups.find(offset) else {
            return Ok(0);
        };
        let skip = offset - group.start;
        let left = usize::try_from(next.start - offset).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let buf = &mut buf[..len];
        if next.first - group.first > 1 {
            let size = next.start - group.start;
            let small = self
                .recent
                .get_or_make(index, size, || self.small(index, group, next))?;
            return small.0.read_at(skip, buf);
        }
        let front = self.front(group, next);
        match skip.checked_sub(front.len() as u64) {
            Some(skip) => self.read_source(group.at + skip, buf).map(|()| len),
            None => front.read_at(skip, buf),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.groups.size())
    }
}
