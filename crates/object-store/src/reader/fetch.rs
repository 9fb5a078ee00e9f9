//! The requests of a reader.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use super::{Object, Shared};
use crate::failure::Failure;

/// What opening an object brings.
pub(super) struct Ends {
    pub(super) object: Object,
    /// What is at both ends, each with where it begins.
    pub(super) bytes: Vec<(u64, Bytes)>,
}

/// Fetches both ends at once: whatever comes back says how large the object is.
pub(super) async fn ends(shared: &Shared) -> Result<Ends, Failure> {
    let options = &shared.options;
    let head = get(shared, GetRange::Bounded(0..options.head_size), None);
    if !shared.location.has_suffixes {
        let head = head.await.map_err(|error| said(shared, &error));
        return with_tail(shared, head?).await;
    }
    let tail = get(shared, GetRange::Suffix(options.tail_size), None);
    match futures::future::join(head, tail).await {
        (Ok(head), Ok(tail)) => {
            if head.0.size != tail.0.size || differ(&head.0, &tail.0) {
                return Err(Failure::replaced(&shared.name));
            }
            let begin = tail.0.size.saturating_sub(tail.1.len() as u64);
            let mut bytes = vec![(begin, tail.1)];
            // Where they overlap, the tail's are taken.
            let front = usize::try_from(begin).unwrap_or(usize::MAX);
            bytes.push((0, head.1.slice(..front.min(head.1.len()))));
            Ok(Ends {
                object: object(&head.0),
                bytes,
            })
        }
        (Err(error @ Error::NotFound { .. }), _) | (_, Err(error @ Error::NotFound { .. })) => {
            Err(said(shared, &error))
        }
        // Some servers don't count from the end, or not further than to the front.
        (Ok(head), Err(_)) => with_tail(shared, head).await,
        // Nothing has no first byte.
        (Err(error), _) => match meta(shared).await {
            Ok(meta) if meta.size == 0 => Ok(Ends {
                object: object(&meta),
                bytes: Vec::new(),
            }),
            _ => Err(said(shared, &error)),
        },
    }
}

/// Fetches the end of an object whose front is there.
async fn with_tail(shared: &Shared, head: (ObjectMeta, Bytes)) -> Result<Ends, Failure> {
    let object = object(&head.0);
    let front = head.1.len() as u64;
    let begin = object
        .size
        .saturating_sub(shared.options.tail_size)
        .max(front);
    let mut bytes = vec![(0, head.1)];
    if begin < object.size {
        let tail = GetRange::Bounded(begin..object.size);
        let tail = get(shared, tail, Some(&object)).await;
        bytes.push((begin, tail.map_err(|error| said(shared, &error))?.1));
    }
    Ok(Ends { object, bytes })
}

/// Fetches a range of an object that is open.
pub(super) async fn range(shared: &Shared, range: Range<u64>) -> Result<Bytes, Failure> {
    let object = match &shared.lock().opened {
        Some(Ok(object)) => object.clone(),
        Some(Err(failure)) => return Err(failure.clone()),
        None => return Err(Failure::new(io::ErrorKind::Other, "the object isn't open")),
    };
    let len = range.end - range.start;
    let got = get(shared, GetRange::Bounded(range), Some(&object)).await;
    let (meta, bytes) = got.map_err(|error| said(shared, &error))?;
    let is_other = object.e_tag.is_some() && meta.e_tag.is_some() && object.e_tag != meta.e_tag;
    if meta.size != object.size || is_other {
        return Err(Failure::replaced(&shared.name));
    }
    if bytes.len() as u64 != len {
        let message = format!(
            "{}: {} bytes came back, where {len} were asked for",
            shared.name,
            bytes.len()
        );
        return Err(Failure::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

async fn get(
    shared: &Shared,
    range: GetRange,
    object: Option<&Object>,
) -> Result<(ObjectMeta, Bytes), Error> {
    let store = shared.location.store();
    let options = GetOptions {
        range: Some(range),
        // A weak one says that two versions mean the same, not that they are, and matches nothing.
        if_match: object
            .and_then(|object| object.e_tag.clone())
            .filter(|e_tag| !e_tag.starts_with("W/")),
        ..GetOptions::default()
    };
    let result: GetResult = store.get_opts(shared.location.path(), options).await?;
    let meta = result.meta.clone();
    let bytes = result.bytes().await?;
    shared.counted(1, bytes.len() as u64);
    Ok((meta, bytes))
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
