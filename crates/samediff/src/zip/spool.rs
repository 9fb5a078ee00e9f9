//! Inflating deflated entries into memory or into a temporary file, for random access.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto_splitter_core::atomic::check_space;
use record_file::ReadAt;

use crate::{Error, ErrorKind, Result};

/// Maximum size of an entry to hold in memory: 1 MiB. A larger entry is written to a temporary
/// file.
const IN_MEMORY: u64 = 1 << 20;

/// The remaining disk space that temporary files may use, in bytes.
#[derive(Clone)]
pub(super) struct Room {
    left: Arc<AtomicU64>,
}

impl Room {
    pub(super) fn new(bytes: u64) -> Room {
        Room {
            left: Arc::new(AtomicU64::new(bytes)),
        }
    }

    fn take(&self, bytes: u64) -> Result<Taken> {
        let take = |left: u64| left.checked_sub(bytes);
        match self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            Ok(_) => Ok(Taken {
                room: self.clone(),
                bytes,
            }),
            Err(left) => {
                let message =
                    format!("{bytes} bytes to inflate, but only {left} more are allowed at a time");
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
        }
    }
}

/// Disk space that a temporary file uses. Dropping this value makes the space available again.
struct Taken {
    room: Room,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A temporary file with the bytes of an entry.
struct Spooled {
    file: File,
    _room: Taken,
}

impl ReadAt for Spooled {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

/// Reads a stream of at most `len` bytes to its end, and returns the bytes for random access. If
/// `len` is large, they are in a temporary file, for which `room` must have enough space.
pub(super) fn spool(mut stream: impl Read, len: u64, room: &Room) -> Result<Arc<dyn ReadAt>> {
    if len <= IN_MEMORY {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        return Ok(Arc::new(bytes));
    }
    let taken = room.take(len)?;
    check_space(&std::env::temp_dir().join("inflated"), len)?;
    let mut file: File = tempfile::tempfile()?;
    io::copy(&mut stream, &mut file)?;
    Ok(Arc::new(Spooled { file, _room: taken }))
}
