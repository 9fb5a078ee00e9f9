//! Uploading parts of an upload, all of them or some.

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

/// The bytes held in memory at once, unless that is less than two parts.
const MOST_HELD: usize = 256 << 20;

/// Uploads what is written to it, a part at a time, several at once.
pub(crate) struct Uploader {
    uploads: Uploads,
    name: String,
    path: Path,
    id: String,
    /// Which part comes next.
    next: usize,
    part_size: usize,
    at_once: usize,
    buffer: Vec<u8>,
    /// Those on their way, in their order.
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
                "{location}: an upload in parts of {} bytes",
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

    /// Returns how many parts are uploaded at once; fewer if they are so large that they take much memory.
    pub(crate) fn at_once(mut self, parts: usize) -> Uploader {
        self.at_once = parts.min(MOST_HELD / self.part_size).max(1);
        self
    }

    fn send(&mut self) -> io::Result<()> {
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        self.put(part)
    }

    /// Uploads a part, once there is room for it.
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

    /// Does nothing: parts are uploaded when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Uploader {
    /// Waits for all parts. Gives what the store calls them, in their order.
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
    /// Has the store put the parts together that all hosts together have uploaded.
    pub(crate) fn complete(&self, parts: Vec<String>, force: bool) -> io::Result<()> {
        let done = self.uploads.complete(&self.path, &self.id, parts, force);
        runtime::wait(done)?.map_err(|error| said(&self.name, &error))
    }

    /// Ends the upload, and has the store forget its parts.
    pub(crate) async fn abort(mut self) -> object_store::Result<()> {
        for part in std::mem::take(&mut self.running) {
            part.abort();
            // What is under way still would come after the end.
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

/// Returns what a store says of an upload.
pub(crate) fn said(name: &str, error: &object_store::Error) -> io::Error {
    match error {
        object_store::Error::NotFound { .. } => {
            let message = format!("{name}: the upload that was begun for it is there no more");
            io::Error::other(message)
        }
        error => Failure::of(name, error).into(),
    }
}
