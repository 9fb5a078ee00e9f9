//! Access to stores for splits, merges and verifications that several hosts perform in parts. The
//! plan for such an operation names objects by URL.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_parts::{ObjectUpload, Objects, OpenObject, UploadParts};
use record_file::ReadAt;

use crate::chunked::beside;
use crate::failure::{Failure, lifted};
use crate::location::ObjectLocation;
use crate::multipart::Uploads;
use crate::options::{ObjectReadOptions, ObjectWriteOptions};
use crate::reader::ObjectReader;
use crate::redact::{has_secret, redact};
use crate::runtime;
use crate::upload::{Uploader, said};
use crate::writer::ObjectWriter;

/// Size of the pieces in which an object's content is copied, in bytes: 1 MiB.
const COPY_LEN: usize = 1 << 20;

/// Access to objects by URL, for splits, merges and verifications that several hosts perform in
/// parts.
///
/// Each part of a split becomes a separate object, named by its content. The commit of a split
/// writes one more object, with a single request that the store rejects if the object exists. A
/// merge is an upload in parts: each host uploads its own part, and the commit makes the store
/// assemble the parts without reading them. S3 rejects the commit if the object exists. Other
/// stores don't support such a condition, so immediately before the parts are assembled, the commit
/// checks whether the object exists.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
///
/// use prost_reflect::prost_types::FileDescriptorProto;
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_parts::{Committed, Objects, PartOptions, Planner};
/// use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
/// use proto_splitter_object_store::{ObjectLocation, ObjectParts, ObjectWriter, ObjectWriteOptions};
///
/// let message = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
/// let location = ObjectLocation::parse("memory:///parts/message.cpb")?;
/// let mut writer = ObjectWriter::create(&location, &ObjectWriteOptions::new())?;
/// let options = SplitOptions::new().max_chunk_size(1000);
/// SizeSplitter.write_to_with(Source::from(&message), &mut writer, &options)?;
/// writer.finish()?;
///
/// let stores: Arc<dyn Objects> = Arc::new(ObjectParts::new());
/// let planner = Planner::new(NonZeroUsize::MIN).objects(Arc::clone(&stores));
/// let target = "memory:///parts/message.pb";
/// let plan = planner.merge("memory:///parts/message.cpb", target, ReadOptions::new())?;
/// let options = PartOptions::new().objects(stores);
/// let report = plan.run(0, &options)?;
/// assert!(!ObjectLocation::parse(target)?.exists()?);
/// let Committed::Merge(merged) = plan.commit(&[report], &options)? else { panic!() };
/// assert_eq!((merged.size, merged.byte_exact), (5003, Some(true)));
/// assert!(ObjectLocation::parse(target)?.exists()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ObjectParts {
    reading: ObjectReadOptions,
    writing: ObjectWriteOptions,
}

impl ObjectParts {
    /// Creates an accessor with the default options for reading and writing.
    #[must_use]
    pub const fn new() -> ObjectParts {
        ObjectParts {
            reading: ObjectReadOptions::new(),
            writing: ObjectWriteOptions::new(),
        }
    }

    /// Sets the options for reading objects. Default: [`ObjectReadOptions::new`].
    #[must_use]
    pub fn reading(mut self, options: ObjectReadOptions) -> Self {
        self.reading = options;
        self
    }

    /// Sets the options for writing objects. Default: [`ObjectWriteOptions::new`]. The option
    /// [`force`](ObjectWriteOptions::force) is ignored: the plan specifies whether existing objects
    /// are replaced.
    #[must_use]
    pub fn writing(mut self, options: ObjectWriteOptions) -> Self {
        self.writing = options;
        self
    }
}

impl Objects for ObjectParts {
    fn is_object(&self, name: &str) -> bool {
        ObjectLocation::is_url(name)
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if !has_secret(name) {
            return Ok(());
        }
        let name = redact(name);
        let message = format!("{name}: a plan can't store a URL with a password or a token");
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    fn open(&self, name: &str) -> Result<OpenObject> {
        let reader = ObjectReader::open(&ObjectLocation::parse(name)?, &self.reading)?;
        Ok(OpenObject {
            version: reader.version()?,
            source: Arc::new(reader),
        })
    }

    fn open_beside(&self, main: &str, named: &str) -> Result<Arc<dyn ReadAt>> {
        let location = beside(&ObjectLocation::parse(main)?, named)?;
        Ok(Arc::new(ObjectReader::begin(&location, &self.reading)?))
    }

    fn url_beside(&self, main: &str, named: &str) -> Result<String> {
        Ok(beside(&ObjectLocation::parse(main)?, named)?.url())
    }

    fn full_name(&self, name: &str) -> Result<String> {
        Ok(ObjectLocation::parse(name)?.full_name())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(ObjectLocation::parse(name)?.exists()?)
    }

    fn put(&self, name: &str, content: &mut dyn Read, size: u64, force: bool) -> Result<()> {
        let options = self.writing.clone().force(force).expected_size(size);
        let location = ObjectLocation::parse(name)?;
        let mut writer = ObjectWriter::create(&location, &options).map_err(lifted)?;
        let mut content = BufReader::with_capacity(COPY_LEN, content.take(size));
        io::copy(&mut content, &mut writer)?;
        if writer.written() != size {
            let message = format!("{name}: {} bytes arrived, not {size}", writer.written());
            return Err(Error::new(ErrorKind::Io, message));
        }
        writer.finish().map(drop).map_err(lifted)
    }

    fn put_at_once(&self, name: &str, content: Vec<u8>, force: bool) -> Result<()> {
        let location = ObjectLocation::parse(name)?;
        location.check_writable()?;
        match location.put(content, force)? {
            Ok(_) => Ok(()),
            Err(error) => Err(lifted(Failure::of(name, &error).into())),
        }
    }

    fn begin_upload(&self, name: &str, size: u64) -> Result<ObjectUpload> {
        let location = ObjectLocation::parse(name)?;
        let uploads = in_parts(&location)?;
        let begun = runtime::wait(uploads.begin(location.path()))?;
        let id = begun.map_err(|error| said(name, &error))?;
        let part_size = self.writing.clone().expected_size(size).part_len();
        Ok(ObjectUpload { id, part_size })
    }

    fn upload_from(
        &self,
        name: &str,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Box<dyn UploadParts>> {
        let location = ObjectLocation::parse(name)?;
        let uploader = Uploader::new(&location, in_parts(&location)?, upload, first)?;
        Ok(Box::new(uploader.at_once(self.writing.at_once)))
    }

    fn finish_upload(
        &self,
        name: &str,
        upload: &ObjectUpload,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()> {
        let location = ObjectLocation::parse(name)?;
        let uploads = in_parts(&location)?;
        let done = uploads.complete(location.path(), &upload.id, parts, force);
        let done = runtime::wait(done)?;
        done.map_err(|error| lifted(said(name, &error)))
    }
}

/// Returns the interface of a store through which several hosts can upload parts of one object.
/// Fails if the store doesn't support this.
fn in_parts(location: &ObjectLocation) -> Result<&Uploads> {
    location.check_writable()?;
    location.uploads().ok_or_else(|| {
        let message =
            format!("{location}: hosts can't upload parts of the same object to this store");
        Error::new(ErrorKind::InvalidConfig, message)
    })
}
