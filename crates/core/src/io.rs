//! Shared file I/O: files that appear complete or not at all, positional reads and writes, threads,
//! and checksums.

pub mod atomic_file;
pub(crate) mod crc_combine;
pub(crate) mod crc_of_pieces;
pub(crate) mod detect;
pub(crate) mod fails_once;
pub(crate) mod file_at;
pub(crate) mod file_names;
pub(crate) mod file_pool;
pub(crate) mod folder_lock;
pub(crate) mod open;
mod owner;
pub(crate) mod stamp;
pub(crate) mod summed;
pub(crate) mod synced;
pub(crate) mod target;
pub(crate) mod temporary;
pub mod threads;

pub(crate) use atomic_file::{AtomicFile, GATHER, MadeFrom};
pub use crc_combine::combine;
pub use crc_of_pieces::CrcOfPieces;
pub(crate) use file_at::{FileAt, WRITE_LEN};
pub(crate) use file_names::{CHUNKED_EXTENSION, PLAIN_EXTENSION, with_extension};
pub use file_pool::FilePool;
pub(crate) use file_pool::PooledFile;
pub use open::open_file;
pub(crate) use open::open_regular;
pub(crate) use stamp::Stamp;
pub use summed::Summed;
pub(crate) use target::check_absent;
pub(crate) use target::{at_target, same_file};
pub use target::{folder, written_through};
pub(crate) use threads::Ahead;
