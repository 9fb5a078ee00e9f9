//! Planning the externalization of a model, and executing the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use prost::Message;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::checksum::{combine, crc32c};
use proto_splitter_core::spans::read_pieces;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_saved_model::directory::{
    FolderLock, check_forms, rebuild_except, remove_model,
};
use proto_splitter_saved_model::proto::SavedModel;
use proto_splitter_saved_model::{ModelForm, SaveOptions, SavedModelDir, TargetForm};
use proto_splitter_tensor_bundle::{
    Bundle, BundleOptions, BundlePlan, BundleReader, NewTensor, Tensor,
};
use record_file::ReadAt;

use crate::again::{self, Earlier};
use crate::call_graph::{function_name, functions};
use crate::constant::{Constant, Place};
use crate::content::{Content, Contents};
use crate::options::{ExternalizeOptions, LEAST_MIN_SIZE};
use crate::record::{MAPPED_FOLDER, RECORD_FILE, Record, bundle_files, bundle_prefix};
use crate::rewrite::{self, Destination};
use crate::scan::{MAX_REST, Scan, scan, too_large};
use crate::select::{Reason, left_in};

/// A description of a constant that is large enough to be moved out of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConstantInfo {
    /// Index of the meta graph that contains the constant.
    pub meta_graph: usize,
    /// Name of the function whose body contains the constant; `None` for the main graph.
    pub function: Option<String>,
    /// Name of the constant's node.
    pub node: String,
    /// Type of the tensor's elements.
    pub dtype: DataType,
    /// Dimensions of the tensor.
    pub shape: Vec<u64>,
    /// Size of the tensor, in bytes.
    pub size: u64,
}

/// A report on an externalized model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Externalized {
    /// Folder of the externalized model.
    pub path: PathBuf,
    /// Size of the original model as one serialized message, in bytes.
    pub message_size: u64,
    /// Size of the new `saved_model.pb`, in bytes.
    pub model_size: u64,
    /// Total size of the moved constants, in bytes. Equal constants are counted once.
    pub stored: u64,
    /// Files in the model's folder that belong to an earlier externalized model, and weren't
    /// reused.
    pub stale: Vec<PathBuf>,
}

/// A plan to externalize a model.
///
/// Making a plan writes nothing. [`write`](Self::write) and
/// [`write_in_place`](Self::write_in_place) execute it.
pub struct ExternalizePlan {
    dir: SavedModelDir,
    data: Arc<dyn ReadAt>,
    size: u64,
    constants: Vec<Constant>,
    contents: Contents,
    left: Vec<(Constant, Reason)>,
    names: BTreeMap<(usize, usize), String>,
    rest: SavedModel,
    /// Description of the largest part that remains in the model, for errors.
    largest: Option<String>,
    /// Files of an earlier externalized model in the folder.
    earlier: Earlier,
    /// Size and modification time that the model's file had before it was read.
    changed: Changed,
    options: ExternalizeOptions,
}

type Changed = (u64, Option<SystemTime>);

impl std::fmt::Debug for ExternalizePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} constants of {:?}",
            self.constants.len(),
            self.dir.path()
        )
    }
}

impl ExternalizePlan {
    /// Finds the large constants of the SavedModel in the folder `path`, and reads each of them
    /// once. The model may have any form and size.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the model without its constants has more than
    /// [`MAX_REST`](crate::MAX_REST) bytes, in which case the error names the largest part; if the
    /// model has more than [`MAX_NODES`](crate::MAX_NODES) nodes; or if the model would take more
    /// memory than [`MAX_MEMORY`](crate::MAX_MEMORY). [`ErrorKind::InvalidMessage`] if the model is
    /// malformed, or two functions have the same name, a function is missing, or a function calls
    /// itself; [`ErrorKind::UnsupportedVersion`] if the model has unknown fields;
    /// [`ErrorKind::InvalidConfig`] if the model is already externalized, or the minimum size is
    /// below [`LEAST_MIN_SIZE`]; [`ErrorKind::Cancelled`]; and the errors of
    /// [`SavedModelDir::open`].
    pub fn new(path: impl AsRef<Path>, options: &ExternalizeOptions) -> Result<Self> {
        if options.min_size < LEAST_MIN_SIZE {
            let message = format!(
                "the minimum size is {} bytes, but must be at least {LEAST_MIN_SIZE}",
                options.min_size
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let path = path.as_ref();
        let dir = SavedModelDir::open(path)?;
        let data = dir.reader();
        let size = dir.message_size();
        Self::of(dir, data, size, options).map_err(|error| error.in_file(path))
    }

    fn of(
        dir: SavedModelDir,
        data: Arc<dyn ReadAt>,
        size: u64,
        options: &ExternalizeOptions,
    ) -> Result<Self> {
        let model_path = dir.model_path();
        let changed = changed(&model_path)?;
        let mut leave = BTreeSet::new();
        let mut found = scan(&data, size, options.min_size, &leave)?;
        let earlier = Earlier::find(&dir, &found.rest)?;
        let mut reasons = reasons(&found, options)?;
        found
            .constants
            .retain(|constant| !reasons.contains_key(&constant.place));
        let bytes = found.constants.iter().map(|constant| constant.size).sum();
        let meter = options.progress.meter(bytes);
        let contents = Contents::read(&data, &found.constants, options.thread_count(), &meter)?;
        let unusual = contents.unusual.iter();
        reasons.extend(unusual.map(|place| (*place, Reason::UnusualEncoding)));
        leave.extend(reasons.keys().copied());
        let all = if leave.is_empty() {
            None
        } else {
            // This scan also lists the constants in `leave`, which the next scan omits.
            Some(scan(&data, size, options.min_size, &BTreeSet::new())?.constants)
        };
        if !leave.is_empty() {
            found = scan(&data, size, options.min_size, &leave)?;
        }
        let left = all.into_iter().flatten().filter_map(|constant| {
            let reason = *reasons.get(&constant.place)?;
            Some((constant, reason))
        });
        let mut left: Vec<(Constant, Reason)> = left.chain(found.stay).collect();
        left.sort_by_key(|(constant, _)| constant.place);
        again::forget(&mut found.rest);
        let names = names(&found.rest);
        Ok(ExternalizePlan {
            dir,
            data,
            size,
            constants: found.constants,
            contents,
            left,
            names,
            rest: found.rest,
            largest: found.largest,
            earlier,
            changed,
            options: options.clone(),
        })
    }

    /// Returns the constants that are moved out, in the model's order.
    pub fn constants(&self) -> impl ExactSizeIterator<Item = ConstantInfo> {
        self.constants.iter().map(|constant| self.info(constant))
    }

    /// Returns the large constants that can't be moved out, each with the reason.
    pub fn left(&self) -> impl ExactSizeIterator<Item = (ConstantInfo, Reason)> {
        self.left
            .iter()
            .map(|(constant, reason)| (self.info(constant), *reason))
    }

    /// Returns the total size of the constants that are moved out, in bytes. Equal constants are
    /// counted once.
    pub fn stored(&self) -> u64 {
        self.contents.all.iter().map(|content| content.size).sum()
    }

    /// Returns the size of the original model as one serialized message, in bytes.
    pub fn message_size(&self) -> u64 {
        self.size
    }

    fn info(&self, constant: &Constant) -> ConstantInfo {
        let Place {
            meta_graph,
            function,
            ..
        } = constant.place;
        ConstantInfo {
            meta_graph,
            function: function.and_then(|at| self.names.get(&(meta_graph, at)).cloned()),
            node: constant.name.clone(),
            dtype: constant.dtype,
            shape: constant.shape.clone(),
            size: constant.size,
        }
    }

    /// Writes the externalized model to the folder `to`, atomically. Copies all other files in the
    /// folder of the original.
    ///
    /// # Errors
    ///
    /// The errors of [`SavedModelDir::save_as`]; [`ErrorKind::SourceChanged`] if the model was
    /// changed after it was read; [`ErrorKind::LimitExceeded`] if the externalized model is too
    /// large for TensorFlow, in which case the error names the model's largest part.
    pub fn write(&self, to: impl AsRef<Path>) -> Result<Externalized> {
        let to = to.as_ref();
        self.check_unchanged()?;
        let save = SaveOptions::new().force(self.options.force);
        if self.constants.is_empty() {
            let stale = &self.earlier.stale;
            let saved = self.dir.save_except(to, TargetForm::Plain, stale, &save)?;
            return Ok(self.externalized(to, saved.message_size));
        }
        let final_folder = absolute(to)?;
        // Files of the original's folder that the output replaces aren't copied.
        let except = [self.written_over(), self.stale()].concat();
        let rebuilt = rebuild_except(self.dir.path(), to, &except, &save, |prefix| {
            let folder = prefix.parent().unwrap_or(Path::new("."));
            self.fill(folder, &final_folder)
        })?;
        Ok(self.externalized(to, rebuilt.filled))
    }

    /// Externalizes the model in place.
    ///
    /// The bundle is written first. Then the new `saved_model.pb` is renamed to its final name. If
    /// the process is interrupted, the folder has either the old model or the new one. If it has
    /// the new one, [`finish_in_place`](crate::finish_in_place) completes the remaining steps.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the folder can't be written to, or another conversion is running;
    /// [`ErrorKind::AlreadyExists`] if `saved_model.pb` and `saved_model.cpb` both exist and
    /// contain different models, or a link leads to the constants or the record of another model,
    /// or to their folder; [`ErrorKind::SourceChanged`] if the model was changed after it was read;
    /// [`ErrorKind::LimitExceeded`] if the new model is too large for TensorFlow.
    pub fn write_in_place(&self) -> Result<Externalized> {
        let folder = self.dir.path();
        self.check_unchanged()?;
        if self.constants.is_empty() {
            let saved =
                SavedModelDir::convert_in_place(folder, TargetForm::Plain, &SaveOptions::new())?;
            remove_stale(folder, &self.earlier.stale)?;
            return Ok(self.externalized(folder, saved.message_size));
        }
        let _lock = FolderLock::take(folder)?;
        self.check_other_form()?;
        self.check_unchanged()?;
        self.check_shared(folder)?;
        let model_size = self.fill(folder, &absolute(folder)?)?;
        remove_model(folder, self.dir.form())?;
        let written: BTreeSet<PathBuf> = self.written_over().into_iter().collect();
        let stale = self.stale().into_iter();
        let stale: Vec<PathBuf> = stale.filter(|file| !written.contains(file)).collect();
        remove_stale(folder, &stale)?;
        SavedModelDir::open(folder)?.rewrite_fingerprint()?;
        Ok(self.externalized(folder, model_size))
    }

    /// Fails if the model's file was changed after it was read.
    fn check_unchanged(&self) -> Result<()> {
        let model_path = self.dir.model_path();
        if changed(&model_path).ok() == Some(self.changed) {
            return Ok(());
        }
        let message = format!("{}: changed since it was read", model_path.display());
        Err(Error::new(ErrorKind::SourceChanged, message))
    }

    /// Fails if the bundle or the record of another model would be replaced because a link leads to
    /// it or to its folder. A bundle whose contents are all written again isn't lost, nor is the
    /// record of this model, so an interrupted run can be repeated.
    fn check_shared(&self, folder: &Path) -> Result<()> {
        // If the file is itself a link, the link's target is replaced.
        let is_shared =
            |file: &Path| file.is_file() && (file.is_symlink() || !again::is_own(folder, file));
        let refuse = |file: &Path| {
            let message = "another model may use this file, since a link leads to it or its \
                           folder: externalize to a new folder, or remove the link";
            Err(Error::new(ErrorKind::AlreadyExists, message).in_file(file))
        };
        let record = folder.join(RECORD_FILE);
        if is_shared(&record)
            && let Some(kept) = Record::load(folder)?
            && !kept.has_original(&*self.data, self.size)?
        {
            return refuse(&record);
        }
        let [index, data] = bundle_files(folder);
        let shared = [&index, &data].into_iter().find(|file| is_shared(file));
        // An earlier bundle that the model still reads is copied to the new one. Without its index,
        // a bundle can't be read.
        if let Some(shared) = shared
            && index.is_file()
            && !self.options.mapped
            && self.earlier.bundle.is_none()
        {
            let contents = self.contents.all.iter();
            let keys: BTreeSet<&str> = contents.map(|content| content.key.as_str()).collect();
            let kept = Bundle::open(bundle_prefix(folder))?;
            if kept
                .tensors()
                .iter()
                .any(|tensor| !keys.contains(tensor.name()))
            {
                return refuse(shared);
            }
        }
        Ok(())
    }

    /// Fails if the folder of a chunked model also has a `saved_model.pb` with a different model,
    /// which the new model would replace.
    fn check_other_form(&self) -> Result<()> {
        let folder = self.dir.path();
        let is_beside = folder.join("saved_model.pb").is_file();
        if self.dir.form() != ModelForm::Chunked || !is_beside || self.is_interrupted()? {
            return Ok(());
        }
        check_forms(folder)
    }

    /// Returns true if the `saved_model.pb` in the folder is the externalized form of this model,
    /// which an interrupted run has written.
    fn is_interrupted(&self) -> Result<bool> {
        let folder = self.dir.path();
        match Record::load(folder) {
            Ok(Some(record)) => {
                Ok(record.is_of(folder)? && record.has_original(&*self.data, self.size)?)
            }
            // A damaged record doesn't show to which model the `saved_model.pb` belongs.
            Ok(None) | Err(_) => Ok(false),
        }
    }

    fn externalized(&self, path: &Path, model_size: u64) -> Externalized {
        Externalized {
            path: path.to_owned(),
            message_size: self.size,
            model_size,
            stored: self.stored(),
            stale: self.stale(),
        }
    }

    /// Returns the files of an earlier externalized model that the new model doesn't use.
    fn stale(&self) -> Vec<PathBuf> {
        let mut stale = self.earlier.stale.clone();
        if !self.constants.is_empty() {
            stale.extend_from_slice(&self.earlier.unread);
        }
        stale
    }

    /// Returns the files that are written if constants are moved out: the files with the constants,
    /// and the record. Files of an earlier externalized model may have the same names.
    fn written_over(&self) -> Vec<PathBuf> {
        let folder = self.dir.path();
        let mut files = vec![folder.join(RECORD_FILE)];
        if self.options.mapped {
            let mapped = folder.join(MAPPED_FOLDER);
            let contents = self.contents.all.iter();
            files.extend(contents.map(|content| rewrite::local::content_path(&mapped, content)));
        } else {
            files.extend(bundle_files(folder));
        }
        files
    }

    /// Writes all new files to `folder`, which is `final_folder` itself or will be renamed to it.
    /// Writes `saved_model.pb` last, and returns its size in bytes.
    fn fill(&self, folder: &Path, final_folder: &Path) -> Result<u64> {
        let mapped = final_folder.join(MAPPED_FOLDER);
        let destination = if self.options.mapped {
            Destination::Local(&mapped)
        } else {
            Destination::Bundle
        };
        let mut model = self.rest.clone();
        for (index, meta_graph) in model.meta_graphs.iter_mut().enumerate() {
            let (contents, of) = (&self.contents.all, &self.contents.of);
            rewrite::rewrite(meta_graph, index, contents, of, destination)?;
        }
        let len = model.encoded_len() as u64;
        if len > MAX_REST {
            return Err(too_large(len, self.largest.as_deref()));
        }
        let bytes = model.encode_to_vec();
        drop(model);
        let crcs = if self.options.mapped {
            self.write_mapped(&folder.join(MAPPED_FOLDER))?
        } else {
            self.write_bundle(folder)?
        };
        let (constants, contents) = (&self.constants, &self.contents);
        let mut record = Record::new(&*self.data, self.size, constants, contents, &crcs)?;
        if self.options.mapped {
            record = record.mapped();
        }
        record.keeps_bundle = self.earlier.bundle.is_some();
        // The original has been read completely.
        self.check_unchanged()?;
        record.write(folder, &bytes, &self.made_from())?;
        let model = folder.join("saved_model.pb");
        let file = AtomicFile::create(model, &self.made_from(), true)?;
        file.write(|sink| Ok(sink.write_all(&bytes)?))?;
        Ok(bytes.len() as u64)
    }

    /// Returns the files that the outputs are made from, which outputs in the same folder may
    /// replace: the file of the original model, and the files of an earlier bundle that is copied.
    fn made_from(&self) -> MadeFrom {
        let bundle = self.earlier.bundle.iter().flat_map(Bundle::files);
        MadeFrom::Edited(bundle.chain([self.dir.model_path()]).collect())
    }

    /// Returns the tensors to copy from the earlier bundle to the new one if the model still reads
    /// the earlier bundle; otherwise, returns no tensors. Tensors with the names of moved constants
    /// are omitted.
    fn kept_readers(&self) -> Result<Vec<(&Tensor, BundleReader)>> {
        let Some(bundle) = &self.earlier.bundle else {
            return Ok(Vec::new());
        };
        let moved = self.contents.all.iter();
        let moved: BTreeSet<&str> = moved.map(|content| content.key.as_str()).collect();
        let kept = bundle.tensors().iter();
        let kept = kept.filter(|tensor| !moved.contains(tensor.name()));
        kept.map(|tensor| Ok((tensor, bundle.reader(tensor)?)))
            .collect()
    }

    /// Writes the contents of all constants to a bundle, and returns the crc32c of each.
    fn write_bundle(&self, folder: &Path) -> Result<Vec<u32>> {
        let prefix = bundle_prefix(folder);
        make_folder(&folder.join("assets"))?;
        let kept = self.kept_readers()?;
        let tensors = self.contents.all.iter().map(|content| {
            NewTensor::new(
                &content.key,
                content.dtype,
                content.shape.clone(),
                &content.bytes,
            )
        });
        let kept = kept.iter().map(|(tensor, reader)| {
            NewTensor::new(
                tensor.name(),
                tensor.dtype(),
                tensor.shape().to_vec(),
                reader,
            )
        });
        let tensors = tensors.chain(kept);
        // Files of an interrupted run may be overwritten.
        let mut options = BundleOptions::new()
            .made_from(self.made_from())
            .force(true)
            .progress(self.options.progress.clone());
        if let Some(threads) = self.options.threads {
            options = options.threads(threads);
        }
        let written = BundlePlan::new(tensors.collect(), 1)?.write(prefix, &options)?;
        let crc_of = |content: &Content| written.crcs.get(&content.key).copied();
        let crcs: Option<Vec<u32>> = self.contents.all.iter().map(crc_of).collect();
        crcs.ok_or_else(|| Error::new(ErrorKind::Io, "a constant was not written"))
    }

    /// Writes the contents of all constants to separate files, and returns the crc32c of each file.
    fn write_mapped(&self, folder: &Path) -> Result<Vec<u32>> {
        make_folder(folder)?;
        let meter = self.options.progress.meter(self.stored());
        let (contents, made_from) = (&self.contents.all, self.made_from());
        let write = |at: usize, buffer: &mut Vec<u8>| -> Result<u32> {
            let content = &contents[at];
            let path = rewrite::local::content_path(folder, content);
            let mut file = AtomicFile::create(&path, &made_from, true)?;
            let mut crc = 0;
            read_pieces(&content.bytes, 0..content.size, buffer, |_, bytes| {
                crc = combine(crc, crc32c(bytes), bytes.len() as u64);
                let written = file.as_file_mut().write_all(bytes);
                written.map_err(|error| at_target(error.into(), &path))?;
                meter.advance(bytes.len() as u64)
            })?;
            file.commit().map(|()| crc)
        };
        let threads = self.options.thread_count();
        proto_splitter_tensor_bundle::work::map(threads, contents.len(), write)
    }
}

fn changed(path: &Path) -> Result<Changed> {
    let metadata = fs::metadata(path).map_err(|error| Error::from(error).in_file(path))?;
    Ok((metadata.len(), metadata.modified().ok()))
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::from(error).in_file(path))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::from(error).in_file(path))
}

/// Returns the constants that can't be moved out because of the functions they are in, each with
/// the reason.
fn reasons(found: &Scan, options: &ExternalizeOptions) -> Result<BTreeMap<Place, Reason>> {
    let mut reasons = BTreeMap::new();
    for (index, meta_graph) in found.rest.meta_graphs.iter().enumerate() {
        let constants = found.constants.iter();
        let own: Vec<&Constant> = constants
            .filter(|constant| constant.place.meta_graph == index)
            .collect();
        reasons.extend(left_in(meta_graph, &own, options.mapped)?);
    }
    Ok(reasons)
}

/// Removes files of an earlier externalized model in `folder`, and the folder of its mapped files.
/// Files in folders to which links lead are left, since they may be another model's.
fn remove_stale(folder: &Path, files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| again::is_own(folder, file)) {
        match fs::remove_file(file) {
            // A temporary file of a killed process may have been removed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|error| Error::from(error).in_file(file))?,
        }
        if let Some(folder) = file.parent() {
            // The folder isn't removed if it has other files.
            let _ = fs::remove_dir(folder);
        }
    }
    Ok(())
}

/// Returns the names of all functions, by the index of the meta graph and the function's index in
/// the meta graph's library.
fn names(model: &SavedModel) -> BTreeMap<(usize, usize), String> {
    let mut names = BTreeMap::new();
    for (index, meta_graph) in model.meta_graphs.iter().enumerate() {
        let functions = meta_graph.graph_def.as_ref().map_or(&[][..], functions);
        let own = functions.iter().enumerate();
        names.extend(own.map(|(at, function)| ((index, at), function_name(function).to_owned())));
    }
    names
}
