//! Counting how often any process opens the files in a folder, as reported by the operating system.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// A counter of how often any process opens the files in a folder while the counter exists.
#[derive(Debug)]
pub struct Opens {
    events: OwnedFd,
    files: BTreeMap<i32, PathBuf>,
}

impl Opens {
    /// Starts watching all files in a folder and its subfolders.
    ///
    /// # Panics
    ///
    /// If the folder can't be watched.
    pub fn of(folder: &Path) -> Opens {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let mut opens = Opens {
            events,
            files: BTreeMap::new(),
        };
        opens.watch(folder);
        opens
    }

    fn watch(&mut self, folder: &Path) {
        // The operating system drops an event that is equal to the previous one. Since the folder
        // is also watched, each event for a file follows an event for the folder, and no two
        // consecutive events are equal.
        inotify::add_watch(&self.events, folder, WatchFlags::OPEN).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.watch(&path);
            } else {
                let watch = inotify::add_watch(&self.events, &path, WatchFlags::OPEN).unwrap();
                self.files.insert(watch, path);
            }
        }
    }

    /// Returns how many times each file was opened. Omits files that weren't opened.
    ///
    /// # Panics
    ///
    /// If the events can't be read, or if there were too many of them.
    pub fn counts(self) -> BTreeMap<PathBuf, usize> {
        let mut counts = BTreeMap::new();
        let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
        let mut events = Reader::new(&self.events, &mut buffer);
        loop {
            let event = match events.next() {
                Err(Errno::WOULDBLOCK) => return counts,
                event => event.unwrap(),
            };
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
            if let Some(path) = self.files.get(&event.wd()) {
                *counts.entry(path.clone()).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_open_counts_also_those_in_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let [read, left] = ["read", "left"].map(|name| folder.path().join(name));
        fs::write(&read, b"1").unwrap();
        fs::write(&left, b"2").unwrap();
        let opens = Opens::of(folder.path());
        for _ in 0..5 {
            drop(fs::File::open(&read).unwrap());
        }
        assert_eq!(opens.counts(), BTreeMap::from([(read, 5)]));
    }
}
