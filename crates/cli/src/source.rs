//! A message that is open, in whatever form it is stored.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::atomic::MadeFrom;
use proto_splitter::container::ChunkedFile;
use proto_splitter::formats::ALL;
use proto_splitter::merge::{Limits, ReadOptions};
use proto_splitter::progress::Progress;
use proto_splitter::record_file::ReadAt;
use proto_splitter::view::MessageView;
use proto_splitter::{Error, ErrorKind, OpenOptions, Opened};

use crate::args::SchemaArgs;
use crate::failure::Failure;
use crate::input::{Form, Input};
use crate::remote;
use crate::types::Types;

/// What a file in chunks is read from: a file, or an object in a store.
pub(crate) type Shared = Arc<dyn ReadAt>;

/// A message that is open.
pub(crate) enum Source {
    Chunked(Box<ChunkedFile<Shared>>),
    Plain(Shared),
    /// Put together from several files by its format.
    Assembled(Box<Opened>),
}

impl Source {
    pub(crate) fn open(input: &Input, options: &ReadOptions) -> Result<Self, Failure> {
        if input.form == Form::Chunked {
            let file = chunked(input, &options.limits)?;
            return Ok(Source::Chunked(Box::new(file)));
        }
        let open = OpenOptions::new()
            .descriptor(options.descriptor.as_ref().cloned())
            .limits(options.limits.clone())
            .allow_missing_files(input.is_looked_at)
            .companion(input.companion.clone());
        if let Some(opened) = assembled(input, &open)? {
            if opened.plain().is_none() {
                let title = title(&opened);
                let message = format!("{}: {title}: tensors, and no message", input.file.display());
                return Err(Failure::usage(message));
            }
            return Ok(Source::Assembled(Box::new(opened)));
        }
        if remote::is_url(&input.file) {
            return remote::source(&input.file).map(Source::Plain);
        }
        File::open(&input.file)
            .map(|file| Source::Plain(Arc::new(file)))
            .map_err(|error| Failure::io(&input.file, &error))
    }

    /// Fails if the target is one of the files that are read, the one with the `value` that goes in
    /// included.
    pub(crate) fn check_apart(
        &self,
        target: &Path,
        input: &Input,
        value: Option<&Path>,
    ) -> Result<(), Failure> {
        let read = self.files(input);
        check_apart(read.iter().map(PathBuf::as_path).chain(value), target)
    }

    /// The files that are read.
    pub(crate) fn files(&self, input: &Input) -> Vec<PathBuf> {
        let mut files = match self {
            Source::Chunked(file) => other_files(input, file),
            Source::Plain(_) => Vec::new(),
            Source::Assembled(opened) => opened.files().to_vec(),
        };
        files.push(input.file.clone());
        files
    }

    /// The message by position; none if it is in chunks.
    pub(crate) fn plain(&self) -> Option<Shared> {
        match self {
            Source::Chunked(_) => None,
            Source::Plain(file) => Some(Arc::clone(file)),
            Source::Assembled(opened) => opened.plain().map(|(bytes, _)| Arc::clone(bytes)),
        }
    }

    /// The message, to be read in parts. Fails if it is evidently of another type than was said.
    pub(crate) fn view(
        &self,
        options: ReadOptions,
    ) -> Result<MessageView<'_, Shared>, proto_splitter::Error> {
        let view = match self {
            Source::Chunked(file) => file.view(options),
            Source::Plain(file) => MessageView::of_plain(file, options)?,
            Source::Assembled(opened) => match opened.plain() {
                Some((bytes, _)) => MessageView::of_plain(bytes, options)?,
                // Those without a message were refused when they were opened.
                None => {
                    let message = "there is no message";
                    return Err(Error::new(ErrorKind::InvalidConfig, message));
                }
            },
        };
        view.check_type()?;
        Ok(view)
    }
}

/// The input as its format opens it, if that is more than the message in a file: an archive, or a
/// message that several files make. None of what the caller says is of another type.
fn assembled(input: &Input, options: &OpenOptions) -> Result<Option<Opened>, Failure> {
    let Some(format) = input.format() else {
        return Ok(None);
    };
    let types = format.message_types();
    let other = |name: &str| !types.is_empty() && !types.contains(&name);
    let asked = options.descriptor.as_ref();
    if asked.is_some_and(|asked| other(asked.full_name())) {
        return Ok(None);
    }
    if remote::is_url(&input.file) {
        // Its format reads it as the message that it is.
        return Ok(None);
    }
    let opened = ALL.open_as(format, &input.file, options);
    let opened = opened.map_err(|error| Failure::of(&input.file, &error))?;
    Ok(Some(opened).filter(|opened| opened.message_file().is_none()))
}

/// How an input is opened whatever it is.
fn open_options(
    input: &Input,
    schema: &SchemaArgs,
    limits: Limits,
    progress: Progress,
) -> Result<OpenOptions, Failure> {
    let types = Types::load(schema)?;
    let asked = types.asked().cloned();
    let asked = asked.or_else(|| match input.format() {
        Some(_) => types.asked_or_of_input(input),
        None => None,
    });
    Ok(OpenOptions::new()
        .descriptor(asked)
        .schemas(types.given().clone())
        .companion(input.companion.clone())
        .allow_missing_files(input.is_looked_at)
        .limits(limits)
        .progress(progress))
}

/// The input, whatever it is: for what all inputs have.
pub(crate) fn opened(
    input: &Input,
    schema: &SchemaArgs,
    limits: Limits,
    progress: Progress,
) -> Result<Opened, Failure> {
    let options = open_options(input, schema, limits, progress)?;
    if remote::is_url(input.path()) {
        return remote::open(input.path(), &options);
    }
    open_any(input, &options)
}

fn open_any(input: &Input, options: &OpenOptions) -> Result<Opened, Failure> {
    let opened = match input.named_format {
        Some(format) => ALL.open_as(format, input.path(), options),
        None => ALL.open(input.path(), options),
    };
    opened.map_err(|error| Failure::of(input.path(), &error))
}

/// The input, whatever it is, opened by settings that its format knows.
pub(crate) fn opened_with<'a>(
    input: &Input,
    schema: &SchemaArgs,
    settings: impl Iterator<Item = &'a (String, String)>,
) -> Result<Opened, Failure> {
    let options = open_options(input, schema, Limits::new(), Progress::none())?;
    let options = settings.fold(options, |options, (name, value)| {
        options.setting(name, value)
    });
    open_any(input, &options)
}

/// The input, if its format has more to say of it than of any message: an archive, or a message that
/// several files make or that has an archive of its own. None if the caller says what it is.
pub(crate) fn told(
    input: &Input,
    schema: &SchemaArgs,
    limits: Limits,
    progress: Progress,
) -> Result<Option<Opened>, Failure> {
    if schema.message.is_some() || !schema.proto.is_empty() || !schema.descriptor_set.is_empty() {
        return special(input, schema, limits, progress);
    }
    let Some(format) = input.format() else {
        return Ok(None);
    };
    let options = open_options(input, schema, limits, progress)?;
    let opened = ALL.open_as(format, &input.file, &options);
    let opened = opened.map_err(|error| Failure::of(&input.file, &error))?;
    let has_more = opened.message_file().is_none() || opened.archive().is_some();
    Ok(Some(opened).filter(|_| has_more))
}

/// The input, if it is more than a message in one file: an archive, or a message that several files
/// make.
pub(crate) fn special(
    input: &Input,
    schema: &SchemaArgs,
    limits: Limits,
    progress: Progress,
) -> Result<Option<Opened>, Failure> {
    match input.format() {
        Some(_) => assembled(input, &open_options(input, schema, limits, progress)?),
        None => Ok(None),
    }
}

/// What an input is called in a sentence, without an article.
pub(crate) fn title(opened: &Opened) -> &'static str {
    opened.format().map_or("archive", |format| format.title())
}

/// Fails if the target is one of the files that are read.
pub(crate) fn check_apart<P: AsRef<Path>>(
    read: impl IntoIterator<Item = P>,
    target: &Path,
) -> Result<(), Failure> {
    let apart = MadeFrom::files(read).check_apart(target);
    apart.map_err(|error| Failure::usage(error.to_string()))
}

/// A message in chunks, which is opened nowhere else.
pub(crate) fn chunked(input: &Input, limits: &Limits) -> Result<ChunkedFile<Shared>, Failure> {
    if remote::is_url(&input.file) {
        return remote::chunked(&input.file, limits);
    }
    ChunkedFile::open_shared(&input.file, limits).map_err(|error| Failure::of(&input.file, &error))
}

/// The other files that have chunks of one, in the order that its trailer counts them in.
pub(crate) fn other_files(input: &Input, file: &ChunkedFile<Shared>) -> Vec<PathBuf> {
    // Beside the file itself, not beside a link to it.
    let is_link = fs::symlink_metadata(&input.file).is_ok_and(|file| file.is_symlink());
    let real = is_link
        .then(|| fs::canonicalize(&input.file).ok())
        .flatten();
    let folder = real.as_ref().unwrap_or(&input.file).parent();
    let named = file.trailer().metadata().files.iter();
    let of = |path: &String| folder.unwrap_or(Path::new("")).join(path);
    named.map(|file| of(&file.path)).collect()
}
