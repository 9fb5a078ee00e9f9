//! Where an object is: a URL, and the store behind it.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme, parse_url_opts};
use url::Url;

use crate::failure::Failure;
use crate::multipart::{Uploads, creating_client, creating_retries};
use crate::runtime;

/// What URLs of objects begin with, before `://`.
pub const SCHEMES: &[&str] = &[
    "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "memory",
];

/// What the names of variables in the environment begin with that stores are set up by.
const SETTINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// An object, or the common front of several objects' names, by its URL.
///
/// The stores take their credentials from the environment, in the variables that the command-line
/// tools of each use, such as `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT` and
/// `AZURE_STORAGE_ACCOUNT_NAME`, or from where the machine itself runs.
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
    /// The same store, if several hosts can upload parts of one object there.
    uploads: Option<Uploads>,
    /// What all objects of the store begin with.
    base: String,
    path: Path,
    is_read_only: bool,
    /// Whether ranges that count from the end can be asked for.
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
        write!(f, "{}{}", self.base, self.path)
    }
}

impl ObjectLocation {
    /// Whether a text is the URL of an object, by what it begins with.
    pub fn is_url(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()))
    }

    /// The object that a URL names. No request is made.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not a URL of a kind of store that is
    /// known, or what the environment says of the store can't be used.
    pub fn parse(text: &str) -> io::Result<ObjectLocation> {
        let invalid = |why: String| {
            let message = format!("{}: {why}", shown(text));
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let url = Url::parse(text).map_err(|error| invalid(format!("not a URL: {error}")))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid(
                "a URL with a query names no object of a store".into(),
            ));
        }
        let (scheme, path) = ObjectStoreScheme::parse(&url)
            .map_err(|_| invalid(format!("not a URL of {}", SCHEMES.join(", "))))?;
        let path_at = url.as_str().len() - url.path().trim_start_matches('/').len();
        // Of a URL that names the bucket in its path the path is shorter than the URL's.
        let base = match url.as_str().strip_suffix(path.as_ref()) {
            Some(base) => base.to_owned(),
            None => url.as_str().get(..path_at).unwrap_or_default().to_owned(),
        };
        let Store { store, uploads } =
            store(&url, &scheme, &base).map_err(|failure| invalid(failure.message))?;
        Ok(ObjectLocation {
            store,
            uploads,
            base,
            path,
            is_read_only: scheme == ObjectStoreScheme::Http,
            has_suffixes: scheme != ObjectStoreScheme::MicrosoftAzure,
        })
    }

    /// An object of a store that was set up elsewhere, called by the store's name. Several hosts
    /// can't upload parts of one object there: only stores that are named by URL are known so well.
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

    /// The store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The store as one where several hosts can upload parts of one object, if it is.
    pub(crate) fn uploads(&self) -> Option<&Uploads> {
        self.uploads.as_ref()
    }

    /// The object's name in the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last part of the name; empty if there is no name.
    pub fn file_name(&self) -> &str {
        self.path.filename().unwrap_or_default()
    }

    /// Whether the store is one that objects are only read from: a web server.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Another object, in the same folder.
    #[must_use]
    pub fn beside(&self, name: &str) -> ObjectLocation {
        let folder = match self.path.as_ref().rsplit_once('/') {
            Some((folder, _)) => folder,
            None => "",
        };
        self.at(&format!("{folder}/{name}"))
    }

    /// An object in this folder.
    #[must_use]
    pub fn inside(&self, name: &str) -> ObjectLocation {
        self.at(&format!("{}/{name}", self.path))
    }

    /// The folder that the object is in.
    #[must_use]
    pub fn folder(&self) -> ObjectLocation {
        let folder = self.path.as_ref().rsplit_once('/');
        self.at(folder.map_or("", |(folder, _)| folder))
    }

    /// The object whose name is this one and then `ending`.
    #[must_use]
    pub fn continued(&self, ending: &str) -> ObjectLocation {
        self.at(&format!("{}{ending}", self.path))
    }

    fn at(&self, path: &str) -> ObjectLocation {
        ObjectLocation {
            path: Path::from(path),
            ..self.clone()
        }
    }

    /// Whether the object is there.
    ///
    /// # Errors
    ///
    /// What the store reports, but for that it isn't there.
    pub fn exists(&self) -> io::Result<bool> {
        use object_store::ObjectStoreExt;
        match runtime::wait(self.store.head(&self.path))? {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(Failure::of(&self.to_string(), &error).into()),
        }
    }

    /// Fails if objects there can only be read.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        if !self.is_read_only {
            return Ok(());
        }
        let message = format!("{self}: a web server is only read from");
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

/// A URL without a password that may be in it.
fn shown(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            // Such a URL has a host, so it takes one.
            let _ = url.set_password(None);
            url.to_string()
        }
        _ => text.to_owned(),
    }
}

type Stores = Mutex<HashMap<String, Store>>;

/// A store, and the same one as one of uploads in parts, if it is.
#[derive(Clone)]
struct Store {
    store: Arc<dyn ObjectStore>,
    uploads: Option<Uploads>,
}

impl Store {
    fn of<S: ObjectStore + MultipartStore>(store: S) -> Store {
        let store = Arc::new(store);
        Store {
            uploads: Some(Uploads::of(Arc::clone(&store) as Arc<dyn MultipartStore>)),
            store,
        }
    }
}

/// The store of a URL, which all objects in it share with their connections.
fn store(url: &Url, scheme: &ObjectStoreScheme, base: &str) -> Result<Store, Failure> {
    static STORES: OnceLock<Stores> = OnceLock::new();
    let mut stores = STORES
        .get_or_init(Stores::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = stores.get(base) {
        return Ok(known.clone());
    }
    // A client needs what the runtime installs.
    let ready = runtime::handle();
    ready.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
    let made = build(url, scheme).map_err(|error| Failure::of("the store", &error))?;
    stores.insert(base.to_owned(), made.clone());
    Ok(made)
}

/// A builder with a URL, and with those settings that it knows.
macro_rules! configured {
    ($builder:expr, $url:expr) => {{
        let builder = $builder.with_url($url.as_str());
        let settings = settings($url).into_iter();
        settings.fold(builder, |builder, (key, value)| match key.parse() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        })
    }};
}

fn build(url: &Url, scheme: &ObjectStoreScheme) -> Result<Store, object_store::Error> {
    Ok(match scheme {
        ObjectStoreScheme::Memory => Store::of(InMemory::new()),
        ObjectStoreScheme::AmazonS3 => s3(url)?,
        ObjectStoreScheme::GoogleCloudStorage => {
            Store::of(configured!(GoogleCloudStorageBuilder::new(), url).build()?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            Store::of(configured!(MicrosoftAzureBuilder::new(), url).build()?)
        }
        _ => Store {
            store: Arc::from(parse_url_opts(url, settings(url))?.0),
            uploads: None,
        },
    })
}

/// S3, which refuses to put an upload together where an object is, if it is asked to.
fn s3(url: &Url) -> Result<Store, object_store::Error> {
    let store = configured!(AmazonS3Builder::new(), url).build()?;
    let creating = AmazonS3Builder::new()
        .with_client_options(creating_client())
        .with_retry(creating_retries());
    let creating = configured!(creating, url).with_credentials(Arc::clone(store.credentials()));
    let creating = Arc::new(creating.build()?);
    let Store { store, uploads } = Store::of(store);
    Ok(Store {
        uploads: uploads.map(|uploads| uploads.creating_by(creating)),
        store,
    })
}

/// What the environment says of stores, in the words of the builders.
fn settings(url: &Url) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| SETTINGS.iter().any(|front| name.starts_with(front)))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let says =
        |settings: &[(String, String)], name: &str| settings.iter().any(|(key, _)| key == name);
    match url.scheme() {
        // Who names a server so has decided it.
        "http" => settings.push(("allow_http".into(), "true".into())),
        "s3" | "s3a" => {
            if !says(&settings, "aws_checksum_algorithm") {
                settings.push(("aws_checksum_algorithm".into(), "sha256".into()));
            }
            let is_plain = |(key, value): &(String, String)| {
                key.starts_with("aws_endpoint") && value.starts_with("http://")
            };
            if settings.iter().any(is_plain) && !says(&settings, "aws_allow_http") {
                settings.push(("aws_allow_http".into(), "true".into()));
            }
        }
        _ => {}
    }
    settings
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
    fn what_is_not_a_url_of_a_store_is_refused_by_name() {
        for (url, why) in [
            ("ftp://host/file", "not a URL of s3"),
            ("http://host/file?token=1", "with a query"),
            ("no url", "not a URL"),
        ] {
            let error = ObjectLocation::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(url) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_repeated() {
        let error = ObjectLocation::parse("http://me:secret@host/file?x=1").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
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
