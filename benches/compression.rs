//! A benchmark of each compression: file sizes and times for weights, quantized weights, text and
//! graph nodes. Run `cargo bench --bench compression`.
//!
//! Trained weights are included if `benches/trained/setup.sh` has downloaded them; other weights
//! are random. Each message is split to a file, the file is synced, and it is merged into memory
//! that was touched before. The compressions run alternately. `-- --quick` makes the messages 16
//! times smaller, to check that the benchmark runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::collections::HashMap;
use std::error::Error;
use std::f64::consts::TAU;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ReadOptions;
use proto_splitter::split::{ChunkCompression, Source, SplitExt, SplitOptions};
use proto_splitter::{GRAPH_DEF, GraphDefSplitter};
use proto_splitter_testkit::generate::Random;
use proto_splitter_testkit::models::Parts;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};
use proto_splitter_testkit::workloads::small_nodes;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 3;
const QUICK: u64 = 16;

/// Size of the data of each kind, in bytes. The next constant is the size of each of its constants,
/// which become chunks.
const KIND_BYTES: usize = 64 << 20;
const CONSTANT_BYTES: usize = 4 << 20;

/// Number of graph nodes, which have about [`KIND_BYTES`] bytes in total.
const NODES: u64 = 700_000;

const MAX_CHUNK_SIZE: u64 = 16 << 20;

const WAYS: [&str; 7] = [
    "auto", "none", "snappy", "zstd:1", "zstd:3", "zstd:9", "brotli:6",
];

/// Folder to which `benches/trained/setup.sh` downloads models.
const TRAINED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.interop/trained");

/// Standard deviation of the random weights, which is similar to that of trained layers.
const DEVIATION: f64 = 0.05;

fn main() -> Outcome<()> {
    let scale = scale(QUICK);
    let folder = scratch_folder()?;
    println!("On {} threads.\n", thread::available_parallelism()?);
    let models = trained()?;
    if models.is_empty() {
        println!("No trained weights: benches/trained/setup.sh gets them.\n");
    }
    println!("| message | compression | bytes | of the message | split s | merge s |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let times_less = usize::try_from(scale)?;
    let (bytes, constant) = (KIND_BYTES / times_less, CONSTANT_BYTES / times_less);
    let weights = constants("weights", &weights(bytes), constant);
    let quantised = constants("quantised", &quantised(bytes), constant);
    let text = constants("text", &text(bytes)?, constant);
    let nodes = small_nodes(NODES / scale);
    let all =
        [&weights, &quantised, &text, &nodes]
            .into_iter()
            .fold(Vec::new(), |mut all, graph| {
                // The concatenation of two serialized graphs is a graph with the nodes of both.
                all.extend(written(graph));
                all
            });
    let drawn = [
        ("drawn float32 weights", written(&weights)),
        ("drawn int8 weights", written(&quantised)),
        ("text", written(&text)),
        ("graph nodes", written(&nodes)),
        ("the four above", all),
    ];
    for (name, message) in models.into_iter().chain(drawn) {
        let options = SplitOptions::new()
            // Makes sure that a small message is cut, too.
            .max_chunk_size((MAX_CHUNK_SIZE / scale).min(message.len() as u64 / 2))
            .value_chunk_size(Some(constant as u64));
        measure(name, &message.into(), &options, folder.path())?;
    }
    Ok(())
}

/// Splits and merges a message with each compression, and prints one line for each.
fn measure(name: &str, message: &Bytes, options: &SplitOptions, folder: &Path) -> Outcome<()> {
    let descriptor = proto_splitter::proto::graph_def::descriptor_pool()
        .get_message_by_name(GRAPH_DEF)
        .ok_or("a type of the schema")?;
    let source = &Source::from_bytes(message.clone(), descriptor);
    let prefixes: Vec<PathBuf> = WAYS
        .iter()
        .map(|way| folder.join(way.replace(':', "-")))
        .collect();
    let mut contestants = Vec::new();
    for (way, prefix) in WAYS.iter().zip(&prefixes) {
        let compression: ChunkCompression = way.parse()?;
        let options = options.clone().compression(compression).force(true);
        let mut buffer = vec![1; message.len()];
        contestants.push(Contestant::timed([*way, ""], move || {
            let start = Instant::now();
            let written = GraphDefSplitter.write_with(source, prefix, &options)?;
            let split = start.elapsed();
            let start = Instant::now();
            ChunkedFile::open(&written.path)?.merge_into(&mut buffer, &ReadOptions::new())?;
            let merged = start.elapsed();
            if buffer == *message {
                Ok(vec![split, merged])
            } else {
                Err("the merged message differs".into())
            }
        }));
    }
    let times = in_turns(ROUNDS, &mut contestants)?;
    for ((way, prefix), times) in WAYS.iter().zip(&prefixes).zip(times.chunks(2)) {
        let file = prefix.with_extension("cpb");
        let size = fs::metadata(&file)?.len();
        let share = size as f64 * 100.0 / message.len() as f64;
        let [split, merge] = [&times[0], &times[1]].map(|times| times.best());
        println!("| {name} | {way} | {size} | {share:.1}% | {split:.3} | {merge:.3} |");
        fs::remove_file(file)?;
    }
    Ok(())
}

fn written(message: &Parts) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory doesn't fail.
    let _ = message.write_to(&mut bytes);
    bytes
}

/// An ONNX `ModelProto`. This type, and the types of its fields, have only the fields that this
/// benchmark reads: those on the path to the tensors.
#[derive(Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Message)]
struct Graph {
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<Tensor>,
}

#[derive(Message)]
struct Tensor {
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(bytes = "bytes", tag = "9")]
    raw_data: Bytes,
}

/// ONNX's numbers for the element types of tensors.
const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT8: i32 = 3;

/// Returns two graphs with the weights of trained models as constants: one with float32 weights,
/// and one with 8-bit weights. Returns an empty list if the models weren't downloaded.
fn trained() -> Outcome<Vec<(&'static str, Vec<u8>)>> {
    let mut tensors = Vec::new();
    for name in ["common.onnx", "common_det.onnx", "common_old.onnx"] {
        let path = Path::new(TRAINED).join(name);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let model = Model::decode(Bytes::from(fs::read(path)?))?;
        tensors.extend(model.graph.unwrap_or_default().initializer);
    }
    let of_types = |name, types: &[i32]| {
        let tensors = tensors.iter().filter(|t| types.contains(&t.data_type));
        let graph = graph("trained", tensors.map(|tensor| &tensor.raw_data[..]));
        (name, written(&graph))
    };
    Ok(vec![
        of_types("trained float32 weights", &[FLOAT]),
        of_types("trained 8-bit weights", &[UINT8, INT8]),
    ])
}

/// Returns a graph that stores `data` in constants of `bytes` bytes each.
fn constants(name: &str, data: &[u8], bytes: usize) -> Parts {
    graph(name, data.chunks(bytes))
}

/// Returns a graph with a constant for each item of `contents`.
fn graph<'a>(name: &str, contents: impl Iterator<Item = &'a [u8]>) -> Parts {
    let mut graph = Parts::new();
    for (at, content) in contents.enumerate() {
        let value = Parts::new().message(8, Parts::new().bytes(4, content));
        let attribute = Parts::new().text(1, "value").message(2, value);
        let node = Parts::new()
            .text(1, &format!("{name}_{at}"))
            .text(2, "Const")
            .message(5, attribute);
        graph = graph.message(1, node);
    }
    graph
}

/// Returns a normally distributed number with mean 0 and this standard deviation. As in a trained
/// weight, the whole mantissa is random.
#[allow(clippy::cast_possible_truncation, reason = "to the nearest float")]
fn normal(random: &mut Random, deviation: f64) -> f32 {
    let mut uniform = || (random.number() >> 11) as f64 / (1_u64 << 53) as f64;
    let (distance, angle) = (1.0 - uniform(), uniform() * TAU);
    ((-2.0 * distance.ln()).sqrt() * angle.cos() * deviation) as f32
}

fn weights(bytes: usize) -> Vec<u8> {
    let random = &mut Random::new(1);
    (0..bytes / 4)
        .flat_map(|_| normal(random, DEVIATION).to_le_bytes())
        .collect()
}

/// Returns normally distributed weights of one byte each, where 127 is four standard deviations.
#[allow(
    clippy::cast_possible_truncation,
    reason = "that is what quantising is"
)]
fn quantised(bytes: usize) -> Vec<u8> {
    let random = &mut Random::new(2);
    (0..bytes)
        .flat_map(|_| (normal(random, 127.0 / 4.0).round() as i8).to_le_bytes())
        .collect()
}

/// Returns `bytes` bytes of random text. Its words are from this repository's sources, and any two
/// consecutive words are also consecutive somewhere in the sources.
fn text(bytes: usize) -> Outcome<Vec<u8>> {
    let mut sources = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["crates", "docs"] {
        read_sources(&root.join(folder), &mut sources)?;
    }
    let sources = sources.concat();
    let words: Vec<&str> = sources.split_inclusive(char::is_whitespace).collect();
    let mut behind: HashMap<&str, Vec<&str>> = HashMap::new();
    for pair in words.windows(2) {
        behind.entry(pair[0]).or_default().push(pair[1]);
    }
    let random = &mut Random::new(3);
    let mut text = String::with_capacity(bytes + 1000);
    let mut word = *random.choose(&words);
    while text.len() < bytes {
        text.push_str(word);
        // The last word of the sources may have no successor. The text then continues with the
        // first word.
        word = behind
            .get(word)
            .map_or(words[0], |next| *random.choose(next));
    }
    let mut text = text.into_bytes();
    text.truncate(bytes);
    Ok(text)
}

/// Appends the text of all source files in a folder and its subfolders, in the order of their
/// names.
fn read_sources(folder: &Path, sources: &mut Vec<String>) -> Outcome<()> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            _ if path.is_dir() && !path.ends_with("target") => read_sources(&path, sources)?,
            Some("rs" | "md") => sources.push(fs::read_to_string(&path)?),
            _ => {}
        }
    }
    Ok(())
}
