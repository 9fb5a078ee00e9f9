//! Writing a changed message in one of the forms in which formats can write it.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::container::is_named_chunked;
use proto_splitter_core::edit::Changed;
use proto_splitter_core::formats::{
    ConvertOptions, ConvertTarget, Converted, Format, OpenOptions, Opened,
};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::convert::targets;

/// The form of a changed message's output, and the format that writes it.
pub(crate) struct TargetForm {
    format: &'static dyn Format,
    form: &'static ConvertTarget,
}

impl TargetForm {
    /// Returns the form in `asked` or, by default, the input's form; `None` if the output is to be
    /// a single file.
    pub(crate) fn of(
        input: &Opened,
        asked: Option<&'static ConvertTarget>,
        output: &Path,
    ) -> Result<Option<TargetForm>> {
        let is_chunked = is_named_chunked(output);
        let Some(form) = asked else {
            let format = input.format().filter(|_| !input.is_single() && !is_chunked);
            let kept = format.and_then(|format| Some((format, format.form_of(input)?)));
            return Ok(kept.map(|(format, form)| TargetForm { format, form }));
        };
        let invalid = |why: &str| {
            let message = format!("{} as the form {}: {why}", output.display(), form.name);
            Error::new(ErrorKind::InvalidConfig, message)
        };
        if is_chunked {
            return Err(invalid("a .cpb is a file in chunks"));
        }
        match targets(input).find(|(_, known)| known.name == form.name) {
            Some((format, form)) => Ok(Some(TargetForm { format, form })),
            None => Err(invalid("no format of the message has this form")),
        }
    }

    /// Writes the changed message to the path `target`, and its companion files next to it.
    pub(crate) fn write(
        &self,
        changed: &Changed,
        input: &Opened,
        target: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let message = Arc::clone(&changed.message);
        let descriptor = input.descriptor().cloned();
        let opened = Opened::of_reader(message, descriptor, &OpenOptions::new())?;
        let opened = opened.reading(input.files());
        self.format.convert(&opened, self.form, target, options)
    }
}
