//! Comparing two inputs tensor by tensor.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use proto_splitter_core::Result;
use proto_splitter_core::formats::Opened;
use proto_splitter_core::tensor::TensorInfo;

use super::{DiffDetails, DiffOptions, Outcome, TensorDifference};
use crate::error_place::at_either;
use crate::pipe::{PipeReader, pipe};

/// Finds the tensors that differ, up to the limit in the options.
pub(super) fn compare(inputs: [&Opened; 2], options: &DiffOptions) -> Result<DiffDetails> {
    let (equal, differences) =
        differences(inputs, options).map_err(|error| at_either(inputs, error))?;
    let result = if differences.is_empty() {
        Outcome::Identical
    } else {
        Outcome::Different
    };
    Ok(DiffDetails::Tensors {
        result,
        equal,
        differences,
    })
}

fn differences(
    inputs: [&Opened; 2],
    options: &DiffOptions,
) -> Result<(usize, Vec<TensorDifference>)> {
    let (first, second) = (inputs[0].tensors()?, inputs[1].tensors()?);
    let mut others: HashMap<&str, &TensorInfo> = second
        .iter()
        .map(|tensor| (&*tensor.name, tensor))
        .collect();
    let total = first.iter().map(|tensor| tensor.bytes).sum();
    let meter = options.progress.meter(total);
    let (mut equal, mut differences) = (0, Vec::new());
    for tensor in &first {
        let how = match others.remove(&*tensor.name) {
            None => Some("only the first has it".to_owned()),
            Some(other) => difference(inputs, tensor, other)?,
        };
        meter.advance(tensor.bytes)?;
        match how {
            None => equal += 1,
            Some(how) => differences.push(TensorDifference {
                tensor: tensor.name.clone(),
                how,
            }),
        }
        if differences.len() >= options.limit {
            break;
        }
    }
    for tensor in &second {
        if differences.len() < options.limit && others.contains_key(&*tensor.name) {
            differences.push(TensorDifference {
                tensor: tensor.name.clone(),
                how: "only the second has it".to_owned(),
            });
        }
    }
    Ok((equal, differences))
}

/// Returns a description of the difference between two tensors; `None` if they are equal.
fn difference(
    inputs: [&Opened; 2],
    first: &TensorInfo,
    second: &TensorInfo,
) -> Result<Option<String>> {
    let kind = |tensor: &TensorInfo| (tensor.dtype, tensor.shape.clone(), tensor.byte_order);
    if kind(first) != kind(second) || first.bytes != second.bytes {
        let text = |tensor: &TensorInfo| {
            let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            let (dtype, bytes) = (tensor.dtype, tensor.bytes);
            format!("{dtype}[{}] of {bytes} bytes", sizes.join(", "))
        };
        return Ok(Some(format!(
            "{} in the first, {} in the second",
            text(first),
            text(second)
        )));
    }
    let others = inputs[1].read_tensor(second)?;
    let readers = inputs[0].read_tensor(first)?;
    std::thread::scope(|scope| {
        let (mut writer, reader) = pipe();
        let write = move || others.write_to(&mut writer);
        let other = std::thread::Builder::new().spawn_scoped(scope, write)?;
        let mut against = Against {
            other: reader,
            offset: 0,
            differs: None,
            ended: false,
        };
        let read = readers.write_to(&mut against);
        let (differs, ended) = (against.differs, against.ended);
        // Ends the other thread, since its remaining bytes aren't needed.
        drop(against);
        let other = other.join();
        match differs {
            Some(offset) => Ok(Some(format!("the bytes differ from byte {offset} on"))),
            None => {
                let other = other.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                // Reports the error of the input that failed first, since it made the other one
                // fail, too.
                let both = if ended {
                    other.and(read)
                } else {
                    read.and(other)
                };
                both.map(|()| None)
            }
        }
    })
}

/// A writer that compares the bytes written to it with the bytes of the other input's tensor.
struct Against {
    other: PipeReader,
    offset: u64,
    /// Offset of the first byte that differs; `None` if no difference was found yet.
    differs: Option<u64>,
    /// True if the other input's tensor ended early.
    ended: bool,
}

impl Write for Against {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let there = self.other.fill_buf()?;
        if there.is_empty() {
            // The other input's tensor ends early only after an error, which its thread reports.
            self.ended = true;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = bytes.len().min(there.len());
        if let Some(at) = there.iter().zip(bytes).position(|(a, b)| a != b) {
            self.differs = Some(self.offset + at as u64);
            return Err(io::Error::other("the tensors differ"));
        }
        self.other.consume(len);
        self.offset += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
