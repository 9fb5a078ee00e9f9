//! A merge in parts, into one file that was made for all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::chunked_input::{ChunkedInput, invalid_plan};
use super::identity::{absolute_beside, identify, text_of};
use super::message_type::message_type;
use super::options::PartOptions;
use super::shares::shares;
use crate::io::synced::{remove_file, sync_folder, warn_unless_synced};
use crate::io::{
    AtomicFile, check_absent, check_space, combine, folder, same_file, threads, written_through,
};
use crate::merge::{
    MergeOptions, MergePlan, Merged, check_size, compared, open_path, with_plan, write_at,
};
use crate::proto::parts::report::Result as Outcome;
use crate::proto::parts::{MergePlan as PlanMessage, MergeReport};
use crate::{Error, ErrorKind, Result};

/// How much of a file is read at once to sum it up.
const STEP: usize = 1 << 20;

/// Plans it.
pub(super) fn plan(
    input: &Path,
    target: &Path,
    options: &MergeOptions,
    parts: NonZeroUsize,
) -> Result<PlanMessage> {
    let target = written_through(target)?;
    if same_file(input, &target) {
        let message = format!(
            "{} is what is read, and is not overwritten",
            target.display()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let (force, options) = (options.force, &options.reading);
    check_absent(&target, force)?;
    let planned = identify(input)?;
    let store = open_path(input, &options.limits)?;
    let trailer = store.trailer();
    let part_ends = with_plan(trailer, &store, options, |_, plan| {
        if trailer.is_whole() {
            check_size(trailer, plan.total_len())?;
        }
        Ok(ends(plan, parts))
    })?;
    let name = text_of(target.file_name().unwrap_or_default().into())?;
    Ok(PlanMessage {
        input: Some(planned),
        target: absolute_beside(&target, &name)?,
        force,
        part_ends,
        r#type: Some(message_type(options)),
    })
}

/// Where the bytes of each part end: between segments, so that no chunk is read by two parts of
/// which neither needs all of it.
fn ends(plan: &MergePlan, parts: NonZeroUsize) -> Vec<u64> {
    let segments = plan.segments();
    let sizes: Vec<u64> = segments.iter().map(|segment| segment.len()).collect();
    let ends = shares(&sizes, parts, |_| true);
    let end = |count: u64| {
        let next = usize::try_from(count).ok().and_then(|at| segments.get(at));
        next.map_or(plan.total_len(), |next| next.start())
    };
    ends.into_iter().map(end).collect()
}

/// A merge that is planned, checked.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    input: ChunkedInput,
    target: PathBuf,
    force: bool,
}

impl Planned {
    /// Checks a plan that was read.
    pub(super) fn checked(message: PlanMessage) -> Result<Planned> {
        let PlanMessage {
            input,
            target,
            force,
            part_ends,
            r#type,
        } = message;
        let target = PathBuf::from(target);
        if target.is_relative() {
            return Err(invalid_plan("merge", "has paths that aren't absolute"));
        }
        let input = ChunkedInput::checked("merge", input, r#type.as_ref(), part_ends)?;
        Ok(Planned {
            input,
            target,
            force,
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

    /// The file that the parts write to.
    fn room(&self, id: &[u8; 16]) -> PathBuf {
        let id: String = id[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        self.target()
            .with_file_name(format!(".protosplit-{id}.tmp"))
    }

    /// Makes the file that the parts write to. One that is there has what parts of the same plan
    /// have written.
    pub(super) fn make_room(&self, id: &[u8; 16]) -> Result<()> {
        let room = self.room(id);
        let failed = |error: io::Error| Error::from(error).context(room.display());
        check_space(&room, self.total())?;
        if fs::metadata(&room).is_ok_and(|there| there.len() == self.total()) {
            return Ok(());
        }
        let file = AtomicFile::create(&room, true)?;
        file.restrict_to_files([self.input.path()])?;
        file.as_file().set_len(self.total()).map_err(failed)?;
        file.commit()
    }

    /// The file that the parts write to, opened.
    fn open_room(&self, room: &Path) -> Result<File> {
        let file = OpenOptions::new().write(true).open(room).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                return self.no_room(room);
            }
            Error::from(error).context(room.display())
        })?;
        let size = file.metadata()?.len();
        if size != self.total() {
            let message = format!(
                "{}: it has {size} bytes, where the plan says {}",
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
        let message = match self.target().exists() {
            true => format!("{room} is not there: the merge to {target} was committed"),
            false => {
                format!("{room} is not there: the plan of the merge was made anew or given up")
            }
        };
        let kind = match self.target().exists() {
            true => ErrorKind::AlreadyExists,
            false => ErrorKind::Io,
        };
        Error::new(kind, message)
    }

    /// Writes a part's bytes to their place.
    pub(super) fn run(&self, part: usize, id: &[u8; 16], options: &PartOptions) -> Result<Outcome> {
        let range = self.input.share(part)?;
        let room = self.room(id);
        let file = self.open_room(&room)?;
        let merging = self.input.options(options);
        let store = self.input.open(options)?;
        let crc32c = with_plan(store.trailer(), &store, &merging, |chunks, plan| {
            if plan.total_len() != self.total() {
                let message = format!(
                    "the merge has {} bytes, where the plan says {}",
                    plan.total_len(),
                    self.total()
                );
                return Err(Error::new(ErrorKind::SourceChanged, message));
            }
            let own = plan.clip(std::slice::from_ref(&range));
            let meter = options.progress.meter(own.total_len());
            let threads = threads::count(options.threads);
            write_at(&own, chunks, (&file, range.start), threads, &meter)
        })?;
        let failed = |error: io::Error| Error::from(error).context(room.display());
        file.sync_data().map_err(failed)?;
        // After the commit it has another name, and whoever reads it has what is right.
        if !is_at(&file, &room) {
            return Err(self.no_room(&room));
        }
        let size = range.end - range.start;
        Ok(Outcome::Merge(MergeReport { size, crc32c }))
    }

    /// Puts the file in its place.
    pub(super) fn commit(
        &self,
        outcomes: &[&Outcome],
        id: &[u8; 16],
        options: &PartOptions,
    ) -> Result<Merged> {
        let mut crc32c = 0;
        for (part, outcome) in outcomes.iter().enumerate() {
            let range = self.input.share(part)?;
            match outcome {
                Outcome::Merge(done) if done.size == range.end - range.start => {
                    crc32c = combine(crc32c, done.crc32c, done.size);
                }
                _ => {
                    let message = format!("part {part}: its report has other bytes than the plan");
                    return Err(Error::new(ErrorKind::InvalidMessage, message));
                }
            }
        }
        let store = self.input.open(options)?;
        let trailer = store.trailer();
        if trailer.is_whole() {
            check_size(trailer, self.total())?;
        }
        let merged = Merged {
            input: self.input.path().to_owned(),
            ..compared(trailer, self.total(), crc32c)?
        };
        options.progress.check()?;
        let (room, target) = (self.room(id), self.target());
        match self.open_room(&room) {
            Ok(file) => drop(file),
            // It was committed before.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return match sum_up(target, options)? == (self.total(), crc32c) {
                    true => Ok(merged),
                    false => Err(error),
                };
            }
            Err(error) => return Err(error),
        }
        self.place(&room)?;
        Ok(merged)
    }

    fn place(&self, room: &Path) -> Result<()> {
        let target = self.target();
        let failed = |error: io::Error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => check_absent(target, false).err(),
                _ => None,
            }
            .unwrap_or_else(|| Error::from(error).context(target.display()))
        };
        if self.force {
            fs::rename(room, target).map_err(failed)?;
        } else {
            // Unlike a rename, it fails if something is there.
            fs::hard_link(room, target).map_err(failed)?;
            sync_folder(folder(target)).map_err(failed)?;
            // Without it, the file has two names until somebody removes one.
            if let Err(error) = remove_file(room) {
                tracing::warn!("{} was not removed: {error}", room.display());
            }
        }
        warn_unless_synced(target);
        Ok(())
    }
}

/// Whether the file that is open is the one that has this name.
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

/// Bytes of a file, and their crc32c.
fn sum_up(path: &Path, options: &PartOptions) -> Result<(u64, u32)> {
    let mut file = crate::io::open_file(path)?;
    let mut block = vec![0; STEP];
    let (mut size, mut crc32c) = (0, 0);
    loop {
        options.progress.check()?;
        match file.read(&mut block) {
            Ok(0) => return Ok((size, crc32c)),
            Ok(read) => {
                crc32c = crc32c::crc32c_append(crc32c, &block[..read]);
                size += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::from(error).context(path.display())),
        }
    }
}
