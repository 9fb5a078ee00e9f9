//! Descriptions of arrays: type, shape, and the order of elements and bytes.

use proto_splitter_core::tensor::element_count;

use crate::data_type::TYPE_BITS;
use crate::{Error, ErrorKind, Nd4jType, Result};

/// Maximum number of dimensions in an array.
pub(crate) const MAX_RANK: usize = 32;

/// Bit in the extras of shape information that marks an array without elements.
const EXTRA_EMPTY: i64 = 8;
/// Bits in the extras that mark unsupported kinds of arrays, whose buffers contain more than just
/// the elements: sparse, compressed, ragged, CSR, CSC, COO, complex, quantized.
const EXTRA_OTHER_KINDS: i64 = 2 | 4 | 16 | 32 | 64 | 128 | 512 | 1024;

/// The order of elements in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last index varies fastest, as in C.
    #[default]
    C,
    /// The first index varies fastest, as in Fortran.
    F,
}

impl Order {
    fn code(self) -> i64 {
        match self {
            Order::C => i64::from(b'c'),
            Order::F => i64::from(b'f'),
        }
    }
}

/// The order of the bytes in an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ArrayByteOrder {
    /// Lowest byte first.
    #[default]
    Little,
    /// Highest byte first.
    Big,
}

impl ArrayByteOrder {
    pub(crate) fn code(self) -> i8 {
        self as i8
    }

    pub(crate) fn from_code(code: i8) -> Result<ArrayByteOrder> {
        match code {
            0 => Ok(ArrayByteOrder::Little),
            1 => Ok(ArrayByteOrder::Big),
            _ => Err(invalid(format!("unknown byte order {code}"))),
        }
    }
}

/// The type, shape, element order and byte order of an array.
///
/// Files store all of this except the byte order as *shape information*, a list of 64-bit numbers:
///
/// ```text
/// rank | dimensions (rank) | strides in elements (rank) | extras | element-wise stride | 99 'c' or 102 'f'
/// ```
///
/// In the extras, the bit with the value 8 marks an empty array, and other bits represent the type.
/// A scalar has rank 0 and one element, whereas an empty array of rank 0 has none.
///
/// ```
/// use proto_splitter_samediff::{ArrayInfo, Nd4jType};
/// let info = ArrayInfo::new(Nd4jType::Float, [2, 3])?;
/// assert_eq!((info.element_count(), info.data_len()), (6, Some(24)));
/// assert_eq!(ArrayInfo::new(Nd4jType::Double, [])?.element_count(), 1);
/// # Ok::<(), proto_splitter_samediff::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    dtype: Nd4jType,
    shape: Vec<u64>,
    order: Order,
    byte_order: ArrayByteOrder,
    element_count: u64,
}

impl ArrayInfo {
    /// Creates the description of a little-endian array in C order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArray`] if there are more than 32 dimensions, or the size of the
    /// elements overflows.
    pub fn new(dtype: Nd4jType, shape: impl Into<Vec<u64>>) -> Result<ArrayInfo> {
        let shape = shape.into();
        if shape.len() > MAX_RANK {
            return Err(invalid(format!(
                "the shape has {} dimensions, but at most {MAX_RANK} are allowed",
                shape.len()
            )));
        }
        let width = dtype.width().unwrap_or(1);
        let count = element_count(&shape).filter(|count| {
            let bytes = count.checked_mul(width.into());
            bytes.is_some_and(|bytes| i64::try_from(bytes).is_ok())
        });
        let Some(element_count) = count else {
            return Err(invalid(format!(
                "a shape of {shape:?} has too many elements"
            )));
        };
        if let Some(dim) = shape.iter().find(|&&dim| i64::try_from(dim).is_err()) {
            return Err(invalid(format!("a dimension of {dim} is too large")));
        }
        Ok(ArrayInfo {
            dtype,
            shape,
            order: Order::C,
            byte_order: ArrayByteOrder::Little,
            element_count,
        })
    }

    /// Creates the description of an array of rank 0 without elements.
    #[must_use]
    pub fn empty(dtype: Nd4jType) -> ArrayInfo {
        ArrayInfo {
            dtype,
            shape: Vec::new(),
            order: Order::C,
            byte_order: ArrayByteOrder::Little,
            element_count: 0,
        }
    }

    /// Sets the order of elements.
    #[must_use]
    pub const fn with_order(mut self, order: Order) -> ArrayInfo {
        self.order = order;
        self
    }

    /// Sets the order of the bytes in an element.
    #[must_use]
    pub const fn with_byte_order(mut self, byte_order: ArrayByteOrder) -> ArrayInfo {
        self.byte_order = byte_order;
        self
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Nd4jType {
        self.dtype
    }

    /// Returns the length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the order of elements.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the order of the bytes in an element.
    #[must_use]
    pub fn byte_order(&self) -> ArrayByteOrder {
        self.byte_order
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        self.element_count
    }

    /// Returns true if the array has rank 0 and no elements. A scalar, in contrast, has one
    /// element.
    #[must_use]
    pub fn is_empty_scalar(&self) -> bool {
        self.shape.is_empty() && self.element_count == 0
    }

    /// Returns the total size of the elements, in bytes; `None` for strings, whose sizes vary.
    #[must_use]
    pub fn data_len(&self) -> Option<u64> {
        // This can't overflow, since the constructor checked the product.
        self.dtype
            .width()
            .map(|width| self.element_count * u64::from(width))
    }

    /// Returns the shape information, as a file stores it.
    pub(crate) fn to_shape_info(&self) -> Vec<i64> {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut info = vec![signed(self.shape.len() as u64)];
        info.extend(self.shape.iter().map(|&dim| signed(dim)));
        info.extend(self.strides());
        let empty = if self.element_count == 0 {
            EXTRA_EMPTY
        } else {
            0
        };
        info.push(self.dtype.extras() | empty);
        info.push(1);
        info.push(self.order.code());
        info
    }

    /// Returns the stride of each dimension: the distance between neighboring elements, counted in
    /// elements. All strides of an empty array are zero.
    fn strides(&self) -> Vec<i64> {
        let mut strides = vec![0; self.shape.len()];
        if self.element_count == 0 {
            return strides;
        }
        let mut next = 1_u64;
        let mut step = |index: usize| {
            strides[index] = i64::try_from(next).unwrap_or(i64::MAX);
            // This can't overflow, since the constructor checked the product of all dimensions.
            next *= self.shape[index];
        };
        match self.order {
            Order::C => (0..self.shape.len()).rev().for_each(&mut step),
            Order::F => (0..self.shape.len()).for_each(&mut step),
        }
        strides
    }

    /// Parses the shape information from a file.
    pub(crate) fn from_shape_info(
        info: &[i64],
        dtype: Nd4jType,
        byte_order: ArrayByteOrder,
    ) -> Result<Self> {
        let rank = info.first().copied().unwrap_or(-1);
        let rank = usize::try_from(rank).ok().filter(|&rank| rank <= MAX_RANK);
        let Some(rank) = rank else {
            let rank = info.first().map_or("no".to_owned(), i64::to_string);
            return Err(invalid(format!(
                "the shape information has {rank} dimensions, but 0 to {MAX_RANK} are allowed"
            )));
        };
        if info.len() != 2 * rank + 4 {
            let message = format!(
                "the shape information has {} numbers, but needs {} for {rank} dimensions",
                info.len(),
                2 * rank + 4
            );
            return Err(invalid(message));
        }
        let (dims, strides) = info[1..=2 * rank].split_at(rank);
        let [extras, _element_wise_stride, order] = info[2 * rank + 1..] else {
            return Err(invalid("the shape information is truncated".to_owned()));
        };
        let shape = dims
            .iter()
            .map(|&dim| u64::try_from(dim))
            .collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| invalid(format!("a negative dimension in {dims:?}")))?;
        let mut array = ArrayInfo::new(dtype, shape)?.with_byte_order(byte_order);
        array.order = match u8::try_from(order) {
            Ok(b'c') => Order::C,
            Ok(b'f') => Order::F,
            _ => {
                return Err(invalid(format!(
                    "the order is {order}, which is neither 'c' nor 'f'"
                )));
            }
        };
        array.check_extras(extras)?;
        array.check_strides(strides)?;
        Ok(array)
    }

    fn check_extras(&mut self, extras: i64) -> Result<()> {
        if extras & EXTRA_OTHER_KINDS != 0 {
            let message = format!(
                "extras of {extras}: sparse, compressed and other kinds of arrays are not supported"
            );
            return Err(Error::new(ErrorKind::UnsupportedArray, message));
        }
        let empty = extras & EXTRA_EMPTY != 0;
        // The type bits of an empty array aren't compared, since DL4J has written some of these
        // arrays with the bits of another type.
        if !empty && extras & TYPE_BITS != self.dtype.extras() {
            let message = format!(
                "the type is {}, but the extras of {extras} are for another type",
                self.dtype
            );
            return Err(invalid(message));
        }
        if empty && self.shape.is_empty() {
            self.element_count = 0;
        }
        if empty != (self.element_count == 0) {
            let message = format!(
                "the shape {:?} and the extras disagree on whether the array is empty",
                self.shape
            );
            return Err(invalid(message));
        }
        Ok(())
    }

    /// Fails unless the elements are contiguous in the declared order.
    fn check_strides(&self, strides: &[i64]) -> Result<()> {
        if self.element_count == 0 {
            return Ok(());
        }
        let dense = self.strides();
        let dims = self.shape.iter().zip(strides.iter().zip(&dense));
        // Skips dimensions of length one, whose strides are unused.
        let differs = dims
            .into_iter()
            .any(|(&dim, (stride, dense))| dim != 1 && stride != dense);
        if differs {
            let message = format!(
                "unsupported strides {strides:?}: only contiguous arrays can be read, which here have the strides {dense:?}"
            );
            Err(Error::new(ErrorKind::UnsupportedArray, message))
        } else {
            Ok(())
        }
    }
}

#[cold]
fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArray, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(info: &[i64], dtype: Nd4jType) -> Result<ArrayInfo> {
        ArrayInfo::from_shape_info(info, dtype, ArrayByteOrder::Little)
    }

    #[test]
    fn shape_information_is_as_nd4j_writes_it() {
        // These numbers are the same as in files from DL4J's own tests.
        let info = ArrayInfo::new(Nd4jType::Float, [2, 3]).unwrap();
        assert_eq!(info.to_shape_info(), [2, 2, 3, 3, 1, 8192, 1, 99]);
        let info = ArrayInfo::empty(Nd4jType::Int32);
        assert_eq!(info.to_shape_info(), [0, 131_080, 1, 99]);
        let info = ArrayInfo::new(Nd4jType::Float, [2, 3])
            .unwrap()
            .with_order(Order::F);
        assert_eq!(info.to_shape_info(), [2, 2, 3, 1, 2, 8192, 1, 102]);
    }

    #[test]
    fn what_is_written_is_read() {
        for dtype in Nd4jType::ALL {
            for shape in [
                vec![],
                vec![0],
                vec![5],
                vec![2, 0, 3],
                vec![4, 1, 2],
                vec![1; 32],
            ] {
                for order in [Order::C, Order::F] {
                    let info = ArrayInfo::new(dtype, shape.clone())
                        .unwrap()
                        .with_order(order);
                    assert_eq!(read(&info.to_shape_info(), dtype).unwrap(), info);
                }
            }
            let empty = ArrayInfo::empty(dtype);
            assert_eq!(read(&empty.to_shape_info(), dtype).unwrap(), empty);
        }
    }

    #[test]
    fn shape_information_that_contradicts_itself_is_refused() {
        use ErrorKind::*;
        for (info, kind) in [
            (&[][..], InvalidArray),
            (&[-1, 8192, 1, 99], InvalidArray),
            (&[33, 1, 1, 8192, 1, 99], InvalidArray),
            (&[2, 2, 3], InvalidArray),
            (&[1, -2, 1, 8192, 1, 99], InvalidArray),
            (
                &[2, 1 << 40, 1 << 40, 1 << 40, 1, 8192, 1, 99],
                InvalidArray,
            ),
            (&[1, 2, 1, 16384, 1, 99], InvalidArray),
            (&[1, 2, 1, 8192 + 8, 1, 99], InvalidArray),
            (&[1, 0, 1, 8192, 1, 99], InvalidArray),
            (&[1, 2, 1, 8192, 1, 98], InvalidArray),
            (&[1, 2, 1, 8192 + 2, 1, 99], UnsupportedArray),
            (&[1, 2, 2, 8192, 1, 99], UnsupportedArray),
            (&[2, 2, 3, 3, 1, 8192, 1, 102], UnsupportedArray),
        ] {
            let error = read(info, Nd4jType::Float).unwrap_err();
            assert_eq!(error.kind(), kind, "{info:?}: {error}");
        }
    }
}
