//! Open inputs, from which Python reads values, fields and tensors.

use std::path::PathBuf;
use std::sync::Arc;

use proto_splitter::formats::{self, OpenOptions, Opened};
use proto_splitter::path::{FieldPath, TargetKind};
use proto_splitter::progress::Progress;
use proto_splitter::prost_reflect::{Kind, MessageDescriptor};
use proto_splitter::sequences::SequenceFormat;
use proto_splitter::tensor::{ByteOrder, TensorInfo};
use proto_splitter::view::{MessageView, ScalarValue};
use proto_splitter::{Error, ErrorKind, Result};
use proto_splitter_columns::TableOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::buffer::Buffer;
use crate::error::raise;
use crate::input::Input;
use crate::schema::{message_type, sequence_root};
use crate::table::{Table, unit};
use crate::target::Target;
use crate::work::{detached, threads};

/// Fails if the message type of an input is unknown, since tensors are found by this type. An
/// archive needs no type.
fn check_typed(opened: &Opened) -> Result<()> {
    if opened.archive().is_some() || opened.descriptor().is_some() {
        return Ok(());
    }
    let message = "tensors are found by the type of the message, which is not known: give it as \
                   message, or open a file of another format by its path";
    Err(Error::new(ErrorKind::SchemaNeeded, message))
}

/// An open input. Its methods can be called from any thread.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct Handle {
    open: std::sync::RwLock<Option<Arc<Opened>>>,
    name: Option<String>,
}

impl Handle {
    /// Wraps an open input.
    pub(crate) fn of(open: Opened) -> Handle {
        Handle {
            open: std::sync::RwLock::new(Some(Arc::new(open))),
            name: None,
        }
    }
}

#[pymethods]
impl Handle {
    #[new]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        message: Option<&str>,
        schema: Option<&[u8]>,
        n_threads: Option<usize>,
        delimited: Option<&str>,
    ) -> PyResult<Handle> {
        let input = Input::of(source)?;
        let root = delimited
            .map(|name| sequence_root(py, name, schema))
            .transpose()?;
        let descriptor = message
            .map(|name| message_type(py, name, schema))
            .transpose()?;
        let n_threads = threads(n_threads)?;
        let name = input.name();
        // Other parts of the message can be read even if its external files are missing.
        let options = OpenOptions::new()
            .descriptor(descriptor)
            .threads(n_threads)
            .allow_missing_files(true);
        let open = detached(py, name.as_deref(), None, |_| match input {
            _ if let Some(root) = &root => {
                let candidate = input.candidate()?;
                let options = root.opening(options.clone());
                formats::ALL.open_input_as(&SequenceFormat, &candidate, &options)
            }
            Input::Path(path) => formats::ALL.open(path, &options),
            Input::Reader(ref reader) => match input.in_records(&options)? {
                Some(opened) => Ok(opened),
                None => formats::ALL.open_reader(Arc::clone(reader), &options),
            },
        })?;
        Ok(Handle {
            open: std::sync::RwLock::new(Some(Arc::new(open))),
            name,
        })
    }

    /// Closes the input's files. A file that another thread is reading is closed after the read.
    fn close(&self) {
        let mut open = self
            .open
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *open = None;
    }

    /// Returns the name of the input's format; `None` if it is unknown.
    #[getter]
    fn format(&self) -> PyResult<Option<&'static str>> {
        let open = self.open()?;
        Ok(open.format().map(|format| format.name()))
    }

    /// Returns the paths of the input's files: the main file, and the files to which it refers.
    #[getter]
    fn files(&self) -> PyResult<Vec<PathBuf>> {
        let open = self.open()?;
        Ok(open.files().to_vec())
    }

    /// Returns the full name of the message type; `None` if it is unknown.
    #[getter]
    fn message_type(&self) -> PyResult<Option<String>> {
        let open = self.open()?;
        Ok(open.descriptor().map(|found| found.full_name().to_owned()))
    }

    /// Returns the value at a field path. For a message, returns its serialized bytes.
    fn get<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyAny>> {
        let open = self.open()?;
        let (kind, bytes) = detached(py, self.name.as_deref(), None, |_| {
            let root = open.descriptor();
            let path = parse(path, root)?;
            check_complete(&open, &path)?;
            let kind = root.map(|root| path.resolve(root)).transpose()?;
            let bytes = open.view()?.get(&path)?;
            Ok((kind.map(|target| target.kind), bytes))
        })?;
        match kind {
            Some(TargetKind::Scalar(kind)) => scalar(py, &kind, &bytes),
            _ => Ok(Bound::new(py, Buffer::new(bytes))?.into_any()),
        }
    }

    /// Copies the value at a field path into a writable buffer, and returns the number of bytes
    /// copied.
    fn get_into(&self, py: Python<'_>, path: &str, buffer: &Bound<'_, PyAny>) -> PyResult<u64> {
        let open = self.open()?;
        let mut target = Target::of(buffer)?;
        detached(py, self.name.as_deref(), None, |_| {
            let path = parse(path, open.descriptor())?;
            check_complete(&open, &path)?;
            open.view()?.get_to(&path, &mut target)
        })
    }

    /// Returns the size of the value at a field path, in bytes; `None` if there is no value.
    fn size(&self, py: Python<'_>, path: &str) -> PyResult<Option<u64>> {
        let open = self.open()?;
        detached(py, self.name.as_deref(), None, |_| {
            let path = parse(path, open.descriptor())?;
            open.view()?.size(&path)
        })
    }

    /// Returns the fields of the message at a path, each as its field path and its size in bytes.
    fn fields(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, u64)>> {
        let open = self.open()?;
        detached(py, self.name.as_deref(), None, |_| {
            let root = open.descriptor();
            let path = parse(path, root)?;
            fields(&open.view()?, &path, root)
        })
    }

    /// Returns a list with a dictionary for each tensor: its name, dtype, shape, size in bytes,
    /// byte order, and whether its elements are packed.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let open = self.open()?;
        let tensors = detached(py, self.name.as_deref(), None, |_| {
            check_typed(&open)?;
            open.tensors()
        })?;
        let list = PyList::empty(py);
        for tensor in &tensors {
            let row = PyDict::new(py);
            row.set_item("name", &tensor.name)?;
            row.set_item("dtype", tensor.dtype.name())?;
            row.set_item("shape", &tensor.shape)?;
            row.set_item("bytes", tensor.bytes)?;
            row.set_item("packed", tensor.is_packed())?;
            row.set_item("little_endian", tensor.byte_order != ByteOrder::Big)?;
            list.append(row)?;
        }
        Ok(list)
    }

    /// Returns the elements that a query selects, as a table with one row for each element.
    fn table(
        &self,
        py: Python<'_>,
        query: &str,
        columns: Option<Vec<String>>,
        with_parent: bool,
        time_unit: &str,
        n_threads: Option<usize>,
    ) -> PyResult<Table> {
        let mut options = TableOptions::new()
            .with_parent(with_parent)
            .time_unit(unit(time_unit)?)
            .threads(threads(n_threads)?);
        if let Some(columns) = columns {
            options = options.columns(columns);
        }
        let open = self.open()?;
        let made = Table::new(open, query, options);
        made.map_err(|error| raise(py, &error, self.name.as_deref()))
    }

    /// Returns the levels of detail of a tensor: see `Opened::lod`.
    fn lod(&self, py: Python<'_>, name: &str) -> PyResult<Vec<Vec<u64>>> {
        let open = self.open()?;
        detached(py, self.name.as_deref(), None, |_| {
            open.lod(&found_tensor(&open, name)?)
        })
    }

    /// Returns the path of the file that contains a tensor, and the tensor's offset in the file.
    /// Returns `None` unless the tensor is contiguous in a file: see `Opened::tensor_in_file`.
    fn tensor_in_file(&self, py: Python<'_>, name: &str) -> PyResult<Option<(PathBuf, u64)>> {
        let open = self.open()?;
        detached(py, self.name.as_deref(), None, |_| {
            let info = open.find_tensor(name)?;
            let place = info.and_then(|info| open.tensor_in_file(&info));
            Ok(place.map(|(path, range)| (path.to_owned(), range.start)))
        })
    }

    /// Returns the elements of a string tensor. If fewer elements are stored than the shape
    /// requires, the last one is repeated; if none are stored, all strings are empty.
    fn strings<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let open = self.open()?;
        let elements = detached(py, self.name.as_deref(), None, |_| {
            check_typed(&open)?;
            open.strings(&found_tensor(&open, name)?)
        })?;
        PyList::new(py, elements.iter().map(|element| PyBytes::new(py, element)))
    }

    /// Reads each of the tensors in `names` into the buffer with the same index. The buffers must
    /// not overlap, and nothing else may access them during the call.
    fn fill_tensors(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        buffers: Vec<Bound<'_, PyAny>>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let open = self.open()?;
        let mut targets = buffers
            .iter()
            .map(Target::of)
            .collect::<PyResult<Vec<_>>>()?;
        if names.len() != targets.len() {
            let message = format!("{} names for {} buffers", names.len(), targets.len());
            return Err(PyValueError::new_err(message));
        }
        if !Target::are_apart(&targets) {
            return Err(PyValueError::new_err("two of the buffers overlap"));
        }
        let name = self.name.as_deref();
        detached(py, name, progress.as_ref(), |progress: Progress| {
            check_typed(&open)?;
            let infos = names.iter().map(|name| found_tensor(&open, name));
            let infos = infos.collect::<Result<Vec<_>>>()?;
            let mut wanted = Vec::with_capacity(targets.len());
            for (info, target) in infos.iter().zip(&mut targets) {
                // SAFETY: The buffers don't overlap. The only caller, `Tensors.load`, passes arrays
                // that it has just created, and returns them only after this call.
                wanted.push((info, unsafe { target.as_mut_slice() }));
            }
            open.read_tensors_into(wanted, &progress)
        })
    }

    /// Reads a tensor into a writable buffer.
    fn tensor_into(
        &self,
        py: Python<'_>,
        name: &str,
        buffer: &Bound<'_, PyAny>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let open = self.open()?;
        let target = Target::of(buffer)?;
        detached(
            py,
            self.name.as_deref(),
            progress.as_ref(),
            |progress: Progress| {
                check_typed(&open)?;
                let reader = open.tensor(name)?;
                let meter = progress.meter(reader.info().bytes);
                reader.write_to(&mut target.reporting(meter))
            },
        )
    }
}

impl Handle {
    pub(crate) fn open(&self) -> PyResult<Arc<Opened>> {
        let open = self
            .open
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on closed file");
        open.clone().ok_or_else(closed)
    }
}

/// Fails if `path` is the root, which selects the whole message, and a file to which the message
/// refers is missing.
fn check_complete(open: &Opened, path: &FieldPath) -> Result<()> {
    if path.is_root() {
        open.check_complete()?;
    }
    Ok(())
}

fn parse(text: &str, root: Option<&MessageDescriptor>) -> Result<FieldPath> {
    match root {
        _ if text.is_empty() || text == "." => Ok(FieldPath::root()),
        Some(root) => FieldPath::parse(text, root),
        None => text.parse(),
    }
}

fn fields(
    view: &MessageView<'_>,
    path: &FieldPath,
    root: Option<&MessageDescriptor>,
) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for field in view.fields(path)? {
        let field = field?;
        found.push((path.join(field.step).display(root), field.size));
    }
    Ok(found)
}

/// Converts the wire format of a scalar value to a Python object.
fn scalar<'py>(py: Python<'py>, kind: &Kind, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        // Python's error names the position of bytes that aren't UTF-8.
        Kind::String => {
            let bytes = PyBytes::new(py, bytes);
            return Ok(PyString::from_encoded_object(&bytes, None, None)?.into_any());
        }
        Kind::Bytes | Kind::Message(_) => return Ok(PyBytes::new(py, bytes).into_any()),
        _ => {}
    }
    Ok(match ScalarValue::decode(kind, bytes.to_vec().into()) {
        Some(ScalarValue::Signed(value)) => value.into_pyobject(py)?.into_any(),
        Some(ScalarValue::Unsigned(value)) => value.into_pyobject(py)?.into_any(),
        Some(ScalarValue::Float(value)) => value.into_pyobject(py)?.into_any(),
        Some(ScalarValue::Double(value)) => value.into_pyobject(py)?.into_any(),
        Some(ScalarValue::Bool(value)) => value.into_pyobject(py)?.to_owned().into_any(),
        _ => return Err(PyValueError::new_err("the number is truncated")),
    })
}

/// Returns the tensor with this name. Fails if there is none.
fn found_tensor(open: &Opened, name: &str) -> Result<TensorInfo> {
    open.find_tensor(name)?.ok_or_else(|| {
        let message = format!("there is no tensor {name:?}");
        Error::new(ErrorKind::InvalidPath, message)
    })
}
