//! Finding irregularities that don't prevent a split proto from being read.

use std::fmt;

use proto_splitter_core::view::MessageView;
use proto_splitter_core::{ReadOptions, Result};
use record_file::ChunkType;

use super::SplitProto;
use crate::HLO_PROTO;
use crate::manifest::RecordKind;

/// An irregularity that doesn't prevent a split proto from being read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Records of unknown purpose, which readers skip. Contains the number of the first such
    /// record, and the count of these records.
    UnknownRecords(u64, u64),
    /// Records that the manifest doesn't list. Contains the number of the first such record, and
    /// the count of these records.
    ExtraRecords(u64, u64),
    /// Bytes after the last record that aren't a valid chunk. Contains the offset of these bytes in
    /// the file, and their count.
    ExtraBytes(u64, u64),
    /// A missing `buffer_assignment` in the dump of an optimized module.
    NoBufferAssignment,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::UnknownRecords(first, count) => write!(
                f,
                "{count} of the records have no known purpose and are skipped; the first is record {first}"
            ),
            Finding::ExtraRecords(first, count) => write!(
                f,
                "{count} more records than the manifest names, from record {first} on, are not part \
                 of the message"
            ),
            Finding::ExtraBytes(at, count) => {
                write!(
                    f,
                    "{count} bytes after the last record, at {at:#x}, are not read"
                )
            }
            Finding::NoBufferAssignment => f.write_str(
                "there is no buffer_assignment, which XLA leaves out of a dump that it splits",
            ),
        }
    }
}

impl SplitProto {
    /// Looks for irregularities: records or bytes after the last record that the manifest lists,
    /// records of unknown purpose, and a missing `buffer_assignment` in the dump of an optimized
    /// module. Reads the headers of all chunks after those that contain the listed records.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](proto_splitter_core::ErrorKind::Io) if the file can't be read.
    pub fn findings(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let unknown = |kind: &RecordKind| *kind == RecordKind::Unknown;
        let kinds = self.manifest.records();
        if let Some(first) = kinds.iter().position(unknown) {
            let count = kinds.iter().filter(|kind| unknown(kind)).count();
            findings.push(Finding::UnknownRecords(first as u64 + 1, count as u64));
        }
        self.behind(&mut findings)?;
        if self.is_optimized_dump() && !self.has_buffer_assignment()? {
            findings.push(Finding::NoBufferAssignment);
        }
        Ok(findings)
    }

    /// Adds findings about records and bytes after the last record that the manifest lists.
    fn behind(&self, findings: &mut Vec<Finding>) -> Result<()> {
        let named = self.manifest.records().len() as u64 + 1;
        let found = self.records.found();
        let mut extra = found.records.saturating_sub(named);
        let (file, mut end) = (self.records.file(), found.end);
        let mut broken = false;
        for chunk in file.chunks_from(end.into()) {
            match chunk {
                Ok(chunk) => {
                    end = chunk.end().0;
                    if matches!(chunk.header.kind, ChunkType::Simple | ChunkType::Transposed) {
                        extra = extra.saturating_add(chunk.header.num_records);
                    }
                }
                Err(error) if error.kind() == record_file::ErrorKind::Io => {
                    return Err(error.into());
                }
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        if extra > 0 {
            findings.push(Finding::ExtraRecords(named, extra));
        }
        if broken {
            let left = file.size().saturating_sub(end);
            findings.push(Finding::ExtraBytes(end, left));
        }
        Ok(())
    }

    /// Returns true if the file's name is that of the dump of an optimized module, in which buffers
    /// are assigned.
    fn is_optimized_dump(&self) -> bool {
        let name = self.path.as_ref().and_then(|path| path.file_name());
        let is_after = |name: &std::ffi::OsStr| {
            let name = name.to_string_lossy();
            name.contains("after_optimizations") && !name.contains("before_optimizations")
        };
        self.manifest.message_type() == HLO_PROTO && name.is_some_and(is_after)
    }

    fn has_buffer_assignment(&self) -> Result<bool> {
        let view = MessageView::of_reader(&*self.message, ReadOptions::new())?;
        Ok(view.size(&"3".parse()?)?.is_some())
    }
}
