//! Reading or writing the whole message.

use std::io::Write;
use std::path::Path;

use bytes::Bytes;

use super::Opened;
use crate::Result;
use crate::io::{AtomicFile, MadeFrom};
use crate::merge::{MergeOptions, Merged, ReadOptions};

impl Opened {
    /// Returns all bytes of the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind::InvalidConfig) if there is no message;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if it doesn't fit in memory; any damage
    /// in the message.
    pub fn bytes(&self) -> Result<Bytes> {
        self.check_complete()?;
        self.message()?.stored.bytes(&self.reading_options())
    }

    /// Writes the message, of any size, to `sink` and returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes), and [`ErrorKind::Io`](crate::ErrorKind::Io) if writing
    /// fails. After an error, discard the bytes that `sink` received.
    pub fn write_to(&self, sink: &mut impl Write) -> Result<u64> {
        self.write_to_with(sink, &self.reading_options())
    }

    /// Writes the whole message, using these options instead of the options with which the input
    /// was opened.
    ///
    /// # Errors
    ///
    /// The errors of [`write_to`](Self::write_to).
    pub fn write_to_with(&self, sink: &mut impl Write, options: &ReadOptions) -> Result<u64> {
        self.check_complete()?;
        self.message()?.stored.write_to(sink, options)
    }

    /// Merges a chunked message into `sink`, and returns a report. A message in one piece is
    /// copied.
    ///
    /// ```
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// # use proto_splitter_core::merge::ReadOptions;
    /// let bytes: std::sync::Arc<dyn record_file::ReadAt> = std::sync::Arc::new(b"\x08\x07");
    /// let opened = Opened::of_reader(bytes, None, &OpenOptions::new())?;
    /// let mut copy = Vec::new();
    /// assert_eq!(opened.merge_to(&mut copy, &ReadOptions::new())?.size, 2);
    /// assert_eq!(copy, b"\x08\x07");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`write_to`](Self::write_to).
    pub fn merge_to(&self, sink: &mut impl Write, options: &ReadOptions) -> Result<Merged> {
        self.check_complete()?;
        let merged = self.message()?.stored.merge_to(sink, options)?;
        Ok(self.reported(merged))
    }

    /// Writes the message, of any size, to a new file, which appears complete or not at all;
    /// returns the number of bytes. Same as [`write_file_with`](Self::write_file_with) without
    /// `force`.
    ///
    /// # Errors
    ///
    /// The errors of [`write_file_with`](Self::write_file_with);
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if the file exists.
    pub fn write_file(&self, target: impl AsRef<Path>) -> Result<u64> {
        self.write_file_with(target, false)
    }

    /// Writes the message, of any size, to a file, which appears complete or not at all; returns
    /// the number of bytes. Chunks are merged on several threads. The file's permissions are
    /// limited to those of the files that contain the message. Replaces an existing file if `force`
    /// is set.
    ///
    /// # Errors
    ///
    /// The errors of [`write_to`](Self::write_to);
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if the file exists, unless
    /// `force` is set;
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind::InvalidConfig) if the target is a file that
    /// the message is read from; [`ErrorKind::Io`](crate::ErrorKind::Io) if the disk has no room
    /// for the message.
    pub fn write_file_with(&self, target: impl AsRef<Path>, force: bool) -> Result<u64> {
        let options = MergeOptions::from(&self.reading_options()).force(force);
        Ok(self.merge_to_file(target, &options)?.size)
    }

    /// Merges a chunked message into a file, like [`write_file_with`](Self::write_file_with), and
    /// returns a report. A message in one piece is checked and copied.
    ///
    /// # Errors
    ///
    /// The errors of [`write_file_with`](Self::write_file_with).
    pub fn merge_to_file(
        &self,
        target: impl AsRef<Path>,
        options: &MergeOptions,
    ) -> Result<Merged> {
        self.check_complete()?;
        let stored = &self.message()?.stored;
        let made_from = MadeFrom::files(&self.files);
        let out = AtomicFile::create(target, &made_from, options.force)?;
        let merged = stored.merge_to_file(out, &options.reading)?;
        Ok(self.reported(merged))
    }

    /// Adds the path of the input's first file to a report.
    fn reported(&self, merged: Merged) -> Merged {
        let input = self.files.first().cloned().unwrap_or_default();
        Merged { input, ..merged }
    }
}
