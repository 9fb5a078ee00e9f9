//! A stream of a table's batches, which are produced in the background.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use proto_splitter_core::formats::Opened;
use proto_splitter_core::path::PathQuery;
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::{Table, TableOptions};

/// Maximum number of batches that wait to be consumed.
const MOST_WAITING: usize = 1;

/// A stream of a table's rows, in batches that background threads produce. Dropping the stream
/// stops the threads.
///
/// The stream implements [`RecordBatchReader`] for Arrow's libraries. With the feature `ffi`,
/// Arrow's `FFI_ArrowArrayStream` can pass it to libraries in other languages.
#[derive(Debug)]
pub struct TableStream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch>>,
    is_done: bool,
}

impl TableStream {
    /// Starts a stream of the rows of a [`Table`]. A row is an element that a query selects in an
    /// open input.
    ///
    /// # Errors
    ///
    /// The errors of [`Table::new`]; [`ErrorKind::Io`] if no thread can be started. Errors that
    /// occur later are items of the stream.
    pub fn new(
        opened: Arc<Opened>,
        query: PathQuery,
        names: Vec<NameRule>,
        options: TableOptions,
    ) -> Result<TableStream> {
        let schema = {
            let table = Table::new(opened.view()?, &query, &names, &options)?;
            Arc::clone(table.schema())
        };
        let (sender, batches) = sync_channel(MOST_WAITING);
        let work = move || {
            let made = opened.view().and_then(|view| {
                let table = Table::new(view, &query, &names, &options)?;
                table.for_each_batch(|batch| {
                    let taken = sender.send(Ok(batch));
                    taken.map_err(|_| Error::new(ErrorKind::Cancelled, "the stream was dropped"))
                })
            });
            if let Err(error) = made.map_err(|error| opened.placed(error)) {
                // This fails if the stream was dropped. In this case, no one needs the error.
                drop(sender.send(Err(error)));
            }
        };
        Builder::new().name("columns".into()).spawn(work)?;
        Ok(TableStream {
            schema,
            batches,
            is_done: false,
        })
    }
}

impl Iterator for TableStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let batch = self.batches.recv().ok();
        self.is_done = !matches!(batch, Some(Ok(_)));
        batch.map(|batch| batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for TableStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
