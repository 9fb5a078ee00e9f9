//! Writing a changed message in a form of its format.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost_reflect::MessageDescriptor;
use proto_splitter::edit::Changed;
use proto_splitter::formats::{ConvertOptions, ConvertTarget, Converted, Format};
use proto_splitter::progress::Progress;
use proto_splitter::{Error, OpenOptions, Opened};

use crate::convert;
use crate::failure::Failure;
use crate::input::{CHUNKED, Input};

/// The form in which to write a changed message.
pub(crate) struct InForm {
    format: &'static dyn Format,
    form: &'static ConvertTarget,
}

/// Options for writing a form.
pub(crate) struct Writing<'a> {
    /// The files read.
    pub(crate) read: &'a [PathBuf],
    pub(crate) force: bool,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: &'a Progress,
}

impl InForm {
    /// Returns the requested form, or else that of the input; `None` if that is a single file.
    pub(crate) fn of(
        asked: Option<&str>,
        input: &Input,
        output: &Path,
    ) -> Result<Option<InForm>, Failure> {
        let is_chunked = output
            .extension()
            .is_some_and(|extension| extension == CHUNKED);
        let Some(asked) = asked else {
            let format = input.format().filter(|_| input.is_special() && !is_chunked);
            let kept = format.and_then(|format| Some((format, format.form_of(input)?)));
            return Ok(kept.map(|(format, form)| InForm { format, form }));
        };
        if is_chunked || input.folder().is_some() {
            let what = if is_chunked {
                "a .cpb is a file in chunks"
            } else {
                "the folder of a SavedModel keeps its form"
            };
            return Err(Failure::usage(format!("--to {asked}: {what}")));
        }
        let Some(format) = input.format() else {
            let message = format!("--to {asked}: the message is of no format that has forms");
            return Err(Failure::usage(message));
        };
        let form = convert::form(format, asked)?;
        Ok(Some(InForm { format, form }))
    }

    /// Writes the message as `target` and its companion files.
    pub(crate) fn write(
        &self,
        changed: &Changed,
        descriptor: Option<&MessageDescriptor>,
        target: &Path,
        writing: &Writing<'_>,
    ) -> Result<Converted, Error> {
        let message = Arc::clone(&changed.message);
        let opened = Opened::of_reader(message, descriptor.cloned(), &OpenOptions::new())?;
        let opened = opened.reading(writing.read);
        let options = ConvertOptions::new()
            .force(writing.force)
            .threads(writing.threads)
            .progress(writing.progress.clone());
        self.format.convert(&opened, self.form, target, &options)
    }
}
