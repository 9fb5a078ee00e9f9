//! Reading and writing sequences with a registry of formats.

use std::path::Path;
use std::sync::Arc;

use prost_reflect::{Kind, MessageDescriptor};
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertSetting, ConvertTarget, Converted,
    Format, OpenOptions, Opened,
};
use proto_splitter_core::part_work::schema_in;
use proto_splitter_core::wire::FieldNumber;
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use record_file::{Compression, ReadAt, ReaderOptions, RecordFile, RecordsMetadata, WriterOptions};

use crate::elements::Elements;
use crate::root::{Root, SETTING, repeated_field};
use crate::sequence::Sequence;

/// The format of sequences: delimited files, and Riegeli files whose records are messages.
///
/// A Riegeli file is recognized as a sequence if its metadata contains the name and the schema of
/// the records' type. To open any other file as a sequence, call
/// [`open_as`](proto_splitter_core::formats::Registry::open_as), and pass the type of a [`Root`] in
/// the options. Messages of any format can be written as sequences, if they have a repeated field.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_sequences::{SequenceFormat, sequence_of};
/// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
///
/// static FORMATS: Registry = Registry::new(&[&SequenceFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("files.log");
/// std::fs::write(&path, b"\x03\x0a\x01a\x03\x0a\x01b")?;
///
/// let root = sequence_of(&FileDescriptorProto::default().descriptor())?;
/// let options = OpenOptions::new().descriptor(root);
/// let opened = FORMATS.open_as(&SequenceFormat, &path, &options)?;
/// assert_eq!(opened.get("message[1].name")?, "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceFormat;

const DELIMITED: &str = "delimited";
const RECORDS: &str = "records";
const PLAIN: &str = "pb";

const ANY: &[ConvertTarget] = &[
    ConvertTarget {
        name: DELIMITED,
        title: "elements of a repeated field, each after its length",
    },
    ConvertTarget {
        name: RECORDS,
        title: "elements of a repeated field, each a record of a Riegeli file",
    },
];

const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: PLAIN,
        title: "one message with the elements in a repeated field",
    },
    ANY[0],
    ANY[1],
];

/// Name of the setting for the message's fields that a sequence can't contain.
const OTHERS: &str = "others";

/// Name of the setting for the options of Riegeli's writer.
const WRITING: &str = "records";

const SETTINGS: &[ConvertSetting] = &[
    ConvertSetting {
        name: SETTING,
        title: "repeated field to write; for an input, the field that holds its elements",
        is_size: false,
        forms: &[DELIMITED, RECORDS],
    },
    ConvertSetting {
        name: OTHERS,
        title: "other fields of the message: refuse, or drop to write the elements without them",
        is_size: false,
        forms: &[DELIMITED, RECORDS],
    },
    ConvertSetting {
        name: WRITING,
        title: "Riegeli's options for writing records, such as transpose,zstd:5",
        is_size: false,
        forms: &[RECORDS],
    },
];

impl Format for SequenceFormat {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn title(&self) -> &'static str {
        "sequence of messages"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let is_file = candidate.kind() == CandidateKind::File;
        let is_typed = is_file
            && candidate.is_chunked().unwrap_or(false)
            && candidate
                .source()
                .is_ok_and(|source| type_of_records(source).is_some());
        is_typed.then_some(Confidence::Certain)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        open(input, options).map_err(|error| error.in_file(input.path()))
    }

    fn reads_any_records(&self) -> bool {
        true
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        TARGETS
    }

    fn targets_of_any(&self) -> &'static [ConvertTarget] {
        ANY
    }

    fn form_of(&self, opened: &Opened) -> Option<&'static ConvertTarget> {
        // The input is a Riegeli file if it has checksums, and otherwise a delimited file.
        Some(&ANY[usize::from(opened.is_checked_when_read())])
    }

    fn convert_settings(&self) -> &'static [ConvertSetting] {
        SETTINGS
    }

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        let known: &[&str] = match target.name {
            PLAIN => &[],
            DELIMITED => &[SETTING, OTHERS],
            _ => &[SETTING, OTHERS, WRITING],
        };
        options.check_settings(known)?;
        if target.name == PLAIN {
            let bytes = opened.write_file_with(output, options.get_force())?;
            return Ok(Converted::new(vec![output.to_owned()], bytes));
        }
        let setting = |name: &str| options.get_settings().get(name).map(String::as_str);
        let drops_others = match setting(OTHERS) {
            None | Some("refuse") => false,
            Some("drop") => true,
            Some(other) => {
                let message = format!("{OTHERS} must be refuse or drop, not {other:?}");
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        let threads = u32::try_from(threads::count(options.get_threads()).get()).unwrap_or(1);
        let writing = match setting(WRITING) {
            // If the text sets the number of threads, it isn't overridden.
            Some(text) if text.contains("parallelism") => text.parse()?,
            Some(text) => text.parse::<WriterOptions>()?.threads(threads),
            None => WriterOptions::new()
                .compression(Compression::ZSTD)
                .threads(threads),
        };
        let (number, element) = field_of(opened.descriptor(), setting(SETTING))?;
        let elements = Elements::new(opened.reader()?.into(), number).drop_others(drops_others);
        let made_from = MadeFrom::files(opened.files());
        let file = AtomicFile::create(output, &made_from, options.get_force())?;
        let bytes = file.write(|mut sink| {
            if target.name == DELIMITED {
                elements.write_delimited(&mut sink, options.get_progress())?;
            } else {
                let element = element.as_ref();
                elements.write_records(&mut sink, element, &writing, options.get_progress())?;
            }
            Ok(std::io::Seek::stream_position(&mut sink)?)
        })?;
        Ok(Converted::new(vec![output.to_owned()], bytes))
    }
}

fn open(input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
    let source = input.source()?;
    let mut element = None;
    if input.is_chunked()? {
        if ChunkedFile::from_source(Arc::clone(&source), options.get_limits()).is_ok() {
            // A sequence that was split into chunks is opened as a chunked file, which contains the
            // sequence's type.
            return Opened::of_input(input, None, options);
        }
        element = type_of_records(Arc::clone(&source));
    }
    let field = options.get_settings().get(SETTING).map(String::as_str);
    let root = match (options.get_descriptor(), element) {
        // The caller may request the type of the records instead of the root's type.
        (Some(asked), Some(element)) if asked.full_name() == element.full_name() => {
            Root::of_elements(asked)?
        }
        (Some(asked), _) => Root::of_field(asked, field)?,
        (None, Some(element)) => Root::of_elements(&element)?,
        (None, None) => Root::untyped(),
    };
    let sequence = Arc::new(Sequence::open(source, &root, options.get_progress())?);
    let path = input.is_local().then_some(input.path());
    let is_checked = sequence.is_checked();
    // The requested type may be that of the records, so it is replaced by the root's type.
    let options = options.clone().descriptor(root.descriptor().cloned());
    let opened = Opened::of_reader(Arc::clone(&sequence) as _, None, &options)?;
    let opened = opened.reading(path).with_file_offsets(sequence);
    Ok(if is_checked {
        opened.checked_when_read()
    } else {
        opened
    })
}

/// Returns the number of the repeated field that contains the elements, and the elements' type if
/// it is known.
fn field_of(
    descriptor: Option<&MessageDescriptor>,
    field: Option<&str>,
) -> Result<(FieldNumber, Option<MessageDescriptor>)> {
    let Some(descriptor) = descriptor else {
        let number = field.map_or(Ok(1), str::parse::<u32>).map_err(|_| {
            let message = "the type of the message isn't known: name its field by a number";
            Error::new(ErrorKind::SchemaNeeded, message)
        })?;
        return Ok((FieldNumber(number), None));
    };
    let field = repeated_field(descriptor, field)?;
    let element = match field.kind() {
        Kind::Message(element) => Some(element),
        _ => None,
    };
    Ok((FieldNumber(field.number()), element))
}

/// Returns the type of a Riegeli file's records; `None` unless the file's metadata contains the
/// type's name and a usable schema.
fn type_of_records(source: Arc<dyn ReadAt>) -> Option<MessageDescriptor> {
    let file = RecordFile::open(source, ReaderOptions::new()).ok()?;
    let metadata = file.metadata().ok()??;
    // Also limits the memory for parsing the metadata, so it comes first.
    let pool = schema_in(&metadata).ok()??;
    let name = RecordsMetadata::parse(&metadata).ok()?.record_type_name?;
    pool.get_message_by_name(&name)
}
