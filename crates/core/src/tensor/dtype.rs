//! What the elements of a tensor are.

use std::borrow::Cow;
use std::fmt;

/// What the elements of a tensor are.
///
/// Names are NumPy's and, for the types that NumPy lacks, those of the Python package `ml_dtypes`.
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
    /// True or false, a byte each.
    Bool,
    /// An integer of 2 bits with a sign.
    I2,
    /// An integer of 2 bits without a sign.
    U2,
    /// An integer of 4 bits with a sign.
    I4,
    /// An integer of 4 bits without a sign.
    U4,
    /// An integer of 8 bits with a sign.
    I8,
    /// An integer of 8 bits without a sign.
    U8,
    /// An integer of 16 bits with a sign.
    I16,
    /// An integer of 16 bits without a sign.
    U16,
    /// An integer of 32 bits with a sign.
    I32,
    /// An integer of 32 bits without a sign.
    U32,
    /// An integer of 64 bits with a sign.
    I64,
    /// An integer of 64 bits without a sign.
    U64,
    /// A float of 4 bits: 2 of exponent, 1 of mantissa, finite only.
    F4E2M1,
    /// A float of 6 bits: 2 of exponent, 3 of mantissa, finite only.
    F6E2M3,
    /// A float of 6 bits: 3 of exponent, 2 of mantissa, finite only.
    F6E3M2,
    /// A float of 8 bits: 8 of exponent, no sign, a power of two.
    F8E8M0,
    /// A float of 8 bits: 4 of exponent, 3 of mantissa, finite only.
    F8E4M3,
    /// [`F8E4M3`](Self::F8E4M3) without a negative zero.
    F8E4M3Fnuz,
    /// [`F8E4M3Fnuz`](Self::F8E4M3Fnuz) with a bias of 11.
    F8E4M3B11Fnuz,
    /// A float of 8 bits: 5 of exponent, 2 of mantissa.
    F8E5M2,
    /// [`F8E5M2`](Self::F8E5M2) without infinities and a negative zero.
    F8E5M2Fnuz,
    /// A float of 16 bits, as in IEEE 754.
    F16,
    /// A float of 16 bits: the upper half of an [`F32`](Self::F32).
    BF16,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
    /// A complex number of two [`F32`](Self::F32): real, imaginary.
    C64,
    /// A complex number of two [`F64`](Self::F64): real, imaginary.
    C128,
    /// Strings, of any length each. Their bytes are as the format stores them.
    String,
    /// Anything else that a format knows by this name, without a width.
    Other(&'static str),
    /// A number that the format doesn't know as a type.
    Unknown(i64),
}

/// A row of the table: the type, its name, its bits, and its name in a NumPy file without the
/// byte order and in a safetensors file.
type Row = (
    DType,
    &'static str,
    u32,
    Option<&'static str>,
    Option<&'static str>,
);

/// NumPy files have no name for the types of `ml_dtypes`: they are stored as opaque bytes (`V`), as
/// NumPy itself does it. Those under a byte are stored one in a byte.
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
    /// The type with this name; none for names that no width belongs to.
    pub fn named(name: &str) -> Option<DType> {
        let row = TABLE.iter().find(|row| row.1 == name);
        row.map(|row| row.0)
    }

    /// NumPy's name, that of `ml_dtypes`, or the format's own.
    pub fn name(self) -> Cow<'static, str> {
        match (self, self.row()) {
            (_, Some(row)) => row.1.into(),
            (DType::Other(name), _) => name.into(),
            (DType::Unknown(number), _) => format!("type {number}").into(),
            (_, None) => "string".into(),
        }
    }

    /// Bits of an element; none if elements are not all of one width.
    pub fn bits(self) -> Option<u32> {
        self.row().map(|row| row.2)
    }

    /// Bytes of an element that stands alone: under 8 bits it takes a whole byte.
    pub fn width(self) -> Option<u64> {
        self.bits().map(|bits| u64::from(bits.div_ceil(8)))
    }

    /// Bytes of this many elements, packed if they have less than 8 bits; none if elements are not
    /// all of one width, or if the number doesn't fit in 64 bits.
    pub fn packed_bytes(self, elements: u64) -> Option<u64> {
        match self.bits()? {
            bits @ ..8 => {
                let bits = u128::from(elements) * u128::from(bits);
                u64::try_from(bits.div_ceil(8)).ok()
            }
            bits => elements.checked_mul(u64::from(bits / 8)),
        }
    }

    /// The name of the type in a NumPy file, without the sign for the byte order.
    pub fn npy(self) -> Option<&'static str> {
        self.row()?.3
    }

    /// The name of the type in a safetensors file.
    pub fn safetensors(self) -> Option<&'static str> {
        self.row()?.4
    }

    /// Bytes that change places when the byte order does: 1 for types of single bytes. Complex
    /// numbers are two numbers.
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
