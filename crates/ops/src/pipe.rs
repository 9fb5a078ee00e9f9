//! A pipe from one thread to another.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of writes that the pipe holds before they are read.
const WAITING: usize = 8;

/// Creates the two ends of a pipe.
///
/// Writing fails with [`io::ErrorKind::BrokenPipe`] once the reader is dropped. Reading ends once
/// the writer is dropped.
pub(crate) fn pipe() -> (PipeWriter, PipeReader) {
    let (sender, receiver) = sync_channel(WAITING);
    let reader = PipeReader {
        receiver,
        piece: Vec::new(),
        used: 0,
    };
    (PipeWriter(sender), reader)
}

/// The end of a pipe to which data is written.
#[derive(Debug)]
pub(crate) struct PipeWriter(SyncSender<Vec<u8>>);

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a pipe from which data is read.
#[derive(Debug)]
pub(crate) struct PipeReader {
    receiver: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    /// Number of bytes of `piece` that were already read.
    used: usize,
}

impl BufRead for PipeReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.used == self.piece.len() {
            match self.receiver.recv() {
                Ok(piece) => (self.piece, self.used) = (piece, 0),
                Err(_) => break,
            }
        }
        Ok(&self.piece[self.used..])
    }

    fn consume(&mut self, amount: usize) {
        self.used = self.piece.len().min(self.used + amount);
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_whatever_pieces_up_to_the_end() {
        let (mut writer, mut reader) = pipe();
        let expected: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for piece in expected.chunks(977) {
                    writer.write_all(piece).unwrap();
                    writer.write_all(&[]).unwrap();
                }
                drop(writer);
            });
            let mut read = vec![0; 3];
            reader.read_exact(&mut read).unwrap();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(read, expected);
        });
    }

    #[test]
    fn writing_fails_once_nobody_reads() {
        let (mut writer, reader) = pipe();
        drop(reader);
        let error = writer.write_all(b"more").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
