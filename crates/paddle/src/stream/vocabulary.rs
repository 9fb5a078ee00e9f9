//! Vocabularies, which are lists of strings, each with an ID.

use std::io::Write;
use std::ops::Range;

use proto_splitter_core::wire::{Input, SourceInput};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use super::{Layout, Stream, StreamKind};

/// Minimum size in bytes of a vocabulary's entry, which has the length of a string, the string and
/// an ID.
const LEAST_ENTRY: u64 = 8 + 4;

/// Maximum size of a vocabulary's string: 1 MiB.
const MAX_WORD: u64 = 1 << 20;

/// Writes a vocabulary of any size as a stream, and returns the stream's size in bytes. Iterates
/// over `words` twice, since the stream begins with their number and, in the sized layout, also
/// with its own size.
///
/// ```
/// use proto_splitter_paddle::stream::{Layout, Stream, StreamKind, write_vocabulary};
///
/// let mut file = Vec::new();
/// write_vocabulary(&mut file, [("a", 0), ("bc", 7)], Layout::Paddle)?;
/// let stream = Stream::read(&file, 0, StreamKind::Vocabulary, Layout::Paddle)?;
/// assert_eq!(stream.words(&file)?, [("a".to_owned(), 0), ("bc".to_owned(), 7)]);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the layout doesn't support vocabularies; [`ErrorKind::Io`].
/// After an error, discard the bytes already written to `sink`.
pub fn write_vocabulary<I, T>(sink: &mut impl Write, words: I, layout: Layout) -> Result<u64>
where
    I: IntoIterator<Item = (T, i32), IntoIter: Clone>,
    T: AsRef<str>,
{
    let words = words.into_iter();
    let (mut count, mut size) = (0u64, 8u64);
    for (word, _) in words.clone() {
        count += 1;
        size += LEAST_ENTRY + word.as_ref().len() as u64;
    }
    let mut written = size;
    match layout {
        Layout::Paddle => {}
        Layout::ModelFormat => return Err(layout.no_place(StreamKind::Vocabulary)),
        Layout::Sized => {
            sink.write_all(&size.to_le_bytes())?;
            written += 8;
        }
    }
    sink.write_all(&count.to_le_bytes())?;
    for (word, number) in words {
        let text = word.as_ref().as_bytes();
        sink.write_all(&(text.len() as u64).to_le_bytes())?;
        sink.write_all(text)?;
        sink.write_all(&number.to_le_bytes())?;
    }
    Ok(written)
}

impl Stream {
    /// Reads the words of a vocabulary and their IDs, in file order. Returns an empty list for
    /// streams of other kinds.
    ///
    /// # Errors
    ///
    /// Each error names the offset at which it occurred. [`ErrorKind::InvalidMessage`] if a word
    /// isn't UTF-8; [`ErrorKind::LimitExceeded`] if a word is larger than 1 MiB; [`ErrorKind::Io`].
    pub fn words(&self, source: &dyn ReadAt) -> Result<Vec<(String, i32)>> {
        let mut words = Vec::new();
        self.for_each_word(source, |text, number| words.push((text.to_owned(), number)))?;
        Ok(words)
    }

    /// Calls `take` with each string of a vocabulary and the string's ID.
    pub(super) fn for_each_word(
        &self,
        source: &dyn ReadAt,
        mut take: impl FnMut(&str, i32),
    ) -> Result<()> {
        if self.kind != StreamKind::Vocabulary {
            return Ok(());
        }
        let mut window = Window::new(source, self.parts.data.end);
        let mut at = self.parts.data.start;
        let count = window.u64(at, "the number of words")?;
        at = at.saturating_add(8);
        for word in 0..count {
            let size = window.u64(at, "the size of a word")?;
            if size > MAX_WORD {
                let message = format!("word {word} has {size} bytes, over the limit of {MAX_WORD}");
                return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(at));
            }
            let start = at + 8;
            let text = window.bytes(start, size, "a word")?;
            let text = std::str::from_utf8(text).map_err(|_| {
                let message = format!("word {word} isn't Unicode");
                Error::new(ErrorKind::InvalidMessage, message).at_offset(start)
            })?;
            let text = text.to_owned();
            let end = start + size;
            let number = window.bytes(end, 4, "the number of a word")?;
            let number = number.try_into().map_or(0, i32::from_le_bytes);
            take(&text, number);
            at = end + 4;
        }
        Ok(())
    }
}

/// Skips the vocabulary at the start of `within`, and returns the offset of the vocabulary's end.
pub(super) fn walk(source: &dyn ReadAt, within: Range<u64>) -> Result<u64> {
    let mut window = Window::new(source, within.end);
    let at = within.start;
    let count = window.u64(at, "the number of words")?;
    let mut at = at + 8;
    if count > (within.end - at) / LEAST_ENTRY {
        let message = format!("{count} words can't be in {} bytes", within.end - at);
        return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(within.start));
    }
    for word in 0..count {
        let bytes = window.u64(at, "the size of a word")?;
        let left = within.end - at - 8;
        at = match bytes.checked_add(4) {
            Some(size) if size <= left => at + 8 + size,
            _ => {
                let message = format!("word {word} has {bytes} bytes, but only {left} are left");
                return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
            }
        };
    }
    Ok(at)
}

/// The bytes of the source up to the end of the vocabulary or of the file.
struct Window<'a>(SourceInput<'a, dyn ReadAt + 'a>);

impl<'a> Window<'a> {
    fn new(source: &'a dyn ReadAt, end: u64) -> Self {
        Window(SourceInput::new(source, end))
    }

    fn u64(&mut self, at: u64, what: &str) -> Result<u64> {
        let bytes = self.bytes(at, 8, what)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Returns the `size` bytes at `at`, which are called `what` in errors.
    fn bytes(&mut self, at: u64, size: u64, what: &str) -> Result<&[u8]> {
        let left = self.0.size().saturating_sub(at);
        if left < size {
            let message = format!("{what} is truncated: {left} of {size} bytes are left");
            return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
        }
        let size = usize::try_from(size).unwrap_or_default();
        let bytes = self.0.fetch(at, size)?;
        Ok(bytes.get(..size).unwrap_or_default())
    }
}
