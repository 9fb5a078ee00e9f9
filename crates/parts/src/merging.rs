//! Merging in parts, all of which write into the same file or object.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::chunked_input::{ChunkedInput, invalid_plan, open};
use super::identity::{absolute_beside, text_of};
use super::message_type::message_type;
use super::objects::{Objects, Stores, is_absolute, is_object, named};
use super::options::PartOptions;
use super::rereading::{WrittenRange, reread_ranges, sum_up};
use super::shares::shares;
use super::uploading::{Uploading, check_no_object};
use crate::proto::report::Result as Outcome;
use crate::proto::{MergePlan as PlanMessage, MergeReport, Upload};
use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::atomic::{check_absent, check_replaceable, check_space};
use proto_splitter_core::atomic::{sync_folder, warn_unless_synced};
use proto_splitter_core::checksum::combine;
use proto_splitter_core::merge::{ChunkStore, MergeOptions, MergePlan, Merged};
use proto_splitter_core::part_work::remove_file;
use proto_splitter_core::part_work::{check_size, compared, with_plan, write_at};
use proto_splitter_core::part_work::{folder, open_file, written_through};
use proto_splitter_core::part_work::{hold_shared, remove_abandoned};
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::threads;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Plans a merge of the chunked file or object `input` to `target`. Also returns the files of the
/// input.
pub(super) fn plan(
    input: &Path,
    target: &Path,
    options: &MergeOptions,
    (parts, stores): (NonZeroUsize, Stores<'_>),
) -> Result<(PlanMessage, MadeFrom)> {
    let (force, options) = (options.get_force(), options.get_reading());
    let object = named(target, stores)?;
    let (store, planned) = open(input, stores, options.get_limits())?;
    let (trailer, made_from) = (store.trailer(), MadeFrom::files(store.paths()));
    let place = match object {
        Some((name, objects)) => {
            check_no_object(name, &**objects, force)?;
            check_not_read(name, &**objects, (&planned.path, &trailer.metadata().files))?;
            name.to_owned()
        }
        None => place_of(target, &made_from, force)?,
    };
    let (part_ends, upload) = with_plan(trailer, &store, options, |_, plan| {
        let total = plan.total_len();
        check_size(trailer, total)?;
        let Some((name, objects)) = object else {
            return Ok((ends(plan, parts), None));
        };
        let upload = objects.begin_upload(name, total)?;
        let upload = Upload {
            id: upload.id,
            part_size: upload.part_size,
        };
        Ok((ends_of_upload(total, upload.part_size, parts), Some(upload)))
    })?;
    let plan = PlanMessage {
        input: Some(planned),
        target: place,
        force,
        part_ends,
        r#type: Some(message_type(options)),
        upload,
    };
    Ok((plan, made_from))
}

/// Returns the absolute path of the merged file, which is the same on every host. Fails if the file
/// exists and must not be replaced.
fn place_of(target: &Path, made_from: &MadeFrom, force: bool) -> Result<String> {
    let target = written_through(target)?;
    check_target(&target, made_from, force)?;
    let name = text_of(target.file_name().unwrap_or_default().into())?;
    absolute_beside(&target, &name)
}

/// Fails unless a merge of the files in `made_from` may create or replace the file at `target`.
fn check_target(target: &Path, made_from: &MadeFrom, force: bool) -> Result<()> {
    made_from.check_apart(target)?;
    check_absent(target, force)?;
    fs::metadata(target).map_or(Ok(()), |there| {
        check_replaceable(&there).map_err(|error| Error::from(error).in_file(target))
    })
}

/// Fails if the object `target` is the chunked input `main`, or an object with chunks that the
/// input names.
fn check_not_read(
    target: &str,
    objects: &dyn Objects,
    (main, named): (&str, &[ExternalFile]),
) -> Result<()> {
    if !is_object(main) {
        return Ok(());
    }
    let full_name = objects.full_name(target)?;
    let named = named
        .iter()
        .map(|file| objects.url_beside(main, &file.path));
    for source in std::iter::once(Ok(main.to_owned())).chain(named) {
        if objects.full_name(&source?)? == full_name {
            let message = format!("refusing to overwrite the input {target}");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    }
    Ok(())
}

/// Returns the end of each part's bytes in the merged message. Each part ends between two segments.
/// If a part ended within a segment, two parts would have to read the same chunk, each for only
/// some of the chunk's bytes.
fn ends(plan: &MergePlan, parts: NonZeroUsize) -> Vec<u64> {
    let spans = plan.spans();
    let sizes: Vec<u64> = spans.iter().map(|span| span.len).collect();
    let ends = shares(&sizes, parts, |_| true);
    let end = |count: u64| {
        let next = usize::try_from(count).ok().and_then(|at| spans.get(at));
        next.map_or(plan.total_len(), |next| next.offset)
    };
    ends.into_iter().map(end).collect()
}

/// Returns the end of each part's bytes in a merged message that is uploaded. Each of these ends is
/// also the end of a part of the upload.
fn ends_of_upload(total: u64, part_size: u64, parts: NonZeroUsize) -> Vec<u64> {
    let count = usize::try_from(total.div_ceil(part_size.max(1))).unwrap_or(usize::MAX);
    let ends = shares(&vec![part_size; count], parts, |_| true);
    let ends = ends.into_iter();
    ends.map(|end| end.saturating_mul(part_size).min(total))
        .collect()
}

/// A checked plan for a merge.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    input: ChunkedInput,
    target: PathBuf,
    force: bool,
    /// Upload to which all parts belong; `None` if the target is a file.
    upload: Option<Uploading>,
}

impl Planned {
    /// Checks a decoded plan for a merge.
    pub(super) fn checked(message: PlanMessage) -> Result<Planned> {
        let PlanMessage {
            input,
            target,
            force,
            part_ends,
            r#type,
            upload,
        } = message;
        if !is_absolute(&target) {
            return Err(invalid_plan("merge", "has paths that aren't absolute"));
        }
        let upload = Uploading::checked(&target, upload, force, &part_ends)?;
        let target = PathBuf::from(target);
        let input = ChunkedInput::checked("merge", input, r#type.as_ref(), part_ends)?;
        Ok(Planned {
            input,
            target,
            force,
            upload,
        })
    }

    pub(super) fn input(&self) -> &ChunkedInput {
        &self.input
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    fn total(&self) -> u64 {
        self.input.end()
    }

    /// Returns the path of the hidden file into which all parts of the plan called `id` write.
    fn room(&self, id: &[u8; 16]) -> PathBuf {
        let id: String = id[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}{id}.tmp", self.rooms());
        self.target().with_file_name(name)
    }

    /// Returns the prefix of the names of all hidden files for merges to this target.
    fn rooms(&self) -> String {
        let name = self.target.file_name().unwrap_or_default();
        let name = crc32c::crc32c(name.as_encoded_bytes());
        format!(".protosplit-merge-{name:08x}-")
    }

    /// Removes the hidden files of earlier plans for a merge to the same target, since this plan
    /// replaces those plans. Keeps a file that a host has open.
    fn remove_earlier(&self, room: &Path) {
        let (rooms, folder) = (self.rooms(), folder(room));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        let of_target = |name: &OsString| {
            let id = name.to_str().and_then(|name| name.strip_prefix(&rooms));
            id.is_some_and(|id| id.len() == "0123456789abcdef.tmp".len() && id.ends_with(".tmp"))
        };
        for path in names.filter(of_target).map(|name| folder.join(name)) {
            if path != room {
                remove_abandoned(&path);
            }
        }
    }

    /// Creates the hidden file into which all parts write. `made_from` contains the files of the
    /// input. Keeps an existing file, since it contains data that parts of the same plan have
    /// written.
    pub(super) fn make_room(&self, id: &[u8; 16], made_from: &MadeFrom) -> Result<()> {
        if self.upload.is_some() {
            return Ok(());
        }
        let room = self.room(id);
        self.remove_earlier(&room);
        let failed = |error: io::Error| Error::from(error).in_file(&room);
        check_space(&room, self.total())?;
        if fs::metadata(&room).is_ok_and(|there| there.len() == self.total()) {
            return Ok(());
        }
        let file = AtomicFile::create(&room, made_from, true)?;
        file.as_file().set_len(self.total()).map_err(failed)?;
        file.commit()
    }

    /// Opens the hidden file into which all parts write. Fails if its size
    /// differs from the planned size.
    fn open_room(&self, room: &Path) -> Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(room)
            .map_err(|error| {
                if error.kind() == io::ErrorKind::NotFound {
                    return self.no_room(room);
                }
                Error::from(error).in_file(room)
            })?;
        hold_shared(&file);
        let size = file.metadata()?.len();
        if size != self.total() {
            let message = format!(
                "{}: it has {size} bytes, but the plan says {}",
                room.display(),
                self.total()
            );
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
        Ok(file)
    }

    #[cold]
    fn no_room(&self, room: &Path) -> Error {
        let (room, target) = (room.display(), self.target().display());
        let (kind, why) = match (self.target().exists(), self.force) {
            (false, _) => (ErrorKind::Io, "was planned again or abandoned"),
            (true, false) => (ErrorKind::AlreadyExists, "was committed"),
            // The target may be the file that the merge is allowed to replace.
            (true, true) => (
                ErrorKind::AlreadyExists,
                "was committed, planned again or abandoned",
            ),
        };
        let message = format!("{room} doesn't exist: the merge to {target} {why}");
        Error::new(kind, message)
    }

    /// Writes the bytes of a part into the plan's hidden file or, if the target is an object,
    /// uploads them.
    pub(super) fn run(&self, part: usize, id: &[u8; 16], options: &PartOptions) -> Result<Outcome> {
        let range = self.input.share(part)?;
        let size = range.end - range.start;
        if let Some(upload) = &self.upload {
            let first = upload.begin(range.start, options)?;
            let (crc32c, uploaded) = self.with_part(range, options, |own, chunks| {
                first.send(own, chunks, &options.progress)
            })?;
            return Ok(Outcome::Merge(MergeReport {
                size,
                crc32c,
                uploaded,
            }));
        }
        let room = self.room(id);
        let file = self.open_room(&room)?;
        let start = range.start;
        let crc32c = self.with_part(range, options, |own, chunks| {
            let meter = options.progress.meter(own.total_len());
            let threads = threads::count(options.threads);
            write_at(own, chunks, (&file, start), threads, &meter)
                .map_err(|error| at_target(error, &room))
        })?;
        let failed = |error: io::Error| Error::from(error).in_file(&room);
        file.sync_data().map_err(failed)?;
        // If the merge was committed in the meantime, the file has its final name. Its readers
        // still see correct data, since this part has written the same bytes again.
        if !is_at(&file, &room) {
            return Err(self.no_room(&room));
        }
        Ok(Outcome::Merge(MergeReport {
            size,
            crc32c,
            uploaded: Vec::new(),
        }))
    }

    /// Plans the merge again, and calls `execute` with a plan for only the bytes at `range` of the
    /// message.
    fn with_part<T>(
        &self,
        range: Range<u64>,
        options: &PartOptions,
        execute: impl FnOnce(&MergePlan, &dyn ChunkStore) -> Result<T>,
    ) -> Result<T> {
        let merging = self.input.options(options);
        let store = self.input.open(options)?;
        with_plan(store.trailer(), &store, &merging, |chunks, plan| {
            if plan.total_len() != self.total() {
                let message = format!(
                    "the merge has {} bytes, but the plan says {}",
                    plan.total_len(),
                    self.total()
                );
                return Err(Error::new(ErrorKind::SourceChanged, message));
            }
            execute(&plan.clip(&[range]), chunks)
        })
    }

    /// After checking the reports, renames the plan's hidden file to the target or, if the target
    /// is an object, completes the upload.
    pub(super) fn commit(
        &self,
        outcomes: &[&Outcome],
        id: &[u8; 16],
        options: &PartOptions,
    ) -> Result<Merged> {
        let written = self.written(outcomes)?;
        let crc32c = written.iter().fold(0, |crc32c, part| {
            combine(crc32c, part.crc32c, part.range.end - part.range.start)
        });
        let store = self.input.open(options)?;
        let trailer = store.trailer();
        check_size(trailer, self.total())?;
        let mut merged = compared(trailer, self.total(), crc32c)?;
        merged.input = self.input.path().to_owned();
        options.progress.check()?;
        if let Some(upload) = &self.upload {
            upload.commit(outcomes, (&written, crc32c), options)?;
            return Ok(merged);
        }
        let room = self.room(id);
        match self.open_room(&room) {
            Ok(_) if !self.force && self.is_done(crc32c, options)? => {
                // An earlier commit was interrupted before it removed the hidden name of the file.
                remove_room(&room);
                return Ok(merged);
            }
            Ok(file) if options.reread => {
                reread_ranges(&file, &written, &room.display().to_string(), options)?;
            }
            Ok(file) => drop(file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return if self.is_done(crc32c, options)? {
                    Ok(merged)
                } else {
                    Err(error)
                };
            }
            Err(error) => return Err(error),
        }
        self.place(&room, &MadeFrom::files(store.paths()))?;
        Ok(merged)
    }

    /// Returns the range and the checksum of the bytes that each part wrote, according to its
    /// report.
    fn written(&self, outcomes: &[&Outcome]) -> Result<Vec<WrittenRange>> {
        let written = outcomes.iter().enumerate().map(|(part, outcome)| {
            let range = self.input.share(part)?;
            match outcome {
                Outcome::Merge(done) if done.size == range.end - range.start => Ok(WrittenRange {
                    range,
                    crc32c: done.crc32c,
                }),
                _ => {
                    let message = format!("part {part}: its report has other bytes than the plan");
                    Err(Error::new(ErrorKind::InvalidMessage, message))
                }
            }
        });
        written.collect()
    }

    /// Returns true if the target is already the merged message, since the plan was committed
    /// before.
    fn is_done(&self, crc32c: u32, options: &PartOptions) -> Result<bool> {
        let target = self.target();
        let failed = |error: Error| error.in_file(target);
        match fs::metadata(target) {
            Ok(there) if there.is_file() && there.len() == self.total() => {}
            _ => return Ok(false),
        }
        let file = open_file(target)?;
        let meter = options.progress.meter(self.total());
        Ok(sum_up(&file, 0..self.total(), &meter).map_err(failed)? == crc32c)
    }

    fn place(&self, room: &Path, made_from: &MadeFrom) -> Result<()> {
        let target = self.target();
        let failed = |error: io::Error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => check_absent(target, false).err(),
                _ => None,
            }
            .unwrap_or_else(|| Error::from(error).in_file(target))
        };
        if self.force {
            check_target(target, made_from, true)?;
            fs::rename(room, target).map_err(failed)?;
        } else {
            // Unlike a rename, a hard link fails if the target exists.
            fs::hard_link(room, target).map_err(failed)?;
            sync_folder(folder(target)).map_err(failed)?;
            remove_room(room);
        }
        warn_unless_synced(target);
        Ok(())
    }
}

/// Removes the hidden name of a file that now also has the target's name. If this fails, the next
/// commit of the plan removes the name.
fn remove_room(room: &Path) {
    if let Err(error) = remove_file(room) {
        tracing::warn!("{} was not removed: {error}", room.display());
    }
}

/// Returns true if `path` refers to the open file `file`.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let [open, named] =
            [file.metadata(), fs::metadata(path)].map(|found| found.map(identity).ok());
        open.is_some() && open == named
    }
    #[cfg(not(unix))]
    {
        file.metadata().is_ok() && path.exists()
    }
}
