//! Writing tables as Arrow IPC files.

use std::io::Write;

use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow_schema::ArrowError;
use proto_splitter_core::{Error, Result};

use crate::table::{Table, of_arrow};

impl Table<'_> {
    /// Writes all rows as an Arrow IPC file, also known as Feather, and returns the number of rows.
    ///
    /// # Errors
    ///
    /// The errors of [`for_each_batch`](Table::for_each_batch); any error from writing to `sink`.
    /// After an error, `sink` may contain part of a file.
    pub fn write_arrow(&self, sink: &mut dyn Write) -> Result<u64> {
        let options =
            IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let writer = FileWriter::try_new_with_options(sink, self.schema(), options);
        let mut writer = writer.map_err(of_writer)?;
        let mut rows = 0;
        self.for_each_batch(|batch| {
            rows += batch.num_rows() as u64;
            writer.write(&batch).map_err(of_writer)
        })?;
        writer.finish().map_err(of_writer)?;
        Ok(rows)
    }
}

/// Converts an error from Arrow's writer. If the sink has failed, returns the sink's error.
pub(crate) fn of_writer(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        error => of_arrow(error),
    }
}
