//! Array files. Each is a FlatBuffer whose root table is a `FlatArray`.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use record_file::ReadAt;

use super::info::{ArrayByteOrder, ArrayInfo, Order};
use super::swapped::Swapped;
use super::transposed::Transposed;
use crate::budget::Budget;
use crate::fb::schema::samediff::{self, flat_array};
use crate::fb::{self, MAX_BUFFER_LEN, Object, Span, Unknown, Value};
use crate::zip::{Archive, EntryIndex, Section, StoredEntry};
use crate::{Error, ErrorKind, Nd4jType, Result};

/// Alignment of an array's data in its file: 64 bytes. The archive aligns the file likewise.
const ALIGNMENT: usize = 64;

/// Limit on the decoded size of the tables in an array's file, in bytes.
const HEADER_BUDGET: u64 = 64 << 10;

/// An array: its type, its shape and its data, which is read on demand.
///
/// ```
/// use proto_splitter_samediff::{Array, ArrayInfo, Nd4jType};
///
/// let info = ArrayInfo::new(Nd4jType::Int16, [2, 2])?;
/// let array = Array::from_bytes(info, vec![1, 0, 2, 0, 3, 0, 4, 0])?;
/// assert_eq!(array.info().shape(), [2, 2]);
/// assert_eq!(array.values()?.read_to_vec(1 << 20)?, [1, 0, 2, 0, 3, 0, 4, 0]);
/// # Ok::<(), proto_splitter_samediff::Error>(())
/// ```
#[derive(Clone)]
pub struct Array {
    info: ArrayInfo,
    data: Data,
}

#[derive(Clone)]
enum Data {
    /// Range of a source. The source has no checksum, or its checksum has already been verified.
    Positioned(Span, Arc<dyn ReadAt>),
    Stored(Span, StoredEntry),
    /// Range of the uncompressed bytes of a deflated archive entry.
    Deflated(Span, Archive, EntryIndex),
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array")
            .field("info", &self.info)
            .field("data_len", &self.data_len())
            .finish()
    }
}

impl Array {
    /// Creates an array from bytes in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArray`] if the number of bytes isn't the size that `info` requires.
    pub fn from_bytes(info: ArrayInfo, bytes: impl Into<Bytes>) -> Result<Array> {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        Array::from_source(info, Arc::new(bytes), 0, len)
    }

    /// Creates an array from `len` bytes of a source, starting at `offset`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArray`] if `len` isn't the size that `info` requires, or the range
    /// extends past the end of the source; [`ErrorKind::Io`] if the source can't be read.
    pub fn from_source(
        info: ArrayInfo,
        source: Arc<dyn ReadAt>,
        offset: u64,
        len: u64,
    ) -> Result<Array> {
        let size = source.size()?;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let message =
                format!("the array has {len} bytes at {offset}, but the source has {size} bytes");
            return Err(Error::new(ErrorKind::InvalidArray, message));
        }
        check_len(&info, len)?;
        let data = Data::Positioned(Span { offset, len }, source);
        Ok(Array { info, data })
    }

    /// Creates an array of strings.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArray`] if the number of `texts` isn't the number of elements in
    /// `shape`.
    pub fn from_strings<S: AsRef<str>>(shape: impl Into<Vec<u64>>, texts: &[S]) -> Result<Array> {
        let info = ArrayInfo::new(Nd4jType::Utf8, shape)?;
        if info.element_count() != texts.len() as u64 {
            let message = format!("{} strings for the shape {:?}", texts.len(), info.shape());
            return Err(Error::new(ErrorKind::InvalidArray, message));
        }
        Array::from_bytes(info, super::strings::encode(texts))
    }

    /// Opens the array in an archive entry. Usually reads only the beginning of the entry.
    pub(crate) fn open(archive: &Archive, index: EntryIndex) -> Result<Array> {
        let open = || {
            let len = archive.record(index).len;
            if len > MAX_BUFFER_LEN {
                let message = format!(
                    "an array in a flatbuffer of {len} bytes, which is limited to 2 GiB: its writer has to cut it into several \
                     variables"
                );
                return Err(Error::new(ErrorKind::ArrayTooLarge, message));
            }
            match archive.stored(index)? {
                Some(entry) => {
                    let (info, span) = parse(&entry)?;
                    let data = Data::Stored(span, entry);
                    Ok(Array { info, data })
                }
                None => Array::open_deflated(archive, index),
            }
        };
        open().map_err(|error| archive.named(error, index))
    }

    fn open_deflated(archive: &Archive, index: EntryIndex) -> Result<Array> {
        let len = archive.record(index).len;
        let prefix = Prefix {
            bytes: archive.prefix(index)?,
            len,
        };
        match parse(&prefix) {
            Ok((info, span)) => {
                let data = Data::Deflated(span, archive.clone(), index);
                Ok(Array { info, data })
            }
            // Some writers put the table after the data, where the prefix doesn't reach.
            Err(error) if error.kind() == ErrorKind::Io => {
                let whole = archive.positioned(index)?;
                let (info, span) = parse(&whole)?;
                let data = Data::Positioned(span, whole);
                Ok(Array { info, data })
            }
            Err(error) => Err(error),
        }
    }

    /// Frees the memory of data that was read together with the header, up to 4 KiB. The data is
    /// read again on demand. Used if many arrays are held at once.
    pub(crate) fn without_head(mut self) -> Array {
        if let Data::Stored(_, entry) = &mut self.data {
            entry.drop_head();
        }
        self
    }

    /// Returns the array's type, shape, element order and byte order.
    #[must_use]
    pub fn info(&self) -> &ArrayInfo {
        &self.info
    }

    /// Returns the size of the data, in bytes. For an array of strings, this includes the table of
    /// the strings' offsets.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        self.span().len
    }

    fn span(&self) -> Span {
        match &self.data {
            Data::Positioned(span, _) | Data::Stored(span, _) | Data::Deflated(span, ..) => *span,
        }
    }

    /// Returns the array's data as stored. If the array is in an archive, reading the last byte
    /// verifies the checksum of the array's whole entry.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the data can't be read; any error in the archive.
    pub fn bytes(&self) -> Result<ArrayElements> {
        let span = self.span();
        let inner: Box<dyn Read + Send> = match &self.data {
            Data::Positioned(span, source) => {
                Box::new(Section::new(Arc::clone(source), span.offset, span.len))
            }
            Data::Stored(span, entry) => Box::new(entry.stream().within(span.offset, span.len)?),
            Data::Deflated(span, archive, index) => {
                let stream = archive.stream(*index)?;
                Box::new(stream.within(span.offset, span.len)?)
            }
        };
        Ok(ArrayElements {
            inner,
            len: span.len,
        })
    }

    /// Returns the elements in their stored order, each converted to little-endian.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes).
    pub fn little_endian(&self) -> Result<ArrayElements> {
        let stored = self.bytes()?;
        Ok(match self.swapped_width() {
            Some(width) => stored.swapped(width),
            None => stored,
        })
    }

    /// Returns the size of an element in bytes if converting it to little-endian swaps its bytes,
    /// and otherwise `None`.
    pub(crate) fn swapped_width(&self) -> Option<usize> {
        let width = self.info.dtype().width()?;
        let swapped = self.info.byte_order() == ArrayByteOrder::Big && width > 1;
        swapped.then_some(width.into())
    }

    /// Returns the data in the form that other libraries expect: elements in C order, each in
    /// little-endian order.
    ///
    /// # Errors
    ///
    /// The errors of [`bytes`](Self::bytes); [`ErrorKind::UnsupportedArray`] for strings in Fortran
    /// order.
    pub fn values(&self) -> Result<ArrayElements> {
        let dims = self.info.shape().iter().filter(|&&dim| dim != 1).count();
        if self.info.order() == Order::C || dims < 2 {
            return self.little_endian();
        }
        let Some(width) = self.info.dtype().width() else {
            let message = "strings in Fortran order are not supported";
            return Err(Error::new(ErrorKind::UnsupportedArray, message));
        };
        let (span, source) = match &self.data {
            Data::Positioned(span, source) => (*span, Arc::clone(source)),
            Data::Stored(span, entry) => {
                let positions = entry.positions();
                positions.read_around(span.offset, span.len)?;
                (*span, Arc::new(positions) as Arc<dyn ReadAt>)
            }
            Data::Deflated(span, archive, index) => (*span, archive.positioned(*index)?),
        };
        let transposed = Transposed::new(source, span.offset, self.info.shape(), width.into());
        let len = span.len;
        let inner: Box<dyn Read + Send> = match self.swapped_width() {
            Some(width) => Box::new(Swapped::new(transposed, width)),
            None => Box::new(transposed),
        };
        Ok(ArrayElements { inner, len })
    }

    /// Returns the elements of an array of strings, in their stored order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnsupportedArray`] if the elements aren't strings; [`ErrorKind::LimitExceeded`]
    /// if the data has more than [`MAX_STRINGS_SIZE`](crate::MAX_STRINGS_SIZE) bytes;
    /// [`ErrorKind::InvalidArray`] if a string isn't UTF-8, or extends beyond the data.
    pub fn strings(&self) -> Result<Vec<String>> {
        if self.info.dtype() != Nd4jType::Utf8 {
            let message = format!("elements of type {} are not strings", self.info.dtype());
            return Err(Error::new(ErrorKind::UnsupportedArray, message));
        }
        let bytes = self
            .bytes()?
            .read_to_vec(super::strings::MAX_STRINGS_SIZE)?;
        super::strings::decode(&bytes, self.info.element_count())
    }

    /// Returns true if another array has the same type, shape and values.
    ///
    /// # Errors
    ///
    /// The errors of [`values`](Self::values).
    pub fn equals(&self, other: &Array) -> Result<bool> {
        let (a, b) = (&self.info, &other.info);
        let alike = a.dtype() == b.dtype()
            && a.shape() == b.shape()
            && a.element_count() == b.element_count()
            && self.data_len() == other.data_len();
        if !alike {
            return Ok(false);
        }
        let same_order = a.order() == b.order();
        let (a, b) = if same_order {
            (self.little_endian()?, other.little_endian()?)
        } else {
            (self.values()?, other.values()?)
        };
        a.equals(b)
    }

    /// Returns the description to write to the array's file. The written elements are
    /// little-endian, and keep the stored element order.
    pub(crate) fn written_info(&self) -> ArrayInfo {
        self.info.clone().with_byte_order(ArrayByteOrder::Little)
    }

    /// Returns the offset of the data within the archive entry or other source that contains it.
    pub(crate) fn offset_in_entry(&self) -> u64 {
        self.span().offset
    }
}

/// A stream of an array's data.
pub struct ArrayElements {
    inner: Box<dyn Read + Send>,
    len: u64,
}

impl fmt::Debug for ArrayElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayElements")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl ArrayElements {
    /// Returns the total size of the data, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the array has no data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the array's data into memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the data has more than `limit` bytes; [`ErrorKind::Io`] if
    /// the data can't be read; any error in the archive.
    pub fn read_to_vec(mut self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            let message = format!("the array has {} bytes; the limit is {limit}", self.len);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the data to its end, and passes each piece to `take`. A piece is at most as long as
    /// `buf`.
    pub(crate) fn for_each_piece(
        mut self,
        buf: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            match self.read(buf)? {
                0 => return Ok(()),
                len => take(&buf[..len])?,
            }
        }
    }

    fn map(self, map: impl FnOnce(Box<dyn Read + Send>) -> Box<dyn Read + Send>) -> ArrayElements {
        ArrayElements {
            inner: map(self.inner),
            len: self.len,
        }
    }

    /// Reverses the bytes of each element, which has `width` bytes.
    pub(crate) fn swapped(self, width: usize) -> ArrayElements {
        self.map(|inner| Box::new(Swapped::new(inner, width)))
    }

    fn equals(mut self, mut other: ArrayElements) -> Result<bool> {
        const STEP: usize = 256 << 10;
        let (mut a, mut b) = (vec![0; STEP], vec![0; STEP]);
        let mut left = self.len;
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(STEP);
            self.read_exact(&mut a[..len])?;
            other.read_exact(&mut b[..len])?;
            if a[..len] != b[..len] {
                return Ok(false);
            }
            left -= len as u64;
        }
        Ok(true)
    }
}

impl Read for ArrayElements {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

/// The first bytes of a longer stream. A read that starts after them fails.
struct Prefix {
    bytes: Vec<u8>,
    len: u64,
}

impl ReadAt for Prefix {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset >= self.len {
            return Ok(0);
        }
        if offset >= self.bytes.len() as u64 {
            let message = "the read extends beyond the inflated part";
            return Err(io::Error::other(message));
        }
        self.bytes.read_at(offset, buf)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

/// Parses the FlatBuffer in an array's file. Returns the array's description, and the range of its
/// data.
fn parse(source: &dyn ReadAt) -> Result<(ArrayInfo, Span)> {
    let kind = ErrorKind::InvalidArray;
    let mut budget = Budget::of_tables(HEADER_BUDGET);
    let table = fb::read(
        source,
        &samediff::FLAT_ARRAY,
        kind,
        Unknown::PassedOver,
        &mut budget,
    )?;
    from_table(table)
}

/// Converts a `FlatArray` table whose shape field contains ND4J's shape information. Returns the
/// array's description, and the range of its data.
pub(crate) fn from_table(mut table: Object) -> Result<(ArrayInfo, Span)> {
    let dtype = Nd4jType::from_code(table.take_i8(flat_array::DTYPE))?;
    let byte_order = ArrayByteOrder::from_code(table.take_i8(flat_array::BYTE_ORDER))?;
    let Some(shape) = table.take_i64s(flat_array::SHAPE) else {
        return Err(Error::new(
            ErrorKind::InvalidArray,
            "the array has no shape",
        ));
    };
    let span = match table.take(flat_array::BUFFER) {
        Some(Value::Span(span)) => span,
        _ => Span { offset: 0, len: 0 },
    };
    let info = ArrayInfo::from_shape_info(&shape, dtype, byte_order)?;
    check_len(&info, span.len)?;
    Ok((info, span))
}

/// Fails unless the data of an array with this description can have `len` bytes.
fn check_len(info: &ArrayInfo, len: u64) -> Result<()> {
    let expected = match info.data_len() {
        Some(expected) if expected == len => return Ok(()),
        Some(expected) => format!("{expected}"),
        None if info.element_count() == 0 => return Ok(()),
        None => {
            let least = super::strings::least_len(info.element_count());
            if len >= least {
                return Ok(());
            }
            format!("at least {least}")
        }
    };
    let message = format!(
        "the data has {len} bytes, but needs {expected} for {:?} elements of type {}",
        info.shape(),
        info.dtype()
    );
    Err(Error::new(ErrorKind::InvalidArray, message))
}

/// Returns the header of an array's file, which consists of all bytes before its data.
///
/// ```text
/// 0   u32 20: the table          8  u16 12, 16, 4, 8, 12, 13: the vtable
/// 20  i32 12: back to the vtable 24 u32 the shape's offset   28 u32 the data's offset
/// 32  i8 type, i8 byte order 0   36 u32 count of numbers     40 i64 shape information
/// n-4 u32 bytes of data          n  the data, n a multiple of 64
/// ```
pub(crate) fn header(info: &ArrayInfo, data_len: u64) -> Result<Vec<u8>> {
    const TABLE: u32 = 20;
    const VTABLE: [u16; 6] = [12, 16, 4, 8, 12, 13];
    const SHAPE: usize = 36;

    let shape = info.to_shape_info();
    let data = (SHAPE + 4 + 8 * shape.len() + 4).next_multiple_of(ALIGNMENT);
    let whole = data_len.saturating_add(data as u64);
    if whole > MAX_BUFFER_LEN {
        return Err(too_large(info, data_len));
    }
    // `data` and `data_len` fit into 32 bits, since their sum does.
    let narrow = |value: u64| u32::try_from(value).map_err(|_| too_large(info, data_len));
    let mut bytes = Vec::with_capacity(data);
    bytes.extend(TABLE.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(VTABLE.into_iter().flat_map(u16::to_le_bytes));
    bytes.extend(12_i32.to_le_bytes());
    bytes.extend(narrow(SHAPE as u64 - 24)?.to_le_bytes());
    bytes.extend(narrow(data as u64 - 4 - 28)?.to_le_bytes());
    bytes.extend(info.dtype().code().to_le_bytes());
    bytes.extend(info.byte_order().code().to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(narrow(shape.len() as u64)?.to_le_bytes());
    bytes.extend(shape.iter().flat_map(|number| number.to_le_bytes()));
    bytes.resize(data - 4, 0);
    bytes.extend(narrow(data_len)?.to_le_bytes());
    Ok(bytes)
}

#[cold]
fn too_large(info: &ArrayInfo, data_len: u64) -> Error {
    let message = format!(
        "an array of {data_len} bytes, {:?} of type {}, doesn't fit a flatbuffer, which is \
         limited to 2 GiB: cut it into several variables, or convert the model to safetensors",
        info.shape(),
        info.dtype()
    );
    Error::new(ErrorKind::ArrayTooLarge, message)
}
