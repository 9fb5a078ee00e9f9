//! The memory that a message is merged to.

use bytes::Bytes;
use memmap2::MmapMut;

use crate::read_options::ReadOptions;
use crate::{Error, ErrorKind, Result};

/// From this size on, memory is mapped in huge pages: half the time of a merge to fresh memory goes
/// to faults of small ones.
const HUGE_FROM: usize = 8 << 20;

/// How many times larger than its file a message is believed to be. Beyond that memory is taken as
/// bytes arrive.
const BELIEVED_RATIO: u64 = 64;

/// Fresh memory for a message.
pub(crate) enum Memory {
    /// All of it, to be filled in any order.
    Small(Vec<u8>),
    /// All of it, in huge pages.
    Huge(MmapMut),
    /// A part, to be appended to: the file says more than is believed.
    Growing(Vec<u8>),
}

impl Memory {
    /// Memory for `len` bytes.
    pub(crate) fn of(len: u64) -> Result<Memory> {
        let size = usize::try_from(len).map_err(|_| too_large(len))?;
        if size < HUGE_FROM {
            return Ok(Memory::Small(vec![0; size]));
        }
        let map = MmapMut::map_anon(size).map_err(|_| too_large(len))?;
        #[cfg(target_os = "linux")]
        // Only advice: a kernel without huge pages gives small ones.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Memory::Huge(map))
    }

    /// The bytes to fill.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Memory::Small(out) | Memory::Growing(out) => out,
            Memory::Huge(map) => map,
        }
    }

    /// Memory for `total` bytes, which `stored` bytes of a file are said to make.
    pub(crate) fn reserve(total: u64, stored: u64, options: &ReadOptions) -> Result<Memory> {
        let out = reserve(total, stored, options)?;
        let believed = usize::try_from(total).ok();
        if believed.is_none_or(|len| len > out.capacity()) {
            return Ok(Memory::Growing(out));
        }
        drop(out);
        Memory::of(total)
    }
}

impl From<Memory> for Bytes {
    fn from(memory: Memory) -> Bytes {
        match memory {
            Memory::Small(out) | Memory::Growing(out) => out.into(),
            Memory::Huge(map) => Bytes::from_owner(map),
        }
    }
}

/// A buffer with room for as many of `total` bytes as are believed.
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
    Error::new(ErrorKind::LimitExceeded, message)
}
