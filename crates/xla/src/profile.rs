//! Profiles: files of records that are each a part of one `tensorflow.profiler.XSpace`.

mod cut;
mod merge;

use std::path::Path;
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertTarget,
    Converted, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{TensorInfo, TensorReader};
use proto_splitter_core::wire::{SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{ReadAt, is_record_file};

use crate::records::Records;
use crate::settings::no_more_settings;
use crate::{descriptor_pool, schema};

pub use cut::ProfileDraft;

/// Full name of the type of profiles.
pub const XSPACE: &str = "tensorflow.profiler.XSpace";

/// XLA's profiles: `.xplane.pb` files, and `.xplane.riegeli` files of records.
///
/// Records are merged as XProf merges them: planes by their names, lines by their ids, metadata by
/// its names. The events of a line keep the order of the records, where XProf sorts the events of a
/// line that comes from several of them. The message stays in the records, except for events whose numbers or times change:
/// those are written to a temporary file.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_xla::ProfileFormat;
/// use record_file::RecordWriter;
///
/// static FORMATS: Registry = Registry::new(&[&ProfileFormat]);
///
/// // A plane "p" in the first record, and its line 3 in the second.
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("host.xplane.riegeli");
/// let mut writer = RecordWriter::with_defaults(std::fs::File::create(&path)?);
/// writer.write_record(b"\x0a\x05\x08\x01\x12\x01p")?;
/// writer.write_record(b"\x0a\x09\x08\x01\x12\x01p\x1a\x02\x08\x03")?;
/// writer.finish()?;
///
/// let opened = FORMATS.open(&path, &OpenOptions::new())?;
/// assert_eq!(opened.bytes()?, b"\x0a\x09\x08\x01\x12\x01p\x1a\x02\x08\x03"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ProfileFormat;

/// File extensions of profiles, in one piece and in records.
const ENDINGS: [&str; 2] = [".xplane.pb", ".xplane.riegeli"];

/// Largest first record that is read to recognize a profile, in bytes.
const MAX_PROBED: u64 = 256 << 20;

const RECORDS: &str = "xplane-riegeli";

const PLAIN: &str = "pb";

const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: RECORDS,
        title: "profile in records, which XProf opens at any size",
    },
    ConvertTarget {
        name: PLAIN,
        title: "profile in one piece",
    },
];

impl Format for ProfileFormat {
    fn name(&self) -> &'static str {
        "xplane"
    }

    fn title(&self) -> &'static str {
        "XLA profile"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        if candidate.kind() != CandidateKind::File {
            return None;
        }
        let [plain, records] = ENDINGS.map(|ending| candidate.file_name().ends_with(ending));
        let is_profile = || is_first_of_profile(candidate.source().ok()?).ok();
        if candidate.is_chunked().unwrap_or(false) {
            return (records && is_profile() == Some(true)).then_some(Confidence::Certain);
        }
        plain.then_some(Confidence::Likely)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let descriptor = schema::message(XSPACE);
        let source = input.source()?;
        if !is_record_file(&source)? {
            return Opened::of_input(input, descriptor, options);
        }
        let opened = || {
            let message = merge::message(Arc::clone(&source), options)?;
            let path = input.is_local().then_some(input.path());
            let opened = Opened::of_reader(Arc::clone(&message), descriptor, options)?;
            Ok(opened.reading(path).checked_by(Whole(message)))
        };
        opened().map_err(|error: Error| error.context(input.path().display()))
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[XSPACE]
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        TARGETS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        no_more_settings(options, &[])?;
        if target.name == PLAIN {
            let bytes = opened.write_file_with(output, options.force)?;
            return Ok(Converted::new(vec![output.to_owned()], bytes));
        }
        let message: Arc<dyn ReadAt> = match (opened.merged()?, opened.plain()) {
            (Some(merged), _) => Arc::new(merged),
            (None, Some((message, _))) => Arc::clone(message),
            (None, None) => {
                let message = "there is no message in it";
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        let draft = ProfileDraft::new(message)?;
        let made_from = MadeFrom::files(opened.files());
        let bytes = draft.write_file(output, &made_from, options)?;
        let converted = Converted::new(vec![output.to_owned()], bytes);
        let named = output.file_name().map(std::ffi::OsStr::to_string_lossy);
        Ok(if named.is_some_and(|name| name.ends_with(ENDINGS[1])) {
            converted
        } else {
            converted.note("XProf opens profiles in records by the ending .xplane.riegeli")
        })
    }
}

/// Returns true if the first record of a file may be a profile's: it has only fields of a profile.
fn is_first_of_profile(source: Arc<dyn ReadAt>) -> Result<bool> {
    let Some(first) = Records::new(source)?.first(MAX_PROBED)? else {
        return Ok(false);
    };
    let mut cursor = WireCursor::new(SourceInput::new(&first, first.len() as u64));
    let mut planes = false;
    while let Some(field) = cursor.next()? {
        if field.wire_type != WireType::Len || !(1..=4).contains(&field.number.0) {
            return Ok(false);
        }
        if field.number.0 == 1 && !planes {
            planes = true;
            let end = field.end;
            cursor.set_range(field.value);
            while let Some(field) = cursor.next()? {
                if !(1..=6).contains(&field.number.0) {
                    return Ok(false);
                }
            }
            cursor.set_range(end..first.len() as u64);
        }
    }
    Ok(true)
}

/// The message of a profile, for verification.
struct Whole(Arc<dyn ReadAt>);

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Whole")
    }
}

impl Archive for Whole {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        Ok(Vec::new())
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let message = format!("there is no tensor {:?}", info.name);
        Err(Error::new(ErrorKind::InvalidPath, message))
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let size = read_through(&*self.0, progress)?;
        Ok(Verified::new(0, size, Checks::Checksums))
    }
}

/// Reads a message to its end, and returns its size in bytes.
pub(crate) fn read_through(message: &dyn ReadAt, progress: &Progress) -> Result<u64> {
    let size = message.size()?;
    let meter = progress.meter(size);
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    while at < size {
        let rest = usize::try_from(size - at).unwrap_or(usize::MAX);
        let len = rest.min(buffer.len());
        message.read_exact_at(at, &mut buffer[..len])?;
        at += len as u64;
        meter.advance(len as u64)?;
    }
    Ok(size)
}
