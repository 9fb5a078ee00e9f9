//! A parameter that arrives field by field in a message, and is written as a stream.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use proto_splitter_core::{Error, ErrorKind, Result};
use tempfile::SpooledTempFile;

use crate::dtype::data_size;
use crate::stream::{
    Layout, MAX_LOD_LEVELS, Piece, StreamKind, StreamParts, len, pieces, read_desc,
};

/// Maximum total size of a parameter's LoD and row numbers to hold in memory: 1 MiB. If they are
/// larger, they are written to a temporary file.
const MAX_IN_MEMORY: usize = 1 << 20;

/// Start of a [`Piece::Span`] that represents the parameter's description. A span with a lower
/// start is an actual range of the parameter's LoD and row numbers.
const DESC_AT: u64 = 1 << 61;

/// Start of a [`Piece::Span`] that represents the parameter's data.
const DATA_AT: u64 = 1 << 62;

/// The fields of a parameter received so far. `numbers` contains the LoD, followed by the row
/// numbers.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) name: Option<String>,
    pub(super) kind: StreamKind,
    pub(super) height: i64,
    pub(super) desc: Vec<u8>,
    pub(super) has_data: bool,
    numbers: SpooledTempFile,
    size: u64,
    lod: Vec<Range<u64>>,
    rows: Option<Range<u64>>,
    data: u64,
    /// Pieces of the stream to write after the data.
    rest: Vec<Piece>,
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming {
            name: None,
            kind: StreamKind::Dense,
            height: 0,
            desc: Vec::new(),
            has_data: false,
            numbers: SpooledTempFile::new(MAX_IN_MEMORY),
            size: 0,
            lod: Vec::new(),
            rows: None,
            data: 0,
            rest: Vec::new(),
        }
    }
}

impl Incoming {
    /// Starts a level of LoD. Fails if there are too many, since even a level without bytes takes
    /// memory.
    pub(super) fn begin_level(&mut self) -> Result<()> {
        if self.lod.len() as u64 >= MAX_LOD_LEVELS {
            let message = format!("more than {MAX_LOD_LEVELS} LoD levels");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.lod.push(self.size..self.size);
        Ok(())
    }

    pub(super) fn begin_rows(&mut self) {
        self.rows = Some(self.size..self.size);
    }

    /// Adds bytes to the current level of LoD, or to the row numbers.
    pub(super) fn numbers(&mut self, bytes: &[u8]) -> Result<()> {
        self.size += bytes.len() as u64;
        Ok(self.numbers.write_all(bytes)?)
    }

    pub(super) fn end_numbers(&mut self) -> Result<()> {
        let range = self.rows.as_mut().or(self.lod.last_mut());
        let Some(range) = range else {
            return Ok(());
        };
        range.end = self.size;
        if len(range).is_multiple_of(8) {
            Ok(())
        } else {
            Err(Error::invalid(format!(
                "{} bytes of 64-bit numbers, which isn't a multiple of 8",
                len(range)
            )))
        }
    }

    /// Starts the data, which has `size` bytes. Fails if the earlier fields are inconsistent, or
    /// require data of a different size or kind.
    pub(super) fn begin_data(&mut self, size: u64, is_vocabulary: bool) -> Result<()> {
        (self.has_data, self.data) = (true, size);
        if is_vocabulary != (self.kind == StreamKind::Vocabulary) {
            return Err(Error::invalid(format!("the data isn't a {}", self.kind)));
        }
        if self.kind != StreamKind::Dense && !self.lod.is_empty() {
            return Err(Error::invalid(format!("a {} has no LoD", self.kind)));
        }
        if self.kind != StreamKind::SelectedRows && (self.rows.is_some() || self.height != 0) {
            return Err(Error::invalid(format!("a {} has no rows", self.kind)));
        }
        if is_vocabulary {
            return Ok(());
        }
        let desc = read_desc(&self.desc)?;
        if data_size(&desc.dims, desc.element) != Some(size) {
            let message = format!("{size} bytes of data for a tensor of dims {:?}", desc.dims);
            return Err(Error::invalid(message));
        }
        let rows = self.rows.as_ref().map_or(0, len) / 8;
        if self.kind == StreamKind::SelectedRows && desc.dims.first() != Some(&rows) {
            let message = format!("{rows} row numbers for a tensor of dims {:?}", desc.dims);
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Writes the part of the stream before the data.
    pub(super) fn write_front(&mut self, layout: Layout, sink: &mut dyn Write) -> Result<()> {
        let desc = self.desc.len() as u64;
        let parts = StreamParts {
            desc: DESC_AT..DESC_AT + desc,
            lod: self.lod.clone(),
            rows: self.rows.clone().unwrap_or_default(),
            height: self.height,
            data: DATA_AT..DATA_AT + self.data,
            ..StreamParts::default()
        };
        let mut front = pieces(&parts, self.kind, layout)?;
        let data = front
            .iter()
            .position(|piece| matches!(piece, Piece::Span(range) if range.start == DATA_AT));
        self.rest = front.split_off(data.map_or(front.len(), |data| data + 1));
        front.pop();
        front.iter().try_for_each(|piece| self.write(piece, sink))
    }

    /// Writes the part of the stream after the data.
    pub(super) fn write_rest(&mut self, sink: &mut dyn Write) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        rest.iter().try_for_each(|piece| self.write(piece, sink))
    }

    fn write(&mut self, piece: &Piece, sink: &mut dyn Write) -> Result<()> {
        match piece {
            Piece::Literal(bytes) => sink.write_all(bytes)?,
            Piece::Span(range) if range.start == DESC_AT => sink.write_all(&self.desc)?,
            Piece::Span(range) => {
                self.numbers.seek(SeekFrom::Start(range.start))?;
                io::copy(&mut (&mut self.numbers).take(len(range)), sink)?;
            }
        }
        Ok(())
    }
}
