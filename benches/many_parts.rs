//! A benchmark of planning and committing a split in a thousand parts, for messages that exceed any
//! disk: the message is a sparse file, and the reports of the parts are made up.
//!
//!     cargo bench --bench many_parts                    1 TiB and 100 TiB in 1,000 parts
//!     cargo bench --bench many_parts -- 64MiB 4         a message of this size, in this many parts
//!
//! The parts themselves aren't run, so none of their files exist. The commit uses a store that
//! reports every file as correct. The trailer that the commit writes is read and checked.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::container::Trailer;
use proto_splitter::merge::Limits;
use proto_splitter::parts::proto::{self as parts, Plan, Report, SplitReport, report};
use proto_splitter::parts::{PartOptions, PartReport, PartStore, PartsPlan, with_checksum};
use proto_splitter::prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::proto::proto_splitter::chunk_metadata::ExternalFile;
use proto_splitter::proto::proto_splitter::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex, VersionDef, field_index,
};
use proto_splitter::record_file::{ReadAt, ReaderOptions, RecordFile};
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitOptions};
use proto_splitter::wire::FieldNumber;
use proto_splitter::{Error, ErrorKind, Result};
use tempfile::TempDir;

/// Default size of each value in the message, in bytes, so that it becomes a chunk of maximum size.
const VALUE: u64 = (1 << 30) - 16;

/// Folder in memory, where sparse files may have any size.
const SHARED_MEMORY: &str = "/dev/shm";

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    println!(
        "| message | parts | chunks | plan, s | plan, KiB | read it, ms | reports, KiB | commit, s | main file, KiB | read it, ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    match &arguments[..] {
        [size, parts] => simulate(size_of(size), parts.parse().unwrap()),
        _ => {
            for size in [1u64 << 40, 100 << 40] {
                simulate(size, NonZeroUsize::new(1000).unwrap());
            }
        }
    }
}

fn size_of(text: &str) -> u64 {
    let tebi = text
        .strip_suffix("TiB")
        .map(|number| number.parse::<u64>().unwrap() << 40);
    let mebi = || text.strip_suffix("MiB").unwrap().parse::<u64>().unwrap() << 20;
    tebi.unwrap_or_else(mebi)
}

fn simulate(size: u64, parts: NonZeroUsize) {
    let folder = if Path::new(SHARED_MEMORY).is_dir() {
        TempDir::new_in(SHARED_MEMORY)
    } else {
        TempDir::new()
    };
    let folder = folder.unwrap();
    let path = folder.path().join("message.pb");
    let value = VALUE.min(size / 16);
    write_sparse(&path, size, value);
    let source = Source::open(&path, blobs()).unwrap();
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(value);
    let prefix = folder.path().join("m");

    let begun = Instant::now();
    let plan = PartsPlan::split(&SizeSplitter, &source, &prefix, &options, parts).unwrap();
    let planned = begun.elapsed();
    let bytes = plan.to_bytes();
    let begun = Instant::now();
    let plan = PartsPlan::from_bytes(bytes.clone()).unwrap();
    let read = begun.elapsed();

    let reports = made_up(&Plan::decode(bytes.clone()).unwrap(), &plan);
    let sent: usize = reports.iter().map(|report| report.to_bytes().len()).sum();
    let store = Believing(folder.path().to_owned());
    let begun = Instant::now();
    let main = plan
        .main_file(&reports, &store, &PartOptions::new().reread(false))
        .unwrap();
    let committed = begun.elapsed();

    let begun = Instant::now();
    let (trailer, main_size) = trailer(main.as_file());
    let trailer_read = begun.elapsed();
    let metadata = trailer.metadata();
    assert_eq!(metadata.files.len(), plan.parts());
    assert_eq!(metadata.source_size, Some(source.size()));
    println!(
        "| {} GiB | {} | {} | {:.3} | {} | {:.1} | {} | {:.3} | {} | {:.1} |",
        source.size() >> 30,
        plan.parts(),
        metadata.chunks.len(),
        planned.as_secs_f64(),
        bytes.len() >> 10,
        read.as_secs_f64() * 1000.0,
        sent >> 10,
        committed.as_secs_f64(),
        main_size >> 10,
        trailer_read.as_secs_f64() * 1000.0,
    );
}

/// Writes a sparse file with a message whose values, of `value` bytes each, are in field 1. Only
/// the tags and lengths take disk space.
fn write_sparse(path: &Path, size: u64, value: u64) {
    let file = File::create(path).unwrap();
    let mut header = vec![0x0a];
    prost::encoding::encode_varint(value, &mut header);
    let step = value + header.len() as u64;
    let mut end = 0;
    while end + step <= size {
        file.write_all_at(&header, end).unwrap();
        end += step;
    }
    file.set_len(end).unwrap();
}

/// Returns the message type `message Blobs { repeated bytes blob = 1; }`.
fn blobs() -> MessageDescriptor {
    use proto_splitter::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use proto_splitter::prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    };
    let field = FieldDescriptorProto {
        name: Some("blob".into()),
        number: Some(1),
        label: Some(Label::Repeated.into()),
        r#type: Some(Type::Bytes.into()),
        ..Default::default()
    };
    let message = DescriptorProto {
        name: Some("Blobs".into()),
        field: vec![field],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("blobs.proto".into()),
        message_type: vec![message],
        ..Default::default()
    };
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_proto(file).unwrap();
    pool.get_message_by_name("Blobs").unwrap()
}

/// Returns made-up reports for all parts, as if every part had stored its chunks uncompressed.
fn made_up(message: &Plan, plan: &PartsPlan) -> Vec<PartReport> {
    let Some(parts::plan::Work::Split(split)) = &message.work else {
        unreachable!("the plan of a split")
    };
    let trailer = ChunkMetadata::decode(split.trailer.clone()).unwrap();
    let id = (0..32).step_by(2);
    let id: Vec<u8> = id
        .map(|at| u8::from_str_radix(&plan.id()[at..at + 2], 16).unwrap())
        .collect();
    let mut begin = 0;
    let report = |(part, &end): (usize, &u64)| {
        let chunks = usize::try_from(begin).unwrap()..usize::try_from(end).unwrap();
        begin = end;
        let mut offset = 64;
        let mut infos = trailer.chunks[chunks.clone()].to_vec();
        for info in &mut infos {
            info.offset = offset;
            info.crc32c = Some(0);
            offset += info.size + 104;
        }
        let runs = runs(&split.chunks[chunks]);
        let done = SplitReport {
            file: format!("m.{:05}-00000000.cpb", part + 1),
            size: offset,
            trailer_crc32c: crc32c::crc32c(&end_of_part(&infos).encode_to_vec()),
            offsets: infos.iter().map(|info| info.offset).collect(),
            crc32cs: vec![0; infos.len()],
            run_crc32cs: vec![0; runs],
            ..Default::default()
        };
        let report = Report {
            version: 1,
            plan_id: id.clone().into(),
            part: u32::try_from(part).unwrap(),
            result: Some(report::Result::Split(done)),
            ..Default::default()
        };
        PartReport::from_bytes(&with_checksum(report.encode_to_vec())).unwrap()
    };
    split.part_ends.iter().enumerate().map(report).collect()
}

/// Returns the number of contiguous ranges of the source that these chunks contain.
fn runs(chunks: &[parts::split_plan::Chunk]) -> usize {
    let pieces = chunks.iter().flat_map(|chunk| chunk.pieces.chunks(2));
    let pieces = pieces.filter(|piece| piece[1] & 1 == 0 && piece[1] > 0);
    let mut pieces: Vec<_> = pieces
        .map(|piece| (piece[0], piece[0] + (piece[1] >> 1)))
        .collect();
    pieces.sort_unstable();
    let apart = pieces
        .windows(2)
        .filter(|pair| pair[0].1 != pair[1].0)
        .count();
    apart + usize::from(!pieces.is_empty())
}

/// Returns the last record that the file of a part would have.
fn end_of_part(infos: &[ChunkInfo]) -> ChunkMetadata {
    let nobody_s_field = FieldIndex {
        kind: Some(field_index::Kind::Field(FieldNumber::MAX.0)),
    };
    let refused = ChunkedField {
        field_tag: vec![nobody_s_field],
        message: Some(ChunkedMessage {
            chunk_index: Some(0),
            chunked_fields: Vec::new(),
        }),
        ..Default::default()
    };
    ChunkMetadata {
        version: Some(VersionDef {
            join_version: 1,
            ..Default::default()
        }),
        chunks: infos.to_vec(),
        message: Some(ChunkedMessage {
            chunk_index: None,
            chunked_fields: vec![refused],
        }),
        is_part: true,
        ..Default::default()
    }
}

/// A store that reports every file as correct, without storing any.
struct Believing(PathBuf);

impl PartStore for Believing {
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile> {
        AtomicFile::create(self.0.join("part"), made_from, true)
    }

    fn keep(&self, _: AtomicFile, name: &str) -> Result<()> {
        Err(Error::new(
            ErrorKind::Io,
            format!("{name}: nothing is kept here"),
        ))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        Err(Error::new(
            ErrorKind::Io,
            format!("{name}: nothing is kept here"),
        ))
    }

    fn check(&self, _: &ExternalFile) -> Result<()> {
        Ok(())
    }
}

/// Reads and checks the trailer of a main file. Returns the trailer, and the size of the file in
/// bytes.
fn trailer(file: &File) -> (Trailer, u64) {
    let size = file.metadata().unwrap().len();
    let records = RecordFile::open(file.try_clone().unwrap(), ReaderOptions::new()).unwrap();
    let end = records.last_record().unwrap().unwrap();
    let bytes = records.read_record(end).unwrap();
    let limits = Limits::new().max_files(usize::MAX);
    (Trailer::parse(&bytes, &limits).unwrap(), size)
}
