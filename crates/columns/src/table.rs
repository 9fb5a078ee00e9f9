//! Tables with a row for each element that a query selects.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use prost_reflect::Kind;
use proto_splitter_core::path::{FieldPath, MapKey, PathQuery, QueryLevel, TargetKind};
use proto_splitter_core::threads::{self, Ahead};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::NameRule;
use proto_splitter_core::view::size_tree::with_largest;
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::TableOptions;
use crate::column::Column;
use crate::column::MessageColumns;
use crate::fields::{Met, number};
use crate::pending::Pending;
use crate::plan::{Columns, Planner};
use crate::repeats::Repeats;
use crate::shape::{Scalar, Shape};
use crate::source::Source;
use crate::unit::{Elements, LevelUnit, Spare, Unit, UnitSize, Walk};

/// Maximum total size of the units that are being converted at the same time, in bytes.
const MOST_AHEAD: u64 = 64 << 20;

/// A table with a row for each element that a query selects in a message. The columns depend only
/// on the message's type and the options, so they are known before any element is read.
///
/// ```
/// use prost_reflect::ReflectMessage;
/// use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
/// use proto_splitter_columns::{Table, TableOptions};
/// use proto_splitter_core::ReadOptions;
/// use proto_splitter_core::path::PathQuery;
/// use proto_splitter_core::view::MessageView;
///
/// let message = |name: &str| DescriptorProto { name: Some(name.into()), ..Default::default() };
/// let file = FileDescriptorProto {
///     message_type: vec![message("A"), message("B")],
///     ..Default::default()
/// };
/// let bytes = prost_reflect::prost::Message::encode_to_vec(&file);
/// let view = MessageView::of_plain(&bytes, ReadOptions::new().descriptor(file.descriptor()))?;
/// let query = PathQuery::parse("message_type[*]", view.descriptor())?;
///
/// let table = Table::new(view, &query, &[], &TableOptions::new())?;
/// let mut csv = Vec::new();
/// assert_eq!(table.write_csv(&mut csv)?, 2);
/// assert_eq!(csv, b"name\nA\nB\n");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub struct Table<'a> {
    view: MessageView<'a>,
    query: PathQuery,
    names: Vec<NameRule>,
    plan: Plan,
    threads: NonZeroUsize,
}

impl std::fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("query", &self.query.as_str())
            .field("schema", &self.plan.schema)
            .finish_non_exhaustive()
    }
}

/// The columns of a table, and the fields to read for them.
pub(crate) struct Plan {
    query: String,
    schema: SchemaRef,
    row: Row,
    levels: Vec<Level>,
}

/// The columns for rows that are messages, or the column for rows that are other values.
enum Row {
    Message(Columns),
    /// A value that isn't a message and needs only one column.
    Value(Shape),
}

/// The columns for one list, map or message on the query's path.
struct Level {
    key: Option<Kind>,
    fields: Option<Columns>,
    is_row: bool,
}

impl<'a> Table<'a> {
    /// Plans the columns for the elements that `query` selects. `names` contains the rules that
    /// give names to elements, as in [`MessageView::select`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SchemaNeeded`] if the message's type is unknown; [`ErrorKind::InvalidPath`] if
    /// a requested column doesn't exist or has an unsupported type, two columns have the same name,
    /// or there would be no columns.
    pub fn new(
        view: MessageView<'a>,
        query: &PathQuery,
        names: &[NameRule],
        options: &TableOptions,
    ) -> Result<Table<'a>> {
        let root = view.descriptor().ok_or_else(|| {
            let message = "columns need the message's type, which is unknown";
            Error::new(ErrorKind::SchemaNeeded, message)
        })?;
        let plan = Plan::new(query, root, options)?;
        Ok(Table {
            query: query.clone(),
            names: names.to_vec(),
            plan,
            threads: threads::count(options.threads),
            view,
        })
    }

    /// Returns the Arrow schema, which contains the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// Passes all rows to `take` in batches, in order. Meanwhile, other threads build the next
    /// batches.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`], with the offset, if an element doesn't match its type; any
    /// error from reading the message or from `take`.
    pub fn for_each_batch(&self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let size = UnitSize {
            rows: 64 << 10,
            bytes: 8 << 20,
        };
        // Batches are finished in order, since the dictionary of each batch must extend that of the
        // previous one.
        let fill = |unit, plan: &Plan, _: &Spare| plan.fill(unit);
        self.each_unit(size, fill, |filled: Filled| {
            take(filled.finish(&self.plan)?)
        })
    }

    /// Converts all units with `make`, on several threads, and passes the results to `take` in
    /// order. `make` may give a unit back to [`Spare`], so that its memory is reused.
    pub(crate) fn each_unit<T: Send>(
        &self,
        size: UnitSize,
        make: impl Fn(Unit, &Plan, &Spare) -> Result<T> + Sync,
        take: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let selected = self.view.select(&self.query, &self.names)?;
        let plan = &self.plan;
        let shape = match &plan.row {
            Row::Message(columns) => Some(Arc::clone(&columns.shape)),
            Row::Value(_) => None,
        };
        let levels = plan.levels.iter().map(|level| {
            let shape = level
                .fields
                .as_ref()
                .map(|fields| Arc::clone(&fields.shape));
            (shape, level.is_row)
        });
        let spare = Spare::default();
        let walk = Walk::new(selected, shape, levels, size, &spare);
        let jobs = walk.map(|unit| {
            let bytes = unit.as_ref().map_or(0, Unit::bytes);
            (bytes as u64, unit)
        });
        let ahead = Ahead {
            count: self.threads.saturating_add(1),
            size: MOST_AHEAD,
        };
        let make = |unit: Result<Unit>, _: &_| make(unit?, plan, &spare);
        let made = threads::each_in_order(self.threads, jobs, ahead, make, take);
        let root = FieldPath::root();
        made.map_err(|error| {
            let error = self.at_fault(error).at_path(&plan.query);
            with_largest(error, &self.view, &root)
        })
    }

    /// Adds the path of the affected element to an error that has an offset in the message. If the
    /// message is in chunks, also adds the offset in the chunk.
    #[cold]
    fn at_fault(&self, error: Error) -> Error {
        let is_placed = error.path().is_some() || error.chunk().is_some();
        let Some(offset) = error.offset().filter(|_| !is_placed) else {
            return error;
        };
        let Ok(mut selected) = self.view.select(&self.query, &self.names) else {
            return error;
        };
        // Paths are needed only for errors, so they aren't recorded. The query is run again to find
        // the element.
        while let Some(Ok(size)) = selected.next() {
            let start = selected.start();
            let is_inside = start == offset
                || (selected.is_in_one_piece() && (start..start + size).contains(&offset));
            let path = if is_inside {
                selected.path()
            } else {
                let mut levels = (0..).map_while(|level| selected.element_start(level));
                match levels.position(|start| start == offset) {
                    Some(level) => selected.element_path(level),
                    None => continue,
                }
            };
            let path = path.display(self.view.descriptor());
            return selected.at_fault(error.at_path(path));
        }
        error
    }
}

impl Plan {
    fn new(
        query: &PathQuery,
        root: &prost_reflect::MessageDescriptor,
        options: &TableOptions,
    ) -> Result<Plan> {
        let mut planner = Planner::new(options.time_unit);
        let found = query.levels(root)?;
        let target = query.resolve(root)?;
        let mut fields: Vec<Field> = Vec::new();
        let mut levels = Vec::new();
        if options.with_parent {
            for level in &found {
                levels.push(planned(level, &mut planner, &mut fields)?);
            }
        }
        let names = options.columns.as_deref();
        let row = match &target.kind {
            TargetKind::Message(message) | TargetKind::Group(message) => {
                let columns = planner.columns(message, names)?;
                fields.extend(columns.outputs.iter().map(|output| output.field.clone()));
                if columns.outputs.is_empty() {
                    let message = format!(
                        "no field of {} has a single value: name the fields that become columns",
                        message.full_name()
                    );
                    return Err(Error::new(ErrorKind::InvalidPath, message).at_path(query.as_str()));
                }
                Row::Message(columns)
            }
            TargetKind::Scalar(kind) => {
                if names.is_some() {
                    let message = "the query selects values, which have no fields to name";
                    return Err(Error::new(ErrorKind::InvalidPath, message).at_path(query.as_str()));
                }
                let shape = planner.scalar(kind).unwrap_or(Shape::Scalar(Scalar::Bytes));
                // A row whose value readers treat as an unknown field is null.
                let is_nullable = matches!(&shape, Shape::Enum(names) if names.is_closed());
                let field = Field::new(query.last_name(), shape.data_type(), is_nullable);
                fields.push(field);
                Row::Value(shape)
            }
        };
        let mut names = HashSet::new();
        for field in &fields {
            if !names.insert(field.name()) {
                let message = format!("two columns are called {:?}", field.name());
                return Err(Error::new(ErrorKind::InvalidPath, message).at_path(query.as_str()));
            }
        }
        Ok(Plan {
            query: query.as_str().to_owned(),
            schema: Arc::new(Schema::new(fields)),
            row,
            levels,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the rows of a unit into columns, which are converted to arrays later.
    pub(crate) fn fill(&self, unit: Unit) -> Result<Filled> {
        let rows = 0..unit.elements.len();
        let levels = self.levels.iter().zip(&unit.levels);
        let levels = levels.map(|(level, unit)| level.fill(unit));
        let levels = levels.collect::<Result<Vec<_>>>()?;
        let columns = self.row.fill(&unit.elements, rows)?;
        Ok(Filled {
            unit,
            levels,
            columns,
        })
    }

    /// Reads the rows of a unit into batches of at most `most` rows, and passes each batch to
    /// `take`.
    pub(crate) fn batches(
        &self,
        unit: &Unit,
        most: usize,
        mut take: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let levels = self.levels.iter().zip(&unit.levels);
        let levels = levels.map(|(level, unit)| {
            let mut filled = level.fill(unit)?;
            level.finish(&mut filled, unit)
        });
        let levels = levels.collect::<Result<Vec<_>>>()?;
        let (mut start, mut columns) = (0, self.row.empty());
        while start < unit.elements.len() {
            let rows = start..unit.elements.len().min(start + most);
            columns.append(&unit.elements, rows.clone())?;
            let batch = self.batch(unit, rows.clone(), &levels, &mut columns)?;
            take(&batch)?;
            start = rows.end;
        }
        Ok(())
    }

    fn batch(
        &self,
        unit: &Unit,
        rows: Range<usize>,
        levels: &[Vec<ArrayRef>],
        columns: &mut RowColumns,
    ) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        for (level, unit) in levels.iter().zip(&unit.levels) {
            match &unit.ends {
                None => arrays.extend(
                    level
                        .iter()
                        .map(|array| array.slice(rows.start, rows.len())),
                ),
                Some(ends) => {
                    let repeats = Repeats::new(ends, &rows);
                    for array in level {
                        arrays.push(repeats.of(array).map_err(of_arrow)?);
                    }
                }
            }
        }
        arrays.extend(self.row.finish(columns, &unit.elements, &rows)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(of_arrow)
    }
}

/// The columns of a unit's rows. They are converted to arrays later, since the dictionaries of
/// enums may still grow.
pub(crate) struct Filled {
    unit: Unit,
    levels: Vec<Option<MessageColumns>>,
    columns: RowColumns,
}

impl Filled {
    fn finish(mut self, plan: &Plan) -> Result<RecordBatch> {
        let levels = plan
            .levels
            .iter()
            .zip(&mut self.levels)
            .zip(&self.unit.levels);
        let levels = levels.map(|((level, filled), unit)| level.finish(filled, unit));
        let levels = levels.collect::<Result<Vec<_>>>()?;
        let rows = 0..self.unit.elements.len();
        plan.batch(&self.unit, rows, &levels, &mut self.columns)
    }
}

/// The columns for rows that are messages or values.
enum RowColumns {
    Message(MessageColumns),
    Value(Box<Column>, Shape),
}

impl RowColumns {
    fn append(&mut self, elements: &Elements, mut rows: Range<usize>) -> Result<()> {
        match self {
            RowColumns::Message(columns) => columns.append_all(elements, rows),
            RowColumns::Value(column, shape) => {
                rows.try_for_each(|at| append_value(column, shape, elements, at))
            }
        }
    }

    fn finish(&mut self, bytes: &[u8]) -> Result<Vec<ArrayRef>, ArrowError> {
        match self {
            RowColumns::Message(columns) => columns.finish(bytes),
            RowColumns::Value(column, _) => Ok(vec![column.finish(bytes)?]),
        }
    }
}

impl Row {
    /// Creates columns without rows.
    fn empty(&self) -> RowColumns {
        match self {
            Row::Message(columns) => RowColumns::Message(MessageColumns::new(&columns.shape)),
            Row::Value(shape) => RowColumns::Value(Box::new(Column::new(shape)), shape.clone()),
        }
    }

    fn fill(&self, elements: &Elements, rows: Range<usize>) -> Result<RowColumns> {
        let mut filled = self.empty();
        filled.append(elements, rows)?;
        Ok(filled)
    }

    fn finish(
        &self,
        columns: &mut RowColumns,
        elements: &Elements,
        rows: &Range<usize>,
    ) -> Result<Vec<ArrayRef>> {
        let arrays = columns.finish(&elements.bytes).map_err(|error| {
            let message = "a string in the element is not UTF-8";
            culprit(elements, rows.clone(), message, error, |at| {
                let alone = self.fill(elements, at..at + 1);
                alone.is_ok_and(|mut alone| alone.finish(&elements.bytes).is_ok())
            })
        })?;
        Ok(match self {
            Row::Message(columns) => columns.outputs_of(&arrays),
            Row::Value(_) => arrays,
        })
    }
}

/// Appends a row for the element with the index `at`, which isn't a message.
fn append_value(column: &mut Column, shape: &Shape, elements: &Elements, at: usize) -> Result<()> {
    let (range, origin) = (elements.range(at), elements.origin(at));
    let source = Source {
        bytes: &elements.bytes,
        origin,
    };
    let wire = shape.wire();
    let bits = match wire.width() {
        _ if matches!(shape, Shape::Scalar(Scalar::String | Scalar::Bytes)) => 0,
        _ => {
            let bytes = elements.bytes.get(range.clone()).unwrap_or_default();
            let found = number(bytes, wire).filter(|(_, len)| *len == bytes.len());
            let cut = || origin.broken("a number that is cut short or too long", range.start);
            found.ok_or_else(cut)?.0
        }
    };
    let met = Met {
        number: 0,
        wire,
        start: range.start,
        bits,
        value: range,
    };
    let mut value = Pending::default();
    value.set(&met, false);
    if !column.append(source, &value)? {
        column.append_null()?;
    }
    Ok(())
}

/// Plans the columns for one part of the query's path, and adds their Arrow fields to `fields`.
fn planned(level: &QueryLevel, planner: &mut Planner, fields: &mut Vec<Field>) -> Result<Level> {
    let index = match &level.key {
        Some(key) => {
            let scalar = Scalar::of(key).unwrap_or(Scalar::String);
            Field::new(format!("{}_key", level.path), scalar.data_type(), false)
        }
        None => Field::new(format!("{}_index", level.path), DataType::UInt64, false),
    };
    fields.push(index);
    let columns = match level.element.message().filter(|_| level.goes_on) {
        Some(message) => Some(planner.columns(message, None)?),
        None => None,
    };
    if let Some(columns) = &columns {
        fields.extend(columns.outputs.iter().map(|output| {
            let name = format!("{}.{}", level.path, output.field.name());
            output.field.clone().with_name(name)
        }));
    }
    Ok(Level {
        key: level.key.clone(),
        fields: columns,
        is_row: !level.goes_on,
    })
}

impl Level {
    fn fill(&self, unit: &LevelUnit) -> Result<Option<MessageColumns>> {
        let Some(columns) = &self.fields else {
            return Ok(None);
        };
        let mut filled = MessageColumns::new(&columns.shape);
        filled.append_all(&unit.elements, 0..unit.elements.len())?;
        Ok(Some(filled))
    }

    /// Returns an array with the index or key of each element, followed by an array for each
    /// requested field of the elements.
    fn finish(
        &self,
        filled: &mut Option<MessageColumns>,
        unit: &LevelUnit,
    ) -> Result<Vec<ArrayRef>> {
        let mut arrays = vec![match &self.key {
            Some(key) => keys(key, &unit.keys),
            None => Arc::new(UInt64Array::from(unit.indices.clone())),
        }];
        if let (Some(filled), Some(columns)) = (filled, &self.fields) {
            let elements = &unit.elements;
            let finished = filled.finish(&elements.bytes).map_err(|error| {
                let message = "a string around the elements is not UTF-8";
                culprit(elements, 0..elements.len(), message, error, |at| {
                    let mut alone = MessageColumns::new(&columns.shape);
                    let all = alone.append_all(elements, at..at + 1);
                    all.is_ok() && alone.finish(&elements.bytes).is_ok()
                })
            })?;
            arrays.extend(columns.outputs_of(&finished));
        }
        Ok(arrays)
    }
}

/// Finds the element that caused `error`, the first in `rows` that isn't sound, and returns an error
/// with this message and the element's offset.
#[cold]
fn culprit(
    elements: &Elements,
    mut rows: Range<usize>,
    message: &str,
    error: ArrowError,
    is_sound: impl Fn(usize) -> bool,
) -> Error {
    match rows.find(|&at| !is_sound(at)) {
        Some(at) => elements
            .origin(at)
            .broken(message, elements.range(at).start),
        None => of_arrow(error),
    }
}

/// Converts map keys to an array of the Arrow type for their kind.
fn keys(kind: &Kind, keys: &[MapKey]) -> ArrayRef {
    let scalar = Scalar::of(kind).unwrap_or(Scalar::String);
    macro_rules! of {
        ($array:ty, $($key:ident),+) => {
            Arc::new(keys.iter().map(|key| match key {
                $(MapKey::$key(key) => Some(key.clone()),)+
                _ => None,
            }).collect::<$array>())
        };
    }
    match scalar.data_type() {
        DataType::Boolean => of!(BooleanArray, Bool),
        DataType::Int32 => of!(Int32Array, I32),
        DataType::Int64 => of!(Int64Array, I64),
        DataType::UInt32 => of!(UInt32Array, U32),
        DataType::UInt64 => of!(UInt64Array, U64),
        _ => of!(StringArray, String),
    }
}

/// Converts an Arrow or Parquet error that isn't about specific bytes of the message.
pub(crate) fn of_arrow(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidMessage, format!("the columns: {error}"))
}
