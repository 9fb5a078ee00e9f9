//! The elements that a query selects, as a table for consumers of Arrow's C stream interface.

use std::sync::Arc;

use proto_splitter::path::PathQuery;
use proto_splitter::{Opened, Result, member_names};
use proto_splitter_columns::arrow_array::RecordBatchReader;
use proto_splitter_columns::arrow_array::ffi::FFI_ArrowSchema;
use proto_splitter_columns::arrow_array::ffi_stream::FFI_ArrowArrayStream;
use proto_splitter_columns::arrow_schema::{SchemaRef, TimeUnit};
use proto_splitter_columns::{TableOptions, TableStream};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
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
        let stream: Box<dyn RecordBatchReader + Send> = Box::new(stream);
        let stream = FFI_ArrowArrayStream::new(stream);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
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
