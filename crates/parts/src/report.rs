//! The report of a part that was run.

use std::path::Path;

use prost::Message;

use super::format::{PLAN_VERSION, check_checksum, read_file, with_checksum, write_file};
use crate::proto::Report;
use crate::proto::report::Result as Outcome;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::{Error, ErrorKind, Result};

/// The report of a part that was run: a small message with everything that a commit needs to know
/// about the part.
///
/// ```
/// use proto_splitter_parts::PartReport;
/// let error = PartReport::from_bytes(b"no report").unwrap_err();
/// assert!(error.to_string().starts_with("not the report of a part: "));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PartReport {
    message: Report,
}

impl PartReport {
    pub(super) fn new(plan_id: &[u8], part: usize, outcome: Outcome) -> PartReport {
        let message = Report {
            version: PLAN_VERSION,
            plan_id: plan_id.to_vec().into(),
            part: u32::try_from(part).unwrap_or(u32::MAX),
            result: Some(outcome),
            crc32c: 0,
        };
        PartReport { message }
    }

    /// Returns the index of the part, counted from 0.
    pub fn part(&self) -> usize {
        self.message.part as usize
    }

    /// Returns the name of the file that the part wrote, and its size in bytes; `None` if the part
    /// wrote no separate file.
    pub fn file(&self) -> Option<(&str, u64)> {
        match &self.message.result {
            Some(Outcome::Split(done)) => Some((&done.file, done.size)),
            _ => None,
        }
    }

    /// Returns the number of bytes that the part wrote or, in a verification, read.
    pub fn bytes(&self) -> u64 {
        match &self.message.result {
            Some(Outcome::Split(done)) => done.size,
            Some(Outcome::Merge(done)) => done.size,
            Some(Outcome::Verify(done)) => done.bytes,
            None => 0,
        }
    }

    /// Returns the problems that a part of a verification found, one line each.
    pub fn problems(&self) -> &[String] {
        match &self.message.result {
            Some(Outcome::Verify(done)) => &done.problems,
            _ => &[],
        }
    }

    pub(super) fn plan_id(&self) -> &[u8] {
        &self.message.plan_id
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.message.result.as_ref()
    }

    /// Returns the serialized report, which [`from_bytes`](Self::from_bytes) parses.
    pub fn to_bytes(&self) -> Vec<u8> {
        with_checksum(self.message.encode_to_vec())
    }

    /// Parses a report that [`to_bytes`](Self::to_bytes) serialized.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the bytes are not a report; [`ErrorKind::ChecksumMismatch`]
    /// if they are damaged; [`ErrorKind::UnsupportedVersion`] if the report's version is later than
    /// this crate supports.
    pub fn from_bytes(bytes: &[u8]) -> Result<PartReport> {
        let invalid = |why: &dyn std::fmt::Display| {
            let message = format!("not the report of a part: {why}");
            Error::new(ErrorKind::InvalidMessage, message)
        };
        check_checksum(bytes, "the report of a part")?;
        let mut message = Report::decode(bytes).map_err(|error| invalid(&error))?;
        message.crc32c = 0;
        if message.version > PLAN_VERSION {
            let message = format!(
                "the report of a part has the unsupported version {}",
                message.version
            );
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
        if message.version == 0 || message.result.is_none() {
            return Err(invalid(&"it has no result"));
        }
        Ok(PartReport { message })
    }

    /// Writes the report to a file, which appears completely or not at all. Replaces an existing
    /// file, since it is the report of an earlier run of the part.
    ///
    /// # Errors
    ///
    /// The errors of [`AtomicFile::create`] and [`AtomicFile::commit`].
    ///
    /// [`AtomicFile::create`]: proto_splitter_core::atomic::AtomicFile::create
    /// [`AtomicFile::commit`]: proto_splitter_core::atomic::AtomicFile::commit
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        write_file(path.as_ref(), &self.to_bytes(), &MadeFrom::Nothing, true)
    }

    /// Reads a report from a file.
    ///
    /// # Errors
    ///
    /// The errors of [`from_bytes`](Self::from_bytes); [`ErrorKind::Io`] if reading fails;
    /// [`ErrorKind::LimitExceeded`] if the file is larger than
    /// [`DEFAULT_MAX_PLAN_SIZE`](crate::DEFAULT_MAX_PLAN_SIZE).
    pub fn read(path: impl AsRef<Path>) -> Result<PartReport> {
        let path = path.as_ref();
        PartReport::from_bytes(&read_file(path)?).map_err(|error| error.in_file(path))
    }
}

/// Maximum number of missing parts to name in an error.
const MOST_NAMED: usize = 5;

/// Returns the outcome of every part, in order. If `reports` has several reports of a part, the
/// first one is used.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if a report belongs to another plan, or a report is missing.
pub(super) fn of_all_parts<'a>(
    reports: &'a [PartReport],
    plan_id: &[u8],
    parts: usize,
) -> Result<Vec<&'a Outcome>> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
    let mut found = vec![None; parts];
    for report in reports {
        let part = report.part();
        if report.plan_id() != plan_id {
            return refuse(format!("the report is of part {part} of another plan"));
        }
        match found.get_mut(part) {
            Some(place) => *place = place.or(report.outcome()),
            None => {
                return refuse(format!(
                    "the report is of part {part}, but there are only {parts} parts"
                ));
            }
        }
    }
    let missing = found
        .iter()
        .enumerate()
        .filter(|(_, found)| found.is_none());
    let missing: Vec<String> = missing.map(|(part, _)| part.to_string()).collect();
    if missing.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    let named = missing[..missing.len().min(MOST_NAMED)].join(", ");
    let others = match missing.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    refuse(format!(
        "no report of part {named}{others}, of {parts} parts"
    ))
}
