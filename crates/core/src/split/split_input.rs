//! The input of a splitter.

use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::ReflectMessage;

use super::plan::splitter::ComposableSplitter;
use super::read::source::Source;
use crate::{Error, ErrorKind, Result};

/// The input of a splitter: a [`Source`], a message, or the path of a file. A path is accepted only
/// if the splitter [has a message type](ComposableSplitter::message_type).
///
/// ```
/// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
///
/// // `SizeSplitter` goes by sizes alone, and has no message type.
/// let error = SizeSplitter.plan("model.pb", &SplitOptions::new()).unwrap_err();
/// let message = "model.pb: a splitter without a message type was given a path; it takes a source";
/// assert_eq!(error.to_string(), message);
/// ```
#[derive(Clone, Debug)]
pub struct SplitInput(Input);

#[derive(Clone, Debug)]
enum Input {
    Source(Source),
    Path(PathBuf),
}

impl SplitInput {
    /// Returns the size of the message in bytes; `None` if the message isn't in memory.
    pub fn size_in_memory(&self) -> Option<u64> {
        match &self.0 {
            Input::Source(source) => source.is_in_memory().then(|| source.size()),
            Input::Path(_) => None,
        }
    }

    /// Opens the input as a source for this splitter.
    pub(super) fn open<S>(self, splitter: &S) -> Result<Source>
    where
        S: ComposableSplitter + ?Sized,
    {
        let path = match self.0 {
            Input::Source(source) => return Ok(source),
            Input::Path(path) => path,
        };
        match splitter.message_type() {
            Some(descriptor) => Source::open(path, descriptor),
            None => {
                let message =
                    "a splitter without a message type was given a path; it takes a source";
                Err(Error::new(ErrorKind::InvalidConfig, message).in_file(&path))
            }
        }
    }
}

impl From<Source> for SplitInput {
    fn from(source: Source) -> SplitInput {
        SplitInput(Input::Source(source))
    }
}

impl From<&Source> for SplitInput {
    fn from(source: &Source) -> SplitInput {
        source.clone().into()
    }
}

impl<M: Message + ReflectMessage> From<&M> for SplitInput {
    fn from(message: &M) -> SplitInput {
        Source::from(message).into()
    }
}

impl From<PathBuf> for SplitInput {
    fn from(path: PathBuf) -> SplitInput {
        SplitInput(Input::Path(path))
    }
}

impl From<&Path> for SplitInput {
    fn from(path: &Path) -> SplitInput {
        path.to_owned().into()
    }
}

impl From<&str> for SplitInput {
    fn from(path: &str) -> SplitInput {
        PathBuf::from(path).into()
    }
}
