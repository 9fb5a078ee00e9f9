//! The command line of `protosplit get`.

use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Args, ValueEnum};
use proto_splitter::container::MerkleRoot;

use super::reading::ReadingArgs;

pub(super) const HELP: &str = "\
Writes the value at a path. Only the chunks on the path and below it are read; from a .pb
file little more than the value.

If the type is known, PATH consists of field names, otherwise of field numbers. Select an
element by its index, as in node[7]; from the end, as in node[-1]; by its name, as in
node[\"relu\"]; or by values in it, as in node[op=\"Const\"], node[op!=\"Const\", id>=5] and
node[name~\"conv\"], where ~ stands for containing the text. [*] selects all elements and [2:5] a
range. text, json and jsonl write all selected values, one by one, however many; binary and npy
take one. Files written by protosplit name their type; a type that isn't built in also needs its
schema.

Examples:
  protosplit get small/ 'meta_graphs[0].meta_info_def' --format json
  protosplit get graph.cpb 'node[7].name' --format text
  protosplit get graph.cpb 'node[7].attr[\"value\"].tensor' --format npy -o weights.npy
  protosplit get graph.cpb 'node[\"dense/kernel\"].attr[\"value\"].tensor' --format npy -o w.npy
  protosplit get graph.pb 'node[7].attr[\"value\"].tensor.tensor_content' -o weights.bin \\
      --message tensorflow.GraphDef
      A .pb file doesn't name its type, unless it is a saved_model.pb.
  protosplit get model/ --tensor dense/kernel -o kernel.npy
      A tensor by name, from any file with tensors.
  protosplit get model/ --tensor embedding --rows 0:100 --format npy -o some.npy
      Its first hundred rows; a .pb file's other rows are not read. A checksum of the whole
      tensor, as in a TensorFlow checkpoint, is only compared when all rows are read.
  protosplit get model.cpb 'node[7].name' --format text --root 9f86d081884c7d65...
      Checked against the Merkle root that `split --merkle-root` printed, before anything is
      written. Only the chunks on the path and a few hashes are read, also from a store.
  protosplit get model.onnx 'graph.initializer[3]' -o weights.npy";

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// File or folder of any supported format, or the prefix of a .cpb file; - for standard input
    pub(crate) file: PathBuf,
    /// Path in the message, as `tree --full-paths` shows it; . is the whole message. In a file of tensors only,
    /// the name of a tensor
    #[arg(required_unless_present_any = ["tensor", "chunk"], conflicts_with = "tensor")]
    pub(crate) path: Option<String>,
    /// Name of a tensor, as `tensors` lists it, instead of a path
    #[arg(long, value_name = "NAME")]
    pub(crate) tensor: Option<String>,
    /// Number of a chunk, as `ls` lists it, instead of a path; its bytes are uncompressed
    #[arg(long, value_name = "N", conflicts_with_all = ["path", "tensor"])]
    pub(crate) chunk: Option<usize>,
    /// Rows of a tensor to read, counted from 0 in its first dimension: START:END, START: or :END
    #[arg(long, value_name = "ROWS", value_parser = ValueParser::new(rows), conflicts_with = "chunk")]
    pub(crate) rows: Option<Rows>,
    /// The file to write [default: standard output]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Output format [default: npy if OUTPUT ends in .npy, else binary]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<GetFormat>,
    /// Check all that is read against this Merkle root, which `split --merkle-root` printed
    #[arg(long, value_name = "HEX")]
    pub(crate) root: Option<MerkleRoot>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Overwrite existing output
    #[arg(long)]
    pub(crate) force: bool,
    /// Largest string or bytes value to show in full. Set by `cat`.
    #[arg(skip)]
    pub(crate) max_value: Option<u64>,
}

impl GetArgs {
    /// Returns the requested format, or the format implied by the output's extension.
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
    /// Exclusive end of the rows; `None` for all remaining rows.
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

/// An output format of `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetFormat {
    /// The bytes: a message serialized, a string or bytes unchanged; also called raw
    #[value(alias = "raw")]
    Binary,
    /// A message in protobuf's text format, any other value as plain text
    Text,
    /// Protobuf's JSON
    Json,
    /// Protobuf's JSON, one line for each value
    Jsonl,
    /// A tensor as a NumPy array
    Npy,
}
