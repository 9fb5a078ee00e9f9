//! The functions behind `split` and `merge` in Python, and the `protosplit` command.

use std::ffi::OsString;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto_splitter::container::ChunkedFile;
use proto_splitter::formats::{ALL, OpenOptions, what_else};
use proto_splitter::merge::{Limits, MergeOptions, Merged, Merger, ReadOptions};
use proto_splitter::path::FieldPath;
use proto_splitter::prost_reflect::MessageDescriptor;
use proto_splitter::record_file::{Error as RecordError, ReadAt, is_record_file};
use proto_splitter::split::{
    AddedChunk, ChunkCompression, ComposableSplitter, Profile, SizeSplitter, Source, SplitContext,
    SplitExt, SplitOptions, WrittenChunk,
};
use proto_splitter::{Error, ErrorKind, Result, VersionDef};
use protosplit_cli::{Exit, Interrupt, Terminal};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::buffer::Buffer;
use crate::error::raise;
use crate::input::Input;
use crate::schema::message_type;
use crate::sink::Sink;
use crate::work::{detached, detached_writing, interruptible, threads};

/// A chunk that a splitter in Python added: its bytes, its field path, true if it is a message, and
/// its index in the file (`None` to append it).
type Added<B> = (B, String, bool, Option<usize>);

/// The fields of a `VersionDef`: the splitter version, the join version, and the bad consumers.
type Version = (i32, i32, Vec<i32>);

/// A splitter for one message type. It adds the chunks that a splitter in Python made or, if there
/// are none, uses the library's splitter for the type.
struct SplitterOf<'a> {
    descriptor: &'a MessageDescriptor,
    added: Option<Vec<Added<Bytes>>>,
    has_base: bool,
    /// Versions to write to the file, if a splitter in Python specifies them.
    version: Option<Version>,
}

impl ComposableSplitter for SplitterOf<'_> {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        if !self.has_base {
            cx.leave_out_message()?;
        }
        if let Some(added) = &self.added {
            for (bytes, path, is_message, index) in added {
                let chunk = if *is_message {
                    AddedChunk::Message(bytes.clone())
                } else {
                    AddedChunk::Bytes(bytes.clone())
                };
                let path = FieldPath::parse(path, self.descriptor)?;
                cx.add_chunk(chunk, &path, *index)?;
            }
            return Ok(());
        }
        ALL.splitter(self.descriptor.full_name()).build_chunks(cx)
    }

    fn version_def(&self) -> VersionDef {
        let Some((splitter_version, join_version, bad_consumers)) = self.version.clone() else {
            return SizeSplitter.version_def();
        };
        VersionDef {
            splitter_version,
            join_version,
            bad_consumers,
        }
    }
}

/// The options of a split, passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct SplitArguments {
    #[pyo3(item)]
    max_chunk_size: Option<u64>,
    #[pyo3(item)]
    value_chunk_size: Option<u64>,
    #[pyo3(item)]
    max_file_size: Option<u64>,
    #[pyo3(item)]
    compression: String,
    #[pyo3(item)]
    profile: String,
    #[pyo3(item)]
    force: bool,
    #[pyo3(item)]
    embed_schema: bool,
    #[pyo3(item)]
    merkle_root: bool,
    #[pyo3(item)]
    always_chunked: bool,
    #[pyo3(item)]
    threads: Option<usize>,
    #[pyo3(item)]
    added: Option<Vec<Added<PyBackedBytes>>>,
    #[pyo3(item)]
    has_base: bool,
    #[pyo3(item)]
    version: Option<Version>,
    /// A string with Riegeli options, or the name of a compression; `None` to use `compression`.
    #[pyo3(item)]
    records: Option<String>,
}

impl SplitArguments {
    /// Returns a function that creates the splitter for a type. The chunks that Python passed are
    /// moved to the splitter, without copying their bytes.
    fn take_splitter<'a>(
        &mut self,
    ) -> impl FnOnce(&'a MessageDescriptor) -> SplitterOf<'a> + use<'a> {
        let (has_base, version) = (self.has_base, self.version.take());
        let added = self.take_added();
        move |descriptor| SplitterOf {
            descriptor,
            added,
            has_base,
            version,
        }
    }

    fn take_added(&mut self) -> Option<Vec<Added<Bytes>>> {
        let added = self.added.take()?.into_iter();
        let owned = |(bytes, path, is_message, index)| {
            (
                Bytes::from_owner::<PyBackedBytes>(bytes),
                path,
                is_message,
                index,
            )
        };
        Some(added.map(owned).collect())
    }

    /// Converts the arguments to options for splitting.
    pub(crate) fn options(&self, py: Python<'_>) -> PyResult<SplitOptions> {
        let invalid = |error: Error| raise(py, &error, None);
        let mut options = SplitOptions::new()
            .profile(self.profile.parse::<Profile>().map_err(invalid)?)
            .compression(
                self.compression
                    .parse::<ChunkCompression>()
                    .map_err(invalid)?,
            )
            .max_file_size(self.max_file_size)
            .force(self.force)
            .embed_schema(self.embed_schema)
            .merkle_root(self.merkle_root)
            .always_chunked(self.always_chunked)
            .threads(threads(self.threads)?);
        if let Some(text) = &self.records {
            options = match text.parse::<ChunkCompression>() {
                Ok(compression) => options.compression(compression),
                Err(_) => options.records(
                    text.parse()
                        .map_err(|error: RecordError| PyValueError::new_err(error.to_string()))?,
                ),
            };
        }
        if let Some(size) = self.max_chunk_size {
            options = options.max_chunk_size(size);
        }
        if let Some(size) = self.value_chunk_size {
            options = options.value_chunk_size(Some(size));
        }
        Ok(options)
    }
}

/// Splits a serialized message and writes it to `PREFIX.cpb`. If the message needn't be split,
/// writes it unchanged to `PREFIX.pb`.
#[pyfunction]
pub(crate) fn split<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    prefix: PathBuf,
    message: &str,
    schema: Option<&[u8]>,
    mut arguments: SplitArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let input = Input::of(source)?;
    let descriptor = message_type(py, message, schema)?;
    let options = arguments.options(py)?;
    let splitter = arguments.take_splitter();
    let name = input.name();
    let outputs = outputs(&prefix);
    let job = |progress| {
        let source = opened(input, &descriptor)?;
        let descriptor = &descriptor;
        let splitter = splitter(descriptor);
        splitter.write_with(source, prefix, &options.progress(progress))
    };
    let written = detached_writing(py, name.as_deref(), &outputs, progress.as_ref(), job)?;
    let result = PyDict::new(py);
    result.set_item("path", &written.path)?;
    result.set_item("is_split", written.is_split)?;
    result.set_item("byte_exact", written.byte_exact)?;
    result.set_item("source_size", written.source_size)?;
    result.set_item("output_size", written.output_size)?;
    let root = written.merkle_root.map(|root| root.to_string());
    result.set_item("merkle_root", root)?;
    let files: Vec<&PathBuf> = written.files.iter().map(|file| &file.path).collect();
    result.set_item("files", files)?;
    result.set_item("chunks", chunk_rows(py, &written.chunks, &descriptor)?)?;
    Ok(result)
}

/// Splits a serialized message and writes the result to an object with `write`. If the message
/// needn't be split, writes it unchanged.
#[pyfunction]
pub(crate) fn split_to<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    message: &str,
    schema: Option<&[u8]>,
    mut arguments: SplitArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (input, sink) = (Input::of(source)?, Sink::of(target)?);
    let descriptor = message_type(py, message, schema)?;
    let options = arguments.options(py)?;
    let splitter = arguments.take_splitter();
    let name = input.name();
    let written = detached(py, name.as_deref(), progress.as_ref(), |progress| {
        let source = opened(input, &descriptor)?;
        let descriptor = &descriptor;
        let splitter = splitter(descriptor);
        sink.written_by(|sink| splitter.write_to_with(source, sink, &options.progress(progress)))
    })?;
    let result = PyDict::new(py);
    result.set_item("is_split", written.is_split)?;
    result.set_item("byte_exact", written.byte_exact)?;
    result.set_item("source_size", written.source_size)?;
    result.set_item("output_size", written.output_size)?;
    let root = written.merkle_root.map(|root| root.to_string());
    result.set_item("merkle_root", root)?;
    result.set_item("chunks", chunk_rows(py, &written.chunks, &descriptor)?)?;
    Ok(result)
}

/// Splits a message in memory, and returns the chunks and the serialized `ChunkedMessage`.
#[pyfunction]
pub(crate) fn split_in_memory(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    message: &str,
    schema: Option<&[u8]>,
    mut arguments: SplitArguments,
) -> PyResult<(Vec<Buffer>, Vec<u8>)> {
    let input = Input::of(source)?;
    let descriptor = message_type(py, message, schema)?;
    let options = arguments.options(py)?;
    let splitter = arguments.take_splitter();
    let name = input.name();
    let split = detached(py, name.as_deref(), None, |progress| {
        let source = opened(input, &descriptor)?;
        let descriptor = &descriptor;
        let splitter = splitter(descriptor);
        splitter.split_with(source, &options.progress(progress))
    })?;
    let chunks = split.bytes().into_iter().map(Buffer::new).collect();
    Ok((chunks, split.message().encode_to_vec()))
}

/// Returns the paths `PREFIX.cpb` and `PREFIX.pb`. A split writes to one of them.
fn outputs(prefix: &Path) -> [PathBuf; 2] {
    ["cpb", "pb"].map(|extension| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        name.into()
    })
}

pub(crate) fn opened(input: Input, descriptor: &MessageDescriptor) -> Result<Source> {
    match input {
        Input::Path(path) => Source::open(path, descriptor.clone()),
        Input::Reader(reader) => {
            let size = reader.size()?;
            Ok(Source::from_reader(reader, size, descriptor.clone()))
        }
    }
}

/// Returns a list of the written chunks, each as a dictionary.
fn chunk_rows<'py>(
    py: Python<'py>,
    written: &[WrittenChunk],
    descriptor: &MessageDescriptor,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut chunks = Vec::with_capacity(written.len());
    for chunk in written {
        let row = PyDict::new(py);
        row.set_item("index", chunk.index.get())?;
        row.set_item("kind", chunk.kind.to_string())?;
        row.set_item("path", chunk.path.display(Some(descriptor)))?;
        row.set_item("size", chunk.size)?;
        row.set_item("stored_size", chunk.stored_size)?;
        row.set_item("same_as", chunk.same_as.map(|chunk| chunk.get()))?;
        chunks.push(row);
    }
    Ok(chunks)
}

/// The options of a merge, passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct MergeArguments {
    #[pyo3(item)]
    message: Option<String>,
    #[pyo3(item)]
    schema: Option<Vec<u8>>,
    #[pyo3(item)]
    force: bool,
    #[pyo3(item)]
    threads: Option<usize>,
}

impl MergeArguments {
    pub(crate) fn reading(&self, py: Python<'_>) -> PyResult<ReadOptions> {
        let descriptor = self
            .message
            .as_ref()
            .map(|name| message_type(py, name, self.schema.as_deref()))
            .transpose()?;
        Ok(ReadOptions::new()
            .descriptor(descriptor)
            .threads(threads(self.threads)?))
    }
}

/// Returns the options for opening the input of a merge with the options `reading`.
pub(crate) fn opening(reading: &ReadOptions) -> OpenOptions {
    OpenOptions::new()
        .descriptor(reading.get_descriptor().cloned())
        .threads(reading.get_threads())
}

/// Merges a chunked file into a file with the whole message.
#[pyfunction]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    source: PathBuf,
    target: PathBuf,
    arguments: MergeArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let reading = arguments.reading(py)?;
    let name = source.display().to_string();
    let job = |progress| {
        let options = MergeOptions::from(reading.progress(progress)).force(arguments.force);
        match Input::Path(source.clone()).in_records(&opening(options.get_reading()))? {
            Some(opened) => opened.merge_to_file(&target, &options),
            None => Merger::new()
                .options(&options)
                .merge_to_file(&source, &target)
                .map_err(|error| by_what_it_is(error, &source)),
        }
    };
    let outputs = std::slice::from_ref(&target);
    let merged = detached_writing(py, Some(&name), outputs, progress.as_ref(), job)?;
    merged_as_dict(py, &merged)
}

/// Merges a chunked message, and writes the result to an object with `write`.
#[pyfunction]
pub(crate) fn merge_to<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    arguments: MergeArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (input, sink) = (Input::of(source)?, Sink::of(target)?);
    let reading = arguments.reading(py)?;
    let name = input.name();
    let merged = detached(py, name.as_deref(), progress.as_ref(), |progress| {
        let reading = reading.progress(progress);
        let opened = input.in_records(&opening(&reading))?;
        sink.written_by(|sink| match (opened, input) {
            (Some(opened), _) => opened.merge_to(sink, &reading),
            (None, Input::Path(path)) => {
                let options = MergeOptions::from(reading);
                let merged = Merger::new().options(&options).merge_to(&path, sink);
                merged.map_err(|error| by_what_it_is(error, &path))
            }
            (None, Input::Reader(reader)) => {
                ChunkedFile::from_source(reader, &Limits::new())?.merge_to(sink, &reading)
            }
        })
    })?;
    merged_as_dict(py, &merged)
}

/// If `error` means that the file isn't a message, and the file's actual kind is recognized, adds
/// the actual kind to the error's message.
fn by_what_it_is(error: Error, path: &Path) -> Error {
    let what = match error.kind() {
        ErrorKind::InvalidMessage | ErrorKind::NotChunked => what_else(path),
        _ => None,
    };
    match what {
        Some(what) => Error::new(error.kind(), format!("{error}; {what}")),
        None => error,
    }
}

fn merged_as_dict<'py>(py: Python<'py>, merged: &Merged) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("input", &merged.input)?;
    result.set_item("is_split", merged.chunked)?;
    result.set_item("size", merged.size)?;
    result.set_item("crc32c", merged.crc32c)?;
    result.set_item("byte_exact", merged.byte_exact)?;
    result.set_item("message_type", merged.message_type.as_deref())?;
    Ok(result)
}

/// Merges a chunked message, and returns the result as bytes in memory.
#[pyfunction]
pub(crate) fn merge_to_bytes<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    arguments: MergeArguments,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Buffer> {
    let input = Input::of(source)?;
    let options = arguments.reading(py)?;
    let name = input.name();
    let bytes = detached(py, name.as_deref(), progress.as_ref(), |progress| {
        let options = options.progress(progress);
        if let Some(opened) = input.in_records(&opening(&options))? {
            return opened.bytes();
        }
        match input {
            Input::Path(path) => {
                let merged = Merger::new().options(&options).merge_to_bytes(&path);
                merged.map_err(|error| by_what_it_is(error, &path))
            }
            Input::Reader(reader) => merge_reader(reader, &options),
        }
    })?;
    Ok(Buffer::new(bytes))
}

fn merge_reader(reader: Arc<dyn ReadAt>, options: &ReadOptions) -> Result<bytes::Bytes> {
    if is_record_file(&reader).map_err(Error::from)? {
        return ChunkedFile::from_source(reader, &Limits::new())?.merge_to_bytes(options);
    }
    let size = reader.size()?;
    let mut bytes = Vec::new();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if bytes.try_reserve_exact(size).is_err() {
        let error = io::Error::from(io::ErrorKind::OutOfMemory);
        return Err(Error::from(error).context(format!("a message of {size} bytes")));
    }
    bytes.resize(size, 0);
    reader.read_exact_at(0, &mut bytes)?;
    Ok(bytes.into())
}

/// Runs the `protosplit` command, and returns its exit code. The first argument is the command's
/// name.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    let interrupt = Interrupt::new();
    let stop = interrupt.clone();
    let run = || {
        let mut stdout = BufWriter::new(io::stdout());
        let terminal = Terminal::detect();
        protosplit_cli::run_on(
            arguments,
            &mut stdout,
            &mut io::stderr(),
            terminal,
            &interrupt,
        )
    };
    interruptible(py, run, move || {
        if !stop.raise() {
            // The command has nothing to clean up, or was interrupted before, so the process ends
            // at once.
            std::process::exit(Exit::Interrupted.code().into());
        }
    })
    .map(Exit::code)
}
