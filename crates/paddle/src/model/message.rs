//! A model as one message, which consists of byte ranges of the model's files.

use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::spans::{SourceId, Spans, SpansBuilder};
use proto_splitter_core::split::Source;
use proto_splitter_core::wire::{FieldNumber, WireType, encode_varint, tag};
use proto_splitter_core::{Error, ErrorKind, Result};

use super::{PaddleModel, ProgramKind};
use crate::parameters::{Parameter, ParameterFile};
use crate::proto::descriptor_pool;
use crate::stream::StreamKind;

/// Numbers of the fields in `proto/proto_splitter/paddle/model.proto`.
pub(crate) mod field {
    pub(crate) mod model {
        pub(crate) const PROGRAM_FILE: u32 = 1;
        pub(crate) const PROGRAM: u32 = 2;
        pub(crate) const PIR_PROGRAM: u32 = 3;
        pub(crate) const PARAMETER_FILES: u32 = 4;
        pub(crate) const COMPANIONS: u32 = 5;
    }

    pub(crate) mod companion {
        pub(crate) const FILE: u32 = 1;
        pub(crate) const CONTENT: u32 = 2;
    }

    pub(crate) mod parameter_file {
        pub(crate) const FILE: u32 = 1;
        pub(crate) const LAYOUT: u32 = 2;
        pub(crate) const SEPARATE: u32 = 3;
        pub(crate) const PARAMETERS: u32 = 4;
    }

    pub(crate) mod parameter {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const KIND: u32 = 2;
        pub(crate) const LOD: u32 = 3;
        pub(crate) const ROWS: u32 = 4;
        pub(crate) const HEIGHT: u32 = 5;
        pub(crate) const TENSOR: u32 = 6;
        pub(crate) const VOCABULARY: u32 = 7;
    }

    pub(crate) mod tensor {
        pub(crate) const DATA: u32 = crate::stream::DATA_FIELD;
    }

    pub(crate) mod lod_level {
        pub(crate) const OFFSETS: u32 = 1;
    }
}

/// Returns true if the message [`MODEL`] has a field with this number.
pub(crate) fn is_of_model(number: u32) -> bool {
    (field::model::PROGRAM_FILE..=field::model::COMPANIONS).contains(&number)
}

/// Full name of the message type that represents a whole model.
pub const MODEL: &str = "proto_splitter.paddle.Model";

impl PaddleModel {
    /// Returns the model as one message of type [`MODEL`], which can be split, inspected or
    /// compared. The content of the files isn't copied.
    ///
    /// ```
    /// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    /// use proto_splitter_paddle::PaddleModel;
    /// use proto_splitter_paddle::proto::framework::var_type::Type;
    /// use proto_splitter_paddle::stream::{Layout, TensorSpec, write_stream};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("model.pdiparams");
    /// let mut bytes = Vec::new();
    /// let spec = TensorSpec::dense(Type::Int8, [4096]);
    /// write_stream(&mut bytes, &spec, Layout::Paddle, &mut &[7; 4096][..])?;
    /// std::fs::write(&path, &bytes)?;
    ///
    /// let model = PaddleModel::open(&path)?;
    /// let options = SplitOptions::new().max_chunk_size(1024).embed_schema(true);
    /// let written = SizeSplitter.write_with(model.source()?, folder.path().join("m"), &options)?;
    /// assert!(written.is_split && written.byte_exact);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if a file has changed since it was opened;
    /// [`ErrorKind::InvalidPath`] if a name isn't Unicode; [`ErrorKind::InvalidMessage`] if the
    /// description of a tensor has a field with the number 100, or has a group. Paddle ignores
    /// both, but the message can't represent them.
    pub fn source(&self) -> Result<Source> {
        let descriptor = descriptor_pool().get_message_by_name(MODEL);
        let descriptor = descriptor.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidSchema,
                "the schema of Paddle's models is incomplete",
            )
        })?;
        Ok(Source::from_spans(Arc::new(self.spans()?), descriptor))
    }

    /// Returns the model as one message of type [`MODEL`], for random access.
    ///
    /// # Errors
    ///
    /// The errors of [`source`](Self::source).
    pub fn spans(&self) -> Result<Spans> {
        let mut spans = Fields(SpansBuilder::new());
        if let Some((kind, part)) = &self.program {
            spans.text(field::model::PROGRAM_FILE, file_name(part.path())?)?;
            let number = match kind {
                ProgramKind::Desc => field::model::PROGRAM,
                ProgramKind::Pir => field::model::PIR_PROGRAM,
            };
            spans.file(number, part.path())?;
        }
        for file in &self.files {
            spans.parameter_file(file)?;
        }
        for companion in &self.companions {
            spans.message(field::model::COMPANIONS, |spans| {
                spans.text(field::companion::FILE, file_name(companion.path())?)?;
                spans.file(field::companion::CONTENT, companion.path())
            })?;
        }
        // The message refers to ranges of the files, which must not have changed since they were
        // opened.
        self.check_unchanged()?;
        spans.0.finish()
    }
}

fn file_name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| {
        let message = "the name of a model's file isn't Unicode";
        Error::new(ErrorKind::InvalidPath, message).in_file(path)
    })
}

/// Fails if a tensor's description has a field that the message can't represent. Paddle ignores
/// such a field.
fn check_fits(parameter: &Parameter, at: usize) -> Result<()> {
    let Some((number, offset)) = parameter.stream().parts().misfit else {
        return Ok(());
    };
    let what = match number {
        field::tensor::DATA => "which a model's message uses for the data",
        _ => "a group, which a model's message can't represent",
    };
    let message = format!("the tensor's description has field {number}, {what}");
    let name = parameter
        .name()
        .map_or_else(|| format!("tensor {at}"), str::to_owned);
    let error = Error::new(ErrorKind::InvalidMessage, message);
    Err(error.at_offset(offset).at_path(name))
}

/// A builder that writes a message field by field.
struct Fields(SpansBuilder);

impl Fields {
    fn message(&mut self, number: u32, put: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.0.begin_field(FieldNumber(number))?;
        put(self)?;
        self.0.end_field()
    }

    fn text(&mut self, number: u32, text: &str) -> Result<()> {
        self.message(number, |spans| spans.0.literal(text.as_bytes()))
    }

    /// Adds a field with an integer value, unless the value is 0, the default.
    fn number(&mut self, number: u32, value: u64) -> Result<()> {
        if value == 0 {
            return Ok(());
        }
        for word in [tag(FieldNumber(number), WireType::Varint), value] {
            let (bytes, len) = encode_varint(word);
            self.0.literal(&bytes[..len])?;
        }
        Ok(())
    }

    /// Adds a field that contains the content of the file at `path`.
    fn file(&mut self, number: u32, path: &Path) -> Result<()> {
        let file = self.0.open(path)?;
        let size = self.0.file_size(file)?;
        self.message(number, |spans| spans.0.span(file, 0..size))
    }

    fn span(&mut self, number: u32, file: SourceId, range: std::ops::Range<u64>) -> Result<()> {
        if range.is_empty() {
            Ok(())
        } else {
            self.message(number, |spans| spans.0.span(file, range))
        }
    }

    fn parameter_file(&mut self, file: &ParameterFile) -> Result<()> {
        let name = match (file.is_separate(), file.parameters()) {
            (true, [parameter]) => parameter.name().unwrap_or_default(),
            _ => file_name(file.path())?,
        };
        let bytes = self.0.open(file.path())?;
        self.message(field::model::PARAMETER_FILES, |spans| {
            spans.text(field::parameter_file::FILE, name)?;
            spans.number(field::parameter_file::LAYOUT, file.layout() as u64)?;
            spans.number(field::parameter_file::SEPARATE, file.is_separate().into())?;
            for (at, parameter) in file.parameters().iter().enumerate() {
                check_fits(parameter, at).map_err(|error| error.in_file(file.path()))?;
                spans.message(field::parameter_file::PARAMETERS, |spans| {
                    spans.parameter(bytes, parameter)
                })?;
            }
            Ok(())
        })
    }

    fn parameter(&mut self, file: SourceId, parameter: &Parameter) -> Result<()> {
        let stream = parameter.stream();
        let parts = stream.parts();
        if let Some(name) = parameter.name() {
            self.text(field::parameter::NAME, name)?;
        }
        self.number(field::parameter::KIND, stream.kind() as u64)?;
        for level in &parts.lod {
            self.message(field::parameter::LOD, |spans| {
                spans.span(field::lod_level::OFFSETS, file, level.clone())
            })?;
        }
        self.span(field::parameter::ROWS, file, parts.rows.clone())?;
        self.number(field::parameter::HEIGHT, parts.height.cast_unsigned())?;
        if stream.kind() == StreamKind::Vocabulary {
            return self.span(field::parameter::VOCABULARY, file, parts.data.clone());
        }
        self.message(field::parameter::TENSOR, |spans| {
            spans.0.span(file, parts.desc.clone())?;
            spans.span(field::tensor::DATA, file, parts.data.clone())
        })
    }
}
