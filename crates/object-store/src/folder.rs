//! Folders of objects, and copying objects from and to local folders.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use object_store::{GetOptions, ObjectStore};
use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use record_file::ReadAt;

use crate::connector::{OpenEnded, UNKNOWN_SIZE};
use crate::failure::{Failure, lifted};
use crate::location::ObjectLocation;
use crate::options::{ObjectReadOptions, ObjectWriteOptions};
use crate::reader::ObjectReader;
use crate::runtime;
use crate::trouble::Trouble;
use crate::writer::ObjectWriter;

/// Number of files to copy at once.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Size of the pieces in which a file is copied, in bytes: 1 MiB.
const COPY_LEN: usize = 1 << 20;

/// A folder in a store: all objects whose names begin with the folder's name and a slash.
#[derive(Clone, Debug)]
pub struct Folder {
    location: ObjectLocation,
}

/// An object in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// Name of the object relative to the folder, with slashes between its parts.
    pub name: String,
    /// Size of the object, in bytes.
    pub size: u64,
}

impl Folder {
    /// Returns the folder at this location. Makes no request.
    pub fn new(location: &ObjectLocation) -> Folder {
        Folder {
            location: location.clone(),
        }
    }

    /// Returns the objects in the folder and its subfolders, sorted by name. For a web server that
    /// can't list folders, returns an empty list.
    ///
    /// # Errors
    ///
    /// Any error from the store; [`ErrorKind::InvalidMessage`] if the name of an object can't be
    /// the name of a file.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// use proto_splitter_object_store::{Folder, ObjectLocation, ObjectWriter, ObjectWriteOptions};
    ///
    /// let model = ObjectLocation::parse("memory:///saved/model")?;
    /// for name in ["saved_model.pb", "variables/variables.index"] {
    ///     let mut writer = ObjectWriter::create(&model.inside(name), &ObjectWriteOptions::new())?;
    ///     writer.write_all(b"some")?;
    ///     writer.finish()?;
    /// }
    /// let items = Folder::new(&model).list()?;
    /// let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    /// assert_eq!(names, ["saved_model.pb", "variables/variables.index"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self) -> Result<Vec<Item>> {
        let path = self.location.path();
        let listed = self.location.store().list(Some(path));
        let listed = match runtime::wait(listed.try_collect::<Vec<_>>())? {
            Ok(listed) => listed,
            // Most web servers don't support listing folders.
            Err(error) if self.location.is_read_only() && is_answer(&error) => Vec::new(),
            Err(error) => {
                let name = self.location.to_string();
                return Err(io::Error::from(Failure::of(&name, &error)).into());
            }
        };
        let mut items = Vec::with_capacity(listed.len());
        for meta in listed {
            let front = match path.as_ref() {
                "" => String::new(),
                path => format!("{path}/"),
            };
            let Some(name) = meta.location.as_ref().strip_prefix(&front) else {
                continue;
            };
            let is_strange = |part: &str| matches!(part, "" | "." | "..") || part.contains('\\');
            if name.split('/').any(is_strange) {
                let message = "the name of the object can't be the name of a file";
                return Err(Error::new(ErrorKind::InvalidMessage, message).context(meta.location));
            }
            items.push(Item {
                name: name.to_owned(),
                size: meta.size,
            });
        }
        items.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(items)
    }

    /// Copies all objects to files in the existing folder `target`, several at once. Returns the
    /// objects.
    ///
    /// # Errors
    ///
    /// The first error from reading or writing; [`ErrorKind::AlreadyExists`] if a file exists;
    /// [`ErrorKind::Cancelled`] if `progress` cancels the work. Files that were already copied
    /// remain.
    pub fn download(&self, target: &Path, progress: &Progress) -> Result<Vec<Item>> {
        let items = self.list()?;
        let meter = progress.meter(total(&items));
        threads::map(AT_ONCE, items.len(), |at| {
            let item = &items[at];
            let file = target.join(&item.name);
            make_folder_of(&file)?;
            let location = self.location.inside(&item.name);
            download(&location, &file, &meter)
        })?;
        Ok(items)
    }

    /// Copies one object to a new file, and creates the file's folder if needed. The object is
    /// copied with a single request if its web server doesn't support ranges.
    ///
    /// # Errors
    ///
    /// The errors of [`download`](Self::download).
    pub fn download_one(
        location: &ObjectLocation,
        target: &Path,
        progress: &Progress,
    ) -> Result<()> {
        make_folder_of(target)?;
        match ObjectReader::open(location, &ObjectReadOptions::new()) {
            Ok(reader) => {
                let meter = progress.meter(reader.size()?);
                copy_down(&reader, target, &meter)
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                copy_whole(location, target, progress)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies all files in the local folder `source` to objects, several at once. Files for whose
    /// names `last` returns true are copied after all others. Returns the objects.
    ///
    /// # Errors
    ///
    /// The first error from reading or writing; [`ErrorKind::AlreadyExists`] if an object exists
    /// and may not be replaced; [`ErrorKind::Cancelled`] if `progress` cancels the work. Objects
    /// that were already copied remain.
    pub fn upload(
        &self,
        source: &Path,
        last: impl Fn(&str) -> bool,
        options: &ObjectWriteOptions,
        progress: &Progress,
    ) -> Result<Vec<Item>> {
        let items = files_in(source)?;
        let meter = progress.meter(total(&items));
        let (late, early): (Vec<_>, Vec<_>) =
            items.iter().cloned().partition(|item| last(&item.name));
        for items in [early, late] {
            threads::map(AT_ONCE, items.len(), |at| {
                let item = &items[at];
                let location = self.location.inside(&item.name);
                let options = options.clone().expected_size(item.size);
                upload(&source.join(&item.name), &location, &options, &meter)
            })?;
        }
        Ok(items)
    }
}

/// Returns the total size of the items, in bytes. The sizes in a listing may be false.
fn total(items: &[Item]) -> u64 {
    let sizes = items.iter().map(|item| item.size);
    sizes.fold(0, u64::saturating_add)
}

/// Copies an object to a new file with several requests.
fn download(location: &ObjectLocation, target: &Path, meter: &Meter) -> Result<()> {
    let reader = ObjectReader::open(location, &ObjectReadOptions::new())?;
    copy_down(&reader, target, meter)
}

fn copy_down(reader: &ObjectReader, target: &Path, meter: &Meter) -> Result<()> {
    let location = reader.location();
    let size = reader.size()?;
    let whole = 0..size;
    reader.prefetch(std::slice::from_ref(&whole));
    let full = |error: io::Error| Error::from(error).in_file(target);
    create(target, |file| {
        let mut buffer = vec![0; COPY_LEN];
        let mut at = 0;
        while at < size {
            let n = reader.read_at(at, &mut buffer)?;
            if n == 0 {
                let message = format!("{location}: the object ends after {at} of {size} bytes");
                return Err(Error::new(ErrorKind::Io, message));
            }
            file.write_all(&buffer[..n]).map_err(full)?;
            meter.advance(n as u64)?;
            at += n as u64;
        }
        Ok(())
    })
}

/// Copies an object to a new file with a single request, for servers that don't support ranges.
fn copy_whole(location: &ObjectLocation, target: &Path, progress: &Progress) -> Result<()> {
    let failed = |error: &object_store::Error| {
        Error::from(io::Error::from(Failure::of(&location.to_string(), error)))
    };
    let store = location.store();
    let got = runtime::wait(store.get_opts(location.path(), GetOptions::default()))?;
    let got = got.map_err(|error| failed(&error))?;
    let is_open_ended = got.extensions.get::<OpenEnded>().is_some();
    let size = Some(got.meta.size).filter(|&size| size != UNKNOWN_SIZE);
    let meter = size.map(|size| progress.meter(size));
    let mut pieces = got.into_stream();
    let full = |error: io::Error| Error::from(error).in_file(target);
    create(target, |file| {
        let mut copied = 0;
        while let Some(piece) = runtime::wait(pieces.try_next())?.map_err(|error| failed(&error))? {
            file.write_all(&piece).map_err(full)?;
            match &meter {
                Some(meter) => meter.advance(piece.len() as u64)?,
                None => progress.check()?,
            }
            copied += piece.len() as u64;
        }
        let Some(size) = size.filter(|&size| size != copied) else {
            if is_open_ended {
                tracing::warn!(
                    "{location}: the server doesn't report the object's size: {copied} bytes were received, and the rest is missing if the connection broke"
                );
            }
            return Ok(());
        };
        let message = format!("{location}: the object ends after {copied} of {size} bytes");
        Err(Error::new(ErrorKind::Io, message))
    })
}

/// Creates the folder of a file, if needed.
fn make_folder_of(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|error| Error::from(error).in_file(folder))
}

/// Creates a file, and calls `write` to write its content. Removes the file if this fails.
fn create(target: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let mut file = File::create_new(target).map_err(|error| lifted(error).in_file(target))?;
    let written = write(&mut file);
    drop(file);
    if written.is_err()
        && let Err(error) = fs::remove_file(target)
    {
        tracing::warn!("{} was not removed: {error}", target.display());
    }
    written
}

/// Returns true if the error is a response from a server that doesn't support the request.
fn is_answer(error: &object_store::Error) -> bool {
    let status = Trouble::of(error).and_then(Trouble::status);
    status.is_some_and(|status| status < 500 || matches!(status, 501 | 505))
}

/// Copies a file to an object.
fn upload(
    source: &Path,
    location: &ObjectLocation,
    options: &ObjectWriteOptions,
    meter: &Meter,
) -> Result<()> {
    let failed = |error: io::Error| Error::from(error).in_file(source);
    let mut file = File::open(source).map_err(failed)?;
    let mut writer = ObjectWriter::create(location, options).map_err(lifted)?;
    let mut buffer = vec![0; COPY_LEN];
    loop {
        let n = file.read(&mut buffer).map_err(failed)?;
        if n == 0 {
            break;
        }
        writer.write_all(&buffer[..n])?;
        meter.advance(n as u64)?;
    }
    writer.finish().map_err(lifted)?;
    Ok(())
}

/// Returns the files in a folder and its subfolders.
fn files_in(folder: &Path) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, front)) = folders.pop() {
        let failed = |error: io::Error| Error::from(error).in_file(&folder);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path: PathBuf = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                let message = "the name of the file is not valid Unicode";
                return Err(Error::new(ErrorKind::InvalidConfig, message).in_file(&path));
            };
            let metadata = fs::metadata(&path).map_err(failed)?;
            let name = format!("{front}{name}");
            if metadata.is_dir() {
                folders.push((path, format!("{name}/")))
            } else {
                items.push(Item {
                    name,
                    size: metadata.len(),
                })
            }
        }
    }
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(items)
}
