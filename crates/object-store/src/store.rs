//! The stores behind URLs, as the environment sets them up.

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

use crate::failure::Failure;
use crate::multipart::{Uploads, creating_headers};
use crate::options::StoreOptions;
use crate::runtime;
use crate::watched::{Connector, Kind};

/// What the names of variables in the environment begin with that stores are set up by.
const SETTINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// How often a request is tried again at most, which time ends before.
const MOST_RETRIES: usize = 10_000;

/// How long the pauses between tries get.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Those that are known, by what their objects begin with and how they are asked.
type Stores = Mutex<HashMap<(String, StoreOptions), Store>>;

/// A store, and the same one as one of uploads in parts, if it is.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) uploads: Option<Uploads>,
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

/// Returns the store of a URL, which all objects in it share with their connections.
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
    // A client needs what the runtime installs.
    let ready = runtime::handle();
    ready.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
    let made =
        build(url, scheme, base, options).map_err(|error| Failure::of("the store", &error))?;
    stores.insert(key, made.clone());
    Ok(made)
}

/// A builder with a URL, connections that are watched, and those settings that it knows.
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
            // S3 refuses to put an upload together where an object is, if it is asked to.
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

/// Returns how connections are made. Time is limited between bytes, not for all of an object.
fn client(options: &StoreOptions) -> ClientOptions {
    ClientOptions::new()
        .with_timeout_disabled()
        .with_read_timeout(options.idle_timeout())
}

/// Returns how requests that fail are tried again: until the time has passed. The default of ten times ends
/// after some seconds, and pauses of a base of 2, which are drawn at random, don't grow.
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

/// Returns what is particular to stores of a scheme.
fn kind(scheme: &ObjectStoreScheme, settings: &[(String, String)]) -> Kind {
    let setting = |name: &str| settings.iter().find(|(key, _)| key == name);
    match scheme {
        ObjectStoreScheme::AmazonS3 => Kind {
            credentials: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true \
                          for a public bucket",
            allow_http: "AWS_ALLOW_HTTP",
            metadata_endpoint: setting("aws_metadata_endpoint").map(|(_, value)| value.clone()),
            falls_back: setting("aws_imdsv1_fallback").is_some(),
        },
        ObjectStoreScheme::GoogleCloudStorage => Kind {
            credentials: "GOOGLE_SERVICE_ACCOUNT to the path of a key, or \
                          GOOGLE_SKIP_SIGNATURE=true for a public bucket",
            allow_http: "GOOGLE_ALLOW_HTTP",
            ..Kind::default()
        },
        ObjectStoreScheme::MicrosoftAzure => Kind {
            credentials: "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true for a public \
                          container",
            allow_http: "AZURE_ALLOW_HTTP",
            ..Kind::default()
        },
        _ => Kind::default(),
    }
}

/// Returns what the environment says of stores, in the words of the builders.
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
            // The mean of the logarithm of what a pause is multiplied by has to be positive.
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
