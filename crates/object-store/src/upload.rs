//! Uploading some or all parts of an object.

use std::collections::VecDeque;
use std::io::{self, Write};

use bytes::Bytes;
use object_store::path::Path;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_parts::{ObjectUpload, UploadParts};
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::location::ObjectLocation;
use crate::multipart::Uploads;
use crate::runtime;

/// Maximum total size of the parts that are uploaded at once, in bytes: 256 MiB. A larger part is
/// uploaded alone.
const MOST_HELD: usize = 256 << 20;

/// A writer that uploads its input in parts, several at once.
pub(crate) struct Uploader {
    uploads: Uploads,
    name: String,
    path: Path,
    id: String,
    /// Index, among all parts of the object, of the next part to upload.
    next: usize,
    part_size: usize,
    at_once: usize,
    buffer: Vec<u8>,
    /// Pending uploads, in the order of their parts.
    running: VecDeque<JoinHandle<object_store::Result<String>>>,
    done: Vec<String>,
}

impl Uploader {
    pub(crate) fn new(
        location: &ObjectLocation,
        uploads: &Uploads,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Uploader> {
        let [part_size, next] = [upload.part_size, first].map(|it| usize::try_from(it).ok());
        let (Some(part_size @ 1..), Some(next)) = (part_size, next) else {
            let message = format!(
                "{location}: the upload has an invalid part size of {} bytes",
                upload.part_size
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        Ok(Uploader {
            uploads: uploads.clone(),
            name: location.to_string(),
            path: location.path().clone(),
            id: upload.id.clone(),
            next,
            part_size,
            at_once: 1,
            buffer: Vec::new(),
            running: VecDeque::new(),
            done: Vec::new(),
        })
    }

    /// Sets the maximum number of parts to upload at once. The number is reduced if parts are so
    /// large that they would need too much memory.
    pub(crate) fn at_once(mut self, parts: usize) -> Uploader {
        self.at_once = parts.min(MOST_HELD / self.part_size).max(1);
        self
    }

    fn send(&mut self) -> io::Result<()> {
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        self.put(part)
    }

    /// Uploads a part. Waits for an earlier part if too many are being uploaded.
    pub(crate) fn put(&mut self, part: Bytes) -> io::Result<()> {
        while self.running.len() >= self.at_once {
            self.wait_for_first()?;
        }
        let (uploads, path, id) = (self.uploads.clone(), self.path.clone(), self.id.clone());
        let number = self.next;
        self.next += 1;
        let sent = async move { uploads.put(&path, &id, number, part.into()).await };
        self.running.push_back(runtime::handle()?.spawn(sent));
        Ok(())
    }

    fn wait_for_first(&mut self) -> io::Result<()> {
        let Some(first) = self.running.pop_front() else {
            return Ok(());
        };
        let part = runtime::wait(first)?.map_err(io::Error::other)?;
        let part = part.map_err(|error| said(&self.name, &error))?;
        self.done.push(part);
        Ok(())
    }
}

impl Write for Uploader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == self.part_size {
            self.send()?;
        }
        let n = bytes.len().min(self.part_size - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    /// Does nothing, since each part is uploaded when it is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Uploader {
    /// Uploads the last part, and waits for all parts. Returns the ids that the store gave them, in
    /// order.
    pub(crate) fn wait(&mut self) -> io::Result<Vec<String>> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while !self.running.is_empty() {
            self.wait_for_first()?;
        }
        Ok(std::mem::take(&mut self.done))
    }
}

impl Uploader {
    /// Completes the upload. `parts` are the ids of the parts from all hosts, in order.
    pub(crate) fn complete(&self, parts: Vec<String>, force: bool) -> io::Result<()> {
        let done = self.uploads.complete(&self.path, &self.id, parts, force);
        runtime::wait(done)?.map_err(|error| said(&self.name, &error))
    }

    /// Aborts the upload, and deletes its parts.
    pub(crate) async fn abort(mut self) -> object_store::Result<()> {
        for part in std::mem::take(&mut self.running) {
            part.abort();
            // Waits for pending parts, since they could otherwise be stored after the upload was
            // aborted.
            drop(part.await);
        }
        self.uploads.abort(&self.path, &self.id).await
    }
}

impl UploadParts for Uploader {
    fn finish(mut self: Box<Self>) -> Result<Vec<String>> {
        Ok(self.wait()?)
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        for part in &self.running {
            part.abort();
        }
    }
}

/// Converts a store's error about an upload of the object called `name` to an I/O error.
pub(crate) fn said(name: &str, error: &object_store::Error) -> io::Error {
    match error {
        object_store::Error::NotFound { .. } => {
            let message = format!("{name}: its unfinished upload no longer exists");
            io::Error::other(message)
        }
        error => Failure::of(name, error).into(),
    }
}
