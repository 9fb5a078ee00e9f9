//! Writing tables as Parquet files.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use proto_splitter_core::Result;

use crate::table::{Plan, Table, of_arrow};
use crate::unit::{Spare, Unit, UnitSize};

/// Number of rows and total size of the rows' elements and parents, in bytes, at which a row group
/// is complete. Reaching one of them is enough.
const ROW_GROUP: UnitSize = UnitSize {
    rows: 512 << 10,
    bytes: 16 << 20,
};

/// Number of rows to convert to columns at a time.
const BATCH: usize = 16 << 10;

impl Table<'_> {
    /// Writes all rows as a Parquet file, and returns the number of rows. Each thread builds one
    /// row group at a time.
    ///
    /// # Errors
    ///
    /// The errors of [`for_each_batch`](Table::for_each_batch); any error from writing to `sink`.
    /// After an error, `sink` may contain part of a file.
    pub fn write_parquet(&self, sink: &mut dyn Write) -> Result<u64> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("proto-splitter ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let schema = Arc::clone(self.schema());
        let writer =
            ArrowWriter::try_new(Vec::new(), schema, Some(properties)).map_err(of_arrow)?;
        let (mut writer, factory) = writer.into_serialized_writer().map_err(of_arrow)?;
        let mut rows = 0;
        let next = AtomicUsize::new(0);
        let make = |unit: Unit, plan: &Plan, spare: &Spare| {
            let made = row_group(&unit, plan, &factory, &next);
            spare.give(unit);
            made
        };
        self.each_unit(ROW_GROUP, make, |(count, chunks)| {
            rows += count as u64;
            append(&mut writer, chunks)?;
            drain(&mut writer, sink)
        })?;
        writer.finish().map_err(of_arrow)?;
        drain(&mut writer, sink)?;
        Ok(rows)
    }
}

/// Converts the elements of a unit to a row group, and returns the number of rows and the column
/// chunks.
fn row_group(
    unit: &Unit,
    plan: &Plan,
    factory: &ArrowRowGroupWriterFactory,
    next: &AtomicUsize,
) -> Result<(usize, Vec<ArrowColumnChunk>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    let mut writers = factory.create_column_writers(at).map_err(of_arrow)?;
    plan.batches(unit, BATCH, |batch| {
        let mut writers = writers.iter_mut();
        let fields = plan.schema().fields().iter().zip(batch.columns());
        for (field, column) in fields {
            for leaf in compute_leaves(field, column).map_err(of_arrow)? {
                if let Some(writer) = writers.next() {
                    writer.write(&leaf).map_err(of_arrow)?;
                }
            }
        }
        Ok(())
    })?;
    let chunks = writers.into_iter().map(ArrowColumnWriter::close);
    let chunks = chunks.collect::<Result<Vec<_>, _>>().map_err(of_arrow)?;
    Ok((unit.elements.len(), chunks))
}

fn append(writer: &mut SerializedFileWriter<Vec<u8>>, chunks: Vec<ArrowColumnChunk>) -> Result<()> {
    let mut group = writer.next_row_group().map_err(of_arrow)?;
    for chunk in chunks {
        chunk.append_to_row_group(&mut group).map_err(of_arrow)?;
    }
    group.close().map(drop).map_err(of_arrow)
}

/// Moves the writer's output to `sink`. The writer can't write to `sink` itself, since `sink` isn't
/// `Send`.
fn drain(writer: &mut SerializedFileWriter<Vec<u8>>, sink: &mut dyn Write) -> Result<()> {
    writer.flush().map_err(of_arrow)?;
    let bytes = writer.inner_mut();
    sink.write_all(bytes)?;
    bytes.clear();
    Ok(())
}
