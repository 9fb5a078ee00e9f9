//! The command line of `protosplit get`.

use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};

use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Writes the value at a path. Only the chunks on the way there and those below are
read; of a .pb file little more than the value.

With the type a PATH is in names, without it in numbers. An element is told by its
index, as in node[7], or from the end, as in node[-1]; by what it is called, as in
node[\"relu\"]; or by a value in it, as in node[op=\"Const\"]. [*] is all of them and [2:5]
some, which --format jsonl writes one by one, however many there are. A file that protosplit wrote
says its type; of one that isn't built in the schema is needed, too.

Examples:
  protosplit get small/ 'meta_graphs[0].meta_info_def' --format json
  protosplit get graph.cpb 'node[7].name' --format text
  protosplit get graph.cpb 'node[7].attr[\"value\"].tensor' --format npy -o weights.npy
  protosplit get graph.cpb 'node[\"dense/kernel\"].attr[\"value\"].tensor' --format npy -o w.npy
  protosplit get graph.pb 'node[7].attr[\"value\"].tensor.tensor_content' -o weights.bin \\
      --message tensorflow.GraphDef
      A .pb file doesn't say its type, unless it is a saved_model.pb.
  protosplit get model/ --tensor dense/kernel -o kernel.npy
      A tensor by its name, from any file that has tensors.
  protosplit get model/ --tensor embedding --rows 0:100 --format npy -o some.npy
      Its first hundred rows; of the others nothing is read in a .pb file. A checksum of a
      whole tensor, as a TensorFlow checkpoint has it, is only compared when all rows are read.
  protosplit get model.onnx 'graph.initializer[3]' --format npy -o weights.npy \\
      --message onnx.ModelProto --proto onnx.proto";

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// A .cpb or .pb file, its prefix, or the folder of a SavedModel; - for standard input
    pub(crate) file: PathBuf,
    /// The place in the message, as `info` shows it; . is all of it. Where there are tensors and
    /// no message, the name of a tensor
    #[arg(required_unless_present_any = ["tensor", "chunk"], conflicts_with = "tensor")]
    pub(crate) path: Option<String>,
    /// Instead of a place, the name of a tensor, as `tensors` lists it
    #[arg(long, value_name = "NAME")]
    pub(crate) tensor: Option<String>,
    /// Instead of a place, the number of a chunk, as `ls` lists it: its bytes, uncompressed
    #[arg(long, value_name = "N", conflicts_with_all = ["path", "tensor"])]
    pub(crate) chunk: Option<usize>,
    /// Of a tensor these rows only, counted from 0 in its first dimension: START:END, START: or :END
    #[arg(long, value_name = "ROWS", value_parser = ValueParser::new(rows), conflicts_with = "chunk")]
    pub(crate) rows: Option<Rows>,
    /// The file to write, by default standard output
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// What is written, by default npy to a file that is called so, else binary
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<GetFormat>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Replace what is in the way
    #[arg(long)]
    pub(crate) force: bool,
    /// Up to which size strings and bytes are shown; `cat` says it.
    #[arg(skip)]
    pub(crate) max_value: Option<u64>,
}

impl GetArgs {
    /// What is written: as was said, or else as the output is called.
    pub(crate) fn format(&self) -> GetFormat {
        let output = self.output.as_deref();
        let extension = output.and_then(Path::extension);
        self.format.unwrap_or(match extension {
            Some(extension) if extension.eq_ignore_ascii_case("npy") => GetFormat::Npy,
            _ => GetFormat::Binary,
        })
    }
}

/// Rows of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) start: u64,
    /// None: to the last.
    pub(crate) end: Option<u64>,
}

fn rows(text: &str) -> Result<Rows, String> {
    let place = |text: &str, default| match text {
        "" => Ok(default),
        text => text.parse().map(Some),
    };
    let rows = text.split_once(':').and_then(|(start, end)| {
        Some(Rows {
            start: place(start, Some(0)).ok()??,
            end: place(end, None).ok()?,
        })
    });
    rows.ok_or_else(|| "rows are two numbers, as in 0:100".to_owned())
}

/// How a part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetFormat {
    /// Its bytes: a message serialized, a string or bytes as they are; raw means this too
    #[value(alias = "raw")]
    Binary,
    /// A message in protobuf's text format, a value by itself
    Text,
    /// As protobuf's JSON has it
    Json,
    /// As JSON on one line, one for each value
    Jsonl,
    /// A tensor as a NumPy array
    Npy,
}
