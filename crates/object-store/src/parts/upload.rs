//! Uploading some parts of an upload that others upload other parts of.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use proto_splitter_core::parts::{ObjectUpload, UploadParts};
use proto_splitter_core::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;

use super::said;
use crate::location::ObjectLocation;
use crate::runtime;

/// How much is held in memory at once, unless that is less than two parts.
const MOST_HELD: usize = 256 << 20;

/// Uploads what is written to it, a part at a time, several at once.
pub(super) struct Uploader {
    store: Arc<dyn MultipartStore>,
    name: String,
    path: Path,
    id: String,
    /// Which part comes next.
    next: usize,
    part_size: usize,
    at_once: usize,
    buffer: Vec<u8>,
    /// Those on their way, in their order.
    running: VecDeque<JoinHandle<object_store::Result<PartId>>>,
    done: Vec<String>,
}

impl Uploader {
    pub(super) fn new(
        location: &ObjectLocation,
        store: &Arc<dyn MultipartStore>,
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
            store: Arc::clone(store),
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

    /// How many parts are uploaded at once; fewer if they are so large that they take much memory.
    pub(super) fn at_once(mut self, parts: usize) -> Uploader {
        self.at_once = parts.min(MOST_HELD / self.part_size).max(1);
        self
    }

    fn send(&mut self) -> io::Result<()> {
        while self.running.len() >= self.at_once {
            self.wait_for_first()?;
        }
        let part = Bytes::from(std::mem::take(&mut self.buffer));
        let (store, path, id) = (Arc::clone(&self.store), self.path.clone(), self.id.clone());
        let number = self.next;
        self.next += 1;
        let sent = async move { store.put_part(&path, &id, number, part.into()).await };
        self.running.push_back(runtime::handle()?.spawn(sent));
        Ok(())
    }

    fn wait_for_first(&mut self) -> io::Result<()> {
        let Some(first) = self.running.pop_front() else {
            return Ok(());
        };
        let part = runtime::wait(first)?.map_err(io::Error::other)?;
        let part = part.map_err(|error| io::Error::other(said(&self.name, &error)))?;
        self.done.push(part.content_id);
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

impl UploadParts for Uploader {
    fn finish(mut self: Box<Self>) -> Result<Vec<String>> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while !self.running.is_empty() {
            self.wait_for_first()?;
        }
        Ok(std::mem::take(&mut self.done))
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        for part in &self.running {
            part.abort();
        }
    }
}
