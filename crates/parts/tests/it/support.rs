//! A folder with a message in a file, and operations on the folder.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use proto_splitter_core::Result;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::prost::Message;
use proto_splitter_core::prost_reflect::ReflectMessage;
use proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitOptions};
use proto_splitter_parts::{PartOptions, PartReport, PartsPlan};
use tempfile::TempDir;

/// A generator of pseudo-random numbers, which are the same for equal seeds.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

pub(crate) struct Folder {
    folder: TempDir,
    pub(crate) message: Vec<u8>,
}

impl Folder {
    /// Creates a folder with a message that has several values of about a kilobyte. Some of the
    /// values are compressible, some aren't, and two are equal.
    pub(crate) fn new() -> Folder {
        let mut random = Random::new(7);
        let mut value = |at: usize| match at {
            0..4 => char::from(b'a' + u8::try_from(at).unwrap())
                .to_string()
                .repeat(700 + 60 * at),
            11 => "equal".repeat(200),
            12 => "equal".repeat(200),
            _ => (0..800 + at)
                .map(|_| char::from(b'!' + u8::try_from(random.below(90)).unwrap()))
                .collect(),
        };
        let message = FileDescriptorProto {
            name: Some("name".into()),
            dependency: (0..13).map(&mut value).collect(),
            ..Default::default()
        };
        let folder = Folder {
            folder: tempfile::tempdir().unwrap(),
            message: message.encode_to_vec(),
        };
        fs::write(folder.path("source.pb"), &folder.message).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn source(&self) -> Source {
        let descriptor = FileDescriptorProto::default().descriptor();
        Source::open(self.path("source.pb"), descriptor).unwrap()
    }

    /// Plans to split the message to `m.cpb` in at most `parts` parts.
    pub(crate) fn split(&self, parts: usize, options: &SplitOptions) -> Result<PartsPlan> {
        let parts = NonZeroUsize::new(parts).unwrap();
        PartsPlan::split(
            &SizeSplitter,
            &self.source(),
            self.path("m"),
            options,
            parts,
        )
    }

    pub(crate) fn merged(&self, prefix: &str) -> Vec<u8> {
        Merger::new()
            .merge_to_bytes(self.path(prefix))
            .unwrap()
            .into()
    }

    /// Returns the sorted names of all files except the source.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "source.pb").collect();
        names.sort();
        names
    }
}

pub(crate) fn options() -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(1000)
        .value_chunk_size(Some(500))
        .profile(Profile::Extended)
}

pub(crate) fn run_all(plan: &PartsPlan) -> Vec<PartReport> {
    let run = |part| plan.run(part, &PartOptions::new()).unwrap();
    (0..plan.parts()).map(run).collect()
}
