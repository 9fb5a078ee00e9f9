//! Splits and merges fifty million numbers in one repeated field, packed and unpacked, in both
//! profiles, with bounded memory.
//!
//!     cargo run --release --example many_varints
//!
//! The message is split into chunks of 4 MiB and merged again. Both operations check every byte.
//! The example fails if the process needs more memory than a small fraction of the message's size.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use prost_reflect::DescriptorPool;
use proto_splitter::merge::{MergeOptions, Merger};
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter::wire::put_varint;

const SCHEMA: &str = r#"
    syntax = "proto2";
    package example;

    message Numbers {
      repeated uint64 packed = 1 [packed = true];
      repeated uint64 loose = 2;
    }
"#;

/// Number of values in the repeated field.
const COUNT: u64 = 50_000_000;

/// Maximum size of a chunk, in bytes.
const MAX_CHUNK_SIZE: u64 = 4 << 20;

/// Maximum peak memory of the process, in bytes.
const MEMORY_BOUND: u64 = 32 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("numbers.proto"), SCHEMA)?;
    let files = protox::compile(["numbers.proto"], [folder.path()])?;
    let pool = DescriptorPool::from_file_descriptor_set(files)?;
    let descriptor = pool
        .get_message_by_name("example.Numbers")
        .ok_or("it is in the schema")?;
    let [source, prefix, merged] =
        ["numbers.pb", "split", "merged.pb"].map(|name| folder.path().join(name));
    for (form, packed) in [("packed", true), ("not packed", false)] {
        let size = write_numbers(&source, packed)?;
        for profile in [Profile::TensorFlow, Profile::Extended] {
            let options = SplitOptions::new()
                .max_chunk_size(MAX_CHUNK_SIZE)
                .profile(profile)
                .force(true);
            let written = SizeSplitter.write_with(
                Source::open(&source, descriptor.clone())?,
                &prefix,
                &options,
            )?;
            // The merge compares the checksum of its result with that of the source.
            let back = Merger::new()
                .options(MergeOptions::new().force(true))
                .merge_to_file(&prefix, &merged)?;
            if back.byte_exact != Some(true) || back.size != size {
                return Err(format!("{form}: the merged message differs from the original").into());
            }
            let chunks = written.chunks.len();
            println!(
                "{COUNT} numbers, {form}, {profile:?}: {size} bytes in {chunks} chunks, and back"
            );
        }
    }
    match peak_memory() {
        Some(peak) if peak > MEMORY_BOUND => {
            Err(format!("peak memory: {peak} bytes, over the bound of {MEMORY_BOUND}").into())
        }
        Some(peak) => {
            println!("peak memory: {peak} bytes, within the bound of {MEMORY_BOUND}");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Writes the message, and returns its size in bytes. The numbers have one to three bytes each. If
/// `packed` is true, they are in one packed field; otherwise, each number has a tag.
fn write_numbers(path: &Path, packed: bool) -> Result<u64, Box<dyn Error>> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut varint, mut size) = (Vec::with_capacity(16), 0);
    if packed {
        let content = (0..COUNT).map(|n| varint_len(number(n))).sum();
        varint.push(1 << 3 | 2);
        put_varint(&mut varint, content);
        out.write_all(&varint)?;
        size += varint.len() as u64;
    }
    for n in 0..COUNT {
        varint.clear();
        if !packed {
            varint.push(2 << 3);
        }
        put_varint(&mut varint, number(n));
        out.write_all(&varint)?;
        size += varint.len() as u64;
    }
    out.flush()?;
    Ok(size)
}

fn number(n: u64) -> u64 {
    n * 7919 % 300_000
}

fn varint_len(number: u64) -> u64 {
    match number {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

/// Returns the peak memory of this process, in bytes; `None` if the system doesn't report it.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}
