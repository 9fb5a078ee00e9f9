//! Reads an object from a store whose responses are scripted by the input: some are short, long, of
//! another range, size or version, or errors. Bytes that are read must be those of the object, and
//! without a fault every read must succeed. Bytes after the script are text in which secrets of
//! URLs must be hidden.
#![no_main]

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use libfuzzer_sys::fuzz_target;
use proto_splitter_object_store::object_store::path::Path;
use proto_splitter_object_store::object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use proto_splitter_object_store::{ObjectLocation, ObjectReadOptions, ObjectReader, redact};
use record_file::ReadAt;
use url::Url;

/// Number of bytes that configure the object, the reader and the script.
const HEADER: usize = 8;

/// A store with one object, and the faults of its next responses.
#[derive(Debug)]
struct Scripted {
    content: Bytes,
    faults: Mutex<VecDeque<u8>>,
}

impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("scripted:/")
    }
}

impl Scripted {
    /// Returns the next fault; 0, which is no fault, after the end of the script.
    fn fault(&self) -> u8 {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.pop_front().unwrap_or(0)
    }
}

fn refused(message: &str) -> Error {
    Error::Generic {
        store: "scripted",
        source: message.into(),
    }
}

/// Divides bytes into two pieces of a body.
fn in_two(bytes: &Bytes) -> Vec<Result<Bytes>> {
    let at = bytes.len() / 3;
    vec![Ok(bytes.slice(..at)), Ok(bytes.slice(at..))]
}

#[async_trait]
impl ObjectStore for Scripted {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.fault();
        let mut size = self.content.len() as u64;
        let asked = match &options.range {
            Some(range) => range.as_range(size).map_err(|_| refused("no such range"))?,
            None => 0..size,
        };
        let (from, to) = (asked.start as usize, asked.end as usize);
        let mut range = asked.clone();
        let mut body = in_two(&self.content.slice(from..to));
        let mut e_tag = Some("1".to_owned());
        match fault % 16 {
            1 => size += 1 + u64::from(fault >> 4),
            2 => size = u64::MAX - u64::from(fault >> 4),
            3 => e_tag = Some("2".to_owned()),
            4 => e_tag = None,
            5 => drop(body.pop()),
            6 => body.push(Ok(self.content.clone())),
            7 => body.push(Err(refused("interrupted"))),
            8 => {
                // The store responds with fewer bytes than requested, and reports their actual
                // range.
                range.end -= (range.end - range.start) / 2;
                body = in_two(&self.content.slice(from..range.end as usize));
            }
            9 => {
                // The store responds with the start of the object, whatever is requested, and
                // reports this range.
                range = 0..(asked.end - asked.start);
                body = in_two(&self.content.slice(..range.end as usize));
            }
            10 => {
                range = Range {
                    start: u64::MAX,
                    end: 0,
                }
            }
            11 => return Err(refused("out of order")),
            12 => {
                return Err(Error::NotFound {
                    path: location.to_string(),
                    source: "gone".into(),
                });
            }
            13 => {
                return Err(Error::Precondition {
                    path: location.to_string(),
                    source: "replaced".into(),
                });
            }
            _ => {}
        }
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::iter(body).boxed()),
            meta: ObjectMeta {
                location: location.clone(),
                last_modified: Default::default(),
                size,
                e_tag,
                version: None,
            },
            range,
            attributes: Attributes::default(),
            extensions: Extensions::default(),
        })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(Error::NotImplemented {
            operation: "put".into(),
            implementer: self.to_string(),
        })
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented {
            operation: "put_multipart".into(),
            implementer: self.to_string(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        locations
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Ok(ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Extensions::default(),
        })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Ok(())
    }
}

/// Reads the ranges from a reader with these options, and compares them with the content.
fn read(store: Scripted, options: &ObjectReadOptions, ranges: &[Range<u64>]) {
    let is_sound = {
        let faults = store.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().all(|fault| matches!(fault % 16, 0 | 14 | 15))
    };
    let content = store.content.clone();
    let location = ObjectLocation::of_store(Arc::new(store), Path::from("folder/object"));
    let reader = match ObjectReader::open(&location, options) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!is_sound, "the object can't be opened: {error}");
            return;
        }
    };
    assert!(!is_sound || reader.size().ok() == Some(content.len() as u64));
    reader.prefetch(ranges);
    for range in ranges {
        let expected = range.start.min(content.len() as u64)..range.end.min(content.len() as u64);
        let expected = &content[expected.start as usize..expected.end as usize];
        let mut found = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        loop {
            match reader.read_at(range.start + done as u64, &mut found[done..]) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) => {
                    assert!(!is_sound, "{range:?} can't be read: {error}");
                    break;
                }
            }
        }
        assert!(!is_sound || done == expected.len(), "{range:?} is short");
        assert!(
            expected.starts_with(&found[..done]),
            "{range:?} has other bytes"
        );
    }
}

/// Checks that the password of a URL is hidden.
fn hide(text: &str) {
    let shown = redact(text);
    assert_eq!(redact(&shown), shown, "hidden text is hidden again");
    if let Ok(url) = Url::parse(text)
        && url.password().is_some()
    {
        let shown = redact(url.as_str());
        let shown = Url::parse(&shown).expect("a hidden password leaves a URL");
        assert_eq!(shown.password(), Some("***"), "the password is shown");
    }
}

/// Plants a sound object and, for each fault, one whose first response has it and one whose later
/// responses have it.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("stored_object") else {
        return;
    };
    let ranges: [(u16, u16); 6] = [
        (0, 10),
        (3000, 2500),
        (2900, 200),
        (8000, 9000),
        (9990, 100),
        (0, 10_000),
    ];
    let mut reads = Vec::new();
    for (start, len) in ranges {
        reads.extend([start.to_le_bytes(), len.to_le_bytes()].concat());
    }
    let text = b"see http://me:secret@host/m.cpb?X-Amz-Signature=0a1b";
    let [low, high] = 10_000_u16.to_le_bytes();
    for fault in 0..14 {
        for (name, cache, faults) in [
            ("first", 255, [fault; 5]),
            ("later", 1, [0, 0, fault, 0, fault]),
        ] {
            let header = [
                low,
                high,
                8,
                16,
                cache,
                10,
                faults.len() as u8,
                ranges.len() as u8,
            ];
            let seed = [&header, &faults[..], &reads[..], &text[..]].concat();
            std::fs::write(corpus.join(format!("{name}-{fault}")), seed).expect("a seed");
        }
    }
}

/// Runs the script that the input describes, and hides the secrets in its text.
fn run(data: &[u8]) {
    let Some((header, bytes)) = data.split_at_checked(HEADER) else {
        return;
    };
    let [size, size_high, head, tail, cache, coalesce, faults, reads] = header else {
        return;
    };
    let size = usize::from(*size) | usize::from(size_high % 64) << 8;
    // Consecutive bytes differ, so that bytes from another place are noticed.
    let content: Vec<u8> = (0..size)
        .map(|at| (at % 251) as u8 ^ (at >> 8) as u8)
        .collect();
    let (faults, bytes) = bytes.split_at(bytes.len().min(usize::from(faults % 32)));
    let (reads, text) = bytes.split_at(bytes.len().min(usize::from(reads % 32) * 4));
    let ranges: Vec<Range<u64>> = reads
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&[a, b, c, d]| {
            let (start, len) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            u64::from(start)..u64::from(start) + u64::from(len)
        })
        .collect();
    let options = ObjectReadOptions::new()
        .ends(u64::from(*head) << 3, u64::from(*tail) << 3)
        .request_size(1024)
        .coalesce(u64::from(*coalesce))
        .at_once(1 + usize::from(coalesce % 3))
        .cache_size(u64::from(*cache) << 6);
    let store = Scripted {
        content: content.into(),
        faults: Mutex::new(faults.iter().copied().collect()),
    };
    read(store, &options, &ranges);
    if let Ok(text) = std::str::from_utf8(text) {
        hide(text);
    }
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| run(data)
);
