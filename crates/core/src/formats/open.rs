//! Opening an input of any format.

use std::path::Path;
use std::sync::Arc;

use record_file::{ReadAt, is_record_file};

use super::opened::Opened;
use super::other_files::no_chunks;
use super::registry::Registry;
use super::{Candidate, CandidateKind, Confidence, Format, OpenOptions};
use crate::container::{CHUNKED_EXTENSION, ChunkedFile, Limits, PLAIN_EXTENSION};
use crate::{Error, ErrorKind, Result};

impl Registry {
    /// Opens an input of any format: a file in chunks, or a file or folder that a format
    /// recognizes. Any other file is read as a message. If there is no file at the path, the path
    /// is used as the prefix of `PREFIX.cpb`, `PREFIX.pb` or files that a format recognizes, in
    /// this order.
    ///
    /// If the options set a type, the format is determined by that type, not by the input.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the path doesn't exist or can't be read; [`ErrorKind::InvalidConfig`]
    /// if the path is a folder that no format recognizes; any error from [`check`](Self::check) or
    /// the format.
    pub fn open(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Opened> {
        self.open_input(&Candidate::new(path.as_ref())?, options)
    }

    /// Opens a candidate, like [`open`](Self::open). The candidate can be an input that was already
    /// inspected; its file isn't opened again. The candidate can also be an input that isn't a
    /// local file, such as an object in a store. The path of an object isn't used as a prefix of
    /// other names.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # use proto_splitter_core::formats::{Candidate, OpenOptions, Registry};
    /// # use prost::Message;
    /// # use prost_reflect::ReflectMessage;
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    ///
    /// # let message = FileDescriptorProto { name: Some("a.proto".into()), ..Default::default() };
    /// let options = OpenOptions::new().descriptor(message.descriptor());
    /// let bytes = Arc::new(message.encode_to_vec());
    /// let input = Candidate::of_source("s3://bucket/message.pb".as_ref(), bytes)?;
    /// assert_eq!(Registry::new(&[]).open_input(&input, &options)?.get("name")?, "a.proto");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`ErrorKind::NeedsFile`] if the input isn't a local file
    /// and its format requires one: open a copy instead.
    pub fn open_input(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let path = input.path();
        let companion = options.companion.as_deref();
        if input.kind() == CandidateKind::Prefix
            && let Some(file) = [CHUNKED_EXTENSION, PLAIN_EXTENSION]
                .into_iter()
                .find_map(|extension| input.continued(&format!(".{extension}")))
        {
            return self.open(&file, options);
        }
        let is_records = input.is_chunked()?;
        let is_claimed = is_records && self.is_claimed(input);
        if is_records && !is_claimed {
            if companion.is_some() {
                return Err(alone("a file in chunks").in_file(path));
            }
            let opened = Opened::of_chunks(input, |name| self.message(name), options)
                .map_err(|error| no_chunks(error, input))?;
            // If the file doesn't contain the name of its type, the file's name may indicate the
            // type.
            let by_name = || self.message(self.recognize(input)?.message_type(path)?);
            return Ok(opened.of_type(by_name).named(path).found_by(*self, None));
        }
        self.check(input, companion)?;
        let recognized = self.recognize_with(input, companion);
        // A format's own record files may contain messages of any type.
        let format = recognized.filter(|_| is_claimed);
        if let Some(format) = format.or_else(|| self.format_of(recognized, options)) {
            return self.open_input_as(format, input, options);
        }
        match input.kind() {
            CandidateKind::File if companion.is_some() => {
                Err(alone("a message of no known format").in_file(path))
            }
            CandidateKind::File => Opened::of_input(input, None, options)?
                .named(path)
                .found_by(*self, None)
                .with_required_root(options),
            CandidateKind::Folder => Err(self.unknown_folder(path)),
            CandidateKind::Prefix => Err(nothing_there(path)),
        }
    }

    /// Returns true if an input is a message in chunks: its name or beginning indicates chunks, and
    /// no format is certain that the input is one of its own record files.
    ///
    /// ```
    /// use proto_splitter_core::formats::{Candidate, Registry};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("a.pb");
    /// std::fs::write(&path, b"\x08\x01")?;
    /// assert!(!Registry::new(&[]).is_chunked(&Candidate::new(&path)?)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Candidate::is_chunked`].
    pub fn is_chunked(&self, input: &Candidate<'_>) -> Result<bool> {
        Ok(input.is_chunked()? && !self.is_claimed(input))
    }

    /// Returns true if a format is certain that a record file belongs to it, and the file has no
    /// trailer. A file with a trailer is a message in chunks, even if a format recognizes its first
    /// chunk.
    fn is_claimed(&self, input: &Candidate<'_>) -> bool {
        let surest = self.surest(input);
        surest.is_some_and(|(sure, _)| sure == Confidence::Certain)
            && input.chunked(&Limits::new()).is_err()
    }

    /// Opens an input as this format, even if the format doesn't recognize it.
    ///
    /// # Errors
    ///
    /// The errors of [`Format::open`]; [`ErrorKind::InvalidConfig`] if the options name a companion
    /// file, and inputs of the format have none.
    pub fn open_as(
        &self,
        format: &'static dyn Format,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        self.open_input_as(format, &Candidate::new(path.as_ref())?, options)
    }

    /// Opens a candidate as this format, like [`open_as`](Self::open_as). The candidate can be an
    /// input that was already inspected, or that isn't a local file.
    ///
    /// # Errors
    ///
    /// The errors of [`open_as`](Self::open_as).
    pub fn open_input_as(
        &self,
        format: &'static dyn Format,
        input: &Candidate<'_>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let path = input.path();
        if options.companion.is_some() && format.companion().is_none() {
            let what = format!("a file of the kind {}", format.title());
            return Err(alone(&what).in_file(path));
        }
        // A given schema takes precedence over a built-in one.
        let given = || {
            let schemas = options.schemas.as_ref();
            // Without any schemas, there is no need to look up the type's name.
            let schemas = schemas.filter(|schemas| schemas.all_messages().len() > 0)?;
            schemas.get_message_by_name(format.message_type(path)?)
        };
        let opened = match &options.descriptor {
            None => match given() {
                Some(given) => format.open(input, &options.clone().descriptor(given)),
                None => format.open(input, options),
            },
            Some(_) => format.open(input, options),
        };
        opened?
            .named(path)
            .found_by(*self, Some(format))
            .with_required_root(options)
    }

    /// Opens a message that is not a file, in chunks or in one piece. The message's type, from the
    /// options or the trailer, determines the format. Unlike [`open_input`](Self::open_input),
    /// doesn't recognize formats by the content.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # use proto_splitter_core::formats::{OpenOptions, Registry};
    /// # use prost::Message;
    /// # use prost_reflect::ReflectMessage;
    /// # use prost_reflect::prost_types::FileDescriptorProto;
    ///
    /// # let message = FileDescriptorProto { name: Some("a.proto".into()), ..Default::default() };
    /// let options = OpenOptions::new().descriptor(message.descriptor());
    /// let bytes = Arc::new(message.encode_to_vec());
    /// let opened = Registry::new(&[]).open_reader(bytes, &options)?;
    /// assert_eq!(opened.get("name")?, "a.proto");
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the message can't be read; [`ErrorKind::InvalidConfig`] if the options
    /// name a companion file; damage in a message in chunks.
    pub fn open_reader(&self, bytes: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Opened> {
        if options.companion.is_some() {
            return Err(alone("a message that is not a file"));
        }
        if is_record_file(&bytes)? {
            let file = ChunkedFile::from_source(bytes, &options.limits)?;
            return self.open_chunks(file, options);
        }
        Opened::of_reader(bytes, None, options)?
            .found_by(*self, None)
            .with_required_root(options)
    }

    /// Opens a message in chunks from any storage. The message's type, from the options or the
    /// file, determines the format.
    ///
    /// # Errors
    ///
    /// Errors in the file's embedded schema, if the message's type is read from it.
    pub fn open_chunks(
        &self,
        file: ChunkedFile<Arc<dyn ReadAt>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let opened = Opened::of_chunked(file, |name| self.message(name), options)?;
        Ok(opened.found_by(*self, None))
    }

    /// Returns the format of an input, given the recognized format. If the options set a type,
    /// returns a format whose inputs may be messages of this type.
    fn format_of(
        &self,
        recognized: Option<&'static dyn Format>,
        options: &OpenOptions,
    ) -> Option<&'static dyn Format> {
        match &options.descriptor {
            // If several formats have messages of a type, the input determines the format.
            Some(said) => recognized
                .filter(|format| may_be_of(*format, said.full_name()))
                .or_else(|| self.of_type(said.full_name())),
            None => recognized,
        }
    }

    #[cold]
    fn unknown_folder(&self, path: &Path) -> Error {
        let titles: Vec<&str> = self.formats.iter().map(|format| format.title()).collect();
        let message = format!("the folder has none of these files: {}", titles.join(", "));
        Error::new(ErrorKind::InvalidConfig, message).in_file(path)
    }
}

/// Returns true if inputs of a format may be messages of a type. Also returns true if the format
/// declares no types.
fn may_be_of(format: &dyn Format, message_type: &str) -> bool {
    let types = format.message_types();
    types.is_empty() || types.contains(&message_type)
}

/// Returns the error for an input that doesn't support a companion file.
#[cold]
fn alone(what: &str) -> Error {
    let message = format!("no other file goes with {what}");
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cold]
fn nothing_there(path: &Path) -> Error {
    let name = path.display();
    let message = format!("no such file, nor {name}.cpb, nor {name}.pb");
    Error::new(ErrorKind::Io, message).context(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use record_file::{ReaderOptions, RecordFile, RecordPosition, RecordWriter};

    use super::*;

    /// A format of record files whose first record is "theirs".
    #[derive(Debug)]
    struct Theirs;

    impl Format for Theirs {
        fn name(&self) -> &'static str {
            "theirs"
        }

        fn title(&self) -> &'static str {
            "file of theirs"
        }

        fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
            if !candidate.is_chunked().ok()? {
                return None;
            }
            let file = RecordFile::open(candidate.source().ok()?, ReaderOptions::new()).ok()?;
            // The first record is directly after the file's signature.
            let first = file.read_record(RecordPosition::new(64, 0)).ok()?;
            (first == b"theirs"[..]).then_some(Confidence::Certain)
        }

        fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
            Opened::of_reader(input.source()?, None, options)
        }
    }

    static FORMATS: Registry = Registry::new(&[&Theirs]);

    fn records(all: &[&[u8]]) -> Vec<u8> {
        let mut writer = RecordWriter::with_defaults(Vec::new());
        for record in all {
            writer.write_record(record).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn a_format_may_claim_a_file_of_records_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["model.pb", "model.cpb", "model"] {
            let path = folder.path().join(name);
            let open = || FORMATS.open(&path, &OpenOptions::new());
            fs::write(&path, records(&[b"theirs", b"\x08\x01"])).unwrap();
            let format = open().unwrap().format();
            assert_eq!(format.map(|format| format.name()), Some("theirs"), "{name}");
            // A file with another first record isn't of this format, and is read as a message in
            // chunks.
            fs::write(&path, records(&[b"others", b"\x08\x01"])).unwrap();
            let error = open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotChunked, "{name}: {error}");
        }
    }

    #[test]
    fn an_object_in_a_store_is_claimed_as_a_file_is() {
        let source = Arc::new(records(&[b"theirs"]));
        let input = Candidate::of_source("s3://bucket/model.cpb".as_ref(), source).unwrap();
        let opened = FORMATS.open_input(&input, &OpenOptions::new()).unwrap();
        assert!(opened.format().is_some() && opened.chunked().is_none());
    }
}
