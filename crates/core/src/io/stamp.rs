//! What tells whether a file is still the one that was opened, with the bytes it had then.

use std::fs::Metadata;
use std::time::SystemTime;

/// What changes when a file does, or when another file takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// When its bytes or its attributes last changed, which programs can't set.
    #[cfg(unix)]
    changed: (i64, i64),
    /// The device and the inode.
    #[cfg(unix)]
    identity: (u64, u64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Stamp {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            #[cfg(unix)]
            identity: (metadata.dev(), metadata.ino()),
        }
    }
}
