//! Tests for Paddle models: all verbs, the layouts of models, and messages in several files.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::paddle::proto::framework::var_type::Type;
use proto_splitter::paddle::stream::{Layout, TensorSpec};
use proto_splitter::paddle::{MODEL, ParameterWriter};
use protosplit_cli::Exit;
use serde_json::{Value, json};

use crate::support::{Dir, files, fixture, run, run_all};

fn paddle(name: &str) -> PathBuf {
    fixture("../paddle").join(name)
}

/// Returns the names and contents of the files in a folder and its subfolders, sorted by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = fs::read(folder.join(&name)).unwrap();
        (name, bytes)
    };
    files(folder).into_iter().map(read).collect()
}

/// Returns the names and contents of the files in a folder that belong to the model, without the
/// tensors that a test run has stored.
fn model_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = contents(folder);
    all.retain(|(name, _)| !name.ends_with(".npy"));
    all
}

#[test]
fn a_tree_names_ops_variables_and_parameters() {
    let tree = run([&"tree", &paddle("infer_fc/model.pdmodel"), &"--top", &"99"]).ok();
    for name in [
        "proto_splitter.paddle.Model",
        "fc_0.tmp_1  (elementwise_add)",
        "fc_0.w_0  (lod_tensor fp32[8, 16])",
        "fc_0.w_0  (fp32)",
        "model.pdiparams",
    ] {
        assert!(tree.contains(name), "{name}: {tree}");
    }
    let alone = run([&"tree", &paddle("static_save/model.pdmodel"), &"--json"]).json();
    assert_eq!(alone["message"], "paddle.framework.proto.ProgramDesc");
}

#[test]
fn tensors_are_listed_and_read_by_name_beside_their_program() {
    let dir = Dir::new();
    for name in ["infer_fc", "infer_fc/model.pdiparams", "vars_separate"] {
        let model = paddle(name);
        let listed = run([&"tensors", &model, &"--json"]).json();
        assert_eq!(
            (&listed["format"], &listed["bytes"]),
            (&json!("paddle"), &json!(848)),
            "{name}"
        );
        let weight = &listed["tensors"][1];
        assert_eq!(
            (&weight["name"], &weight["dtype"], &weight["shape"]),
            (&json!("fc_0.w_0"), &json!("float32"), &json!([8, 16]))
        );
        let names = |report: &Value, of: &str| -> Vec<String> {
            let all = report[of].as_array().unwrap().iter();
            all.map(|one| one["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let ls = run([&"ls", &model, &"--json"]).json();
        assert_eq!(names(&ls, "entries")[1..], names(&listed, "tensors")[..]);
        let npy = dir.path("w.npy");
        let get: [&dyn AsRef<Path>; 9] = [
            &"get",
            &model,
            &"--tensor",
            &"fc_0.w_0",
            &"--format",
            &"npy",
            &"-o",
            &npy,
            &"--force",
        ];
        run(get).ok();
        let npy = fs::read(npy).unwrap();
        assert!(
            npy.starts_with(b"\x93NUMPY") && npy.len() == 128 + 512,
            "{name}"
        );
        let report = run([&"verify", &model, &"--json"]).json();
        assert_eq!(
            (&report["ok"], &report["tensors"]),
            (&json!(true), &json!(4)),
            "{name}"
        );
        let npz = dir.path("all.npz");
        let export = run([&"export", &model, &"-o", &npz, &"--force", &"--json"]).json();
        assert_eq!(export["tensors"], 4);
    }
}

#[test]
fn a_parameter_is_also_called_by_its_index() {
    let (dir, model) = (Dir::new(), paddle("infer_fc"));
    let (npy, force) = (dir.path("tensor.npy"), "--force");
    let get = |tensor: &str| {
        let tensor = tensor.to_owned();
        run([&"get", &model, &"--tensor", &tensor, &"-o", &npy, &force])
    };
    let listed = run([&"tensors", &model, &"--json"]).json();
    let listed = listed["tensors"].as_array().unwrap();
    for (index, tensor) in listed.iter().enumerate() {
        get(tensor["name"].as_str().unwrap()).ok();
        let by_name = fs::read(&npy).unwrap();
        get(&index.to_string()).ok();
        assert_eq!(fs::read(&npy).unwrap(), by_name, "{tensor}");
    }
    let error = get(&listed.len().to_string()).failed(Exit::Bad);
    assert!(error.contains("no tensor \"4\""), "{error}");
}

#[test]
fn a_program_that_is_elsewhere_is_named() {
    let dir = Dir::new();
    let parameters = dir.copy(&paddle("combined_all_dtypes/params"), "weights");
    let program = paddle("combined_all_dtypes/program.pdmodel");
    let listed = run([&"tensors", &parameters, &"--program", &program, &"--json"]).json();
    assert_eq!(listed["tensors"].as_array().unwrap().len(), 16);
    assert_eq!(listed["tensors"][0]["name"], "Zupper");
    run([&"ls", &parameters, &"--program", &program]).ok();
    run([&"verify", &parameters, &"--program", &program]).ok();
    let tree = run([&"tree", &parameters, &"--program", &program]).ok();
    assert!(tree.contains("proto_splitter.paddle.Model"), "{tree}");
    let npy = dir.path("f32.npy");
    let get: [&dyn AsRef<Path>; 10] = [
        &"get",
        &parameters,
        &"--program",
        &program,
        &"--tensor",
        &"f32",
        &"--format",
        &"npy",
        &"-o",
        &npy,
    ];
    run(get).ok();
    assert_eq!(fs::read(npy).unwrap().len(), 128 + 60);
    let one = dir.path("one.cpb");
    run([&"convert", &parameters, &"--program", &program, &"-o", &one]).ok();
    let back = dir.path("back");
    run([&"convert", &one, &"-o", &back, &"--to", &"files"]).ok();
    let wanted = [
        ("program.pdmodel".to_owned(), fs::read(&program).unwrap()),
        ("weights".to_owned(), fs::read(&parameters).unwrap()),
    ];
    assert_eq!(contents(&back), wanted);
}

#[test]
fn a_program_is_refused_where_none_goes_with_the_input() {
    let dir = Dir::new();
    let program = paddle("infer_fc/model.pdmodel");
    let unordered = paddle("combined_all_dtypes/params_op_order");
    let line = run([
        &"verify",
        &unordered,
        &"--program",
        &paddle("combined_all_dtypes/program.pdmodel"),
    ]);
    let line = line.failed(Exit::Bad);
    assert!(
        line.contains("params_op_order: Zupper: the stream has dims [1]"),
        "{line}"
    );
    let other = dir.file("other", b"\x08\x01");
    let missing = dir.path("missing.pdmodel");
    let graph = fixture("keras_mlp/saved_model.pb");
    for (input, program, wanted) in [
        (
            &other,
            &other,
            "no other file goes with a message of no known format",
        ),
        (&graph, &graph, "no other file goes with"),
        (&unordered, &missing, "missing.pdmodel: "),
        (&paddle("vocab"), &program, "\"fc_0.b_0\" is in no file"),
    ] {
        let ran = run([&"ls", input, &"--program", program]);
        assert_ne!(ran.exit, Exit::Done);
        assert!(ran.err.contains(wanted), "{wanted}: {}", ran.err);
    }
    let one = dir.path("one.cpb");
    run([&"convert", &paddle("infer_fc"), &"-o", &one]).ok();
    let line = run([&"ls", &one, &"--program", &program]).failed(Exit::Usage);
    assert!(
        line.ends_with("no other file goes with a file in chunks"),
        "{line}"
    );
}

#[test]
fn a_program_alone_is_split_as_what_it_is() {
    let dir = Dir::new();
    for name in [
        "combined_all_dtypes/program.pdmodel",
        "static_save/model.pdmodel",
    ] {
        let (one, back) = (dir.path("one.cpb"), dir.path("back.pb"));
        run([&"convert", &paddle(name), &"-o", &one, &"--force"]).ok();
        let info = run([&"info", &one, &"--json"]).json();
        assert_eq!(
            info["message"], "paddle.framework.proto.ProgramDesc",
            "{name}"
        );
        run([&"merge", &one, &"-o", &back, &"--force"]).ok();
        assert_eq!(fs::read(&back).unwrap(), fs::read(paddle(name)).unwrap());
    }
}

#[test]
fn every_layout_is_written_from_the_model_and_from_one_file_and_leads_back() {
    for name in ["infer_fc", "jit_save", "vars_separate"] {
        let dir = Dir::new();
        let model = paddle(name);
        let one = dir.path("m.cpb");
        let report = run([&"convert", &model, &"-o", &one, &"--json"]).json();
        assert_eq!(
            (&report["format"], &report["to"]),
            (&json!("paddle"), &json!("cpb"))
        );
        run([&"verify", &one, &"--deep"]).ok();
        for to in ["files", "combined", "separate", "sized", "model-format"] {
            let there = dir.path(to);
            let again = dir.path(&format!("{to}-of-one"));
            let converted = run([&"convert", &model, &"-o", &there, &"--to", &to, &"--json"]);
            assert_eq!(converted.exit, Exit::Done, "{name} {to}: {}", converted.err);
            let read_by_paddle = !matches!(to, "sized" | "model-format");
            let notes = format!("Paddle itself doesn't read the layout {to}");
            assert_eq!(converted.err.contains(&notes), !read_by_paddle, "{to}");
            let left_out = "model.pdiparams.info is left out";
            let lacks_info = name == "jit_save" && to == "separate";
            assert_eq!(converted.err.contains(left_out), lacks_info, "{name} {to}");
            let report: Value = serde_json::from_str(&converted.out).unwrap();
            assert_eq!(report["to"], to);
            assert_eq!(
                report["files"].as_array().unwrap().len(),
                contents(&there).len()
            );
            let converted = run([&"convert", &one, &"-o", &again, &"--to", &to]);
            assert_eq!(converted.exit, Exit::Done, "{name} {to}: {}", converted.err);
            assert_eq!(contents(&there), contents(&again), "{name} {to}");
            run([&"verify", &there]).ok();
            let home = if name == "vars_separate" {
                "separate"
            } else {
                "combined"
            };
            let back = dir.path(&format!("{to}-back"));
            run([&"convert", &there, &"-o", &back, &"--to", &home]).ok();
            let mut wanted = model_files(&model);
            // Only a combined file has a `.info` file, so a model with separate files has none.
            wanted.retain(|(name, _)| to != "separate" || !name.ends_with(".info"));
            let bytes = |all: Vec<(String, Vec<u8>)>| -> Vec<Vec<u8>> {
                let mut bytes: Vec<_> = all.into_iter().map(|(_, bytes)| bytes).collect();
                bytes.sort();
                bytes
            };
            assert_eq!(bytes(contents(&back)), bytes(wanted), "{name} {to}");
        }
    }
}

#[test]
fn a_folder_with_a_file_that_would_be_read_instead_is_refused_even_with_force() {
    let dir = Dir::new();
    let (model, to) = (paddle("infer_fc"), dir.path("to"));
    let combined = paddle("vars_separate");
    run([&"convert", &combined, &"-o", &to, &"--to", &"combined"]).ok();
    let before = contents(&to);
    let again = || {
        let (verb, form) = (&"convert", &"separate");
        run([verb, &model, &"-o", &to, &"--to", form, &"--force"])
    };
    let line = again().failed(Exit::Usage);
    assert!(
        line.contains("__params__: the existing file would be read"),
        "{line}"
    );
    assert_eq!(contents(&to), before);
    fs::remove_file(to.join("__params__")).unwrap();
    again().ok();
    let listed = run([&"tensors", &to, &"--json"]).json();
    assert_eq!(listed["tensors"].as_array().unwrap().len(), 4);
}

#[test]
fn what_several_files_make_is_merged_and_verified_as_a_whole() {
    let dir = Dir::new();
    let model = paddle("infer_fc");
    let merged = dir.path("m.pb");
    let report = run([&"merge", &model, &"-o", &merged, &"--json"]).json();
    assert_eq!(report["message"], "proto_splitter.paddle.Model");
    assert_eq!(report["files"].as_array().unwrap().len(), 2);
    assert_eq!(report["output_bytes"], fs::metadata(&merged).unwrap().len());
    let there = run([&"merge", &model, &"-o", &merged]);
    assert_ne!(
        there.exit,
        Exit::Done,
        "what is there is replaced only by force"
    );
    let report = run([
        &"verify",
        &model,
        &"--deep",
        &"--against",
        &merged,
        &"--json",
    ])
    .json();
    assert_eq!(report["against"]["result"], "byte-exact");
    assert_eq!(report["deep"]["unknown_fields"], 0);
    let other = run([&"verify", &paddle("infer_fc_noclip"), &"--against", &merged]);
    let line = other.failed(Exit::Bad);
    assert!(line.contains("differs from"), "{line}");
    run([&"diff", &model, &merged]).ok();
}

#[test]
fn a_model_in_a_folder_is_split_as_the_one_message_that_its_files_are() {
    let dir = Dir::new();
    let model = paddle("infer_fc");
    let [out, whole, merged] = ["out", "whole.pb", "merged.pb"].map(|name| dir.path(name));
    let needs_prefix = run([&"split", &model]).failed(Exit::Usage);
    assert!(needs_prefix.contains("-o OUTPUT"), "{needs_prefix}");
    let split = run([
        &"split",
        &model,
        &"-o",
        &out,
        &"--max-chunk-size",
        &"1KiB",
        &"--json",
    ]);
    assert!(split.json()["chunks"].as_array().unwrap().len() > 1);
    run([&"merge", &model, &"-o", &whole]).ok();
    run([&"merge", &out, &"-o", &merged]).ok();
    assert!(fs::read(&whole).unwrap() == fs::read(&merged).unwrap());
    run([&"diff", &model, &out]).ok();
    let report = run([&"verify", &out, &"--against", &model, &"--json"]).json();
    assert_eq!(report["against"]["result"], "byte-exact");
    let report = run([&"verify", &model, &"--against", &model, &"--json"]).json();
    assert_eq!(report["against"]["result"], "byte-exact");
    let other = paddle("infer_fc_noclip");
    let line = run([&"verify", &out, &"--against", &other]).failed(Exit::Bad);
    assert!(line.contains("differs from"), "{line}");
}

#[test]
fn what_does_not_work_on_several_files_says_which_command_does() {
    let dir = Dir::new();
    let model = paddle("infer_fc");
    let value = dir.file("value", b"x");
    let out = dir.path("out");
    let table: [(&str, crate::support::Ran); 3] = [
        ("`protosplit ls`", run([&"layout", &model])),
        (
            "`protosplit convert`",
            run([
                &"replace",
                &model,
                &"program_file",
                &"--with",
                &value,
                &"-o",
                &out,
            ]),
        ),
        (
            "`protosplit convert -o NAME.cpb`",
            run([
                &"recompress",
                &model,
                &"--compression",
                &"none",
                &"-o",
                &out,
            ]),
        ),
    ];
    for (hint, ran) in table {
        assert_eq!(ran.exit, Exit::Usage, "{hint}: {}", ran.err);
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    }
    let checkpoint = fixture("../checkpoints").join("checkpoint");
    for (hint, ran) in [
        ("`protosplit ls`", run([&"layout", &checkpoint])),
        (
            "`protosplit export`",
            run([&"merge", &checkpoint, &"-o", &out]),
        ),
        (
            "`protosplit diff`",
            run([&"verify", &checkpoint, &"--deep"]),
        ),
        (
            "`protosplit diff`",
            run([&"verify", &checkpoint, &"--against", &value]),
        ),
    ] {
        assert_eq!(ran.exit, Exit::Usage, "{hint}: {}", ran.err);
        assert!(ran.err.contains(hint), "{hint}: {}", ran.err);
    }
    assert!(!out.exists());
}

#[test]
fn what_is_no_program_is_named() {
    let dir = Dir::new();
    let json = dir.copy(&paddle("v331_jit_pir/model.json"), "model.pdmodel");
    dir.copy(&paddle("v331_jit_pir/model.pdiparams"), "model.pdiparams");
    let line = run([&"ls", &json]).failed(Exit::Bad);
    assert!(
        line.contains("the file is JSON, as Paddle 3.x writes"),
        "{line}"
    );
    for name in ["model.pdparams", "model.pdopt"] {
        let line = run([&"verify", &paddle("static_save").join(name)]).failed(Exit::Bad);
        assert!(
            line.contains("Python pickle") && line.contains("paddle.load"),
            "{line}"
        );
    }
    let info = run([&"info", &paddle("v331_jit_pir")]).ok();
    assert!(info.contains("without a ProgramDesc"), "{info}");
}

#[test]
fn parameters_without_their_program_are_read_by_every_verb() {
    let dir = Dir::new();
    // The input is the output of `paddle.static.save_vars`, which writes one file, or one for each
    // variable, and no program.
    let weights = dir.path("weights");
    fs::create_dir(&weights).unwrap();
    for name in ["fc_0.b_0", "fc_0.w_0", "fc_1.b_0", "fc_1.w_0"] {
        fs::copy(paddle("vars_separate").join(name), weights.join(name)).unwrap();
    }
    let program = paddle("vars_separate/__model__");
    let all = dir.copy(&paddle("infer_fc/model.pdiparams"), "all.bin");
    let one = dir.copy(&paddle("paddle_save/tensor_binary.pdtensor"), "one.bin");
    for (number, (input, option, value, tensor)) in [
        (&weights, "--program", program.as_path(), "fc_0.w_0"),
        (&all, "--input-format", Path::new("paddle"), "1"),
        (&one, "--input-format", Path::new("paddle"), "0"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = |name: &str| dir.path(&format!("{number}-{name}"));
        let said = |verb: &str, more: &[&dyn AsRef<Path>]| {
            let mut arguments: Vec<&dyn AsRef<Path>> = vec![&verb, input, &option, &value];
            arguments.extend(more);
            run_all(arguments).ok()
        };
        for verb in ["info", "ls", "tree", "tensors", "verify", "cat"] {
            said(verb, &[]);
        }
        said(
            "get",
            &[
                &"--tensor",
                &tensor,
                &"--format",
                &"raw",
                &"-o",
                &path("raw"),
            ],
        );
        said("export", &[&"-o", &path("all.npz")]);
        said("split", &[&"-o", &path("split")]);
        said("convert", &[&"-o", &path("files"), &"--to", &"files"]);
        let made = if number == 0 { "fc_0.w_0" } else { "" };
        let made = path("files").join(made);
        let made = match number {
            0 => made,
            _ => made.join(input.file_name().unwrap()),
        };
        let original = match number {
            0 => input.join("fc_0.w_0"),
            _ => input.clone(),
        };
        assert_eq!(fs::read(made).unwrap(), fs::read(original).unwrap());
    }
    // A chunked file records its message type, so it can't be read in another format.
    let one = dir.path("one.cpb");
    run([&"convert", &paddle("infer_fc"), &"-o", &one]).ok();
    let line = run([
        &"ls" as &dyn AsRef<Path>,
        &one,
        &"--input-format",
        &"paddle",
    ]);
    let line = line.failed(Exit::Usage);
    assert!(
        line.ends_with("a file in chunks can't be read in another format"),
        "{line}"
    );
}

#[test]
fn what_is_changed_says_its_type_and_is_converted_again() {
    let dir = Dir::new();
    let model = paddle("infer_fc");
    let changes: [(&str, &[&str]); 4] = [
        ("edit", &["--remove", "program.op_version_map"]),
        ("edit", &["--replace", "program.version.version=7"]),
        ("strip", &["--over", "1000"]),
        ("remove", &["program.version"]),
    ];
    for (number, (verb, options)) in changes.into_iter().enumerate() {
        for (at, extension) in ["", ".cpb", ".pb"].into_iter().enumerate() {
            let path = |what: &str| dir.path(&format!("{number}-{at}-{what}{extension}"));
            let (changed, files) = (path("changed"), path("files"));
            let mut arguments: Vec<&dyn AsRef<Path>> = vec![&verb, &model];
            arguments.extend(options.iter().map(|option| option as &dyn AsRef<Path>));
            arguments.extend([&"-o" as &dyn AsRef<Path>, &changed]);
            run_all(arguments).ok();
            let files = files.with_extension("");
            let mut arguments: Vec<&dyn AsRef<Path>> = vec![&"convert", &changed];
            arguments.extend([&"-o" as &dyn AsRef<Path>, &files, &"--to", &"files"]);
            if extension == ".pb" {
                arguments.extend([
                    &"--message" as &dyn AsRef<Path>,
                    &"proto_splitter.paddle.Model",
                ]);
            }
            run_all(arguments).ok();
            let parameters = |folder: &Path| fs::read(folder.join("model.pdiparams")).unwrap();
            assert_eq!(parameters(&files), parameters(&model), "{verb} {extension}");
            fs::remove_dir_all(files).unwrap();
        }
    }
}

#[test]
fn selected_rows_are_not_put_into_a_file_that_paddle_cannot_load() {
    let dir = Dir::new();
    let out = dir.path("out");
    let model = paddle("selected_rows");
    let line = run([
        &"convert" as &dyn AsRef<Path>,
        &model,
        &"-o",
        &out,
        &"--to",
        &"combined",
    ]);
    let line = line.failed(Exit::Usage);
    let named = format!("{}: sr: ", model.display());
    assert!(
        line.contains(&named) && line.contains("convert to `separate`"),
        "{line}"
    );
    assert!(!out.exists());
    run([
        &"convert" as &dyn AsRef<Path>,
        &model,
        &"-o",
        &out,
        &"--to",
        &"separate",
    ])
    .ok();
}

#[test]
fn a_form_that_a_model_cannot_have_is_refused_with_the_name_of_the_model() {
    let dir = Dir::new();
    let out = dir.path("out");
    let model = paddle("v331_static_pir");
    for (to, why) in [
        (
            "separate",
            "a program in JSON has all parameters in one file",
        ),
        ("split", "there is no form \"split\" for a file of the kind"),
    ] {
        let line = run([&"convert", &model, &"-o", &out, &"--to", &to]).failed(Exit::Usage);
        let begin = format!("{}: {why}", model.display());
        assert!(line.contains(&begin), "{line}");
        assert!(!out.exists());
    }
}

#[test]
fn levels_of_detail_are_listed_with_the_tensors_that_have_any() {
    let parameters = paddle("combined_all_dtypes/params");
    let program = paddle("combined_all_dtypes/program.pdmodel");
    let listing: [&dyn AsRef<Path>; 4] = [&"tensors", &parameters, &"--program", &program];
    let as_json = listing.into_iter().chain([&"--json" as &dyn AsRef<Path>]);
    let listed = run_all(as_json).json();
    let tensors = listed["tensors"].as_array().unwrap();
    let with_lod: Vec<(&str, &Value)> = tensors
        .iter()
        .filter_map(|tensor| Some((tensor["name"].as_str()?, tensor.get("lod")?)))
        .collect();
    assert_eq!(
        with_lod,
        [
            ("lod1", &json!([[0, 2, 5, 6]])),
            ("lod2", &json!([[0, 2, 3], [0, 2, 4, 7]]))
        ]
    );
    assert!(tensors.len() > 2);
    let text = run(listing).ok();
    for expected in [
        "[6, 2] lod [0, 2, 5, 6] ",
        "[7, 1] lod [0, 2, 3] [0, 2, 4, 7] ",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(text.matches("lod [").count(), 2, "{text}");
}

#[test]
fn levels_of_detail_are_listed_from_one_file_as_from_the_model() {
    let dir = Dir::new();
    let parameters = paddle("combined_all_dtypes/params");
    let program = paddle("combined_all_dtypes/program.pdmodel");
    let listed = run([&"tensors", &parameters, &"--program", &program, &"--json"]).json();
    let lods = |listed: &Value| -> Vec<Value> {
        let tensors = listed["tensors"].as_array().unwrap().iter();
        tensors.map(|tensor| tensor["lod"].clone()).collect()
    };
    let wanted = lods(&listed);
    assert_eq!(wanted.iter().filter(|lod| lod.is_array()).count(), 2);
    let one = dir.path("one.cpb");
    run([&"convert", &parameters, &"--program", &program, &"-o", &one]).ok();
    let merged = dir.path("merged.pb");
    run([&"merge", &one, &"-o", &merged]).ok();
    // With chunks of 64 bytes, tensors and LoD levels are divided, too.
    let small = dir.path("small.cpb");
    let size = "--max-chunk-size";
    run([
        &"split",
        &merged,
        &"-o",
        &small,
        &size,
        &"64",
        &"--message",
        &MODEL,
    ])
    .ok();
    assert_eq!(lods(&run([&"tensors", &one, &"--json"]).json()), wanted);
    assert_eq!(lods(&run([&"tensors", &small, &"--json"]).json()), wanted);
    let plain = run([&"tensors", &merged, &"--message", &MODEL, &"--json"]);
    assert_eq!(lods(&plain.json()), wanted);
}

#[test]
fn a_file_in_the_sized_layout_is_filled_tensor_by_tensor() {
    let (dir, model) = (Dir::new(), paddle("infer_fc"));
    let [wanted, sized] = ["wanted", "sized"].map(|name| dir.path(name));
    let converted = run([&"convert", &model, &"-o", &wanted, &"--to", &"sized"]);
    assert_eq!(converted.exit, Exit::Done, "{}", converted.err);
    fs::create_dir(&sized).unwrap();
    let program = dir.copy(&model.join("model.pdmodel"), "sized/model.pdmodel");
    let parameters = dir.file("sized/model.pdiparams", b"");
    let npy = dir.path("tensor.npy");
    let listed = run([&"tensors", &model, &"--json"]).json();
    let listed = listed["tensors"].as_array().unwrap();
    for (index, tensor) in listed.iter().enumerate() {
        let name = tensor["name"].as_str().unwrap().to_owned();
        run([&"get", &model, &"--tensor", &name, &"-o", &npy, &"--force"]).ok();
        let named = [&sized, &program, &parameters][index % 3];
        let report = run([&"append", named, &npy, &"--json"]).json();
        assert_eq!(
            report,
            json!({
                "file": parameters.to_str().unwrap(), "counter": index, "name": name,
                "dtype": "float32", "shape": tensor["shape"], "bytes": tensor["bytes"],
            })
        );
    }
    let bytes = fs::read(&parameters).unwrap();
    assert_eq!(bytes, fs::read(wanted.join("model.pdiparams")).unwrap());
    let error = run([&"append", &sized, &npy]).failed(Exit::Usage);
    assert!(
        error.contains("the file already has all 4 parameters of the program"),
        "{error}"
    );
    assert_eq!(fs::read(&parameters).unwrap(), bytes);
}

#[test]
fn elements_alone_are_appended_with_their_type_their_shape_and_their_levels() {
    let dir = Dir::new();
    let parameters = dir.file("parameters", b"");
    let elements = dir.file("elements", [7; 12]);
    let append = |options: &[&str]| {
        let start: [&dyn AsRef<Path>; 3] = [&"append", &parameters, &elements];
        let options = options.iter().map(|option| option as &dyn AsRef<Path>);
        run_all(start.into_iter().chain(options))
    };
    let said = append(&["--dtype", "bfloat16", "--shape", "3,2", "--lod", "0,1,3"]).ok();
    assert!(
        said.ends_with("parameters: tensor 0 is appended: bfloat16[3, 2], 12 B\n"),
        "{said}"
    );
    append(&["--dtype", "float32", "--shape", "3"]).ok();
    let before = fs::read(&parameters).unwrap();
    for (options, exit, wanted) in [
        (&[][..], Exit::Bad, "doesn't begin as NumPy's files do"),
        (
            &["--dtype", "float32"],
            Exit::Bad,
            "doesn't begin as NumPy's files do",
        ),
        (&["--shape", "3"], Exit::Usage, "--dtype"),
        (
            &["--dtype", "float", "--shape", "3"],
            Exit::Usage,
            "there is no such type",
        ),
        (
            &["--dtype", "int4", "--shape", "3"],
            Exit::Usage,
            "Paddle has no elements of the type int4",
        ),
        (
            &["--dtype", "float32", "--shape", "x"],
            Exit::Usage,
            "\"x\" isn't a number",
        ),
        (
            &["--dtype", "float32", "--shape", "2"],
            Exit::Usage,
            "more than the 8 bytes of the tensor",
        ),
        (
            &["--dtype", "float32", "--shape", "4"],
            Exit::Usage,
            "12 bytes of data for a tensor of 16",
        ),
        (
            &["--dtype", "float32", "--shape", "3", "--lod", "0,2"],
            Exit::Usage,
            "LoD level 0 doesn't run from 0 to 3",
        ),
    ] {
        let error = append(options).failed(exit);
        assert!(error.contains(wanted), "{options:?}: {error}");
    }
    assert_eq!(fs::read(&parameters).unwrap(), before);
    let tensors: [&dyn AsRef<Path>; 5] = [
        &"tensors",
        &parameters,
        &"--input-format",
        &"paddle",
        &"--json",
    ];
    let listed = run(tensors).json();
    assert_eq!(listed["tensors"][0]["lod"], json!([[0, 1, 3]]));
    assert_eq!(listed["tensors"][1]["shape"], json!([3]));
}

#[test]
fn a_long_level_of_detail_is_shortened_for_people_only() {
    let dir = Dir::new();
    let path = dir.path("sequences");
    let offsets: Vec<u64> = (0..=9).collect();
    let spec = TensorSpec::dense(Type::Uint8, [9]).lod([offsets.clone()]);
    let mut writer = ParameterWriter::create(&path, Layout::Paddle, false).unwrap();
    writer.write(&spec, &mut &[7; 9][..]).unwrap();
    writer.finish().unwrap();
    let tensors: [&dyn AsRef<Path>; 4] = [&"tensors", &path, &"--input-format", &"paddle"];
    let text = run(tensors).ok();
    assert!(text.contains("[9] lod [0, 1, 2, 3, ..., 9] "), "{text}");
    let as_json = tensors.into_iter().chain([&"--json" as &dyn AsRef<Path>]);
    let listed = run_all(as_json).json();
    assert_eq!(listed["tensors"][0]["lod"], json!([offsets]));
}
