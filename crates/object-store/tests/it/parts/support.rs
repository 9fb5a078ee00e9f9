//! In-memory objects for tests in parts.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use object_store::ObjectStoreExt;
use proto_splitter_core::Result;
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::prost::Message;
use proto_splitter_core::prost_reflect::ReflectMessage;
use proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::split::{Profile, SizeSplitter, SplitOptions};
use proto_splitter_object_store::{
    Folder, ObjectLocation, ObjectParts, ObjectReadOptions, ObjectReader, ObjectWriteOptions,
    ObjectWriter, open_chunked,
};
use proto_splitter_parts::{
    ObjectUpload, Objects, OpenObject, PartOptions, PartReport, PartsPlan, Planner, UploadParts,
};
use record_file::ReadAt;

/// Size of the parts of an upload, in bytes. It is so small that uploads have several parts.
const PART: u64 = 700;

/// A generator of pseudo-random numbers, which a seed determines.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// An accessor to objects whose uploads have small parts.
#[derive(Debug, Default)]
pub struct Small {
    inner: ObjectParts,
    /// True if each assembled object gets a flipped bit.
    spoils: bool,
}

impl Small {
    pub fn spoiling() -> Small {
        Small {
            spoils: true,
            ..Small::default()
        }
    }
}

impl Objects for Small {
    fn is_object(&self, name: &str) -> bool {
        self.inner.is_object(name)
    }
    fn open(&self, name: &str) -> Result<OpenObject> {
        self.inner.open(name)
    }
    fn open_beside(&self, main: &str, named: &str) -> Result<Arc<dyn ReadAt>> {
        self.inner.open_beside(main, named)
    }
    fn url_beside(&self, main: &str, named: &str) -> Result<String> {
        self.inner.url_beside(main, named)
    }
    fn full_name(&self, name: &str) -> Result<String> {
        self.inner.full_name(name)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }
    fn put(&self, name: &str, content: &mut dyn Read, size: u64, force: bool) -> Result<()> {
        self.inner.put(name, content, size, force)
    }
    fn put_at_once(&self, name: &str, content: Vec<u8>, force: bool) -> Result<()> {
        self.inner.put_at_once(name, content, force)
    }
    fn begin_upload(&self, name: &str, size: u64) -> Result<ObjectUpload> {
        let upload = self.inner.begin_upload(name, size)?;
        Ok(ObjectUpload {
            part_size: PART,
            ..upload
        })
    }
    fn upload_from(
        &self,
        name: &str,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Box<dyn UploadParts>> {
        self.inner.upload_from(name, upload, first)
    }
    fn finish_upload(
        &self,
        name: &str,
        upload: &ObjectUpload,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()> {
        self.inner.finish_upload(name, upload, parts, force)?;
        if self.spoils {
            let there = self.inner.open(name)?.source;
            let mut bytes = vec![0; usize::try_from(there.size()?).unwrap()];
            there.read_exact_at(0, &mut bytes)?;
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            self.inner.put_at_once(name, bytes, true)?;
        }
        Ok(())
    }
}

pub fn objects<O: Objects + 'static>(objects: O) -> Arc<dyn Objects> {
    Arc::new(objects)
}

pub fn options() -> PartOptions {
    PartOptions::new().objects(objects(Small::default()))
}

pub fn split_options() -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(1000)
        .value_chunk_size(Some(500))
        .profile(Profile::Extended)
}

pub fn run_all(plan: &PartsPlan) -> Vec<PartReport> {
    let run = |part| plan.run(part, &options()).unwrap();
    (0..plan.parts()).map(run).collect()
}

/// A folder of objects in memory, with a message in `source.pb`.
pub struct Bucket {
    name: String,
    pub message: Vec<u8>,
}

impl Bucket {
    /// Creates a bucket with a message whose values have about a kilobyte each. Some of the values
    /// are compressible.
    pub fn new(name: &str) -> Bucket {
        let mut random = Random::new(7);
        let mut value = |at: usize| match at {
            0..4 => "abcd".repeat(170 + 15 * at),
            _ => (0..800 + at)
                .map(|_| char::from(b'!' + u8::try_from(random.below(90)).unwrap()))
                .collect(),
        };
        let message = FileDescriptorProto {
            name: Some("name".into()),
            dependency: (0..13).map(&mut value).collect(),
            ..Default::default()
        };
        let bucket = Bucket {
            name: format!("memory:///parts-{name}"),
            message: message.encode_to_vec(),
        };
        bucket.put("source.pb", &bucket.message);
        bucket
    }

    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    pub fn at(&self, name: &str) -> ObjectLocation {
        ObjectLocation::parse(&self.url(name)).unwrap()
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let options = ObjectWriteOptions::new().force(true);
        let mut writer = ObjectWriter::create(&self.at(name), &options).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap();
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        let reader = ObjectReader::open(&self.at(name), &ObjectReadOptions::new()).unwrap();
        let mut bytes = vec![0; usize::try_from(reader.size().unwrap()).unwrap()];
        reader.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    pub fn has(&self, name: &str) -> bool {
        self.at(name).exists().unwrap()
    }

    pub fn remove(&self, name: &str) {
        let at = self.at(name);
        futures::executor::block_on(at.store().delete(at.path())).unwrap();
    }

    /// Returns the names of all objects except `source.pb`.
    pub fn names(&self) -> Vec<String> {
        let folder = ObjectLocation::parse(&self.name).unwrap();
        let items = Folder::new(&folder).list().unwrap().into_iter();
        let names = items.map(|item| item.name);
        names.filter(|name| name != "source.pb").collect()
    }

    pub fn planner(&self, parts: usize) -> Planner {
        Planner::new(NonZeroUsize::new(parts).unwrap()).objects(objects(Small::default()))
    }

    pub fn split(&self, prefix: &str, parts: usize) -> Result<PartsPlan> {
        self.planner(parts).split_object(
            &SizeSplitter,
            (
                &self.url("source.pb"),
                FileDescriptorProto::default().descriptor(),
            ),
            self.url(prefix),
            &split_options(),
        )
    }

    pub fn merge(&self, prefix: &str, target: &str, parts: usize) -> Result<PartsPlan> {
        let input = self.url(&format!("{prefix}.cpb"));
        let target = self.url(target);
        self.planner(parts).merge(input, target, ReadOptions::new())
    }

    /// Returns the message that merging the object `PREFIX.cpb` on one host yields.
    pub fn merged(&self, prefix: &str) -> Vec<u8> {
        let options = ObjectReadOptions::new();
        let reader = ObjectReader::open(&self.at(&format!("{prefix}.cpb")), &options).unwrap();
        let file = open_chunked(reader, &Limits::new(), &options).unwrap();
        let mut merged = Vec::new();
        file.merge_to(&mut merged, &ReadOptions::new()).unwrap();
        merged
    }
}
