//! Monitored connections to a store. Failing requests cause a warning, and are retried where
//! `object_store` would give up too early.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::{ClientConfigKey, ClientOptions};

use crate::failure::causes;
use crate::options::StoreOptions;
use crate::redact::redact;
use crate::trouble::Trouble;

/// Maximum number of characters to keep from the body of an error response.
const MOST_SAID: usize = 500;

/// Maximum number of bytes to read from the body of an error response. This limit is larger than
/// [`MOST_SAID`], since a character can have several bytes, and each run of whitespace is reduced
/// to one space before the characters are counted.
const MOST_READ: usize = 16 << 10;

/// Size in bytes up to which sending the body of a request takes no noticeable time.
const SMALL_BODY: usize = 64 << 10;

/// First pause before a throttled request is retried, in milliseconds.
const FIRST_PAUSE: u64 = 500;

/// Size that is reported for an object if the server doesn't report one.
pub(crate) const UNKNOWN_SIZE: u64 = u64::MAX;

/// Extension of a response that ends when its connection is closed. Such a response looks complete
/// even if the connection was interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenEnded;

/// Hosts that provide credentials to cloud machines.
const METADATA_HOSTS: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "[fd00:ec2::254]",
    "metadata.google.internal",
];

/// Settings and endpoints that depend on the kind of store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreKind {
    /// Text that names the settings to use if no credentials are found.
    pub(crate) credentials: &'static str,
    /// Environment variable that allows an endpoint without TLS.
    pub(crate) allow_http: &'static str,
    /// Additional endpoint that provides credentials; `None` if only the [`METADATA_HOSTS`] provide
    /// them.
    pub(crate) metadata_endpoint: Option<String>,
    /// True if the client tries another way to get credentials after a response with status 403.
    pub(crate) falls_back: bool,
}

/// A factory for connections to one store, which all report failures to the same [`Watch`].
#[derive(Clone, Debug)]
pub(crate) struct Connector(Arc<Watch>);

/// The state shared by all connections to a store.
#[derive(Debug)]
struct Watch {
    /// Name of the store, for warnings.
    name: String,
    kind: StoreKind,
    options: StoreOptions,
    failing: Mutex<Failing>,
}

/// The time of the first failure since the last successful request, if any, and a flag that is set
/// once a warning about the failures was issued.
#[derive(Debug, Default)]
struct Failing {
    since: Option<Instant>,
    is_told: bool,
}

impl Connector {
    pub(crate) fn new(name: &str, kind: StoreKind, options: &StoreOptions) -> Connector {
        Connector(Arc::new(Watch {
            name: redact(name).trim_end_matches('/').to_owned(),
            kind,
            options: options.clone(),
            failing: Mutex::default(),
        }))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(HttpClient::new(Watched {
            inner: ReqwestConnector::default().connect(options)?,
            allows_http: allows_http.is_some_and(|allows| allows == "true"),
            watch: Arc::clone(&self.0),
        }))
    }
}

/// A client that monitors its requests.
#[derive(Debug)]
struct Watched {
    inner: HttpClient,
    allows_http: bool,
    watch: Arc<Watch>,
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let watch = &self.watch;
        if request.uri().scheme_str() == Some("http") && !self.allows_http {
            let trouble = Trouble::Unencrypted(watch.kind.allow_http);
            return Err(HttpError::new(HttpErrorKind::Decode, trouble));
        }
        let is_metadata = watch.kind.is_metadata(&request);
        let is_listing = request.method().as_str() == "PROPFIND";
        let (is_get, is_part) = (
            request.method().as_str() == "GET",
            request.headers().contains_key("range"),
        );
        let mut throttled = Throttled::default();
        loop {
            let response = match self.answer(request.clone()).await {
                Ok(response) => response,
                Err(_) if is_metadata => return Err(watch.kind.no_credentials()),
                Err(error) => return Err(watch.no_answer(&error)),
            };
            let status = response.status();
            let code = status.as_u16();
            // Some servers respond with a web page to a request for a listing.
            let is_page = is_listing && status.is_success() && code != 207;
            if !is_page && (status.is_success() || status.is_redirection() || code == 304) {
                watch.worked();
                return if is_get && status.is_success() {
                    completed(response, is_part)
                } else {
                    Ok(response)
                };
            }
            let is_refused = status.is_client_error() && !matches!(code, 408 | 429);
            if is_metadata && is_refused && !(watch.kind.falls_back && code == 403) {
                return Err(watch.kind.no_credentials());
            }
            let reason = status.canonical_reason().unwrap_or_default();
            let (parts, body) = response.into_parts();
            let body = watch.beginning(body).await;
            let trouble = |tried| Trouble::Status {
                code,
                reason,
                body: body.clone(),
                tried,
            };
            if is_page || matches!(code, 416 | 501 | 505) || is_listing && is_refused && code != 404
            {
                // A retry would have the same result.
                return Err(HttpError::new(
                    HttpErrorKind::Decode,
                    trouble(Duration::ZERO),
                ));
            }
            if is_refused {
                // The store works, but has refused the request. `object_store` itself handles
                // refusals.
                watch.worked();
                return Ok(HttpResponse::from_parts(parts, body.into()));
            }
            let is_throttled = matches!(code, 429 | 503);
            let limit = if is_throttled {
                watch.options.throttle_timeout()
            } else {
                watch.options.retry_timeout
            };
            let tried = watch.failed(&format!("it answers {code} {reason}"), limit);
            if !is_throttled {
                return Err(HttpError::new(HttpErrorKind::Request, trouble(tried)));
            }
            match throttled.pause(watch.options.throttle_timeout()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(HttpError::new(HttpErrorKind::Decode, trouble(tried))),
            }
        }
    }
}

/// Checks the headers of a response with an object's content. If the server doesn't report the
/// content's length, adds a length, since `object_store` rejects content without one. `is_part` is
/// true if only a range of the object was requested.
fn completed(mut response: HttpResponse, is_part: bool) -> Result<HttpResponse, HttpError> {
    let wrong = |trouble| Err(HttpError::new(HttpErrorKind::Decode, trouble));
    if is_part && response.status().as_u16() != 206 {
        return wrong(Trouble::NoRanges);
    }
    let mut len = UNKNOWN_SIZE;
    if let Some(range) = response.headers().get("content-range") {
        let range = String::from_utf8_lossy(range.as_bytes());
        match len_of(&range) {
            Some(announced) => len = announced,
            None => return wrong(Trouble::WrongRange(range.chars().take(MOST_SAID).collect())),
        }
    }
    if !response.headers().contains_key("content-length") {
        // The default version is HTTP/1.1. Later versions mark the end of each response.
        let is_marked = response.version() > Default::default();
        if !is_marked && !response.headers().contains_key("transfer-encoding") {
            response.extensions_mut().insert(OpenEnded);
        }
        response.headers_mut().insert("content-length", len.into());
    }
    Ok(response)
}

/// Returns the number of bytes that a `Content-Range` specifies; `None` if it is invalid.
fn len_of(range: &str) -> Option<u64> {
    let (range, _) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let end = last.checked_add(1)?;
    end.checked_sub(first).filter(|&len| len > 0)
}

impl Watched {
    /// Sends a request once, without retries. Warns if there is no response for some time.
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let begun = Instant::now();
        let is_small = request.body().content_length() <= SMALL_BODY;
        let mut sent = pin!(self.inner.execute(request));
        if is_small {
            let soon = self.watch.options.notice_after();
            if let Ok(answer) = tokio::time::timeout(soon, sent.as_mut()).await {
                return answer;
            }
            let limit = self.watch.options.retry_timeout;
            self.watch.failed_since(begun, "it doesn't answer", limit);
        }
        sent.await
    }
}

impl StoreKind {
    fn is_metadata(&self, request: &HttpRequest) -> bool {
        let host = request.uri().host().unwrap_or_default();
        let endpoint = self.metadata_endpoint.as_deref();
        METADATA_HOSTS.contains(&host)
            || endpoint.is_some_and(|endpoint| request.uri().to_string().starts_with(endpoint))
    }

    fn no_credentials(&self) -> HttpError {
        let trouble = Trouble::NoCredentials(self.credentials);
        HttpError::new(HttpErrorKind::Decode, trouble)
    }
}

impl Watch {
    fn worked(&self) {
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = Failing::default();
    }

    fn failed(&self, why: &str, limit: Duration) -> Duration {
        self.failed_since(Instant::now(), why, limit)
    }

    /// Records the failure of a request that began at `begun`. If requests have failed for some
    /// time, logs a single warning, which includes the time limit for retries. Returns the time
    /// since the first failure.
    fn failed_since(&self, begun: Instant, why: &str, limit: Duration) -> Duration {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = failing.since.get_or_insert(begun).elapsed();
        if tried >= self.options.notice_after() && !failing.is_told {
            failing.is_told = true;
            let (name, limit) = (&self.name, limit.as_secs_f64());
            let tried = tried.as_secs_f64();
            tracing::warn!(
                "{name}: {why}, for {tried:.0} s now; requests are retried for {limit:.0} s"
            );
        }
        tried
    }

    /// Returns the error for a request without a response. The kind of the error determines whether
    /// `object_store` retries the request.
    fn no_answer(&self, error: &HttpError) -> HttpError {
        let why = error.source().map_or(String::new(), causes);
        let why = redact(&why).into_owned();
        let tried = self.failed(&why, self.options.retry_timeout);
        HttpError::new(error.kind(), Trouble::NoAnswer { why, tried })
    }

    /// Reads the beginning of the body of an error response.
    async fn beginning(&self, body: HttpResponseBody) -> String {
        let mut read = Vec::new();
        let mut pieces = body.bytes_stream();
        let reading = async {
            while read.len() < MOST_READ
                && let Some(Ok(piece)) = pieces.next().await
            {
                let room = MOST_READ - read.len();
                read.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        };
        // After a timeout, the bytes received so far are kept.
        let _ = tokio::time::timeout(self.options.idle_timeout(), reading).await;
        let text = String::from_utf8_lossy(&read);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = redact(&text);
        match text.char_indices().nth(MOST_SAID) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.into_owned(),
        }
    }
}

/// The pauses before retries of a throttled request. `object_store` has one time limit for all
/// failures, but the limit for throttled requests must be longer.
#[derive(Debug, Default)]
struct Throttled {
    since: Option<Instant>,
    pauses: u32,
}

impl Throttled {
    /// Returns the next pause, which tends to be longer than the last one; `None` after the time
    /// limit.
    fn pause(&mut self, limit: Duration) -> Option<Duration> {
        let begun = *self.since.get_or_insert_with(Instant::now);
        let left = limit.checked_sub(begun.elapsed())?;
        let longest = Duration::from_millis(FIRST_PAUSE << self.pauses.min(5));
        self.pauses += 1;
        // The length of the pause is random, so that requests that were rejected at the same time
        // aren't retried at the same time.
        let random = RandomState::new().build_hasher().finish() % 1000;
        let part = 500 + u32::try_from(random / 2).unwrap_or(0);
        Some((longest * part / 1000).min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_length_if_it_is_one() {
        assert_eq!(len_of("bytes 5-9/10"), Some(5));
        assert_eq!(len_of("bytes 0-0/*"), Some(1));
        for wrong in [
            "bytes 5-4/10",
            "bytes 6-4/10",
            "bytes */10",
            "bytes 0-18446744073709551615/18446744073709551615",
            "bytes 0-18446744073709551616/1",
            "bytes -1-4/10",
            "bytes 0-4",
            "items 0-4/10",
            "",
        ] {
            assert_eq!(len_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pauses_grow_and_end_with_the_limit() {
        let mut throttled = Throttled::default();
        for most in [500, 1000, 2000, 4000, 8000, 16_000, 16_000] {
            let pause = throttled.pause(Duration::from_secs(600)).unwrap();
            let most = Duration::from_millis(most);
            assert!(pause >= most / 2 && pause <= most, "{pause:?}");
        }
        assert_eq!(throttled.pause(Duration::ZERO), None);
    }
}
