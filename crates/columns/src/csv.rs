//! Writing tables as comma-separated values.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_csv::WriterBuilder;
use arrow_schema::DataType;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::ipc::of_writer;
use crate::table::{Plan, Table};
use crate::unit::{Spare, Unit, UnitSize};

const UNIT: UnitSize = UnitSize {
    rows: 64 << 10,
    bytes: 8 << 20,
};

impl Table<'_> {
    /// Writes all rows as CSV, and returns their number. The first line contains the names of the
    /// columns. Missing values are empty, bytes are in hexadecimal, and times are in the ISO 8601
    /// format.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if a column contains messages, lists or maps; the errors of
    /// [`for_each_batch`](Table::for_each_batch); any error from writing to `sink`.
    pub fn write_csv(&self, sink: &mut dyn Write) -> Result<u64> {
        for field in self.schema().fields() {
            let what = match field.data_type() {
                DataType::Struct(_) => "a message",
                DataType::List(_) => "a list",
                DataType::Map(..) => "a map",
                _ => continue,
            };
            let message = format!(
                "CSV can't hold a column of this kind, {what}: name fields in it, or write Parquet"
            );
            return Err(Error::new(ErrorKind::InvalidPath, message).at_path(field.name()));
        }
        let empty = RecordBatch::new_empty(std::sync::Arc::clone(self.schema()));
        sink.write_all(&text(&empty, true)?)?;
        let mut rows = 0;
        let make = |unit: Unit, plan: &Plan, spare: &Spare| {
            let mut lines = Vec::new();
            plan.batches(&unit, UNIT.rows, |batch| {
                lines.extend(text(batch, false)?);
                Ok(())
            })?;
            let count = unit.elements.len();
            spare.give(unit);
            Ok((count, lines))
        };
        self.each_unit(UNIT, make, |(count, lines)| {
            rows += count as u64;
            Ok(sink.write_all(&lines)?)
        })?;
        Ok(rows)
    }
}

fn text(batch: &RecordBatch, with_header: bool) -> Result<Vec<u8>> {
    let mut writer = WriterBuilder::new()
        .with_header(with_header)
        .build(Vec::new());
    writer.write(batch).map_err(of_writer)?;
    Ok(writer.into_inner())
}
