//! Access to objects in stores, for splits, merges and verifications in parts.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use record_file::ReadAt;

use proto_splitter_core::{Error, ErrorKind, Result};

/// Access to object stores, for plans that name inputs or outputs by URL. This crate doesn't
/// implement any store; `proto-splitter-object-store` does.
///
/// An object must appear completely or not at all.
pub trait Objects: Debug + Send + Sync {
    /// Returns true if a name is the URL of an object, rather than the path of a file.
    fn is_object(&self, name: &str) -> bool;

    /// Fails if plans must not contain this name. For example, a URL with a password is not
    /// allowed, since other people may read a plan.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if plans must not contain the name. Default: never fails.
    fn check_name(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }

    /// Opens an object. All reads return bytes of the version that was opened, or fail.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the object doesn't exist or can't be read.
    fn open(&self, name: &str) -> Result<OpenObject>;

    /// Opens an object that a chunked file names. `main` is the URL of the object with the chunked
    /// file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`] if the named object would be in another folder, and the errors
    /// of [`open`](Self::open).
    fn open_beside(&self, main: &str, named: &str) -> Result<Arc<dyn ReadAt>>;

    /// Returns the URL of an object that a chunked file names. `main` is the URL of the object with
    /// the chunked file. Default: `main` with its last part replaced by `named`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidTrailer`] if the named object would be in another folder.
    fn url_beside(&self, main: &str, named: &str) -> Result<String> {
        let folder = main.rsplit_once('/').map_or("", |(folder, _)| folder);
        Ok(format!("{folder}/{named}"))
    }

    /// Returns the store of an object and the object's name in the store, separated by a slash. The
    /// result is the same for URLs of an object that differ only in names of the same scheme, such
    /// as `s3` and `s3a`. Default: the URL itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the URL is invalid.
    fn full_name(&self, name: &str) -> Result<String> {
        Ok(name.to_owned())
    }

    /// Returns true if an object exists.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store fails.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Writes an object of `size` bytes, which are read from `content`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the object exists and `force` isn't set; [`ErrorKind::Io`].
    fn put(&self, name: &str, content: &mut dyn Read, size: u64, force: bool) -> Result<()>;

    /// Writes an object like [`put`](Self::put), but with a single request, so that the store
    /// itself ensures that only one of two hosts can create the object.
    ///
    /// # Errors
    ///
    /// The errors of [`put`](Self::put).
    fn put_at_once(&self, name: &str, content: Vec<u8>, force: bool) -> Result<()>;

    /// Begins an upload of an object of `size` bytes. Any host may upload parts of it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store doesn't support such uploads, or fails.
    fn begin_upload(&self, name: &str, size: u64) -> Result<ObjectUpload>;

    /// Returns a writer for parts of an upload, beginning with the part with index `first`, counted
    /// from 0. The writer's parts replace earlier parts with the same indices.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the store fails.
    fn upload_from(
        &self,
        name: &str,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Box<dyn UploadParts>>;

    /// Completes an upload. `parts` has the store's ids of all parts of the upload, in order, as
    /// [`UploadParts::finish`] returns them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the upload no longer exists, or the store fails;
    /// [`ErrorKind::AlreadyExists`] if `force` is false, the object exists, and the store can check
    /// this atomically.
    fn finish_upload(
        &self,
        name: &str,
        upload: &ObjectUpload,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()>;
}

/// An open object.
#[derive(Clone)]
pub struct OpenObject {
    /// Bytes of the object.
    pub source: Arc<dyn ReadAt>,
    /// Identifier of the opened version in the store, such as an `ETag`; `None` if the store has no
    /// such identifiers.
    pub version: Option<String>,
}

impl Debug for OpenObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenObject")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// An unfinished upload of an object in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectUpload {
    /// Identifier of the upload in the store.
    pub id: String,
    /// Size of each part of the upload except the last, in bytes.
    pub part_size: u64,
}

/// A writer that uploads the written bytes as parts of an upload.
pub trait UploadParts: Write {
    /// Waits until all parts are uploaded, and returns the store's identifiers of the parts, in
    /// order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if a part couldn't be uploaded.
    fn finish(self: Box<Self>) -> Result<Vec<String>>;
}

/// Returns true if a name in a plan is the URL of an object; any other name is an absolute path.
pub(super) fn is_object(name: &str) -> bool {
    name.contains("://") && Path::new(name).is_relative()
}

/// Returns true if a plan may contain this name: a URL or an absolute path, which doesn't depend on
/// the host's current folder.
pub(super) fn is_absolute(name: &str) -> bool {
    is_object(name) || Path::new(name).is_absolute()
}

/// The access to object stores that the caller has provided; `None` if only files are accessible.
pub(super) type Stores<'a> = Option<&'a Arc<dyn Objects>>;

/// Returns the caller's access to object stores, to be used for the object `name`.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the caller has provided no access to stores, or plans must not
/// contain the name.
pub(super) fn given<'a>(stores: Stores<'a>, name: &str) -> Result<&'a Arc<dyn Objects>> {
    let stores = stores.ok_or_else(|| no_stores(name))?;
    stores.check_name(name)?;
    Ok(stores)
}

/// The URL of an object, and the caller's access to object stores.
pub(super) type NamedObject<'a> = (&'a str, &'a Arc<dyn Objects>);

/// Returns the URL, and the caller's access to object stores, if `path` is the URL of an object;
/// `None` if it is the path of a file.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if `path` is a URL and not also the path of an existing file, and
/// the caller has provided no access to stores.
pub(super) fn found<'a>(path: &'a Path, stores: Stores<'a>) -> Result<Option<NamedObject<'a>>> {
    let name = path.to_str().unwrap_or_default();
    match stores {
        Some(stores) if stores.is_object(name) => Ok(Some((name, stores))),
        None if is_object(name) && !path.exists() => Err(no_stores(name)),
        _ => Ok(None),
    }
}

/// Returns the same as [`found`], but fails if `path` is a name that a plan must not contain.
///
/// # Errors
///
/// The errors of [`found`]; [`ErrorKind::InvalidConfig`] if `path` is a name that a plan must not
/// contain.
pub(super) fn named<'a>(path: &'a Path, stores: Stores<'a>) -> Result<Option<NamedObject<'a>>> {
    let found = found(path, stores)?;
    if let Some((name, stores)) = found {
        stores.check_name(name)?;
    }
    Ok(found)
}

#[cold]
fn no_stores(name: &str) -> Error {
    let message = format!("{name}: an object in a store, but only files are supported here");
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
