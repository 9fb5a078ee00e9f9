//! Writing at several offsets in one file from several threads.

use std::borrow::Borrow;
use std::fs::File;
#[cfg(target_os = "linux")]
use std::io::IoSlice;
use std::io::{self, Seek, SeekFrom, Write};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;

/// Number of bytes to write before asking the kernel to write them to the disk: 8 MiB. The kernel
/// does so while the next bytes are read and hashed.
#[cfg(target_os = "linux")]
const SENT_FROM: u64 = 8 << 20;

/// Best size for one write: 1 MiB. Smaller writes are slower, since threads that write to the same
/// file wait for each other at every write.
pub const WRITE_LEN: usize = 1 << 20;

/// A writer with its own offset in a file, so that several writers can write to the same file. The
/// file is synced once at the end, so writes don't wait for the disk.
#[derive(Debug)]
pub(crate) struct FileAt<F> {
    file: F,
    offset: u64,
    /// Offset up to which the kernel was asked to write bytes to the disk.
    #[cfg(target_os = "linux")]
    sent: u64,
}

impl<F: Borrow<File>> FileAt<F> {
    pub(crate) fn new(file: F, offset: u64) -> Self {
        FileAt {
            file,
            offset,
            #[cfg(target_os = "linux")]
            sent: offset,
        }
    }

    pub(crate) fn file(&self) -> &File {
        self.file.borrow()
    }

    fn wrote(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        #[cfg(target_os = "linux")]
        if let Some(len) = self.offset.checked_sub(self.sent)
            && len >= SENT_FROM
        {
            // This advice makes the kernel start writing dirty pages to the disk, and keep them in
            // memory. Errors are ignored, since it is only a hint.
            let advice = rustix::fs::Advice::DontNeed;
            let _ =
                rustix::fs::fadvise(self.file.borrow(), self.sent, NonZeroU64::new(len), advice);
            self.sent = self.offset;
        }
    }
}

impl<F: Borrow<File>> Write for FileAt<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = write_at(self.file.borrow(), bytes, self.offset)?;
        self.wrote(n);
        Ok(n)
    }

    #[cfg(target_os = "linux")]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        /// Maximum number of buffers in one vectored write: Linux's `IOV_MAX`.
        const MOST: usize = 1024;
        let slices = &slices[..slices.len().min(MOST)];
        let n = rustix::io::pwritev(self.file.borrow(), slices, self.offset)?;
        self.wrote(n);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: Borrow<File>> Seek for FileAt<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(distance) => self.offset.checked_add_signed(distance),
            SeekFrom::End(distance) => self
                .file
                .borrow()
                .metadata()?
                .len()
                .checked_add_signed(distance),
        };
        self.offset = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.offset)
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

// On WebAssembly, std can't open files.
#[cfg(not(any(unix, windows)))]
fn write_at(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
