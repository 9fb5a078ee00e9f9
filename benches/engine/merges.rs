//! Measurements of merges to memory, and of reading one constant from a file, compared with the
//! minimum work for the same bytes.

use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use bytes::Bytes;
use highway::{HighwayHash, HighwayHasher, Key};
use prost::Message;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{ChunkStore, Merger, ReadOptions};
use proto_splitter::proto::graph_def::GraphDef;
use proto_splitter::proto::saved_model::SavedModel;
use proto_splitter::record_file::{Compression, ReadAt};
use proto_splitter::split::{Source, SplitExt};
use proto_splitter::{GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::cores::on_all_cores;
use proto_splitter_testkit::workloads::Workload;

use super::{Outcome, descriptor, remove, row, write};

/// Number of bytes that the reference for constants reads at once. They are hashed while they are
/// in the cache.
const WINDOW: usize = 256 << 10;

const ZSTD_LEVEL: i32 = 3;

pub(super) fn merges(folder: &Path, scale: u64) -> Outcome<()> {
    for workload in Workload::MERGED {
        let (name, type_name) = (workload.name(), workload.type_name());
        let source = folder.join(format!("{name}.source"));
        write(&workload.message(scale), &source)?;
        let hows = [
            ("none", Compression::None),
            ("zstd", Compression::zstd(ZSTD_LEVEL)),
        ];
        for (what, how) in hows {
            let prefix = folder.join(format!("{name}.{what}"));
            let chunked = folder.join(format!("{name}.{what}.cpb"));
            remove(&chunked)?;
            let options = workload.split_options(scale).compression(how);
            let open = Source::open(&source, descriptor(type_name)?)?;
            match type_name {
                SAVED_MODEL => SavedModelSplitter.write_with(open, &prefix, &options)?,
                _ => GraphDefSplitter.write_with(open, &prefix, &options)?,
            };
            let work = format!("{name} {what}");
            to_memory(&work, &source, &chunked, what == "zstd")?;
            if type_name == SAVED_MODEL {
                parts(&work, &source, &chunked, scale)?;
                typed::<SavedModel>(&work, &source, &chunked)?;
            } else {
                typed::<GraphDef>(&work, &source, &chunked)?;
            }
        }
        remove(&source)?;
    }
    Ok(())
}

/// Measures merges to memory that was touched before, merges to newly allocated memory, and
/// verification.
fn to_memory(work: &str, source: &Path, chunked: &Path, is_zstd: bool) -> Outcome<()> {
    let file = ChunkedFile::open(chunked)?;
    let from = fs::read(source)?;
    let size = from.len() as u64;
    let mut buffer = vec![1; from.len()];
    let mut copy = vec![1; from.len()];
    let options = ReadOptions::new();
    let mut into = || -> Outcome<()> {
        black_box(file.merge_into(&mut buffer, &options)?);
        Ok(())
    };
    let mut memcpy = || -> Outcome<()> {
        copy.copy_from_slice(black_box(&from));
        black_box(&copy);
        Ok(())
    };
    let what = format!("{work} merge to touched memory");
    row(&what, size, &mut into, "a copy in memory", &mut memcpy)?;
    let mut fresh = || -> Outcome<()> {
        black_box(file.merge_to_bytes(&options)?);
        Ok(())
    };
    let what = format!("{work} merge to fresh memory");
    row(&what, size, &mut fresh, "a copy in memory", &mut memcpy)?;
    let mut verify = || -> Outcome<()> {
        if file.verify(&options).problems().is_empty() {
            Ok(())
        } else {
            Err("the file is damaged".into())
        }
    };
    let what = format!("{work} verify");
    let reference = "merge to touched memory";
    row(&what, size, &mut verify, reference, &mut into)?;
    if is_zstd {
        let frames = frames(&file)?;
        let mut decoded = vec![1; frames.iter().map(|(_, len)| len).sum()];
        let mut decode = || -> Outcome<()> {
            decode(&frames, &mut decoded)?;
            memcpy()
        };
        let what = format!("{work} merge to touched memory");
        let reference = "decoding its frames, and a copy";
        row(&what, size, &mut into, reference, &mut decode)?;
    }
    Ok(())
}

/// Measures reading one constant, and opening a file and reading one name.
fn parts(work: &str, source: &Path, chunked: &Path, scale: u64) -> Outcome<()> {
    let size = Workload::W1_CONSTANT_BYTES / scale;
    let file = ChunkedFile::open(chunked)?;
    let path = format!(
        "2[0].2.1[{}].5[\"value\"].8.4",
        Workload::W1_SMALL_NODES + 1
    )
    .parse()?;
    let plain = File::open(source)?;
    let mut window = vec![0; WINDOW];
    let mut hashed = || -> Outcome<()> { hash(&plain, size, &mut window) };
    let reference = "reading and hashing it, one thread";
    let mut buffer = vec![1; usize::try_from(size)?];
    let view = file.view(ReadOptions::new());
    let mut get_into = || -> Outcome<()> {
        black_box(view.get_into(&path, &mut buffer)?);
        Ok(())
    };
    let what = format!("{work} get one constant into touched memory");
    row(&what, size, &mut get_into, reference, &mut hashed)?;
    let mut get = || -> Outcome<Bytes> { Ok(view.get(&path)?) };
    let what = format!("{work} get one constant");
    row(&what, size, &mut get, reference, &mut hashed)?;
    let path = "2[0].2.1[3].1".parse()?;
    let mut scalar = || -> Outcome<()> {
        black_box(ChunkedFile::open(chunked)?.get(&path)?);
        Ok(())
    };
    let what = format!("{work} open and get a name");
    row(&what, 13, &mut scalar, reference, &mut hashed)
}

/// Measures a merge to a message of the Rust type `M`. Dropping the message isn't timed.
fn typed<M: Message + Default>(work: &str, source: &Path, chunked: &Path) -> Outcome<()> {
    let from = Bytes::from(fs::read(source)?);
    let mut read = || -> Outcome<M> { Ok(Merger::new().read(chunked)?) };
    let mut decode = || -> Outcome<M> { Ok(M::decode(from.clone())?) };
    row(
        &format!("{work} merge to a typed message"),
        from.len() as u64,
        &mut read,
        "prost decoding it from memory",
        &mut decode,
    )
}

/// Reads the first `size` bytes of a file, and computes the two hashes that are computed for a
/// chunk: that of the record file, and crc32c.
fn hash(file: &File, size: u64, window: &mut [u8]) -> Outcome<()> {
    let mut hasher = HighwayHasher::new(Key::default());
    let mut crc = 0;
    let mut at = 0;
    while at < size {
        let len = window.len().min(usize::try_from(size - at)?);
        let window = &mut window[..len];
        file.read_exact_at(at, window)?;
        hasher.append(window);
        crc = crc32c::crc32c_append(crc, window);
        at += len as u64;
    }
    black_box((hasher.finalize64(), crc));
    Ok(())
}

/// Compresses each chunk of a file to a separate zstd frame. Returns the frames with the chunks'
/// sizes, sorted by size.
fn frames(file: &ChunkedFile) -> Outcome<Vec<(Vec<u8>, usize)>> {
    let mut frames = Vec::new();
    for chunk in 0..file.len() {
        let mut bytes = vec![0; usize::try_from(file.size(chunk))?];
        file.read_into(chunk, &mut bytes)?;
        frames.push((zstd::bulk::compress(&bytes, ZSTD_LEVEL)?, bytes.len()));
    }
    frames.sort_by_key(|(_, len)| *len);
    Ok(frames)
}

/// Decodes the frames on all cores, the largest first.
fn decode(frames: &[(Vec<u8>, usize)], out: &mut [u8]) -> Outcome<()> {
    let mut jobs = Vec::new();
    let mut rest = out;
    for (frame, len) in frames {
        let (place, behind) = rest.split_at_mut(*len);
        jobs.push((frame, place));
        rest = behind;
    }
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || -> Result<(), std::io::Error> {
        let mut decoder = zstd::bulk::Decompressor::new()?;
        while let Some((frame, place)) = next() {
            decoder.decompress_to_buffer(frame, place)?;
        }
        Ok(())
    };
    on_all_cores(work)
}
