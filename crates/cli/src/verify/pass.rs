//! One pass over a message, whole or in chunks: compared, parsed, or both, without holding it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread;

use prost_reflect::MessageDescriptor;
use proto_splitter::Opened;
use proto_splitter::merge::ReadOptions;
use proto_splitter::wire::StreamInput;

use super::against::{Compare, Original};
use super::deep::{self, Parsed};
use crate::failure::Failure;
use crate::input::{Form, Input};
use crate::pipe::{PipeWriter, pipe};
use crate::source;

/// What a pass found out.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What was parsed, if that was asked for.
    pub(super) parsed: Option<Result<Parsed, Failure>>,
    /// Whether all bytes are equal, if they were compared; else where the first is that isn't.
    pub(super) different: Option<Option<u64>>,
}

/// The message that is gone over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole<'a> {
    /// One that is a file, in chunks or not.
    Found(&'a Input),
    /// One that several files make.
    Several(&'a Input, &'a Opened),
}

impl Whole<'_> {
    /// What it is called in errors.
    fn path(&self) -> &Path {
        match self {
            Whole::Found(input) => &input.file,
            Whole::Several(input, _) => input.path(),
        }
    }
}

/// Goes over a message of `size` bytes.
pub(super) fn go(
    whole: &Whole<'_>,
    options: &ReadOptions,
    size: u64,
    deep: Option<&MessageDescriptor>,
    against: Option<&Original>,
) -> Result<Found, Failure> {
    let mut compare = against.map(Compare::with);
    let parsed = match deep {
        None => {
            produce(
                whole,
                options,
                &mut Tee {
                    compare: compare.as_mut(),
                    parser: None,
                },
            )?;
            None
        }
        Some(descriptor) => Some(thread::scope(|scope| {
            let depth = options.limits.max_message_depth;
            let (writer, reader) = pipe();
            let parse = move || deep::parse(StreamInput::new(reader, size), descriptor, depth);
            let parser = thread::Builder::new()
                .spawn_scoped(scope, parse)
                .map_err(|error| Failure::io(whole.path(), &error))?;
            let mut tee = Tee {
                compare: compare.as_mut(),
                parser: Some(writer),
            };
            let produced = produce(whole, options, &mut tee);
            // The parser waits for more as long as there is a writer.
            drop(tee);
            let parsed = parser
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            produced.map(|()| parsed.map_err(|error| Failure::of(whole.path(), &error)))
        })?),
    };
    Ok(Found {
        parsed,
        different: compare.map(Compare::finish),
    })
}

/// Writes the message to the sink.
fn produce(
    whole: &Whole<'_>,
    options: &ReadOptions,
    sink: &mut Tee<'_, '_>,
) -> Result<(), Failure> {
    let failed = |error| Failure::of(whole.path(), &error);
    let input = match whole {
        Whole::Found(input) => input,
        Whole::Several(_, opened) => return opened.write_to(sink).map(drop).map_err(failed),
    };
    match input.form {
        Form::Chunked => {
            let file = source::chunked(input, &options.limits)?;
            file.merge_to(sink, options).map_err(failed)?;
        }
        Form::Plain => {
            let copied = File::open(&input.file).and_then(|mut file| io::copy(&mut file, sink));
            copied.map_err(|error| Failure::io(&input.file, &error))?;
        }
    }
    Ok(())
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
