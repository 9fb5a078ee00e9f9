//! Tests with simple chunks, and chunks without records, that have correct hashes but invalid
//! content.
use record_file::{
    ChunkOffset, Error, ErrorKind, ReadAt, ReaderOptions, RecordFile, RecordPosition, RecordReader,
    Sequential,
};

use crate::support::frame::{self, Frame, varint_of};

pub(crate) const BEGIN: u64 = 64;

/// Reads the only chunk in a file in all ways, checks that the results agree, and returns the
/// records.
pub(crate) fn read(frame: &Frame<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = frame::file(std::slice::from_ref(frame));
    let options = ReaderOptions::new();
    let file = RecordFile::open(&bytes, options).unwrap();
    let decoded = file.read_chunk(ChunkOffset(BEGIN));
    let expected = decoded
        .as_ref()
        .map(|chunk| chunk.records().map(<[u8]>::to_vec).collect::<Vec<_>>());

    for index in 0..frame.num_records.min(10) {
        let position = RecordPosition::new(BEGIN, index);
        let record = file.read_record(position);
        assert_eq!(record.is_ok(), decoded.is_ok());
        // Streaming a record, or getting its length, may inspect only that record.
        if let (Ok(len), Ok(record)) = (file.record_len(position), &record) {
            assert_eq!(len, record.len() as u64);
        }
        if let Ok(mut stream) = file.record_stream(position) {
            let mut out = Vec::new();
            match std::io::Read::read_to_end(&mut stream, &mut out) {
                Ok(_) => assert_eq!(out, record.unwrap()),
                Err(_) => assert!(record.is_err()),
            }
        }
    }
    let mut reader = RecordReader::new(&bytes, options);
    let mut streamed = RecordReader::from_read(&bytes[..], options);
    let in_sequence = |reader: &mut dyn FnMut() -> Result<Option<Vec<u8>>, Error>| {
        let mut records = Vec::new();
        loop {
            match reader() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break assert_eq!(Ok(&records), expected.as_ref().map_err(|_| ())),
                Err(error) => {
                    let first = decoded.as_ref().unwrap_err();
                    assert_eq!(error.kind(), first.kind(), "{error}, {first}");
                    assert_eq!(error.offset(), first.offset());
                    // The error repeats, since the reader skips nothing.
                    assert_eq!(reader().unwrap_err().kind(), first.kind());
                    break;
                }
            }
        }
    };
    in_sequence(&mut || Ok(reader.read_record()?.map(<[u8]>::to_vec)));
    in_sequence(&mut || Ok(streamed.read_record()?.map(<[u8]>::to_vec)));
    if let Err(error) = &decoded {
        assert!(error.offset().is_some(), "{error}");
    }
    decoded.map(|chunk| chunk.records().map(<[u8]>::to_vec).collect())
}

/// Checks that the chunk is rejected with an error of kind `kind` whose message contains `reason`.
pub(crate) fn refused(what: &str, frame: &Frame<'_>, kind: ErrorKind, reason: &str) {
    let error = read(frame).expect_err(what);
    assert_eq!(error.kind(), kind, "{what}: {error}");
    assert!(error.to_string().contains(reason), "{what}: {error}");
}

/// Returns the data of an uncompressed simple chunk.
fn plain(sizes: &[u64], values: &[u8]) -> Vec<u8> {
    let sizes: Vec<u8> = sizes.iter().copied().flat_map(varint_of).collect();
    plain_raw(&sizes, values)
}

fn plain_raw(sizes: &[u8], values: &[u8]) -> Vec<u8> {
    [&[0], &varint_of(sizes.len() as u64)[..], sizes, values].concat()
}

/// Returns the data of a compressed simple chunk; the decompressed sizes may be false.
fn compressed(codec: u8, sizes: (u64, &[u8]), values: (u64, &[u8])) -> Vec<u8> {
    let sizes = [&varint_of(sizes.0)[..], sizes.1].concat();
    [
        &[codec],
        &varint_of(sizes.len() as u64)[..],
        &sizes,
        &varint_of(values.0),
        values.1,
    ]
    .concat()
}

fn compress(codec: u8, bytes: &[u8]) -> Vec<u8> {
    match codec {
        b'z' => zstd::bulk::compress(bytes, 3).unwrap(),
        b's' => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        _ => {
            let mut out = brotlic::CompressorWriter::new(Vec::new());
            std::io::Write::write_all(&mut out, bytes).unwrap();
            out.into_inner().unwrap()
        }
    }
}

#[test]
fn simple_chunks_that_contradict_themselves() {
    let ok = plain(&[1, 2], b"abc");
    let records = read(&Frame::new(b'r', 2, 3, &ok)).unwrap();
    assert_eq!(records, [&b"a"[..], b"bc"]);
    // A chunk without records is valid, but unusual.
    let none = plain(&[], b"");
    assert_eq!(read(&Frame::new(b'r', 0, 0, &none)).unwrap().len(), 0);

    let huge = u64::MAX;
    let max_records = (1 << 56) - 1;
    let overlong = [0xff; 11];
    let table: Vec<(&str, Vec<u8>, u64, u64)> = vec![
        ("no data", vec![], 1, 0),
        ("only a compression", vec![0], 1, 0),
        ("a length of sizes that is cut short", vec![0, 0x80], 1, 0),
        (
            "an overlong length of sizes",
            [&[0][..], &overlong].concat(),
            1,
            0,
        ),
        (
            "more sizes than data",
            [&[0], &varint_of(huge)[..]].concat(),
            1,
            0,
        ),
        ("more sizes than data by one", vec![0, 2, 1], 1, 1),
        ("sizes that sum up to less", plain(&[1, 1], b"abc"), 2, 3),
        ("sizes that sum up to more", plain(&[1, 3], b"abc"), 2, 3),
        ("sizes that overflow", plain(&[huge, 4], b"abc"), 2, 3),
        ("a size of 33 bits", plain(&[1 << 32, 3], b"abc"), 2, 3),
        ("an overlong size", plain_raw(&overlong, b"abc"), 1, 3),
        ("a size that is cut short", plain_raw(&[0x83], b"abc"), 1, 3),
        ("fewer sizes than records", plain(&[3], b"abc"), 2, 3),
        ("more sizes than records", plain(&[1, 2], b"abc"), 1, 3),
        ("a size of 0 too many", plain(&[3, 0], b"abc"), 1, 3),
        ("more values than claimed", plain(&[3], b"abcd"), 1, 3),
        ("fewer values than claimed", plain(&[4], b"abc"), 1, 4),
        ("records out of nothing", plain(&[], b""), 3, 0),
        ("decoded bytes out of nothing", plain(&[], b""), 0, 1),
        ("a huge decoded size", plain(&[1], b"a"), 1, huge),
    ];
    for (what, data, num_records, decoded) in &table {
        refused(
            what,
            &Frame::new(b'r', *num_records, *decoded, data),
            ErrorKind::Corrupt,
            "",
        );
    }
    // With the largest possible count, the chunk would extend far beyond the file.
    let frame = Frame::new(b'r', max_records, 0, &ok);
    refused("2^56 - 1 records", &frame, ErrorKind::Truncated, "");
    for size in [huge, huge - 40, huge - 100, 1 << 62] {
        let bytes = frame::file(&[Frame {
            data_size: Some(size),
            ..Frame::new(b'r', 1, 1, &ok)
        }]);
        let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
        let error = file.read_chunk(ChunkOffset(BEGIN)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
        // For a stream, the limit is exceeded before the truncation can be detected.
        let mut reader = RecordReader::from_read(&bytes[..], ReaderOptions::new());
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    for codec in [1, b'x', 0x7f, 0xff] {
        let data = [&[codec], &ok[1..]].concat();
        let frame = Frame::new(b'r', 2, 3, &data);
        refused(
            "a codec",
            &frame,
            ErrorKind::Unsupported,
            "compression type",
        );
    }
}

#[test]
fn compressed_parts_that_are_not_what_they_claim() {
    for codec in [b'z', b'b', b's'] {
        let values = compress(codec, b"abc");
        let sizes = compress(codec, &[1, 2]);
        let with = |sizes: (u64, &[u8]), values: (u64, &[u8])| compressed(codec, sizes, values);
        let ok = with((2, &sizes), (3, &values));
        let records = read(&Frame::new(b'r', 2, 3, &ok)).unwrap();
        assert_eq!(records, [&b"a"[..], b"bc"]);

        let trailing = [&values[..], b"x"].concat();
        let twice = [&values[..], &values].concat();
        let trailing_sizes = [&sizes[..], b"x"].concat();
        let four = compress(codec, b"abcd");
        let two = compress(codec, b"ab");
        let table: Vec<(&str, Vec<u8>)> = vec![
            ("a byte after the values", with((2, &sizes), (3, &trailing))),
            (
                "another stream after the values",
                with((2, &sizes), (3, &twice)),
            ),
            (
                "a byte after the sizes",
                with((2, &trailing_sizes), (3, &values)),
            ),
            (
                "values cut short",
                with((2, &sizes), (3, &values[..values.len() - 1])),
            ),
            ("no values", with((2, &sizes), (3, b""))),
            (
                "sizes cut short",
                with((2, &sizes[..sizes.len() - 1]), (3, &values)),
            ),
            ("no sizes", with((2, b""), (3, &values))),
            ("values of another size", with((2, &sizes), (3, &four))),
            ("values of a smaller size", with((2, &sizes), (3, &two))),
            ("a lie about the values", with((2, &sizes), (4, &values))),
            ("a lie about the sizes", with((3, &sizes), (3, &values))),
            (
                "a smaller lie about the sizes",
                with((1, &sizes), (3, &values)),
            ),
            ("huge sizes", with((u64::MAX, &sizes), (3, &values))),
            ("huge values", with((2, &sizes), (u64::MAX, &values))),
            (
                "values of a size that is right in 32 bits",
                with((2, &sizes), (1 << 32 | 3, &values)),
            ),
            (
                "sizes of a size that is right in 32 bits",
                with((1 << 32 | 2, &sizes), (3, &values)),
            ),
            ("sizes of 0 bytes", with((0, &sizes), (3, &values))),
            ("noise", with((2, &sizes), (3, b"\x00\xff\x81noise"))),
        ];
        for (what, data) in &table {
            let what = format!("{what}, {}", char::from(codec));
            refused(&what, &Frame::new(b'r', 2, 3, data), ErrorKind::Corrupt, "");
        }
    }
}

#[test]
fn a_bomb_costs_no_more_than_it_claims() {
    let zeros = vec![0; 50_000_000];
    for codec in [b'z', b'b'] {
        let bomb = compress(codec, &zeros);
        assert!(bomb.len() < 10_000);
        // The size is declared as small, but the content is large.
        let data = compressed(codec, (1, &compress(codec, &[10])), (10, &bomb));
        let frame = Frame::new(b'r', 1, 10, &data);
        refused("a bomb", &frame, ErrorKind::Corrupt, "");
        // A large declared size exceeds the reader's limit, unless the record is streamed.
        let size = zeros.len() as u64;
        let sizes = varint_of(size);
        let data = compressed(codec, (4, &compress(codec, &sizes)), (size, &bomb));
        let bytes = frame::file(&[Frame::new(b'r', 1, size, &data)]);
        let tight = ReaderOptions::new().max_chunk_memory(1 << 20);
        let file = RecordFile::open(&bytes, tight).unwrap();
        let position = RecordPosition::new(BEGIN, 0);
        let error = file.read_record(position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let error = RecordReader::new(&bytes, tight).read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        // Exceeding a limit is not damage, so nothing is skipped.
        let mut reader = RecordReader::new(&bytes, tight).on_damage(|region| panic!("{region:?}"));
        assert_eq!(
            reader.read_record().unwrap_err().kind(),
            ErrorKind::LimitExceeded
        );
        let mut stream = file.record_stream(position).unwrap();
        assert_eq!(
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap(),
            size
        );
    }
}

#[test]
fn the_ends_of_records_count_toward_the_memory_of_a_chunk() {
    let count: u64 = 200_000;
    let zeros = vec![0; 200_000];
    let data = compressed(
        b'z',
        (count, &compress(b'z', &zeros)),
        (0, &compress(b'z', &[])),
    );
    assert!(data.len() < 1000);
    let bytes = frame::file(&[Frame::new(b'r', count, 0, &data)]);
    for (limit, fits) in [(8 * count, true), (8 * count - 1, false)] {
        let options = ReaderOptions::new().max_chunk_memory(limit);
        let mut reader = RecordReader::new(Sequential::new(&bytes[..]), options);
        match reader.read_record() {
            Ok(record) => assert!(fits && record == Some(&[][..])),
            Err(error) => assert_eq!((error.kind(), fits), (ErrorKind::LimitExceeded, false)),
        }
    }
}

#[test]
fn chunks_that_claim_what_their_kind_cannot_have() {
    let table: &[(u8, u64, u64, &[u8], &str)] = &[
        (b's', 0, 0, b"x", "data in a signature chunk"),
        (b's', 1, 0, b"", "records in a signature chunk"),
        (b's', 0, 1, b"", "decoded data in a signature chunk"),
        (b'p', 1, 0, b"\0\0", "records in a padding chunk"),
        (b'p', 0, 1, b"\0\0", "decoded data in a padding chunk"),
        (b'm', 1, 0, b"", "records in a metadata chunk"),
    ];
    for &(kind, num_records, decoded, data, reason) in table {
        let frame = Frame::new(kind, num_records, decoded, data);
        refused(reason, &frame, ErrorKind::Corrupt, reason);
    }
    // A wrong chunk is reported as a separate region, and reading continues after it.
    let good = plain(&[3], b"abc");
    for &(kind, num_records, decoded, data, _) in table {
        let bad = Frame::new(kind, num_records, decoded, data);
        let after = Frame::new(b'r', 1, 3, &good);
        let bytes = frame::file(&[bad, after]);
        let end = bytes.len() as u64 - 40 - good.len() as u64;
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new()).on_damage(move |region| {
            assert_eq!((region.begin, region.end), (BEGIN, end));
            true
        });
        assert_eq!(reader.read_record().unwrap(), Some(&b"abc"[..]));
    }
}

#[test]
fn unknown_chunks_are_passed_over_unless_they_have_records() {
    let good = plain(&[3], b"abc");
    let record = Frame::new(b'r', 1, 3, &good);
    let unknown = Frame::new(b'?', 0, 77, b"for readers to come");
    let bytes = frame::file(&[unknown.clone(), record.clone(), unknown]);
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    assert_eq!(reader.read_record().unwrap(), Some(&b"abc"[..]));
    assert_eq!(reader.read_record().unwrap(), None);
    let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
    assert_eq!(file.chunks().filter(Result::is_ok).count(), 4);

    let with_records = Frame::new(b'?', 2, 5, b"more records");
    let bytes = frame::file(&[with_records, record]);
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    for _ in 0..3 {
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.offset(), Some(BEGIN));
    }
    let mut reader = reader.on_damage(|region| region.begin == BEGIN);
    assert_eq!(reader.read_record().unwrap(), Some(&b"abc"[..]));
}

#[test]
fn hashes_are_of_what_is_stored_even_where_it_is_of_no_use() {
    // The data in padding and in unknown chunks is hashed like the data in any other chunk.
    for kind in [b'p', b'?'] {
        let mut bytes = frame::file(&[Frame::new(kind, 0, 0, b"some bytes")]);
        let read = |bytes: &[u8]| {
            let mut reader = RecordReader::new(bytes, ReaderOptions::new());
            reader.read_record().map(|record| record.is_none())
        };
        assert!(read(&bytes).unwrap());
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(
            read(&bytes).unwrap_err().kind(),
            ErrorKind::ChecksumMismatch
        );
    }
}

#[test]
fn a_chunk_for_which_no_memory_is_left_exceeds_a_limit() {
    /// A file of 4 EiB that has only zeros after its beginning.
    struct Sparse(Vec<u8>);

    impl ReadAt for Sparse {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            buf.fill(0);
            self.0.read_at(offset, buf)?;
            Ok(buf.len())
        }

        fn size(&self) -> std::io::Result<u64> {
            Ok(1 << 62)
        }
    }

    let unlimited = ReaderOptions::new()
        .max_chunk_memory(u64::MAX)
        .stream_from(u64::MAX);
    for kind in *b"rt" {
        let mut frame = Frame::new(kind, 1, 1, &[0]);
        frame.data_size = Some(1 << 60);
        let mut reader = RecordReader::new(Sparse(frame::file(&[frame])), unlimited);
        let error = reader.read_record().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}
