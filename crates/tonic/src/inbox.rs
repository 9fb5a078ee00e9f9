//! A receiver that keeps the chunks of interrupted transfers, so that these can be resumed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use proto_splitter_core::container::ChunkedFile;
use proto_splitter_transfer::Receiver;
use proto_splitter_transfer::proto::{Frame, ResumeToken};
use record_file::ReadAt;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::receive::{Receive, blocking_if};
use crate::slot::Slot;

/// A receiver of messages whose transfers can be resumed. If a transfer breaks off, its chunks are
/// kept in a temporary file, so that [`send_resuming`](crate::send_resuming) sends only the
/// remaining chunks.
///
/// A transfer is kept under the session name that its sender specified. A transfer without a
/// session isn't kept. Clones of an inbox share the kept transfers.
#[derive(Clone, Debug)]
pub struct Inbox {
    receive: Receive,
    max_pending: usize,
    keep: Duration,
    pending: Arc<Mutex<HashMap<Bytes, Slot>>>,
}

impl Inbox {
    /// Creates an inbox that receives messages with the limits and options of `receive`.
    #[must_use]
    pub fn new(receive: Receive) -> Inbox {
        Inbox {
            receive,
            max_pending: 16,
            keep: Duration::from_secs(600),
            pending: Arc::default(),
        }
    }

    proto_splitter_core::options! {
        /// Sets the maximum number of transfers to keep. If this number is reached, a new transfer
        /// replaces the transfer that has received no frame for the longest time. Default: 16.
        const max_pending, get_max_pending: usize;

        /// Sets how long a transfer is kept after its last frame arrived. Default: 10 minutes.
        const keep, get_keep: Duration;
    }

    /// Returns the token for resuming the transfer whose session name is in `question`. The token
    /// contains the number of chunks that have been received.
    ///
    /// If the transfer is still running, it is ended, since its sender has given up. Therefore, no
    /// more chunks arrive after the token was created.
    pub fn token(&self, question: &ResumeToken) -> ResumeToken {
        let slot = self.pending().get(&question.session).cloned();
        slot.map_or_else(ResumeToken::default, |slot| slot.give_up())
    }

    /// Receives a message, and decodes it as a generated type.
    ///
    /// # Errors
    ///
    /// The errors of [`Receive::message`].
    pub async fn message<M: prost::Message + Default + 'static>(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<M, Status> {
        let receiver = self.receive(frames).await?;
        blocking_if(true, move || receiver.into_message()).await
    }

    /// Receives a message into a file, and returns the file's size in bytes. The file is written
    /// atomically.
    ///
    /// # Errors
    ///
    /// The errors of [`Receive::file`].
    pub async fn file(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
        target: impl AsRef<Path>,
    ) -> Result<u64, Status> {
        let (target, force) = self.receive.target(target.as_ref())?;
        let receiver = self.receive(frames).await?;
        blocking_if(true, move || receiver.write_file(target, force)).await
    }

    /// Receives a message, and returns it as a file, to be merged, verified or read.
    ///
    /// # Errors
    ///
    /// The errors of [`Receive::handle`].
    pub async fn handle(
        &self,
        frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<ChunkedFile<Arc<dyn ReadAt>>, Status> {
        let receiver = self.receive(frames).await?;
        blocking_if(true, move || receiver.into_chunked_file()).await
    }

    async fn receive(
        &self,
        mut frames: impl Stream<Item = Result<Frame, Status>> + Unpin,
    ) -> Result<Receiver, Status> {
        // The first frame has the name of the session.
        let first = self.receive.next_frame(&mut frames).await;
        let first = first.map_err(|most| {
            Status::deadline_exceeded(format!("no frame came for {most:?}, at the beginning"))
        })?;
        let session = match &first {
            Some(Ok(frame)) => frame.begin.as_ref().map(|begin| begin.session.clone()),
            _ => None,
        };
        let session = session.filter(|session| !session.is_empty());
        let slot = match &session {
            Some(session) => self.slot(session),
            None => Slot::new(self.receive.in_file(), true),
        };
        let frames = tokio_stream::iter(first).chain(frames);
        let turn = self.receive.drive(frames, &slot, |_| ()).await?;
        // While the session is kept, a sender that gives up now can resume the transfer, which then
        // fails here.
        let receiver = slot.take_receiver(turn, self.receive.in_file())?;
        if let Some(session) = session {
            self.pending().remove(&session);
        }
        Ok(receiver)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Bytes, Slot>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the slot for a session, and creates it if necessary.
    fn slot(&self, session: &Bytes) -> Slot {
        let mut pending = self.pending();
        pending.retain(|_, slot| slot.untouched() < self.keep);
        if let Some(found) = pending.get(session) {
            return found.clone();
        }
        while pending.len() >= self.max_pending.max(1) {
            let oldest = pending.iter().max_by_key(|(_, slot)| slot.untouched());
            let Some(oldest) = oldest.map(|(session, _)| session.clone()) else {
                break;
            };
            pending.remove(&oldest);
        }
        let slot = Slot::new(self.receive.in_file(), true);
        // Copies the name, since a slice of the frame would keep the frame's memory allocated.
        let name = Bytes::copy_from_slice(session);
        pending.insert(name, slot.clone());
        slot
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost_types::FileDescriptorProto;
    use proto_splitter_transfer::{ReceiveOptions, SendOptions};

    use super::*;
    use crate::Outgoing;

    fn outgoing(size: usize) -> Outgoing {
        let message = FileDescriptorProto {
            name: Some("n".repeat(size)),
            ..FileDescriptorProto::default()
        };
        let options = SendOptions::new().session(&b"one"[..]);
        Outgoing::new(&message, &options).unwrap()
    }

    #[tokio::test]
    async fn a_transfer_that_begins_as_another_of_its_session_ends_has_the_same_limits() {
        let options = ReceiveOptions::new().max_message_size(100);
        let inbox = Inbox::new(Receive::new().options(options));
        // The slot that a later call may find before the session is removed.
        let slot = inbox.slot(&Bytes::from_static(b"one"));
        let received = inbox.message::<FileDescriptorProto>(outgoing(10).results());
        assert_eq!(received.await.unwrap().name().len(), 10);
        let first = outgoing(1000).next().await.unwrap();
        let refused = slot.push(slot.take_turn(), first).unwrap_err();
        assert!(refused.message().contains("at most 100"), "{refused}");
    }
}
