//! XLA's modules and executables as one of the formats.

use std::path::Path;
use std::sync::Arc;

use prost_reflect::DescriptorPool;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertTarget,
    Converted, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::size_tree::{MemberName, NameRule};
use proto_splitter_core::tensor::{TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use record_file::{Compression, ReadAt};

use crate::layers::{Layer, is_wrapped, unwrapped};
use crate::literals::Literals;
use crate::profile::read_through;
use crate::split_proto::{SplitProto, is_split_proto, manifest_of};
use crate::write::{Draft, WriteOptions};
use crate::{
    CPU_EXECUTABLE, EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO, descriptor_pool, schema,
};

/// XLA's modules and executables: split protos, `.hlo.pb` files, and executables behind IFRT's
/// metadata, in entries of a compilation cache too.
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

/// The ending of modules in one piece.
const HLO_ENDING: &str = ".hlo.pb";

/// How the members of a module are called.
const NAMES: &[NameRule] = &[
    ("xla.HloComputationProto", |member| {
        Ok(MemberName {
            name: member.text(&[1])?,
            detail: None,
        })
    }),
    ("xla.HloInstructionProto", |member| {
        Ok(MemberName {
            name: member.text(&[1])?,
            detail: member.text(&[2])?,
        })
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
        let is_dump = ending || is_named(candidate.path(), ".riegeli");
        if is_dump && (candidate.size() == 0 || given_up(candidate.head()).is_some()) {
            // Opening it says what became of it.
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
        open(input, options).map_err(|error| error.context(input.path().display()))
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
        ]
    }

    fn message_type(&self, path: &Path) -> Option<&'static str> {
        let file = std::fs::File::open(path).ok();
        let Some((layers, source)) = file.and_then(|file| unwrapped(Arc::new(file)).ok()) else {
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

    fn convert(
        &self,
        opened: &Opened,
        target: &ConvertTarget,
        output: &Path,
        options: &ConvertOptions,
    ) -> Result<Converted> {
        if target.name == "pb" {
            no_more_settings(options, &[])?;
            let bytes = opened.write_file_with(output, options.force)?;
            return Ok(Converted::new(vec![output.to_owned()], bytes));
        }
        no_more_settings(options, &[COMPRESSION])?;
        let compression = options.settings.get(COMPRESSION);
        let compression = compression.map(|value| value.parse::<Compression>());
        let Some(descriptor) = opened.descriptor() else {
            let message =
                "a split proto says what type it is of, and none is known of this message";
            return Err(Error::new(ErrorKind::SchemaNeeded, message));
        };
        let message: Arc<dyn ReadAt> = match (opened.merged()?, opened.plain()) {
            (Some(merged), _) => Arc::new(merged),
            (None, Some((message, _))) => Arc::clone(message),
            (None, None) => {
                let message = "there is no message in it";
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        };
        let draft = Draft::new(message, descriptor.full_name())?;
        let threads = threads::count(options.threads).get();
        let writing = WriteOptions::new()
            .compression(compression.transpose()?)
            .threads(u32::try_from(threads).unwrap_or(1))
            .force(options.force)
            .progress(options.progress.clone());
        let made_from = MadeFrom::files(opened.files());
        let bytes = draft.write_file(output, &made_from, &writing)?;
        let converted = Converted::new(vec![output.to_owned()], bytes);
        let layers = opened.archive().map(Archive::properties).transpose()?;
        let is_wrapped = layers.is_some_and(|layers| layers.iter().any(|(name, _)| name == LAYER));
        Ok(if is_wrapped {
            converted.note("what is around the executable is not written")
        } else {
            converted
        })
    }
}

/// The forms that a message can be written in.
const TARGETS: &[ConvertTarget] = &[
    ConvertTarget {
        name: "split-proto",
        title: "split proto, as XLA writes it",
    },
    ConvertTarget {
        name: "pb",
        title: "message in one piece",
    },
];

/// The setting that says what chunks are compressed with: `none`, `snappy`, `zstd:3`.
const COMPRESSION: &str = "compression";

/// What a layer is called among properties.
const LAYER: &str = "layer";

/// Fails if there are settings of other names.
pub(crate) fn no_more_settings(options: &ConvertOptions, known: &[&str]) -> Result<()> {
    let mut names = options.settings.keys();
    let Some(name) = names.find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let message = format!("there is no setting {name:?} for this form");
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

fn is_named(path: &Path, ending: &str) -> bool {
    let name = path.file_name().map(std::ffi::OsStr::to_string_lossy);
    name.is_some_and(|name| name.ends_with(ending))
}

/// The type of a message in one piece, by its name and what is around it.
fn type_in_one_piece(path: &Path, layers: &[Layer]) -> Option<&'static str> {
    if !layers.is_empty() {
        return Some(EXECUTABLE_AND_OPTIONS);
    }
    is_named(path, HLO_ENDING).then_some(HLO_PROTO)
}

/// The text that XLA leaves in place of a module that it couldn't write.
fn given_up(head: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(head).ok()?;
    // Messages begin with a tag, which for a text would be one of a group or a fixed number.
    let is_text = |text: &str| text.chars().all(|c| !c.is_control() || c == '\n');
    (text.len() < 1024 && text.starts_with("Failed ") && is_text(text)).then_some(text)
}

fn open(input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
    if input.size() == 0 && is_named(input.path(), ".riegeli") {
        let message = "the file is empty: XLA's writer gave up, usually since a computation has \
                       more than 2 GiB";
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    if let Some(text) = given_up(input.head()) {
        let message = format!("no module: XLA's writer left a text, {:?}", text.trim_end());
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    }
    let path = input.is_local().then_some(input.path());
    let (layers, source) = unwrapped(input.source()?)?;
    let split = SplitProto::recognize(Arc::clone(&source), options.descriptor.clone())?;
    let Some(split) = split else {
        let known = type_in_one_piece(input.path(), &layers);
        let descriptor = options.descriptor.clone();
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
    let given = options.schemas.as_ref();
    let descriptor = options
        .descriptor
        .clone()
        .or_else(|| given?.get_message_by_name(&name))
        .or_else(|| schema::message(&name));
    let message = Arc::clone(split.message());
    let opened = Opened::of_reader(Arc::clone(&message), descriptor, options)?.reading(path);
    Ok(opened.with_archive(Parts::new(&name, message, layers, Some(split))))
}

/// What belongs to an open message: what is around it, its constants, and what its records are.
#[derive(Debug)]
struct Parts {
    literals: Option<Literals>,
    layers: Vec<Layer>,
    split: Option<SplitProto>,
    message: Whole,
}

/// The message, for its checks.
struct Whole(Arc<dyn ReadAt>);

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Whole")
    }
}

impl Parts {
    fn new(
        name: &str,
        message: Arc<dyn ReadAt>,
        layers: Vec<Layer>,
        split: Option<SplitProto>,
    ) -> Parts {
        let module: Option<&[u32]> = match name {
            HLO_PROTO => Some(&[1]),
            GPU_EXECUTABLE | CPU_EXECUTABLE => Some(&[1, 1]),
            _ => None,
        };
        Parts {
            literals: module.map(|module| Literals::new(Arc::clone(&message), module)),
            layers,
            split,
            message: Whole(message),
        }
    }
}

impl Archive for Parts {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        self.literals
            .as_ref()
            .map_or(Ok(Vec::new()), Literals::infos)
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        match &self.literals {
            Some(literals) => literals.read(info),
            None => {
                let message = format!("there is no constant {:?}", info.name);
                Err(Error::new(ErrorKind::InvalidPath, message))
            }
        }
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let layers = self
            .layers
            .iter()
            .map(|layer| (LAYER.to_owned(), layer.to_string()));
        let mut properties: Vec<_> = layers.collect();
        if let Some(split) = &self.split {
            let manifest = split.manifest();
            let count = manifest.records().len();
            let what = format!(
                "{} in {count} records behind a manifest",
                manifest.message_type()
            );
            properties.push(("split proto".to_owned(), what));
        }
        Ok(properties)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let size = read_through(&*self.message.0, progress)?;
        let tensors = self.tensors()?.len() as u64;
        let checks = if self.split.is_some() {
            Checks::Checksums
        } else {
            Checks::Structure
        };
        let findings = self.split.as_ref().map(SplitProto::findings).transpose()?;
        let warnings = findings.unwrap_or_default();
        let warnings = warnings.iter().map(ToString::to_string).collect();
        Ok(Verified::new(tensors, size, checks).warnings(warnings))
    }
}
