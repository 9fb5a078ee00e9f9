//! The elements that a query selects, as a table for consumers of Arrow's C stream interface.

use std::sync::Arc;

use proto_splitter::path::PathQuery;
use proto_splitter::{Opened, Result, member_names};
use proto_splitter_columns::arrow_array::ffi::FFI_ArrowSchema;
use proto_splitter_columns::arrow_array::ffi_stream::FFI_ArrowArrayStream;
use proto_splitter_columns::arrow_array::{RecordBatch, RecordBatchReader};
use proto_splitter_columns::arrow_schema::{ArrowError, SchemaRef, TimeUnit};
use proto_splitter_columns::{TableOptions, TableStream};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::raise;

/// The elements that a query selects, as a table with one row for each element. Each call of
/// `stream` reads the elements again.
#[pyclass(frozen, module = "proto_splitter._core")]
pub(crate) struct Table {
    open: Arc<Opened>,
    query: PathQuery,
    options: TableOptions,
    schema: SchemaRef,
}

impl Table {
    /// Determines the columns for a query, without reading all elements.
    pub(crate) fn new(open: Arc<Opened>, query: &str, options: TableOptions) -> Result<Table> {
        let query = PathQuery::parse(query, open.descriptor())?;
        let names = member_names();
        let table = proto_splitter_columns::Table::new(open.view()?, &query, &names, &options)?;
        let schema = Arc::clone(table.schema());
        Ok(Table {
            open,
            query,
            options,
            schema,
        })
    }
}

#[pymethods]
impl Table {
    /// Returns the names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// Returns a Python capsule that contains an `ArrowSchema`.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Returns a Python capsule that contains an `ArrowArrayStream`.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let (open, query) = (Arc::clone(&self.open), self.query.clone());
        let stream = TableStream::new(open, query, member_names(), self.options.clone());
        let stream = stream.map_err(|error| raise(py, &error, None))?;
        let stream: Box<dyn RecordBatchReader + Send> = Box::new(Detached(stream));
        let stream = FFI_ArrowArrayStream::new(stream);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// A stream that releases the GIL while it waits for a batch. Some libraries hold the GIL while they
/// read a stream, but the threads that make the batches need the GIL if the source is a Python
/// object, and so does the thread that receives a message which is still arriving.
struct Detached(TableStream);

impl Iterator for Detached {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: This may be called at any time. It returns null in a thread that the interpreter
        // doesn't know, and that therefore doesn't hold the GIL.
        if unsafe { ffi::PyGILState_GetThisThreadState() }.is_null() {
            return self.0.next();
        }
        // PyO3 isn't used here, since only the interpreter knows whether other code has released
        // the GIL in this thread.
        // SAFETY: The interpreter exists, since it knows this thread.
        let state = unsafe { ffi::PyGILState_Ensure() };
        // SAFETY: This thread holds the GIL after the previous call.
        let thread = unsafe { ffi::PyEval_SaveThread() };
        let next = self.0.next();
        // SAFETY: These revert the previous two calls, which were made in the same thread.
        unsafe {
            ffi::PyEval_RestoreThread(thread);
            ffi::PyGILState_Release(state);
        }
        next
    }
}

impl RecordBatchReader for Detached {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Returns the time unit with this name: `s`, `ms`, `us` or `ns`.
///
/// # Errors
///
/// `ValueError` for any other name.
pub(crate) fn unit(name: &str) -> PyResult<TimeUnit> {
    match name {
        "s" => Ok(TimeUnit::Second),
        "ms" => Ok(TimeUnit::Millisecond),
        "us" => Ok(TimeUnit::Microsecond),
        "ns" => Ok(TimeUnit::Nanosecond),
        _ => Err(PyValueError::new_err("time_unit must be s, ms, us or ns")),
    }
}
