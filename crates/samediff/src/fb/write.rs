//! Writing a FlatBuffers table, followed by everything it refers to.

use std::collections::HashMap;

use super::{Object, Value};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a buffer, in bytes, since some offsets and Java's indices are signed 32-bit
/// numbers.
pub(crate) const MAX_BUFFER_LEN: u64 = i32::MAX as u64;

/// An offset in a written buffer that points to a payload after the tables. The caller has to fill
/// it in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferred {
    /// Position of the offset in the buffer.
    pub(crate) field: usize,
    /// Index of the payload to which the offset points.
    pub(crate) payload: usize,
}

/// Writes a buffer whose root table is `root`. Returns the buffer, and the offsets in it that the
/// caller has to fill in.
pub(crate) fn write(root: &Object) -> Result<(Vec<u8>, Vec<Deferred>)> {
    let mut writer = Writer::default();
    writer.bytes.extend([0; 4]);
    writer.table(0, root)?;
    writer.align(8, 0);
    if writer.bytes.len() as u64 > MAX_BUFFER_LEN {
        return Err(too_large(writer.bytes.len() as u64));
    }
    Ok((writer.bytes, writer.deferred))
}

#[cold]
pub(crate) fn too_large(len: u64) -> Error {
    let message = format!("a flatbuffer of {len} bytes exceeds the limit of {MAX_BUFFER_LEN}");
    Error::new(ErrorKind::ArrayTooLarge, message)
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    vtables: HashMap<Vec<u16>, usize>,
    deferred: Vec<Deferred>,
}

impl Writer {
    /// Appends zeros until the position after another `ahead` bytes is aligned to `to` bytes.
    fn align(&mut self, to: usize, ahead: usize) {
        let len = (self.bytes.len() + ahead).next_multiple_of(to) - ahead;
        self.bytes.resize(len, 0);
    }

    /// Makes the offset stored at `from` point to the end of the buffer.
    fn arrive(&mut self, from: usize) -> Result<()> {
        let distance = (self.bytes.len() - from) as u64;
        let distance = i32::try_from(distance).map_err(|_| too_large(distance))?;
        self.bytes[from..from + 4].copy_from_slice(&distance.to_le_bytes());
        Ok(())
    }

    /// Writes a table, and makes the offset stored at `from` point to it.
    fn table(&mut self, from: usize, table: &Object) -> Result<()> {
        let (vtable, len) = lay_out(table)?;
        let vtable_at = match self.vtables.get(&vtable) {
            Some(&at) => at,
            None => {
                self.align(2, 0);
                let at = self.bytes.len();
                self.bytes
                    .extend(vtable.iter().flat_map(|word| word.to_le_bytes()));
                self.vtables.insert(vtable.clone(), at);
                at
            }
        };
        self.align(8, 0);
        self.arrive(from)?;
        let at = self.bytes.len();
        let back = (at - vtable_at) as u64;
        let back = i32::try_from(back).map_err(|_| too_large(back))?;
        self.bytes.extend(back.to_le_bytes());
        self.bytes.resize(at + len, 0);
        for (slot, value) in table.fields() {
            let field = at + usize::from(vtable[2 + slot]);
            self.value(field, value)?;
        }
        Ok(())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn value(&mut self, field: usize, value: &Value) -> Result<()> {
        match value {
            Value::I8(value) => self.put(field, &value.to_le_bytes()),
            Value::I32(value) => self.put(field, &value.to_le_bytes()),
            Value::I64(value) => self.put(field, &value.to_le_bytes()),
            Value::String(text) => self.string(field, text)?,
            Value::Table(table) => self.table(field, table)?,
            &Value::Deferred(payload) => self.deferred.push(Deferred { field, payload }),
            // Callers replace each span before they write the table.
            Value::Span(_) => {
                let message = "the bytes of an array are in another file";
                return Err(Error::new(ErrorKind::InvalidGraph, message));
            }
            Value::Bytes(values) => self.vector(field, 1, values.len(), values.iter().copied())?,
            Value::I8s(values) => self.numbers(field, values, |value| value.to_le_bytes())?,
            Value::I32s(values) => self.numbers(field, values, |value| value.to_le_bytes())?,
            Value::I64s(values) => self.numbers(field, values, |value| value.to_le_bytes())?,
            Value::F64s(values) => self.numbers(field, values, |value| value.to_le_bytes())?,
            Value::Strings(texts) => {
                let start = self.offsets(field, texts.len())?;
                for (index, text) in texts.iter().enumerate() {
                    self.string(start + 4 * index, text)?;
                }
            }
            Value::Tables(tables) => {
                let start = self.offsets(field, tables.len())?;
                for (index, table) in tables.iter().enumerate() {
                    self.table(start + 4 * index, table)?;
                }
            }
        }
        Ok(())
    }

    fn vector(
        &mut self,
        from: usize,
        width: usize,
        count: usize,
        bytes: impl Iterator<Item = u8>,
    ) -> Result<()> {
        self.align(4, 0);
        self.align(width, 4);
        self.arrive(from)?;
        let count = u32::try_from(count).map_err(|_| too_large(count as u64))?;
        self.bytes.extend(count.to_le_bytes());
        self.bytes.extend(bytes);
        Ok(())
    }

    fn numbers<T: Copy, const N: usize>(
        &mut self,
        from: usize,
        values: &[T],
        bytes: fn(T) -> [u8; N],
    ) -> Result<()> {
        let all = values.iter().flat_map(|&value| bytes(value));
        self.vector(from, N, values.len(), all)
    }

    /// Writes a vector with space for `count` offsets, and returns the position of the first
    /// offset.
    fn offsets(&mut self, from: usize, count: usize) -> Result<usize> {
        self.vector(from, 4, count, std::iter::repeat_n(0, 4 * count))?;
        Ok(self.bytes.len() - 4 * count)
    }

    fn string(&mut self, from: usize, text: &str) -> Result<()> {
        self.vector(from, 1, text.len(), text.bytes())?;
        // Readers in other languages expect a zero after the string.
        self.bytes.push(0);
        Ok(())
    }
}

/// Returns the vtable of a table, and the table's size in bytes. The table's 8-byte fields come
/// first, followed by its 4-byte and 1-byte fields.
fn lay_out(table: &Object) -> Result<(Vec<u16>, usize)> {
    let width = |value: &Value| match value {
        Value::I64(_) => 8,
        Value::I8(_) => 1,
        _ => 4,
    };
    let fields = table.fields();
    let slots = fields.last().map_or(0, |(slot, _)| slot + 1);
    let mut vtable = vec![0; 2 + slots];
    let mut len = 4_usize;
    for wanted in [8, 4, 1] {
        for (slot, value) in fields {
            if width(value) == wanted {
                len = len.next_multiple_of(wanted);
                vtable[2 + slot] = word(len)?;
                len += wanted;
            }
        }
    }
    vtable[0] = word(2 * vtable.len())?;
    vtable[1] = word(len)?;
    Ok((vtable, len))
}

fn word(value: usize) -> Result<u16> {
    u16::try_from(value).map_err(|_| Error::new(ErrorKind::InvalidGraph, "a table is too wide"))
}
