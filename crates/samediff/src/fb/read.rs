//! Reading a table from any source, according to its schema.

use std::cell::RefCell;

use record_file::ReadAt;

use super::{Kind, Object, Span, TableType, Value};
use crate::budget::Budget;
use crate::{Error, ErrorKind, Result};

/// Size of the window read at once: 16 KiB.
const WINDOW_LEN: usize = 16 << 10;

/// The treatment of fields that aren't in a table's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Ignores the fields, as writers of newer schemas expect older readers to do.
    PassedOver,
    /// Fails, since a copy of the table would lose the fields.
    Refused,
}

/// Reads the root table of a buffer. Array bytes stay in the buffer, and their locations are
/// returned.
///
/// Errors have the kind `kind`, and the byte offset in the buffer.
pub(crate) fn read(
    source: &dyn ReadAt,
    root: &'static TableType,
    kind: ErrorKind,
    unknown: Unknown,
    budget: &mut Budget,
) -> Result<Object> {
    let mut reader = Reader {
        buffer: Buffer::new(source, kind)?,
        unknown,
        budget,
    };
    let table = reader.buffer.follow(0)?;
    reader.table(table, root)
}

struct Reader<'a, 'b> {
    buffer: Buffer<'a>,
    unknown: Unknown,
    budget: &'b mut Budget,
}

impl Reader<'_, '_> {
    fn table(&mut self, at: u64, table: &'static TableType) -> Result<Object> {
        self.budget.spend(std::mem::size_of::<Object>() as u64)?;
        let back = i64::from(i32::from_le_bytes(self.buffer.array(at)?));
        let vtable = at.checked_add_signed(-back);
        let Some(vtable) = vtable else {
            return Err(self
                .buffer
                .fault("a table's vtable is before the buffer", at));
        };
        let vtable_len = u16::from_le_bytes(self.buffer.array(vtable)?);
        let table_len = u16::from_le_bytes(self.buffer.array(vtable.saturating_add(2))?);
        if vtable_len < 4 || vtable_len % 2 != 0 {
            return Err(self.buffer.fault("a vtable's length is impossible", vtable));
        }
        let mut object = Object::default();
        for (slot, field) in table.fields.iter().enumerate() {
            let entry = 4 + 2 * slot;
            if entry + 2 > vtable_len.into() {
                break;
            }
            let offset = u16::from_le_bytes(self.buffer.array(vtable + entry as u64)?);
            if offset == 0 {
                continue;
            }
            if offset < 4 || offset >= table_len {
                return Err(self.buffer.fault("a field is outside of its table", at));
            }
            let value = self.field(at + u64::from(offset), field.kind);
            let value = value.map_err(|error| error.in_field(table.name, field.name))?;
            self.budget
                .spend(std::mem::size_of::<(usize, Value)>() as u64)?;
            object.set(slot, value);
        }
        if self.unknown == Unknown::Refused {
            self.refuse_unknown(at, vtable, vtable_len, table)?;
        }
        Ok(object)
    }

    /// Fails if a table has a field in a slot that isn't in its schema.
    fn refuse_unknown(
        &mut self,
        at: u64,
        vtable: u64,
        vtable_len: u16,
        table: &'static TableType,
    ) -> Result<()> {
        for slot in table.fields.len()..usize::from(vtable_len) / 2 - 2 {
            let entry = vtable + 4 + 2 * slot as u64;
            if u16::from_le_bytes(self.buffer.array(entry)?) != 0 {
                let message = format!(
                    "the table {} has a field in slot {slot}, which is not known here and would be lost",
                    table.name
                );
                return Err(Error::new(ErrorKind::NotConvertible, message).at_offset(at));
            }
        }
        Ok(())
    }

    fn field(&mut self, at: u64, kind: Kind) -> Result<Value> {
        Ok(match kind {
            Kind::I8 => Value::I8(i8::from_le_bytes(self.buffer.array(at)?)),
            Kind::I32 => Value::I32(i32::from_le_bytes(self.buffer.array(at)?)),
            Kind::I64 => Value::I64(i64::from_le_bytes(self.buffer.array(at)?)),
            Kind::String => Value::String(self.string(at)?),
            Kind::Table(table) => {
                let at = self.buffer.follow(at)?;
                Value::Table(self.table(at, table)?)
            }
            Kind::Payload => {
                let (offset, count) = self.buffer.vector(at, 1)?;
                let len = count.into();
                Value::Span(Span { offset, len })
            }
            Kind::I8s => Value::I8s(self.numbers(at, i8::from_le_bytes)?),
            Kind::I32s => Value::I32s(self.numbers(at, i32::from_le_bytes)?),
            Kind::I64s => Value::I64s(self.numbers(at, i64::from_le_bytes)?),
            Kind::F64s => Value::F64s(self.numbers(at, f64::from_le_bytes)?),
            Kind::Strings => {
                Value::Strings(self.elements(at, |reader, element| reader.string(element))?)
            }
            Kind::Tables(table) => Value::Tables(self.elements(at, |reader, element| {
                let at = reader.buffer.follow(element)?;
                reader.table(at, table)
            })?),
        })
    }

    fn string(&mut self, at: u64) -> Result<String> {
        let (start, count) = self.buffer.vector(at, 1)?;
        self.budget.spend(24 + u64::from(count))?;
        let mut bytes = vec![0; count as usize];
        self.buffer.fill(start, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.buffer.fault("a string is not utf-8", start))
    }

    fn numbers<T, const N: usize>(&mut self, at: u64, parse: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let (start, count) = self.buffer.vector(at, N as u64)?;
        let len = u64::from(count) * N as u64;
        self.budget.spend(24 + len)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.buffer.fill(start, &mut bytes)?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Ok(chunks.iter().map(|chunk| parse(*chunk)).collect())
    }

    /// Calls `element` with the position of each offset in a vector, and returns the results.
    fn elements<T>(
        &mut self,
        at: u64,
        mut element: impl FnMut(&mut Self, u64) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (start, count) = self.buffer.vector(at, 4)?;
        let mut all = Vec::new();
        for index in 0..u64::from(count) {
            all.push(element(self, start + 4 * index)?);
        }
        Ok(all)
    }
}

/// A buffer that is read one window at a time.
struct Buffer<'a> {
    source: &'a dyn ReadAt,
    len: u64,
    kind: ErrorKind,
    window: RefCell<Window>,
}

#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Buffer<'a> {
    fn new(source: &'a dyn ReadAt, kind: ErrorKind) -> Result<Buffer<'a>> {
        Ok(Buffer {
            source,
            len: source.size()?,
            kind,
            window: RefCell::default(),
        })
    }

    #[cold]
    fn fault(&self, message: &str, at: u64) -> Error {
        Error::new(self.kind, message).at_offset(at)
    }

    /// Returns the position that the offset stored at `at` points to.
    fn follow(&self, at: u64) -> Result<u64> {
        let offset = u32::from_le_bytes(self.array(at)?);
        let target = at.saturating_add(offset.into());
        if offset == 0 || target.saturating_add(4) > self.len {
            return Err(self.fault("an offset leads out of the buffer", at));
        }
        Ok(target)
    }

    /// Returns the position of a vector's elements, and their number. The vector's offset is stored
    /// at `at`.
    fn vector(&self, at: u64, width: u64) -> Result<(u64, u32)> {
        let at = self.follow(at)?;
        let count = u32::from_le_bytes(self.array(at)?);
        let start = at + 4;
        if u64::from(count) * width > self.len - start {
            return Err(self.fault("a vector is longer than the buffer", at));
        }
        Ok((start, count))
    }

    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let end = at.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(self.fault("the buffer ends within a value", at));
        }
        if buf.len() > WINDOW_LEN {
            return Ok(self.source.read_exact_at(at, buf)?);
        }
        let mut window = self.window.borrow_mut();
        if let Some(bytes) = window.get(at, buf.len()) {
            buf.copy_from_slice(bytes);
            return Ok(());
        }
        let len = usize::try_from(self.len - at).unwrap_or(usize::MAX);
        let window = &mut *window;
        window.start = at;
        window.bytes.resize(len.min(WINDOW_LEN), 0);
        // Tries to use bytes that the source already has in memory. If they aren't enough, reads
        // the whole window.
        let mut read = self.source.read_at(at, &mut window.bytes);
        if matches!(read, Ok(read) if read < buf.len()) {
            let all = self.source.read_exact_at(at, &mut window.bytes);
            read = all.map(|()| window.bytes.len());
        }
        // After a failed or short read, the window must only contain the bytes that were read.
        window.bytes.truncate(*read.as_ref().unwrap_or(&0));
        read?;
        buf.copy_from_slice(&window.bytes[..buf.len()]);
        Ok(())
    }
}

impl Window {
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }
}
