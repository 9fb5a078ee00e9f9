//! Comparing a merge with the message that is said to have been split.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// Compares what is written to it with a file, byte by byte.
#[derive(Debug)]
pub(super) struct Compare {
    original: BufReader<File>,
    position: u64,
    buffer: Vec<u8>,
    different: Option<u64>,
}

impl Compare {
    pub(super) fn with(path: &Path) -> io::Result<Self> {
        let original = BufReader::new(File::open(path)?);
        Ok(Compare {
            original,
            position: 0,
            buffer: Vec::new(),
            different: None,
        })
    }

    /// Where the first byte is that differs, all being written; where one ends and the other goes
    /// on counts too.
    pub(super) fn finish(mut self) -> io::Result<Option<u64>> {
        if self.different.is_none() && self.original.read(&mut [0])? != 0 {
            self.different = Some(self.position);
        }
        Ok(self.different)
    }
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.different.is_some() {
            return Ok(bytes.len());
        }
        self.buffer.clear();
        self.original
            .by_ref()
            .take(bytes.len() as u64)
            .read_to_end(&mut self.buffer)?;
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
    use std::fs;

    use super::*;

    #[test]
    fn bytes_are_compared_up_to_the_end_of_both() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("original");
        fs::write(&file, b"0123456789").unwrap();
        let compare = |written: &[&[u8]]| {
            let mut compare = Compare::with(&file).unwrap();
            for piece in written {
                compare.write_all(piece).unwrap();
            }
            compare.finish().unwrap()
        };
        assert_eq!(compare(&[b"01234", b"56789"]), None);
        assert_eq!(compare(&[b"01234", b"5x789", b"abc"]), Some(6));
        assert_eq!(compare(&[b"01234"]), Some(5));
        assert_eq!(compare(&[b"0123456789", b"x"]), Some(10));
    }
}
