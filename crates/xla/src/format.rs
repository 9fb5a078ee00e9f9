//! XLA's modules and executables as an implementation of the trait [`Format`].

mod parts;

use std::path::Path;
use std::sync::Arc;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, ConvertOptions, ConvertSetting, ConvertTarget, Converted,
    Format, OpenOptions, Opened,
};
use proto_splitter_core::spans::copy_range;
use proto_splitter_core::view::size_tree::{MemberName, NameRule};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::{Compression, ReadAt};

use crate::executable::{pack, unpacked};
use crate::layers::{Layer, is_wrapped, unwrapped};
use crate::split_proto::{SplitProto, is_split_proto, manifest_of};
use crate::write::{Draft, WriteOptions};
use crate::{
    CPU_EXECUTABLE, EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO, HUMAN_READABLE_EXECUTABLE,
    descriptor_pool, schema,
};
use parts::{LAYER, Parts};

/// XLA's modules and executables. They are stored in split protos, in `.hlo.pb` files, or after
/// IFRT's metadata in a file, for example in an entry of a compilation cache.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_xla::XlaFormat;
/// use record_file::RecordWriter;
///
/// static FORMATS: Registry = Registry::new(&[&XlaFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("module_0001.jit_f.before_optimizations.riegeli");
/// let mut writer = RecordWriter::with_defaults(std::fs::File::create(&path)?);
/// writer.write_record(b"\x0a\x0cxla.HloProto\x12\x02\x12\x00")?;
/// writer.write_record(b"\x0a\x03\x0a\x01m")?;
/// writer.finish()?;
///
/// let opened = FORMATS.open(&path, &OpenOptions::new())?;
/// assert_eq!(opened.get("hlo_module.name")?, "m");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct XlaFormat;

/// Extension of files that contain a module as a plain message.
const HLO_ENDING: &str = ".hlo.pb";

/// Rules for the names of computations and instructions, for display.
const NAMES: &[NameRule] = &[
    ("xla.HloComputationProto", |member| {
        let name = member.text(&[1])?;
        Ok(MemberName { name, detail: None })
    }),
    ("xla.HloInstructionProto", |member| {
        let (name, detail) = (member.text(&[1])?, member.text(&[2])?);
        Ok(MemberName { name, detail })
    }),
];

impl Format for XlaFormat {
    fn name(&self) -> &'static str {
        "xla"
    }

    fn title(&self) -> &'static str {
        "XLA module or executable"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        if candidate.kind() != CandidateKind::File {
            return None;
        }
        let ending = is_named(candidate.path(), HLO_ENDING);
        let is_records_dump = is_records_dump(candidate.path());
        let has_message = (ending || is_records_dump) && given_up(candidate.head()).is_some();
        if has_message || (candidate.size() == 0 && is_records_dump) {
            // Instead of a module, the file contains a message that XLA wrote, or nothing. Opening
            // the file reports this.
            return Some(Confidence::Certain);
        }
        let is_records = candidate.is_chunked().unwrap_or(false);
        let is_split = || matches!(candidate.source().map(is_split_proto), Ok(Ok(true)));
        if (is_records && is_split()) || is_wrapped(candidate) {
            return Some(Confidence::Certain);
        }
        (ending && !is_records).then_some(Confidence::Likely)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        open(input, options).map_err(|error| error.in_file(input.path()))
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[
            HLO_PROTO,
            GPU_EXECUTABLE,
            CPU_EXECUTABLE,
            EXECUTABLE_AND_OPTIONS,
            HUMAN_READABLE_EXECUTABLE,
        ]
    }

    fn message_type(&self, path: &Path) -> Option<&'static str> {
        let file = std::fs::File::open(path).ok();
        let unwrapped = |file| unwrapped(Arc::new(file), &OpenOptions::new()).ok();
        let Some((layers, source)) = file.and_then(unwrapped) else {
            return type_in_one_piece(path, &[]);
        };
        match manifest_of(source) {
            Ok(Some(manifest)) => {
                let types = self.message_types().iter();
                types.copied().find(|name| *name == manifest.message_type())
            }
            _ => type_in_one_piece(path, &layers),
        }
    }

    fn member_names(&self) -> &'static [NameRule] {
        NAMES
    }

    fn targets(&self) -> &'static [ConvertTarget] {
        TARGETS
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
        if target.name == PLAIN {
            options.check_settings(&[])?;
            let bytes = opened.write_file_with(output, options.get_force())?;
            return Ok(Converted::new(vec![output.to_owned()], bytes));
        }
        let Some(descriptor) = opened.descriptor() else {
            let message =
                "a split proto contains its message type, but the type of this message is unknown";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let message: Arc<dyn ReadAt> = opened.reader()?.into();
        let made_from = MadeFrom::files(opened.files());
        let mut is_for_xla = true;
        let bytes = match target.name {
            UNPACKED => {
                options.check_settings(&[])?;
                check_type(descriptor.full_name(), EXECUTABLE_AND_OPTIONS, UNPACKED)?;
                let tree = unpacked(&message)?;
                let size = tree.size()?;
                let meter = options.get_progress().meter(size);
                AtomicFile::create(output, &made_from, options.get_force())?.write(|sink| {
                    copy_range(&*tree, 0..size, &mut meter.written_to(sink))?;
                    Ok(size)
                })?
            }
            PACKED => {
                check_type(descriptor.full_name(), HUMAN_READABLE_EXECUTABLE, PACKED)?;
                pack(&message, output, &made_from, &writing(options)?)?
            }
            _ => {
                let draft = match options.get_settings().get(OVERSIZED).map(String::as_str) {
                    None | Some("refuse") => Draft::new(message, descriptor.full_name())?,
                    Some("extend") => Draft::extended(message, descriptor)?,
                    Some(other) => {
                        let message =
                            format!("{OVERSIZED} must be refuse or extend, not {other:?}");
                        return Err(Error::new(ErrorKind::InvalidConfig, message));
                    }
                };
                is_for_xla = draft.is_for_xla();
                draft.write_file(output, &made_from, &writing(options)?)?
            }
        };
        let mut converted = Converted::new(vec![output.to_owned()], bytes);
        if !is_for_xla {
            converted = converted
                .note("XLA's reader refuses the file: values in it are overridden at their paths");
        }
        let layers = opened
            .archive()
            .map(|parts| parts.properties())
            .transpose()?;
        let is_wrapped = layers.is_some_and(|layers| layers.iter().any(|(name, _)| name == LAYER));
        Ok(if is_wrapped {
            converted.note("the layers around the executable are not written")
        } else {
            converted
        })
    }
}

/// The formats to which a message can be converted.
const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: SPLIT,
        title: "split proto, as XLA writes it",
    },
    ConvertTarget {
        name: PLAIN,
        title: "message in one piece",
    },
    ConvertTarget {
        name: UNPACKED,
        title: "executable, its options and its content as one message, like XLA's unpack-aot",
    },
    ConvertTarget {
        name: PACKED,
        title: "unpacked executable in the form that XLA reads, like XLA's pack-aot",
    },
];

const SPLIT: &str = "split-proto";
const PLAIN: &str = "pb";
const UNPACKED: &str = "unpacked-aot";
const PACKED: &str = "aot";

const SETTINGS: &[ConvertSetting] = &[
    ConvertSetting {
        name: COMPRESSION,
        title: "compression of chunks: none, snappy, zstd[:LEVEL], brotli[:LEVEL]; as in XLA unless set",
        is_size: false,
        forms: &[SPLIT, PACKED],
    },
    ConvertSetting {
        name: OVERSIZED,
        title: "values over 2 GiB that can't be cut for XLA's reader: refuse, or extend to write them so that only this program reads them",
        is_size: false,
        forms: &[SPLIT],
    },
];

/// Name of the setting for the compression of chunks, such as `none`, `snappy` or `zstd:3`.
const COMPRESSION: &str = "compression";

/// Name of the setting that allows records too large for XLA's reader.
const OVERSIZED: &str = "oversized";

/// Returns the options for writing a split proto, according to the options of a conversion.
fn writing(options: &ConvertOptions) -> Result<WriteOptions> {
    options.check_settings(&[COMPRESSION, OVERSIZED])?;
    let compression = options.get_settings().get(COMPRESSION);
    let compression = compression.map(|value| value.parse::<Compression>());
    Ok(WriteOptions::new()
        .compression(compression.transpose()?)
        .threads(options.get_threads())
        .force(options.get_force())
        .progress(options.get_progress().clone()))
}

/// Fails unless a message has the type that the target format `form` requires.
fn check_type(found: &str, wanted: &str, form: &str) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    let message = format!("--to {form}: needs a {wanted}, but this is a {found}");
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

fn is_named(path: &Path, ending: &str) -> bool {
    let name = path.file_name().map(std::ffi::OsStr::to_string_lossy);
    name.is_some_and(|name| name.ends_with(ending))
}

/// Returns true if a file has the name of a dump in records, rather than of a profile.
fn is_records_dump(path: &Path) -> bool {
    is_named(path, ".riegeli") && !is_named(path, ".xplane.riegeli")
}

/// Returns the type of a message that isn't a split proto, based on its file's name and its layers;
/// `None` if it is unknown.
fn type_in_one_piece(path: &Path, layers: &[Layer]) -> Option<&'static str> {
    if !layers.is_empty() {
        return Some(EXECUTABLE_AND_OPTIONS);
    }
    is_named(path, HLO_ENDING).then_some(HLO_PROTO)
}

/// Returns the error text that XLA writes to a file in place of a module; `None` if `head`, the
/// beginning of the file, isn't such a text.
fn given_up(head: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(head).ok()?;
    // Messages can't be mistaken for this text: they begin with a tag, and an `F` isn't a valid
    // tag.
    let is_text = |text: &str| text.chars().all(|c| !c.is_control() || c == '\n');
    (text.len() < 1024 && text.starts_with("Failed ") && is_text(text)).then_some(text)
}

fn open(input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
    if input.size() == 0 && is_records_dump(input.path()) {
        let message = "the file is empty: XLA's writer gave up, usually since a computation has \
                       more than 2 GiB";
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    if input.size() == 0 && is_named(input.path(), HLO_ENDING) {
        let message = "the file is empty, but a module was expected";
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    if let Some(text) = given_up(input.head()) {
        let message = format!(
            "not a module: XLA's writer left the message {:?}",
            text.trim_end()
        );
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    let path = input.is_local().then_some(input.path());
    let (layers, source) = unwrapped(input.source()?, options)?;
    let asked = options.get_descriptor().cloned();
    let is_unpacked = |asked: &MessageDescriptor| asked.full_name() == HUMAN_READABLE_EXECUTABLE;
    let unpacks = asked.as_ref().is_some_and(is_unpacked);
    let executable = unpacks
        .then(|| schema::message(EXECUTABLE_AND_OPTIONS))
        .flatten();
    let wanted = executable.or_else(|| asked.clone());
    let split = SplitProto::recognize(Arc::clone(&source), wanted)?;
    if unpacks && (split.is_some() || !layers.is_empty()) {
        let outer = split.as_ref().map_or(&source, SplitProto::message);
        let tree = unpacked(outer)?;
        let opened = Opened::of_reader(Arc::clone(&tree), asked, options)?.reading(path);
        let parts = Parts::new(HUMAN_READABLE_EXECUTABLE, tree, layers, split);
        return Ok(opened.with_archive(parts));
    }
    let Some(split) = split else {
        let known = type_in_one_piece(input.path(), &layers);
        let descriptor = options.get_descriptor().cloned();
        let descriptor = descriptor.or_else(|| schema::message(known?));
        let name = descriptor
            .as_ref()
            .map(|descriptor| descriptor.full_name().to_owned());
        let opened = if layers.is_empty() {
            Opened::of_input(input, descriptor, options)?
        } else {
            Opened::of_reader(Arc::clone(&source), descriptor, options)?.reading(path)
        };
        let parts = Parts::new(name.as_deref().unwrap_or_default(), source, layers, None);
        return Ok(opened.with_archive(parts));
    };
    let split = split.called(input.path());
    let name = split.manifest().message_type().to_owned();
    let given = options.get_schemas();
    let descriptor = options
        .get_descriptor()
        .cloned()
        .or_else(|| given?.get_message_by_name(&name))
        .or_else(|| schema::message(&name));
    let message = Arc::clone(split.message());
    let opened = Opened::of_reader(Arc::clone(&message), descriptor, options)?.reading(path);
    Ok(opened.with_archive(Parts::new(&name, message, layers, Some(split))))
}
