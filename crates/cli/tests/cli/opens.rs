//! Tests that every command opens each input only once: recognizing the type, parsing the trailer and reading the message use the same open
//! file. The tests count system calls.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::prost::Message;
use proto_splitter_testkit::opens::Opens;
use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run_all};

/// An input, and the commands that read it. In a command, `IN` is the input, `TWIN` is another file with the same contents, and `OUT/NAME`
/// is an output.
struct Input {
    name: &'static str,
    argument: &'static str,
    verbs: &'static [&'static str],
    make: fn(&Path),
}

const PATH: &str = "meta_graphs[0].meta_info_def.tensorflow_version";

const INPUTS: &[Input] = &[
    Input {
        name: "file in chunks",
        argument: "model.cpb",
        verbs: &[
            "info IN",
            "ls IN",
            "layout IN",
            "tree IN",
            "tree IN --diff TWIN",
            "cat IN PATH",
            "get IN PATH",
            "get IN --chunk 0 -o OUT/chunk",
            "schema IN",
            "tensors IN",
            "verify IN",
            "verify IN --deep",
            "verify IN --against TWIN.pb",
            "merge IN -o OUT/m.pb",
            "pieces IN --field meta_graphs -o OUT/pieces --count 1",
            "diff IN TWIN",
            "recompress IN -o OUT/m.cpb --compression none",
            "replace IN PATH --value 3 -o OUT/m.cpb",
            "remove IN PATH -o OUT/m.cpb",
            "insert IN meta_graphs[0].meta_info_def.tags --value x -o OUT/m.cpb",
            "strip IN --over 1KiB -o OUT/m.pb",
            "edit IN --replace PATH=3 -o OUT/m.pb",
        ],
        make: in_chunks,
    },
    Input {
        name: "message in one piece",
        argument: "saved_model.pb",
        verbs: &[
            "info IN",
            "ls IN",
            "layout IN",
            "tree IN",
            "tree IN --diff TWIN",
            "cat IN PATH",
            "get IN PATH",
            "schema IN",
            "tensors IN",
            "verify IN",
            "verify IN --deep",
            "verify IN --against TWIN",
            "merge IN -o OUT/m.pb",
            "split IN -o OUT/m --max-chunk-size 16KiB",
            "split IN --dry-run",
            "pieces IN --field meta_graphs -o OUT/pieces --count 1",
            "diff IN TWIN",
            "replace IN PATH --value 3 -o OUT/m.pb",
            "remove IN PATH -o OUT/m.pb",
            "insert IN meta_graphs[0].meta_info_def.tags --value x -o OUT/m.pb",
            "strip IN --over 1KiB -o OUT/m.pb",
            "edit IN --replace PATH=3 -o OUT/m.cpb",
        ],
        make: in_one_piece,
    },
    Input {
        name: "delimited file",
        argument: "files.log",
        verbs: &[
            "info IN --delimited google.protobuf.FileDescriptorProto",
            "ls IN --delimited google.protobuf.FileDescriptorProto",
            "tree IN --delimited google.protobuf.FileDescriptorProto",
            "cat IN message[0].name --delimited google.protobuf.FileDescriptorProto",
            "verify IN --delimited google.protobuf.FileDescriptorProto",
            "edit IN --remove message[0] -o OUT/m.log --delimited google.protobuf.FileDescriptorProto",
            "split IN -o OUT/m --max-chunk-size 8 --delimited google.protobuf.FileDescriptorProto",
            "convert IN -o OUT/m.pb --to pb --delimited google.protobuf.FileDescriptorSet.file",
            "convert IN -o OUT/m.log --to delimited --delimited google.protobuf.FileDescriptorProto",
            "convert IN -o OUT/m.records --to records --delimited google.protobuf.FileDescriptorProto",
        ],
        make: delimited,
    },
    Input {
        name: "ONNX model",
        argument: "model.onnx",
        verbs: &[
            "info IN",
            "ls IN",
            "tree IN",
            "cat IN graph.name",
            "get IN graph.name",
            "get IN --tensor w -o OUT/w.npy",
            "tensors IN",
            "schema IN",
            "verify IN",
            "verify IN --deep",
            "split IN -o OUT/m --max-chunk-size 4KiB",
            "convert IN -o OUT/m.onnx --to external",
            "convert IN -o OUT/m.cpb",
            "export IN -o OUT/a.npz",
            "diff IN TWIN",
            "strip IN --tensors -o OUT/m.onnx",
            "edit IN --remove graph.name -o OUT/m.onnx",
            "convert IN -o OUT/m.onnx --to onnx",
            "convert IN -o OUT/m.safetensors --to onnx-safetensors",
        ],
        make: onnx,
    },
    Input {
        name: "ONNX model in chunks",
        argument: "model.cpb",
        verbs: &[
            "tensors IN",
            "get IN --tensor w -o OUT/w.npy",
            "export IN -o OUT/a.safetensors",
            "verify IN --deep",
            "convert IN -o OUT/m.onnx --to onnx",
            "convert IN -o OUT/m.onnx --to external",
            "convert IN -o OUT/m.safetensors --to onnx-safetensors",
        ],
        make: onnx_in_chunks,
    },
    Input {
        name: "ONNX model and its data",
        argument: "model.onnx",
        verbs: &[
            "info IN",
            "tree IN",
            "cat IN graph.name",
            "get IN --tensor w -o OUT/w.npy",
            "verify IN",
            "merge IN -o OUT/m.onnx",
            "split IN -o OUT/m --max-chunk-size 4KiB",
            "convert IN -o OUT/m.onnx --to onnx",
            "convert IN -o OUT/m.cpb",
            "export IN -o OUT/a.npz",
            "diff IN TWIN",
            "edit IN --remove graph.name -o OUT/m.onnx",
        ],
        make: onnx_pair,
    },
    Input {
        name: "ONNX model in a safetensors file",
        argument: "model.safetensors",
        verbs: &[
            "info IN",
            "tensors IN",
            "get IN --tensor w -o OUT/w.npy",
            "verify IN",
            "split IN -o OUT/m --max-chunk-size 4KiB",
            "convert IN -o OUT/m.onnx --to onnx",
            "export IN -o OUT/a.npz",
            "edit IN --remove graph.name -o OUT/m.safetensors",
        ],
        make: onnx_embedded,
    },
    Input {
        name: "SameDiff model",
        argument: "model.zip",
        verbs: &[
            "info IN",
            "ls IN",
            "tree IN",
            "tensors IN",
            "verify IN",
            "export IN -o OUT/a.npz",
            "convert IN -o OUT/m.fb --to fb",
            "convert IN -o OUT/m.zip --to samediff",
            "diff IN TWIN",
            "samediff tags IN",
            "samediff dedup IN -o OUT/m.zip",
            "samediff gc IN -o OUT/m.zip",
            "samediff drop IN two -o OUT/m.zip",
        ],
        make: samediff,
    },
    Input {
        name: "split proto",
        argument: "jax01201_dtypes_before.riegeli",
        verbs: &[
            "info IN",
            "tree IN",
            "tensors IN",
            "verify IN",
            "cat IN hlo_module.name",
            "merge IN -o OUT/m.pb",
            "split IN -o OUT/m --max-chunk-size 1KiB",
            "convert IN -o OUT/m.riegeli --to split-proto",
            "export IN -o OUT/a.npz",
            "diff IN TWIN",
        ],
        make: split_proto,
    },
    Input {
        name: "checkpoint",
        argument: "variables",
        verbs: &[
            "info IN",
            "ls IN",
            "tensors IN",
            "verify IN",
            "export IN -o OUT/a.npz",
            "diff IN TWIN",
        ],
        make: checkpoint,
    },
    Input {
        name: "folder of a SavedModel",
        argument: "",
        verbs: &[
            "info IN",
            "tree IN",
            "tensors IN",
            "verify IN",
            "merge IN -o OUT/m.pb",
            "split IN -o OUT/m --max-chunk-size 16KiB",
            "externalize IN -o OUT/m --min-size 1KiB",
            "fingerprint IN",
            "diff IN TWIN",
        ],
        make: in_one_piece,
    },
];

fn in_chunks(folder: &Path) {
    in_one_piece(folder);
    let model = folder.join("saved_model.pb");
    let target = folder.join("model");
    run_line(
        "split IN -o TWIN --max-chunk-size 16KiB",
        &model,
        &target,
        folder,
    );
    fs::rename(model, folder.join("model.cpb.pb")).unwrap();
}

fn in_one_piece(folder: &Path) {
    let model = fixture("functions_consts/saved_model.pb");
    fs::copy(model, folder.join("saved_model.pb")).unwrap();
}

fn delimited(folder: &Path) {
    // The file contains two messages, each of which has a name.
    let files = [
        &[10, 0x0a, 8],
        &b"one.prot"[..],
        &[11, 0x0a, 9],
        &b"two.proto"[..],
    ]
    .concat();
    fs::write(folder.join("files.log"), files).unwrap();
}

fn onnx(folder: &Path) {
    let model = crate::onnx::model().encode_to_vec();
    fs::write(folder.join("model.onnx"), model).unwrap();
}

fn onnx_as(folder: &Path, name: &str, line: &str) {
    let inside = tempfile::tempdir().unwrap();
    onnx(inside.path());
    let (model, made) = (inside.path().join("model.onnx"), folder.join(name));
    assert_eq!(run_line(line, &model, &made, folder), None);
}

fn onnx_in_chunks(folder: &Path) {
    onnx_as(folder, "model", "split IN -o TWIN --max-chunk-size 4KiB");
}

fn onnx_pair(folder: &Path) {
    onnx_as(folder, "model.onnx", "convert IN -o TWIN --to external");
}

fn onnx_embedded(folder: &Path) {
    let line = "convert IN -o TWIN --to onnx-safetensors";
    onnx_as(folder, "model.safetensors", line);
}

fn samediff(folder: &Path) {
    let dir = Dir::new();
    fs::copy(crate::samediff::model(&dir), folder.join("model.zip")).unwrap();
}

fn split_proto(folder: &Path) {
    let name = "jax01201_dtypes_before.riegeli";
    fs::copy(fixture("../xla").join(name), folder.join(name)).unwrap();
}

fn checkpoint(folder: &Path) {
    let source = fixture("keras_mlp/variables/variables");
    for extension in ["index", "data-00000-of-00001"] {
        let to = folder.join("variables").with_extension(extension);
        fs::copy(source.with_extension(extension), to).unwrap();
    }
}

/// Runs a command line on an input, and returns the error if the command fails.
fn run_line(line: &str, input: &Path, twin: &Path, out: &Path) -> Option<String> {
    let word = |word: &str| -> PathBuf {
        match word {
            "IN" => input.to_owned(),
            "TWIN" => twin.to_owned(),
            "TWIN.pb" => format!("{}.pb", twin.display()).into(),
            _ => match word.strip_prefix("OUT/") {
                Some(name) => out.join(name),
                None => word.replace("PATH", PATH).into(),
            },
        }
    };
    let words: Vec<PathBuf> = line.split(' ').map(word).collect();
    let ran = run_all(words.iter().map(|word| word as &dyn AsRef<Path>));
    (ran.exit != Exit::Done).then_some(ran.err)
}

#[test]
fn every_verb_opens_its_input_once() {
    let mut wrong = Vec::new();
    for input in INPUTS {
        for line in input.verbs {
            let [here, twin, out] = [Dir::new(), Dir::new(), Dir::new()];
            for dir in [&here, &twin] {
                (input.make)(&dir.path(""));
            }
            let opens = [&here, &twin].map(|dir| Opens::of(&dir.path("")));
            let [input_file, twin_file] = [&here, &twin].map(|dir| dir.path(input.argument));
            let failed = run_line(line, &input_file, &twin_file, &out.path(""));
            wrong.extend(failed.map(|error| format!("{}: {line}: {error}", input.name)));
            let counts = opens.map(Opens::counts);
            let is_opened = counts[0].get(&input_file) == Some(&1) || !input_file.is_file();
            if !is_opened || counts[0].values().any(|&count| count > 1) {
                wrong.push(format!("{}: {line}: {:?}", input.name, counts[0]));
            }
            if counts[1].values().any(|&count| count > 1) {
                wrong.push(format!("{}: {line}: the twin: {:?}", input.name, counts[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
