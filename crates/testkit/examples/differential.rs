//! Merges random chunked files with this library and with TensorFlow's Merger, and reports every
//! kind of difference: `differential TF_READ CASES [SEED [FOLDER]]`. `tests/interop/setup.sh`
//! builds TF_READ. If the two merges of a file differ without a known reason, the file, this
//! library's merge, and both merges in TensorFlow's deterministic form are copied to FOLDER.
//!
//! TensorFlow also reads this library's merge, and writes both messages in its deterministic form.
//! The messages are equal if their deterministic forms are equal.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool of the tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use prost::Message;
use proto_splitter_core::merge::{Merger, ReadOptions};
use proto_splitter_core::path::{FieldPath, MapKey, Select, Step};
use proto_splitter_core::proto::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, VersionDef,
};
use proto_splitter_core::wire::put_varint;
use proto_splitter_graph_def::{GRAPH_DEF, proto::descriptor_pool};
use record_file::{Compression, RecordWriter, WriterOptions};

/// Number of files in a batch: they are all written before TensorFlow reads them.
const BATCH: u64 = 200;

/// Of the files that this library rejects, TensorFlow only reads one in this number.
const ASKED: u64 = 100;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

fn len(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, number << 3 | 2);
    put_varint(&mut out, value.as_ref().len() as u64);
    out.extend_from_slice(value.as_ref());
    out
}

fn int(number: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, number << 3);
    put_varint(&mut out, value);
    out
}

/// The message types in a GraphDef that the random files use.
#[derive(Clone, Copy)]
enum Type {
    Graph,
    Node,
    Attr,
    Tensor,
    List,
    Library,
    Function,
    Signature,
    Versions,
    ArgAttrs,
}

const KEYS: [&str; 3] = ["a", "value", ""];
const TEXTS: [&str; 5] = ["", "a", "bc", "7", "x/y"];

/// Returns random serialized fields of a message of type `of`, in most cases sorted by number.
fn fields(random: &mut Random, of: Type, depth: u32) -> Vec<u8> {
    let most = if depth == 0 { 2 } else { 5 };
    let mut all: Vec<(u64, Vec<u8>)> = (0..random.below(most))
        .map(|_| field(random, of, depth))
        .collect();
    if random.below(4) > 0 {
        all.sort_by_key(|(number, _)| *number);
    }
    all.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn field(random: &mut Random, of: Type, depth: u32) -> (u64, Vec<u8>) {
    let text = random.one_of(&TEXTS);
    let value = 1 + random.below(9);
    let mut inner = |of: Type| match depth {
        0 => Vec::new(),
        _ => fields(random, of, depth - 1),
    };
    let made = match of {
        Type::Graph => [
            (1, len(1, inner(Type::Node))),
            (1, len(1, inner(Type::Node))),
            (2, len(2, inner(Type::Library))),
            (3, int(3, value)),
            (4, len(4, inner(Type::Versions))),
        ]
        .to_vec(),
        Type::Node => {
            let attr = inner(Type::Attr);
            let key = random.one_of(&KEYS);
            [
                (1, len(1, text)),
                (2, len(2, text)),
                (3, len(3, text)),
                (5, len(5, [len(1, key), len(2, attr)].concat())),
                (77, len(77, text)),
            ]
            .to_vec()
        }
        Type::Attr => [
            (1, len(1, inner(Type::List))),
            (2, len(2, text)),
            (3, int(3, value)),
            (8, len(8, inner(Type::Tensor))),
            (8, len(8, inner(Type::Tensor))),
        ]
        .to_vec(),
        Type::Tensor => [
            (1, int(1, value)),
            (4, len(4, text)),
            (5, len(5, [0, 0, 128, 63])),
            (8, len(8, text)),
            (7, int(7, value)),
        ]
        .to_vec(),
        Type::List => [
            (2, len(2, text)),
            (3, int(3, value)),
            (3, len(3, [1, 2])),
            (8, len(8, inner(Type::Tensor))),
        ]
        .to_vec(),
        Type::Library => [
            (1, len(1, inner(Type::Function))),
            (1, len(1, inner(Type::Function))),
            (2, len(2, [len(1, text), len(2, "g")].concat())),
        ]
        .to_vec(),
        Type::Function => {
            let (attr, args) = (inner(Type::Attr), inner(Type::ArgAttrs));
            let key = random.one_of(&KEYS);
            let number = random.below(2);
            [
                (1, len(1, fields(random, Type::Signature, 0))),
                (3, len(3, fields(random, Type::Node, depth.min(1)))),
                (4, len(4, [len(1, key), len(2, text)].concat())),
                (5, len(5, [len(1, key), len(2, attr)].concat())),
                (7, len(7, [int(1, number), len(2, args)].concat())),
            ]
            .to_vec()
        }
        Type::Signature => [(1, len(1, text)), (5, len(5, text)), (17, int(17, 1))].to_vec(),
        Type::Versions => [(1, int(1, value)), (2, int(2, value)), (3, int(3, value))].to_vec(),
        Type::ArgAttrs => {
            let attr = inner(Type::Attr);
            [(1, len(1, [len(1, "k".as_bytes()), len(2, attr)].concat()))].to_vec()
        }
    };
    let at = usize::try_from(random.below(made.len() as u64)).unwrap();
    made[at].clone()
}

/// Returns a random path that TensorFlow's Merger can follow from a message of type `from`; the
/// type of the message at its end (`None` for a scalar); and the text of the chunk to put at a
/// scalar.
fn place(random: &mut Random, from: Type) -> (FieldPath, Option<Type>, &'static str) {
    let (mut path, mut at) = (FieldPath::root(), from);
    let key = |key: &str| MapKey::String(key.into());
    loop {
        let text = TEXTS[usize::try_from(random.below(5)).unwrap()];
        if random.below(4) == 0 || path.steps().len() > 5 {
            return (path, Some(at), "");
        }
        let index = random.below(2);
        let (step, next) = match (at, random.below(3)) {
            (Type::Graph, 0) => (Step::index(1, index), Type::Node),
            (Type::Graph, 1) => (Step::field(2), Type::Library),
            (Type::Graph, _) => (Step::field(4), Type::Versions),
            (Type::Node, 0) => return (path.join(Step::field(1)), None, text),
            (Type::Node | Type::Function, 1 | 2) => {
                (Step::key(5, key(random.one_of(&KEYS))), Type::Attr)
            }
            (Type::Attr, 0) => (Step::field(1), Type::List),
            (Type::Attr, 1) => return (path.join(Step::field(2)), None, text),
            (Type::Attr, _) => (Step::field(8), Type::Tensor),
            (Type::Tensor, _) => return (path.join(Step::field(4)), None, text),
            (Type::List, _) => (Step::index(8, index), Type::Tensor),
            (Type::Library, _) => (Step::index(1, index), Type::Function),
            (Type::Function, 0) if index == 0 => (Step::field(1), Type::Signature),
            (Type::Function, _) => (Step::index(3, index), Type::Node),
            (Type::Versions, _) => return (path.join(Step::field(1)), None, "12"),
            _ => return (path, Some(at), ""),
        };
        path.push(step);
        at = next;
    }
}

#[derive(Default)]
struct File {
    chunks: Vec<Vec<u8>>,
    metadata: ChunkMetadata,
    /// True if two fields in the same list have paths that are equal up to and including a map key.
    /// TensorFlow doesn't define the order of such fields.
    shares_a_key: bool,
    /// True if two fields in the same list have equal paths, and at least one of them has nested
    /// fields.
    is_named_twice: bool,
}

impl File {
    fn add(&mut self, kind: i32, chunk: Vec<u8>) -> u64 {
        self.metadata.chunks.push(ChunkInfo {
            r#type: kind,
            size: chunk.len() as u64,
            ..Default::default()
        });
        self.chunks.push(chunk);
        self.chunks.len() as u64 - 1
    }

    fn fields(&mut self, random: &mut Random, from: Type, depth: u32) -> Vec<ChunkedField> {
        let mut list: Vec<(FieldPath, ChunkedField)> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let again = random.below(12) == 0 && !list.is_empty();
            let (path, of, text) = place(random, from);
            let (path, of) = if again && of.is_some() {
                let known = list.iter().find(|(_, field)| !is_text(self, field));
                match known {
                    Some((path, _)) => (path.clone(), type_at(from, path)),
                    None => (path, of),
                }
            } else {
                (path, of)
            };
            let index = match of {
                Some(of) => {
                    let chunk = fields(random, of, 2);
                    self.add(1, chunk)
                }
                None => self.add(2, text.into()),
            };
            let below = match of {
                // An empty path gets no nested fields, since TensorFlow ignores them.
                Some(of) if depth > 0 && !path.is_root() && random.below(4) == 0 => {
                    self.fields(random, of, depth - 1)
                }
                _ => Vec::new(),
            };
            let field = ChunkedField {
                field_tag: path.to_tags(),
                message: Some(ChunkedMessage {
                    chunk_index: Some(index),
                    chunked_fields: below,
                }),
                ..Default::default()
            };
            list.push((path, field));
        }
        for (at, (path, field)) in list.iter().enumerate() {
            for (other, beside) in &list[..at] {
                let alike = path.steps().iter().zip(other.steps());
                let mut alike = alike.take_while(|(a, b)| a == b);
                self.shares_a_key |= alike.any(|(step, _)| matches!(step.select, Select::Key(_)));
                let has_below = [field, beside].iter().any(|field| {
                    let message = field.message.as_ref().unwrap();
                    !message.chunked_fields.is_empty()
                });
                self.is_named_twice |= path == other && has_below;
            }
        }
        list.into_iter().map(|(_, field)| field).collect()
    }

    fn at_random(random: &mut Random) -> File {
        let mut file = File::default();
        file.metadata.version = Some(VersionDef {
            splitter_version: 1,
            ..Default::default()
        });
        let base = fields(random, Type::Graph, 5);
        let index = (random.below(8) > 0).then(|| file.add(1, base));
        let chunked_fields = file.fields(random, Type::Graph, 2);
        file.metadata.message = Some(ChunkedMessage {
            chunk_index: index,
            chunked_fields,
        });
        file
    }

    fn write(&mut self, path: &Path) {
        let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
        for (chunk, info) in self.chunks.iter().zip(&mut self.metadata.chunks) {
            writer.write_record_alone(chunk, Compression::None).unwrap();
            info.offset = writer.last_position().unwrap().numeric();
        }
        let last = self.metadata.encode_to_vec();
        writer.write_record_alone(&last, Compression::None).unwrap();
        fs::write(path, writer.finish().unwrap()).unwrap();
    }
}

fn is_text(file: &File, field: &ChunkedField) -> bool {
    let index = field
        .message
        .as_ref()
        .and_then(|message| message.chunk_index);
    index.is_some_and(|index| file.metadata.chunks[usize::try_from(index).unwrap()].r#type == 2)
}

/// Returns the type of the message at the end of a path that [`place`] returned; `None` for a
/// scalar.
fn type_at(from: Type, path: &FieldPath) -> Option<Type> {
    path.steps().iter().try_fold(from, |at, step| {
        Some(match (at, step.field.0) {
            (Type::Graph, 1) | (Type::Function, 3) => Type::Node,
            (Type::Graph, 2) => Type::Library,
            (Type::Graph, 4) => Type::Versions,
            (Type::Node | Type::Function, 5) => Type::Attr,
            (Type::Attr, 1) => Type::List,
            (Type::Attr | Type::List, 8) => Type::Tensor,
            (Type::Library, 1) => Type::Function,
            (Type::Function, 1) => Type::Signature,
            _ => return None,
        })
    })
}

/// A TensorFlow process that reads files one after another. It is restarted if it aborts.
struct Tensorflow {
    program: String,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Tensorflow {
    /// Lets TensorFlow read the file on each line. Returns TensorFlow's answer for each file, or
    /// "aborted" if the process ended.
    fn read(&mut self, lines: &[String]) -> Vec<String> {
        let mut answers = Vec::new();
        while answers.len() < lines.len() {
            let (child, input, output) = self.running.get_or_insert_with(|| {
                let mut command = Command::new(&self.program);
                command.env("TF_CPP_MIN_LOG_LEVEL", "3");
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.stderr(Stdio::null()).spawn().unwrap();
                let input = child.stdin.take().unwrap();
                let output = BufReader::new(child.stdout.take().unwrap());
                (child, input, output)
            });
            // This can't block: the pipes have room for all lines of a batch and for TensorFlow's
            // answers.
            let all = lines[answers.len()..].concat();
            let _ = input.write_all(all.as_bytes()).and_then(|()| input.flush());
            let mut ended = false;
            while answers.len() < lines.len() && !ended {
                let mut line = String::new();
                ended = output.read_line(&mut line).unwrap() == 0;
                answers.push(if ended { "aborted".into() } else { line });
            }
            if ended {
                let _ = child.wait();
                self.running = None;
            }
        }
        answers
    }
}

/// Returns the last part of an error's text, without its numbers and quoted names, to group errors.
fn shape(text: &str) -> String {
    let last = text.trim_end().rsplit(": ").next().unwrap_or_default();
    let mut parts = last.split('"').step_by(2).collect::<Vec<_>>().join("..");
    parts.retain(|c| !c.is_ascii_digit());
    parts.chars().take(90).collect()
}

fn is_unexplained(what: &str) -> bool {
    (what.starts_with("DIFFERENT") || what.starts_with("ours is no")) && !what.contains('(')
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, program, cases, rest @ ..] = &args[..] else {
        println!("usage: differential TF_READ CASES [SEED [FOLDER]]");
        return;
    };
    let cases: u64 = cases.parse().unwrap();
    let seed: u64 = rest.first().map_or(1, |seed| seed.parse().unwrap());
    let options = ReadOptions::new().descriptor(descriptor_pool().get_message_by_name(GRAPH_DEF));
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let mut tensorflow = Tensorflow {
        program: program.clone(),
        running: None,
    };
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut number = 0;
    while number < cases {
        let mut asked = Vec::new();
        let mut lines = Vec::new();
        for at in 0..BATCH.min(cases - number) {
            let case = seed.wrapping_mul(1 << 40) + number + at;
            let mut random = Random(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            random.below(2);
            let mut file = File::at_random(&mut random);
            let prefix = dir.path().join(at.to_string());
            let path = prefix.with_extension("cpb");
            file.write(&path);
            let merged = Merger::new().options(&options).merge_to_bytes(&prefix);
            let ours = match merged {
                Ok(bytes) => {
                    fs::write(dir.path().join(format!("{at}-ours.pb")), bytes).unwrap();
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = &ours
                && (error.contains("out of range") || !case.is_multiple_of(ASKED))
            {
                // Skips TensorFlow, since it aborts on most of these files, and a restart takes a
                // second.
                let what = format!("only ours was asked: {}", shape(error));
                found.entry(what).or_insert((0, case)).0 += 1;
                continue;
            }
            let line = |name: &str, out: &str| {
                let dir = dir.path().display();
                format!("{dir}/{name}\tgraphdef\t{dir}/{out}\n")
            };
            lines.push(line(&at.to_string(), &format!("{at}.tf")));
            if ours.is_ok() {
                lines.push(line(&format!("{at}-ours"), &format!("{at}.ours")));
            }
            asked.push((case, at, file, ours));
        }
        let mut answers = tensorflow.read(&lines).into_iter();
        for (case, at, file, ours) in asked {
            let theirs = answers.next().unwrap();
            let read_ours = ours.is_ok().then(|| answers.next().unwrap());
            let read = |out: &str| fs::read(dir.path().join(format!("{at}.{out}"))).unwrap();
            let theirs = match theirs.split('\t').next() {
                Some("ok") => Ok(read("tf")),
                Some("refused") => Err(shape(theirs.split('\t').nth(2).unwrap_or_default())),
                _ => Err("aborted".into()),
            };
            let mut what = match (&ours, theirs) {
                (Ok(()), Ok(bytes)) if read_ours.is_none_or(|line| !line.starts_with("ok")) => {
                    format!(
                        "ours is not a message to TensorFlow, which has {} bytes",
                        bytes.len()
                    )
                }
                (Ok(()), Ok(bytes)) if bytes == read("ours") => "same".into(),
                (Ok(()), Ok(_)) => "DIFFERENT".into(),
                (Ok(()), Err(error)) => format!("only TensorFlow: {error}"),
                (Err(error), Ok(_)) => format!("only ours: {}", shape(error)),
                (Err(error), Err(other)) => format!("both: {} | {other}", shape(error)),
            };
            if what != "same" {
                for (is, why) in [
                    (file.shares_a_key, " (a map key is shared)"),
                    (file.is_named_twice, " (a path is named twice)"),
                ] {
                    what += if is { why } else { "" };
                }
            }
            if let (true, Some(folder)) = (is_unexplained(&what), rest.get(1)) {
                for end in [".cpb", "-ours.pb", ".tf", ".ours"] {
                    let from = dir.path().join(format!("{at}{end}"));
                    let _ = fs::copy(from, Path::new(folder).join(format!("{case}{end}")));
                }
            }
            let row = found.entry(what).or_insert((0, case));
            row.0 += 1;
        }
        number += BATCH.min(cases - number);
    }
    println!("{cases} cases");
    for (what, (count, first)) in &found {
        println!("{count:>9}  {what}; first: {first}");
    }
    let wrong = found.iter().filter(|(what, _)| is_unexplained(what));
    let wrong: u64 = wrong.map(|(_, row)| row.0).sum();
    println!("{wrong} differ without a known reason");
    std::process::exit(i32::from(wrong > 0));
}
