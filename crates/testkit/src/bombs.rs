//! Small files that claim large sizes ("bombs"). On each of them, each command must end with a
//! result or a one-line error, and use little memory.
//!
//! All chunked files are valid record files with correct hashes, so a reader can only reject them
//! because of their content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use proto_splitter_core::path::{FieldPath, Step};
use proto_splitter_core::proto::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, VersionDef,
};
use proto_splitter_core::wire::put_varint;
use record_file::{Compression, RecordWriter, RecordsMetadata, WriterOptions};

/// The sizes that the bombs claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of repeated items, such as chunks or nodes.
    pub count: usize,
    /// Size, in bytes, of a value that compresses to a few bytes.
    pub size: usize,
    /// Nesting depth of messages.
    pub depth: usize,
    /// Size, in bytes, of a sparse file, which consists almost entirely of holes.
    pub sparse: u64,
}

impl Scale {
    /// Sizes that an attacker would choose.
    pub const WHOLE: Scale = Scale {
        count: 2_000_000,
        size: 64 << 20,
        depth: 200_000,
        sparse: 1 << 40,
    };
    /// Sizes for tests, which are 16 to 100 times smaller than those in [`WHOLE`](Scale::WHOLE).
    pub const SMALL: Scale = Scale {
        count: 20_000,
        size: 4 << 20,
        depth: 5_000,
        sparse: 1 << 36,
    };
}

/// A small file that claims large sizes, and the commands to try on it.
#[derive(Clone, Debug)]
pub struct Bomb {
    /// Short name, such as `chunk-infos`.
    pub name: &'static str,
    /// Path of the file.
    pub path: PathBuf,
    /// Commands to try on the file, each as its list of arguments. Their outputs are in the working
    /// folder, with names that start with `out`.
    pub commands: Vec<Vec<String>>,
}

/// Returns a length-delimited field with this number and value.
fn len(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = head(number, value.as_ref().len() as u64);
    out.extend_from_slice(value.as_ref());
    out
}

fn head(number: u64, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, number << 3 | 2);
    put_varint(&mut out, size);
    out
}

/// Wraps `of` in `depth` levels of nested messages, each in the field `number`. The result is built
/// from the outside in, so that `of` is copied only once.
fn nested(number: u64, of: &[u8], depth: usize) -> Vec<u8> {
    let mut heads = Vec::new();
    let mut size = of.len() as u64;
    for _ in 0..depth {
        let head = head(number, size);
        size += head.len() as u64;
        heads.push(head);
    }
    let mut out = Vec::new();
    heads.iter().rev().for_each(|head| out.extend(head));
    out.extend_from_slice(of);
    out
}

/// A chunked file under construction.
#[derive(Default)]
struct File {
    records: Vec<Vec<u8>>,
    metadata: ChunkMetadata,
    file_metadata: Option<Vec<u8>>,
}

impl File {
    /// Creates a file with a single chunk, which contains the whole message.
    fn of(message: Vec<u8>, message_type: &str) -> File {
        let mut file = File::default();
        file.metadata.version = Some(VersionDef {
            splitter_version: 1,
            ..Default::default()
        });
        file.metadata.message_type = message_type.into();
        file.chunk(message, 1);
        file.metadata.message = Some(ChunkedMessage {
            chunk_index: Some(0),
            ..Default::default()
        });
        file
    }

    fn chunk(&mut self, record: Vec<u8>, kind: i32) {
        self.metadata.chunks.push(ChunkInfo {
            r#type: kind,
            size: record.len() as u64,
            ..Default::default()
        });
        self.records.push(record);
    }

    fn fields(&mut self) -> &mut Vec<ChunkedField> {
        let message = self.metadata.message.get_or_insert_default();
        &mut message.chunked_fields
    }

    /// Returns the bytes of the file after `change` was applied to its trailer. Records and trailer
    /// are compressed as well as possible.
    fn bytes(mut self, change: impl FnOnce(&mut ChunkMetadata)) -> record_file::Result<Vec<u8>> {
        let mut options = WriterOptions::new().compression(Compression::zstd(9));
        if let Some(metadata) = self.file_metadata {
            options = options.serialized_metadata(metadata);
        }
        let mut writer = RecordWriter::new(Vec::new(), options)?;
        for (record, info) in self.records.iter().zip(&mut self.metadata.chunks) {
            let position = writer.write_record_alone(record, Compression::zstd(9))?;
            info.offset = position.numeric();
        }
        change(&mut self.metadata);
        writer.write_record_alone(&self.metadata.encode_to_vec(), Compression::zstd(9))?;
        writer.finish()
    }
}

const GRAPH: &str = "tensorflow.GraphDef";

fn model() -> Vec<u8> {
    len(1, len(1, "a"))
}

/// Returns serialized metadata for a record file. The metadata embeds the schema `files`, and
/// `message` as the name of the type.
fn schema(files: Vec<FileDescriptorProto>, message: &str) -> Vec<u8> {
    let set = FileDescriptorSet { file: files };
    [len(4, message), schema_fields(&set)].concat()
}

fn schema_fields(set: &FileDescriptorSet) -> Vec<u8> {
    set.file
        .iter()
        .flat_map(|file| len(5, file.encode_to_vec()))
        .collect()
}

/// Returns the commands to try on a chunked file, each as its list of arguments.
fn reading(path: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["info", path],
        vec!["ls", path],
        vec!["layout", path],
        vec!["verify", path],
        vec!["tree", path],
        vec!["schema", path],
        vec!["tensors", path],
        vec!["cat", path],
        vec!["cat", path, "--format", "json"],
        vec!["get", path, "versions.producer"],
        vec!["get", path, "node[0].name"],
        vec!["get", path, "1[0].1"],
        vec!["get", path, "node[0]", "--format", "json"],
        vec!["diff", path, path],
    ];
    commands.extend([
        vec!["merge", path, "-o", "out"],
        vec!["recompress", path, "-o", "out", "--compression", "none"],
        vec!["replace", path, "node[0].name", "--with", path, "-o", "out"],
        vec!["export", path, "-o", "out.safetensors"],
        vec!["pieces", path, "--field", "node", "-o", "out"],
        vec![
            "split",
            path,
            "--message",
            GRAPH,
            "-o",
            "out",
            "--max-chunk-size",
            "64KiB",
        ],
    ]);
    let own = |command: Vec<&str>| command.into_iter().map(str::to_owned).collect();
    commands.into_iter().map(own).collect()
}

/// Returns the commands to try on a plain message. The commands specify the message's type, since
/// the file doesn't.
fn of_plain(path: &str) -> Vec<Vec<String>> {
    let mut commands = reading(path);
    commands.retain(|command| !["info", "ls", "recompress"].contains(&command[0].as_str()));
    for command in &mut commands {
        if !["split", "layout", "verify", "merge"].contains(&command[0].as_str()) {
            command.extend(["--message".to_owned(), GRAPH.to_owned()]);
        }
    }
    let npy = [
        "get",
        path,
        "node[0].attr[\"value\"].tensor",
        "--format",
        "npy",
        "--message",
        GRAPH,
    ];
    commands.push(npy.map(str::to_owned).to_vec());
    commands
}

/// Writes all bombs to a folder, and returns them.
///
/// # Errors
///
/// If a file can't be written.
pub fn write(dir: &Path, scale: &Scale) -> io::Result<Vec<Bomb>> {
    let mut bombs = Vec::new();
    let other = |error: record_file::Error| io::Error::other(error.to_string());
    let mut add = |name: &'static str, extension: &str, bytes: Vec<u8>| {
        let path = dir.join(name).with_extension(extension);
        fs::write(&path, bytes)?;
        let text = path.to_string_lossy();
        let commands = match extension {
            "cpb" => reading(&text),
            _ => of_plain(&text),
        };
        bombs.push(Bomb {
            name,
            path,
            commands,
        });
        io::Result::Ok(())
    };
    for (name, file) in in_metadata(scale) {
        add(name, "cpb", file.bytes(|_| ()).map_err(other)?)?;
    }
    for (name, change) in in_trailers(scale) {
        let file = File::of(model(), GRAPH);
        add(name, "cpb", file.bytes(change).map_err(other)?)?;
    }
    for (name, message) in messages(scale) {
        let file = File::of(message.clone(), GRAPH);
        add(name, "cpb", file.bytes(|_| ()).map_err(other)?)?;
        let plain = format!("{name}-plain");
        add(Box::leak(plain.into_boxed_str()), "pb", message)?;
    }
    let zeros = len(99, vec![0; scale.size]);
    let mut amplified = File::of(model(), GRAPH);
    amplified.chunk(zeros, 1);
    for _ in 0..1_000_000 / 64 {
        amplified.fields().push(at(&FieldPath::root(), 1));
    }
    add("amplified", "cpb", amplified.bytes(|_| ()).map_err(other)?)?;
    bombs.push(sparse(dir, scale.sparse)?);
    bombs.push(as_text(dir, scale.depth)?);
    Ok(bombs)
}

fn at(path: &FieldPath, chunk: u64) -> ChunkedField {
    ChunkedField {
        field_tag: path.to_tags(),
        message: Some(ChunkedMessage {
            chunk_index: Some(chunk),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Returns chunked files whose embedded schemas claim large sizes or have infinitely nested types.
fn in_metadata(scale: &Scale) -> Vec<(&'static str, File)> {
    let with = |message: Vec<u8>, of: &str, metadata: Vec<u8>| {
        let mut file = File::of(message, of);
        file.file_metadata = Some(metadata);
        file
    };
    let many_imports = FileDescriptorProto {
        name: Some("a".into()),
        dependency: vec![String::new(); scale.size / 2],
        ..Default::default()
    };
    let chain = (0..scale.depth.min(20_000)).map(|at| FileDescriptorProto {
        name: Some(format!("{at}")),
        dependency: vec![format!("{}", at + 1)],
        ..Default::default()
    });
    let any = DescriptorPool::global();
    let any = any
        .get_file_by_name("google/protobuf/any.proto")
        .map(|file| file.file_descriptor_proto().clone());
    let any_type = "google.protobuf.Any";
    let mut message = Vec::new();
    let url = len(1, format!("type.googleapis.com/{any_type}"));
    for _ in 0..scale.depth.min(5_000) {
        message = [&url[..], &len(2, &message)].concat();
    }
    vec![
        (
            "schema-imports",
            with(model(), GRAPH, schema(vec![many_imports], GRAPH)),
        ),
        (
            "schema-chain",
            with(model(), "t.T", schema(chain.collect(), "t.T")),
        ),
        (
            "schema-of-zeros",
            with(model(), GRAPH, len(5, vec![0; scale.size])),
        ),
        (
            "schema-options",
            with(model(), GRAPH, len(6, "x").repeat(scale.count)),
        ),
        (
            "nested-any",
            with(
                message,
                any_type,
                schema(any.into_iter().collect(), any_type),
            ),
        ),
        (
            "metadata",
            with(model(), GRAPH, RecordsMetadata::default().serialize()),
        ),
    ]
}

type Change = Box<dyn FnOnce(&mut ChunkMetadata)>;

/// Returns changes to a trailer that increase its size in memory much more than its size in the
/// file.
fn in_trailers(scale: &Scale) -> Vec<(&'static str, Change)> {
    let Scale {
        count, size, depth, ..
    } = *scale;
    vec![
        (
            "bad-consumers",
            Box::new(move |metadata: &mut ChunkMetadata| {
                let version = metadata.version.get_or_insert_default();
                version.bad_consumers = vec![5; size / 2];
            }),
        ),
        (
            "chunk-infos",
            Box::new(move |metadata| {
                let info = metadata.chunks[0];
                metadata.chunks.resize(count, info);
            }),
        ),
        (
            "message-type",
            Box::new(move |metadata| metadata.message_type = "a".repeat(size)),
        ),
        (
            "chunked-fields",
            Box::new(move |metadata| {
                let message = metadata.message.get_or_insert_default();
                message.chunked_fields = vec![ChunkedField::default(); count];
            }),
        ),
        (
            "long-path",
            Box::new(move |metadata| {
                let mut path = FieldPath::root();
                (0..depth).for_each(|_| path.push(Step::index(1, 0)));
                let message = metadata.message.get_or_insert_default();
                message.chunked_fields = vec![at(&path, 0)];
            }),
        ),
        (
            "references",
            Box::new(move |metadata| {
                let message = metadata.message.get_or_insert_default();
                message.chunked_fields = vec![at(&FieldPath::root(), 0); count / 20];
            }),
        ),
        (
            "trailer-levels",
            Box::new(move |metadata| {
                metadata.trailer_level = 8;
                metadata.version.get_or_insert_default().join_version = 1;
                metadata.splice_marker = true;
                let message = metadata.message.take();
                metadata.extended_message = message;
            }),
        ),
    ]
}

/// Returns named GraphDefs in serialized form, each of which takes much more space in memory than
/// in the file.
fn messages(scale: &Scale) -> Vec<(&'static str, Vec<u8>)> {
    let Scale {
        count, size, depth, ..
    } = *scale;
    let node = |attr: Vec<u8>| {
        len(
            1,
            [len(1, "n"), len(5, [len(1, "value"), attr].concat())].concat(),
        )
    };
    let tensor = |content: Vec<u8>| node(len(2, len(8, content)));
    let shape = |dim: u64| {
        let mut out = vec![8];
        put_varint(&mut out, dim);
        len(2, len(2, out))
    };
    let element = [len(2, "s"), len(8, [8, 1])].concat();
    vec![
        (
            "packed",
            tensor([vec![8, 3], shape(size as u64), len(7, vec![1; size])].concat()),
        ),
        (
            "dims",
            tensor([vec![8, 1], shape(1 << 48), len(5, [0, 0, 128, 63])].concat()),
        ),
        ("oneofs", node(len(2, element.repeat(count)))),
        ("empty-elements", len(1, []).repeat(5 * count)),
        (
            "one-key",
            len(
                1,
                len(5, [len(1, "k"), len(2, len(2, "v"))].concat()).repeat(count),
            ),
        ),
        ("groups", [0x9b, 6].repeat(depth)),
        ("nested-messages", nested(2, &[], depth.min(20_000))),
        ("strings", len(1, len(3, "").repeat(5 * count))),
    ]
}

/// Writes a GraphDef with one large value, which is a hole in the file.
fn sparse(dir: &Path, size: u64) -> io::Result<Bomb> {
    let path = dir.join("sparse.pb");
    let mut bytes = [vec![8, 1], head(4, size)].concat();
    for (number, before) in [
        (8, vec![]),
        (2, len(1, "value")),
        (5, len(1, "n")),
        (1, vec![]),
    ] {
        let inner = bytes.len() as u64 + size;
        bytes = [before, head(number, inner), bytes].concat();
    }
    fs::write(&path, &bytes)?;
    let file = fs::OpenOptions::new().write(true).open(&path)?;
    file.set_len(bytes.len() as u64 + size)?;
    let text = path.to_string_lossy();
    // Omits commands that read or write the whole file, since their time is proportional to its
    // size.
    let mut commands = of_plain(&text);
    commands.retain(|command| {
        let reads_all = [
            "verify", "diff", "merge", "export", "split", "pieces", "layout",
        ];
        !reads_all.contains(&command[0].as_str())
            && !command.iter().any(|arg| arg == "json" || arg == "npy")
            && command[0] != "cat"
            && command[0] != "replace"
    });
    Ok(Bomb {
        name: "sparse",
        path,
        commands,
    })
}

/// Writes a SavedModel in text format, with deeply nested messages.
fn as_text(dir: &Path, depth: usize) -> io::Result<Bomb> {
    let folder = dir.join("text");
    fs::create_dir_all(&folder)?;
    let start = "meta_graphs { graph_def { node { attr { key: \"f\" value { ";
    let open = "func { attr { key: \"f\" value { ".repeat(depth);
    fs::write(folder.join("saved_model.pbtxt"), [start, &open].concat())?;
    let text = folder.to_string_lossy();
    let commands = [
        "info",
        "tree",
        "cat",
        "schema",
        "tensors",
        "fingerprint",
        "verify",
    ];
    let mut commands: Vec<Vec<String>> = commands
        .map(|command| vec![command.to_owned(), text.clone().into_owned()])
        .to_vec();
    let convert = ["convert", &text, "out", "--to", "cpb"];
    commands.push(convert.map(str::to_owned).to_vec());
    Ok(Bomb {
        name: "text",
        path: folder.clone(),
        commands,
    })
}
