//! Two inputs compared tensor by tensor.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use proto_splitter::Error;
use proto_splitter::tensor::TensorInfo;
use serde::Serialize;

use crate::Exit;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{Input, shown};
use crate::output::Output;
use crate::pipe::{PipeReader, pipe};

#[derive(Debug, Serialize)]
struct Report {
    first: String,
    second: String,
    /// `identical` if all tensors are equal, or `different`.
    result: &'static str,
    /// How many tensors are equal.
    equal: usize,
    differences: Vec<Difference>,
    /// Whether there may be more than these.
    limited: bool,
}

#[derive(Debug, Serialize)]
struct Difference {
    tensor: String,
    how: String,
}

/// Says which tensors differ, the first `limit` of them.
pub(crate) fn diff(
    opened: [&Input; 2],
    limit: usize,
    json: bool,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let files = opened.map(Input::path);
    let failed = |error: Error| Failure::of_either(files, &error);
    let [first, second] = opened.map(|input| input.tensors());
    let (first, second) = (first.map_err(failed)?, second.map_err(failed)?);
    let mut others: HashMap<&str, &TensorInfo> = second
        .iter()
        .map(|tensor| (&*tensor.name, tensor))
        .collect();
    let total = first.iter().map(|tensor| tensor.bytes).sum();
    let meter = output.reading("comparing").meter(total);
    let (mut equal, mut differences) = (0, Vec::new());
    for tensor in &first {
        let how = match others.remove(&*tensor.name) {
            None => Some("only the first has it".to_owned()),
            Some(other) => compare(opened, tensor, other).map_err(failed)?,
        };
        meter.advance(tensor.bytes).map_err(failed)?;
        match how {
            None => equal += 1,
            Some(how) => differences.push(Difference {
                tensor: tensor.name.clone(),
                how,
            }),
        }
        if differences.len() >= limit.max(1) {
            break;
        }
    }
    for tensor in &second {
        if differences.len() < limit.max(1) && others.contains_key(&*tensor.name) {
            differences.push(Difference {
                tensor: tensor.name.clone(),
                how: "only the second has it".to_owned(),
            });
        }
    }
    let [first, second] = files.map(shown);
    let report = Report {
        first,
        second,
        result: if differences.is_empty() {
            "identical"
        } else {
            "different"
        },
        equal,
        limited: differences.len() >= limit.max(1),
        differences,
    };
    output.report(json, &report, |report, _| report.text())?;
    Ok(if report.differences.is_empty() {
        Exit::Done
    } else {
        Exit::Bad
    })
}

/// How two tensors differ; none if they don't.
fn compare(
    opened: [&Input; 2],
    first: &TensorInfo,
    second: &TensorInfo,
) -> Result<Option<String>, Error> {
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
    let others = opened[1].read_tensor(second)?;
    let readers = opened[0].read_tensor(first)?;
    std::thread::scope(|scope| {
        let (mut writer, reader) = pipe();
        let write = move || others.write_to(&mut writer);
        let other = std::thread::Builder::new().spawn_scoped(scope, write)?;
        let mut against = Against {
            other: reader,
            offset: 0,
            differs: None,
        };
        let read = readers.write_to(&mut against);
        let differs = against.differs;
        // What is left is read by nobody, so the other side ends.
        drop(against);
        let other = other.join();
        match differs {
            Some(offset) => Ok(Some(format!("the bytes differ from byte {offset} on"))),
            None => {
                read?;
                match other {
                    Ok(read) => read.map(|()| None),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        }
    })
}

/// Compares what is written to it with what the other side writes.
struct Against {
    other: PipeReader,
    offset: u64,
    /// Where the first difference is.
    differs: Option<u64>,
}

impl Write for Against {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let there = self.other.fill_buf()?;
        if there.is_empty() {
            // The other side ends early only by an error, which it reports itself.
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

impl Report {
    fn text(&self) -> String {
        let [first, second] = [&self.first, &self.second].map(|name| one_line(name));
        if self.differences.is_empty() {
            return format!(
                "{first} and {second} have the same {} tensors\n",
                self.equal
            );
        }
        let mut text = format!("{first} and {second} differ:\n");
        for Difference { tensor, how } in &self.differences {
            text.push_str(&format!("  {}: {}\n", one_line(tensor), one_line(how)));
        }
        if self.limited {
            text.push_str("  there may be more: --limit tells them\n");
        }
        text
    }
}
