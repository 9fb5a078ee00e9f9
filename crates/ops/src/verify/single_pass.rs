//! One pass over a message, whole or in chunks, that compares or parses the message without holding
//! it in memory.

use std::io::{self, Write};
use std::thread;

use proto_splitter_core::Result;
use proto_splitter_core::wire::StreamInput;

use super::Job;
use super::deep::{self, Parsed};
use super::original::Compare;
use crate::pipe::{PipeWriter, pipe};

/// The findings of a pass.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// Result of parsing, if requested.
    pub(super) parsed: Option<Result<Parsed>>,
    /// Offset of the first byte that differs, if the bytes were compared and any differ.
    pub(super) different: Option<Option<u64>>,
}

/// Makes a pass over the input's message, which has `size` bytes.
pub(super) fn run(job: &Job<'_>, size: u64) -> Result<PassResult> {
    let mut compare = job.original.as_ref().map(Compare::with);
    let mut tee = Tee {
        compare: compare.as_mut(),
        parser: None,
    };
    let parsed = match job.deep {
        None => {
            job.input.write_to_with(&mut tee, &job.reading)?;
            None
        }
        Some(descriptor) => Some(thread::scope(|scope| {
            let depth = job.reading.get_limits().get_max_message_depth();
            let (writer, reader) = pipe();
            let parse = move || deep::parse(StreamInput::new(reader, size), descriptor, depth);
            let parser = thread::Builder::new().spawn_scoped(scope, parse)?;
            tee.parser = Some(writer);
            let produced = job.input.write_to_with(&mut tee, &job.reading);
            // Ends the parser's input, since the parser would otherwise wait for more.
            drop(tee);
            let parsed = parser
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            produced.map(|_| parsed)
        })?),
    };
    Ok(PassResult {
        parsed,
        different: compare.map(Compare::finish),
    })
}

/// A writer that passes its input to both the parser and the comparison.
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
            // The parser has stopped early, and reports the reason.
            self.parser = None;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
