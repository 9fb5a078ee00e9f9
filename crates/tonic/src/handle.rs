//! Handles for reading a message while its chunks arrive.

use std::fmt;
use std::sync::Arc;

use proto_splitter_core::container::ChunkedFile;
use proto_splitter_transfer::proto::Frame;
use proto_splitter_transfer::{ReceiveOptions, Receiver};
use record_file::ReadAt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::Status;

use crate::receive::{Receive, blocking_if};
use crate::slot::{Slot, stopped};
use crate::status::status;

/// A handle to a message, from [`Receive::handle`]. Parts of the message can be read before the
/// whole message has arrived.
///
/// The checksum of each chunk is verified before the chunk can be read. Dropping the handle ends
/// the transfer.
pub struct Handle {
    file: Arc<ChunkedFile<Arc<dyn ReadAt>>>,
    transfer: Transfer,
}

/// A running transfer. Dropping this ends the transfer.
struct Transfer {
    /// The task that receives the frames. It returns the number of the transfer in `slot`, which
    /// [`Slot::take_receiver`] requires.
    task: JoinHandle<Result<u64, Status>>,
    slot: Slot,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks();
        f.debug_struct("Handle").field("chunks", &chunks).finish()
    }
}

impl Receive {
    /// Receives a message as a handle that can be read before the whole message has arrived.
    /// Returns the handle once the trailer, which describes the chunks, has arrived. Dropping the
    /// future ends the transfer.
    ///
    /// # Errors
    ///
    /// The errors of [`message`](Self::message).
    pub async fn handle(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Send + Unpin + 'static,
    ) -> Result<Handle, Status> {
        Handle::open(self.clone(), frames).await
    }
}

impl Handle {
    async fn open(
        receive: Receive,
        frames: impl Stream<Item = Result<Frame, Status>> + Send + Unpin + 'static,
    ) -> Result<Handle, Status> {
        let slot = Slot::new(receive.in_file(), true);
        let (sender, opened) = oneshot::channel();
        let mut sender = Some(sender);
        let task = tokio::spawn({
            let slot = slot.clone();
            async move {
                let look = |receiver: &crate::Receiver| {
                    let Some(file) = (sender.as_ref()).and_then(|_| receiver.handle().transpose())
                    else {
                        return;
                    };
                    if let Some(sender) = sender.take() {
                        // Fails if the caller no longer waits for the handle.
                        let _ = sender.send(file);
                    }
                };
                receive.drive(frames, &slot, look).await
            }
        });
        let mut transfer = Transfer { task, slot };
        match opened.await {
            Ok(Ok(file)) => Ok(Handle {
                file: Arc::new(file),
                transfer,
            }),
            Ok(Err(error)) => Err(status(&error)),
            // The transfer ended before its trailer arrived.
            Err(_) => match (&mut transfer.task).await.map_err(stopped)? {
                Ok(_) => Err(Status::internal("the transfer has no trailer")),
                Err(status) => Err(status),
            },
        }
    }

    /// Returns the message as a file. Reading a part of it blocks the thread until the part's chunk
    /// has arrived. Therefore, only read it where blocking is allowed, for example in
    /// `tokio::task::spawn_blocking`.
    pub fn file(&self) -> Arc<ChunkedFile<Arc<dyn ReadAt>>> {
        Arc::clone(&self.file)
    }

    /// Returns the number of chunks that have arrived completely, and the total number of chunks.
    pub fn chunks(&self) -> (u64, u64) {
        self.transfer.slot.lock().receiver.chunks()
    }

    /// Waits for the end of the transfer. Returns the whole message as a file, to be merged,
    /// verified or read without waiting.
    ///
    /// # Errors
    ///
    /// The errors of [`Receive::message`].
    pub async fn complete(mut self) -> Result<ChunkedFile<Arc<dyn ReadAt>>, Status> {
        let turn = (&mut self.transfer.task).await.map_err(stopped)??;
        // No other call has the slot, so nothing uses the receiver that is left in it.
        let nothing = Receiver::in_memory(&ReceiveOptions::new());
        let receiver = self.transfer.slot.take_receiver(turn, nothing)?;
        blocking_if(true, move || receiver.into_chunked_file()).await
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.task.abort();
        // After this, readers that wait for a chunk fail.
        self.slot.lock().receiver.break_off();
    }
}
