//! The plan that all hosts read.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use highway::{HighwayHash, HighwayHasher, Key};
use prost::Message;
use prost_reflect::MessageDescriptor;

use super::committed::Committed;
use super::format::{PLAN_VERSION, check_checksum, read_file, with_checksum, write_file};
use super::objects::{Objects, Stores, given};
use super::options::PartOptions;
use super::report::{PartReport, of_all_parts};
use super::store::{PartStore, main_of};
use super::{merging, splitting, verifying};
use crate::proto::Plan;
use crate::proto::plan::Work;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::merge::MergeOptions;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{ComposableSplitter, Source, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};

/// A plan for a split, a merge or a verification in parts; see the [crate](super).
#[derive(Clone, Debug)]
pub struct PartsPlan {
    work: Planned,
    id: [u8; 16],
    bytes: Bytes,
}

/// The checked plan of a split, a merge or a verification.
#[derive(Clone, Debug)]
enum Planned {
    Split(Box<splitting::Planned>),
    Merge(merging::Planned),
    Verify(verifying::Planned),
}

/// Options for planning: the number of parts, and the access to object stores.
///
/// A URL names an object in one of the [stores](Self::objects). Any other name is the path of a
/// file, as in [`PartsPlan::split`], [`merge`](PartsPlan::merge) and [`verify`](PartsPlan::verify).
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_parts::Planner;
/// let planner = Planner::new(NonZeroUsize::MIN);
/// let error = planner.verify("s3://bucket/model.cpb", &ReadOptions::new()).unwrap_err();
/// assert!(error.to_string().starts_with("s3://bucket/model.cpb: an object in a store"));
/// ```
#[derive(Clone, Debug)]
pub struct Planner {
    parts: NonZeroUsize,
    objects: Option<Arc<dyn Objects>>,
}

impl Planner {
    /// Creates a planner for at most `parts` parts, without access to object stores.
    #[must_use]
    pub const fn new(parts: NonZeroUsize) -> Planner {
        Planner {
            parts,
            objects: None,
        }
    }

    /// Sets the access to object stores. Default: `None`, so that only files can be read and
    /// written.
    #[must_use]
    pub fn objects(mut self, objects: impl Into<Option<Arc<dyn Objects>>>) -> Planner {
        self.objects = objects.into();
        self
    }

    fn how(&self) -> (NonZeroUsize, Stores<'_>) {
        (self.parts, self.objects.as_ref())
    }

    /// Plans the split of a message in a file, like [`PartsPlan::split`].
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::split`], and any error from the stores.
    pub fn split<P: ComposableSplitter + ?Sized>(
        &self,
        splitter: &P,
        source: &Source,
        prefix: impl AsRef<Path>,
        options: &SplitOptions,
    ) -> Result<PartsPlan> {
        let source = (source, splitting::of_file(source)?);
        let work = splitting::plan(splitter, source, prefix.as_ref(), options, self.how())?;
        PartsPlan::new(Work::Split(work))
    }

    /// Plans the split of an object that contains a message of the given type, like
    /// [`PartsPlan::split`].
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::split`], and any error from the stores.
    pub fn split_object<P: ComposableSplitter + ?Sized>(
        &self,
        splitter: &P,
        (name, descriptor): (&str, MessageDescriptor),
        prefix: impl AsRef<Path>,
        options: &SplitOptions,
    ) -> Result<PartsPlan> {
        let objects = given(self.objects.as_ref(), name)?;
        let (source, now) = splitting::of_object(name, &**objects, descriptor)?;
        let source = (&source, now);
        let work = splitting::plan(splitter, source, prefix.as_ref(), options, self.how())?;
        PartsPlan::new(Work::Split(work))
    }

    /// Plans a merge, like [`PartsPlan::merge`]. If the target is an object, this begins an upload,
    /// to which all parts contribute. An upload that is never committed stays in the store,
    /// invisible, until a rule of the store removes it.
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::merge`], and any error from the stores.
    pub fn merge(
        &self,
        input: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: impl Into<MergeOptions>,
    ) -> Result<PartsPlan> {
        let (input, target) = (input.as_ref(), target.as_ref());
        let (work, made_from) = merging::plan(input, target, &options.into(), self.how())?;
        let plan = PartsPlan::new(Work::Merge(work))?;
        if let Planned::Merge(planned) = &plan.work {
            planned.make_room(&plan.id, &made_from)?;
        }
        Ok(plan)
    }

    /// Plans a verification, like [`PartsPlan::verify`].
    ///
    /// # Errors
    ///
    /// The errors of [`PartsPlan::verify`], and any error from the stores.
    pub fn verify(&self, input: impl AsRef<Path>, options: &ReadOptions) -> Result<PartsPlan> {
        let work = verifying::plan(input.as_ref(), options, self.how())?;
        PartsPlan::new(Work::Verify(work))
    }
}

impl PartsPlan {
    /// Plans the split of a message into `PREFIX.cpb`, in `parts` parts. Each part writes a
    /// separate file next to `PREFIX.cpb`. Planning reads only the message's tags and lengths.
    /// There are more parts if a [maximum file size](SplitOptions::max_file_size) requires more
    /// files, and fewer parts if there are fewer chunks.
    ///
    /// Equal chunks are stored once in each part that contains them. The output is a `.cpb` even if
    /// the message is so small that it needs no cut.
    ///
    /// # Errors
    ///
    /// The errors of [`SplitExt::plan`](proto_splitter_core::split::SplitExt::plan);
    /// [`ErrorKind::InvalidConfig`] if the message is not in a file, or the profile isn't
    /// [`Extended`](proto_splitter_core::split::Profile::Extended), the only profile that allows
    /// several files; [`ErrorKind::LimitExceeded`] if the result would have more than 100,000
    /// files. Readers need a larger [`max_files`](proto_splitter_core::merge::Limits::max_files)
    /// for a result with more than
    /// [`DEFAULT_MAX_FILES`](proto_splitter_core::merge::DEFAULT_MAX_FILES) files.
    pub fn split<P: ComposableSplitter + ?Sized>(
        splitter: &P,
        source: &Source,
        prefix: impl AsRef<Path>,
        options: &SplitOptions,
        parts: NonZeroUsize,
    ) -> Result<PartsPlan> {
        Planner::new(parts).split(splitter, source, prefix, options)
    }

    /// Plans the merge of a chunked file into the file `target`, in at most `parts` parts. Creates
    /// a hidden file next to the target, with the size of the merged message. All parts write into
    /// this file.
    ///
    /// # Errors
    ///
    /// The errors of [`Merger::merge_to_file`](proto_splitter_core::merge::Merger::merge_to_file).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use proto_splitter_core::merge::ReadOptions;
    /// # use proto_splitter_parts::{Committed, PartOptions, PartsPlan};
    /// # use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    /// # let folder = tempfile::tempdir()?;
    /// # let (prefix, target) = (folder.path().join("m"), folder.path().join("m.pb"));
    /// # let file = proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto {
    /// #     name: Some("n".repeat(5000)), ..Default::default() };
    /// # let written = SizeSplitter.write_with(&file, &prefix, &SplitOptions::new().max_chunk_size(1000))?;
    /// # let two = NonZeroUsize::new(2).unwrap();
    /// let plan = PartsPlan::merge(&written.path, &target, &ReadOptions::new(), two)?;
    /// let options = PartOptions::new();
    /// let reports = (0..plan.parts()).map(|part| plan.run(part, &options)).collect::<Result<Vec<_>, _>>()?;
    /// assert!(!target.exists());
    /// let Committed::Merge(merged) = plan.commit(&reports, &options)? else { panic!() };
    /// assert_eq!((merged.size, merged.byte_exact), (5003, Some(true)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge(
        input: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: impl Into<MergeOptions>,
        parts: NonZeroUsize,
    ) -> Result<PartsPlan> {
        Planner::new(parts).merge(input, target, options)
    }

    /// Plans the verification of a chunked file in at most `parts` parts.
    ///
    /// # Errors
    ///
    /// The errors of [`ChunkedFile::open`](proto_splitter_core::ChunkedFile::open).
    pub fn verify(
        input: impl AsRef<Path>,
        options: &ReadOptions,
        parts: NonZeroUsize,
    ) -> Result<PartsPlan> {
        Planner::new(parts).verify(input, options)
    }

    fn new(work: Work) -> Result<PartsPlan> {
        let plan = Plan {
            version: PLAN_VERSION,
            work: Some(work),
            crc32c: 0,
        };
        PartsPlan::from_bytes(with_checksum(plan.encode_to_vec()))
    }

    /// Parses a plan that [`to_bytes`](Self::to_bytes) serialized, and checks all of it except for
    /// the metadata of records, which only the commit needs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the bytes are not a plan, or are inconsistent;
    /// [`ErrorKind::ChecksumMismatch`] if they are damaged; [`ErrorKind::UnsupportedVersion`] if
    /// the plan's version is later than this crate supports.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<PartsPlan> {
        let bytes: Bytes = bytes.into();
        let invalid = |why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::InvalidMessage, format!("not a plan: {why}"))
        };
        check_checksum(&bytes, "a plan")?;
        let plan = Plan::decode(bytes.clone()).map_err(|error| invalid(&error))?;
        if plan.version > PLAN_VERSION {
            let message = format!("the plan has the unsupported version {}", plan.version);
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
        let work = match plan.work {
            Some(work) if plan.version > 0 => work,
            _ => return Err(invalid(&"it has no work")),
        };
        let work = match work {
            Work::Split(work) => Planned::Split(Box::new(splitting::Planned::checked(work)?)),
            Work::Merge(work) => Planned::Merge(merging::Planned::checked(work)?),
            Work::Verify(work) => Planned::Verify(verifying::Planned::checked(work)?),
        };
        let [high, low] = HighwayHasher::new(Key::default()).hash128(&bytes);
        let id = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        Ok(PartsPlan { work, id, bytes })
    }

    /// Returns the serialized plan.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    ///
    /// The errors of [`from_bytes`](Self::from_bytes); [`ErrorKind::Io`] if reading fails;
    /// [`ErrorKind::LimitExceeded`] if the file is larger than
    /// [`DEFAULT_MAX_PLAN_SIZE`](super::DEFAULT_MAX_PLAN_SIZE).
    pub fn read(path: impl AsRef<Path>) -> Result<PartsPlan> {
        let path = path.as_ref();
        PartsPlan::from_bytes(read_file(path)?).map_err(|error| error.in_file(path))
    }

    /// Writes the plan to a file, which appears completely or not at all. Replaces an existing file
    /// if `force` is true, unless it is the input. A new file gets no permissions that the input
    /// lacks.
    ///
    /// # Errors
    ///
    /// The errors of [`AtomicFile::create`] and [`AtomicFile::commit`].
    pub fn write(&self, path: impl AsRef<Path>, force: bool) -> Result<()> {
        write_file(path.as_ref(), &self.bytes, &self.made_from(), force)
    }

    /// Returns the input, whose content the plan and the reports may reveal.
    pub(super) fn made_from(&self) -> MadeFrom {
        MadeFrom::files([self.files().0])
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        match &self.work {
            Planned::Split(work) => work.parts(),
            Planned::Merge(work) => work.input().parts(),
            Planned::Verify(work) => work.input().parts(),
        }
    }

    /// Returns the unique id of the plan, in hexadecimal.
    pub fn id(&self) -> String {
        self.id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the operation of the plan: `split`, `merge` or `verify`.
    pub fn verb(&self) -> &'static str {
        match &self.work {
            Planned::Split(_) => "split",
            Planned::Merge(_) => "merge",
            Planned::Verify(_) => "verify",
        }
    }

    /// Returns the paths or URLs of the input and of the output. The output is `None` for a
    /// verification.
    pub fn files(&self) -> (&Path, Option<std::path::PathBuf>) {
        match &self.work {
            Planned::Split(work) => (work.source(), Some(work.main())),
            Planned::Merge(work) => (work.input().path(), Some(work.target().to_owned())),
            Planned::Verify(work) => (work.input().path(), None),
        }
    }

    /// Runs the part with index `part`, counted from 0. A part of a split writes its file next to
    /// the main file. Objects are read and written through the [stores](PartOptions::objects) in
    /// the options.
    ///
    /// A part can be run any number of times, on any host, even concurrently or after the commit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if the input has changed since the plan was made;
    /// [`ErrorKind::InvalidConfig`] if the plan doesn't have this part; any error from splitting,
    /// merging or opening a file. If a part of a verification finds problems in the file, the
    /// report lists them, and the part doesn't fail.
    pub fn run(&self, part: usize, options: &PartOptions) -> Result<PartReport> {
        let outcome = match &self.work {
            Planned::Split(work) => work.run(part, &*work.store(options)?, options)?,
            Planned::Merge(work) => work.run(part, &self.id, options)?,
            Planned::Verify(work) => work.run(part, options)?,
        };
        Ok(PartReport::new(&self.id, part, outcome))
    }

    /// Runs a part like [`run`](Self::run), except that a part of a split writes its file to
    /// `store`.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), and any error from the store.
    pub fn run_to(
        &self,
        part: usize,
        store: &dyn PartStore,
        options: &PartOptions,
    ) -> Result<PartReport> {
        match &self.work {
            Planned::Split(work) => {
                let outcome = work.run(part, store, options)?;
                Ok(PartReport::new(&self.id, part, outcome))
            }
            _ => self.run(part, options),
        }
    }

    /// Completes the work: the result gets its final name. `reports` must contain a report of every
    /// part. If a part was run more than once, the first of its reports is used.
    ///
    /// Committing again with the same reports also succeeds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a report is missing, or belongs to another plan;
    /// [`ErrorKind::Io`] or [`ErrorKind::ChecksumMismatch`] if the file of a part is missing or
    /// differs from its report; [`ErrorKind::AlreadyExists`] if the target exists with other
    /// content and the plan doesn't allow replacing it; [`ErrorKind::SourceChanged`] if the input
    /// has changed since the plan was made.
    pub fn commit(&self, reports: &[PartReport], options: &PartOptions) -> Result<Committed> {
        let outcomes = of_all_parts(reports, &self.id, self.parts())?;
        match &self.work {
            Planned::Split(work) => {
                let store = work.store(options)?;
                let written = work.commit(&outcomes, &*store, options);
                written.map(Committed::Split)
            }
            Planned::Merge(work) => {
                let merged = work.commit(&outcomes, &self.id, options);
                merged.map(Committed::Merge)
            }
            Planned::Verify(work) => work.commit(&outcomes, options).map(Committed::Verify),
        }
    }

    /// Returns the main file of a split, which doesn't have its final name yet. `reports` must
    /// contain a report of every part, and `store` must contain the files of the parts. The caller
    /// has to store the main file under its final name, exactly once, and only if no file with this
    /// name exists.
    ///
    /// # Errors
    ///
    /// The errors of [`commit`](Self::commit); [`ErrorKind::InvalidConfig`] if the plan isn't a
    /// split.
    pub fn main_file(
        &self,
        reports: &[PartReport],
        store: &dyn PartStore,
        options: &PartOptions,
    ) -> Result<AtomicFile> {
        let outcomes = of_all_parts(reports, &self.id, self.parts())?;
        match &self.work {
            Planned::Split(work) => Ok(work.main_file(&outcomes, store, options)?.0),
            _ => {
                let message = format!("the plan of a {} has no main file", self.verb());
                Err(Error::new(ErrorKind::InvalidConfig, message))
            }
        }
    }

    /// Returns the name of the main file of a split, without its folder; `None` if the plan isn't
    /// for a split.
    pub fn main_name(&self) -> Option<String> {
        match &self.work {
            Planned::Split(work) => {
                let main = main_of(work.prefix());
                Some(main.file_name()?.to_str()?.to_owned())
            }
            _ => None,
        }
    }
}
