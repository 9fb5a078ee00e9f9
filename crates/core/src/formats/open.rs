//! Opening an input of any of the formats.

use std::path::Path;
use std::sync::Arc;

use record_file::{ReadAt, is_record_file};

use super::opened::Opened;
use super::registry::Registry;
use super::{Candidate, CandidateKind, Format, OpenOptions};
use crate::container::{CHUNKED_EXTENSION, ChunkedFile, PLAIN_EXTENSION, is_chunked};
use crate::{Error, ErrorKind, Result};

impl Registry {
    /// Opens an input of any of the formats: a file in chunks, a file or a folder that a format
    /// recognises, or any other file, which is then a message. A path without a file is a prefix:
    /// of `PREFIX.cpb`, else of `PREFIX.pb`, else of what a format recognises.
    ///
    /// The type that the options say, if they do, decides the format, not the input.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if nothing is there or it can't be read; [`ErrorKind::InvalidConfig`] if it
    /// is a folder that no format recognises; what [`check`](Self::check) or the format finds wrong
    /// with it.
    pub fn open(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Opened> {
        let path = path.as_ref();
        let candidate = Candidate::new(path)?;
        if candidate.kind() == CandidateKind::Prefix
            && let Some(file) = [CHUNKED_EXTENSION, PLAIN_EXTENSION]
                .into_iter()
                .find_map(|extension| candidate.continued(&format!(".{extension}")))
        {
            return self.open(&file, options);
        }
        if candidate.kind() == CandidateKind::File && is_chunked(path)? {
            if options.companion.is_some() {
                return Err(alone("a file in chunks").context(path.display()));
            }
            return self.open_chunked(path, options);
        }
        self.check(&candidate, options.companion.as_deref())?;
        let recognized = self.recognize_with(&candidate, options.companion.as_deref());
        if let Some(format) = self.format_of(recognized, options) {
            return self.open_as(format, path, options);
        }
        match candidate.kind() {
            CandidateKind::File if options.companion.is_some() => {
                Err(alone("a message of no known format").context(path.display()))
            }
            CandidateKind::File => Ok(Opened::of_file(path, None, options)?.found_by(*self, None)),
            CandidateKind::Folder => Err(self.unknown_folder(path)),
            CandidateKind::Prefix => Err(nothing_there(path)),
        }
    }

    /// Opens an input of this format, which needn't recognise it.
    ///
    /// # Errors
    ///
    /// As [`Format::open`]; [`ErrorKind::InvalidConfig`] if the options name a file that goes with
    /// the input, and inputs of this format go with none.
    pub fn open_as(
        &self,
        format: &'static dyn Format,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        if options.companion.is_some() && format.companion().is_none() {
            let what = format!("a file of the kind {}", format.title());
            return Err(alone(&what).context(path.as_ref().display()));
        }
        let opened = format.open(path.as_ref(), options)?;
        Ok(opened.found_by(*self, Some(format)))
    }

    /// Opens a message that is not a file: in chunks, or as it is. Its format is the one whose inputs
    /// are of its type, which the options say, or what is in chunks. Nothing is recognised: that is
    /// [`open_source`](Self::open_source).
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
    /// [`ErrorKind::Io`] if it can't be read; [`ErrorKind::InvalidConfig`] if the options name a
    /// file that goes with it; what is wrong with it if it is in chunks.
    pub fn open_reader(&self, bytes: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Opened> {
        if options.companion.is_some() {
            return Err(alone("a message that is not a file"));
        }
        if is_record_file(&bytes)? {
            let file = ChunkedFile::from_source(bytes, &options.limits)?;
            return self.open_chunks(file, options);
        }
        Ok(Opened::of_reader(bytes, None, options)?.found_by(*self, None))
    }

    /// Opens what is like a file and lies elsewhere, such as an object in a store. `called` is its
    /// name, by whose end a format may know it; nothing is looked for there. `None` if a format
    /// knows it and reads files alone: then a copy is what can be opened.
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
    /// let opened = Registry::new(&[]).open_source(bytes, "s3://bucket/message.pb", &options)?;
    /// assert_eq!(opened.ok_or("no format reads it otherwise")?.get("name")?, "a.proto");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if a file in chunks has some of them in other files: those are
    /// opened by [`ChunkedFile::from_sources`], and [`open_chunks`](Self::open_chunks) takes that.
    pub fn open_source(
        &self,
        source: Arc<dyn ReadAt>,
        called: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<Option<Opened>> {
        let called = called.as_ref();
        let in_source = |error: Error| error.context(called.display());
        if options.companion.is_some() {
            return Err(in_source(alone("what is not a file")));
        }
        if is_record_file(&source).map_err(|error| in_source(error.into()))? {
            let opened = self.open_reader(source, options);
            return opened.map(Some).map_err(in_source);
        }
        let candidate = Candidate::of_source(called, &source)?;
        self.check(&candidate, None)?;
        let recognized = self.recognize(&candidate);
        let Some(format) = self.format_of(recognized, options) else {
            let opened = Opened::of_reader(source, None, options).map_err(in_source)?;
            return Ok(Some(opened.found_by(*self, None)));
        };
        let opened = format.open_source(source, called, options);
        let opened = opened.map_err(in_source)?;
        Ok(opened.map(|opened| opened.found_by(*self, Some(format))))
    }

    /// Opens a message in chunks, wherever these are. Its format is the one whose inputs are of its
    /// type, which the options say, or the file.
    ///
    /// # Errors
    ///
    /// What is wrong with the schema in the file, if that is where its type is.
    pub fn open_chunks(
        &self,
        file: ChunkedFile<Arc<dyn ReadAt>>,
        options: &OpenOptions,
    ) -> Result<Opened> {
        let opened = Opened::of_chunked(file, |name| self.message(name), options)?;
        Ok(opened.found_by(*self, None))
    }

    /// The format of an input: what the options say of its type, if they do, comes before the input.
    fn format_of(
        &self,
        recognized: Option<&'static dyn Format>,
        options: &OpenOptions,
    ) -> Option<&'static dyn Format> {
        match &options.descriptor {
            // Of several formats with messages of a type, the input says which it is.
            Some(said) => recognized
                .filter(|format| format.message_types().contains(&said.full_name()))
                .or_else(|| self.of_type(said.full_name())),
            None => recognized,
        }
    }

    fn open_chunked(&self, path: &Path, options: &OpenOptions) -> Result<Opened> {
        let file = ChunkedFile::open_shared(path, &options.limits);
        let opened = file.and_then(|file| self.open_chunks(file, options));
        let opened = opened.map_err(|error| error.context(path.display()))?;
        Ok(opened.reading_chunks(path))
    }

    #[cold]
    fn unknown_folder(&self, path: &Path) -> Error {
        let titles: Vec<&str> = self.formats.iter().map(|format| format.title()).collect();
        let message = format!("the folder holds none of: {}", titles.join(", "));
        Error::new(ErrorKind::InvalidConfig, message).context(path.display())
    }
}

/// The error of an input for which a file that goes with it was named.
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
