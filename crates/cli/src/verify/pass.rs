//! One pass over a message, whole or in chunks: compared, parsed, or both, without holding it.

use std::io::{self, Write};
use std::thread;

use prost_reflect::MessageDescriptor;
use proto_splitter::wire::StreamInput;

use super::against::{Compare, Original};
use super::deep::{self, Parsed};
use crate::failure::Failure;
use crate::input::Input;
use crate::pipe::{PipeWriter, pipe};

/// What a pass found out.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What was parsed, if that was asked for.
    pub(super) parsed: Option<Result<Parsed, Failure>>,
    /// Whether all bytes are equal, if they were compared; else where the first is that isn't.
    pub(super) different: Option<Option<u64>>,
}

/// Goes over a message of `size` bytes.
pub(super) fn go(
    input: &Input,
    size: u64,
    deep: Option<&MessageDescriptor>,
    against: Option<&Original>,
) -> Result<Found, Failure> {
    let mut compare = against.map(Compare::with);
    let parsed = match deep {
        None => {
            produce(
                input,
                &mut Tee {
                    compare: compare.as_mut(),
                    parser: None,
                },
            )?;
            None
        }
        Some(descriptor) => Some(thread::scope(|scope| {
            let depth = input.reading_options().limits.max_message_depth;
            let (writer, reader) = pipe();
            let parse = move || deep::parse(StreamInput::new(reader, size), descriptor, depth);
            let parser = thread::Builder::new()
                .spawn_scoped(scope, parse)
                .map_err(|error| Failure::io(input.path(), &error))?;
            let mut tee = Tee {
                compare: compare.as_mut(),
                parser: Some(writer),
            };
            let produced = produce(input, &mut tee);
            // The parser waits for more as long as there is a writer.
            drop(tee);
            let parsed = parser
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            produced.map(|()| parsed.map_err(|error| Failure::of(input.path(), &error)))
        })?),
    };
    Ok(Found {
        parsed,
        different: compare.map(Compare::finish),
    })
}

/// Writes the message to the sink.
fn produce(input: &Input, sink: &mut Tee<'_, '_>) -> Result<(), Failure> {
    let written = input.write_to(sink);
    written
        .map(drop)
        .map_err(|error| Failure::of(input.path(), &error))
}

/// Gives what is written to it to both, if they are there.
struct Tee<'a, 'b> {
    compare: Option<&'a mut Compare<'b>>,
    parser: Option<PipeWriter>,
}

impl Write for Tee<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(compare) = &mut self.compare {
            compare.write_all(bytes)?;
        }
        if let Some(parser) = &mut self.parser
            && parser.write_all(bytes).is_err()
        {
            // The parser has seen enough, and will say of what.
            self.parser = None;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
