//! Passing a message to the receiver that writes its files.

use std::io::Write;

use proto_splitter_core::Result;
use record_file::ReadAt;

use super::receive::Receiver;
use super::source::{LEAST_GAP, MessageSource};

/// Number of bytes read at once, except in ranges that other threads copy: 64 KiB.
const READ_LEN: u64 = 64 << 10;

/// Passes the message to the receiver, except for the ranges that the receiver leaves out.
pub(super) fn send(source: &MessageSource<'_>, receiver: &mut Receiver<'_, '_>) -> Result<()> {
    match source {
        MessageSource::Chunked(merged) => {
            merged.write_around(receiver, &mut |receiver, range| receiver.leave_out(range))
        }
        MessageSource::Positioned(reader, size) => send_positioned(*reader, *size, receiver),
    }
}

fn send_positioned(reader: &dyn ReadAt, size: u64, receiver: &mut Receiver<'_, '_>) -> Result<()> {
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < size {
        let open = receiver.left_of_content();
        if open >= LEAST_GAP && receiver.leave_out(at..at.saturating_add(open).min(size))? {
            at = at.saturating_add(open).min(size);
            continue;
        }
        let len = (size - at).min(READ_LEN);
        buffer.resize(usize::try_from(len).unwrap_or_default(), 0);
        reader.read_exact_at(at, &mut buffer)?;
        receiver.write_all(&buffer)?;
        at += len;
    }
    Ok(())
}
