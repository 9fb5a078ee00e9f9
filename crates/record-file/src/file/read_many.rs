//! Reading many records, each into its own buffer.
use std::sync::{Mutex, PoisonError};

use super::{RecordFile, check_len};
use crate::error::{Error, Result};
use crate::file::stream::{PairStep, RecordPair, WantedRecord, Watch};
use crate::position::RecordPosition;
use crate::read_at::ReadAt;

/// The position of a record, and the buffer to read the record into.
type Wanted<'b> = (RecordPosition, &'b mut [u8]);

/// The index of a run in the list of all runs. A run is a sequence of requested records that are in
/// the same chunk.
struct Run(usize);

impl Watch for Run {
    const LOOKS: bool = false;

    fn see(&mut self, _bytes: &[u8]) {}
}

impl<S: ReadAt> RecordFile<S> {
    /// Reads records, each into its own buffer, which must have the length of the record. The
    /// [number of threads](crate::ReaderOptions::threads) is set in the options of the file.
    ///
    /// If consecutive requests are for records in the same chunk, the records are read together,
    /// and the chunk is decoded once. A record in its own chunk is read directly into its buffer,
    /// and each thread reads [two such records at a time](RecordPair). In addition to the buffers,
    /// each thread holds one chunk with several records, or the compressed data of two records.
    ///
    /// # Errors
    ///
    /// The same errors as [`read_record_into`](Self::read_record_into), for the first record that
    /// can't be read. The content of the buffers is then unspecified.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ReaderOptions, RecordFile, RecordWriter, WriterOptions};
    ///
    /// let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new())?;
    /// let mut positions = Vec::new();
    /// for record in ["first", "other"] {
    ///     writer.write_record(record.as_bytes())?;
    ///     positions.extend(writer.last_position());
    /// }
    /// let file = RecordFile::open(writer.finish()?, ReaderOptions::new().threads(2))?;
    /// let mut both = [0; 10];
    /// file.read_records_into(positions.into_iter().zip(both.chunks_mut(5)))?;
    /// assert_eq!(&both, b"firstother");
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn read_records_into<'b>(
        &self,
        records: impl IntoIterator<Item = (RecordPosition, &'b mut [u8])>,
    ) -> Result<()> {
        let mut runs: Vec<Vec<Wanted<'b>>> = Vec::new();
        for wanted in records {
            let chunk = wanted.0.chunk_begin();
            match runs.last_mut() {
                Some(run) if run[0].0.chunk_begin() == chunk => run.push(wanted),
                _ => runs.push(vec![wanted]),
            }
        }
        let threads = usize::try_from(self.options.threads).unwrap_or(usize::MAX);
        let threads = threads.clamp(1, runs.len().max(1));
        // One record on each thread is faster than two records on some threads and none on others.
        let lanes = (runs.len() / threads).clamp(1, 2);
        // Runs are handed out in order, so every run before a failed run is also read.
        let queue = Mutex::new((runs.into_iter().enumerate(), None::<(usize, Error)>));
        let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        let take = || {
            let mut queue = lock();
            match queue.1 {
                None => queue.0.next(),
                Some(_) => None,
            }
        };
        let ended = |run: usize, result: Result<()>| {
            let Err(error) = result else { return };
            let first = &mut lock().1;
            if first.as_ref().is_none_or(|(other, _)| run < *other) {
                *first = Some((run, error));
            }
        };
        let work = || {
            let mut pair = RecordPair::new();
            loop {
                // Records that share a chunk can't be read as a pair.
                let mut shared = None;
                let step = pair.step(|lane| {
                    let free = lane < lanes && shared.is_none();
                    let (index, mut run) = free.then(take).flatten()?;
                    if run.len() > 1 {
                        shared = Some((index, run));
                        return None;
                    }
                    let (position, place) = run.pop()?;
                    Some(WantedRecord {
                        file: self,
                        position,
                        chunk: None,
                        place,
                        watch: Run(index),
                    })
                });
                match (step, shared) {
                    (None, None) => return,
                    (step, shared) => {
                        if let Some((index, run)) = shared {
                            ended(index, self.read_run(run));
                        }
                        if let Some(PairStep::Ended(Run(index), result)) = step {
                            ended(index, result);
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If the system refuses to start more threads, the existing threads do the work.
                if std::thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .is_err()
                {
                    break;
                }
            }
            work();
        });
        let (_, failed) = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Reads a run of records, which are all in one chunk.
    fn read_run(&self, run: Vec<Wanted<'_>>) -> Result<()> {
        let Some((first, _)) = run.first() else {
            return Ok(());
        };
        let chunk = self.chunk_of(*first)?;
        let decoded = self.decode(&chunk)?;
        for (position, buf) in run {
            let record = decoded.record_at(position)?;
            check_len(buf, record.len() as u64)?;
            buf.copy_from_slice(&record);
        }
        self.with_decoders(|decoders| decoded.recycle(&mut decoders.memory));
        Ok(())
    }
}
