//! Element types of arrays, kinds of variables, and the codes that represent them in files.

use std::fmt;

use proto_splitter_core::tensor::DType;

use crate::{Error, ErrorKind, Result};

/// The type of an array's elements.
///
/// ```
/// use proto_splitter_samediff::Nd4jType;
/// assert_eq!(Nd4jType::BFloat16.width(), Some(2));
/// assert_eq!(Nd4jType::Utf8.width(), None);
/// assert_eq!(Nd4jType::Float.to_string(), "FLOAT");
/// assert_eq!("UINT8".parse::<Nd4jType>()?, Nd4jType::UInt8);
/// # Ok::<(), proto_splitter_samediff::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Nd4jType {
    /// One byte, 0 or 1.
    Bool,
    /// A 16-bit IEEE 754 float.
    Half,
    /// A 16-bit float: the upper half of a 32-bit float.
    BFloat16,
    /// A 32-bit IEEE 754 float.
    Float,
    /// A 64-bit IEEE 754 float.
    Double,
    /// A signed 8-bit integer.
    Int8,
    /// A signed 16-bit integer.
    Int16,
    /// A signed 32-bit integer.
    Int32,
    /// A signed 64-bit integer.
    Int64,
    /// An unsigned 8-bit integer.
    UInt8,
    /// An unsigned 16-bit integer.
    UInt16,
    /// An unsigned 32-bit integer.
    UInt32,
    /// An unsigned 64-bit integer.
    UInt64,
    /// Strings of any length.
    Utf8,
}

/// A type's properties in the file formats.
struct Row {
    dtype: Nd4jType,
    code: i8,
    name: &'static str,
    /// The same type in the headers of tensors.
    tensor: DType,
    /// Bits that represent the type in an array's shape information.
    extras: i64,
}

const UNSIGNED: i64 = 1 << 23;

const fn row(dtype: Nd4jType, code: i8, name: &'static str, tensor: DType, extras: i64) -> Row {
    Row {
        dtype,
        code,
        name,
        tensor,
        extras,
    }
}

/// Properties of each type, in the order of [`Nd4jType`]'s variants.
#[rustfmt::skip]
const ROWS: [Row; 14] = [
    row(Nd4jType::Bool, 1, "BOOL", DType::Bool, 1 << 19),
    row(Nd4jType::Half, 3, "HALF", DType::F16, 1 << 12),
    row(Nd4jType::BFloat16, 17, "BFLOAT16", DType::BF16, 1 << 11),
    row(Nd4jType::Float, 5, "FLOAT", DType::F32, 1 << 13),
    row(Nd4jType::Double, 6, "DOUBLE", DType::F64, 1 << 14),
    row(Nd4jType::Int8, 7, "INT8", DType::I8, 1 << 15),
    row(Nd4jType::Int16, 8, "INT16", DType::I16, 1 << 16),
    row(Nd4jType::Int32, 9, "INT32", DType::I32, 1 << 17),
    row(Nd4jType::Int64, 10, "INT64", DType::I64, 1 << 18),
    row(Nd4jType::UInt8, 11, "UINT8", DType::U8, 1 << 15 | UNSIGNED),
    row(Nd4jType::UInt16, 12, "UINT16", DType::U16, 1 << 16 | UNSIGNED),
    row(Nd4jType::UInt32, 13, "UINT32", DType::U32, 1 << 17 | UNSIGNED),
    row(Nd4jType::UInt64, 14, "UINT64", DType::U64, 1 << 18 | UNSIGNED),
    row(Nd4jType::Utf8, 50, "UTF8", DType::String, 1 << 20),
];

/// Names of the unsupported types, by code.
const OTHERS: [(i8, &str); 7] = [
    (0, "INHERIT"),
    (2, "FLOAT8"),
    (4, "HALF2"),
    (15, "QINT8"),
    (16, "QINT16"),
    (51, "UTF16"),
    (52, "UTF32"),
];

/// Mask of the bits that represent the type in an array's shape information.
pub(crate) const TYPE_BITS: i64 = {
    let mut bits = 1 << 22 | 1 << 24;
    let mut index = 0;
    while index < ROWS.len() {
        bits |= ROWS[index].extras;
        index += 1;
    }
    bits
};

impl Nd4jType {
    /// All types.
    pub const ALL: [Nd4jType; 14] = {
        let mut all = [Nd4jType::Bool; 14];
        let mut index = 0;
        while index < ROWS.len() {
            all[index] = ROWS[index].dtype;
            index += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the size of an element in bytes; `None` for strings.
    #[must_use]
    pub fn width(self) -> Option<u8> {
        self.row().tensor.width()?.try_into().ok()
    }

    /// Returns the same type as a type in the headers of tensors.
    pub(crate) fn tensor_type(self) -> DType {
        self.row().tensor
    }

    /// Returns the code that represents the type in files.
    #[must_use]
    pub fn code(self) -> i8 {
        self.row().code
    }

    /// Returns the bits that represent the type in an array's shape information.
    pub(crate) fn extras(self) -> i64 {
        self.row().extras
    }

    /// Returns the type that this code represents in files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnsupportedArray`] if the code represents an obsolete type, or is unknown.
    pub fn from_code(code: i8) -> Result<Nd4jType> {
        if let Some(row) = ROWS.iter().find(|row| row.code == code) {
            return Ok(row.dtype);
        }
        let other = OTHERS.iter().find(|other| other.0 == code);
        let message = match other {
            Some((_, name)) => format!("type {name} is not supported"),
            None => format!("there is no type with the number {code}"),
        };
        Err(Error::new(ErrorKind::UnsupportedArray, message))
    }
}

impl fmt::Display for Nd4jType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

impl std::str::FromStr for Nd4jType {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if no type has this name.
    fn from_str(name: &str) -> Result<Nd4jType> {
        let found = ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(name));
        found.map(|row| row.dtype).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidConfig,
                format!("there is no type {name:?}"),
            )
        })
    }
}

/// The kind of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VarType {
    /// A variable with values that training can change.
    Variable,
    /// A variable with fixed values.
    Constant,
    /// A result of an operation.
    Array,
    /// An input of the graph, whose values the graph's caller supplies.
    Placeholder,
}

impl VarType {
    const ALL: [VarType; 4] = [
        VarType::Variable,
        VarType::Constant,
        VarType::Array,
        VarType::Placeholder,
    ];

    /// Returns true if variables of this kind have values in the model. Each of these variables has
    /// a line in `params.txt`.
    #[must_use]
    pub fn has_values(self) -> bool {
        matches!(self, VarType::Variable | VarType::Constant)
    }

    pub(crate) fn code(self) -> i8 {
        self as i8
    }

    pub(crate) fn from_code(code: i8) -> Result<VarType> {
        let index = usize::try_from(code).ok();
        let found = index.and_then(|index| VarType::ALL.get(index));
        found.copied().ok_or_else(|| {
            let what = match code {
                4 => "a SEQUENCE, which the format can't represent".to_owned(),
                _ => format!("of the unknown kind {code}"),
            };
            Error::new(ErrorKind::InvalidGraph, format!("a variable is {what}"))
        })
    }
}

impl fmt::Display for VarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            VarType::Variable => "VARIABLE",
            VarType::Constant => "CONSTANT",
            VarType::Array => "ARRAY",
            VarType::Placeholder => "PLACEHOLDER",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_its_number_and_its_name() {
        for dtype in Nd4jType::ALL {
            assert_eq!(Nd4jType::from_code(dtype.code()).unwrap(), dtype);
            assert_eq!(dtype.to_string().parse::<Nd4jType>().unwrap(), dtype);
            assert_eq!(dtype.extras() & !TYPE_BITS, 0);
        }
        let error = Nd4jType::from_code(2).unwrap_err();
        assert_eq!(error.to_string(), "type FLOAT8 is not supported");
        assert!(Nd4jType::from_code(99).is_err());
    }
}
