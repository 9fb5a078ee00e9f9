//! Detecting files that look like inputs but aren't: compressed files, error pages saved as
//! downloads, files from other programs. Every function that opens an input uses this module, so
//! that all errors describe a file in the same way.

use std::fs::File;
use std::io;
use std::path::Path;

use record_file::ReadAt;

use super::{Candidate, CandidateKind, Confidence, Format, Registry};
use crate::wire::{Input, SourceInput, WireCursor};
use crate::{Error, ErrorKind, Result};

/// The first bytes of files that are not inputs, with a description of each kind of file.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "it is compressed with gzip"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd"),
    (b"BZh", "it is compressed with bzip2"),
    (b"\xfd7zXZ\0", "it is compressed with xz"),
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
];

/// Extensions of files that are never messages and never empty.
const NEVER_EMPTY: &[&str] = &[
    "fb",
    "gz",
    "h5",
    "hdf5",
    "html",
    "index",
    "json",
    "npy",
    "npz",
    "pt",
    "pth",
    "safetensors",
    "sdnb",
    "sdz",
    "tar",
    "xz",
    "zip",
    "zst",
];

/// Description of a file that begins like JSON, for errors.
const JSON: &str = "it is text that begins like JSON";

/// Beginning of the pointers that Git LFS leaves in place of large files.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/";

impl Registry {
    /// Fails if an input evidently can't be opened: it begins neither like a message nor like a
    /// file of any format. The error describes the actual kind of file, if known. `companion` is
    /// the file that accompanies the input.
    ///
    /// Reads only the beginning and the end of the file, which formats use for recognition. Accepts
    /// folders, and content that a format is certain of. Files in chunks are not checked.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use proto_splitter_core::formats::{Candidate, Registry};
    ///
    /// let page = b"<!DOCTYPE html><title>Not found</title>".to_vec();
    /// let page = Candidate::of_source("model.pb".as_ref(), Arc::new(page))?;
    /// let error = Registry::new(&[]).check(&page, None).unwrap_err();
    /// assert!(error.to_string().contains("an HTML page"));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`], with the path.
    pub fn check(&self, candidate: &Candidate<'_>, companion: Option<&Path>) -> Result<()> {
        if candidate.kind() != CandidateKind::File {
            return Ok(());
        }
        let known = self.recognize_with(candidate, companion);
        let checked = match known {
            Some(format) if format.recognize(candidate) == Some(Confidence::Certain) => Ok(()),
            Some(format) => check_named(candidate, format),
            None => check_message(candidate),
        };
        checked.map_err(|error| error.in_file(candidate.path()))
    }
}

/// Fails if a file whose name fits a format isn't a file of that format.
fn check_named(candidate: &Candidate<'_>, format: &dyn Format) -> Result<()> {
    let title = format.title();
    let is_one_message = format.companion().is_none() && !format.message_types().is_empty();
    if candidate.size() == 0 && is_one_message {
        let message = format!("the file is empty, so it is no {title}");
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    // Old versions of a program's files may be JSON, in which case the format reports a better
    // error.
    let what = download(candidate.head()).filter(|what| is_one_message || what != JSON);
    match (front(candidate), what) {
        (Err(_), Some(what)) => {
            let message = format!("no {title}: {what}");
            Err(Error::new(ErrorKind::InvalidMessage, message))
        }
        _ => Ok(()),
    }
}

/// Fails if a file that no format recognizes is evidently not a message.
fn check_message(candidate: &Candidate<'_>) -> Result<()> {
    let extension = candidate.extension();
    let by_name = extension.filter(|ending| NEVER_EMPTY.contains(&ending.as_str()));
    if let (0, Some(ending)) = (candidate.size(), by_name) {
        let message = format!("the file is empty, so it is no .{ending} file");
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    let Err(error) = front(candidate) else {
        return Ok(());
    };
    let what = describe(candidate.head(), candidate.size());
    let what = what.or_else(|| match error.kind() {
        ErrorKind::InvalidMessage => {
            let (head, size) = (candidate.head(), MOST);
            how_much_is_cut(Front { head, size }, candidate.size())
        }
        _ => None,
    });
    Err(match what {
        Some(what) => Error::new(error.kind(), format!("{error}; {what}")),
        None => error,
    })
}

/// Fails if the first bytes of a file are not the fields of a message.
fn front(candidate: &Candidate<'_>) -> Result<()> {
    let mut cursor = WireCursor::new(Front {
        head: candidate.head(),
        size: candidate.size(),
    });
    loop {
        match cursor.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            // The field continues after the bytes that were read.
            Err(error) if error.kind() == ErrorKind::Io => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The beginning of a file as the input of a cursor. Reading the remainder of the file fails.
struct Front<'a> {
    head: &'a [u8],
    size: u64,
}

impl Input for Front<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn fetch(&mut self, position: u64, want: usize) -> Result<&[u8]> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let bytes = self.head.get(from..).unwrap_or_default();
        if bytes.len() < want && (self.head.len() as u64) < self.size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }
}

/// Adds a description of the actual kind of file, if known, to the error for a file that was
/// supposed to be in chunks.
pub(super) fn no_chunks(error: Error, candidate: &Candidate<'_>) -> Error {
    let what = match (error.kind(), candidate.size()) {
        (ErrorKind::NotChunked, 0) => Some("it is empty".to_owned()),
        (ErrorKind::NotChunked, size) => describe(candidate.head(), size),
        _ => None,
    };
    match what {
        Some(what) => Error::new(error.kind(), format!("{error}; {what}")),
        None => error,
    }
}

/// Describes the actual kind of a file that turned out not to be a message, or how much of a
/// truncated message is missing; `None` if unknown.
pub fn what_else(path: &Path) -> Option<String> {
    // A pipe is not described, since it can't be opened again.
    let candidate = Candidate::new(path).ok()?;
    if candidate.kind() != CandidateKind::File {
        return None;
    }
    let missing = || {
        let file = File::open(path).ok()?;
        let (file, size) = (&file, candidate.size());
        how_much_is_cut(SourceInput::new(&Endless { file, size }, MOST), size)
    };
    describe(candidate.head(), candidate.size()).or_else(missing)
}

/// Describes how many bytes are missing, if only the last field is incomplete. `endless` is the
/// file of `size` bytes, or its beginning, followed by zeros.
fn how_much_is_cut(endless: impl Input, size: u64) -> Option<String> {
    let mut cursor = WireCursor::new(endless);
    while cursor.position() < size {
        cursor.next().ok()??;
    }
    let missing = cursor.position() - size;
    (missing > 0).then(|| format!("if the file is cut, {missing} bytes are missing"))
}

/// Size assumed for the complete message when a file may be truncated, in bytes: 1 TiB.
const MOST: u64 = 1 << 40;

/// A file followed by zeros.
struct Endless<'a> {
    file: &'a File,
    size: u64,
}

impl ReadAt for Endless<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset < self.size {
            return ReadAt::read_at(self.file, offset, buf);
        }
        buf.fill(0);
        Ok(buf.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(MOST)
    }
}

/// Describes a file with this beginning; `None` if the kind is unknown, or a file of a supported
/// format may begin like that.
fn download(head: &[u8]) -> Option<String> {
    let known = BEGINNINGS.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, what)) = known {
        return Some((*what).to_owned());
    }
    let text = text(head)?;
    let front = text.trim_start();
    let starts_with = |tag: &str| {
        let front = front.get(..tag.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(tag))
    };
    if front.starts_with(LFS_POINTER) {
        let mut lines = front.lines();
        let size = lines.find_map(|line| line.strip_prefix("size ")?.parse().ok());
        let of = size.map_or(String::new(), |size: u64| format!(" to {size} bytes"));
        return Some(format!(
            "it is a Git LFS pointer{of}, which `git lfs pull` replaces with the file"
        ));
    }
    if starts_with("<!doctype html") || starts_with("<html") {
        return Some("it is an HTML page, maybe one that was downloaded by mistake".to_owned());
    }
    Some(match front.chars().next()? {
        '{' | '[' => JSON.to_owned(),
        '<' => "it is text that begins like XML or HTML".to_owned(),
        _ => "it is text, maybe in protobuf's text format".to_owned(),
    })
}

/// Describes a file with this beginning and size; `None` if its kind is unknown.
fn describe(head: &[u8], size: u64) -> Option<String> {
    if head.starts_with(b"PK\x03\x04") {
        return Some("it is a zip archive".to_owned());
    }
    match flatbuffer(head, size) {
        Some(identifier) => Some(format!("it is a FlatBuffer of the kind {identifier}")),
        None => download(head),
    }
}

/// Returns the identifier of a FlatBuffer: four letters or digits after the offset of its root.
fn flatbuffer(head: &[u8], size: u64) -> Option<&str> {
    let (root, rest) = head.split_first_chunk::<4>()?;
    let identifier = rest.get(..4)?;
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let inside = (8..size).contains(&u64::from(u32::from_le_bytes(*root)));
    if inside && identifier.iter().all(is_name) {
        std::str::from_utf8(identifier).ok()
    } else {
        None
    }
}

/// Returns the beginning of a file as text; `None` if it isn't text.
fn text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut at the end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let printable = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(printable).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_cut_message_says_how_much_is_missing() {
        let whole = b"\x08\x01\x12\x05hello\x1a\x0aabcdefghij";
        let cut = |len: usize| {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &whole[..len]).unwrap();
            let (file, size) = (&file, len as u64);
            how_much_is_cut(SourceInput::new(&Endless { file, size }, MOST), size)
        };
        assert_eq!(cut(whole.len()), None);
        assert_eq!(cut(9), None);
        let said = |missing| Some(format!("if the file is cut, {missing} bytes are missing"));
        assert_eq!(cut(whole.len() - 3), said(3));
        assert_eq!(cut(4), said(5));
    }

    #[test]
    fn what_is_not_a_message_is_named() {
        for (head, what) in [
            (&b"\x1f\x8b\x08\0"[..], Some("gzip")),
            (b"\x28\xb5\x2f\xfd\x04", Some("zstd")),
            (b"PK\x03\x04\x14\0", Some("zip archive")),
            (b"\x89HDF\r\n\x1a\n\0", Some("HDF5")),
            (
                b"\x1c\0\0\0TFL3\0\0\0\0",
                Some("FlatBuffer of the kind TFL3"),
            ),
            (b"{\n  \"node\": []", Some("JSON")),
            (b"[1, 2]", Some("JSON")),
            (b"<!doctype html>", Some("an HTML page")),
            (b"<?xml version", Some("XML")),
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n",
                Some("a Git LFS pointer to 12345 bytes"),
            ),
            (b"node {\n  name: \"x\xc3", Some("protobuf's text format")),
            (b"", None),
            (b"\x0a\x03abc", None),
            (b"\x08\x01", None),
            (b"\xff\xff\xff\xffTFL3", None),
        ] {
            let found = describe(head, 100);
            match what {
                None => assert_eq!(found, None, "{}", head.escape_ascii()),
                Some(what) => assert!(found.unwrap().contains(what), "{what}"),
            }
        }
    }
    #[test]
    fn no_message_is_taken_for_anything_else_by_its_beginning() {
        // The first two messages begin like a bzip2 file and like text.
        let long = [&b"BZ"[..], &[0; 0x5a]].concat();
        let text = [&b"\n "[..], &[b'x'; 0x20]].concat();
        for message in [long, text, Vec::new()] {
            let candidate =
                Candidate::of_source("m.pb".as_ref(), Arc::new(message.clone())).unwrap();
            assert!(Registry::new(&[]).check(&candidate, None).is_ok());
        }
    }

    #[test]
    fn only_the_front_is_looked_at() {
        let mut message = [&b"\x0a\xf0\xff\x03"[..], &[7; 0xfff0]].concat();
        message.extend(b"\xff\xff");
        let candidate = Candidate::of_source("m.pb".as_ref(), Arc::new(message.clone())).unwrap();
        assert!(Registry::new(&[]).check(&candidate, None).is_ok());
        message.insert(0, 0);
        let candidate = Candidate::of_source("m.pb".as_ref(), Arc::new(message.clone())).unwrap();
        let error = Registry::new(&[]).check(&candidate, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    }
}
