//! Tests with forged files whose checksums are all correct, so that only a Merkle root detects the
//! forgery.

use std::fs::File;
use std::io;
use std::path::Path;

use prost_reflect::prost::Message;
use proto_splitter_core::container::{ChunkedFile, MerkleRoot};
use proto_splitter_core::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter_core::proto::ChunkMetadata;
use proto_splitter_core::split::Profile;
use proto_splitter_core::{ErrorKind, Result};
use record_file::{
    ChunkType, Compression, ReaderOptions, RecordFile, RecordPosition, RecordWriter, WriterOptions,
};

use crate::merkle::{message, options, write};

/// The records in an uncompressed file: the chunks, the nodes of the tree, and the trailer.
struct Records {
    metadata: Vec<u8>,
    records: Vec<Vec<u8>>,
}

impl Records {
    fn of(path: &Path) -> Records {
        let file = RecordFile::open(File::open(path).unwrap(), ReaderOptions::new()).unwrap();
        let chunks = file.chunks().map(|chunk| chunk.unwrap());
        let simple = chunks.filter(|chunk| chunk.header.kind == ChunkType::Simple);
        let record = |begin: u64| {
            file.read_record(RecordPosition::new(begin, 0))
                .unwrap()
                .to_vec()
        };
        Records {
            metadata: file.metadata().unwrap().unwrap().to_vec(),
            records: simple.map(|chunk| record(chunk.begin().0)).collect(),
        }
    }

    /// Returns a file that consists of these records, with correct hashes. Records that keep their
    /// sizes also keep their positions.
    fn file(&self) -> Vec<u8> {
        let options = WriterOptions::new()
            .compression(Compression::None)
            .padding(1)
            .serialized_metadata(self.metadata.clone());
        let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
        for record in &self.records {
            writer
                .write_record_alone(record, Compression::None)
                .unwrap();
        }
        writer.finish().unwrap()
    }
}

fn open(bytes: Vec<u8>) -> Result<ChunkedFile<Vec<u8>>> {
    ChunkedFile::from_source(bytes, &Limits::new())
}

/// Writes a message whose chunks and trailer are not compressed, and returns its records.
fn split(profile: Profile, count: usize) -> (Records, MerkleRoot) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.cpb");
    let options = options(profile).max_chunk_size(4000).max_slice_size(750);
    let root = write(
        &message(count),
        &path,
        &options.compression(Compression::None),
    );
    let records = Records::of(&path);
    assert!(std::fs::read(&path).unwrap() == records.file());
    (records, root)
}

/// Returns an error if any part of a file doesn't match the root.
fn check(bytes: Vec<u8>, root: &MerkleRoot) -> Result<()> {
    let file = open(bytes)?;
    let problems = file.verify_against(root, &ReadOptions::new())?;
    problems.into_iter().next().map_or(Ok(()), Err)
}

/// A generator of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[test]
fn every_flipped_bit_is_found_though_all_checksums_of_records_are_right() {
    for profile in [Profile::TensorFlow, Profile::Extended] {
        let (records, root) = split(profile, 9);
        check(records.file(), &root).unwrap();
        let mut numbers = Numbers(1);
        // The last two records are the nodes and the trailer. Most flips are in the trailer.
        let count = records.records.len();
        for flip in 0..3000 {
            let at = match flip % 4 {
                0 | 1 => count - 1,
                2 => count - 2,
                _ => numbers.below(count - 2),
            };
            let mut forged = Records {
                metadata: records.metadata.clone(),
                records: records.records.clone(),
            };
            let record = &mut forged.records[at];
            let byte = numbers.below(record.len());
            record[byte] ^= 1 << numbers.below(8);
            let checked = check(forged.file(), &root);
            assert!(checked.is_err(), "record {at} of {count}, byte {byte}");
        }
        let mut forged = records;
        let byte = forged.metadata.len() - 1;
        forged.metadata[byte] ^= 1;
        assert!(check(forged.file(), &root).is_err());
    }
}

#[test]
fn every_flipped_bit_of_a_file_is_found() {
    let (records, root) = split(Profile::TensorFlow, 9);
    let file = records.file();
    let mut numbers = Numbers(2);
    for _ in 0..3000 {
        let (byte, bit) = (numbers.below(file.len()), numbers.below(8));
        let mut forged = file.clone();
        forged[byte] ^= 1 << bit;
        let checked = open(forged).and_then(|file| {
            let verified = file.verify(&ReadOptions::new());
            verified
                .into_problems()
                .into_iter()
                .next()
                .map_or(Ok(()), Err)?;
            let problems = file.verify_against(&root, &ReadOptions::new())?;
            problems.into_iter().next().map_or(Ok(()), Err)
        });
        assert!(checked.is_err(), "byte {byte}, bit {bit}");
    }
}

/// Returns different bytes with the same crc32c. The checksum is linear, so flipping some
/// combination of 33 bits doesn't change it.
fn with_same_crc32c(bytes: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| proto_splitter_core::checksum::crc32c(bytes);
    let before = crc(bytes);
    // Each row consists of the effect that flipping several bits has on the checksum, and a mask of
    // these bits.
    let mut basis: Vec<(u32, u64)> = Vec::new();
    for bit in 0..33 {
        let mut changed = bytes.to_vec();
        changed[300 + bit / 8] ^= 1 << (bit % 8);
        let (mut effect, mut of) = (crc(&changed) ^ before, 1u64 << bit);
        for (other, changes) in &basis {
            if effect ^ other < effect {
                (effect, of) = (effect ^ other, of ^ changes);
            }
        }
        if effect == 0 {
            let mut changed = bytes.to_vec();
            for bit in (0..33).filter(|bit| of >> bit & 1 == 1) {
                changed[300 + bit / 8] ^= 1 << (bit % 8);
            }
            assert!(changed != bytes && crc(&changed) == before);
            return changed;
        }
        basis.push((effect, of));
        basis.sort_by_key(|(effect, _)| std::cmp::Reverse(*effect));
    }
    unreachable!("33 vectors of 32 bits depend on each other")
}

#[test]
fn a_chunk_with_the_right_checksums_is_refused_before_it_is_read() {
    for profile in [Profile::TensorFlow, Profile::Extended] {
        let (mut records, root) = split(profile, 9);
        let sound = open(records.file()).unwrap();
        let path = |index: usize| format!("3[{index}]").parse().unwrap();
        let original = message(9).dependency;
        let forged = records
            .records
            .iter()
            .position(|record| record.ends_with(b"0005"))
            .unwrap();
        records.records[forged] = with_same_crc32c(&records.records[forged]);
        let bytes = records.file();
        // Only the checksum of the whole message would detect the forged chunk.
        let file = open(bytes.clone()).unwrap();
        let chunk = (0..file.len()).find(|&chunk| {
            let read = |file: &ChunkedFile<Vec<u8>>| {
                let mut bytes = Vec::new();
                io::copy(&mut file.stream(chunk).unwrap(), &mut bytes).unwrap();
                bytes
            };
            read(&file) != read(&sound)
        });
        let chunk = chunk.unwrap();
        assert_ne!(file.get(&path(5)).unwrap(), original[5].as_bytes());
        file.verify_chunk_against(&root, chunk - 1).unwrap();
        let error = file.verify_chunk_against(&root, chunk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        assert_eq!(error.chunk().map(|chunk| chunk.to_usize()), Some(chunk));

        file.require_root(&root).unwrap();
        let error = file.get(&path(5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        assert!(
            error.to_string().contains("where the Merkle root says"),
            "{error}"
        );
        assert!(file.stream(chunk).is_err() && file.merge_to_bytes(&ReadOptions::new()).is_err());
        let mut sink = Vec::new();
        assert!(file.merge_to(&mut sink, &ReadOptions::new()).is_err());
        let size = usize::try_from(file.size(chunk)).unwrap();
        assert!(file.read_into(chunk, &mut vec![0; size]).is_err());
        for index in [0, 4, 8] {
            assert_eq!(file.get(&path(index)).unwrap(), original[index].as_bytes());
        }
        // Verifying without a given root finds that the chunk doesn't match the trailer.
        let file = open(bytes).unwrap();
        let against_root = file.verify_against(&root, &ReadOptions::new()).unwrap();
        let alone = file.verify(&ReadOptions::new());
        for problems in [&against_root[..], alone.problems()] {
            assert_eq!(problems.len(), 1, "{problems:?}");
            let problem = problems[0].to_string();
            let expected = format!("chunk {chunk}: its hash is ");
            assert!(problem.contains(&expected), "{problem}");
        }
    }
}

#[test]
fn a_trailer_with_other_paths_is_refused() {
    let (mut records, root) = split(Profile::TensorFlow, 9);
    let last = records.records.len() - 1;
    let mut trailer = ChunkMetadata::decode(&records.records[last][..]).unwrap();
    let nodes = trailer.clone();
    // The chunks are the same, but two of their paths are swapped.
    let fields = &mut trailer.message.as_mut().unwrap().chunked_fields;
    let count = fields.len();
    let [a, b] = [count - 1, count - 2].map(|at| fields[at].message.clone());
    (fields[count - 1].message, fields[count - 2].message) = (b, a);
    assert_ne!(trailer, nodes);
    records.records[last] = trailer.encode_to_vec();
    let file = open(records.file()).unwrap();
    let error = file.require_root(&root).unwrap_err();
    assert!(
        error.to_string().starts_with("its Merkle root is "),
        "{error}"
    );
    // Removing or changing the description of the Merkle tree in the trailer changes the root.
    for tree in [
        None,
        nodes.merkle_tree.clone().map(|mut tree| {
            tree.chunks = vec![7; 32].into();
            tree
        }),
    ] {
        let mut forged = nodes.clone();
        forged.merkle_tree = tree;
        records.records[last] = forged.encode_to_vec();
        assert!(open(records.file()).unwrap().require_root(&root).is_err());
    }
}

#[test]
fn nodes_anywhere_cause_no_more_than_an_error() {
    let (mut records, root) = split(Profile::TensorFlow, 9);
    let last = records.records.len() - 1;
    let trailer = ChunkMetadata::decode(&records.records[last][..]).unwrap();
    for offset in [
        0,
        1,
        24,
        63,
        64,
        1 << 16,
        1 << 20,
        1 << 40,
        u64::MAX - 3,
        u64::MAX,
    ] {
        let mut forged = trailer.clone();
        forged.merkle_tree.as_mut().unwrap().nodes_offset = offset;
        records.records[last] = forged.encode_to_vec();
        let file = open(records.file()).unwrap();
        // The root doesn't cover the position of the nodes.
        file.require_root(&root).unwrap();
        assert!(file.stream(3).is_err(), "{offset}");
        assert!(check(records.file(), &root).is_err(), "{offset}");
        // A reader that doesn't require a root reads the file as before.
        let plain = open(records.file()).unwrap();
        assert!(plain.merge_to_bytes(&ReadOptions::new()).is_ok());
    }
    for hash in [&b""[..], &[7; 31], &[7; 33]] {
        let mut forged = trailer.clone();
        forged.merkle_tree.as_mut().unwrap().chunks = hash.to_vec().into();
        records.records[last] = forged.encode_to_vec();
        let error = open(records.file()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTrailer);
        assert!(error.to_string().contains("where a hash has 32"), "{error}");
    }
}
