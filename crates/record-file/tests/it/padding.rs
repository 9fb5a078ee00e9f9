//! Tests of padding at the end of a file and at each flush.
use record_file::{
    ChunkType, Compression, ReaderOptions, RecordFile, RecordReader, RecordWriter, WriterOptions,
};

use crate::support::noise;

const BLOCK: u64 = 65_536;

fn plain() -> WriterOptions {
    WriterOptions::new().compression(Compression::None)
}

/// Returns a file that would have `len` bytes without padding, and its only record.
fn file_of(len: u64, options: WriterOptions) -> (Vec<u8>, Vec<u8>) {
    let headers = if len > BLOCK { 24 } else { 0 };
    for size_len in 1..=3 {
        let record = noise(
            usize::try_from(len - 64 - 40 - 2 - size_len - headers).unwrap(),
            len,
        );
        let mut writer = RecordWriter::new(Vec::new(), options.clone()).unwrap();
        writer
            .write_record_alone(&record, Compression::None)
            .unwrap();
        if writer.estimated_size() == len {
            return (writer.finish().unwrap(), record);
        }
    }
    panic!("no file has {len} bytes");
}

fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(file, ReaderOptions::new());
    let mut records = Vec::new();
    while let Some(record) = reader.read_record().unwrap() {
        records.push(record.to_vec());
    }
    records
}

#[test]
fn every_alignment_ends_at_a_multiple_with_room_for_a_chunk_header() {
    let lens = (130..200)
        .chain([940, 959, 960, 961, 970, 999])
        .chain(BLOCK - 130..=BLOCK)
        .chain(BLOCK + 25..BLOCK + 100);
    let paddings = [
        1,
        2,
        39,
        40,
        41,
        50,
        60,
        61,
        70,
        1000,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
    ];
    for len in lens {
        for padding in paddings.into_iter().chain([len - 1, len, len + 1]) {
            let (file, record) = file_of(len, plain().final_padding(padding));
            let end = file.len() as u64;
            assert_eq!(end % padding, 0, "{len} padded to {padding}");
            let open = RecordFile::open(&file, ReaderOptions::new()).unwrap();
            let chunks: Vec<_> = open.chunks().skip(2).map(Result::unwrap).collect();
            if len % padding == 0 {
                assert!(end == len && chunks.is_empty());
                continue;
            }
            let [chunk] = chunks[..] else {
                panic!("{len} padded to {padding}: {chunks:?}");
            };
            assert_eq!(chunk.header.kind, ChunkType::Padding);
            assert_eq!((chunk.begin().0, chunk.end().0), (len, end));
            // No closer end is possible.
            let shorter = (len + 1..end).filter(|nearer| nearer % padding == 0);
            for nearer in shorter {
                let inside_header = (1..=24).contains(&(nearer % BLOCK));
                let headers = 24 * (nearer.div_ceil(BLOCK) - len.div_ceil(BLOCK));
                assert!(
                    inside_header || nearer - len < 40 + headers,
                    "{len} padded to {padding}: {nearer} would do, not {end}"
                );
            }
            assert!(records(&file) == [record]);
        }
    }
}

#[test]
fn a_gap_of_exactly_a_chunk_header_is_padded_without_data() {
    for (len, padding) in [(960, 1000), (BLOCK - 40, BLOCK)] {
        let (file, _) = file_of(len, plain().final_padding(padding));
        let open = RecordFile::open(&file, ReaderOptions::new()).unwrap();
        let last = open.chunks().last().unwrap().unwrap();
        assert_eq!(last.header.kind, ChunkType::Padding);
        assert_eq!(last.header.data_size, 0);
        assert_eq!(file.len() as u64, padding);
    }
}

#[test]
fn a_span_too_short_for_a_header_once_a_block_header_cut_into_it_is_made_longer() {
    // The file ends 8 bytes before the end of a block, so the next multiples of 60, 61 or 70 leave
    // fewer than 40 bytes.
    for padding in [60, 61, 70] {
        let (file, record) = file_of(BLOCK - 8, plain().final_padding(padding));
        assert_eq!(file.len() as u64 % padding, 0);
        assert!(records(&file) == [record]);
    }
}

#[test]
fn a_file_without_records_is_padded_as_any() {
    for padding in [50, 1000, BLOCK] {
        let options = plain().final_padding(padding);
        let file = RecordWriter::new(Vec::new(), options)
            .and_then(RecordWriter::finish)
            .unwrap();
        let expected = if padding == 50 { 150 } else { padding };
        assert_eq!(file.len() as u64, expected);
        assert!(records(&file).is_empty());
    }
}

#[test]
fn each_flush_pads_and_a_second_one_adds_nothing() {
    let mut writer = RecordWriter::new(Vec::new(), plain().final_padding(1000)).unwrap();
    for count in 1..=3 {
        writer.write_record(b"a record").unwrap();
        for _ in 0..2 {
            writer.flush().unwrap();
            assert_eq!(writer.get_ref().len(), count * 1000);
        }
        assert_eq!(records(writer.get_ref()).len(), count);
    }
    assert_eq!(writer.finish().unwrap().len(), 3000);
}

#[test]
fn files_padded_to_a_block_can_be_concatenated() {
    let mut all = Vec::new();
    let mut expected = Vec::new();
    for seed in 0..4 {
        let options = WriterOptions::new()
            .compression(Compression::ZSTD)
            .padding(BLOCK);
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for index in 0..seed * 3 {
            let record = noise(usize::try_from(index * 9000).unwrap(), seed);
            writer.write_record(&record).unwrap();
            expected.push(record);
        }
        all.extend(writer.finish().unwrap());
    }
    assert!(records(&all) == expected);
    let file = RecordFile::open(&all, ReaderOptions::new()).unwrap();
    let last = file.last_record().unwrap().unwrap();
    assert!(file.read_record(last).unwrap() == expected[expected.len() - 1][..]);
}
