//! Detecting whether a file was replaced or modified since it was opened.

use std::fs::Metadata;
use std::time::SystemTime;

/// The attributes that change when a file is modified or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Time of the last change to content or attributes, in seconds and nanoseconds. Programs can't
    /// set it.
    #[cfg(unix)]
    changed: (i64, i64),
    /// Device and inode numbers.
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
