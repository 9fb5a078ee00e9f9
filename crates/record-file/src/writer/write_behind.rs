//! Writing large uncompressed records: while one record is written, another thread copies and
//! hashes the next record.
use std::io::Write;
use std::thread;

use super::RecordWriter;
use super::encode::Gathered;
use super::later_position::{Begin, LaterPosition};
use super::pool::Done;
use super::streamed::plain_header;
use crate::codec::Encoders;
use crate::error::{Error, Result};
use crate::hash::Hasher;
use crate::threads::stopped;

impl<W: Write> RecordWriter<W> {
    /// Lets another thread copy and hash a record that gets its own chunk, while the current thread
    /// writes the earlier chunks. The slices of the record are valid only during this call.
    pub(super) fn write_behind(&mut self, len: u64, parts: &[&[u8]]) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        let done = thread::scope(|scope| {
            let copying = thread::Builder::new()
                .name("record-file".to_owned())
                .spawn_scoped(scope, || copy_and_hash(gathered, len, parts))
                .map_err(|error| Error::io(None, error))?;
            self.settle()?;
            copying.join().unwrap_or_else(|_| Err(stopped()))
        })?;
        let begin = Begin::Known(self.sink.pos());
        self.last = Some(LaterPosition {
            begin: begin.clone(),
            index: 0,
        });
        if let Some(pool) = &mut self.pool {
            pool.add_done(done, begin);
        }
        Ok(())
    }
}

fn copy_and_hash(mut gathered: Gathered, len: u64, parts: &[&[u8]]) -> Result<Done> {
    let (mut header, front) = plain_header(&mut Encoders::default(), len)?;
    let mut hasher = Hasher::new();
    hasher.update(&front);
    gathered.add_hashed(len, parts, &mut hasher);
    header.data_hash = hasher.finish();
    Ok(Done {
        header,
        data: front,
        gathered,
    })
}
