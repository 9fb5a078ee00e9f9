//! Writing an object from its start to its end.

use std::fmt;
use std::io::{self, Write};

use bytes::Bytes;
use object_store::{ObjectStore, PutMultipartOptions, WriteMultipart};
use proto_splitter_parts::ObjectUpload;

use crate::failure::Failure;
use crate::location::ObjectLocation;
use crate::options::ObjectWriteOptions;
use crate::runtime;
use crate::upload::Uploader;

/// A writer of one object, which appears in the store completely or not at all.
///
/// An object that fits into one part is written by a single request, a larger one by a multipart
/// upload of several parts at once. The object becomes visible in [`finish`](Self::finish).
/// Dropping the writer earlier aborts the upload. If the process dies, the uploaded parts remain in
/// the store, invisible but charged for, until a lifecycle rule of the bucket removes them.
///
/// Without [`force`](ObjectWriteOptions::force), writing fails if the object exists. The store
/// enforces this for a single request, and S3 also for a multipart upload. Other stores don't
/// support such a condition for uploads, so the writer checks for the object when the writer is
/// created and before it completes the upload. If two writers finish at the same moment, the object
/// of the later writer replaces that of the other.
pub struct ObjectWriter {
    location: ObjectLocation,
    name: String,
    options: ObjectWriteOptions,
    buffer: Vec<u8>,
    upload: Option<Upload>,
    written: u64,
}

/// A multipart upload that was started.
enum Upload {
    /// An upload with a known id, to which several hosts could upload parts.
    Named(Uploader),
    /// An upload through the interface that all stores have. This interface hides the upload's id.
    Opaque(WriteMultipart),
}

impl Upload {
    async fn abort(self) -> object_store::Result<()> {
        match self {
            Upload::Named(uploader) => uploader.abort().await,
            Upload::Opaque(upload) => upload.abort().await,
        }
    }
}

impl fmt::Debug for ObjectWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWriter")
            .field("location", &self.name)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl ObjectWriter {
    /// Creates a writer. Makes no request if an existing object may be replaced.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the object exists and may not be
    /// replaced; [`Unsupported`](io::ErrorKind::Unsupported) for a web server; any error from the
    /// store.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{ErrorKind, Write};
    ///
    /// use proto_splitter_object_store::{ObjectLocation, ObjectWriter, ObjectWriteOptions};
    ///
    /// let location = ObjectLocation::parse("memory:///written/once")?;
    /// let mut writer = ObjectWriter::create(&location, &ObjectWriteOptions::new())?;
    /// writer.write_all(b"once")?;
    /// assert!(!location.exists()?);
    /// assert_eq!(writer.finish()?, 4);
    /// assert!(location.exists()?);
    ///
    /// let again = ObjectWriter::create(&location, &ObjectWriteOptions::new());
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create(
        location: &ObjectLocation,
        options: &ObjectWriteOptions,
    ) -> io::Result<ObjectWriter> {
        location.check_writable()?;
        let writer = ObjectWriter {
            name: location.to_string(),
            location: location.clone(),
            options: options.clone(),
            buffer: Vec::new(),
            upload: None,
            written: 0,
        };
        writer.check_new()?;
        Ok(writer)
    }

    /// Returns the number of bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Completes the object, and returns its size in bytes. The object exists once this call has
    /// succeeded.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the object was created in the meantime;
    /// any error from the store. After any error, the upload is aborted.
    pub fn finish(mut self) -> io::Result<u64> {
        let last = std::mem::take(&mut self.buffer);
        let Some(upload) = self.upload.take() else {
            let put = self.location.put(last, self.options.force)?;
            put.map_err(|error| self.failed(&error))?;
            return Ok(self.written);
        };
        match upload {
            Upload::Named(mut uploader) => {
                let finished = self.put_together(&mut uploader, last);
                if finished.is_err() {
                    // Dropping this writer aborts the upload.
                    self.upload = Some(Upload::Named(uploader));
                }
                finished?;
            }
            Upload::Opaque(mut upload) => {
                if let Err(error) = self.check_new() {
                    self.upload = Some(Upload::Opaque(upload));
                    return Err(error);
                }
                let finished = runtime::wait(async {
                    upload.put(Bytes::from(last));
                    upload.finish().await
                })?;
                finished.map_err(|error| self.failed(&error))?;
            }
        }
        Ok(self.written)
    }

    /// Uploads the last part, and completes the upload if the object may be created.
    fn put_together(&self, uploader: &mut Uploader, last: Vec<u8>) -> io::Result<()> {
        uploader.put(Bytes::from(last))?;
        let parts = uploader.wait()?;
        self.check_new()?;
        uploader.complete(parts, self.options.force)
    }

    /// Stops writing, and deletes the uploaded parts.
    ///
    /// # Errors
    ///
    /// Any error from the store. In this case, uploaded parts may remain in the store.
    pub fn abort(mut self) -> io::Result<()> {
        self.buffer.clear();
        match self.upload.take() {
            Some(upload) => {
                let aborted = runtime::wait(upload.abort())?;
                aborted.map_err(|error| self.failed(&error))
            }
            None => Ok(()),
        }
    }

    fn check_new(&self) -> io::Result<()> {
        if self.options.force || !self.location.exists()? {
            return Ok(());
        }
        let there = Failure::new(
            io::ErrorKind::AlreadyExists,
            format!("{}: the object is there already", self.name),
        );
        Err(there.into())
    }

    fn failed(&self, error: &object_store::Error) -> io::Error {
        Failure::of(&self.name, error).into()
    }

    fn part_len(&self) -> usize {
        usize::try_from(self.options.part_len()).unwrap_or(usize::MAX)
    }

    /// Uploads a part. Waits for an earlier part if too many are being uploaded.
    fn put(&mut self, part: Vec<u8>) -> io::Result<()> {
        if self.upload.is_none() {
            self.upload = Some(self.begin()?);
        }
        let at_once = self.options.at_once;
        match &mut self.upload {
            Some(Upload::Named(uploader)) => uploader.put(Bytes::from(part)),
            Some(Upload::Opaque(upload)) => {
                let waited = runtime::wait(async {
                    upload.wait_for_capacity(at_once).await?;
                    upload.put(Bytes::from(part));
                    Ok(())
                })?;
                waited.map_err(|error: object_store::Error| self.failed(&error))
            }
            None => Ok(()),
        }
    }

    fn begin(&self) -> io::Result<Upload> {
        let path = self.location.path();
        let Some(uploads) = self.location.uploads() else {
            let store = self.location.store();
            let begun = store.put_multipart_opts(path, PutMultipartOptions::default());
            let begun = runtime::wait(begun)?.map_err(|error| self.failed(&error))?;
            let upload = WriteMultipart::new_with_chunk_size(begun, self.part_len());
            return Ok(Upload::Opaque(upload));
        };
        let begun = runtime::wait(uploads.begin(path))?;
        let upload = ObjectUpload {
            id: begun.map_err(|error| self.failed(&error))?,
            part_size: self.options.part_len(),
        };
        let uploader = Uploader::new(&self.location, uploads, &upload, 0)?;
        Ok(Upload::Named(uploader.at_once(self.options.at_once)))
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part_len = self.part_len();
        // A full part is only uploaded when more bytes follow: it may be the last part, which
        // `finish` uploads.
        if self.buffer.len() >= part_len && !bytes.is_empty() {
            let part = std::mem::take(&mut self.buffer);
            self.put(part)?;
        }
        let n = bytes.len().min(part_len - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..n]);
        self.written += n as u64;
        Ok(n)
    }

    /// Does nothing, since each part is uploaded when it is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            let aborted = runtime::wait(upload.abort());
            let failure = match &aborted {
                Ok(Ok(())) => return,
                Ok(Err(error)) => Failure::of(&self.name, error).message,
                Err(error) => format!("{}: {error}", self.name),
            };
            tracing::warn!("the upload couldn't be aborted: {failure}");
        }
    }
}
