//! Merging in parts into an object: each host uploads some of the parts of one upload.

use std::io::{self, Write};
use std::sync::Arc;

use super::chunked_input::invalid_plan;
use super::objects::{ObjectUpload, Objects, UploadParts, given, is_object};
use super::options::PartOptions;
use super::rereading::{WrittenRange, reread_ranges, sum_up};
use crate::proto::Upload;
use crate::proto::report::Result as Outcome;
use proto_splitter_core::merge::{ChunkStore, MergePlan};
use proto_splitter_core::part_work::Summed;
use proto_splitter_core::part_work::write;
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Number of bytes up to which small pieces of a merged message are collected before they are
/// uploaded: 256 KiB.
const GATHER: usize = 256 << 10;

/// Fails if the object exists and `force` is false.
pub(super) fn check_no_object(name: &str, objects: &dyn Objects, force: bool) -> Result<()> {
    if force || !objects.exists(name)? {
        return Ok(());
    }
    Err(is_there(name))
}

#[cold]
pub(super) fn is_there(name: &str) -> Error {
    let message = format!("{name}: the object is there already");
    Error::new(ErrorKind::AlreadyExists, message)
}

/// The checked upload of a merged message, to which all parts of a plan contribute.
#[derive(Clone, Debug)]
pub(super) struct Uploading {
    target: String,
    upload: ObjectUpload,
    force: bool,
}

impl Uploading {
    /// Checks the upload in a plan. The plan must have an upload if, and only if, the target is an
    /// object.
    pub(super) fn checked(
        target: &str,
        upload: Option<Upload>,
        force: bool,
        part_ends: &[u64],
    ) -> Result<Option<Uploading>> {
        let invalid = |why: &str| Err(invalid_plan("merge", why));
        let upload = match upload {
            Some(upload) if is_object(target) => upload,
            None if !is_object(target) => return Ok(None),
            Some(_) => return invalid("to a file has an upload"),
            None => return invalid("to an object has no upload"),
        };
        let inner = part_ends.split_last().map_or(&[][..], |(_, inner)| inner);
        let is_end = |end: &u64| end.checked_rem(upload.part_size) == Some(0);
        if upload.part_size == 0 || !inner.iter().all(is_end) {
            return invalid("has shares that don't end at the ends of its upload's parts");
        }
        Ok(Some(Uploading {
            target: target.to_owned(),
            upload: ObjectUpload {
                id: upload.id,
                part_size: upload.part_size,
            },
            force,
        }))
    }

    fn objects<'a>(&self, options: &'a PartOptions) -> Result<&'a Arc<dyn Objects>> {
        given(options.objects.as_ref(), &self.target)
    }

    /// Begins uploading a host's share, which begins at offset `start` in the merged message.
    pub(super) fn begin<'a>(&'a self, start: u64, options: &'a PartOptions) -> Result<Share<'a>> {
        let objects = self.objects(options)?;
        let first = start / self.upload.part_size;
        Ok(Share {
            all: self,
            objects: &**objects,
            parts: objects.upload_from(&self.target, &self.upload, first)?,
        })
    }

    /// Completes the upload, unless it is already complete. If the options request rereading, then
    /// reads the object, and verifies the checksums of the data that the parts wrote. An object
    /// can't be read before its upload is complete.
    pub(super) fn commit(
        &self,
        outcomes: &[&Outcome],
        (written, crc32c): (&[WrittenRange], u32),
        options: &PartOptions,
    ) -> Result<()> {
        let merged = (written.last().map_or(0, |last| last.range.end), crc32c);
        let objects = &**self.objects(options)?;
        let mut parts = Vec::new();
        for (part, outcome) in outcomes.iter().enumerate() {
            let Outcome::Merge(done) = outcome else {
                continue;
            };
            if done.uploaded.len() as u64 != done.size.div_ceil(self.upload.part_size) {
                let message = format!("part {part}: its report has other parts of the upload");
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
            parts.extend_from_slice(&done.uploaded);
        }
        // Some stores can't make the completion of an upload conditional, so the object is looked
        // up immediately before.
        if !self.force && objects.exists(&self.target)? {
            return if self.is_done(objects, merged, options)? {
                Ok(())
            } else {
                Err(is_there(&self.target))
            };
        }
        match objects.finish_upload(&self.target, &self.upload, parts, self.force) {
            Ok(()) if options.reread => self.reread(objects, written, options),
            Ok(()) => Ok(()),
            // Another commit of the same plan has completed the upload, or this commit is repeated.
            Err(_) if self.is_done(objects, merged, options)? => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the object exists and has the size and the crc32c of the merged message.
    fn is_done(
        &self,
        objects: &dyn Objects,
        merged: (u64, u32),
        options: &PartOptions,
    ) -> Result<bool> {
        if !objects.exists(&self.target)? {
            return Ok(false);
        }
        let there = objects.open(&self.target)?.source;
        if there.size()? != merged.0 {
            return Ok(false);
        }
        let meter = options.progress.meter(merged.0);
        Ok(sum_up(&*there, 0..merged.0, &meter)? == merged.1)
    }

    /// Reads the object, and verifies the checksums of the data that the parts wrote.
    fn reread(
        &self,
        objects: &dyn Objects,
        written: &[WrittenRange],
        options: &PartOptions,
    ) -> Result<()> {
        let there = objects.open(&self.target)?.source;
        let (size, total) = (
            there.size()?,
            written.last().map_or(0, |last| last.range.end),
        );
        if size != total {
            let name = &self.target;
            let message = format!("{name}: it has {size} bytes, but the parts wrote {total}");
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
        reread_ranges(&*there, written, &self.target, options)
    }
}

/// The share of an upload that one host uploads.
pub(super) struct Share<'a> {
    all: &'a Uploading,
    objects: &'a dyn Objects,
    parts: Box<dyn UploadParts>,
}

impl Share<'_> {
    /// Uploads the bytes that `plan` merges. Returns the crc32c of these bytes, and the store's
    /// identifiers of the uploaded parts.
    pub(super) fn send(
        mut self,
        plan: &MergePlan,
        chunks: &dyn ChunkStore,
        progress: &Progress,
    ) -> Result<(u32, Vec<String>)> {
        let meter = progress.meter(plan.total_len());
        let sent = send(plan, chunks, &mut self.parts, &meter).and_then(|crc32c| {
            let uploaded = self.parts.finish()?;
            Ok((crc32c, uploaded))
        });
        sent.map_err(|error| {
            // The store no longer accepts parts for an upload that was completed.
            let (name, all) = (&self.all.target, self.all);
            let is_over = error.kind() == ErrorKind::Io
                && !all.force
                && self.objects.exists(name).unwrap_or(false);
            if is_over {
                let message = format!("{name} exists: the merge to it was committed");
                Error::new(ErrorKind::AlreadyExists, message)
            } else {
                error
            }
        })
    }
}

fn send(
    plan: &MergePlan,
    chunks: &dyn ChunkStore,
    parts: &mut dyn Write,
    meter: &Meter,
) -> Result<u32> {
    let gathered = io::BufWriter::with_capacity(GATHER, parts);
    let mut sink = Summed::new(meter.written_to(gathered));
    write(plan, chunks, &mut sink)?;
    sink.flush()?;
    meter.check()?;
    Ok(sink.crc32c())
}
