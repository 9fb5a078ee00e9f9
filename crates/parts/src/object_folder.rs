//! A store for the files of a split whose main file is an object.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use record_file::ReadAt;

use super::objects::Objects;
use super::store::PartStore;
use proto_splitter_core::atomic::TemporaryFolder;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::{Error, ErrorKind, Result};

/// A store that keeps the files of a split's parts as objects next to the main file. A file that
/// isn't complete yet is in a temporary folder on the host.
#[derive(Debug)]
pub(super) struct ObjectFolder {
    objects: Arc<dyn Objects>,
    main: String,
    folder: TemporaryFolder,
}

impl ObjectFolder {
    pub(super) fn beside(main: String, objects: &Arc<dyn Objects>) -> Result<ObjectFolder> {
        let temporary = std::env::temp_dir();
        // The name of the folder contains only a checksum of the main object's name.
        let named = temporary.join(main.replace(std::path::is_separator, "_"));
        let folder = TemporaryFolder::beside(&named, None)
            .map_err(|error| Error::from(error).in_file(&temporary))?;
        Ok(ObjectFolder {
            objects: Arc::clone(objects),
            main,
            folder,
        })
    }
}

impl PartStore for ObjectFolder {
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile> {
        AtomicFile::create(self.folder.path().join("part"), made_from, true)
    }

    fn keep(&self, mut file: AtomicFile, name: &str) -> Result<()> {
        let name = self.objects.url_beside(&self.main, name)?;
        let content = file.as_file_mut();
        let size = content.metadata()?.len();
        content.seek(SeekFrom::Start(0))?;
        match self.objects.put(&name, content, size, false) {
            // The name contains a hash of the file's content, so another run of the part has
            // uploaded the same file. The commit checks the object.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let content = self.objects.open_beside(&self.main, name);
        content.map_err(|error| error.context(name.escape_debug()))
    }
}

/// Writes the main file of a split to the object called `name`. Returns the size of the file in
/// bytes, and true if an object with the same content already existed.
pub(super) fn place_object(
    objects: &dyn Objects,
    name: &str,
    mut file: AtomicFile,
    force: bool,
) -> Result<(u64, bool)> {
    let mut content = Vec::new();
    let handle = file.as_file_mut();
    handle.seek(SeekFrom::Start(0))?;
    handle.read_to_end(&mut content)?;
    let size = content.len() as u64;
    if is_there(objects, name, &content)? {
        return Ok((size, true));
    }
    match objects.put_at_once(name, content.clone(), force) {
        Ok(()) => Ok((size, false)),
        // Another commit of the same plan has written the object in the meantime.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if is_there(objects, name, &content)? {
                Ok((size, true))
            } else {
                Err(error)
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns true if the object called `name` exists and has this content.
fn is_there(objects: &dyn Objects, name: &str, content: &[u8]) -> Result<bool> {
    if !objects.exists(name)? {
        return Ok(false);
    }
    let there = objects.open(name)?.source;
    if there.size()? != content.len() as u64 {
        return Ok(false);
    }
    let mut bytes = vec![0; content.len()];
    there.read_exact_at(0, &mut bytes)?;
    Ok(bytes == content)
}
