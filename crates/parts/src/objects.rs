//! Objects in stores, as far as work in parts needs them.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use record_file::ReadAt;

use proto_splitter_core::{Error, ErrorKind, Result};

/// Stores of objects, for plans that name what they read or write by URL. This crate knows no store:
/// `proto-splitter-object-store` has an implementation.
///
/// An object appears complete or not at all.
pub trait Objects: Debug + Send + Sync {
    /// Whether a name is the URL of an object, rather than the path of a file.
    fn is_object(&self, name: &str) -> bool;

    /// Fails if plans must not hold a name: others may read them, and a URL may have a password in
    /// it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] then. The default never fails.
    fn check_name(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }

    /// Opens an object. All reads are of the version that is opened.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if it isn't there or can't be read.
    fn open(&self, name: &str) -> Result<OpenObject>;

    /// Opens the object that a chunked file in the object `main` names.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`] if it would be in another folder, and as [`open`](Self::open).
    fn open_beside(&self, main: &str, named: &str) -> Result<Arc<dyn ReadAt>>;

    /// Whether an object is there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store doesn't say.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Writes an object of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if it is there and isn't to be replaced; [`ErrorKind::Io`].
    fn put(&self, name: &str, content: &mut dyn Read, size: u64, force: bool) -> Result<()>;

    /// As [`put`](Self::put), by a single request, so that the store itself sees to it that of two
    /// hosts only one writes the object.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    fn put_at_once(&self, name: &str, content: Vec<u8>, force: bool) -> Result<()>;

    /// Begins an upload of an object of `size` bytes, whose parts any hosts upload.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store can't do that, or doesn't.
    fn begin_upload(&self, name: &str, size: u64) -> Result<ObjectUpload>;

    /// Uploads parts of an upload that was begun, from number `first` on, counted from 0. One that
    /// was uploaded before is replaced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store can't do that.
    fn upload_from(
        &self,
        name: &str,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Box<dyn UploadParts>>;

    /// Puts the parts together, each as [`UploadParts::finish`] called it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if there is no such upload any more, or the store fails;
    /// [`ErrorKind::AlreadyExists`] unless `force`, if an object is there and the store can tell in
    /// the same step.
    fn finish_upload(
        &self,
        name: &str,
        upload: &ObjectUpload,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()>;
}

/// An object that is open.
#[derive(Clone)]
pub struct OpenObject {
    /// Reads it.
    pub source: Arc<dyn ReadAt>,
    /// What the store calls this version of it: its `ETag`.
    pub version: Option<String>,
}

impl Debug for OpenObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenObject")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// An upload in parts that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectUpload {
    /// What the store calls it.
    pub id: String,
    /// Bytes of each part but the last.
    pub part_size: u64,
}

/// Uploads what is written to it as parts of an upload.
pub trait UploadParts: Write {
    /// Waits until all of it is there, and gives what the store calls each part.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if a part couldn't be uploaded.
    fn finish(self: Box<Self>) -> Result<Vec<String>>;
}

/// Whether a plan means an object by a name: paths are absolute there.
pub(super) fn is_object(name: &str) -> bool {
    name.contains("://") && Path::new(name).is_relative()
}

/// Whether a plan can have this name: it means the same on every host.
pub(super) fn is_absolute(name: &str) -> bool {
    is_object(name) || Path::new(name).is_absolute()
}

/// The stores that whoever plans or does a part has given, if any.
pub(super) type Stores<'a> = Option<&'a Arc<dyn Objects>>;

/// The stores that the object `name` is in.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if no stores were given, or plans must not hold the name.
pub(super) fn given<'a>(stores: Stores<'a>, name: &str) -> Result<&'a Arc<dyn Objects>> {
    let stores = stores.ok_or_else(|| no_stores(name))?;
    stores.check_name(name)?;
    Ok(stores)
}

/// A name, if it is that of an object in these stores.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the name is that of an object, and no stores were given or plans
/// must not hold it.
pub(super) fn named<'a>(
    path: &'a Path,
    stores: Stores<'a>,
) -> Result<Option<(&'a str, &'a Arc<dyn Objects>)>> {
    let name = path.to_str().unwrap_or_default();
    match stores {
        Some(stores) if stores.is_object(name) => {
            stores.check_name(name)?;
            Ok(Some((name, stores)))
        }
        Some(_) => Ok(None),
        None if is_object(name) && !path.exists() => Err(no_stores(name)),
        None => Ok(None),
    }
}

#[cold]
fn no_stores(name: &str) -> Error {
    let message = format!("{name}: an object in a store, and only files are read and written here");
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for (name, object, absolute) in [
            ("s3://bucket/m.cpb", true, true),
            ("/folder/m.cpb", false, true),
            ("/folder/s3://m.cpb", false, true),
            ("m.cpb", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (is_object(name), is_absolute(name)),
                (object, absolute),
                "{name}"
            );
        }
    }

    #[test]
    fn without_stores_an_object_is_refused_by_name() {
        let error = named(Path::new("s3://b/m"), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().starts_with("s3://b/m: "), "{error}");
    }
}
