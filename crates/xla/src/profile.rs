//! The format of XLA's profiles. A profile may be a file whose records are parts of one
//! `tensorflow.profiler.XSpace`.

mod draft;
mod events;
mod fields;
mod merge;
mod metadata;
mod plane;

use std::path::Path;
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertTarget, Converted, Format,
    OpenOptions, Opened,
};
use proto_splitter_core::wire::{SourceInput, WireCursor, WireType};
use proto_splitter_core::{Error, Result};
use proto_splitter_sequences::Records;
use record_file::{ReadAt, is_record_file};

use crate::{descriptor_pool, schema};

pub use draft::ProfileDraft;

/// Full name of the message type for profiles.
pub const XSPACE: &str = "tensorflow.profiler.XSpace";

/// XLA's profiles: `.xplane.pb` files, and `.xplane.riegeli` files, which are divided into records.
///
/// Records are merged as XProf merges them: planes by name, lines by id, and metadata by name.
/// There is one difference: if the events of a line come from several records, they keep the order
/// of the records, whereas XProf sorts them. The records aren't copied, except for events whose
/// times or metadata ids change. These events are written to a temporary file.
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

/// Extensions of profiles that are single messages, and of profiles that are divided into records.
const ENDINGS: [&str; 2] = [".xplane.pb", ".xplane.riegeli"];

/// Maximum size of the first record of a file, in bytes. A file whose first record is larger isn't
/// recognized as a profile.
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
            let opened = Opened::of_reader(message, descriptor, options)?;
            Ok(opened.reading(path).checked_when_read())
        };
        opened().map_err(|error: Error| error.in_file(input.path()))
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
        options.check_settings(&[])?;
        if target.name == PLAIN {
            let bytes = opened.write_file_with(output, options.get_force())?;
            return Ok(Converted::new(vec![output.to_owned()], bytes));
        }
        let draft = ProfileDraft::new(opened.reader()?.into())?;
        let made_from = MadeFrom::files(opened.files());
        let bytes = draft.write_file(output, &made_from, options)?;
        let converted = Converted::new(vec![output.to_owned()], bytes);
        let named = output.file_name().map(std::ffi::OsStr::to_string_lossy);
        Ok(if named.is_some_and(|name| name.ends_with(ENDINGS[1])) {
            converted
        } else {
            converted.note("XProf recognizes profiles in records by the ending .xplane.riegeli")
        })
    }
}

/// Returns true if the first record of a file has only fields of a profile. If so, the file may be
/// a profile.
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
