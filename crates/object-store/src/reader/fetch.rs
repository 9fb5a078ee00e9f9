//! The requests of an [`ObjectReader`](super::ObjectReader).

use std::io;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{Either, select};
use futures::{FutureExt, TryStreamExt};
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use super::{Object, Shared};
use crate::failure::Failure;
use crate::trouble::Trouble;

/// Maximum time to wait for the last bytes of an object after its first bytes have been received.
/// This time is short, since a server that doesn't support requests for the last bytes may respond
/// with an error, and the request is then retried for minutes.
const TAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of opening an object.
pub(super) struct FetchedEnds {
    pub(super) object: Object,
    /// Ranges at the start and the end of the object: the offset and the bytes of each range.
    pub(super) bytes: Vec<(u64, Bytes)>,
}

/// Runs a request, and converts a panic to an error. Otherwise, callers would wait for the result
/// forever.
pub(super) async fn caught<T>(
    shared: &Shared,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let result = AssertUnwindSafe(request).catch_unwind().await;
    result.unwrap_or_else(|_| {
        let message = format!("{}: a request ended unexpectedly", shared.name);
        Err(Failure::new(io::ErrorKind::Other, message))
    })
}

/// Fetches the start and the end of the object, at the same time if the store supports requests for
/// the last bytes of an object. Each response also contains the object's size.
pub(super) async fn ends(shared: &Shared) -> Result<FetchedEnds, Failure> {
    let options = &shared.options;
    let head = get(shared, GetRange::Bounded(0..options.head_size), None);
    if !shared.location.has_suffixes {
        return match head.await {
            Ok(head) => with_tail(shared, head).await,
            Err(error) => without_head(shared, &error).await,
        };
    }
    let tail = get(shared, GetRange::Suffix(options.tail_size), None);
    let (head, tail) = match select(pin!(head), pin!(tail)).await {
        Either::Left((Ok(head), tail)) => {
            let tail = tokio::time::timeout(TAIL_TIMEOUT, tail).await;
            (Ok(head), tail.ok().and_then(Result::ok))
        }
        Either::Left((Err(error), _)) => (Err(error), None),
        Either::Right((tail, head)) => (head.await, tail.ok()),
    };
    match (head, tail) {
        (Ok(head), Some(tail)) => {
            if head.0.size != tail.0.size || differ(&head.0, &tail.0) {
                return Err(Failure::replaced(&shared.name));
            }
            let begin = tail.0.size.saturating_sub(tail.1.len() as u64);
            let mut bytes = vec![(begin, tail.1)];
            // Where the start and the end overlap, the bytes of the end are used.
            let front = usize::try_from(begin).unwrap_or(usize::MAX);
            bytes.push((0, head.1.slice(..front.min(head.1.len()))));
            Ok(FetchedEnds {
                object: object(&head.0),
                bytes,
            })
        }
        // Some servers don't support requests for the last bytes, or for more bytes than the object
        // has.
        (Ok(head), None) => with_tail(shared, head).await,
        (Err(error), _) => without_head(shared, &error).await,
    }
}

/// Opens an object whose start can't be fetched. This isn't an error for an empty object, which has
/// no first byte.
async fn without_head(shared: &Shared, error: &Error) -> Result<FetchedEnds, Failure> {
    let trouble = Trouble::of(error);
    let may_be_empty = match error {
        Error::NotFound { .. } | Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            false
        }
        _ => trouble.is_none_or(|trouble| trouble.status() == Some(416)),
    };
    if may_be_empty
        && let Ok(meta) = meta(shared).await
        && meta.size == 0
    {
        return Ok(FetchedEnds {
            object: object(&meta),
            bytes: Vec::new(),
        });
    }
    Err(said(shared, error))
}

/// Opens an object whose start was fetched, by fetching its end.
async fn with_tail(shared: &Shared, head: (ObjectMeta, Bytes)) -> Result<FetchedEnds, Failure> {
    let object = object(&head.0);
    let front = head.1.len() as u64;
    let begin = object
        .size
        .saturating_sub(shared.options.tail_size)
        .max(front);
    let mut bytes = vec![(0, head.1)];
    if begin < object.size {
        bytes.push((
            begin,
            of_version(shared, &object, begin..object.size).await?,
        ));
    }
    Ok(FetchedEnds { object, bytes })
}

/// Fetches a range of the object, which must be open.
pub(super) async fn range(shared: &Shared, range: Range<u64>) -> Result<Bytes, Failure> {
    let object = match &shared.lock().opened {
        Some(Ok(object)) => object.clone(),
        Some(Err(failure)) => return Err(failure.clone()),
        None => return Err(Failure::new(io::ErrorKind::Other, "the object isn't open")),
    };
    of_version(shared, &object, range).await
}

/// Fetches a range of the given version of the object. Fails if the object was replaced.
async fn of_version(shared: &Shared, object: &Object, range: Range<u64>) -> Result<Bytes, Failure> {
    let got = get(shared, GetRange::Bounded(range), Some(object)).await;
    let (meta, bytes) = got.map_err(|error| said(shared, &error))?;
    let is_other = object.e_tag.is_some() && meta.e_tag.is_some() && object.e_tag != meta.e_tag;
    if meta.size != object.size || is_other {
        return Err(Failure::replaced(&shared.name));
    }
    Ok(bytes)
}

async fn get(
    shared: &Shared,
    range: GetRange,
    object: Option<&Object>,
) -> Result<(ObjectMeta, Bytes), Error> {
    let store = shared.location.store();
    let most = match &range {
        GetRange::Bounded(range) => range.end.saturating_sub(range.start),
        GetRange::Suffix(len) => *len,
        GetRange::Offset(_) => u64::MAX,
    };
    let asked = range.clone();
    let options = GetOptions {
        range: Some(range),
        // A weak ETag never matches, since it identifies equivalent versions instead of a single
        // one.
        if_match: object
            .and_then(|object| object.e_tag.clone())
            .filter(|e_tag| !e_tag.starts_with("W/")),
        ..GetOptions::default()
    };
    let result: GetResult = store.get_opts(shared.location.path(), options).await?;
    let (meta, range) = (result.meta.clone(), result.range.clone());
    let asked = asked.as_range(meta.size);
    if asked.as_ref().ok() != Some(&range) {
        // Without this check, the bytes in the response would be taken for those of the requested
        // range. The clients of `object_store` check the range, but the store may be another
        // implementation.
        let message = format!(
            "the server sent bytes {range:?} of {} bytes, which are not the requested bytes",
            meta.size
        );
        return Err(wrong(message));
    }
    let len = range.end.saturating_sub(range.start);
    let bytes = collect(result, len.min(most)).await?;
    shared.counted(1, bytes.len() as u64);
    if bytes.len() as u64 != len {
        // The length of the body contradicts its `Content-Range`, so the position of the bytes is
        // unknown.
        let message = format!(
            "the server sent {} bytes, but had announced {len}",
            bytes.len()
        );
        return Err(wrong(message));
    }
    Ok((meta, bytes))
}

/// Reads the body of a response. Fails if it has more than `most` bytes.
async fn collect(result: GetResult, most: u64) -> Result<Bytes, Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut pieces = result.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.try_next().await? {
        if piece.len() > most - bytes.len() {
            return Err(wrong(format!("the server sent more than {most} bytes")));
        }
        if bytes.is_empty() && piece.len() == most {
            return Ok(piece);
        }
        if bytes.is_empty() {
            bytes.reserve(most);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

fn wrong(message: String) -> Error {
    Error::Generic {
        store: "the store",
        source: message.into(),
    }
}

async fn meta(shared: &Shared) -> Result<ObjectMeta, Error> {
    let options = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    let store = shared.location.store();
    let result = store.get_opts(shared.location.path(), options).await?;
    shared.counted(1, 0);
    Ok(result.meta)
}

fn object(meta: &ObjectMeta) -> Object {
    Object {
        size: meta.size,
        e_tag: meta.e_tag.clone(),
    }
}

fn differ(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.e_tag.is_some() && other.e_tag.is_some() && one.e_tag != other.e_tag
}

fn said(shared: &Shared, error: &Error) -> Failure {
    match error {
        Error::Precondition { .. } => Failure::replaced(&shared.name),
        error => Failure::of(&shared.name, error),
    }
}
