//! Tests with the URLs of objects as arguments. The store `memory://` is in the memory of this
//! process.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::prost::Message;
use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run, run_all};

/// Splits a model to a file in a folder, and to an object in a store. Returns the paths of the
/// model and of the file, and the object's URL.
fn split_to(dir: &Dir, name: &str) -> (PathBuf, PathBuf, String) {
    let source = dir.path("saved_model.pb");
    fs::copy(fixture("functions_consts/saved_model.pb"), &source).unwrap();
    let here = dir.path("here");
    let there = format!("memory:///{name}/there");
    for output in [here.as_path(), there.as_ref()] {
        run([
            &"split",
            &source,
            &"-o",
            &output,
            &"--max-chunk-size",
            &"10KiB",
            &"--value-chunk-size",
            &"1KiB",
            &"--json",
        ])
        .json();
    }
    (source, dir.path("here.cpb"), format!("{there}.cpb"))
}

#[test]
fn what_reads_a_file_in_chunks_reads_an_object_alike() {
    let dir = Dir::new();
    let (_, here, there) = split_to(&dir, "alike");
    for command in ["info", "tree", "verify", "tensors", "layout"] {
        let [of_file, of_object] = [here.to_str().unwrap(), &there]
            .map(|file| run([&command, &file]).ok().replace(file, "F"));
        assert_eq!(of_file, of_object, "{command}");
    }
    // For an object, `ls` omits these fields, since reading them would take a request for each
    // chunk.
    let [mut of_file, of_object] = [here.to_str().unwrap(), &there]
        .map(|file| run([&"ls", &file, &"--json"]).json()["chunks"].take());
    for chunk in of_file.as_array_mut().unwrap() {
        for name in ["stored_size", "compression", "ratio"] {
            chunk[name] = serde_json::Value::Null;
        }
    }
    assert_eq!(of_file, of_object);
    for path in ["saved_model_schema_version", "meta_graphs[0].meta_info_def"] {
        let [of_file, of_object] =
            [(here.to_str().unwrap(), "file"), (&*there, "object")].map(|(input, name)| {
                let out = dir.path(name);
                run([&"get", &input, &path, &"-o", &out, &"--force"]).ok();
                fs::read(out).unwrap()
            });
        assert!(!of_file.is_empty() && of_file == of_object, "{path}");
    }
}

#[test]
fn an_object_that_was_replaced_is_read_anew_by_the_next_run() {
    let there = "memory:///again/there";
    let url = format!("{there}.cpb");
    for model in ["functions_consts", "keras_mlp", "lookup_strings"] {
        let model = fixture(model).join("saved_model.pb");
        run([
            &"split",
            &model,
            &"-o",
            &there,
            &"--max-chunk-size",
            &"10KiB",
            &"--force",
            &"-q",
        ])
        .ok();
        let read = run([&"info", &url, &"--json"]).json();
        assert_eq!(read["source_bytes"], fs::metadata(model).unwrap().len());
        run([&"verify", &url]).ok();
    }
}

#[test]
fn tensors_of_an_object_are_those_of_the_file() {
    let dir = Dir::new();
    let (plain, chunked, object) = split_to(&dir, "tensors");
    let onnx = dir.path("model.onnx");
    fs::write(&onnx, crate::onnx::model().encode_to_vec()).unwrap();
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    fs::copy(&plain, model.join("saved_model.pb")).unwrap();
    let (folder, other) = ("memory:///tensors/model", "memory:///tensors/model.onnx");
    run([&"convert", &model, &folder, &"--to", &"pb"]).ok();
    run([&"convert", &onnx, &other, &"--to", &"onnx"]).ok();
    let plain_object = format!("{folder}/saved_model.pb");
    for (file, url) in [
        (&chunked, &*object),
        (&plain, &*plain_object),
        (&onnx, other),
    ] {
        let [of_file, of_object] = [file.to_str().unwrap(), url].map(|input| {
            let listed = run([&"tensors", &input, &"--json"]).json();
            let tensors = listed["tensors"].as_array().unwrap();
            let has_width = tensors.iter().find(|tensor| tensor["dtype"] != "string");
            let name = has_width.unwrap()["name"].as_str().unwrap();
            let (one, all) = (dir.path("one.npy"), dir.path("all.safetensors"));
            run([&"get", &input, &"--tensor", &name, &"-o", &one, &"--force"]).ok();
            // The model's strings can't be exported to safetensors, so a note is printed.
            let exported = run([&"export", &input, &"-o", &all, &"--force"]);
            assert_eq!(exported.exit, Exit::Done, "{}", exported.err);
            (
                tensors.clone(),
                fs::read(one).unwrap(),
                fs::read(all).unwrap(),
            )
        });
        assert!(
            of_file == of_object,
            "{url}: {:?} {:?}",
            of_file.0,
            of_object.0
        );
    }
}

#[test]
fn a_merge_goes_from_and_to_a_store() {
    let dir = Dir::new();
    let (source, here, there) = split_to(&dir, "merged");
    let wanted = fs::read(source).unwrap();
    let file = dir.path("from_store.pb");
    run([&"merge", &there, &"-o", &file]).ok();
    assert!(fs::read(&file).unwrap() == wanted);
    for (at, input) in [here.to_str().unwrap(), &there].into_iter().enumerate() {
        let url = format!("memory:///merged/back{at}.pb");
        run([&"merge", &input, &"-o", &url]).ok();
        let failed = run([&"merge", &input, &"-o", &url]).failed(Exit::Usage);
        assert_eq!(
            failed,
            format!("{url}: the object is there already (--force replaces it)")
        );
        run([&"merge", &input, &"-o", &url, &"--force"]).ok();
        run([&"verify", &there, &"--against", &url]).ok();
    }
    // The canonical form isn't stored anywhere, so it is written like a message in several files.
    let (canonical, url) = (dir.path("canonical.pb"), "memory:///merged/canonical.pb");
    for output in [canonical.to_str().unwrap(), url, url] {
        let args = [&"merge" as &dyn AsRef<Path>, &here, &"-o", &output];
        run_all(
            args.into_iter()
                .chain([&"--canonical" as _, &"--force" as _]),
        )
        .ok();
    }
    run([&"verify", &url, &"--against", &canonical]).ok();
}

#[test]
fn what_is_intact_of_an_object_is_recovered_to_an_object() {
    let dir = Dir::new();
    let (_, _, there) = split_to(&dir, "salvaged");
    let url = "memory:///salvaged/rest.pb";
    run([&"merge", &there, &"-o", &url, &"--skip-damaged"]).ok();
    run([&"verify", &there, &"--against", &url]).ok();
}

#[test]
fn a_split_and_a_merge_to_a_store_print_nothing_if_quiet() {
    let dir = Dir::new();
    let (source, here, _) = split_to(&dir, "quiet");
    for (verb, input, to) in [
        ("split", &source, "memory:///quiet/again"),
        ("merge", &here, "memory:///quiet/back.pb"),
    ] {
        let said = run([&verb, input, &"-o", &to, &"--quiet"]).ok();
        assert_eq!(said, "", "{verb}");
        run([&verb, input, &"-o", &to, &"--force"]).ok();
    }
}

#[test]
fn a_split_to_a_store_is_reported_like_one_to_a_file() {
    let dir = Dir::new();
    let source = fixture("functions_consts/saved_model.pb");
    for (at, size) in ["10KiB", "1MiB"].into_iter().enumerate() {
        let (here, there) = (
            dir.path(&at.to_string()),
            format!("memory:///reported/{at}"),
        );
        for how in ["--json", "--progress=never"] {
            let [of_file, of_object] = [here.to_str().unwrap(), &there].map(|output| {
                let ran = run([
                    &"split",
                    &source,
                    &"-o",
                    &output,
                    &"--max-chunk-size",
                    &size,
                    &"--merkle-root",
                    &"--force",
                    &how,
                ]);
                assert_eq!(ran.exit, Exit::Done, "{ran:?}");
                [ran.out, ran.err].map(|said| said.replace(output, "F"))
            });
            assert_eq!(of_file, of_object, "{size} {how}");
        }
    }
}

#[test]
fn a_message_in_a_store_is_split_and_a_folder_is_converted() {
    let dir = Dir::new();
    let (source, _, _) = split_to(&dir, "split");
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    fs::copy(&source, model.join("saved_model.pb")).unwrap();
    let (small, whole) = ("memory:///split/small", "memory:///split/whole");
    run([&"convert", &model, &small, &"--to", &"cpb"]).ok();
    let report = run([&"ls", &format!("{small}/saved_model.cpb"), &"--json"]).json();
    assert_eq!(report["split"], true);
    run([&"convert", &small, &whole, &"--to", &"pb"]).ok();
    let url = format!("{whole}/saved_model.pb");
    run([
        &"split",
        &url,
        &"-o",
        &"memory:///split/again",
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    let back = dir.path("again.pb");
    run([&"merge", &"memory:///split/again.cpb", &"-o", &back]).ok();
    assert!(fs::read(back).unwrap() == fs::read(source).unwrap());
}

#[test]
fn errors_name_what_was_given() {
    let missing = run([&"ls", &"memory:///nothing/here"]).failed(Exit::Usage);
    assert_eq!(missing, "memory:///nothing/here: no such object");
    let dir = Dir::new();
    let (_, here, _) = split_to(&dir, "errors");
    let url = "http://localhost:9/m.pb";
    let refused = run([&"merge", &here, &"-o", &url]).failed(Exit::Usage);
    assert_eq!(
        refused,
        format!("{url}: a web server can only be read from")
    );
}

#[test]
fn an_object_is_not_changed_in_place_and_its_signature_needs_a_name() {
    let dir = Dir::new();
    let (source, _, _) = split_to(&dir, "in_place");
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    fs::copy(&source, model.join("saved_model.pb")).unwrap();
    let there = "memory:///in_place/model";
    run([&"convert", &model, &there, &"--to", &"cpb"]).ok();
    let key = dir.file("key.pem", "");
    let converted: &[&dyn AsRef<Path>] = &[&"convert", &there, &"--to", &"pb", &"--in-place"];
    let externalized: &[&dyn AsRef<Path>] = &[&"externalize", &there, &"--in-place"];
    let signed: &[&dyn AsRef<Path>] = &[&"sign", &there, &"--key", &key];
    for (args, problem) in [
        (converted, "an object can't be converted in place"),
        (externalized, "an object can't be externalized in place"),
        (signed, "no signature is written beside an object"),
    ] {
        let refused = run_all(args.iter().copied()).failed(Exit::Usage);
        assert_eq!(
            refused,
            format!("{there}: {problem}: name the output with -o")
        );
    }
}

#[test]
fn a_signature_names_an_object_or_a_folder_in_a_store_like_a_local_one() {
    let dir = Dir::new();
    let (source, _, _) = split_to(&dir, "signed");
    let model = dir.path("model");
    fs::create_dir(&model).unwrap();
    fs::copy(&source, model.join("saved_model.pb")).unwrap();
    let there = "memory:///signed/model";
    run([&"convert", &model, &there, &"--to", &"cpb"]).ok();
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sign");
    let (private, public) = (keys.join("p256.pem"), keys.join("p256.pub"));
    for (url, name) in [
        (there.to_owned(), "model"),
        (format!("{there}/"), "model"),
        (format!("{there}/saved_model.cpb"), "saved_model.cpb"),
    ] {
        let signature = dir.path("signature");
        let signed: [&dyn AsRef<Path>; 7] = [
            &"sign", &url, &"--key", &private, &"-o", &signature, &"--force",
        ];
        run(signed).ok();
        let checked: [&dyn AsRef<Path>; 7] = [
            &"verify",
            &url,
            &"--signature",
            &signature,
            &"--key",
            &public,
            &"--json",
        ];
        let report = run(checked).json();
        assert_eq!(report["model"], name, "{url}");
        assert_eq!(report["ok"], true, "{url}");
    }
}

/// Runs all parts of a plan, and commits the plan.
fn run_parts(verb: &str, plan: &str) -> String {
    let mut part = 0;
    loop {
        let number = part.to_string();
        let done = run([&verb, &"--plan", &plan, &"--part", &number, &"--json"]).json();
        part += 1;
        if done["parts"] == part {
            return run([&verb, &"--plan", &plan, &"--commit"]).ok();
        }
    }
}

#[test]
fn a_split_a_verification_and_a_merge_by_several_hosts_are_in_a_store_alone() {
    let source = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    let url = |name: &str| format!("memory:///by-hosts/{name}");
    let dir = Dir::new();
    dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    run([&"convert", &dir.path(""), &url("model"), &"--to", &"pb"]).ok();
    let (input, prefix, plan) = (url("model/saved_model.pb"), url("small"), url("plan"));
    let arguments: [&dyn AsRef<Path>; 14] = [
        &"split",
        &input,
        &"-o",
        &prefix,
        &"--profile",
        &"extended",
        &"--max-chunk-size",
        &"4KiB",
        &"--value-chunk-size",
        &"1KiB",
        &"--plan-only",
        &plan,
        &"--parts",
        &"4",
    ];
    run_all(arguments).ok();
    let missing = run([&"split", &"--plan", &plan, &"--commit"]).failed(Exit::Usage);
    assert!(missing.contains("no report of part 0"), "{missing}");
    let said = run_parts("split", &plan);
    assert!(said.contains("a merge is byte-exact"), "{said}");
    let again = run([&"split", &"--plan", &plan, &"--commit"]).ok();
    assert!(again.contains("committed before"), "{again}");

    let (chunked, checks, merge) = (url("small.cpb"), url("checks"), url("merge"));
    run([
        &"verify",
        &chunked,
        &"--plan-only",
        &checks,
        &"--parts",
        &"3",
    ])
    .ok();
    let said = run_parts("verify", &checks);
    assert!(said.starts_with("ok: "), "{said}");
    let target = url("merged.pb");
    let arguments: [&dyn AsRef<Path>; 8] = [
        &"merge",
        &chunked,
        &"-o",
        &target,
        &"--plan-only",
        &merge,
        &"--parts",
        &"3",
    ];
    run_all(arguments).ok();
    let said = run_parts("merge", &merge);
    assert!(said.contains("byte-exact"), "{said}");
    let back = dir.path("back.pb");
    run([&"merge", &chunked, &"-o", &back]).ok();
    run([&"verify", &chunked, &"--against", &target]).ok();
    assert!(fs::read(back).unwrap() == source);
}

#[test]
fn a_plan_refers_to_objects_and_never_to_a_local_copy() {
    let dir = Dir::new();
    let (_, here, _) = split_to(&dir, "planned");
    let (prefix, plan) = (here.with_extension(""), dir.path("plan"));
    let (url, folder) = ("memory:///planned/model.onnx", "memory:///planned/saved");
    run([&"convert", &dir.path(""), &folder, &"--to", &"cpb"]).ok();
    let target = "memory:///planned/merged.pb";
    run([&"merge", &prefix, &"-o", &target, &"--plan-only", &plan]).ok();
    run_parts("merge", plan.to_str().unwrap());
    run([&"verify", &here, &"--against", &target]).ok();

    let onnx = dir.file("model.onnx", crate::onnx::model().encode_to_vec());
    run([&"convert", &onnx, &url, &"--to", &"onnx"]).ok();
    for (verb, input) in [("split", url), ("merge", folder)] {
        let output = format!("memory:///planned/{verb}");
        let arguments: [&dyn AsRef<Path>; 6] =
            [&verb, &input, &"-o", &output, &"--plan-only", &plan];
        let extended = (verb == "split").then_some(["--profile", "extended"]);
        let extended = extended.iter().flatten();
        let arguments = arguments
            .into_iter()
            .chain(extended.map(|option| option as &dyn AsRef<Path>));
        let refused = run_all(arguments).failed(Exit::Usage);
        assert!(
            refused.starts_with(&format!("{input}: a plan can't refer to a local copy")),
            "{refused}"
        );
    }
}

#[test]
fn a_samediff_model_is_written_and_read_in_a_store() {
    let dir = Dir::new();
    let classic = fixture("../samediff/classic.fb");
    let (here, there) = (dir.path("model.zip"), "memory:///samediff/model.zip");
    for out in [here.to_str().unwrap(), there] {
        let said = run([&"samediff", &"add", &classic, &"--tag", &"one", &"-o", &out]).ok();
        assert!(said.starts_with(&format!("{out}: ")), "{said}");
    }
    let [of_file, of_object] = [here.to_str().unwrap(), there]
        .map(|file| run([&"samediff", &"tags", &file]).ok().replace(file, "F"));
    assert_eq!(of_file, of_object);
    let add = [
        &"samediff",
        &"gc",
        &there,
        &"-o",
        &there as &dyn AsRef<Path>,
    ];
    let failed = run(add).failed(Exit::Usage);
    assert!(
        failed.contains(there) && failed.contains("is there already"),
        "{failed}"
    );
    let again = run_all(add.into_iter().chain([&"--force" as &dyn AsRef<Path>]));
    assert_eq!(again.exit, Exit::Done, "{}", again.err);
}

#[test]
fn a_message_is_split_beside_itself_where_no_output_is_given() {
    let dir = Dir::new();
    let (source, _, _) = split_to(&dir, "beside");
    run([
        &"convert",
        &dir.path(""),
        &"memory:///beside/model",
        &"--to",
        &"pb",
    ])
    .ok();
    let url = "memory:///beside/model/saved_model.pb";
    run([&"split", &url, &"--max-chunk-size", &"10KiB"]).ok();
    let back = dir.path("back.pb");
    run([
        &"merge",
        &"memory:///beside/model/saved_model.cpb",
        &"-o",
        &back,
    ])
    .ok();
    assert!(fs::read(back).unwrap() == fs::read(source).unwrap());
    let chunked = "memory:///beside/model/saved_model.cpb";
    let said = run([&"split", &chunked, &"-o", &"memory:///beside/no"]).failed(Exit::Usage);
    assert!(said.contains("split already"), "{said}");
}

#[test]
fn a_message_that_is_copied_first_is_split_beside_the_object_too() {
    let dir = Dir::new();
    let onnx = dir.file("model.onnx", crate::onnx::model().encode_to_vec());
    let url = "memory:///copied/model.onnx";
    run([&"convert", &onnx, &url, &"--to", &"onnx"]).ok();
    run([&"split", &url, &"--max-chunk-size", &"4KiB"]).ok();
    let chunked = "memory:///copied/model.cpb";
    run([&"verify", &chunked, &"--against", &url]).ok();
}

#[test]
fn a_model_in_a_store_maps_no_constants_from_a_folder_that_is_gone() {
    let dir = crate::every_command::prepared();
    let (model, url) = (dir.path("model"), "memory:///mapped/model");
    let refused = run([
        &"externalize",
        &model,
        &"-o",
        &url,
        &"--min-size",
        &"1KiB",
        &"--mmap",
    ])
    .failed(Exit::Usage);
    assert_eq!(
        refused,
        format!("{url}: --mmap: constants can't be mapped from objects")
    );
}

#[test]
fn a_message_in_one_piece_is_not_written_where_readers_prefer_an_older_one_in_chunks() {
    let dir = Dir::new();
    let (source, _, there) = split_to(&dir, "hidden");
    let prefix = there.strip_suffix(".cpb").unwrap();
    let plain = format!("{prefix}.pb");
    for output in [prefix, plain.as_str()] {
        for several in [&["--profile=extended", "--max-file-size=1GiB"][..], &[]] {
            let arguments: [&dyn AsRef<Path>; 5] = [&"split", &source, &"-o", &output, &"--force"];
            let several = several.iter().map(|option| option as &dyn AsRef<Path>);
            let refused = run_all(arguments.into_iter().chain(several)).failed(Exit::Usage);
            assert!(refused.starts_with(&format!("{there}: ")), "{refused}");
            assert!(refused.ends_with("remove it first"), "{refused}");
        }
    }
    let folder = "memory:///hidden/model";
    run([&"convert", &dir.path(""), &folder, &"--to", &"cpb"]).ok();
    let model = dir.path("");
    let refused = run([&"convert", &model, &folder, &"--to", &"pb", &"--force"]);
    let refused = refused.failed(Exit::Usage);
    let chunked = format!("{folder}/saved_model.cpb: ");
    assert!(refused.starts_with(&chunked), "{refused}");
}

/// Arguments of commands that write to the output that follows, and the extension of that output.
const FORCED: &[(&[&str], &str)] = &[
    (&["get", "small", NODE, "-o"], ""),
    (&["tree", "small", "--html"], ".html"),
    (&["tree", "small", "--svg"], ".svg"),
    (&["export", "m.onnx", "-o"], ".safetensors"),
    (&["split", "model/saved_model.pb", "-o"], ""),
    (&["merge", "small/saved_model.cpb", "-o"], ".pb"),
    (&["convert", "model", "--to", "cpb", "-o"], ""),
    (&["externalize", "model", "--min-size", "1KiB", "-o"], ""),
    (&["internalize", "runs", "-o"], ""),
    (&["sign", "model", "--key", "key.pem", "-o"], ".sig"),
    (&["recompress", "small", "--compression", "none", "-o"], ""),
    (&["replace", "model", VERSION, "--value", "2", "-o"], ""),
    (&["remove", "model", NODE, "-o"], ""),
    (&["insert", "model", TAGS, "--value", "gpu", "-o"], ""),
    (&["strip", "model", "--tensors", "-o"], ""),
    (
        &["edit", "model/saved_model.pb", "--remove", NODE, "-o"],
        ".pb",
    ),
];

const NODE: &str = "meta_graphs[0].graph_def.node[1]";
const TAGS: &str = "meta_graphs[0].meta_info_def.tags";
const VERSION: &str = "saved_model_schema_version";

#[test]
fn an_output_in_a_store_is_replaced_only_if_that_is_forced() {
    let dir = crate::every_command::prepared();
    dir.file("m.onnx", crate::onnx::model().encode_to_vec());
    for (at, (args, extension)) in FORCED.iter().enumerate() {
        let url = format!("memory:///forced/{at}{extension}");
        let written = |force: &[&str]| {
            let args = args.iter().map(|arg| match dir.path(arg) {
                file if file.exists() => file,
                _ => arg.into(),
            });
            let rest = [&*url].into_iter().chain(force.iter().copied());
            let all: Vec<PathBuf> = args.chain(rest.map(PathBuf::from)).collect();
            run_all(all.iter().map(|arg| arg as &dyn AsRef<Path>))
        };
        let first = written(&[]);
        assert_eq!(first.exit, Exit::Done, "{args:?}: {}", first.err);
        let refused = written(&[]);
        assert_eq!(refused.exit, Exit::Usage, "{args:?}: {}", refused.err);
        assert!(refused.err.contains("is there already"), "{}", refused.err);
        let forced = written(&["--force"]);
        assert_eq!(forced.exit, Exit::Done, "{args:?}: {}", forced.err);
    }
}
