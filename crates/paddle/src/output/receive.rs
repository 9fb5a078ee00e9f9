//! Parsing the message of a model while its bytes arrive in order.
//!
//! A chunked message is merged into a sink that writes files, so the message itself is neither
//! written nor held in memory. Small fields are collected, and fields that may be large are passed
//! on immediately. Fields must be in the order of their numbers, as serializers write them. Thus,
//! the fields that a file stores before a tensor's data arrive before the data.

use std::io::{self, Write};
use std::ops::Range;

use proto_splitter_core::progress::Meter;
use proto_splitter_core::wire::{WireType, decode_varint};
use proto_splitter_core::{Error, ErrorKind, Result};

use super::files::Files;
use super::incoming::Incoming;
use crate::model::{ProgramKind, field};
use crate::stream::{Layout, MAX_DESC_SIZE, StreamKind};

/// Maximum size of a string field, in bytes.
const MAX_NAME: u64 = 64 << 10;

/// Maximum size of a field's tag and the length or number after it, in bytes.
const MAX_HEADER: usize = 20;

/// The type of a nested message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Model,
    File,
    Parameter,
    Lod,
    Tensor,
    Companion,
}

impl Context {
    /// Returns true if the field with this number may occur several times in a message of this
    /// type.
    fn is_repeated(self, number: u32) -> bool {
        match self {
            Context::Model => {
                matches!(
                    number,
                    field::model::PARAMETER_FILES | field::model::COMPANIONS
                )
            }
            Context::File => number == field::parameter_file::PARAMETERS,
            Context::Parameter => number == field::parameter::LOD,
            Context::Tensor => number != field::tensor::DATA,
            Context::Lod | Context::Companion => false,
        }
    }
}

#[derive(Debug)]
struct Frame {
    context: Context,
    /// Offset of the nested message's end in the whole message.
    end: u64,
    /// Number of the previous field in the nested message.
    last: u32,
}

/// The part of the message that is expected next.
#[derive(Debug)]
enum State {
    /// A field's tag, followed by a length or a number.
    Header,
    /// The remainder of a string, with the number of its field and its total length in bytes.
    Text(u32, u64),
    /// Bytes that are passed on immediately, with their destination and the number of bytes that
    /// remain.
    Through(Through, u64),
}

/// The destination of bytes that are passed on immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    /// The content of the program's file or of a companion file.
    File,
    /// A field of the tensor's description.
    Desc,
    /// A level of LoD, or the row numbers.
    Numbers,
    /// The elements of the tensor, or a vocabulary.
    Data,
}

/// A sink that receives a message of type `Model`, and writes the model's files.
pub(super) struct Receiver<'a, 'm> {
    files: &'a mut Files<'m>,
    meter: &'m Meter,
    incoming: Incoming,
    model: Frame,
    /// The nested messages that have begun and not ended, outermost first.
    nested: Vec<Frame>,
    state: State,
    /// Bytes of a header or string that isn't complete yet.
    held: Vec<u8>,
    position: u64,
}

impl<'a, 'm> Receiver<'a, 'm> {
    /// Creates a receiver of a message of `size` bytes.
    pub(super) fn new(files: &'a mut Files<'m>, meter: &'m Meter, size: u64) -> Self {
        Receiver {
            files,
            meter,
            incoming: Incoming::default(),
            model: Frame {
                context: Context::Model,
                end: size,
                last: 0,
            },
            nested: Vec::new(),
            state: State::Header,
            held: Vec::new(),
            position: 0,
        }
    }

    /// Completes the files. Fails if the message is incomplete.
    pub(super) fn finish(self) -> Result<()> {
        let is_whole = matches!(self.state, State::Header) && self.held.is_empty();
        if is_whole && self.nested.is_empty() {
            self.files.end()
        } else {
            Err(Error::invalid("the message ends early").at_offset(self.position))
        }
    }

    /// Skips bytes at the start of `range`, which is the next part of the message, so that threads
    /// can copy them later. Doesn't skip bytes after the current file or the current tensor's data.
    /// Returns the number of bytes skipped, which is 0 if the caller has to write the next bytes.
    pub(super) fn leave_out(&mut self, range: Range<u64>) -> Result<u64> {
        let State::Through(to @ (Through::File | Through::Data), left) = self.state else {
            return Ok(0);
        };
        let len = left.min(range.end - range.start);
        if !self.files.leave_out(&(range.start..range.start + len))? {
            return Ok(0);
        }
        self.position += len;
        self.state = State::Through(to, left - len);
        if left == len {
            self.end_through(to)?;
        }
        Ok(len)
    }

    fn take(&mut self, bytes: &mut &[u8]) -> Result<()> {
        match self.state {
            State::Header => self.header(bytes),
            State::Text(number, len) => {
                let wanted = usize::try_from(len).unwrap_or(usize::MAX) - self.held.len();
                let part = split_off(bytes, wanted);
                self.position += part.len() as u64;
                self.held.extend_from_slice(part);
                if self.held.len() as u64 == len {
                    let text = String::from_utf8(std::mem::take(&mut self.held))
                        .map_err(|_| Error::invalid("a name isn't Unicode"))?;
                    self.state = State::Header;
                    self.text(number, text)?;
                    self.close()?;
                }
                Ok(())
            }
            State::Through(to, left) => {
                let part = split_off(bytes, usize::try_from(left).unwrap_or(usize::MAX));
                self.position += part.len() as u64;
                self.through(to, part)?;
                let left = left - part.len() as u64;
                self.state = State::Through(to, left);
                if left == 0 {
                    self.end_through(to)?;
                }
                Ok(())
            }
        }
    }

    /// Reads the next byte of a field's header. Once the header is complete, starts the field.
    fn header(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let Some((&byte, rest)) = bytes.split_first() else {
            return Ok(());
        };
        *bytes = rest;
        self.held.push(byte);
        self.position += 1;
        let Some((tag, tag_len)) = decode_varint(&self.held) else {
            return self.bounded();
        };
        let number = u32::try_from(tag >> 3).unwrap_or_default();
        let context = self.top().context;
        let is_desc = context == Context::Tensor && number != field::tensor::DATA;
        match WireType::from_bits(tag) {
            Some(WireType::Varint | WireType::Len) => {
                let Some((value, _)) = decode_varint(&self.held[tag_len..]) else {
                    return self.bounded();
                };
                let is_len = tag & 7 == WireType::Len.bits();
                if is_desc {
                    return self.desc_field(number, if is_len { value } else { 0 });
                }
                self.held.clear();
                self.in_order(number)?;
                if is_len {
                    self.length_delimited(number, value)
                } else {
                    self.number(number, value).and_then(|()| self.close())
                }
            }
            // Paddle ignores fields with these wire types in a tensor's description.
            Some(WireType::Fixed32) if is_desc => self.desc_field(number, 4),
            Some(WireType::Fixed64) if is_desc => self.desc_field(number, 8),
            _ => Err(self.unknown(number)),
        }
    }

    /// Starts a field of the tensor's description, whose fields may be in any order, but precede the
    /// data. The next `len` bytes are the field's value, and become part of the description
    /// unchanged.
    fn desc_field(&mut self, number: u32, len: u64) -> Result<()> {
        let last = self.top().last;
        if last != 0 {
            let message = format!(
                "field {number} comes after field {last}: a tensor's description has to come before its data"
            );
            return Err(Error::invalid(message).at_offset(self.position));
        }
        let header = std::mem::take(&mut self.held);
        let size = self.incoming.desc.len() as u64 + header.len() as u64;
        if size.saturating_add(len) > MAX_DESC_SIZE {
            let message =
                format!("a tensor's description exceeds the limit of {MAX_DESC_SIZE} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message).at_offset(self.position));
        }
        self.incoming.desc.extend(header);
        match len {
            0 => self.close(),
            _ => self.begin_through(Through::Desc, len),
        }
    }

    fn bounded(&self) -> Result<()> {
        if self.held.len() < MAX_HEADER {
            Ok(())
        } else {
            Err(Error::invalid("invalid tag or length").at_offset(self.position))
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.nested.last_mut().unwrap_or(&mut self.model)
    }

    fn in_order(&mut self, number: u32) -> Result<()> {
        let at = self.position;
        let top = self.top();
        let repeated = top.context.is_repeated(number);
        if number < top.last || number == top.last && !repeated {
            let message = format!(
                "field {number} comes after field {}: fields have to be in the order of their numbers, each once",
                top.last
            );
            return Err(Error::invalid(message).at_offset(at));
        }
        top.last = number;
        Ok(())
    }

    fn unknown(&mut self, number: u32) -> Error {
        let context = self.top().context;
        let message = format!("field {number} of a {context:?} isn't known, and would be lost");
        Error::new(ErrorKind::UnsupportedVersion, message).at_offset(self.position)
    }

    fn length_delimited(&mut self, number: u32, len: u64) -> Result<()> {
        let end = self.position.checked_add(len);
        let end = end.filter(|end| *end <= self.top().end);
        let Some(end) = end else {
            let message = format!("field {number} has {len} bytes, more than its message has left");
            return Err(Error::invalid(message).at_offset(self.position));
        };
        let context = self.top().context;
        match (context, number) {
            (Context::Model, field::model::PROGRAM) => {
                self.files.begin_program(ProgramKind::Desc)?;
                self.begin_through(Through::File, len)
            }
            (Context::Model, field::model::PIR_PROGRAM) => {
                self.files.begin_program(ProgramKind::Pir)?;
                self.begin_through(Through::File, len)
            }
            (Context::Model, field::model::PARAMETER_FILES) => self.enter(Context::File, end),
            (Context::Model, field::model::COMPANIONS) => self.enter(Context::Companion, end),
            (Context::File, field::parameter_file::PARAMETERS) => {
                self.files.begin_parameter_file()?;
                self.incoming = Incoming::default();
                self.enter(Context::Parameter, end)
            }
            (Context::Parameter, field::parameter::LOD) => {
                let began = self.incoming.begin_level();
                began.map_err(|error| self.located(error))?;
                self.enter(Context::Lod, end)
            }
            (Context::Parameter, field::parameter::ROWS) => {
                self.incoming.begin_rows();
                self.begin_through(Through::Numbers, len)
            }
            (Context::Lod, field::lod_level::OFFSETS) => self.begin_through(Through::Numbers, len),
            (Context::Parameter, field::parameter::TENSOR) => self.enter(Context::Tensor, end),
            (Context::Tensor, field::tensor::DATA)
            | (Context::Parameter, field::parameter::VOCABULARY) => {
                self.begin_data(len, context)?;
                self.begin_through(Through::Data, len)
            }
            (Context::Companion, field::companion::CONTENT) => {
                self.files.begin_companion()?;
                self.begin_through(Through::File, len)
            }
            (Context::Model, field::model::PROGRAM_FILE)
            | (Context::File, field::parameter_file::FILE)
            | (Context::Parameter, field::parameter::NAME)
            | (Context::Companion, field::companion::FILE) => {
                if len > MAX_NAME {
                    let message = format!("a name has {len} bytes, over the limit of {MAX_NAME}");
                    return Err(
                        Error::new(ErrorKind::LimitExceeded, message).at_offset(self.position)
                    );
                }
                self.state = State::Text(number, len);
                match len {
                    0 => self.take(&mut &[][..]),
                    _ => Ok(()),
                }
            }
            _ => Err(self.unknown(number)),
        }
    }

    fn enter(&mut self, context: Context, end: u64) -> Result<()> {
        self.nested.push(Frame {
            context,
            end,
            last: 0,
        });
        self.close()
    }

    /// Ends all nested messages whose end is the current position.
    fn close(&mut self) -> Result<()> {
        while let Some(frame) = self.nested.pop_if(|frame| frame.end <= self.position) {
            if frame.end < self.position {
                return Err(
                    Error::invalid("a field exceeds the message that contains it")
                        .at_offset(self.position),
                );
            }
            match frame.context {
                Context::Tensor if !self.incoming.has_data => {
                    self.begin_data(0, Context::Tensor)?;
                    self.files.end_parameter(&mut self.incoming)?;
                }
                Context::Parameter if !self.incoming.has_data => {
                    return Err(self.located(Error::invalid("there is no tensor")));
                }
                Context::File => self.files.end_parameter_file()?,
                Context::Companion => self.files.end_companion()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn begin_through(&mut self, to: Through, len: u64) -> Result<()> {
        self.state = State::Through(to, len);
        match len {
            0 => self.end_through(to),
            _ => Ok(()),
        }
    }

    fn begin_data(&mut self, len: u64, context: Context) -> Result<()> {
        let is_vocabulary = context == Context::Parameter;
        let began = self
            .incoming
            .begin_data(len, is_vocabulary)
            .and_then(|()| self.files.begin_parameter(&mut self.incoming));
        began.map_err(|error| self.located(error))
    }

    fn located(&self, error: Error) -> Error {
        let name = self
            .incoming
            .name
            .as_deref()
            .unwrap_or("a tensor without a name");
        error.at_path(name).at_offset(self.position)
    }

    fn through(&mut self, to: Through, bytes: &[u8]) -> Result<()> {
        match to {
            Through::Desc => {
                self.incoming.desc.extend_from_slice(bytes);
                Ok(())
            }
            Through::Numbers => self.incoming.numbers(bytes),
            Through::File | Through::Data => self.files.write(bytes),
        }
    }

    fn end_through(&mut self, to: Through) -> Result<()> {
        self.state = State::Header;
        match to {
            Through::Desc => {}
            Through::File => self.files.end_file()?,
            Through::Numbers => self.incoming.end_numbers()?,
            Through::Data => self.files.end_parameter(&mut self.incoming)?,
        }
        self.close()
    }

    fn text(&mut self, number: u32, text: String) -> Result<()> {
        match (self.top().context, number) {
            (Context::Model, _) => self.files.program_file(text),
            (Context::File, _) => self.files.parameter_file(text),
            (Context::Companion, _) => self.files.companion(text),
            _ => {
                self.incoming.name = Some(text);
                Ok(())
            }
        }
    }

    fn number(&mut self, number: u32, value: u64) -> Result<()> {
        let small = i32::try_from(value).unwrap_or(-1);
        match (self.top().context, number) {
            (Context::File, field::parameter_file::LAYOUT) => {
                match Layout::try_from(small) {
                    Ok(layout) => self.files.layout(layout),
                    Err(_) => Err(Error::invalid(format!("layout {value} isn't known"))
                        .at_offset(self.position)),
                }
            }
            (Context::File, field::parameter_file::SEPARATE) => {
                self.files.separate(value != 0);
                Ok(())
            }
            (Context::Parameter, field::parameter::KIND) => {
                match StreamKind::try_from(small) {
                    Ok(kind) => {
                        self.incoming.kind = kind;
                        Ok(())
                    }
                    Err(_) => Err(Error::invalid(format!("kind {value} isn't known"))
                        .at_offset(self.position)),
                }
            }
            (Context::Parameter, field::parameter::HEIGHT) => {
                self.incoming.height = value.cast_signed();
                Ok(())
            }
            _ => Err(self.unknown(number)),
        }
    }
}

/// Removes up to `most` bytes from the front of `bytes`, and returns them.
fn split_off<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (front, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    front
}

impl Write for Receiver<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.take(&mut rest)?;
        }
        self.meter.advance(bytes.len() as u64)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
