//! Locations of objects. A location consists of a URL and a store.

use std::fmt;
use std::io;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme, PutMode, PutOptions, PutPayload, PutResult};
use url::{Position, Url};

use crate::failure::Failure;
use crate::multipart::Uploads;
use crate::options::StoreOptions;
use crate::redact::redact;
use crate::runtime;
use crate::store::{Store, store};

/// The schemes of object URLs, without `://`.
pub const SCHEMES: &[&str] = &[
    "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "memory",
];

/// A URL and its store. The URL names an object, or a folder (a common prefix of object names).
///
/// Stores get their credentials from the environment variables that their command-line tools use,
/// such as `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT` and
/// `AZURE_STORAGE_ACCOUNT_NAME`, or from the metadata service of a cloud machine.
///
/// ```
/// use proto_splitter_object_store::ObjectLocation;
///
/// let model = ObjectLocation::parse("memory:///models/large.cpb")?;
/// assert_eq!(model.file_name(), "large.cpb");
/// assert_eq!(model.beside("large.00001.cpb").to_string(), "memory:///models/large.00001.cpb");
///
/// assert!(ObjectLocation::is_url("s3://bucket/model.cpb"));
/// assert!(!ObjectLocation::is_url("models/large.cpb"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ObjectLocation {
    store: Arc<dyn ObjectStore>,
    /// Interface of the store through which several hosts can upload parts of one object; `None` if
    /// the store doesn't support this.
    uploads: Option<Uploads>,
    /// Common prefix of the URLs of all objects in the store.
    base: String,
    path: Path,
    is_read_only: bool,
    /// True if the store supports requests for the last bytes of an object whose size is unknown.
    pub(crate) has_suffixes: bool,
}

impl fmt::Debug for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectLocation")
            .field(&self.to_string())
            .finish()
    }
}

impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", redact(&self.base), self.path)
    }
}

impl ObjectLocation {
    /// Returns true if a string begins with one of the [`SCHEMES`], as the URL of an object does.
    pub fn is_url(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()))
    }

    /// Returns the location that a URL specifies. The location's store has the options that
    /// [`StoreOptions::from_env`] returns. Makes no request.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the URL isn't valid for any supported
    /// store, or the environment has invalid settings for the store.
    pub fn parse(text: &str) -> io::Result<ObjectLocation> {
        ObjectLocation::parse_with(text, &StoreOptions::from_env()?)
    }

    /// Returns the location that a URL specifies, like [`parse`](Self::parse), but with the given
    /// options for the location's store.
    ///
    /// # Errors
    ///
    /// The errors of [`parse`](Self::parse).
    pub fn parse_with(text: &str, options: &StoreOptions) -> io::Result<ObjectLocation> {
        let invalid = |why: String| {
            let message = format!("{}: {why}", redact(text));
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let url = Url::parse(text).map_err(|error| invalid(format!("not a URL: {error}")))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid(
                "a URL with a query can't name an object in a store".into(),
            ));
        }
        let (scheme, path) = ObjectStoreScheme::parse(&url)
            .map_err(|_| invalid(format!("not a URL of {}", SCHEMES.join(", "))))?;
        let base = base(&url, &path);
        let Store { store, uploads } =
            store(&url, &scheme, &base, options).map_err(|failure| invalid(failure.message))?;
        Ok(ObjectLocation {
            store,
            uploads,
            base,
            path,
            is_read_only: scheme == ObjectStoreScheme::Http,
            has_suffixes: scheme != ObjectStoreScheme::MicrosoftAzure,
        })
    }

    /// Returns the location of an object in a store that the caller has configured. The location
    /// has the store's display name instead of a URL. Several hosts can't upload parts of this
    /// object, since that requires a store specified by URL.
    pub fn of_store(store: Arc<dyn ObjectStore>, path: Path) -> ObjectLocation {
        ObjectLocation {
            base: format!("{store}/"),
            store,
            uploads: None,
            path,
            is_read_only: false,
            has_suffixes: true,
        }
    }

    /// Returns the store that contains the object.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the interface of the store through which several hosts can upload parts of one
    /// object; `None` if the store doesn't support this.
    pub(crate) fn uploads(&self) -> Option<&Uploads> {
        self.uploads.as_ref()
    }

    /// Returns the object's name in the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last part of the object's name; an empty string if the name is empty.
    pub fn file_name(&self) -> &str {
        self.path.filename().unwrap_or_default()
    }

    /// Returns true if the store is a web server, which only supports reading.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the location of the object called `name` in the same folder.
    #[must_use]
    pub fn beside(&self, name: &str) -> ObjectLocation {
        let folder = match self.path.as_ref().rsplit_once('/') {
            Some((folder, _)) => folder,
            None => "",
        };
        self.at(&format!("{folder}/{name}"))
    }

    /// Returns the location of the object called `name` in this folder.
    #[must_use]
    pub fn inside(&self, name: &str) -> ObjectLocation {
        self.at(&format!("{}/{name}", self.path))
    }

    /// Returns the location of the folder that contains the object.
    #[must_use]
    pub fn folder(&self) -> ObjectLocation {
        let folder = self.path.as_ref().rsplit_once('/');
        self.at(folder.map_or("", |(folder, _)| folder))
    }

    /// Returns the location whose name is this object's name followed by `ending`.
    #[must_use]
    pub fn continued(&self, ending: &str) -> ObjectLocation {
        self.at(&format!("{}{ending}", self.path))
    }

    /// Returns the URL of the object, with every special character of its name encoded.
    pub(crate) fn url(&self) -> String {
        let encoded = self.path.as_ref().bytes().map(|byte| {
            if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        });
        std::iter::once(self.base.clone()).chain(encoded).collect()
    }

    /// Returns the store and the object's name in the store, without any encoding. Replaces schemes
    /// with the same meaning by one of them.
    pub(crate) fn full_name(&self) -> String {
        let (scheme, store) = self.base.split_once(':').unwrap_or_default();
        let scheme = match scheme {
            "s3a" => "s3",
            "azure" | "adl" | "abfs" | "abfss" => "az",
            other => other,
        };
        format!("{scheme}:{store}{}", self.path)
    }

    fn at(&self, path: &str) -> ObjectLocation {
        // `Path::from` would encode characters that a name in a URL or a listing keeps, so it is
        // only for what can't be the name of an object.
        let path = Path::parse(path).unwrap_or_else(|_| Path::from(path));
        ObjectLocation {
            path,
            ..self.clone()
        }
    }

    /// Writes the object with a single request, and fails if it exists, unless `force` is true.
    pub(crate) fn put(
        &self,
        content: Vec<u8>,
        force: bool,
    ) -> io::Result<object_store::Result<PutResult>> {
        let mode = if force {
            PutMode::Overwrite
        } else {
            PutMode::Create
        };
        let (content, mode) = (PutPayload::from(content), PutOptions::from(mode));
        runtime::wait(self.store.put_opts(&self.path, content, mode))
    }

    /// Returns true if the object exists.
    ///
    /// # Errors
    ///
    /// Any error from the store, except for the error that the object doesn't exist.
    pub fn exists(&self) -> io::Result<bool> {
        use object_store::ObjectStoreExt;
        match runtime::wait(self.store.head(&self.path))? {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(Failure::of(&self.to_string(), &error).into()),
        }
    }

    /// Fails if the store is read-only.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        if !self.is_read_only {
            return Ok(());
        }
        let message = format!("{self}: a web server can only be read from");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

/// Returns the common prefix of the URLs of all objects in a store, which ends with a slash. `url`
/// is the URL of the object that the store calls `path`.
fn base(url: &Url, path: &Path) -> String {
    let mut base = format!("{}/", &url[..Position::BeforePath]);
    // The path of some URLs begins with the bucket, which isn't part of the object's name.
    if Path::from_url_path(url.path()).ok().as_ref() != Some(path) {
        let bucket = url.path().trim_start_matches('/').split('/').next();
        base.push_str(bucket.unwrap_or_default());
        base.push('/');
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shown_as_it_was_named() {
        for url in ["memory:///a/b.cpb", "http://localhost:1/models/m.cpb"] {
            let location = ObjectLocation::parse(url).unwrap();
            assert_eq!(location.to_string(), url);
            assert_eq!(
                ObjectLocation::parse(&location.to_string()).unwrap().path(),
                location.path()
            );
        }
    }

    #[test]
    fn each_bucket_in_the_path_of_a_url_is_a_different_store() {
        for server in [
            "https://account.blob.core.windows.net",
            "https://s3.eu-central-1.amazonaws.com",
            "https://account.r2.cloudflarestorage.com",
        ] {
            for name in ["/m.pb", "/x%20y", "/é/m.pb", "/folder/", "/", ""] {
                let [one, other] = ["one", "other"].map(|bucket| {
                    ObjectLocation::parse(&format!("{server}/{bucket}{name}")).unwrap()
                });
                assert!(!Arc::ptr_eq(one.store(), other.store()), "{one}");
                let again = ObjectLocation::parse(&one.to_string()).unwrap();
                assert!(Arc::ptr_eq(one.store(), again.store()), "{one}");
                assert_eq!(one.path(), again.path());
                let inside = one.inside("m").to_string();
                assert!(inside.starts_with(&format!("{server}/one/")), "{inside}");
            }
        }
    }

    #[test]
    fn what_is_not_a_url_of_a_store_is_refused_by_name() {
        for (url, why) in [
            ("ftp://host/file", "not a URL of s3"),
            ("http://host/file?part=1", "with a query"),
            ("no url", "not a URL"),
        ] {
            let error = ObjectLocation::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(url) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_repeated() {
        for refused in [
            "http://me:secret@host/file?x=1",
            "http://host/file?sig=secret",
        ] {
            let error = ObjectLocation::parse(refused).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let location = ObjectLocation::parse("http://me:secret@host/file").unwrap();
        assert_eq!(location.to_string(), "http://me:***@host/file");
        assert!(!format!("{location:?}").contains("secret"));
    }

    #[test]
    fn names_derived_from_a_name_are_no_more_encoded_than_it_is() {
        let model = ObjectLocation::parse("memory:///é~[x]/50%25").unwrap();
        for (derived, name) in [
            (model.beside("ö|2"), "é~[x]/ö|2"),
            (model.inside("a/{*}"), "é~[x]/50%/a/{*}"),
            (model.folder(), "é~[x]"),
            (model.continued("~.cpb"), "é~[x]/50%~.cpb"),
        ] {
            assert_eq!(derived.path().as_ref(), name);
        }
    }

    #[test]
    fn a_url_is_read_back_and_all_urls_of_an_object_have_one_full_name() {
        for name in ["a/b.cpb", "my model", "50%", "é?#\\ ", "%41"] {
            let model = ObjectLocation::parse("memory:///model").unwrap();
            let model = model.beside(name);
            let again = ObjectLocation::parse(&model.url()).unwrap();
            assert_eq!(again.path().as_ref(), name);
            assert_eq!(again.full_name(), format!("memory:///{name}"));
        }
        for (one, other, is_same) in [
            ("memory:///m.cpb", "memory:///%6d.cpb", true),
            ("s3://bucket/m.cpb", "s3a://bucket/m.cpb", true),
            (
                "abfs://bucket@account.dfs.core.windows.net/m.cpb",
                "abfss://bucket@account.dfs.core.windows.net/m.cpb",
                true,
            ),
            ("s3://bucket/m.cpb", "s3://other/m.cpb", false),
            ("s3://bucket/m.cpb", "s3://bucket/n.cpb", false),
        ] {
            let [one, other] =
                [one, other].map(|url| ObjectLocation::parse(url).unwrap().full_name());
            assert_eq!(one == other, is_same, "{one} {other}");
        }
    }

    #[test]
    fn objects_beside_and_below_are_in_the_same_store() {
        let model = ObjectLocation::parse("memory:///models/large").unwrap();
        assert_eq!(model.beside("other").path().as_ref(), "models/other");
        assert_eq!(model.inside("a/b").path().as_ref(), "models/large/a/b");
        assert_eq!(model.continued(".cpb").path().as_ref(), "models/large.cpb");
        let top = ObjectLocation::parse("memory:///large").unwrap();
        assert_eq!(top.beside("other").path().as_ref(), "other");
        assert!(Arc::ptr_eq(model.store(), top.store()));
    }
}
