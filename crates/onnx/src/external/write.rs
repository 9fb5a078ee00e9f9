//! Executing an [`ExternalPlan`]: copying the data, and then renaming all files to their final
//! names.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::merge::FilePlace;
use proto_splitter_core::progress::Meter;
use proto_splitter_core::spans::copy_range;
use proto_splitter_core::{Error, ErrorKind, MessageOffset, MessageReader, Result, threads};

use super::embedded::EmbeddedPlan;
use super::leaving::{Bytes, Leaving};
use super::place::{Placing, replace};
use super::plan::ExternalPlan;
use super::written::WrittenOnnx;
use super::{ExternalOptions, MAX_MODEL_SIZE};
use crate::elements;
use crate::source::OnnxSource;
use crate::tensors::other_length;

/// The form in which a model is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// One `.onnx` file if every reader accepts its size, otherwise the same as
    /// [`External`](Form::External).
    #[default]
    Auto,
    /// One `.onnx` file of any size.
    OnePiece,
    /// A small `.onnx` with data files next to it.
    External,
    /// One safetensors file with the model in its header: see [`EmbeddedPlan`].
    Embedded,
}

impl OnnxSource {
    /// Writes the model to `target` in the given form.
    ///
    /// # Errors
    ///
    /// The errors of [`ExternalPlan::new`], [`ExternalPlan::write`] and [`EmbeddedPlan::new`];
    /// [`ErrorKind::InvalidConfig`] if an input file of the model, or a file to which it still
    /// refers, would be replaced.
    pub fn write(
        &self,
        target: &Path,
        form: Form,
        options: &ExternalOptions,
    ) -> Result<WrittenOnnx> {
        let is_pair = match form {
            Form::Auto => self.size() > MAX_MODEL_SIZE,
            Form::OnePiece => false,
            Form::External | Form::Embedded => true,
        };
        self.outside_files().try_for_each(check_exists)?;
        let model = MessageReader::new(Arc::clone(self.reader()), self.size());
        // The new model needs the files to which it still refers as much as those that it is read
        // from, so they must be neither replaced nor removed with an old model.
        let made_from = MadeFrom::files(self.files().chain(self.outside_files()));
        if !is_pair {
            return write_one_piece(&model, target, &made_from, options);
        }
        if form == Form::Embedded {
            return EmbeddedPlan::new(model, target, options)?.write(&made_from);
        }
        ExternalPlan::new(model, target, options)?.write(&made_from)
    }
}

/// Fails if a file to which a model refers is missing.
pub(crate) fn check_exists(file: &Path) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    let message = "no such file, but data of the model is in it";
    Err(Error::new(ErrorKind::Io, message).in_file(file))
}

/// Writes a model of any size to one file.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`], [`ErrorKind::NoFolder`] or [`ErrorKind::Io`] if the file can't be
/// written; [`ErrorKind::SourceChanged`]; [`ErrorKind::Cancelled`].
pub fn write_one_piece(
    model: &MessageReader,
    target: &Path,
    made_from: &MadeFrom,
    options: &ExternalOptions,
) -> Result<WrittenOnnx> {
    let size = model.total_size();
    let file = AtomicFile::create(target, made_from, options.force)?;
    file.check_space(size)?;
    // Sets the size once. Otherwise, threads that write far past the end would extend the file
    // repeatedly.
    file.as_file()
        .set_len(size)
        .map_err(|error| at_target(error.into(), target))?;
    let place = FilePlace {
        range: MessageOffset::range(&(0..size)),
        file: file.as_file(),
        offset: 0,
    };
    let copied = model.copy_to_files(&[place], options.threads, &options.progress.meter(size));
    copied.map_err(|error| at_target(error, target))?;
    options.progress.check()?;
    let removed_files = replace(target, made_from, &options.progress, || file.commit())?;
    Ok(WrittenOnnx {
        path: target.to_owned(),
        data_files: Vec::new(),
        removed_files,
        tensors: 0,
        contexts: 0,
        model_size: size,
        data_size: 0,
    })
}

impl ExternalPlan {
    /// Writes the model and its data files atomically: even if the process is killed at any time,
    /// either the old model or the new one can be read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`], [`ErrorKind::NoFolder`] or [`ErrorKind::Io`] if a file can't
    /// be written; [`ErrorKind::InvalidMessage`] if a tensor has fewer elements than its shape
    /// requires; [`ErrorKind::SourceChanged`]; [`ErrorKind::Cancelled`].
    pub fn write(&self, made_from: &MadeFrom) -> Result<WrittenOnnx> {
        let paths: Vec<PathBuf> = self.data_files().collect();
        let (index, text) = self.index()?.unzip();
        let index_size = text.as_ref().map_or(0, |text| text.len() as u64);
        let data_size = self.data_size().saturating_add(index_size);
        let placing = Placing::begin(&self.target, paths, index, made_from, &self.options)?;
        placing.check_space(self.model_size().saturating_add(data_size))?;
        for ((file, path), planned) in placing.data().zip(self.all_files()) {
            file.as_file()
                .set_len(planned.size)
                .map_err(|error| at_target(error.into(), path))?;
        }
        let data: Vec<&AtomicFile> = placing.data().map(|(file, _)| file).collect();
        self.copy(&data)?;
        self.options.progress.check()?;
        if let (Some(file), Some(text)) = (placing.index(), text) {
            let written = file.writer_at(0).write_all(text.as_bytes());
            written.map_err(|error| at_target(error.into(), file.target()))?;
        }
        let placed = placing.place(|names, model| self.write_model(names, model))?;
        Ok(WrittenOnnx {
            path: self.target.clone(),
            data_files: placed.data_files,
            removed_files: placed.removed_files,
            tensors: self.tensor_count(),
            contexts: self.context_count(),
            model_size: self.model_size(),
            data_size,
        })
    }

    /// Writes the model, with references to data files with these names.
    fn write_model(&self, names: &[String], model: &AtomicFile) -> Result<()> {
        let skeleton = self.skeleton_with(names)?;
        let range = 0..skeleton.total_size();
        copy_range(&skeleton, range, &mut model.writer_at(0))
            .map_err(|error| at_target(error, model.target()))
    }

    /// Copies the headers, and the data of all tensors and compiled nodes, to the data files.
    pub(super) fn copy<'a>(&'a self, data: &[&'a AtomicFile]) -> Result<()> {
        for (file, planned) in data.iter().zip(&self.files) {
            let mut sink = file.writer_at(0);
            let written = sink.write_all(&planned.head);
            written.map_err(|error| at_target(error.into(), file.target()))?;
        }
        let meter = self.options.progress.meter(self.data_size());
        let mut places: Vec<FilePlace<'_>> = Vec::new();
        let mut copy = |range: &Range<u64>, file: &'a AtomicFile, offset: u64| {
            places.push(FilePlace {
                range: MessageOffset::range(range),
                file: file.as_file(),
                offset,
            });
        };
        let mut typed = Vec::new();
        for one in self.leaving.iter().filter(|one| !one.is_copy) {
            let Some(&file) = data.get(one.file) else {
                continue;
            };
            match &one.bytes {
                Bytes::Raw(range) => copy(range, file, one.offset),
                Bytes::Typed(..) => typed.push((one, file)),
            }
        }
        for one in self.contexts.leaving.iter().filter(|one| !one.is_copy) {
            if let Some(&file) = data.get(self.files.len() + one.file) {
                copy(&one.range, file, 0);
            }
        }
        let threads = self.options.threads;
        let copied = self.model.copy_to_files(&places, threads, &meter);
        copied.map_err(|error| at_target(error, &self.target))?;
        threads::map(threads::count(threads), typed.len(), |at| {
            let (one, file) = typed[at];
            self.convert(one, file, &meter)
        })
        .map(drop)
    }

    fn convert(&self, one: &Leaving, file: &AtomicFile, meter: &Meter) -> Result<()> {
        let Bytes::Typed(range, form) = &one.bytes else {
            return Ok(());
        };
        let sink = file.writer_at(one.offset);
        let mut sink = Bounded {
            sink,
            left: one.len,
            meter,
        };
        let written = elements::convert(&self.model, range.clone(), *form, &mut sink)
            .map_err(|error| at_target(error, file.target()))?;
        if written != one.len {
            let message = format!(
                "tensor \"{}\": {}",
                one.name,
                other_length(written, one.len)
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        Ok(())
    }
}

/// A writer that ignores bytes beyond a tensor's size, since they would overwrite the next tensor.
struct Bounded<'m, W> {
    sink: W,
    left: u64,
    meter: &'m Meter,
}

impl<W: Write> Write for Bounded<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let fits = &buf[..buf.len().min(most)];
        self.sink.write_all(fits)?;
        self.left -= fits.len() as u64;
        self.meter.advance(fits.len() as u64)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
