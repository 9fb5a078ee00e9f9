//! Reading a message once, in one piece or in chunks, to compare it with its original and parse it
//! without loading it.

use std::io::{self, Write};
use std::thread;

use proto_splitter_core::Result;
use proto_splitter_core::wire::StreamInput;

use super::Job;
use super::deep::{self, Parsed};
use super::original::Compare;
use crate::pipe::{PipeWriter, pipe};

/// The results of reading a message once.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// Result of parsing; `None` if it wasn't requested.
    pub(super) parsed: Option<Result<Parsed>>,
    /// Offset of the first byte that differs from the original. The inner option is `None` if no
    /// byte differs, the outer one if there was no comparison.
    pub(super) different: Option<Option<u64>>,
}

/// Reads the input's message, which has `size` bytes. Parses it, compares it with the original, or
/// does both, as requested.
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
            // Without this, the parser would wait for more input.
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

/// A writer that forwards all bytes to the comparison and to the parser, each of which is optional.
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
            // After an error, the parser stops reading and reports the error itself.
            self.parser = None;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
