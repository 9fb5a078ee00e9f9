//! Reading executables that are stored as bytes in a message with their options, and converting
//! such a message to and from a single unpacked message.

use std::io::BufWriter;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::spans::{SourceId, SpansBuilder, copy_range};
use proto_splitter_core::wire::{Field, FieldNumber, SourceInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::split_proto::SplitProto;
use crate::write::{Draft, WriteOptions};
use crate::{CPU_EXECUTABLE, EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE};

/// Full name of the message type that XLA's own tool creates when it unpacks an executable.
pub const HUMAN_READABLE_EXECUTABLE: &str = "xla.HumanReadableAotExecutable";

/// Number of the `xla.HumanReadableAotExecutable` field that contains the executable's options.
const OPTIONS: u32 = 1;
/// Number of the `xla.HumanReadableAotExecutable` field that contains an executable for GPUs.
const ON_GPU: u32 = 2;
/// Number of the `xla.HumanReadableAotExecutable` field that contains an executable for CPUs.
const ON_CPU: u32 = 3;

/// Number of the `xla.ExecutableAndOptionsProto` field that contains the executable as bytes.
const SERIALIZED: u32 = 1;

/// Number of the `xla.ExecutableAndOptionsProto` field that contains the client's name. Only
/// executables for GPUs have this field.
const CLIENT: u32 = 3;

/// An executable that an `xla.ExecutableAndOptionsProto` contains as bytes.
pub(crate) struct Executable {
    /// The executable as one message. If it is stored as a split proto, the message is assembled
    /// from its records.
    pub(crate) message: Arc<dyn ReadAt>,
    /// The split proto that contains the executable; `None` if the executable is a plain message.
    pub(crate) split: Option<SplitProto>,
    /// True if the executable is for GPUs.
    is_on_gpu: bool,
    /// Ranges of the fields of the `xla.ExecutableAndOptionsProto`, except for the executable.
    rest: Vec<Range<u64>>,
}

impl Executable {
    /// Finds the executable in `outer`, an `xla.ExecutableAndOptionsProto`.
    pub(crate) fn find(outer: &Arc<dyn ReadAt>) -> Result<Executable> {
        let (mut bytes, mut rest, mut has_client) = (0..0, Vec::new(), false);
        for field in fields(&**outer)? {
            if field.is_len(SERIALIZED) {
                bytes = field.value;
            } else {
                has_client |= field.is_len(CLIENT) && !field.value.is_empty();
                rest.push(field.start..field.end);
            }
        }
        let bytes = part(outer, [bytes])?;
        let split = SplitProto::recognize(Arc::clone(&bytes), None)
            .map_err(|error| error.context("serialized_executable"))?;
        let is_on_gpu = match &split {
            Some(split) => split.manifest().message_type() != CPU_EXECUTABLE,
            None => has_client,
        };
        let message = split.as_ref().map(|split| Arc::clone(split.message()));
        Ok(Executable {
            message: message.unwrap_or(bytes),
            split,
            is_on_gpu,
            rest,
        })
    }

    /// Returns the full name of the executable's message type.
    pub(crate) fn message_type(&self) -> &str {
        match &self.split {
            Some(split) => split.manifest().message_type(),
            None if self.is_on_gpu => GPU_EXECUTABLE,
            None => CPU_EXECUTABLE,
        }
    }

    /// Returns the executable and the other fields of `outer` as one
    /// `xla.HumanReadableAotExecutable`.
    fn tree(&self, outer: &Arc<dyn ReadAt>) -> Result<Arc<dyn ReadAt>> {
        let known = [GPU_EXECUTABLE, CPU_EXECUTABLE];
        if !known.contains(&self.message_type()) {
            let name = self.message_type();
            let message = format!("serialized_executable is a {name}, not an executable");
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        let mut builder = SpansBuilder::new();
        let options = builder.reader("the executable with its options", Arc::clone(outer))?;
        let executable = builder.reader("serialized_executable", Arc::clone(&self.message))?;
        builder.begin_field(FieldNumber(OPTIONS))?;
        for range in &self.rest {
            builder.span(options, range.clone())?;
        }
        builder.end_field()?;
        let number = if self.is_on_gpu { ON_GPU } else { ON_CPU };
        builder.begin_field(FieldNumber(number))?;
        builder.span(executable, 0..self.message.size()?)?;
        builder.end_field()?;
        Ok(Arc::new(builder.finish()?))
    }
}

/// Converts an `xla.ExecutableAndOptionsProto` and the executable in it to a single message, an
/// `xla.HumanReadableAotExecutable`.
pub(crate) fn unpacked(outer: &Arc<dyn ReadAt>) -> Result<Arc<dyn ReadAt>> {
    Executable::find(outer)?.tree(outer)
}

/// Returns the field numbers that lead to the module in an `xla.HumanReadableAotExecutable`. They
/// depend on whether the executable is for a CPU or a GPU.
pub(crate) fn unpacked_module(tree: &dyn ReadAt) -> Result<&'static [u32]> {
    let fields = fields(tree)?;
    let is_on_cpu = fields.iter().any(|field| field.is_len(ON_CPU));
    Ok(if is_on_cpu { &[3, 1, 1] } else { &[2, 1, 1] })
}

/// Writes an [unpacked](unpacked) executable in the form that XLA reads. For a GPU, this is a split
/// proto that contains another split proto; for a CPU, it is a message that contains another
/// message. Returns the number of bytes written.
pub(crate) fn pack(
    tree: &Arc<dyn ReadAt>,
    target: &Path,
    made_from: &MadeFrom,
    options: &WriteOptions,
) -> Result<u64> {
    let (mut beside, mut executable, mut is_on_gpu) = (Vec::new(), Vec::new(), None);
    for field in fields(&**tree)? {
        match field.number.0 {
            OPTIONS if field.is_len(OPTIONS) => beside.push(field.value),
            number @ (ON_GPU | ON_CPU) if field.is_len(number) => {
                // If both kinds of fields occur, the kind that occurs last takes effect.
                if is_on_gpu.replace(number == ON_GPU) != Some(number == ON_GPU) {
                    executable.clear();
                }
                executable.push(field.value);
            }
            _ => {}
        }
    }
    let Some(is_on_gpu) = is_on_gpu else {
        let message = "there is neither a gpu_executable nor a cpu_executable to pack";
        return Err(Error::new(ErrorKind::InvalidMessage, message));
    };
    let mut executable = part(tree, executable)?;
    if is_on_gpu {
        let mut file = BufWriter::new(tempfile::tempfile()?);
        Draft::new(executable, GPU_EXECUTABLE)?.write_to(&mut file, options)?;
        let file = file
            .into_inner()
            .map_err(|error| Error::from(error.into_error()))?;
        executable = Arc::new(file);
    }
    let beside = part(tree, beside)?;
    let mut builder = SpansBuilder::new();
    let source = builder.reader("serialized_executable", Arc::clone(&executable))?;
    builder.begin_field(FieldNumber(SERIALIZED))?;
    builder.span(source, 0..executable.size()?)?;
    builder.end_field()?;
    let source = builder.reader("executable_and_options", Arc::clone(&beside))?;
    for field in fields(&*beside)? {
        if !field.is_len(SERIALIZED) {
            builder.span(source, field.start..field.end)?;
        }
    }
    let outer: Arc<dyn ReadAt> = Arc::new(builder.finish()?);
    if is_on_gpu {
        let draft = Draft::new(outer, EXECUTABLE_AND_OPTIONS)?;
        return draft.write_file(target, made_from, options);
    }
    let size = outer.size()?;
    let file = AtomicFile::create(target, made_from, options.get_force())?;
    file.write(|sink| {
        copy_range(&*outer, 0..size, sink)?;
        Ok(size)
    })
}

fn fields(message: &dyn ReadAt) -> Result<Vec<Field>> {
    let size = message.size()?;
    WireCursor::new(SourceInput::new(message, size)).fields(0..size)
}

/// Returns a source that consists of these ranges of `source`, in this order.
pub(crate) fn part(
    source: &Arc<dyn ReadAt>,
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> Result<Arc<dyn ReadAt>> {
    let mut builder = SpansBuilder::new();
    let file: SourceId = builder.reader("the executable", Arc::clone(source))?;
    for range in ranges {
        builder.span(file, range)?;
    }
    Ok(Arc::new(builder.finish()?))
}
