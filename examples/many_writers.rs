//! Writes a checkpoint as one message from eight processes, each of which has one shard.
//!
//! `cargo run --example many_writers` starts this program again as each of the eight processes.
//! None of them ever has the whole message: each one writes the weights of its own layers with
//! their field paths, and a report. At the end, the first process commits the shards, and reads
//! some of the weights from the whole message.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command};

use proto_splitter::merge::ReadOptions;
use proto_splitter::parts::{PartReport, Shard, ShardOptions, ShardWriter, commit_shards};
use proto_splitter::proto::graph_def::{AttrValue, GraphDef, NodeDef, attr_value};
use proto_splitter::split::{Source, SplitOptions};
use proto_splitter::{ChunkedFile, Result};

const WRITERS: usize = 8;
const LAYERS: usize = 32;
/// Size of each layer's weights, in bytes.
const SIZE: usize = 1 << 20;

/// The shard of one process, which consists of every eighth layer.
struct Layers {
    writer: usize,
}

impl Layers {
    fn weights(layer: usize) -> Vec<u8> {
        (0..SIZE)
            .map(|at| (at * (layer + 1)).to_le_bytes()[0])
            .collect()
    }
}

impl Shard for Layers {
    fn write_chunks(&self, writer: &mut ShardWriter) -> Result<()> {
        for layer in (self.writer..LAYERS).step_by(WRITERS) {
            // The path `node[layer].attr["value"].tensor.tensor_content`, with field numbers.
            let path = format!("1[{layer}].5[\"value\"].8.4").parse()?;
            writer.value(&path, &Layers::weights(layer))?;
        }
        Ok(())
    }
}

/// Returns the graph without its weights, which the committing process creates.
fn rest() -> GraphDef {
    let tensor = attr_value::Value::Tensor(Box::default());
    let value = AttrValue {
        value: Some(tensor),
    };
    let layer = |number: usize| NodeDef {
        name: format!("layer_{number}"),
        op: "Const".into(),
        attr: [("value".to_owned(), Box::new(value.clone()))].into(),
        ..Default::default()
    };
    GraphDef {
        node: (0..LAYERS).map(layer).collect(),
        ..Default::default()
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let options = ShardOptions::new().id("step 1000");
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [folder, writer] = &arguments[..] {
        let (folder, writer) = (Path::new(folder), writer.parse()?);
        let report = Layers { writer }.write(folder.join("step-1000"), writer, &options)?;
        report.write(folder.join(format!("report-{writer}")))?;
        return Ok(());
    }

    let folder = tempfile::tempdir()?;
    let begin = |writer: usize| {
        let mut command = Command::new(env::current_exe()?);
        command.arg(folder.path()).arg(writer.to_string()).spawn()
    };
    let writers = (0..WRITERS)
        .map(begin)
        .collect::<std::io::Result<Vec<Child>>>()?;
    for mut writer in writers {
        assert!(writer.wait()?.success());
    }

    let report = |writer| PartReport::read(folder.path().join(format!("report-{writer}")));
    let reports = (0..WRITERS).map(report).collect::<Result<Vec<_>>>()?;
    let prefix = folder.path().join("step-1000");
    let rest = Source::from(&rest());
    let done = commit_shards(&rest, &prefix, &reports, &options, &SplitOptions::new())?;
    assert_eq!((done.files.len(), done.chunks), (WRITERS, 1 + LAYERS));

    let file = ChunkedFile::open(&done.path)?;
    let view = file.view(ReadOptions::for_message::<GraphDef>());
    for layer in [0, 17, LAYERS - 1] {
        let path = format!("1[{layer}].5[\"value\"].8.4").parse()?;
        assert!(view.get(&path)? == Layers::weights(layer));
    }
    println!(
        "{WRITERS} processes wrote {} bytes as one message",
        done.output_size
    );
    Ok(())
}
