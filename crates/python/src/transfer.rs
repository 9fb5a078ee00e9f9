//! The sender and the receiver of a message, which is transferred as serialized frames.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost::Message;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::container::ChunkedFile;
use proto_splitter::formats::{self, OpenOptions};
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::prost_reflect::MessageDescriptor;
use proto_splitter::record_file::{ReadAt, is_record_file};
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitOptions};
use proto_splitter::{Error, ErrorKind};
use proto_splitter_transfer::proto::ResumeToken;
use proto_splitter_transfer::{
    DEFAULT_MAX_CHUNK_SIZE, Frames, ReceiveOptions, Receiver, SendOptions, decode_frame, status,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::raise;
use crate::functions::{MergeArguments, opened};
use crate::handle::Handle;
use crate::input::Input;
use crate::merged::MergedReader;
use crate::schema::message_type;
use crate::work::detached;

/// Converts an error to an exception with a gRPC status: the attributes `grpc_code` and
/// `grpc_details`.
fn refused(py: Python<'_>, error: &Error) -> PyErr {
    with_status(py, raise(py, error, None), error)
}

fn with_status(py: Python<'_>, raised: PyErr, error: &Error) -> PyErr {
    let value = raised.value(py);
    // A file-like object may have raised an exception that accepts no attributes. Such an exception
    // has no status.
    let _ = value.setattr("grpc_code", status::code(error.kind()));
    let _ = value.setattr("grpc_details", PyBytes::new(py, &status::details(error)));
    raised
}

/// Returns the descriptors of `proto_splitter.transfer` as a serialized `FileDescriptorSet`.
#[pyfunction]
pub(crate) fn transfer_descriptors(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, proto_splitter_transfer::proto::FILE_DESCRIPTOR_SET)
}

/// Fails if a received message can't be written to the file `target`.
#[pyfunction]
pub(crate) fn transfer_check_target(py: Python<'_>, target: PathBuf, force: bool) -> PyResult<()> {
    let name = target.display().to_string();
    let created = py.detach(|| AtomicFile::create(&target, &MadeFrom::Nothing, force).map(drop));
    created.map_err(|error| with_status(py, raise(py, &error, Some(&name)), &error))
}

/// Returns the location of an error, as a serialized `ErrorDetail`. `details` are the serialized
/// details of a gRPC status. Returns `None` if the details don't contain a location.
#[pyfunction]
pub(crate) fn transfer_detail<'py>(py: Python<'py>, details: &[u8]) -> Option<Bound<'py, PyBytes>> {
    let detail = status::parse_details(details)?;
    Some(PyBytes::new(py, &detail.encode_to_vec()))
}

/// The options for sending a message, passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct SendArguments {
    #[pyo3(item)]
    max_chunk_size: Option<u64>,
    #[pyo3(item)]
    max_frame_size: Option<usize>,
    #[pyo3(item)]
    compression_level: Option<i32>,
    #[pyo3(item)]
    session: Vec<u8>,
    /// Serialized `ResumeToken` of the receiver; empty if the transfer isn't resumed.
    #[pyo3(item)]
    token: Vec<u8>,
}

impl SendArguments {
    fn options(self) -> SendOptions {
        let size = self.max_chunk_size.unwrap_or(DEFAULT_MAX_CHUNK_SIZE);
        let split = SplitOptions::new()
            .profile(Profile::Extended)
            .max_chunk_size(size);
        let options = SendOptions::new()
            .split(split)
            .compression_level(self.compression_level)
            .session(self.session);
        match self.max_frame_size {
            Some(size) => options.max_frame_size(size),
            None => options,
        }
    }
}

/// An iterator over the serialized frames of one message. Each frame is created on request.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct Sender {
    /// Frames that haven't been returned yet. They are boxed because Python aligns objects to 16
    /// bytes, but the hashers in `Frames` require an alignment of 32 bytes.
    frames: Mutex<Box<Frames>>,
}

#[pymethods]
impl Sender {
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        message: Option<&str>,
        schema: Option<&[u8]>,
        arguments: SendArguments,
    ) -> PyResult<Sender> {
        let token = ResumeToken::decode(&arguments.token[..])
            .map_err(|error| PyValueError::new_err(format!("token: {error}")))?;
        let options = arguments.options();
        let frames = if let Ok(handle) = source.cast::<Handle>() {
            let open = handle.get().open()?;
            detached(py, None, None, |_| {
                Frames::resume(&SizeSplitter, open.merged_source()?, &token, &options)
            })?
        } else {
            let input = Input::of(source)?;
            let descriptor = message_type(py, message.unwrap_or_default(), schema)?;
            let name = input.name();
            detached(py, name.as_deref(), None, |_| {
                let source = merged_source(input, &descriptor)?;
                Frames::resume(&SizeSplitter, source, &token, &options)
            })?
        };
        Ok(Sender {
            frames: Mutex::new(Box::new(frames)),
        })
    }

    /// Returns the number of bytes of the chunks that the receiver has or that were in the frames so
    /// far, and the total size of all chunks.
    fn progress(&self, py: Python<'_>) -> (u64, u64) {
        py.detach(|| self.lock().bytes())
    }

    /// Returns the next frame; `None` after the last one.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let next = py.detach(|| {
            let frame = self.lock().next()?;
            Some(frame.map(|frame| frame.encode_to_vec()))
        });
        match next {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(PyBytes::new(py, &frame))),
            Some(Err(error)) => Err(refused(py, &error)),
        }
    }
}

impl Sender {
    fn lock(&self) -> MutexGuard<'_, Box<Frames>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits for receiving a message, passed from Python as a dictionary.
#[derive(FromPyObject)]
pub(crate) struct ReceiveArguments {
    #[pyo3(item)]
    message_type: Option<String>,
    #[pyo3(item)]
    max_message_size: Option<u64>,
    #[pyo3(item)]
    max_chunks: Option<u64>,
    #[pyo3(item)]
    folder: Option<PathBuf>,
}

/// A receiver of serialized frames. It stores the received chunks in an unnamed file.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct TransferReceiver {
    /// Receiver of the message; `None` once the message has been taken. The receiver is boxed, so
    /// that `Receiver` can have any alignment, although Python aligns objects to only 16 bytes.
    receiver: Mutex<Option<Box<Receiver>>>,
}

#[pymethods]
impl TransferReceiver {
    #[new]
    fn new(arguments: ReceiveArguments) -> TransferReceiver {
        let mut options = ReceiveOptions::new();
        if let Some(name) = arguments.message_type {
            options = options.message_type(name);
        }
        if let Some(size) = arguments.max_message_size {
            options = options.max_message_size(size);
        }
        if let Some(chunks) = arguments.max_chunks {
            options = options.max_chunks(chunks);
        }
        let receiver = Receiver::in_file(arguments.folder.as_deref(), &options);
        TransferReceiver {
            receiver: Mutex::new(Some(Box::new(receiver))),
        }
    }

    /// Processes the next frame.
    fn push(&self, py: Python<'_>, frame: PyBackedBytes) -> PyResult<()> {
        let frame = Bytes::from_owner(frame);
        self.step(py, |receiver| receiver.push(decode_frame(frame)?))
    }

    /// Signals that no more frames will arrive. Fails if the transfer is incomplete; it can then be
    /// resumed.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, Receiver::end)
    }

    /// Aborts the current transfer, if any. Keeps the complete chunks, so that the transfer can be
    /// resumed.
    fn break_off(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, |receiver| {
            receiver.break_off();
            Ok(())
        })
    }

    /// Returns a serialized `ResumeToken`, with which a sender can resume the transfer.
    fn token<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let token = self.step(py, |receiver| Ok(receiver.token().encode_to_vec()))?;
        Ok(PyBytes::new(py, &token))
    }

    /// Returns the number of complete chunks, and the total number of chunks.
    fn chunks(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.step(py, |receiver| Ok(receiver.chunks()))
    }

    /// Returns the number of received bytes of the chunks, and the total size of all chunks.
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.step(py, |receiver| Ok(receiver.bytes()))
    }

    /// Writes the received message to a file. `message` is the full name of the only accepted type,
    /// if there is one.
    fn write_file(
        &self,
        py: Python<'_>,
        target: PathBuf,
        force: bool,
        message: Option<&str>,
    ) -> PyResult<u64> {
        let receiver = self.take(py, message)?;
        let name = target.display().to_string();
        let written = detached(py, Some(&name), None, |_| {
            Ok(receiver.write_file(&target, force))
        })?;
        written.map_err(|error| with_status(py, raise(py, &error, Some(&name)), &error))
    }

    /// Returns a reader for the received message, which is merged while it is read.
    fn merged(&self, py: Python<'_>, arguments: MergeArguments) -> PyResult<MergedReader> {
        let options = arguments.reading(py)?;
        let message = options.get_descriptor().map(|message| message.full_name());
        let receiver = self.take(py, message)?;
        let merged = detached(py, None, None, |_| {
            let merged = |reader| MergedReader::of(reader, &options);
            Ok(whole(receiver, &options).and_then(merged))
        })?;
        merged.map_err(|error| refused(py, &error))
    }

    /// Opens the received message, to read its values and tensors.
    fn handle(
        &self,
        py: Python<'_>,
        message: Option<&str>,
        schema: Option<&[u8]>,
    ) -> PyResult<Handle> {
        let receiver = self.take(py, message)?;
        let options = opening(py, &receiver.begin().message_type, message, schema)?;
        let open = detached(py, None, None, |_| {
            let open = |reader| formats::ALL.open_reader(reader, &options);
            Ok(whole(receiver, &ReadOptions::new()).and_then(open))
        })?;
        let open = open.map_err(|error| refused(py, &error))?;
        Ok(Handle::of(open))
    }

    /// Opens the message while chunks are still arriving. Returns `None` if the trailer hasn't
    /// arrived yet.
    fn arriving(
        &self,
        py: Python<'_>,
        message: Option<&str>,
        schema: Option<&[u8]>,
    ) -> PyResult<Option<Handle>> {
        let arriving = self.step(py, |receiver| {
            let Some(file) = receiver.handle()? else {
                return Ok(None);
            };
            check_type(receiver, message)?;
            Ok(Some((receiver.begin().message_type.clone(), file)))
        })?;
        let Some((name, file)) = arriving else {
            return Ok(None);
        };
        let options = opening(py, &name, message, schema)?;
        let open = formats::ALL.open_chunks(file, &options);
        let open = open.map_err(|error| refused(py, &error))?;
        Ok(Some(Handle::of(open)))
    }
}

/// Returns the options for opening a message whose type has the full name `message`. If `message`
/// is `None`, the full name is `name`, and the type may be unknown.
fn opening(
    py: Python<'_>,
    name: &str,
    message: Option<&str>,
    schema: Option<&[u8]>,
) -> PyResult<OpenOptions> {
    let descriptor = match message {
        Some(message) => Some(message_type(py, message, schema)?),
        // If the type is unknown, fields are identified by number.
        None => message_type(py, name, schema).ok(),
    };
    Ok(OpenOptions::new()
        .descriptor(descriptor)
        .allow_missing_files(true))
}

impl TransferReceiver {
    fn lock(&self) -> MutexGuard<'_, Option<Box<Receiver>>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step<T: Send>(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut Receiver) -> proto_splitter::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| match self.lock().as_mut() {
            Some(receiver) => step(receiver),
            None => Err(taken()),
        });
        done.map_err(|error| refused(py, &error))
    }

    /// Takes the receiver out of this object. Fails, and leaves the receiver there, if the message
    /// doesn't have the type `expected`.
    fn take(&self, py: Python<'_>, expected: Option<&str>) -> PyResult<Box<Receiver>> {
        let taken_out = py.detach(|| {
            let mut held = self.lock();
            if let Some(receiver) = held.as_ref() {
                check_type(receiver, expected)?;
            }
            held.take().ok_or_else(taken)
        });
        taken_out.map_err(|error| refused(py, &error))
    }
}

/// Fails if the message isn't of the type `expected`. The receiver's own options may accept other
/// types, since a receiver is made before it is known which call completes its transfer.
fn check_type(receiver: &Receiver, expected: Option<&str>) -> proto_splitter::Result<()> {
    let found = &receiver.begin().message_type;
    match expected {
        Some(expected) if expected != found => {
            let message = format!("the message has type {found:?}, but {expected} is expected");
            Err(Error::new(ErrorKind::InvalidMessage, message))
        }
        _ => Ok(()),
    }
}

/// Returns the message in an input, as a source. A chunked message is merged while it is read.
fn merged_source(input: Input, descriptor: &MessageDescriptor) -> proto_splitter::Result<Source> {
    let is_chunked = match &input {
        // If the file can't be opened, the error is reported below.
        Input::Path(path) => {
            File::open(path).is_ok_and(|file| is_record_file(&file).unwrap_or(false))
        }
        Input::Reader(reader) => is_record_file(reader)?,
    };
    if !is_chunked {
        return opened(input, descriptor);
    }
    let options = OpenOptions::new().descriptor(descriptor.clone());
    let open = match input {
        Input::Path(path) => formats::ALL.open(path, &options)?,
        Input::Reader(reader) => formats::ALL.open_reader(reader, &options)?,
    };
    open.merged_source()
}

/// Returns a reader for the file with the received chunks, after merging them to verify the
/// message.
fn whole(
    receiver: Box<Receiver>,
    options: &ReadOptions,
) -> proto_splitter::Result<Arc<dyn ReadAt>> {
    let reader = receiver.into_reader()?;
    let file = ChunkedFile::from_source(Arc::clone(&reader), &Limits::new())?;
    file.merge_to(&mut io::sink(), options)?;
    Ok(reader)
}

#[cold]
fn taken() -> Error {
    let message = "the message of this transfer was taken before";
    Error::new(ErrorKind::InvalidConfig, message)
}
