//! Tests that stored checksums are verified in every format whenever all bytes that they cover are
//! read. If a bit in a file is flipped, a verb that reads the file must fail, or its result must
//! not change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ChunkStore;
use proto_splitter::onnx::proto::StringStringEntryProto;
use proto_splitter::prost::Message;
use proto_splitter::record_file::{Compression, RecordWriter, WriterOptions};
use proto_splitter_samediff::{Draft, Model, SameDiffWriteOptions, ZipCompression};
use proto_splitter_testkit::generate::Random;
use protosplit_cli::Exit;
use sha1::{Digest, Sha1};

use crate::support::{Dir, files, fixture, run_all};

/// Number of bits to flip in each input for each verb.
const FLIPS: usize = 24;

/// A model, its files that checksums cover, and the verbs that read all of these files.
struct Input {
    name: &'static str,
    /// Path of the model, relative to the folder that `make` fills.
    argument: &'static str,
    /// Files that checksums cover; if empty, all files in the folder.
    covered: &'static [&'static str],
    /// Command lines, in which `IN` is the model, `TWIN` is an undamaged copy, and `OUT/NAME` is an
    /// output.
    verbs: &'static [&'static str],
    make: fn(&Path),
}

const INPUTS: &[Input] = &[
    Input {
        name: "file in chunks of the default compression",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, ""),
    },
    Input {
        name: "file in uncompressed chunks",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, " --compression none"),
    },
    Input {
        name: "file in chunks of brotli",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, " --compression brotli"),
    },
    Input {
        name: "file in chunks of snappy",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, " --compression snappy"),
    },
    Input {
        name: "file in transposed chunks",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, " --records transpose,zstd"),
    },
    Input {
        name: "extended profile",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, " --profile extended --compression zstd:1"),
    },
    Input {
        name: "several files in uncompressed chunks",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, &format!("{SEVERAL} --compression none")),
    },
    Input {
        name: "several files in chunks of brotli",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, &format!("{SEVERAL} --compression brotli:1")),
    },
    Input {
        name: "several files in chunks of snappy",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, &format!("{SEVERAL} --compression snappy")),
    },
    Input {
        name: "several files in chunks of zstd",
        argument: "model.cpb",
        covered: &[],
        verbs: IN_CHUNKS,
        make: |folder| in_chunks(folder, &format!("{SEVERAL} --compression zstd:1")),
    },
    Input {
        name: "checkpoint",
        argument: "variables",
        covered: &["variables.data-00000-of-00001"],
        verbs: &[
            "verify IN",
            "export IN -o OUT/a.npz",
            "export IN -o OUT/a.safetensors",
        ],
        make: checkpoint,
    },
    Input {
        name: "externalized model",
        argument: "runs",
        covered: &[
            "runs/saved_model.pb",
            "runs/assets/proto_splitter_constants.data-00000-of-00001",
            "runs/assets.extra/proto_splitter_original.pb",
        ],
        verbs: EXTERNALIZED,
        make: |folder| externalized(folder, ""),
    },
    Input {
        name: "externalized model whose constants are mapped",
        argument: "runs",
        covered: &[
            "runs/saved_model.pb",
            "runs/assets.extra/proto_splitter_original.pb",
        ],
        verbs: &[
            "verify IN",
            "internalize IN -o OUT/back",
            "merge IN -o OUT/m.pb",
        ],
        make: |folder| externalized(folder, " --mmap"),
    },
    Input {
        name: "SameDiff archive of stored entries",
        argument: "model.zip",
        covered: &["model.zip"],
        verbs: SAMEDIFF,
        make: stored_archive,
    },
    Input {
        name: "SameDiff archive of deflated entries",
        argument: "model.zip",
        covered: &["model.zip"],
        verbs: SAMEDIFF,
        make: deflated_archive,
    },
    Input {
        name: "ONNX model with checksums of its data",
        argument: "model.onnx",
        covered: &["weights"],
        verbs: &[
            "verify IN",
            "split IN -o OUT/m --max-chunk-size 4KiB",
            "convert IN -o OUT/m.onnx --to onnx",
            "convert IN -o OUT/m.onnx --to external",
            "export IN -o OUT/a.npz",
            "export IN -o OUT/a.safetensors",
            "diff IN TWIN",
        ],
        make: onnx_pair,
    },
    Input {
        name: "split proto",
        argument: "module.riegeli",
        covered: &["module.riegeli"],
        verbs: &[
            "verify IN",
            "merge IN -o OUT/m.pb",
            "split IN -o OUT/m --max-chunk-size 1KiB",
            "convert IN -o OUT/m.riegeli --to split-proto",
            "convert IN -o OUT/m.cpb",
            "export IN -o OUT/a.npz",
            "strip IN --over 1KiB -o OUT/m.pb",
            "diff IN TWIN",
            "verify TWIN --against IN",
        ],
        make: split_proto,
    },
    Input {
        name: "executable",
        argument: "executable.aot",
        covered: &["executable.aot"],
        verbs: &[
            "verify IN",
            "merge IN -o OUT/m.pb",
            "convert IN -o OUT/m.riegeli --to split-proto",
            "diff IN TWIN",
        ],
        make: executable,
    },
];

/// Options for a split into several files.
const SEVERAL: &str = " --profile extended --max-file-size 64KiB";

const IN_CHUNKS: &[&str] = &[
    "verify IN",
    "verify IN --deep",
    "merge IN -o OUT/m.pb",
    "merge IN --canonical -o OUT/m.pb",
    "export IN -o OUT/a.npz",
    "recompress IN -o OUT/m.cpb --compression zstd:1",
    "strip IN --over 1KiB -o OUT/m.pb",
    "edit IN --remove meta_graphs[0].graph_def.node[1] -o OUT/m.cpb",
    "diff IN TWIN",
];

const EXTERNALIZED: &[&str] = &[
    "verify IN",
    "internalize IN -o OUT/back",
    "export IN -o OUT/a.npz",
    "merge IN -o OUT/m.pb",
    "diff IN TWIN",
];

const SAMEDIFF: &[&str] = &[
    "verify IN",
    "export IN -o OUT/a.npz",
    "export IN -o OUT/a.safetensors",
    "convert IN -o OUT/m.fb --to fb",
    "convert IN -o OUT/m.zip --to samediff",
    "samediff dedup IN -o OUT/m.zip",
];

fn words(line: &str, input: &Path, twin: &Path, out: &Path) -> Vec<PathBuf> {
    let word = |word: &str| match word {
        "IN" => input.to_owned(),
        "TWIN" => twin.to_owned(),
        _ => match word.strip_prefix("OUT/") {
            Some(name) => out.join(name),
            None => word.into(),
        },
    };
    line.split(' ').map(word).collect()
}

fn ran(words: &[PathBuf]) -> crate::support::Ran {
    run_all(words.iter().map(|word| word as &dyn AsRef<Path>))
}

fn in_chunks(folder: &Path, options: &str) {
    let model = fixture("functions_consts").join("saved_model.pb");
    let target = folder.join("model");
    let line = "split IN -o TWIN --message tensorflow.SavedModel --max-chunk-size 16KiB";
    let words = words(&format!("{line}{options}"), &model, &target, folder);
    assert_eq!(ran(&words).exit, Exit::Done);
}

fn checkpoint(folder: &Path) {
    let source = fixture("keras_mlp/variables/variables");
    for extension in ["index", "data-00000-of-00001"] {
        let to = folder.join("variables").with_extension(extension);
        fs::copy(source.with_extension(extension), to).unwrap();
    }
}

fn externalized(folder: &Path, options: &str) {
    let (model, runs) = (fixture("functions_consts"), folder.join("runs"));
    let line = format!("externalize IN -o TWIN --min-size 1KiB{options}");
    let words = words(&line, &model, &runs, folder);
    assert_eq!(ran(&words).exit, Exit::Done);
}

fn stored_archive(folder: &Path) {
    archive(folder, ZipCompression::Stored);
}

fn deflated_archive(folder: &Path) {
    archive(folder, ZipCompression::Deflated);
}

fn archive(folder: &Path, compression: ZipCompression) {
    let dir = Dir::new();
    let draft = Draft::open(&Model::open(crate::samediff::model(&dir)).unwrap()).unwrap();
    let options = SameDiffWriteOptions::new().compression(compression);
    draft.write(folder.join("model.zip"), &options).unwrap();
}

/// Creates a model whose tensors are in an external file, with the SHA-1 of that file.
fn onnx_pair(folder: &Path) {
    let mut model = crate::onnx::model();
    let tensors = &mut model.graph.as_mut().unwrap().initializer;
    let taken = tensors.iter_mut().map(|tensor| tensor.raw_data.take());
    let contents: Vec<_> = taken.map(Option::unwrap).collect();
    let data = contents.concat();
    let sum = Sha1::digest(&data);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut offset = 0;
    for (tensor, bytes) in tensors.iter_mut().zip(&contents) {
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value),
        };
        tensor.external_data = vec![
            entry("location", "weights".into()),
            entry("offset", offset.to_string()),
            entry("length", bytes.len().to_string()),
            entry("checksum", hex.clone()),
        ];
        tensor.data_location = Some(1);
        offset += bytes.len();
    }
    fs::write(folder.join("model.onnx"), model.encode_to_vec()).unwrap();
    fs::write(folder.join("weights"), data).unwrap();
}

fn split_proto(folder: &Path) {
    let module = fixture("../xla/jax01201_dtypes_before.riegeli");
    fs::copy(module, folder.join("module.riegeli")).unwrap();
}

fn executable(folder: &Path) {
    let executable = fixture("../xla/aot/jax01201_cuda_h100_ew.aot");
    fs::copy(executable, folder.join("executable.aot")).unwrap();
}

/// Returns the number of bytes at the start of a file that checksums cover. In an archive, these
/// are the entries without the directory.
fn covered_len(name: &str, bytes: &[u8]) -> u64 {
    let end = bytes.len().saturating_sub(22);
    match name.strip_suffix(".zip") {
        Some(_) => u64::from(u32::from_le_bytes(
            bytes[end + 16..end + 20].try_into().unwrap(),
        )),
        None => bytes.len() as u64,
    }
}

/// Returns the names and contents of the files in a folder and its subfolders.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (name.clone(), fs::read(folder.join(&name)).unwrap());
    files(folder).into_iter().map(read).collect()
}

#[test]
fn no_verb_of_any_format_takes_a_flipped_bit_for_a_sound_byte() {
    let mut random = Random::new(31);
    for input in INPUTS {
        let (dir, twin) = (Dir::new(), Dir::new());
        (input.make)(&dir.path(""));
        (input.make)(&twin.path(""));
        let covered: Vec<String> = match input.covered {
            [] => dir.files(),
            some => some.iter().map(ToString::to_string).collect(),
        };
        let sound = |name: &String| fs::read(dir.path(name)).unwrap();
        let sound: Vec<Vec<u8>> = covered.iter().map(sound).collect();
        let mut refused = 0;
        for line in input.verbs {
            let run = || {
                let out = Dir::new();
                let [given, other] = [&dir, &twin].map(|dir| dir.path(input.argument));
                let ran = ran(&words(line, &given, &other, &out.path("")));
                (ran, contents(&out.path("")))
            };
            let (expected, written) = run();
            assert_eq!(expected.exit, Exit::Done, "{line}: {expected:?}");
            for _ in 0..FLIPS {
                let which = random.below(sound.len() as u64);
                let which = usize::try_from(which).unwrap();
                let (file, mut bytes) = (dir.path(&covered[which]), sound[which].clone());
                let len = covered_len(&covered[which], &bytes);
                let at = usize::try_from(random.below(len)).unwrap();
                bytes[at] ^= 1 << random.below(8);
                fs::write(&file, &bytes).unwrap();
                let (ran, outputs) = run();
                let what = format!(
                    "{}: {line}: a bit at {at} of {}",
                    input.name,
                    file.display()
                );
                if ran.exit == Exit::Done {
                    assert!(outputs == written, "{what}: {ran:?}");
                } else {
                    assert!(outputs.is_empty(), "{what}: left {:?}", outputs.keys());
                    refused += 1;
                }
                fs::write(&file, &sound[which]).unwrap();
            }
        }
        let all = FLIPS * input.verbs.len();
        // Flips in names, padding or redundant data don't cause an error.
        assert!(refused * 4 > all, "{}: {refused} of {all}", input.name);
    }
}

/// Splits an input into the file `model.cpb` in a folder.
fn split_again(input: &Path, folder: &Path, options: &str) {
    let line = format!("split IN -o TWIN --max-chunk-size 1KiB --profile extended{options}");
    let words = words(&line, input, &folder.join("model"), folder);
    assert_eq!(ran(&words).exit, Exit::Done);
}

/// Rewrites a chunked file so that only the checksum of the whole message is wrong. The records,
/// the chunks and their checksums stay valid.
fn with_checksum_of_another_message(path: &Path) {
    let file = ChunkedFile::open(path).unwrap();
    let mut metadata = file.trailer().metadata().clone();
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    for (at, info) in metadata.chunks.iter_mut().enumerate() {
        let mut chunk = vec![0; usize::try_from(file.size(at)).unwrap()];
        file.read_into(at, &mut chunk).unwrap();
        let written = writer.write_record_alone(&chunk, Compression::None);
        written.unwrap();
        info.offset = writer.last_position().unwrap().numeric();
    }
    metadata.source_crc32c = Some(metadata.source_crc32c.unwrap() ^ 1);
    let trailer = metadata.encode_to_vec();
    writer.write_record(&trailer).unwrap();
    fs::remove_file(path).unwrap();
    fs::write(path, writer.finish().unwrap()).unwrap();
}

/// Command lines that merge the chunks of a message of any type.
const OF_ANY_MESSAGE: &[&str] = &[
    "verify IN",
    "verify IN --deep",
    "merge IN -o OUT/m.pb",
    "merge IN --canonical -o OUT/m.pb",
    "get IN . -o OUT/m.pb",
    "recompress IN -o OUT/m.cpb --compression zstd:1",
];

/// The name of an input, a function that creates its `model.cpb` in a folder, and command lines for
/// its format that read the whole file.
type InChunks = (&'static str, fn(&Path), &'static [&'static str]);

const MADE_OF_ANOTHER: &[InChunks] = &[
    (
        "SavedModel",
        |folder| in_chunks(folder, " --profile extended"),
        &[],
    ),
    (
        "ONNX model",
        |folder| {
            let file = folder.join("source.onnx");
            fs::write(&file, crate::onnx::model().encode_to_vec()).unwrap();
            split_again(&file, folder, "");
            fs::remove_file(file).unwrap();
        },
        &[
            "convert IN -o OUT/m.onnx --to onnx",
            "convert IN -o OUT/m.onnx --to external --set min-size=64B",
            "convert IN -o OUT/m.onnx --to safetensors --set min-size=64B",
            "convert IN -o OUT/m.safetensors --to onnx-safetensors",
        ],
    ),
    (
        "Paddle model",
        |folder| split_again(&fixture("../paddle/infer_fc"), folder, ""),
        &[
            "convert IN -o OUT/m --to files",
            "convert IN -o OUT/m --to separate",
            "convert IN -o OUT/m --to combined",
        ],
    ),
    (
        "XLA module",
        |folder| {
            split_again(
                &fixture("../xla/jax01201_dtypes_before.riegeli"),
                folder,
                "",
            )
        },
        &[
            "convert IN -o OUT/m.pb --to pb",
            "convert IN -o OUT/m.riegeli --to split-proto",
        ],
    ),
];

#[test]
fn every_verb_that_reads_a_whole_message_compares_its_checksum() {
    let mut taken = Vec::new();
    for (name, make, verbs) in MADE_OF_ANOTHER {
        let dir = Dir::new();
        make(&dir.path(""));
        let input = dir.path("model.cpb");
        let run = |line: &str| {
            let out = Dir::new();
            let ran = ran(&words(line, &input, &input, &out.path("")));
            (ran, out.files())
        };
        let lines = || OF_ANY_MESSAGE.iter().chain(*verbs);
        for line in lines() {
            let (ran, _) = run(line);
            assert_eq!(ran.exit, Exit::Done, "{name}: {line}: {ran:?}");
        }
        with_checksum_of_another_message(&input);
        for line in lines() {
            let (ran, files) = run(line);
            if ran.exit == Exit::Done || !files.is_empty() {
                taken.push(format!("{name}: {line}: {ran:?} {files:?}"));
            }
        }
    }
    assert_eq!(taken, [""; 0]);
}
