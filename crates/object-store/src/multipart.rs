//! Uploads in parts, and the condition for their last step.

use std::fmt;
use std::sync::Arc;

use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, HeaderMap, HeaderValue, PutPayload, Result};

/// Code and status of S3's error for an unsupported condition. They only occur in the error's text,
/// since `object_store` doesn't expose the status.
const UNKNOWN_CONDITION: [&str; 2] = ["NotImplemented", "501 Not Implemented"];

/// A store that assembles an object from parts uploaded by any host.
#[derive(Clone)]
pub(crate) struct Uploads {
    store: Arc<dyn MultipartStore>,
    /// The store's interface for requests that fail if the object exists; `None` if the store
    /// doesn't support this condition.
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
    /// Wraps a store without conditions.
    pub(crate) fn of(store: Arc<dyn MultipartStore>) -> Uploads {
        Uploads {
            store,
            creating: None,
        }
    }

    /// Adds `creating`, the store's interface for requests that fail if the object exists.
    pub(crate) fn creating_by(mut self, creating: Arc<dyn MultipartStore>) -> Uploads {
        self.creating = Some(creating);
        self
    }

    /// Begins an upload and returns its id.
    pub(crate) async fn begin(&self, path: &Path) -> Result<String> {
        self.store.create_multipart(path).await
    }

    /// Uploads a part and returns the store's id for it.
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

    /// Assembles the parts. If the store supports the condition, an existing object is an error
    /// unless `force` is set.
    pub(crate) async fn complete(
        &self,
        path: &Path,
        id: &str,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()> {
        let id = id.to_owned();
        let called = |parts: &[String]| {
            let ids = parts.iter().cloned();
            ids.map(|content_id| PartId { content_id }).collect()
        };
        if let Some(creating) = self.creating.as_ref().filter(|_| !force) {
            match creating.complete_multipart(path, &id, called(&parts)).await {
                Ok(_) => return Ok(()),
                Err(Error::Precondition { path, source }) => {
                    return Err(Error::AlreadyExists { path, source });
                }
                Err(error) if !is_unknown(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let done = self.store.complete_multipart(path, &id, called(&parts));
        done.await.map(drop)
    }

    /// Ends an upload and deletes its parts.
    pub(crate) async fn abort(&self, path: &Path, id: &str) -> Result<()> {
        self.store.abort_multipart(path, &id.to_owned()).await
    }
}

/// Returns true if the error means that the store doesn't support the condition.
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
    use async_trait::async_trait;
    use futures::executor::block_on;
    use object_store::{Extensions, PutResult};

    use super::*;

    /// A store that gives a fixed response to the last step, and does nothing else.
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

    #[test]
    fn the_last_step_has_a_condition_where_the_store_knows_it() {
        let unknown = || failed("server returned 501 Not Implemented: NotImplemented");
        let busy = || failed("503 Slow Down");
        let never: fn() -> Result<()> = || unreachable!("it isn't asked");
        // The response with the condition, the response without the condition, and the result.
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
}
