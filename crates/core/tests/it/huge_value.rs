//! A value that no protobuf library can hold, in bounded memory.

use std::io::{self, Write};
use std::sync::Arc;

use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions};
use record_file::ReadAt;

use crate::own_process::in_own_process;

/// Size of the value, in bytes: 3 GiB.
const VALUE: u64 = 3 << 30;

/// Maximum peak memory of the process, in bytes: far less than a chunk.
const MOST_MEMORY: u64 = 512 << 20;

/// Size of a block of equal bytes, in bytes. Neighbouring blocks differ.
const BLOCK: u64 = 64 << 10;

/// Field 1 with the value, generated on reading.
struct Generated {
    header: Vec<u8>,
}

impl Generated {
    fn new() -> Self {
        let mut header = vec![0x0a];
        prost::encoding::encode_varint(VALUE, &mut header);
        Generated { header }
    }

    /// Calls `fill` with each run of equal bytes in `len` bytes from `offset` on: its range in
    /// them, and the byte.
    fn runs(&self, offset: u64, len: usize, mut fill: impl FnMut(std::ops::Range<usize>, u8)) {
        let mut at = 0;
        while at < len {
            let position = offset + at as u64;
            let front = self.header.len() as u64;
            let (byte, run) = match usize::try_from(position)
                .ok()
                .and_then(|p| self.header.get(p))
            {
                Some(byte) => (*byte, 1),
                None => {
                    let inner = position - front;
                    let block = inner / BLOCK;
                    (
                        block.to_le_bytes()[0] ^ block.to_le_bytes()[1],
                        BLOCK - inner % BLOCK,
                    )
                }
            };
            let end = len.min(at + usize::try_from(run).unwrap());
            fill(at..end, byte);
            at = end;
        }
    }
}

impl ReadAt for Generated {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.size()?.saturating_sub(offset);
        let len = buf.len().min(usize::try_from(left).unwrap());
        self.runs(offset, len, |run, byte| buf[run].fill(byte));
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.header.len() as u64 + VALUE)
    }
}

/// A sink that compares written bytes with the generated ones.
struct Compared {
    expected: Generated,
    written: u64,
    block: Vec<u8>,
}

impl Write for Compared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.resize(bytes.len(), 0);
        self.expected.read_exact_at(self.written, &mut self.block)?;
        assert!(self.block == bytes, "at {}", self.written);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the peak memory of this process, where the system reports it.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[test]
fn a_value_of_3_gib_goes_through_both_profiles_in_bounded_memory() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        for (profile, chunks) in [(Profile::TensorFlow, 2), (Profile::Extended, 4)] {
            let generated = Generated::new();
            let size = generated.size().unwrap();
            let descriptor = FileDescriptorProto::default().descriptor();
            let source = Source::from_reader(Arc::new(generated), size, descriptor);
            let prefix = folder.path().join(profile.to_string());
            let options = SplitOptions::new().profile(profile);
            let written = SizeSplitter.write_with(source, &prefix, &options).unwrap();
            assert_eq!(written.chunks.len(), chunks);
            assert!(written.output_size < 64 << 20, "{}", written.output_size);
            let mut sink = Compared {
                expected: Generated::new(),
                written: 0,
                block: Vec::new(),
            };
            let merged = Merger::new().merge_to(&prefix, &mut sink).unwrap();
            assert_eq!((merged.byte_exact, sink.written), (Some(true), size));
        }
        if let Some(most) = most_memory() {
            assert!(most <= MOST_MEMORY, "{most} bytes of memory");
        }
    });
}
