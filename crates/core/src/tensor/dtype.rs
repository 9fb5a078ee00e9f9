//! Element types of tensors.

use std::borrow::Cow;
use std::fmt;

/// The element type of a tensor.
///
/// Names are NumPy's. For types that NumPy lacks, names are from the Python package `ml_dtypes`.
///
/// ```
/// use proto_splitter_core::tensor::DType;
///
/// assert_eq!(DType::BF16.name(), "bfloat16");
/// assert_eq!(DType::BF16.bits(), Some(16));
/// assert_eq!(DType::F32.npy(), Some("f4"));
/// assert_eq!(DType::named("int64"), Some(DType::I64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// A boolean, stored in one byte.
    Bool,
    /// A signed 2-bit integer.
    I2,
    /// An unsigned 2-bit integer.
    U2,
    /// A signed 4-bit integer.
    I4,
    /// An unsigned 4-bit integer.
    U4,
    /// A signed 8-bit integer.
    I8,
    /// An unsigned 8-bit integer.
    U8,
    /// A signed 16-bit integer.
    I16,
    /// An unsigned 16-bit integer.
    U16,
    /// A signed 32-bit integer.
    I32,
    /// An unsigned 32-bit integer.
    U32,
    /// A signed 64-bit integer.
    I64,
    /// An unsigned 64-bit integer.
    U64,
    /// A 4-bit float: 2 bits of exponent, 1 of mantissa, only finite values.
    F4E2M1,
    /// A 6-bit float: 2 bits of exponent, 3 of mantissa, only finite values.
    F6E2M3,
    /// A 6-bit float: 3 bits of exponent, 2 of mantissa, only finite values.
    F6E3M2,
    /// An 8-bit float: 8 bits of exponent, no sign and no mantissa, so that values are powers of
    /// two.
    F8E8M0,
    /// An 8-bit float: 4 bits of exponent, 3 of mantissa, only finite values.
    F8E4M3,
    /// [`F8E4M3`](Self::F8E4M3) without a negative zero.
    F8E4M3Fnuz,
    /// [`F8E4M3Fnuz`](Self::F8E4M3Fnuz) with a bias of 11.
    F8E4M3B11Fnuz,
    /// An 8-bit float: 5 bits of exponent, 2 of mantissa.
    F8E5M2,
    /// [`F8E5M2`](Self::F8E5M2) without infinities or a negative zero.
    F8E5M2Fnuz,
    /// A 16-bit float, as in IEEE 754.
    F16,
    /// A 16-bit float: the upper half of an [`F32`](Self::F32).
    BF16,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A complex number of two [`F32`](Self::F32): real, imaginary.
    C64,
    /// A complex number of two [`F64`](Self::F64): real, imaginary.
    C128,
    /// A string of any length, in the encoding that the format uses.
    String,
    /// Any other type, with the name that the format gives it. It has no fixed width.
    Other(&'static str),
    /// A type number that the format doesn't define.
    Unknown(i64),
}

/// A row of [`TABLE`]: the type, its name, its width in bits, its name in NumPy files (without the
/// byte order), and its name in safetensors files.
type Row = (
    DType,
    &'static str,
    u32,
    Option<&'static str>,
    Option<&'static str>,
);

/// The element types that have a fixed width. NumPy files have no names for the types from
/// `ml_dtypes`: like NumPy, this crate stores their elements as opaque bytes (`V`). In NumPy files,
/// an element of less than 8 bits takes one byte.
const TABLE: &[Row] = &[
    (DType::Bool, "bool", 8, Some("b1"), Some("BOOL")),
    (DType::I2, "int2", 2, Some("V1"), None),
    (DType::U2, "uint2", 2, Some("V1"), None),
    (DType::I4, "int4", 4, Some("V1"), None),
    (DType::U4, "uint4", 4, Some("V1"), None),
    (DType::I8, "int8", 8, Some("i1"), Some("I8")),
    (DType::U8, "uint8", 8, Some("u1"), Some("U8")),
    (DType::I16, "int16", 16, Some("i2"), Some("I16")),
    (DType::U16, "uint16", 16, Some("u2"), Some("U16")),
    (DType::I32, "int32", 32, Some("i4"), Some("I32")),
    (DType::U32, "uint32", 32, Some("u4"), Some("U32")),
    (DType::I64, "int64", 64, Some("i8"), Some("I64")),
    (DType::U64, "uint64", 64, Some("u8"), Some("U64")),
    (DType::F4E2M1, "float4_e2m1fn", 4, Some("V1"), Some("F4")),
    (
        DType::F6E2M3,
        "float6_e2m3fn",
        6,
        Some("V1"),
        Some("F6_E2M3"),
    ),
    (
        DType::F6E3M2,
        "float6_e3m2fn",
        6,
        Some("V1"),
        Some("F6_E3M2"),
    ),
    (
        DType::F8E8M0,
        "float8_e8m0fnu",
        8,
        Some("V1"),
        Some("F8_E8M0"),
    ),
    (
        DType::F8E4M3,
        "float8_e4m3fn",
        8,
        Some("V1"),
        Some("F8_E4M3"),
    ),
    (
        DType::F8E4M3Fnuz,
        "float8_e4m3fnuz",
        8,
        Some("V1"),
        Some("F8_E4M3FNUZ"),
    ),
    (
        DType::F8E4M3B11Fnuz,
        "float8_e4m3b11fnuz",
        8,
        Some("V1"),
        None,
    ),
    (DType::F8E5M2, "float8_e5m2", 8, Some("V1"), Some("F8_E5M2")),
    (
        DType::F8E5M2Fnuz,
        "float8_e5m2fnuz",
        8,
        Some("V1"),
        Some("F8_E5M2FNUZ"),
    ),
    (DType::F16, "float16", 16, Some("f2"), Some("F16")),
    (DType::BF16, "bfloat16", 16, Some("V2"), Some("BF16")),
    (DType::F32, "float32", 32, Some("f4"), Some("F32")),
    (DType::F64, "float64", 64, Some("f8"), Some("F64")),
    (DType::C64, "complex64", 64, Some("c8"), Some("C64")),
    (DType::C128, "complex128", 128, Some("c16"), None),
];

impl DType {
    /// Returns the fixed-width type with this name; `None` if there is none.
    pub fn named(name: &str) -> Option<DType> {
        let row = TABLE.iter().find(|row| row.1 == name);
        row.map(|row| row.0)
    }

    /// Returns the type's name in NumPy or `ml_dtypes`, or else the name that the format gives it.
    pub fn name(self) -> Cow<'static, str> {
        match (self, self.row()) {
            (_, Some(row)) => row.1.into(),
            (DType::Other(name), _) => name.into(),
            (DType::Unknown(number), _) => format!("type {number}").into(),
            (_, None) => "string".into(),
        }
    }

    /// Returns the width of an element in bits; `None` if the type has no fixed width.
    pub fn bits(self) -> Option<u32> {
        self.row().map(|row| row.2)
    }

    /// Returns the width of an element in bytes, at least 1; `None` if the type has no fixed width.
    pub fn width(self) -> Option<u64> {
        self.bits().map(|bits| u64::from(bits.div_ceil(8)))
    }

    /// Returns the size in bytes of `elements` elements, which are packed if they have less than 8
    /// bits; `None` if the type has no fixed width, or the size doesn't fit in 64 bits.
    pub fn packed_bytes(self, elements: u64) -> Option<u64> {
        match self.bits()? {
            bits @ ..8 => {
                let bits = u128::from(elements) * u128::from(bits);
                u64::try_from(bits.div_ceil(8)).ok()
            }
            bits => elements.checked_mul(u64::from(bits / 8)),
        }
    }

    /// Returns the type's name in NumPy files, without the prefix for the byte order; `None` if it
    /// has no such name.
    pub fn npy(self) -> Option<&'static str> {
        self.row()?.3
    }

    /// Returns the type's name in safetensors files; `None` if it has no such name.
    pub fn safetensors(self) -> Option<&'static str> {
        self.row()?.4
    }

    /// Returns the size in bytes of the units whose bytes are reversed when the byte order is
    /// changed. A unit is an element (1 byte if the element has 8 bits or less) or, in a complex
    /// number, each of the two numbers. Returns `None` if the type has no fixed width.
    pub fn swapped_width(self) -> Option<usize> {
        Some(match self {
            DType::C64 => 4,
            DType::C128 => 8,
            _ => self.row()?.2.div_ceil(8) as usize,
        })
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.0 == self)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_type() {
        for row in TABLE {
            assert_eq!(DType::named(row.1), Some(row.0));
            assert_eq!(row.0.name(), row.1);
        }
        assert_eq!(DType::named("string"), None);
    }

    #[test]
    fn elements_under_a_byte_share_bytes() {
        for (dtype, elements, bytes) in [
            (DType::I4, 3, 2),
            (DType::U2, 5, 2),
            (DType::F4E2M1, 0, 0),
            (DType::F6E2M3, 4, 3),
            (DType::F6E3M2, 5, 4),
            (DType::U2, u64::MAX, 1 << 62),
            (DType::Bool, 3, 3),
            (DType::C128, 3, 48),
        ] {
            assert_eq!(dtype.packed_bytes(elements), Some(bytes), "{dtype}");
        }
        assert_eq!(DType::F64.packed_bytes(u64::MAX), None);
        assert_eq!(DType::String.packed_bytes(1), None);
    }

    #[test]
    fn a_type_without_a_width_still_has_a_name() {
        assert_eq!(DType::String.to_string(), "string");
        assert_eq!(DType::Other("resource").to_string(), "resource");
        assert_eq!(DType::Unknown(99).to_string(), "type 99");
    }
}
