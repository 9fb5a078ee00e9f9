//! Reading a SavedModel message from any form of model file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proto_splitter_core::container::{CHUNKED_EXTENSION, ChunkedFile, Limits, PLAIN_EXTENSION};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::Source;
use proto_splitter_core::{Error, ErrorKind, MessageReader, Result};
use record_file::ReadAt;

use super::model_path;
use super::swap::put_aside;
use crate::SAVED_MODEL;
use crate::fingerprint::{self, FingerprintError, Hashes, descriptor};
use crate::hashed::{Canonical, Plan};

/// The form of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelForm {
    /// `saved_model.cpb`: the message in chunks.
    Chunked,
    /// `saved_model.pb`: the serialized message.
    Plain,
    /// `saved_model.pbtxt`: the message in protobuf's text format. It can be read, but not written.
    Text,
}

impl ModelForm {
    /// All forms, in order of precedence. If a folder has several model files, the one whose form
    /// comes first is used.
    pub(super) const ALL: [ModelForm; 3] = [ModelForm::Chunked, ModelForm::Plain, ModelForm::Text];

    /// Returns the extension of a model file in this form, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            ModelForm::Chunked => CHUNKED_EXTENSION,
            ModelForm::Plain => PLAIN_EXTENSION,
            ModelForm::Text => "pbtxt",
        }
    }
}

/// An open model file.
pub(super) struct Model {
    form: ModelForm,
    message: MessageReader,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {} bytes", self.form(), self.size())
    }
}

impl Model {
    /// Opens the model file in a folder.
    pub(super) fn open(folder: &Path) -> Result<Model> {
        for form in ModelForm::ALL {
            let path = model_path(folder, form);
            if path.is_file() {
                return Model::open_file(&path, form).map_err(|error| match error.kind() {
                    ErrorKind::Io | ErrorKind::NotChunked | ErrorKind::Record => {
                        error.in_file(&path)
                    }
                    _ => error,
                });
            }
        }
        let names = ModelForm::ALL.map(|form| format!("saved_model.{}", form.extension()));
        let why = match std::fs::metadata(folder) {
            Ok(metadata) if !metadata.is_dir() => {
                "a file, not the folder of a SavedModel".to_owned()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match put_aside(folder) {
                Some(aside) => format!(
                    "no such folder: replacing it was interrupted; the previous folder is {}, which the next conversion restores",
                    aside.display()
                ),
                None => "no such folder".to_owned(),
            },
            _ => format!("there is no {}", names.join(", no ")),
        };
        let message = format!("{}: {why}", folder.display());
        Err(io::Error::new(io::ErrorKind::NotFound, message).into())
    }

    /// Opens a model file in this form.
    pub(super) fn open_file(path: &Path, form: ModelForm) -> Result<Model> {
        let message = match form {
            ModelForm::Chunked => {
                let file = ChunkedFile::open_shared(path, &Limits::new())?;
                MessageReader::of_chunks(file, descriptor(SAVED_MODEL)?)?
            }
            ModelForm::Plain => {
                let file = File::open(path)?;
                let size = file.metadata()?.len();
                MessageReader::new(Arc::new(file), size)
            }
            ModelForm::Text => {
                let bytes = parse(&std::fs::read_to_string(path)?)?;
                let size = bytes.len() as u64;
                MessageReader::new(Arc::new(bytes), size)
            }
        };
        Ok(Model { form, message })
    }

    pub(super) fn form(&self) -> ModelForm {
        self.form
    }

    /// Returns the size of the message, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.message.total_size()
    }

    /// Returns a reader for the serialized message.
    pub(super) fn data(&self) -> Arc<dyn ReadAt> {
        self.message.clone().into()
    }

    /// Writes the serialized message.
    pub(super) fn copy_to(&self, sink: &mut dyn Write) -> Result<()> {
        let data = self.data();
        let reader = Canonical::new(&*data, self.size());
        let mut plan = Plan::default();
        let [whole] = reader.whole();
        plan.put_source(whole);
        reader.write(&plan, sink)
    }

    /// Returns the message as a source for splitting. For a `.pb`, the source is the file at `path`
    /// itself, so that the splitter notices if the file changes. Otherwise, the source names the
    /// files that it is read from, so that the output gets no permissions that they lack.
    pub(super) fn source(&self, path: &Path) -> Result<Source> {
        let descriptor = descriptor(SAVED_MODEL)?;
        match self.form {
            ModelForm::Plain => Source::open(path, descriptor),
            _ => {
                let chunked = self.message.chunked_file();
                let files =
                    chunked.map_or_else(|| vec![path.to_owned()], |file| file.paths().to_vec());
                let source = Source::from_reader(self.data(), self.size(), descriptor);
                Ok(source.read_from(files))
            }
        }
    }

    /// Returns the hashes for the model's fingerprint.
    pub(super) fn hashes(&self, progress: &Progress) -> Result<Hashes, FingerprintError> {
        match self.message.chunked_file() {
            Some(file) => fingerprint::chunked_hashes(file, progress),
            None => fingerprint::plain_hashes(&self.message, self.size(), progress),
        }
    }
}

/// Maximum nesting depth of messages in the text format, as in protobuf itself. The parser is
/// recursive, so deeper nesting could overflow the stack.
const DEEPEST_TEXT: usize = 100;

/// Fails if messages in `text` are nested more deeply than [`DEEPEST_TEXT`].
fn check_depth(text: &str) -> Result<()> {
    let (mut depth, mut quote, mut comment, mut escaped) = (0usize, None, false, false);
    for byte in text.bytes() {
        match (byte, quote) {
            (b'\n', _) => (comment, quote, escaped) = (false, None, false),
            _ if comment => {}
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'#', None) => comment = true,
            (b'{' | b'<' | b'[', None) => depth += 1,
            (b'}' | b'>' | b']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_TEXT {
            let message = format!("not a SavedModel as text: it nests deeper than {DEEPEST_TEXT}");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    Ok(())
}

#[cfg(not(feature = "text-format"))]
fn parse(text: &str) -> Result<Bytes> {
    check_depth(text)?;
    let message = "reading a SavedModel as text requires a build with the feature text-format";
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

#[cfg(feature = "text-format")]
fn parse(text: &str) -> Result<Bytes> {
    use prost::Message;
    use prost_reflect::DynamicMessage;

    check_depth(text)?;
    let parsed = DynamicMessage::parse_text_format(descriptor(SAVED_MODEL)?, text);
    let message = parsed.map_err(|error| {
        let message = format!("not a SavedModel as text: {error}");
        Error::new(ErrorKind::InvalidMessage, message)
    })?;
    Ok(message.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_nests_too_deep_is_refused_before_it_is_parsed() {
        let nested = |depth: usize| "a {".repeat(depth) + &"}".repeat(depth);
        assert!(check_depth(&nested(100)).is_ok());
        let error = parse(&nested(5000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        // Braces in strings and comments don't count.
        let text = format!("a: \"\\\"{0}\" # {0}\nb: '{0}'", "{".repeat(500));
        assert!(check_depth(&text).is_ok(), "{text}");
    }
}
