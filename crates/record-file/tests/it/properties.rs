//! Property tests, which check that any records written with any options are read back unchanged,
//! from any position.
use std::cmp::Ordering;
use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use record_file::{
    Compression, DEFAULT_MAX_COPIED, DEFAULT_STREAM_FROM, ReaderOptions, RecordFile,
    RecordPosition, RecordReader, RecordWriter, SearchResult, WriterOptions,
};

/// An operation on a writer.
#[derive(Debug, Clone)]
enum Step {
    /// A record, and the positions where it is divided into slices.
    Write(Vec<u8>, Vec<usize>),
    WriteAlone(Vec<u8>, Compression),
    /// A record read from a source.
    Stream(Vec<u8>, Compression),
    Flush,
    /// The file is finished and then continued.
    Reopen,
}

/// Generates any level of any codec. The slow levels are for small records.
fn any_compression() -> impl Strategy<Value = Compression> {
    prop_oneof![
        (-5..=22i32).prop_map(Compression::zstd),
        (0..=11u32).prop_map(Compression::brotli),
        (10..=20u32, 6..=11u32).prop_map(|(log, level)| Compression::Brotli {
            level,
            window_log: Some(log)
        }),
    ]
}

/// Generates fast levels of any codec.
fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![
        3 => Just(Compression::None),
        2 => (-5..=6i32).prop_map(Compression::zstd),
        1 => (10..=20u32).prop_map(|log| Compression::Zstd { level: 1, window_log: Some(log) }),
        1 => (0..=5u32).prop_map(Compression::brotli),
        2 => (1..=2u32).prop_map(|level| Compression::Snappy { level }),
    ]
}

fn options() -> impl Strategy<Value = WriterOptions> {
    let padding = prop_oneof![
        3 => Just(1),
        1 => 2..200u64,
        1 => prop::sample::select(vec![1000, 4096, 1 << 16]),
    ];
    let chunk_size = prop_oneof![1..200u64, 200..5000u64, Just(1 << 20)];
    let fraction = prop::sample::select(vec![0.0, 0.1, 1.0]);
    let transpose = prop_oneof![2 => Just(false), 1 => Just(true)];
    let threads = prop_oneof![2 => Just(0), 1 => 1..4u32];
    let initial = prop_oneof![3 => Just(1), 1 => 2..200u64, 1 => Just(1 << 16)];
    let metadata = prop_oneof![2 => Just(None), 1 => message().prop_map(Some)];
    let max_copied = prop_oneof![2 => Just(DEFAULT_MAX_COPIED), 1 => 0..3000u64];
    let stream_from = prop_oneof![1 => Just(DEFAULT_STREAM_FROM), 1 => 0..3000u64];
    let shape = (chunk_size, padding, transpose, fraction, threads);
    let large = (max_copied, stream_from);
    (compression(), shape, (initial, metadata, large)).prop_map(
        |(
            compression,
            (chunk_size, padding, transpose, fraction, threads),
            (initial, metadata, (max_copied, stream_from)),
        )| {
            let options = WriterOptions::new()
                .compression(compression)
                .chunk_size(chunk_size)
                .initial_padding(initial)
                .final_padding(padding)
                .transpose(transpose)
                .bucket_fraction(fraction)
                .max_copied(max_copied)
                .stream_from(stream_from)
                .threads(threads);
            match metadata {
                Some(metadata) => options.serialized_metadata(metadata),
                None => options,
            }
        },
    )
}

/// Generates messages that transposing splits into fields: numbers, a string, and a message with
/// the same fields.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        (1..6u8, 0..0x80u8).prop_map(|(field, value)| vec![field << 3, value]),
        (1..6u8, any::<u16>()).prop_map(|(field, value)| {
            let low = value.to_le_bytes()[0] | 0x80;
            vec![field << 3, low, value.to_le_bytes()[1] & 0x7f | 1]
        }),
        (1..6u8, any::<[u8; 4]>())
            .prop_map(|(field, value)| [&[field << 3 | 5], &value[..]].concat()),
        (1..6u8, "[a-z]{0,20}").prop_map(|(field, value)| {
            let len = value.len().to_le_bytes()[0];
            [&[field << 3 | 2, len], value.as_bytes()].concat()
        }),
    ];
    let inner = vec(field.clone(), 0..4).prop_map(|fields| fields.concat());
    let nested = (1..6u8, inner).prop_map(|(field, inner)| {
        let len = inner.len().to_le_bytes()[0];
        [&[field << 3 | 2, len], &inner[..]].concat()
    });
    vec(prop_oneof![4 => field, 1 => nested], 0..8).prop_map(|fields| fields.concat())
}

/// Generates records of noise or of one repeated byte. Most records are small, and some need
/// several blocks.
fn record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => vec(any::<u8>(), 0..60),
        5 => message(),
        3 => (any::<u8>(), 0..3000usize).prop_map(|(byte, len)| vec![byte; len]),
        1 => (any::<u64>(), 60_000..140_000usize).prop_map(|(seed, len)| crate::support::noise(len, seed)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (record(), vec(any::<prop::sample::Index>(), 0..4)).prop_map(|(record, cuts)| {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(record.len() + 1)).collect();
            cuts.sort_unstable();
            Step::Write(record, cuts)
        }),
        2 => (record(), compression()).prop_map(|(record, compression)| Step::WriteAlone(record, compression)),
        1 => (vec(any::<u8>(), 0..60), any_compression()).prop_map(|(record, compression)| Step::WriteAlone(record, compression)),
        1 => (record(), compression()).prop_map(|(record, compression)| Step::Stream(record, compression)),
        1 => (vec(any::<u8>(), 0..60), any_compression()).prop_map(|(record, compression)| Step::Stream(record, compression)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

type Records = Vec<(RecordPosition, Vec<u8>)>;

fn write(options: WriterOptions, steps: &[Step]) -> (Vec<u8>, Records) {
    let writer = RecordWriter::new(Cursor::new(Vec::new()), options.clone());
    let mut writer = writer.unwrap().seekable();
    let mut records = Vec::new();
    for step in steps {
        let record = match step {
            Step::Write(record, cuts) => {
                let mut begin = 0;
                let mut slices = Vec::new();
                for &cut in cuts.iter().chain([&record.len()]) {
                    slices.push(&record[begin..cut]);
                    begin = cut;
                }
                writer.write_record_slices(&slices).unwrap();
                record
            }
            Step::WriteAlone(record, compression) => {
                let position = writer.write_record_alone(record, *compression).unwrap();
                assert_eq!(writer.last_position(), Some(position));
                record
            }
            Step::Stream(record, compression) => {
                let len = record.len() as u64;
                let position = writer.write_record_from(&mut &record[..], len, *compression);
                assert_eq!(writer.last_position(), Some(position.unwrap()));
                record
            }
            Step::Flush => {
                writer.flush().unwrap();
                continue;
            }
            Step::Reopen => {
                let file = writer.finish().unwrap();
                let appending = RecordWriter::append(file, options.clone());
                writer = appending.unwrap().seekable();
                continue;
            }
        };
        records.push((writer.last_position().unwrap(), record.clone()));
    }
    (writer.finish().unwrap().into_inner(), records)
}

fn read_all<I: record_file::RecordInput>(mut reader: RecordReader<I>) -> Records {
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        let record = record.to_vec();
        records.push((reader.last_position().unwrap(), record));
    }
    records
}

/// Reads in sequence, by position, and backwards.
fn check_reading(bytes: &[u8], records: &Records) {
    let options = ReaderOptions::new();
    assert!(read_all(RecordReader::new(bytes, options)) == *records);
    assert!(read_all(RecordReader::from_read(bytes, options)) == *records);
    let parallel = options.threads(3);
    assert!(read_all(RecordReader::new(bytes, parallel)) == *records);
    assert!(read_all(RecordReader::from_read(bytes, parallel)) == *records);
    let mut places: Vec<_> = records
        .iter()
        .map(|(_, record)| vec![0; record.len()])
        .collect();
    let wanted = records.iter().zip(&mut places);
    RecordFile::open(bytes, parallel)
        .unwrap()
        .read_records_into(wanted.map(|((position, _), place)| (*position, &mut place[..])))
        .unwrap();
    assert!(places.iter().eq(records.iter().map(|(_, record)| record)));

    let file = RecordFile::open(bytes, options).unwrap();
    let last = records.last().map(|record| record.0);
    assert_eq!(file.last_record().unwrap(), last);
    let mut reader = RecordReader::new(bytes, options);
    for (position, record) in records {
        assert_eq!(file.locate(position.numeric()).unwrap(), *position);
        assert_eq!(file.record_len(*position).unwrap(), record.len() as u64);
        assert!(file.read_record(*position).unwrap() == record[..]);
        let mut buf = vec![0; record.len()];
        file.read_record_into(*position, &mut buf).unwrap();
        assert!(buf == *record);
        let text: RecordPosition = position.to_string().parse().unwrap();
        assert_eq!(text, *position);
        assert_eq!(
            RecordPosition::from_bytes(&position.to_bytes()).unwrap(),
            *position
        );
        reader.seek(*position).unwrap();
        assert!(reader.read_record().unwrap() == Some(&record[..]));
        reader.seek_numeric(position.numeric()).unwrap();
        assert!(reader.read_record().unwrap() == Some(&record[..]));
    }
    reader.seek_numeric(bytes.len() as u64).unwrap();
    for (position, record) in records.iter().rev() {
        assert!(reader.seek_back().unwrap());
        assert_eq!(reader.position(), *position);
        assert!(reader.read_record().unwrap() == Some(&record[..]));
        assert!(reader.seek_back().unwrap());
    }
    assert!(!reader.seek_back().unwrap());
}

proptest! {
    #[test]
    fn what_was_written_is_read(options in options(), metadata in any::<bool>(), steps in vec(step(), 0..25)) {
        let expected = b"\x0a\x04some";
        let options = if metadata { options.serialized_metadata(&expected[..]) } else { options };
        let (bytes, records) = write(options, &steps);
        check_reading(&bytes, &records);
        if metadata {
            let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
            let metadata = file.metadata().unwrap();
            prop_assert_eq!(metadata.as_deref(), Some(&expected[..]));
        }
    }

    #[test]
    fn any_level_is_read_and_is_the_same_on_threads(compression in any_compression(), records in vec(vec(any::<u8>(), 0..60), 0..8)) {
        let options = WriterOptions::new().compression(compression).chunk_size(100);
        let steps: Vec<_> = records.into_iter().map(|record| {
            let cuts = vec![record.len() / 3, record.len() / 2];
            Step::Write(record, cuts)
        }).collect();
        for options in [options.clone(), options.transpose(true)] {
            let (bytes, records) = write(options.clone(), &steps);
            check_reading(&bytes, &records);
            prop_assert!(write(options.threads(2), &steps) == (bytes, records));
        }
    }

    #[test]
    fn slices_make_the_same_file_as_whole_records(options in options(), steps in vec(step(), 0..12)) {
        let whole: Vec<_> = steps
            .iter()
            .map(|step| match step {
                Step::Write(record, _) => Step::Write(record.clone(), Vec::new()),
                other => other.clone(),
            })
            .collect();
        prop_assert!(write(options.clone(), &steps) == write(options, &whole));
    }

    #[test]
    fn threads_make_the_same_file(options in options(), steps in vec(step(), 0..12), threads in 1..5u32) {
        let serial = write(options.clone().threads(0), &steps);
        prop_assert!(write(options.threads(threads), &steps) == serial);
    }

    #[test]
    fn what_is_streamed_makes_the_same_file_as_what_is_held(options in options(), steps in vec(step(), 0..12)) {
        let held = write(options.clone().stream_from(u64::MAX), &steps);
        prop_assert!(write(options.stream_from(0), &steps) == held);
    }

    #[test]
    fn every_number_of_a_small_file_is_a_record_or_leads_to_the_next(
        options in options().prop_map(|options| options.final_padding(50)),
        records in vec(vec(any::<u8>(), 0..40), 0..30),
    ) {
        let steps: Vec<_> = records.into_iter().map(|record| Step::Write(record, Vec::new())).collect();
        let (bytes, records) = write(options, &steps);
        let file = RecordFile::open(&bytes, ReaderOptions::new()).unwrap();
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
        let mut next = records.iter().peekable();
        for numeric in 0..=bytes.len() as u64 {
            while next.next_if(|record| record.0.numeric() < numeric).is_some() {}
            let expected = next.peek();
            reader.seek_numeric(numeric).unwrap();
            prop_assert_eq!(
                reader.read_record().unwrap(),
                expected.map(|record| &record.1[..])
            );
            prop_assert_eq!(reader.last_position(), expected.map(|record| record.0));
            let here = expected.map(|record| record.0).filter(|position| position.numeric() == numeric);
            prop_assert_eq!(file.locate(numeric).ok(), here);
        }
        prop_assert!(reader.seek_numeric(bytes.len() as u64 + 1).is_err());
    }

    #[test]
    fn search_finds_the_first_that_is_not_less(
        options in options(),
        mut numbers in vec(0..500u32, 0..120),
        targets in vec(0..502u32, 1..10),
    ) {
        numbers.sort_unstable();
        let steps: Vec<_> = numbers
            .iter()
            .map(|number| Step::Write(number.to_be_bytes().to_vec(), Vec::new()))
            .collect();
        let (bytes, _) = write(options, &steps);
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
        for target in targets {
            let found = reader
                .search(|record| record.cmp(&target.to_be_bytes()[..]).into())
                .unwrap();
            let next = reader.read_record().unwrap();
            match (found, next) {
                (SearchResult::Equal, Some(next)) => prop_assert_eq!(next, target.to_be_bytes()),
                (found, next) => {
                    let greater = numbers.iter().find(|&&number| number >= target);
                    prop_assert_ne!(greater, Some(&target));
                    let expected = greater.map(|number| number.to_be_bytes());
                    prop_assert_eq!(next, expected.as_ref().map(|number| &number[..]));
                    let order = if greater.is_some() { SearchResult::Greater } else { SearchResult::Nothing };
                    prop_assert_eq!(found, order);
                }
            }
        }
    }

    #[test]
    fn a_file_is_never_read_wrong(
        steps in vec(step(), 0..8),
        options in options(),
        damage in vec((any::<prop::sample::Index>(), 1..=255u8), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, records) = write(options, &steps);
        for (at, with) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        bytes.truncate(cut.index(bytes.len()) + bytes.len() / 2);
        let mut reader = RecordReader::new(&bytes, ReaderOptions::new()).on_damage(|_| true);
        let mut expected = records.iter();
        while let Some(record) = reader.read_record().unwrap() {
            let record = record.to_vec();
            let read = (reader.last_position().unwrap(), record);
            prop_assert!(expected.any(|expected| *expected == read));
        }
        // Reading backwards returns the same records.
        let mut expected = records.iter().rev();
        reader.seek_numeric(bytes.len() as u64).unwrap();
        while reader.seek_back().unwrap() {
            let position = reader.position();
            let record = reader.read_record().unwrap().map(<[u8]>::to_vec);
            let Some(record) = record else { break };
            if reader.last_position() != Some(position) {
                break;
            }
            prop_assert!(expected.any(|expected| *expected == (position, record.clone())));
            reader.seek(position).unwrap();
        }
        let found = reader.search(|_| Ordering::Less.into()).unwrap();
        prop_assert_eq!(found, SearchResult::Nothing);
    }
}
