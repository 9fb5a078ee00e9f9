//! Stores for URLs. Environment variables configure the stores.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig, parse_url_opts,
};
use url::{Position, Url};

use crate::connector::{Connector, StoreKind};
use crate::failure::Failure;
use crate::multipart::{PartStore, Uploads, creating_headers};
use crate::options::StoreOptions;
use crate::runtime;

/// Prefixes of environment variables that configure stores.
const SETTINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Maximum number of retries of a request. The time limit is usually reached earlier.
const MOST_RETRIES: usize = 10_000;

/// Upper bound of the longest pause between retries. The longest pause is a sixth of the time for
/// retries, if this is within the bounds.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Lower bound of the longest pause between retries.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The stores that were already created, by URL prefix and options.
type Stores = Mutex<HashMap<(String, StoreOptions), Store>>;

/// A store, and its interface for uploads in parts by several hosts, if it has one.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) uploads: Option<Uploads>,
}

impl Store {
    fn of<S: ObjectStore + MultipartStore>(store: S) -> Store {
        let store = Arc::new(store);
        Store {
            uploads: Some(Uploads::of(Arc::clone(&store) as Arc<dyn PartStore>)),
            store,
        }
    }
}

/// Returns the store for a URL. The store is created once, so all of its objects share its
/// connections.
pub(crate) fn store(
    url: &Url,
    scheme: &ObjectStoreScheme,
    base: &str,
    options: &StoreOptions,
) -> Result<Store, Failure> {
    static STORES: OnceLock<Stores> = OnceLock::new();
    let mut stores = STORES
        .get_or_init(Stores::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let key = (base.to_owned(), options.clone());
    if let Some(known) = stores.get(&key) {
        return Ok(known.clone());
    }
    // The client needs the TLS provider that the runtime installs.
    let ready = runtime::handle();
    ready.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
    let made =
        build(url, scheme, base, options).map_err(|error| Failure::of("the store", &error))?;
    stores.insert(key, made.clone());
    Ok(made)
}

/// Configures a builder with a URL, monitored connections, and those of the settings that the
/// builder supports.
macro_rules! configured {
    ($builder:expr, $url:expr, $settings:expr, $asked:expr) => {{
        let (client, connector, retries) = $asked;
        let builder = $builder
            .with_url($url)
            .with_client_options(client)
            .with_http_connector(connector)
            .with_retry(retries);
        let settings = $settings.iter();
        settings.fold(builder, |builder, (key, value)| match key.parse() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        })
    }};
}

fn build(
    url: &Url,
    scheme: &ObjectStoreScheme,
    base: &str,
    options: &StoreOptions,
) -> Result<Store, object_store::Error> {
    let settings = settings(url);
    let connector = Connector::new(base, kind(scheme, &settings), options);
    let asked = |client| (client, connector.clone(), retries(options));
    let client = || client(options);
    Ok(match scheme {
        ObjectStoreScheme::Memory => Store::of(InMemory::new()),
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::new();
            let store = configured!(builder, url.as_str(), settings, asked(client())).build()?;
            // With this header, S3 rejects the completion of an upload if the object exists.
            let creating = client().with_default_headers(creating_headers());
            let builder = AmazonS3Builder::new();
            let creating = configured!(builder, url.as_str(), settings, asked(creating))
                .with_credentials(Arc::clone(store.credentials()));
            let creating = Arc::new(creating.build()?);
            let Store { store, uploads } = Store::of(store);
            Store {
                uploads: uploads.map(|uploads| uploads.creating_by(creating)),
                store,
            }
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::new();
            let builder = configured!(builder, url.as_str(), settings, asked(client()));
            Store::of(builder.build()?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::new();
            let builder = configured!(builder, url.as_str(), settings, asked(client()));
            Store::of(builder.build()?)
        }
        ObjectStoreScheme::Http => {
            let server = &url[..Position::BeforePath];
            let builder = configured!(HttpBuilder::new(), server, settings, asked(client()));
            Store {
                store: Arc::new(builder.build()?),
                uploads: None,
            }
        }
        _ => Store {
            store: Arc::from(parse_url_opts(url, settings)?.0),
            uploads: None,
        },
    })
}

/// Returns the options for connections. The timeout is for the time between two reads, not for a
/// whole object.
fn client(options: &StoreOptions) -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(options.idle_timeout())
}

/// Returns the options for retries, which end after a time limit. With the defaults of
/// `object_store`, retries would end after some seconds, because there are at most ten retries, and
/// the pauses, which are random, hardly grow with a base of 2.
fn retries(options: &StoreOptions) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: LONGEST_PAUSE
                .min(options.retry_timeout / 6)
                .max(SHORTEST_PAUSE),
            base: 4.,
        },
        max_retries: MOST_RETRIES,
        retry_timeout: options.retry_timeout,
    }
}

/// Returns the settings and endpoints that depend on the kind of store.
fn kind(scheme: &ObjectStoreScheme, settings: &[(String, String)]) -> StoreKind {
    let setting = |name: &str| settings.iter().find(|(key, _)| key == name);
    match scheme {
        ObjectStoreScheme::AmazonS3 => StoreKind {
            credentials: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true \
                          for a public bucket",
            allow_http: "AWS_ALLOW_HTTP",
            metadata_endpoint: setting("aws_metadata_endpoint").map(|(_, value)| value.clone()),
            falls_back: setting("aws_imdsv1_fallback").is_some(),
        },
        ObjectStoreScheme::GoogleCloudStorage => StoreKind {
            credentials: "GOOGLE_SERVICE_ACCOUNT to the path of a key, or \
                          GOOGLE_SKIP_SIGNATURE=true for a public bucket",
            allow_http: "GOOGLE_ALLOW_HTTP",
            ..StoreKind::default()
        },
        ObjectStoreScheme::MicrosoftAzure => StoreKind {
            credentials: "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true for a public \
                          container",
            allow_http: "AZURE_ALLOW_HTTP",
            ..StoreKind::default()
        },
        _ => StoreKind::default(),
    }
}

/// Returns the names and values of the settings for stores, from environment variables. The names
/// are those that the builders accept.
fn settings(url: &Url) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| SETTINGS.iter().any(|front| name.starts_with(front)))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let says =
        |settings: &[(String, String)], name: &str| settings.iter().any(|(key, _)| key == name);
    match url.scheme() {
        // A URL that begins with `http` explicitly asks for a connection without TLS.
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
    fn requests_are_not_tried_so_often_that_the_time_does_not_pass() {
        for seconds in [1, 180, 86_400] {
            let options = StoreOptions::new().retry_timeout(Duration::from_secs(seconds));
            let RetryConfig {
                backoff,
                max_retries,
                retry_timeout,
            } = retries(&options);
            let most = u32::try_from(max_retries).unwrap();
            assert!(backoff.max_backoff * most > retry_timeout);
            assert!(backoff.init_backoff * most > retry_timeout.min(Duration::from_secs(600)));
            // The expected logarithm of the factor by which a pause grows must be positive.
            assert!(backoff.base > std::f64::consts::E);
        }
    }

    #[test]
    fn each_kind_of_store_names_its_variables() {
        let settings = [("aws_metadata_endpoint".to_owned(), "http://here".to_owned())];
        for (scheme, begins) in [
            (ObjectStoreScheme::AmazonS3, "AWS_"),
            (ObjectStoreScheme::GoogleCloudStorage, "GOOGLE_"),
            (ObjectStoreScheme::MicrosoftAzure, "AZURE_"),
        ] {
            let kind = kind(&scheme, &settings);
            assert!(kind.credentials.starts_with(begins));
            assert!(kind.allow_http.starts_with(begins));
        }
    }
}
