//! Memory for a merged message.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::merge::read_options::ReadOptions;
use crate::{Error, ErrorKind, Result};

/// Minimum size of a buffer that is allocated in huge pages: 8 MiB. With small pages, half of the
/// time for a merge into fresh memory is spent on page faults.
const HUGE_FROM: usize = 8 << 20;

/// Maximum plausible ratio of a message's size to its file's size. Beyond this ratio, memory is
/// allocated as bytes arrive.
const BELIEVED_RATIO: u64 = 64;

/// Fresh memory for a message.
pub(crate) enum Buffer {
    /// A buffer for the whole message, to fill in any order.
    Small(Vec<u8>),
    /// A buffer for the whole message, in huge pages.
    Huge(MmapMut),
    /// A buffer to append to, since the declared size is implausible.
    Growing(Vec<u8>),
}

impl Buffer {
    /// Allocates memory for `len` bytes.
    pub(crate) fn of(len: u64) -> Result<Buffer> {
        let size = usize::try_from(len).map_err(|_| too_large(len))?;
        if size < HUGE_FROM {
            return Ok(Buffer::Small(vec![0; size]));
        }
        let map = MmapMut::map_anon(size).map_err(|_| too_large(len))?;
        #[cfg(target_os = "linux")]
        // Only a hint: a kernel without huge pages provides small ones.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Buffer::Huge(map))
    }

    /// Returns the bytes to fill.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Buffer::Small(out) | Buffer::Growing(out) => out,
            Buffer::Huge(map) => map,
        }
    }

    /// Allocates memory for a message of `total` bytes from a file of `stored` bytes. If the ratio
    /// of these sizes is implausible, returns [`Buffer::Growing`].
    pub(crate) fn reserve(total: u64, stored: u64, options: &ReadOptions) -> Result<Buffer> {
        let out = reserve(total, stored, options)?;
        let believed = usize::try_from(total).ok();
        if believed.is_none_or(|len| len > out.capacity()) {
            return Ok(Buffer::Growing(out));
        }
        drop(out);
        Buffer::of(total)
    }
}

impl From<Buffer> for Bytes {
    fn from(memory: Buffer) -> Bytes {
        match memory {
            Buffer::Small(out) | Buffer::Growing(out) => out.into(),
            Buffer::Huge(map) => Bytes::from_owner(map),
        }
    }
}

/// Reserves a buffer for a message of `total` bytes, but for at most 64 times the `stored` bytes of
/// its file. Fails if the message exceeds the size limit.
pub(in crate::merge) fn reserve(total: u64, stored: u64, options: &ReadOptions) -> Result<Vec<u8>> {
    let too_large = || too_large(total);
    if total > options.limits.max_message_size {
        return Err(too_large());
    }
    let believed = usize::try_from(total.min(stored.saturating_mul(BELIEVED_RATIO)));
    let mut out = Vec::new();
    out.try_reserve_exact(believed.map_err(|_| too_large())?)
        .map_err(|_| too_large())?;
    Ok(out)
}

#[cold]
fn too_large(total: u64) -> Error {
    let message = format!("a message of {total} bytes doesn't fit in memory");
    Error::new(ErrorKind::LimitExceeded, message).refusing_size()
}
