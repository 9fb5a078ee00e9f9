use std::ops::Range;

use super::*;
use crate::{ErrorKind, Result};

/// Reads every field of a message through each kind of input.
fn fields(bytes: &[u8]) -> Result<Vec<Field>> {
    fn walk<I: Input>(mut cursor: WireCursor<I>) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        while let Some(field) = cursor.next()? {
            fields.push(field);
        }
        Ok(fields)
    }
    let from_slice = walk(WireCursor::new(bytes));
    let from_stream = walk(WireCursor::new(StreamInput::new(
        OneByte(bytes),
        bytes.len() as u64,
    )));
    let hidden = Hidden(bytes.to_vec());
    let from_source = walk(WireCursor::new(SourceInput::new(
        &hidden,
        bytes.len() as u64,
    )));
    match (&from_slice, &from_stream, &from_source) {
        (Ok(a), Ok(b), Ok(c)) => assert!(a == b && a == c),
        (Err(a), Err(b), Err(c)) => {
            assert_eq!(a.to_string(), b.to_string());
            assert_eq!(a.to_string(), c.to_string());
        }
        _ => panic!("inputs disagree: {from_slice:?} {from_stream:?} {from_source:?}"),
    }
    from_slice
}

/// A source that returns one byte per read.
struct OneByte<'a>(&'a [u8]);

impl std::io::Read for OneByte<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(1);
        std::io::Read::read(&mut self.0, &mut buf[..n])
    }
}

/// A source that keeps its bytes in memory, but doesn't provide them as a slice.
struct Hidden(Vec<u8>);

impl record_file::ReadAt for Hidden {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[test]
fn every_wire_type_is_hopped_over() {
    let bytes = b"\x08\x96\x01\x11\x01\x02\x03\x04\x05\x06\x07\x08\x1a\x02hi\x23\x08\x01\x24\x2d\x01\x02\x03\x04";
    let found = fields(bytes).unwrap();
    let values: Vec<_> = found
        .iter()
        .map(|field| (field.number.0, field.value.clone()))
        .collect();
    assert_eq!(
        values,
        [(1, 1..3), (2, 4..12), (3, 14..16), (4, 17..19), (5, 21..25)]
    );
    assert_eq!(
        found.iter().map(|field| field.end).collect::<Vec<_>>(),
        [3, 12, 16, 20, 25]
    );
}

#[test]
fn groups_nest_and_end_with_their_own_number() {
    let found = fields(b"\x0b\x13\x0b\x0c\x14\x0c").unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].value.clone(), found[0].end), (1..5, 6));
}

#[test]
fn malformed_bytes_are_refused_where_they_are() {
    let table: &[(&[u8], &str)] = &[
        (b"\x80", "tag is truncated or too long at 0x0"),
        (b"\x00", "0 is not a tag at 0x0"),
        (b"\x08\x01\x06", "6 is not a tag at 0x2"),
        (b"\x0f", "15 is not a tag at 0x0"),
        (
            b"\xf8\xff\xff\xff\xff\x01",
            "68719476728 is not a tag at 0x0",
        ),
        (b"\x08", "varint is truncated or too long at 0x1"),
        (
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            "varint is truncated or too long at 0x1",
        ),
        (
            b"\x09\x01",
            "field 1: 8 bytes run past the end of the message, which has 1 more at 0x0",
        ),
        (
            b"\x0d\x01",
            "field 1: 4 bytes run past the end of the message, which has 1 more at 0x0",
        ),
        (b"\x0a", "length is truncated or too long at 0x1"),
        (
            b"\x0a\x05abcd",
            "field 1: 5 bytes run past the end of the message, which has 4 more at 0x0",
        ),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "field 1: 18446744073709551615 bytes run past the end of the message, which has 0 more at 0x0",
        ),
        (b"\x0c", "an end group tag without a group at 0x0"),
        (b"\x0b", "group 1 has no end tag at 0x0"),
        (
            b"\x0b\x14",
            "group 1 is closed by the end tag of group 2 at 0x1",
        ),
        (
            b"\x0b\x0a\x02\x0c",
            "field 1: 2 bytes run past the end of the message, which has 1 more at 0x1",
        ),
    ];
    for (bytes, message) in table {
        let error = fields(bytes).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidMessage, *message)
        );
    }
}

#[test]
fn a_megabyte_of_start_group_tags_is_refused_without_using_the_stack() {
    let error = fields(&vec![0x0b; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(error.to_string(), "groups nest deeper than 100 at 0x64");
}

#[test]
fn large_values_are_hopped_over_without_being_read() {
    /// A message of one 3 GiB value followed by a varint. The message's bytes are computed when
    /// they are read.
    struct Sparse;
    const LEN: u64 = 3 << 30;
    impl record_file::ReadAt for Sparse {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            let head = b"\x0a\x80\x80\x80\x80\x0c";
            for (byte, at) in buf.iter_mut().zip(offset..) {
                *byte = match usize::try_from(at).ok().and_then(|at| head.get(at)) {
                    Some(byte) => *byte,
                    None if at == LEN + 6 => 0x10,
                    None if at == LEN + 7 => 0x2a,
                    None => 0,
                };
            }
            let end = LEN + 8;
            Ok(usize::try_from(end.saturating_sub(offset))
                .unwrap()
                .min(buf.len()))
        }

        fn size(&self) -> std::io::Result<u64> {
            Ok(LEN + 8)
        }
    }
    let mut cursor = WireCursor::new(SourceInput::new(&Sparse, LEN + 8));
    assert_eq!(cursor.next().unwrap().unwrap().value, 6..LEN + 6);
    assert_eq!(cursor.next().unwrap().unwrap().value, LEN + 7..LEN + 8);
    assert_eq!(cursor.next().unwrap(), None);
}

#[test]
fn hopping_over_fields_of_one_tag_finds_what_hopping_one_by_one_does() {
    let mut bytes = Vec::new();
    for index in 0..3000u64 {
        let len = [0, 1, 90, 127, 128, 300, 20_000][usize::try_from(index % 7).unwrap()];
        let number = if index % 500 == 499 { 2 } else { 1 };
        put_varint(&mut bytes, tag(FieldNumber(number), WireType::Len));
        put_varint(&mut bytes, len);
        bytes.resize(bytes.len() + usize::try_from(len).unwrap(), b'x');
    }
    let mut cursor = WireCursor::new(&bytes[..]);
    let mut expected = Vec::new();
    while let Some(field) = cursor.next().unwrap() {
        expected.push((field.start, field.value.end - field.value.start));
    }
    let source: &dyn record_file::ReadAt = &Hidden(bytes.clone());
    for limit in [0, 100, 1000, u64::MAX] {
        let mut cursor = WireCursor::new(SourceInput::new(source, bytes.len() as u64));
        let mut found = Vec::new();
        while let Some(field) = cursor.next().unwrap() {
            found.push((field.start, field.value.end - field.value.start));
            let pass = |start, value: Range<u64>| {
                let len = value.end - value.start;
                assert!(len < limit);
                found.push((start, len));
                true
            };
            cursor.hop_alike(&field, limit, pass).unwrap();
        }
        assert_eq!(found, expected);
    }
}
