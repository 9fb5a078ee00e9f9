//! Checking an input as thoroughly as its format allows.

mod deep;
mod original;
mod single_pass;

use std::path::{Path, PathBuf};

use prost_reflect::MessageDescriptor;
use proto_splitter_core::compare::{Comparison, compare};
use proto_splitter_core::container::MerkleRoot;
use proto_splitter_core::formats::{Checks, Opened, Verified};
use proto_splitter_core::merge::{MergeCheck, ReadOptions, SourceCheck};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::view::MessageView;
use proto_splitter_core::wire::{SourceInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::error_place::{at, at_either};
pub use deep::Parsed;
use original::Original;

/// Options for [`verify`].
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions<'a> {
    deep: bool,
    against: Option<&'a Opened>,
    progress: Option<Progress>,
    root: Option<MerkleRoot>,
    folder: Option<PathBuf>,
}

impl<'a> VerifyOptions<'a> {
    /// Returns the defaults: only checksums and structure are checked.
    #[must_use]
    pub fn new() -> Self {
        VerifyOptions::default()
    }

    proto_splitter_core::options! {
        /// Sets whether to also parse the whole message according to its type. Default: false.
        const deep, get_deep: bool;

        /// Sets the original message to compare the input with, byte by byte. The original must be
        /// in one piece. Default: `None`, which compares nothing.
        into against, get_against: Option<&'a Opened>;

        /// Sets progress reporting and cancellation. Default: the progress set when the input was
        /// opened.
        optional progress, get_progress: Progress;

        /// Sets the expected Merkle root. If the input has a different root or none, a problem is
        /// reported. Default: `None`, which compares nothing.
        optional root, get_root: MerkleRoot;
    }

    /// Sets the model's folder, for an input that is only the model's message. The model's
    /// variables in the folder are then checked, too. Default: the input, if it is a folder.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<Option<PathBuf>>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Returns the model's folder, for an input that is only the model's message.
    pub fn get_folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

/// The result of [`verify`].
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VerifyReport {
    /// Path or URL of the input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub file: PathBuf,
    /// True if no problems were found.
    pub ok: bool,
    /// Checks that were made, and their findings.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub checked: Checked,
    /// Statistics about the message; `None` unless the whole message was parsed.
    pub deep: Option<Parsed>,
    /// Result of the comparison with the original message; `None` if there was no comparison.
    pub against: Option<Against>,
    /// Expected Merkle root; `None` if none was given.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::as_text::optional"
        )
    )]
    pub root: Option<MerkleRoot>,
    /// Result of checking the model's variables; `None` if there are none, or they are damaged.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub variables: Option<CheckedVariables>,
    /// Errors found in the data. Each error message names the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::errors"))]
    pub problems: Vec<Error>,
    /// Harmless irregularities.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub warnings: Vec<String>,
}

/// The checks that were made, and their findings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Checked {
    /// Checks of a message in chunks or in one piece.
    #[non_exhaustive]
    Message {
        /// True if the message is in chunks.
        split: bool,
        /// True if the contents were compared with stored checksums, which only a chunked file has.
        checksums: bool,
        /// Full name of the message's type; `None` if unknown.
        message: Option<String>,
        /// Number of records in the file, including the trailer; `None` if the message isn't in
        /// chunks, or the file can't be opened.
        records: Option<u64>,
        /// Number of chunks; 0 if the message isn't in chunks, or the file can't be opened.
        chunk_count: usize,
        /// Total uncompressed size of the chunks, in bytes.
        chunk_bytes: u64,
        /// Size of the merged message, in bytes; `None` if it couldn't be merged.
        merged_bytes: Option<u64>,
        /// CRC-32C of the merged message; `None` if it wasn't merged.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::crc32c"))]
        merged_crc32c: Option<u32>,
        /// True if the merged message has the same checksum as the original message; `None` if the
        /// file doesn't record that checksum, or the message wasn't merged.
        byte_exact: Option<bool>,
    },
    /// Checks by the input's format, for an archive of tensors or a message in several files.
    #[non_exhaustive]
    Format {
        /// Name of the format.
        format: &'static str,
        /// True if the contents were compared with stored checksums; `None` if the check failed.
        checksums: Option<bool>,
        /// Number of tensors; `None` if unknown.
        tensors: Option<u64>,
        /// Number of bytes read; `None` if unknown.
        bytes: Option<u64>,
    },
}

/// The result of checking a model's variables, which are in files next to the model's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckedVariables {
    /// Number of tensors in the variables' files.
    pub tensors: u64,
    /// Total size of the tensors, in bytes. The checksums of all tensors were verified.
    pub bytes: u64,
}

/// The result of comparing a message with its original.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Against {
    /// Path or URL of the original.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub original: PathBuf,
    /// Degree to which the messages agree.
    pub result: Agreement,
    /// Offset of the first byte that differs; `None` if the bytes are the same.
    pub byte: Option<u64>,
    /// Path of the first field that differs; `None` if the messages are equal.
    pub path: Option<String>,
    /// Description of the difference in the field; `None` if the messages are equal.
    pub how: Option<String>,
}

/// The degree to which two messages agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Agreement {
    /// The messages have the same bytes.
    ByteExact,
    /// The messages are equal, although their bytes differ.
    Equal,
    /// The messages differ.
    Different,
}

/// Checks all data of an input. For a chunked file, verifies every checksum, size and position. For
/// an input of another format, makes the checks that the format supports. For any other message,
/// checks that it is a sequence of fields.
///
/// Errors in the data are listed in the report.
///
/// # Errors
///
/// - [`ErrorKind::SchemaNeeded`] if parsing is requested but the message's type is unknown.
/// - [`ErrorKind::InvalidConfig`] if there is no message to parse or compare, or the [original
///   message](VerifyOptions::against) isn't in one piece.
/// - Any error if something can't be read, or the work was cancelled.
pub fn verify(input: &Opened, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    let asks_for_message = options.deep || options.against.is_some();
    // The checks of a format don't include parsing or comparing the message. If the message is in
    // one file, its report has more to say than the format's.
    let is_checked_by_format = if asks_for_message {
        !input.is_single()
    } else {
        input.is_described_by_format()
    };
    let reading = match &options.progress {
        Some(progress) => input.reading_options().progress(progress.clone()),
        None => input.reading_options(),
    };
    if asks_for_message && !input.has_message() {
        let message = "has tensors but no message to parse or compare";
        let error = Error::new(ErrorKind::InvalidConfig, message);
        return Err(error.in_file(input.input()));
    }
    let job = Job {
        input,
        deep: deep_type(input, options)?,
        original: options.against.map(Original::of).transpose()?,
        reading,
    };
    let checked = Checked::message(input.chunked().is_some(), input.descriptor());
    let mut report = VerifyReport::new(input.input().to_owned(), checked);
    report.root = options.root;
    if is_checked_by_format {
        report.check_format(&job);
    } else {
        report.check_message(&job);
        if report.problems.is_empty() && input.is_described_by_format() {
            report.run_checks_of_format(&job);
        }
    }
    if let Some(root) = &options.root {
        report.check_root(&job, root)?;
    }
    report.check_variables(&job, options.get_folder());
    if let Some(size) = report.message_bytes(input).filter(|_| asks_for_message) {
        report.pass(&job, size)?;
    }
    // Data that wasn't read because of a cancellation isn't damaged.
    let is_cancelled = |problem: &Error| problem.kind() == ErrorKind::Cancelled;
    if let Some(index) = report.problems.iter().position(is_cancelled) {
        return Err(report.problems.swap_remove(index));
    }
    report.ok = report.problems.is_empty();
    Ok(report)
}

/// Returns the type for parsing the whole message; `None` if parsing wasn't requested. Fails if the
/// type is unknown.
fn deep_type<'a>(
    input: &'a Opened,
    options: &VerifyOptions<'_>,
) -> Result<Option<&'a MessageDescriptor>> {
    if !options.deep {
        return Ok(None);
    }
    let missing = || {
        let message = "the message's type is needed to parse all of it";
        Error::new(ErrorKind::SchemaNeeded, message)
    };
    let known = input.descriptor().ok_or_else(missing);
    known.map(Some).map_err(|error| at(input, error))
}

/// The input of a verification, and its options.
struct Job<'a> {
    input: &'a Opened,
    deep: Option<&'a MessageDescriptor>,
    original: Option<Original<'a>>,
    reading: ReadOptions,
}

impl VerifyReport {
    /// Returns the report on a chunked file that can't be opened because it is truncated or has a
    /// damaged trailer.
    pub fn of_unreadable(file: impl Into<PathBuf>, problem: Error) -> VerifyReport {
        let mut report = VerifyReport::new(file.into(), Checked::message(true, None));
        report.problems.push(problem);
        report
    }

    fn new(file: PathBuf, checked: Checked) -> VerifyReport {
        VerifyReport {
            file,
            ok: false,
            checked,
            deep: None,
            against: None,
            root: None,
            variables: None,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the size of the message, in bytes; `None` if the size is unknown or the message
    /// can't be merged.
    fn message_bytes(&self, input: &Opened) -> Option<u64> {
        match self.checked {
            Checked::Message { merged_bytes, .. } => merged_bytes,
            Checked::Format { .. } => input.known_size(),
        }
    }

    /// Checks an input that its format describes, and reports what the format has found.
    fn check_format(&mut self, job: &Job<'_>) {
        let format = job.input.format();
        let found = self.run_checks_of_format(job);
        self.checked = Checked::Format {
            format: format.map_or("unknown", |format| format.name()),
            checksums: found
                .as_ref()
                .map(|found| found.checks == Checks::Checksums),
            tensors: found.as_ref().map(|found| found.tensors),
            bytes: found.as_ref().map(|found| found.bytes),
        };
    }

    /// Runs the checks of the input's format, and adds their problem or warnings to the report.
    /// Returns the results; `None` if there is a problem.
    fn run_checks_of_format(&mut self, job: &Job<'_>) -> Option<Verified> {
        match job.input.verify_with(job.reading.get_progress()) {
            Ok(mut found) => {
                self.warnings.append(&mut found.warnings);
                Some(found)
            }
            Err(error) => {
                self.problems.push(at(job.input, error));
                None
            }
        }
    }

    /// Checks a file that is one message, in chunks or in one piece.
    fn check_message(&mut self, job: &Job<'_>) {
        let Checked::Message {
            message,
            records,
            chunk_count,
            chunk_bytes,
            merged_bytes,
            merged_crc32c,
            byte_exact,
            ..
        } = &mut self.checked
        else {
            return;
        };
        let Some(file) = job.input.chunked() else {
            let walked = job.input.plain().map_or(Ok(()), |(bytes, size)| {
                *merged_bytes = Some(size);
                // If the message will be parsed completely, its fields needn't be checked here.
                match job.deep {
                    Some(_) => Ok(()),
                    None => walk(bytes, size, job.reading.get_progress()),
                }
            });
            self.problems
                .extend(walked.err().map(|error| at(job.input, error)));
            return;
        };
        if message.is_none() {
            *message = file.trailer().message_type().map(str::to_owned);
        }
        let verified = file.verify(&job.reading);
        *records = Some(verified.records());
        *chunk_count = file.trailer().kinds().len();
        *chunk_bytes = verified.bytes();
        if let MergeCheck::Merged {
            size,
            crc32c,
            source,
            ..
        } = verified.merge()
        {
            *merged_bytes = Some(*size);
            *merged_crc32c = Some(*crc32c);
            *byte_exact = source.map(|source| source == SourceCheck::Same);
        }
        let problems = verified.into_problems().into_iter();
        self.problems
            .extend(problems.map(|error| at(job.input, error)));
    }

    /// Compares the input with the expected Merkle root. If the chunks were already compared with
    /// the trailer's hashes, compares only the root of these hashes.
    fn check_root(&mut self, job: &Job<'_>, root: &MerkleRoot) -> Result<()> {
        let was_read = matches!(self.checked, Checked::Message { .. });
        let found = match job.input.chunked() {
            Some(file) if was_read => match file.trailer().check_root(root) {
                // The root can't be compared without the feature for hash functions. That is an
                // error of the caller rather than a problem in the data.
                Err(error) if error.kind() == ErrorKind::InvalidConfig => Err(error),
                compared => Ok(compared.err().into_iter().collect()),
            },
            Some(file) => file.verify_against(root, &job.reading),
            None => {
                let message = format!(
                    "it isn't a message in chunks, so it has no Merkle root, where {root} is expected"
                );
                Ok(vec![Error::new(ErrorKind::ChecksumMismatch, message)])
            }
        };
        let found = found.map_err(|error| at(job.input, error))?;
        self.problems
            .extend(found.into_iter().map(|error| at(job.input, error)));
        Ok(())
    }

    /// Checks the variables in the model's folder, which is the input by default.
    fn check_variables(&mut self, job: &Job<'_>, folder: Option<&Path>) {
        let folder = folder.unwrap_or_else(|| job.input.input());
        let Some(format) = job.input.format().filter(|_| folder.is_dir()) else {
            return;
        };
        let checked = format.variables(folder).and_then(|variables| {
            let variables = variables.map(|variables| variables.verify(job.reading.get_progress()));
            variables.transpose()
        });
        match checked {
            Ok(checked) => {
                self.variables = checked.map(|checked| CheckedVariables {
                    tensors: checked.tensors,
                    bytes: checked.bytes,
                });
            }
            Err(error) => self.problems.push(at(job.input, error)),
        }
    }

    /// Reads the message of `size` bytes once, to parse it, compare it with the original, or both.
    fn pass(&mut self, job: &Job<'_>, size: u64) -> Result<()> {
        let found = single_pass::run(job, size).map_err(|error| at(job.input, error))?;
        match found.parsed {
            Some(Ok(parsed)) => self.deep = Some(parsed),
            Some(Err(error)) => self.problems.push(at(job.input, error)),
            None => {}
        }
        if let (Some(different), Some(original)) = (found.different, &job.original) {
            let against = Against::new(job, original, different)?;
            self.problems.extend(against.problem(job.input));
            self.against = Some(against);
        }
        Ok(())
    }
}

impl Checked {
    /// Returns the facts about a message that are known before it is read.
    fn message(is_chunked: bool, known: Option<&MessageDescriptor>) -> Checked {
        Checked::Message {
            split: is_chunked,
            checksums: is_chunked,
            message: known.map(|known| known.full_name().to_owned()),
            records: None,
            chunk_count: 0,
            chunk_bytes: 0,
            merged_bytes: None,
            merged_crc32c: None,
            byte_exact: None,
        }
    }
}

/// Checks that a message is a sequence of fields. Without the message's type, nothing else can be
/// checked.
fn walk(bytes: &impl record_file::ReadAt, size: u64, progress: &Progress) -> Result<()> {
    let meter = progress.meter(size);
    let mut cursor = WireCursor::new(SourceInput::new(bytes, size));
    while let Some(field) = cursor.next()? {
        meter.advance(field.end - field.start)?;
    }
    meter.check()
}

impl Against {
    fn new(job: &Job<'_>, original: &Original<'_>, different: Option<u64>) -> Result<Against> {
        let mut against = Against {
            original: original.input.input().to_owned(),
            result: Agreement::ByteExact,
            byte: different,
            path: None,
            how: None,
        };
        if different.is_none() {
            return Ok(against);
        }
        against.result = Agreement::Different;
        let merged = job.input.view().and_then(|view| {
            view.check_type()?;
            Ok(view)
        });
        let merged = merged.map_err(|error| at(job.input, error))?;
        let known = job.input.descriptor();
        let reading = ReadOptions::new().descriptor(known.cloned());
        let view = MessageView::of_plain(original.bytes, reading);
        let view = view.map_err(|error| at(original.input, error))?;
        let inputs = [job.input, original.input];
        match compare(&merged, &view, 1).map_err(|error| at_either(inputs, error))? {
            Comparison::Identical | Comparison::Equal => against.result = Agreement::Equal,
            Comparison::Different(differences) => {
                if let [first, ..] = differences.as_slice() {
                    against.path = Some(first.path.display(known));
                    let how = first.how.said("the merge", "the original");
                    against.how = Some(how.to_string());
                }
            }
        }
        Ok(against)
    }

    /// Returns an error that describes the difference; `None` if the messages agree.
    fn problem(&self, input: &Opened) -> Option<Error> {
        (self.result == Agreement::Different).then(|| {
            let (file, difference) = (input.input().display(), self.difference());
            Error::new(ErrorKind::ChecksumMismatch, format!("{file} {difference}"))
        })
    }

    /// Returns a description of the first difference, as text to append to the input's name.
    pub fn difference(&self) -> String {
        let place = match (self.path.as_deref(), self.byte) {
            (Some(""), _) => " in the message itself".into(),
            (Some(path), _) => format!(" at {path}"),
            (None, Some(byte)) => format!(" from byte {byte} on"),
            (None, None) => String::new(),
        };
        let how = self.how.as_ref();
        let how = how.map_or(String::new(), |how| format!(": {how}"));
        format!("differs from {}{place}{how}", self.original.display())
    }
}
