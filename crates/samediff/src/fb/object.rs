//! A FlatBuffers table as a value in memory.

use record_file::ReadAt;

use crate::Result;
use crate::budget::Budget;

/// The location of an array's bytes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The value of a field in a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    I8(i8),
    I32(i32),
    I64(i64),
    String(String),
    Table(Object),
    /// Location of bytes that stay in the buffer.
    Span(Span),
    /// Index of a payload that the caller of the writer puts after the tables.
    Deferred(usize),
    Bytes(Vec<u8>),
    I8s(Vec<i8>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    F64s(Vec<f64>),
    Strings(Vec<String>),
    Tables(Vec<Object>),
}

impl Value {
    /// Returns true if the value equals that of an absent field.
    fn is_default(&self) -> bool {
        matches!(self, Value::I8(0) | Value::I32(0) | Value::I64(0))
    }

    /// Returns true for a list without elements.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::I8s(values) => values.is_empty(),
            Value::I64s(values) => values.is_empty(),
            Value::F64s(values) => values.is_empty(),
            Value::Strings(texts) => texts.is_empty(),
            Value::Tables(tables) => tables.is_empty(),
            _ => false,
        }
    }
}

/// A table: the fields that are present, sorted by slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object {
    fields: Vec<(usize, Value)>,
}

/// Evaluates to the content of an optional value of this variant; `None` if it is of another one.
macro_rules! value_of {
    ($value:expr, $variant:ident) => {
        match $value {
            Some(Value::$variant(value)) => Some(value),
            _ => None,
        }
    };
}

impl Object {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn fields(&self) -> &[(usize, Value)] {
        &self.fields
    }

    /// Returns the index of a field in `fields`, or the index at which to insert it.
    fn place(&self, slot: usize) -> Result<usize, usize> {
        self.fields.binary_search_by_key(&slot, |field| field.0)
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Value> {
        let at = self.place(slot).ok()?;
        Some(&self.fields[at].1)
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Value> {
        let at = self.place(slot).ok()?;
        Some(&mut self.fields[at].1)
    }

    /// Sets a field. If the value is the default, 0, removes the field instead.
    pub(crate) fn set(&mut self, slot: usize, value: Value) {
        match (self.place(slot), value.is_default()) {
            (Ok(at), true) => _ = self.fields.remove(at),
            (Ok(at), false) => self.fields[at].1 = value,
            (Err(_), true) => {}
            (Err(at), false) => self.fields.insert(at, (slot, value)),
        }
    }

    /// Removes a field, and returns its value.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Value> {
        let at = self.place(slot).ok()?;
        Some(self.fields.remove(at).1)
    }

    pub(crate) fn take_i8(&mut self, slot: usize) -> i8 {
        value_of!(self.take(slot), I8).unwrap_or_default()
    }

    pub(crate) fn take_i64(&mut self, slot: usize) -> i64 {
        value_of!(self.take(slot), I64).unwrap_or_default()
    }

    pub(crate) fn get_i32(&self, slot: usize) -> i32 {
        match self.get(slot) {
            Some(&Value::I32(value)) => value,
            _ => 0,
        }
    }

    pub(crate) fn take_string(&mut self, slot: usize) -> Option<String> {
        value_of!(self.take(slot), String)
    }

    pub(crate) fn take_table(&mut self, slot: usize) -> Option<Object> {
        value_of!(self.take(slot), Table)
    }

    pub(crate) fn take_i8s(&mut self, slot: usize) -> Vec<i8> {
        value_of!(self.take(slot), I8s).unwrap_or_default()
    }

    pub(crate) fn take_i64s(&mut self, slot: usize) -> Option<Vec<i64>> {
        value_of!(self.take(slot), I64s)
    }

    pub(crate) fn take_f64s(&mut self, slot: usize) -> Vec<f64> {
        value_of!(self.take(slot), F64s).unwrap_or_default()
    }

    pub(crate) fn take_strings(&mut self, slot: usize) -> Vec<String> {
        value_of!(self.take(slot), Strings).unwrap_or_default()
    }

    pub(crate) fn take_tables(&mut self, slot: usize) -> Vec<Object> {
        value_of!(self.take(slot), Tables).unwrap_or_default()
    }

    /// Sets a string field if the string isn't empty.
    pub(crate) fn set_string(&mut self, slot: usize, text: &str) {
        if !text.is_empty() {
            self.set(slot, Value::String(text.to_owned()));
        }
    }

    /// Sets a field with a list if the list isn't empty.
    pub(crate) fn set_list(&mut self, slot: usize, list: Value) {
        if !list.is_empty() {
            self.set(slot, list);
        }
    }

    /// Sets a field with a list of strings if the list isn't empty.
    pub(crate) fn set_strings(&mut self, slot: usize, texts: &[String]) {
        self.set_list(slot, Value::Strings(texts.to_vec()));
    }

    /// Replaces each span in the table with the bytes in its range of `source`.
    pub(crate) fn inline(&mut self, source: &dyn ReadAt, budget: &mut Budget) -> Result<()> {
        for (_, value) in &mut self.fields {
            match value {
                Value::Span(span) => {
                    budget.spend(span.len)?;
                    let mut bytes = vec![0; usize::try_from(span.len).unwrap_or(usize::MAX)];
                    source.read_exact_at(span.offset, &mut bytes)?;
                    *value = Value::Bytes(bytes);
                }
                Value::Table(table) => table.inline(source, budget)?,
                Value::Tables(tables) => {
                    for table in tables {
                        table.inline(source, budget)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
