//! Uploading an object in parts, and completing the upload only if the object doesn't exist yet.

use std::fmt::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use md5::{Digest, Md5};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Error, HeaderMap, HeaderValue, ObjectStore, ObjectStoreExt, PutPayload, Result,
};

/// Code and status of S3's error for a condition that the store doesn't support. They are looked up
/// in the error's text, since `object_store` doesn't expose the status.
const UNKNOWN_CONDITION: [&str; 2] = ["NotImplemented", "501 Not Implemented"];

/// A store that assembles objects from parts, and reports the ETags of its objects.
#[async_trait]
pub(crate) trait PartStore: MultipartStore {
    /// Returns the ETag of an object; `None` if the store has no ETags.
    async fn e_tag(&self, path: &Path) -> Result<Option<String>>;
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> PartStore for S {
    async fn e_tag(&self, path: &Path) -> Result<Option<String>> {
        Ok(self.head(path).await?.e_tag)
    }
}

/// The interface of a store that assembles an object from parts which different hosts may upload.
#[derive(Clone)]
pub(crate) struct Uploads {
    store: Arc<dyn PartStore>,
    /// Interface whose requests fail if the object exists; `None` if the store doesn't support this
    /// condition.
    creating: Option<Arc<dyn MultipartStore>>,
}

impl fmt::Debug for Uploads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploads")
            .field("creating", &self.creating.is_some())
            .finish_non_exhaustive()
    }
}

impl Uploads {
    /// Wraps a store, without an interface whose requests fail if the object exists.
    pub(crate) fn of(store: Arc<dyn PartStore>) -> Uploads {
        Uploads {
            store,
            creating: None,
        }
    }

    /// Adds an interface whose requests fail if the object exists.
    pub(crate) fn creating_by(mut self, creating: Arc<dyn MultipartStore>) -> Uploads {
        self.creating = Some(creating);
        self
    }

    /// Begins an upload and returns its id.
    pub(crate) async fn begin(&self, path: &Path) -> Result<String> {
        self.store.create_multipart(path).await
    }

    /// Uploads the part with index `number`, and returns the id that the store gives it.
    pub(crate) async fn put(
        &self,
        path: &Path,
        id: &str,
        number: usize,
        part: PutPayload,
    ) -> Result<String> {
        let id = id.to_owned();
        let part = self.store.put_part(path, &id, number, part).await?;
        Ok(part.content_id)
    }

    /// Completes an upload: the store assembles the parts with these ids. If the object exists and
    /// `force` is false, this fails, provided that the store supports this condition for uploads.
    ///
    /// A request whose response is lost is sent again. If the first request succeeded, the store
    /// rejects the second request, since the object already exists or the upload no longer exists.
    /// After such an error, the upload is complete if the object's ETag is the one that results
    /// from these parts.
    pub(crate) async fn complete(
        &self,
        path: &Path,
        id: &str,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()> {
        let Err(error) = self.assemble(path, id, &parts, force).await else {
            return Ok(());
        };
        let may_be_complete = matches!(error, Error::AlreadyExists { .. } | Error::NotFound { .. });
        let Some(expected) = e_tag_of(&parts).filter(|_| may_be_complete) else {
            return Err(error);
        };
        match self.store.e_tag(path).await {
            Ok(Some(found)) if found.trim_matches('"') == expected => Ok(()),
            _ => Err(error),
        }
    }

    async fn assemble(&self, path: &Path, id: &str, parts: &[String], force: bool) -> Result<()> {
        let id = id.to_owned();
        let called = |parts: &[String]| {
            let ids = parts.iter().cloned();
            ids.map(|content_id| PartId { content_id }).collect()
        };
        if let Some(creating) = self.creating.as_ref().filter(|_| !force) {
            match creating.complete_multipart(path, &id, called(parts)).await {
                Ok(_) => return Ok(()),
                Err(Error::Precondition { path, source }) => {
                    return Err(Error::AlreadyExists { path, source });
                }
                Err(error) if !is_unknown(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let done = self.store.complete_multipart(path, &id, called(parts));
        done.await.map(drop)
    }

    /// Aborts an upload, and deletes its parts.
    pub(crate) async fn abort(&self, path: &Path, id: &str) -> Result<()> {
        self.store.abort_multipart(path, &id.to_owned()).await
    }
}

/// Returns the ETag that S3 gives an object assembled from parts with these ETags: the MD5 hash of
/// the parts' MD5 hashes, and the number of parts. Returns `None` if the ETags of the parts aren't
/// MD5 hashes, as in a bucket that encrypts with managed keys.
fn e_tag_of(parts: &[String]) -> Option<String> {
    let mut hash = Md5::new();
    for part in parts {
        let digits = e_tag_in(part).as_bytes();
        if digits.len() != 32 {
            return None;
        }
        for pair in digits.chunks_exact(2) {
            let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
            let byte = u8::try_from(high? << 4 | low?).ok()?;
            hash.update([byte]);
        }
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}").ok()?;
    }
    Some(format!("{text}-{}", parts.len()))
}

/// Returns the ETag, without quotation marks, in a part's id. The id is the ETag itself or, if parts
/// have checksums, an XML element that contains the ETag.
fn e_tag_in(id: &str) -> &str {
    let element = id.split_once("<e_tag>");
    let element = element.and_then(|(_, after)| after.split_once("</e_tag>"));
    let e_tag = element.map_or(id, |(e_tag, _)| e_tag).trim_matches('"');
    let e_tag = e_tag.strip_prefix("&quot;").unwrap_or(e_tag);
    e_tag.strip_suffix("&quot;").unwrap_or(e_tag)
}

/// Returns true if the error means that the store doesn't support the condition that the object
/// must not exist.
fn is_unknown(error: &Error) -> bool {
    let said = error.to_string();
    UNKNOWN_CONDITION.iter().any(|known| said.contains(known))
}

/// Returns the headers that make S3 requests fail if the object exists.
pub(crate) fn creating_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("if-none-match", HeaderValue::from_static("*"));
    headers
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use object_store::{Extensions, PutResult};

    use super::*;

    /// A store that completes each upload with a fixed response, and whose other requests do
    /// nothing.
    #[derive(Debug)]
    struct Answering(fn() -> Result<()>);

    #[async_trait]
    impl MultipartStore for Answering {
        async fn create_multipart(&self, _: &Path) -> Result<String> {
            Ok("upload".to_owned())
        }

        async fn put_part(
            &self,
            _: &Path,
            _: &String,
            number: usize,
            _: PutPayload,
        ) -> Result<PartId> {
            let content_id = number.to_string();
            Ok(PartId { content_id })
        }

        async fn complete_multipart(
            &self,
            _: &Path,
            _: &String,
            parts: Vec<PartId>,
        ) -> Result<PutResult> {
            assert_eq!(parts.len(), 2);
            self.0().map(|()| PutResult {
                e_tag: None,
                version: None,
                extensions: Extensions::default(),
            })
        }

        async fn abort_multipart(&self, _: &Path, _: &String) -> Result<()> {
            Ok(())
        }
    }

    fn refused() -> Result<()> {
        Err(Error::Precondition {
            path: "m".into(),
            source: "412 Precondition Failed".into(),
        })
    }

    fn failed(said: &'static str) -> Result<()> {
        Err(Error::Generic {
            store: "S3",
            source: said.into(),
        })
    }

    /// ETags of the two parts of an object: 5 MiB of `a`, and one `b`.
    const PARTS: [&str; 2] = [
        "79b281060d337b9b2b84ccf390adcf74",
        "92eb5ffee6ae2fec3ad71c777531578f",
    ];
    /// ETag of the object that consists of the parts with the ETags [`PARTS`].
    const WHOLE: &str = "e5a8c5272b26fc10581a21089559b006-2";

    #[async_trait]
    impl PartStore for Answering {
        async fn e_tag(&self, _: &Path) -> Result<Option<String>> {
            Ok(Some(format!("\"{WHOLE}\"")))
        }
    }

    #[test]
    fn the_last_step_has_a_condition_where_the_store_knows_it() {
        let unknown = || failed("server returned 501 Not Implemented: NotImplemented");
        let busy = || failed("503 Slow Down");
        let never: fn() -> Result<()> = || unreachable!("it isn't asked");
        // The response to a request with the condition, the response to one without it, `force`,
        // and the expected result.
        type Answer = fn() -> Result<()>;
        let table: [(Answer, Answer, bool, &str); 5] = [
            (|| Ok(()), never, false, "done"),
            (refused, never, false, "there already"),
            (unknown, || Ok(()), false, "done"),
            (busy, never, false, "failed"),
            (never, || Ok(()), true, "done"),
        ];
        for (at, (creating, plain, force, wanted)) in table.into_iter().enumerate() {
            let uploads =
                Uploads::of(Arc::new(Answering(plain))).creating_by(Arc::new(Answering(creating)));
            let parts = vec!["0".to_owned(), "1".to_owned()];
            let done = block_on(uploads.complete(&Path::from("m"), "upload", parts, force));
            let found = match done {
                Ok(()) => "done",
                Err(Error::AlreadyExists { .. }) => "there already",
                Err(_) => "failed",
            };
            assert_eq!(found, wanted, "row {at}");
        }
    }

    #[test]
    fn an_upload_whose_last_response_was_lost_is_complete() {
        let gone = || {
            Err(Error::NotFound {
                path: "m".into(),
                source: "NoSuchUpload".into(),
            })
        };
        let never: fn() -> Result<()> = || unreachable!("it isn't asked");
        let other = [PARTS[1], PARTS[0]];
        type Answer = fn() -> Result<()>;
        let table: [(Answer, Answer, bool, [&str; 2], bool); 6] = [
            (refused, never, false, PARTS, true),
            (refused, never, false, other, false),
            (gone, never, false, PARTS, true),
            (never, gone, true, PARTS, true),
            (never, gone, true, other, false),
            (refused, never, false, ["0", "1"], false),
        ];
        for (at, (creating, plain, force, parts, is_done)) in table.into_iter().enumerate() {
            let uploads =
                Uploads::of(Arc::new(Answering(plain))).creating_by(Arc::new(Answering(creating)));
            for form in [
                "\"TAG\"",
                "<PartMetadata><e_tag>&quot;TAG&quot;</e_tag></PartMetadata>",
            ] {
                let parts = parts.map(|part| form.replace("TAG", part)).to_vec();
                let done = block_on(uploads.complete(&Path::from("m"), "upload", parts, force));
                assert_eq!(done.is_ok(), is_done, "row {at}: {done:?}");
            }
        }
    }
}
