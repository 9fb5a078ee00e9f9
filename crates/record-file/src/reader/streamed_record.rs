//! Reading the next record as a stream, or skipping it.
use std::io::{self, Read};

use super::ahead::AtHand;
use super::{Loaded, RecordReader};
use crate::chunk::{Chunk, ChunkType};
use crate::codec::Decoders;
use crate::decode_chunk::decode_chunk;
use crate::error::{ErrorKind, Result};
use crate::fault::Fault;
use crate::file::stream::{Access, OneRecord, Opened};
use crate::input::{ReadAhead, RecordInput};
use crate::options::ReaderOptions;
use crate::payload::Payload;
use crate::position::RecordPosition;

/// The next record from a [`RecordReader`], read as a stream.
///
/// The reader has already moved past the record, even if the record isn't read to its end. The hash
/// of a record can be verified only after all bytes of the record are read. Therefore, if the
/// record is damaged, the read that would return the last bytes fails, with an [`io::Error`] that
/// wraps an [`Error`](crate::Error).
pub struct StreamedRecord<'a, I> {
    reader: &'a mut RecordReader<I>,
    record: OneRecord,
    position: RecordPosition,
}

/// Location of the next record.
enum Next {
    /// In memory.
    Loaded,
    /// In this chunk, which isn't loaded.
    In(Chunk),
    End,
}

impl<I: RecordInput> RecordReader<I> {
    /// Opens the next record as a stream, and moves past it; `None` at the end of the file.
    ///
    /// A record of any length is read in bounded memory if it has its own simple chunk, and the
    /// stored or decoded size of the chunk is more than [`stream_from`](ReaderOptions::stream_from)
    /// bytes. With snappy, such a record can be read only if no copy refers back by more than 64
    /// KiB. For any other record, the whole chunk is decoded, as by
    /// [`read_record`](Self::read_record).
    ///
    /// With [`threads`](ReaderOptions::threads), a record whose chunk was already decoded by a
    /// thread isn't streamed either.
    ///
    /// If a streamed record is damaged, the stream returns an error, even with a
    /// [callback](Self::on_damage). The next record can then be read from the reader.
    ///
    /// # Errors
    ///
    /// The errors of [`read_record`](Self::read_record) that can be found before the record's data
    /// is read. The stream returns the other errors. After a `read_record` that failed with
    /// [`LimitExceeded`](ErrorKind::LimitExceeded), this method can still read the record, even
    /// from a plain stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// use record_file::{ErrorKind, ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(&vec![7; 2_000_000])?;
    /// let file = writer.finish()?;
    ///
    /// let options = ReaderOptions::new().max_chunk_memory(1_000_000).stream_from(100_000);
    /// let mut reader = RecordReader::from_read(&file[..], options);
    /// let error = reader.read_record().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    ///
    /// let mut record = reader.read_record_stream()?.ok_or("there is one")?;
    /// assert_eq!(record.remaining(), 2_000_000);
    /// let mut front = [0; 4];
    /// record.read_exact(&mut front)?;
    /// assert_eq!(front, [7; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_record_stream(&mut self) -> Result<Option<StreamedRecord<'_, I>>> {
        let Some(record) = self.open_next()? else {
            return Ok(None);
        };
        let behind = self.index as u64;
        Ok(Some(StreamedRecord {
            position: RecordPosition::new(self.begin, behind.saturating_sub(1)),
            reader: self,
            record,
        }))
    }

    /// Moves past the next record without decoding it. Returns false at the end of the file.
    ///
    /// If the chunk isn't in memory, only its header is read. Thus, this method can skip a record
    /// that is too large or whose data is damaged, even in a plain stream.
    ///
    /// # Errors
    ///
    /// The errors of [`read_record`](Self::read_record) that are found in headers.
    ///
    /// # Examples
    ///
    /// ```
    /// use record_file::{ErrorKind, ReaderOptions, RecordReader, RecordWriter};
    ///
    /// let mut writer = RecordWriter::with_defaults(Vec::new());
    /// writer.write_record(&vec![7; 2_000_000])?;
    /// writer.write_record(b"small")?;
    /// let file = writer.finish()?;
    ///
    /// let options = ReaderOptions::new().max_chunk_memory(1_000_000);
    /// let mut reader = RecordReader::from_read(&file[..], options);
    /// assert_eq!(reader.read_record().unwrap_err().kind(), ErrorKind::LimitExceeded);
    /// assert!(reader.skip_record()?);
    /// assert_eq!(reader.read_record()?, Some(&b"small"[..]));
    /// assert!(!reader.skip_record()?);
    /// # Ok::<(), record_file::Error>(())
    /// ```
    pub fn skip_record(&mut self) -> Result<bool> {
        match self.find_next()? {
            Next::Loaded => {
                self.take_record();
            }
            Next::In(chunk) => {
                self.last = Some(self.position());
                self.index += 1;
                self.pass_if_read(&chunk);
            }
            Next::End => return Ok(false),
        }
        Ok(true)
    }

    fn open_next(&mut self) -> Result<Option<OneRecord>> {
        loop {
            match self.find_next()? {
                Next::Loaded => {
                    let index = self.take_record().1;
                    let loaded = self.loaded.as_ref();
                    let record = loaded.and_then(|loaded| loaded.records.record_bytes(index));
                    return Ok(record.map(OneRecord::of_memory));
                }
                Next::In(chunk) if self.is_streamed(&chunk) => match self.open(chunk) {
                    Ok(Opened::Stream(record)) => {
                        self.last = Some(self.position());
                        self.index += 1;
                        self.pass_if_read(&chunk);
                        return Ok(Some(record));
                    }
                    Ok(Opened::Whole(read, payload)) => {
                        let loaded = self.load_rest(read, *payload);
                        if let Err(fault) = loaded
                            && !self.recover_or_stop(fault)?
                        {
                            return Ok(None);
                        }
                    }
                    Err(fault) => {
                        if !self.recover_or_stop(fault)? {
                            return Ok(None);
                        }
                    }
                },
                Next::In(_) => {
                    if !self.load_next()? {
                        return Ok(None);
                    }
                }
                Next::End => return Ok(None),
            }
        }
    }

    /// Moves to the next record, without reading the data of its chunk.
    fn find_next(&mut self) -> Result<Next> {
        loop {
            if let Some(loaded) = &self.loaded {
                if self.index < loaded.records.len() {
                    return Ok(Next::Loaded);
                }
                self.begin = loaded.end;
                self.unload();
            }
            if let Err(fault) = self.leave_passed() {
                if !self.recover_or_stop(fault)? {
                    return Ok(Next::End);
                }
                continue;
            }
            if let Some(failed) = &self.failed {
                return match failed.chunk {
                    Some(chunk) => Ok(Next::In(chunk)),
                    None => Err(failed.error.again()),
                };
            }
            let mut is_at_hand = false;
            let header = match self.at_hand() {
                Some(AtHand::Chunk(chunk)) => {
                    is_at_hand = true;
                    Ok(Some(chunk))
                }
                // Even if the chunk can't be loaded, it can still be skipped.
                Some(AtHand::Fault) => match self.load_next() {
                    Ok(true) => continue,
                    Ok(false) => return Ok(Next::End),
                    Err(_) if self.unread.is_some() => continue,
                    Err(error) => return Err(error),
                },
                None => self.header_at(self.begin),
            };
            let found = match header {
                Ok(None) => {
                    self.index = 0;
                    return Ok(Next::End);
                }
                Ok(Some(chunk)) if (self.index as u64) < chunk.records() => {
                    return Ok(Next::In(chunk));
                }
                Ok(Some(chunk)) if chunk.records() > 0 => {
                    self.pass_if_read(&chunk);
                    Ok(())
                }
                // The chunk is verified and has no records.
                Ok(Some(_)) if is_at_hand => self.load_ahead().map(drop),
                Ok(Some(_)) => self.load().map(drop),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = found
                && !self.recover_or_stop(fault)?
            {
                return Ok(Next::End);
            }
        }
    }

    /// Returns true if the next record, which is in `chunk`, must be decoded while it is read.
    fn is_streamed(&self, chunk: &Chunk) -> bool {
        let header = &chunk.header;
        let size = header.data_size.max(header.decoded_data_size);
        let at_once = self.options.stream_from.min(self.options.max_chunk_memory);
        if self.at_hand().is_some() {
            return false;
        }
        // After a failure, a plain stream is already past the data, unless the chunk was too large
        // to be read.
        let failed = self.failed.as_ref();
        header.kind == ChunkType::Simple
            && header.num_records == 1
            && size > at_once
            && failed.is_none_or(|failed| failed.error.kind() == ErrorKind::LimitExceeded)
    }

    fn open(&mut self, chunk: Chunk) -> Result<Opened, Fault> {
        if self.input.goes_back() {
            self.check_end(&chunk)?;
        }
        OneRecord::open(self, Payload::hashed(chunk))
    }

    /// Loads the chunk of a record that can't be streamed.
    fn load_rest(&mut self, mut read: Vec<u8>, mut payload: Payload) -> Result<(), Fault> {
        let chunk = *payload.chunk();
        self.check_room(&chunk)?;
        payload.append(&mut self.input, u64::MAX, &mut read)?;
        payload.finish(&mut self.input)?;
        self.check_reached(&chunk)?;
        let records = decode_chunk(
            &chunk,
            read.into(),
            &mut self.decoders,
            &self.options,
            &self.projection,
        )
        .map_err(|error| Fault::in_data(&chunk, error))?;
        self.failed = None;
        self.loaded = Some(Loaded {
            end: chunk.end,
            records,
        });
        Ok(())
    }

    /// Sets `passed` to the chunk if every record in the chunk has been skipped or streamed.
    fn pass_if_read(&mut self, chunk: &Chunk) {
        if self.index as u64 >= chunk.records() {
            self.passed = Some(*chunk);
            self.failed = None;
        }
    }

    /// If all records of the current chunk were skipped or streamed, moves to the end of this
    /// chunk.
    pub(super) fn leave_passed(&mut self) -> Result<(), Fault> {
        if let Some(chunk) = self.passed {
            // The chunk may be truncated: perhaps only its header was read.
            self.check_end(&chunk)?;
            self.drop_at_hand();
            self.unload();
            self.begin = chunk.end;
            self.drop_verified_elsewhere();
        }
        Ok(())
    }

    fn recover_or_stop(&mut self, fault: Fault) -> Result<bool> {
        let result = self.recover(fault);
        self.remember_failure(&result);
        result
    }
}

impl<I: RecordInput> Access for RecordReader<I> {
    type RecordInput = ReadAhead<I>;

    fn options(&self) -> &ReaderOptions {
        &self.options
    }

    fn input(&mut self) -> &mut ReadAhead<I> {
        &mut self.input
    }

    fn with_decoders<T>(&mut self, run: impl FnOnce(&mut Decoders) -> T) -> T {
        run(&mut self.decoders)
    }
}

impl<I: RecordInput> StreamedRecord<'_, I> {
    /// Returns the number of bytes not yet read.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.record.remaining()
    }

    /// Returns the position of the record.
    #[must_use]
    pub fn position(&self) -> RecordPosition {
        self.position
    }

    /// Skips `n` bytes, or all remaining bytes if there are fewer. Skipped bytes are still
    /// verified.
    ///
    /// # Errors
    ///
    /// Any error from reading the bytes.
    pub fn skip(&mut self, n: u64) -> Result<()> {
        self.record.skip(self.reader, n)
    }
}

impl<I: RecordInput> Read for StreamedRecord<'_, I> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.record.read(self.reader, buf)?)
    }
}

impl<I> std::fmt::Debug for StreamedRecord<'_, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamedRecord")
            .field("remaining", &self.record.remaining())
            .finish_non_exhaustive()
    }
}
