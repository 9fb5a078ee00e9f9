//! Comparing a merge with the message that is said to have been split.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use proto_splitter::record_file::ReadAt;

use crate::args::{CompanionArgs, VerifyArgs};
use crate::failure::Failure;
use crate::input::{self, Opening, Shared};
use crate::output::Output;

/// How much of the original is read at a time.
const LARGEST_READ: usize = 1 << 20;

/// The message that a merge is compared with.
pub(super) struct Original {
    pub(super) path: PathBuf,
    /// One in a file, or one that several files make.
    pub(super) bytes: Shared,
    size: u64,
}

impl Original {
    /// Finds it, and fails if it can't be compared with: reading all of the input first would be
    /// long to wait for that error.
    pub(super) fn find(
        args: &VerifyArgs,
        output: &Output<'_>,
    ) -> Result<Option<Original>, Failure> {
        let Some(named) = args.against.as_deref() else {
            return Ok(None);
        };
        let place = input::locate(named, &CompanionArgs::default())?;
        let path = place.file.clone();
        let in_chunks = || {
            let name = input::shown(&path);
            Failure::usage(format!(
                "{name}: in chunks, and --against is for the message in one piece; `protosplit diff` compares any two"
            ))
        };
        let opened = Opening::of(&args.reading, output.objects())
            .alone()
            .progress(output.reading("verifying"))
            .open_at(place);
        let (bytes, size) = match opened {
            Ok(input) => match (input.plain(), input.chunked()) {
                (Some((bytes, size)), _) => (Arc::clone(bytes), size),
                (None, Some(_)) => return Err(in_chunks()),
                (None, None) => {
                    let (name, title) = (input::shown(input.path()), input.title());
                    return Err(Failure::usage(format!(
                        "{name}: {title}: tensors, and no message to compare with; `protosplit diff` compares tensors"
                    )));
                }
            },
            Err(_) if path.is_file() && input::is_chunked_at(&path) => return Err(in_chunks()),
            // A file that isn't what its name says is the message that its bytes are.
            Err(_) if path.is_file() => {
                let failed = |error: io::Error| Failure::io(&path, &error);
                let file = File::open(&path).map_err(failed)?;
                let size = file.metadata().map_err(failed)?.len();
                (Arc::new(file) as Shared, size)
            }
            Err(failure) => return Err(failure),
        };
        Ok(Some(Original { path, bytes, size }))
    }
}

/// Compares what is written to it with the original, byte by byte.
pub(super) struct Compare<'a> {
    original: &'a Original,
    position: u64,
    buffer: Vec<u8>,
    different: Option<u64>,
}

impl<'a> Compare<'a> {
    pub(super) fn with(original: &'a Original) -> Self {
        Compare {
            original,
            position: 0,
            buffer: Vec::new(),
            different: None,
        }
    }

    /// Where the first byte is that differs, all being written; where one ends and the other goes
    /// on counts too.
    pub(super) fn finish(self) -> Option<u64> {
        let goes_on = self.position < self.original.size;
        self.different.or(goes_on.then_some(self.position))
    }
}

impl Write for Compare<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.different.is_some() || bytes.is_empty() {
            return Ok(bytes.len());
        }
        let left = self.original.size.saturating_sub(self.position);
        let there = usize::try_from(left).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(LARGEST_READ)];
        self.buffer.resize(bytes.len().min(there), 0);
        let position = self.position;
        self.original
            .bytes
            .read_exact_at(position, &mut self.buffer)?;
        let equal = bytes
            .iter()
            .zip(&self.buffer)
            .take_while(|(a, b)| a == b)
            .count();
        self.position += equal as u64;
        if equal < bytes.len() {
            self.different = Some(self.position);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_up_to_the_end_of_both() {
        let original = Original {
            path: "original".into(),
            bytes: Arc::new(b"0123456789".to_vec()),
            size: 10,
        };
        let compare = |written: &[&[u8]]| {
            let mut compare = Compare::with(&original);
            for piece in written {
                compare.write_all(piece).unwrap();
            }
            compare.finish()
        };
        assert_eq!(compare(&[b"01234", b"56789"]), None);
        assert_eq!(compare(&[b"01234", b"5x789", b"abc"]), Some(6));
        assert_eq!(compare(&[b"01234"]), Some(5));
        assert_eq!(compare(&[b"0123456789", b"x"]), Some(10));
    }
}
