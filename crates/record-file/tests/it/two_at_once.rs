//! Tests that reading a file in memory, which verifies two chunks at once, has the same results as
//! reading from other sources, which verifies one chunk at a time.

use record_file::{
    FieldProjection, ReaderOptions, RecordInput, RecordPosition, RecordReader, RecordWriter,
};

use crate::elsewhere::Elsewhere;
use crate::support::{frame::varint_of, noise};

/// Returns a file with small chunks and chunks of one to three blocks, and the positions of its
/// records.
fn written(text: &str) -> (Vec<u8>, Vec<RecordPosition>) {
    let mut writer = RecordWriter::new(Vec::new(), text.parse().unwrap()).unwrap();
    let mut positions = Vec::new();
    for (seed, len) in [40_000, 90_000, 10, 150_000, 70_000, 7]
        .into_iter()
        .enumerate()
    {
        for part in noise(len, seed as u64).chunks(13_000) {
            // A message with two fields.
            let len = varint_of(part.len() as u64);
            let message = [b"\x08\x07\x12", &len[..], part].concat();
            writer.write_record(&message).unwrap();
            positions.extend(writer.last_position());
        }
        writer.flush().unwrap();
    }
    (writer.finish().unwrap(), positions)
}

const FORMATS: [&str; 4] = [
    "uncompressed",
    "zstd:1",
    "transpose,uncompressed",
    "transpose,zstd:1",
];

/// A result from a reader: a record or an error.
type Said = Result<(Vec<u8>, RecordPosition), String>;

/// Returns all results from a reader, until the end or a repeated error, and the reader's final
/// position.
fn said<I: RecordInput>(mut reader: RecordReader<I>, recover: bool) -> (Vec<Said>, RecordPosition) {
    let (sender, regions) = std::sync::mpsc::channel();
    if recover {
        reader = reader.on_damage(move |region| {
            sender.send(Err(format!("{region:?}"))).unwrap();
            true
        });
    }
    let mut said = Vec::new();
    loop {
        let read = match reader.read_record() {
            Ok(Some(record)) => Some(Ok(record.to_vec())),
            Ok(None) => None,
            Err(error) => Some(Err(error.to_string())),
        };
        said.extend(regions.try_iter());
        let stays = !matches!(read, Some(Ok(_)));
        said.extend(read.map(|read| Ok((read?, reader.last_position().unwrap()))));
        if stays {
            return (said, reader.position());
        }
    }
}

#[test]
fn a_damaged_byte_anywhere_and_a_cut_are_found_when_the_reader_gets_there() {
    let options = ReaderOptions::new();
    for text in FORMATS {
        let (file, positions) = written(text);
        let begins = positions.iter().map(|position| position.chunk_begin().0);
        let begins = begins.map(|begin| usize::try_from(begin).unwrap());
        let blocks = (0..file.len()).step_by(1 << 16);
        // The damaged places are the headers of chunks and blocks, and bytes between them.
        let mut places: Vec<_> = begins
            .chain(blocks)
            .flat_map(|at| [at + 9, at + 50])
            .collect();
        places.extend((0..file.len()).step_by(30_011));
        places.sort_unstable();
        places.dedup();
        for at in places.into_iter().filter(|&at| at < file.len()) {
            let mut bad = file.clone();
            bad[at] ^= 4;
            for bytes in [&bad, &file[..at]] {
                for recover in [false, true] {
                    let together = said(RecordReader::new(bytes, options), recover);
                    let alone = said(RecordReader::new(Elsewhere(bytes), options), recover);
                    assert!(together == alone, "{text} at {at}, {recover}");
                }
            }
        }
    }
}

#[test]
fn seeking_and_changing_the_projection_lead_to_the_same_records() {
    for text in FORMATS {
        let (file, positions) = written(text);
        let mut together = RecordReader::new(&file, ReaderOptions::new());
        let mut alone = RecordReader::new(Elsewhere(&file), ReaderOptions::new());
        for (index, position) in positions.iter().enumerate() {
            // The reader moves to the chunk that was already verified, past it, and back.
            for distance in [0, 4, 9] {
                let other = positions[(index + distance) % positions.len()];
                for position in [*position, other] {
                    together.seek(position).unwrap();
                    alone.seek(position).unwrap();
                    for _ in 0..8 {
                        let record = together.read_record().unwrap();
                        assert!(record == alone.read_record().unwrap(), "{text} {position}");
                    }
                    assert_eq!(together.last_position(), alone.last_position());
                }
            }
            let projection = if index % 2 == 0 {
                FieldProjection::none().field(&[1])
            } else {
                FieldProjection::all()
            };
            together.set_field_projection(projection.clone());
            alone.set_field_projection(projection);
        }
    }
}
