//! Finding and hashing the files of a model.

use std::fs::{self, File};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

use proto_splitter_core::progress::{Meter, Progress};
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use sha2::{Digest, Sha256};

use crate::statement::{Resource, to_hex};

/// Names of Git's files and folders, which aren't part of a model.
const GIT: [&str; 4] = [".git", ".gitattributes", ".github", ".gitignore"];
/// Maximum nesting depth of folders in a model.
const MAX_DEPTH: usize = 64;
const BUFFER: usize = 1 << 20;

/// The files of a model, sorted by the components of their paths.
pub(crate) struct ModelFiles {
    name: String,
    ignored: Vec<String>,
    files: Vec<ModelFile>,
}

struct ModelFile {
    name: String,
    path: PathBuf,
    size: u64,
}

impl ModelFiles {
    /// Finds the files of the model at `root`, except for those at or below the paths in `signed`,
    /// which are relative to `root`, and those in `ignored`, which are paths in the file system.
    /// Paths in `ignored` may be outside of the model. Also ignores Git's files.
    pub(crate) fn find(root: &Path, signed: &[String], ignored: &[PathBuf]) -> Result<Self> {
        let root = absolute(root)?;
        let mut inside = GIT.map(str::to_owned).to_vec();
        for path in signed {
            if let Ok(path) = absolute(&root.join(path))?.strip_prefix(&root) {
                inside.push(name_of(path)?);
            }
        }
        for path in ignored {
            let path = absolute(path)?;
            // If the path is a link, the file to which it leads may be inside of the model, too.
            let target = fs::canonicalize(&path).ok();
            let places = std::iter::once(&path).chain(&target);
            for place in places.filter_map(|path| place_within(&root, path)) {
                let name = name_of(&place)?;
                if !inside.contains(&name) {
                    inside.push(name);
                }
            }
        }
        Self::find_without(&root, inside)
    }

    /// Finds the files of the model at `root`, except for those at or below the paths in `ignored`,
    /// which are relative to `root`.
    pub(crate) fn find_without(root: &Path, ignored: Vec<String>) -> Result<Self> {
        let mut found = ModelFiles {
            name: root
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .to_owned(),
            ignored,
            files: Vec::new(),
        };
        // Follows `root` if it is a symbolic link, since the caller specified it.
        let metadata = fs::metadata(root).map_err(|error| Error::from(error).in_file(root))?;
        if metadata.is_file() {
            found.files.push(ModelFile {
                name: ".".to_owned(),
                path: root.to_owned(),
                size: metadata.len(),
            });
        } else if metadata.is_dir() {
            found.add_folder(root, Path::new(""), 0)?;
            // Compares components, as signing tools in other languages do, to get the same order.
            found
                .files
                .sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
        } else {
            return Err(refused(root, "neither a file nor a folder"));
        }
        if found.files.is_empty() {
            return Err(refused(root, "there is no file to sign"));
        }
        Ok(found)
    }

    fn add_folder(&mut self, root: &Path, within: &Path, depth: usize) -> Result<()> {
        let folder = root.join(within);
        if depth > MAX_DEPTH {
            return Err(refused(&folder, "folders are nested more than 64 deep"));
        }
        for entry in fs::read_dir(&folder).map_err(|error| Error::from(error).in_file(&folder))? {
            let entry = entry.map_err(|error| Error::from(error).in_file(&folder))?;
            let within = within.join(entry.file_name());
            let path = entry.path();
            let name = name_of(&within)?;
            if self.ignored.contains(&name) {
                continue;
            }
            let metadata = entry
                .metadata()
                .map_err(|error| Error::from(error).in_file(&path))?;
            if metadata.is_dir() {
                self.add_folder(root, &within, depth + 1)?;
            } else if metadata.is_file() {
                let size = metadata.len();
                self.files.push(ModelFile { name, path, size });
            } else if metadata.is_symlink() {
                return Err(refused(
                    &path,
                    "a symbolic link, which a signature can't hold: copy the file",
                ));
            } else {
                return Err(refused(&path, "neither a file nor a folder"));
            }
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the ignored paths, relative to the model.
    pub(crate) fn ignored(&self) -> &[String] {
        &self.ignored
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.name)
    }

    /// Hashes all files on several threads. Each file is hashed by one thread.
    pub(crate) fn hash(
        &self,
        progress: &Progress,
        threads: Option<NonZeroUsize>,
    ) -> Result<Vec<Resource>> {
        let sizes = self.files.iter().map(|file| file.size);
        let bytes = sizes.fold(0, u64::saturating_add);
        let _span = tracing::debug_span!("hash", bytes).entered();
        let meter = progress.meter(bytes);
        meter.check()?;
        threads::map(threads::count(threads), self.files.len(), |at| {
            let file = &self.files[at];
            let digest = hash_file(&file.path, &meter);
            let digest = digest.map_err(|error| error.in_file(&file.path))?;
            Ok(Resource::new(file.name.clone(), digest))
        })
    }
}

fn hash_file(path: &Path, meter: &Meter) -> Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) => return Ok(to_hex(&hasher.finalize())),
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        hasher.update(&buffer[..n]);
        meter.advance(n as u64)?;
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::from(error).in_file(path))
}

/// Returns `path` relative to `root`; `None` if it is outside. Resolves `..` and symbolic links,
/// except for a link at the end of `path`. The file at `path` needn't exist.
fn place_within(root: &Path, path: &Path) -> Option<PathBuf> {
    let resolved = || {
        let root = fs::canonicalize(root)?;
        let path = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => fs::canonicalize(parent)?.join(name),
            _ => fs::canonicalize(path)?,
        };
        Ok::<_, std::io::Error>((root, path))
    };
    // A path in a folder that doesn't exist yet can't be resolved.
    let (root, path) = resolved().unwrap_or_else(|_| (root.to_owned(), path.to_owned()));
    let place = path.strip_prefix(root).ok()?;
    let is_inside = !place.components().any(|part| part == Component::ParentDir);
    is_inside.then(|| place.to_owned())
}

/// Converts a path within a model to the form that signatures use: with slashes, and `.` for the
/// model itself.
fn name_of(within: &Path) -> Result<String> {
    let mut name = String::new();
    for component in within.components() {
        let Component::Normal(part) = component else {
            return Err(refused(within, "not a path within the model"));
        };
        let part = part.to_str().ok_or_else(|| {
            refused(
                within,
                "the name is not UTF-8, which a signature can't hold",
            )
        })?;
        if !name.is_empty() {
            name.push('/');
        }
        name.push_str(part);
    }
    Ok(if name.is_empty() {
        ".".to_owned()
    } else {
        name
    })
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, why).in_file(path)
}
