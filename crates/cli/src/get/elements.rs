//! Printing the values that a query selects, in order. Several threads decode the values in
//! batches.

use std::io::Write;

use proto_splitter::bytes::Bytes;
use proto_splitter::path::PathQuery;
use proto_splitter::threads::{self, Ahead};
use proto_splitter::view::{MessageView, Selected};
use proto_splitter::{Error, ErrorKind, member_names};

use super::shown_up_to;
use super::value::{self, Shape};
use crate::args::{GetArgs, GetFormat};
use crate::text;

/// Total size of values, in bytes, at which a batch is complete.
const BATCH_BYTES: u64 = 256 << 10;

/// Maximum number of values in a batch.
const BATCH_COUNT: usize = 4096;

/// Maximum total size of values that were read but not yet printed, in bytes.
const MOST_AHEAD: u64 = 32 << 20;

/// Writes all values that a query selects, one after another, and returns their number. `is_list`
/// is true if the values are the elements of one field, which are printed as one list in JSON.
pub(super) fn write_all(
    view: &MessageView<'_>,
    query: &PathQuery,
    args: &GetArgs,
    is_list: bool,
    mut sink: &mut dyn Write,
) -> Result<u64, Error> {
    let format = args.format();
    let wrong = match format {
        GetFormat::Binary => Some("binary values would run into each other"),
        GetFormat::Npy => Some("an array is one value"),
        GetFormat::Text | GetFormat::Json | GetFormat::Jsonl => None,
    };
    if let Some(wrong) = wrong {
        let message = format!("{wrong}; for several values use --format jsonl, json or text");
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let most = shown_up_to(args);
    let mut selected = view.select(query, &member_names())?;
    if view.descriptor().is_none() && format == GetFormat::Text {
        let mut count = 0;
        while selected.next().transpose()?.is_some() {
            count += 1;
            let wire = selected.wire_type();
            text::untyped::value(&selected.value()?, wire, most, &mut sink)?;
        }
        return Ok(count);
    }
    let root = value::typed(view)?;
    let is_array = is_list && format == GetFormat::Json;
    let ends: [&[u8]; 2] = if is_array {
        [b"]\n", b"\n]\n"]
    } else {
        [b"", b""]
    };
    if is_array {
        sink.write_all(b"[")?;
    }
    if selected.next().transpose()?.is_none() {
        sink.write_all(ends[0])?;
        return Ok(0);
    }
    let printing = Printing {
        shape: Shape::of(&selected.path(), root)?,
        format,
        is_array,
        most,
    };
    let count = printing.print(selected, sink, |number, error| {
        // The path is needed only for errors, so it isn't recorded. The query is run again to find
        // the value.
        let mut again = view.select(query, &member_names())?;
        for _ in 0..=number {
            again.next().transpose()?;
        }
        Ok(again.at_fault(error.at_path(again.path().display(Some(root)))))
    })?;
    sink.write_all(ends[1])?;
    Ok(count)
}

/// The type of the values to print, and their output format.
struct Printing {
    shape: Shape,
    format: GetFormat,
    /// True if the values are elements of a JSON list.
    is_array: bool,
    most: usize,
}

impl Printing {
    /// Prints the query's current value and all later values, and returns their number. If the
    /// value with the index `n` can't be printed, `placed(n, error)` adds the value's path and
    /// offset to the error.
    fn print(
        &self,
        selected: Selected<'_>,
        sink: &mut dyn Write,
        placed: impl Fn(u64, Error) -> Result<Error, Error>,
    ) -> Result<u64, Error> {
        let threads = threads::count(None);
        let ahead = Ahead {
            count: threads.saturating_add(1),
            size: MOST_AHEAD,
        };
        let batches = Batches {
            selected,
            count: 0,
            ended: None,
        };
        let jobs = batches.map(|batch| {
            let bytes = batch.as_ref().map_or(0, |batch| batch.bytes.len());
            (bytes as u64, batch)
        });
        let mut count = 0;
        threads::each_in_order(
            threads,
            jobs,
            ahead,
            |batch, _| Ok(self.printed(batch?)),
            |printed: Printed| {
                // The values before an error are still printed.
                sink.write_all(&printed.text)?;
                count += printed.count;
                match printed.failed {
                    Some(error) => Err(placed(count, error)?),
                    None => Ok(()),
                }
            },
        )?;
        Ok(count)
    }

    fn printed(&self, batch: Batch) -> Printed {
        let mut printed = Printed::default();
        let bytes = Bytes::from(batch.bytes);
        let mut start = 0;
        for end in batch.ends {
            let number = batch.first + printed.count;
            let before = printed.text.len();
            let value = bytes.slice(start..end);
            if let Err(error) = self.value(number, value, &mut printed.text) {
                printed.text.truncate(before);
                printed.failed = Some(error);
                break;
            }
            printed.count += 1;
            start = end;
        }
        printed
    }

    fn value(&self, number: u64, bytes: Bytes, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.format == GetFormat::Text {
            return self.shape.text(bytes, self.most, out);
        }
        match (self.is_array, number) {
            (true, 0) => out.extend_from_slice(b"\n"),
            (true, _) => out.extend_from_slice(b",\n"),
            (false, _) => {}
        }
        if self.format == GetFormat::Json && !self.is_array {
            let json = self.shape.json(bytes, self.most)?;
            return super::write_json(&json, self.format, out);
        }
        self.shape.json_line(bytes, self.most, out)?;
        if !self.is_array {
            out.push(b'\n');
        }
        Ok(())
    }
}

/// A batch of encoded values, one after another in `bytes`.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Offset in `bytes` at which each value ends.
    ends: Vec<usize>,
    /// Index, among all values of the query, of the first value in the batch.
    first: u64,
}

/// The printed text of a batch.
#[derive(Default)]
struct Printed {
    text: Vec<u8>,
    /// Number of values in `text`.
    count: u64,
    /// Error about the first value that couldn't be printed; `None` if the whole batch was printed.
    failed: Option<Error>,
}

/// An iterator over the query's current value and all later values, in batches.
struct Batches<'a> {
    selected: Selected<'a>,
    /// Number of values in earlier batches.
    count: u64,
    /// End of the iteration: an error, or `Ok` after the last value. `None` before the end.
    ended: Option<Result<(), Error>>,
}

impl Batches<'_> {
    /// Adds the current value and later values to the batch until it is complete.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), Error> {
        loop {
            // `value` checks the size before reading, since the first value may be too large for
            // memory.
            if batch.ends.is_empty() {
                batch.bytes = self.selected.value()?.into();
            } else {
                self.selected.value_to(&mut batch.bytes)?;
            }
            batch.ends.push(batch.bytes.len());
            self.count += 1;
            let Some(next) = self.selected.next().transpose()? else {
                self.ended = Some(Ok(()));
                return Ok(());
            };
            let size = batch.bytes.len() as u64 + next;
            if size > BATCH_BYTES || batch.ends.len() >= BATCH_COUNT {
                return Ok(());
            }
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(ended) = &mut self.ended {
            return std::mem::replace(ended, Ok(())).err().map(Err);
        }
        let mut batch = Batch {
            first: self.count,
            ..Batch::default()
        };
        if let Err(error) = self.fill(&mut batch) {
            self.ended = Some(Err(error));
            if batch.ends.is_empty() {
                return self.next();
            }
        }
        Some(Ok(batch))
    }
}
