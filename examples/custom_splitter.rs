//! A splitter for your own message types. It consists of two small trait impls, one for each type,
//! which define the cuts.
//!
//!     cargo run --release --example custom_splitter
//!
//! A model's configuration has layers, and each layer has weights. The weights are large, so each
//! layer's weights become a chunk, which a reader can fetch alone. `ModelConfigSplitter` delegates
//! the layers to `LayerSplitter`, and the paths of its cuts are automatically extended to begin at
//! the root.
#![allow(clippy::print_stdout, reason = "an example prints its results")]
#![allow(clippy::expect_used, reason = "the schema in this file is right")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, ReflectMessage};
use proto_splitter::Result;
use proto_splitter::merge::Merger;
use proto_splitter::split::{ComposableSplitter, SplitContext, SplitExt};

const SCHEMA: &str = r#"
    syntax = "proto3";
    package example;

    message ModelConfig {
      string name = 1;
      repeated Layer hidden_layers = 2;
      map<string, Layer> heads = 3;
    }

    message Layer {
      string activation = 1;
      bytes weights = 2;
    }
"#;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("model_config.proto");
    std::fs::write(&file, SCHEMA).expect("a temporary file");
    let files = protox::compile([&file], [folder.path()]).expect("the schema compiles");
    DescriptorPool::from_file_descriptor_set(files).expect("compiled schemas are valid")
});

#[derive(Clone, PartialEq, prost::Message, ReflectMessage)]
#[prost_reflect(descriptor_pool = "POOL", message_name = "example.ModelConfig")]
struct ModelConfig {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    hidden_layers: Vec<Layer>,
    #[prost(btree_map = "string, message", tag = "3")]
    heads: BTreeMap<String, Layer>,
}

#[derive(Clone, PartialEq, prost::Message, ReflectMessage)]
#[prost_reflect(descriptor_pool = "POOL", message_name = "example.Layer")]
struct Layer {
    #[prost(string, tag = "1")]
    activation: String,
    #[prost(bytes = "vec", tag = "2")]
    weights: Vec<u8>,
}

struct ModelConfigSplitter;

impl ComposableSplitter for ModelConfigSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        let model = cx.message();
        for layer in model.repeated("hidden_layers")? {
            cx.compose(&LayerSplitter, &layer?.view())?;
        }
        // The heads are replaced often, so each head becomes a chunk.
        for entry in model.map("heads")? {
            let (_name, head) = entry?;
            cx.cut(&head)?;
        }
        Ok(())
    }
}

struct LayerSplitter;

impl LayerSplitter {
    /// Size below which weights aren't cut out, in bytes.
    const SMALL: u64 = 1 << 10;
}

impl ComposableSplitter for LayerSplitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        match cx.message().get("weights")? {
            Some(weights) if weights.size() >= Self::SMALL => cx.cut(&weights),
            _ => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let layer = |kib: u8| Layer {
        activation: "relu".into(),
        weights: vec![kib; usize::from(kib) << 10],
    };
    let model = ModelConfig {
        name: "three layers and a head".into(),
        hidden_layers: vec![layer(64), layer(0), layer(200)],
        heads: BTreeMap::from([("classes".to_owned(), layer(16))]),
    };

    let folder = tempfile::tempdir()?;
    let prefix = folder.path().join("model");
    let written = ModelConfigSplitter.write(&model, &prefix)?;
    for chunk in &written.chunks {
        let path = chunk.path.display(Some(&model.descriptor()));
        println!(
            "chunk {} {:7} {:>7} bytes  {path}",
            chunk.index, chunk.kind, chunk.size
        );
    }
    let paths: Vec<String> = written
        .chunks
        .iter()
        .map(|chunk| chunk.path.display(Some(&model.descriptor())))
        .collect();
    assert_eq!(
        paths,
        [
            "",
            "hidden_layers[0].weights",
            "hidden_layers[2].weights",
            "heads[\"classes\"]"
        ]
    );

    let merged: ModelConfig = Merger::new().read(&prefix)?;
    assert_eq!(merged, model);
    println!(
        "merged: {}, {} layers",
        merged.name,
        merged.hidden_layers.len()
    );
    Ok(())
}
