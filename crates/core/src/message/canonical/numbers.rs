//! Canonical forms of single numbers, and of packed runs of numbers.

use std::ops::{Deref, Range};

use crate::wire::{
    Field, FieldNumber, Input, MAX_VARINT_LEN, WireType, decode_varint, encode_varint, put_varint,
    tag,
};
use crate::{Error, ErrorKind, Result};

use super::Canonical;
use super::plan::Plan;
use super::scalar::Scalar;
use super::schema::FieldShape;

impl Canonical<'_> {
    /// Returns the bits of a number in the source: the value of a varint, or of a fixed-width
    /// number.
    pub(super) fn number(&mut self, field: &Field) -> Result<u64> {
        let bytes = self.cursor.bytes(field.value.clone())?;
        Ok(match field.wire_type {
            WireType::Varint => decode_varint(bytes).map_or(0, |(bits, _)| bits),
            _ => fixed(bytes),
        })
    }

    /// Adds a number with its tag, reusing the source's bytes if they are canonical.
    pub(super) fn put_number(
        &mut self,
        scalar: Scalar,
        bits: u64,
        field: &Field,
        plan: &mut Plan,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(2 * MAX_VARINT_LEN);
        put_varint(&mut bytes, tag(field.number, scalar.wire_type()));
        bytes.extend_from_slice(&Encoded::new(scalar, bits));
        if field.wire_type == scalar.wire_type()
            && self.cursor.bytes(field.start..field.end)? == bytes
        {
            plan.put_source(field.start..field.end);
        } else {
            plan.put_bytes(&bytes);
        }
        Ok(())
    }

    /// Adds the numbers in `field`, which may be packed, as elements of an unpacked repeated field,
    /// each with its tag. Adds the numbers in a packed run that the field's enum doesn't declare to
    /// `unknown`.
    pub(super) fn elements(
        &mut self,
        known: &FieldShape,
        scalar: Scalar,
        field: &Field,
        list: &mut Plan,
        unknown: &mut Plan,
    ) -> Result<()> {
        if field.wire_type != WireType::Len {
            let bits = scalar.normalize(self.number(field)?);
            return self.put_number(scalar, bits, field, list);
        }
        let header = tag_bytes(field.number, scalar.wire_type());
        let mut put = |bits: u64| {
            let plan = if known.is_declared(bits) {
                &mut *list
            } else {
                &mut *unknown
            };
            plan.put_bytes(&header);
            plan.put_bytes(&Encoded::new(scalar, bits));
        };
        let Some(len) = scalar.fixed_len() else {
            return self.run(scalar, field, |_, bits| put(bits));
        };
        check_run(field, len)?;
        let mut position = field.value.start;
        while position < field.value.end {
            put(fixed(self.cursor.bytes(position..position + len)?));
            position += len;
        }
        Ok(())
    }

    /// Calls `put` for a single number, or for each number in a packed run. `put` receives the
    /// range of the number in the source if the number's bytes are canonical, and the number's
    /// value. A run of fixed-size numbers is passed as one range.
    pub(super) fn run(
        &mut self,
        scalar: Scalar,
        field: &Field,
        mut put: impl FnMut(Option<Range<u64>>, u64),
    ) -> Result<()> {
        if field.wire_type != WireType::Len {
            let bits = scalar.normalize(self.number(field)?);
            let is_canonical =
                *self.cursor.bytes(field.value.clone())? == *Encoded::new(scalar, bits);
            put(is_canonical.then(|| field.value.clone()), bits);
            return Ok(());
        }
        if let Some(len) = scalar.fixed_len() {
            check_run(field, len)?;
            put(Some(field.value.clone()), 0);
            return Ok(());
        }
        let mut position = field.value.start;
        while position < field.value.end {
            let left = field.value.end - position;
            let bytes = self.cursor.input_mut().fetch(position, MAX_VARINT_LEN)?;
            let usable = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let bytes = &bytes[..usable];
            let (bits, len) = decode_varint(bytes).ok_or_else(|| cut_short(field))?;
            let bits = scalar.normalize(bits);
            let is_canonical = *Encoded::new(scalar, bits) == bytes[..len];
            let end = position + len as u64;
            put(is_canonical.then_some(position..end), bits);
            position = end;
        }
        Ok(())
    }
}

/// A number's encoding, without a tag.
pub(super) struct Encoded {
    bytes: [u8; MAX_VARINT_LEN],
    len: usize,
}

impl Encoded {
    pub(super) fn new(scalar: Scalar, bits: u64) -> Self {
        let Some(len) = scalar.fixed_len() else {
            let (bytes, len) = encode_varint(bits);
            return Encoded { bytes, len };
        };
        let mut bytes = [0; MAX_VARINT_LEN];
        bytes[..8].copy_from_slice(&bits.to_le_bytes());
        let len = if len == 4 { 4 } else { 8 };
        Encoded { bytes, len }
    }
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(super) fn tag_bytes(number: FieldNumber, wire_type: WireType) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * MAX_VARINT_LEN);
    put_varint(&mut bytes, tag(number, wire_type));
    bytes
}

pub(super) fn tagged(number: FieldNumber, scalar: Scalar, bits: u64) -> Vec<u8> {
    let mut bytes = tag_bytes(number, scalar.wire_type());
    bytes.extend_from_slice(&Encoded::new(scalar, bits));
    bytes
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn check_run(field: &Field, len: u64) -> Result<()> {
    if (field.value.end - field.value.start).is_multiple_of(len) {
        Ok(())
    } else {
        Err(cut_short(field))
    }
}

#[cold]
fn cut_short(field: &Field) -> Error {
    let message = "the packed run ends inside a number";
    Error::new(ErrorKind::InvalidMessage, message).at_offset(field.start)
}
