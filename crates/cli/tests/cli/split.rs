//! Tests for splitting files with `protosplit split`.

use std::fs;
use std::path::Path;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, messages, run};

const SIZES: [(&str, u64); 4] = [
    ("1KiB", 1 << 10),
    ("10KiB", 10 << 10),
    ("100KiB", 100 << 10),
    ("1GiB", 1 << 30),
];

#[test]
fn concatenated_messages_come_back_byte_for_byte_and_what_cannot_is_refused_if_asked() {
    let dir = Dir::new();
    let node = |name: &str| [&[0x0a, 40, 0x0a, 38][..], name.repeat(38).as_bytes()].concat();
    // The graph has nodes, a version, and nodes again, like the output of `cat a b`.
    let graph = |name: &str| [node(name).repeat(40), vec![0x22, 2, 0x08, 27]].concat();
    let trace = dir.file("trace.pb", [graph("a"), graph("b")].concat());
    let turns = [node("c"), vec![0x18, 1]].concat().repeat(400);
    let turns = dir.file("turns.pb", turns);
    let out = dir.path("out");
    let split = |file: &Path, profile: &str| {
        run([
            &"split",
            &file,
            &"-o",
            &out,
            &"--force",
            &"--message",
            &"tensorflow.GraphDef",
            &"--max-chunk-size",
            &"1KiB",
            &"--profile",
            &profile,
            &"--require-byte-exact",
        ])
    };
    for (file, profile) in [
        (&trace, "tensorflow"),
        (&trace, "extended"),
        (&turns, "extended"),
    ] {
        split(file, profile).ok();
        let back = dir.path("back.pb");
        run([&"merge", &out, &"-o", &back, &"--force"]).ok();
        assert!(fs::read(&back).unwrap() == fs::read(file).unwrap());
        let against = run([&"verify", &out, &"--against", file, &"--json"]).json();
        assert_eq!(against["against"]["result"], "byte-exact");
    }
    let error = split(&turns, "tensorflow").failed(Exit::Bad);
    assert!(error.contains("but not byte-exact"), "{error}");
}

#[test]
fn records_are_written_by_riegelis_option_string() {
    let dir = Dir::new();
    let model = fixture("functions_consts/saved_model.pb");
    for (options, region, compression) in [
        ("transpose,brotli:5", "transposed_records", "brotli"),
        ("transpose,uncompressed", "transposed_records", "none"),
        ("zstd:5", "records", "zstd"),
        ("uncompressed", "records", "none"),
    ] {
        let written = dir.split(
            &model,
            "m",
            &["--max-chunk-size", "20KiB", "--force", "--records", options],
        );
        let layout = run([&"layout", &written, &"--json"]).json();
        let regions = layout["regions"].as_array().unwrap().iter();
        let of_records: Vec<_> = regions
            .filter(|region| region["what"].as_str().unwrap().contains("records"))
            .collect();
        assert!(!of_records.is_empty(), "{options}: {layout}");
        for found in of_records {
            assert_eq!(found["what"], region, "{options}");
            assert_eq!(found["compression"], compression, "{options}");
        }
        let back = dir.path("back.pb");
        run([&"merge", &written, &"-o", &back, &"--force"]).ok();
        assert!(fs::read(&back).unwrap() == fs::read(&model).unwrap());
    }
    let bad = [
        ("transposed", "transposed"),
        ("brotli:99", "99"),
        ("zstd,brotli", "brotli"),
    ];
    for (options, named) in bad {
        let out = dir.path("bad");
        let ran = run([&"split", &model, &"-o", &out, &"--records", &options]);
        let error = ran.failed(Exit::Usage);
        assert!(error.contains(named), "{options}: {error}");
    }
}

#[test]
fn every_message_comes_back_as_it_was_at_every_size_in_every_compression() {
    let mut refused = 0;
    for (file, message) in messages() {
        for (size, bytes) in SIZES {
            for compression in ["none", "zstd", "brotli:3", "snappy"] {
                let dir = Dir::new();
                let (prefix, back) = (dir.path("m"), dir.path("back.pb"));
                let options: [&str; 7] = [
                    "--json",
                    "--message",
                    message,
                    "--max-chunk-size",
                    size,
                    "--compression",
                    compression,
                ];
                let [a, b, c, d, e, f, g] = options;
                let ran = run([&"split", &file, &"-o", &prefix, &a, &b, &c, &d, &e, &f, &g]);
                if ran.exit == Exit::Bad {
                    let error = ran.failed(Exit::Bad);
                    assert!(size == "1KiB" && error.contains(" bytes"), "{error}");
                    assert!(dir.files().is_empty(), "{:?}", dir.files());
                    refused += 1;
                    continue;
                }
                let report = ran.json();
                let split = fs::metadata(&file).unwrap().len() > bytes;
                assert_eq!(report["split"], split);
                assert_eq!(report["byte_exact"], true);
                let within = |chunk: &serde_json::Value| {
                    chunk["kind"] == "BYTES" || chunk["size"].as_u64().unwrap() <= bytes
                };
                assert!(
                    report["chunks"].as_array().unwrap().iter().all(within),
                    "{report}"
                );
                let merged = run([&"merge", &prefix, &"-o", &back, &"--json"]).json();
                assert_eq!(merged["output_bytes"], fs::metadata(&file).unwrap().len());
                assert!(
                    fs::read(&back).unwrap() == fs::read(&file).unwrap(),
                    "{file:?} {size} {compression}"
                );
            }
        }
    }
    assert!(refused <= 8, "{refused} were refused");
}

#[test]
fn the_report_says_where_every_chunk_is() {
    let dir = Dir::new();
    let file = fixture("functions_consts/saved_model.pb");
    let report = run([
        &"split",
        &file,
        &"-o",
        &dir.path("m"),
        &"--max-chunk-size",
        &"20KiB",
        &"--json",
    ])
    .json();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    for key in [
        "output",
        "split",
        "byte_exact",
        "message",
        "source_bytes",
        "output_bytes",
        "chunks",
    ] {
        assert!(keys.iter().any(|known| *known == key), "{key} in {keys:?}");
    }
    assert_eq!(report["output"], dir.path("m.cpb").to_str().unwrap());
    assert_eq!(report["message"], "tensorflow.SavedModel");
    assert_eq!(report["source_bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(
        report["output_bytes"],
        fs::metadata(dir.path("m.cpb")).unwrap().len()
    );
    let info = run([&"info", &dir.path("m"), &"--json"]).json();
    let (said, found) = (
        report["chunks"].as_array().unwrap(),
        info["chunks"].as_array().unwrap(),
    );
    assert_eq!(said.len(), found.len());
    for (said, found) in said.iter().zip(found) {
        for key in [
            "index",
            "kind",
            "path",
            "size",
            "stored_size",
            "compression",
            "position",
        ] {
            assert_eq!(said[key], found[key], "{key}");
        }
    }
}

#[test]
fn the_output_is_by_default_the_input_without_its_extension() {
    let dir = Dir::new();
    let file = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let ran = run([&"split", &file, &"--max-chunk-size", &"20KiB"]);
    assert_eq!(ran.exit, Exit::Done);
    assert!(
        ran.err.starts_with("protosplit: ") && ran.err.contains("prefer the .cpb"),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 1);
    assert_eq!(dir.files(), ["saved_model.cpb", "saved_model.pb"]);
}

#[test]
fn nothing_is_written_over_an_input_that_needs_no_cut() {
    let dir = Dir::new();
    let file = dir.copy(&fixture("keras_mlp/saved_model.pb"), "saved_model.pb");
    let said = run([&"split", &file]).ok();
    assert!(
        said.ends_with("within the maximum chunk size of 1.0 GiB: nothing to do\n"),
        "{said}"
    );
    let report = run([&"split", &file, &"--json"]).json();
    assert_eq!(
        (&report["split"], &report["written"]),
        (&false.into(), &false.into())
    );
    assert_eq!(dir.files(), ["saved_model.pb"]);
}

#[test]
fn a_prefix_may_be_given_as_the_name_of_the_file_to_be() {
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    run([
        &"split",
        &file,
        &"-o",
        &dir.path("a.cpb"),
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    run([
        &"split",
        &file,
        &"-o",
        &dir.path("b.pb"),
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    assert_eq!(dir.files(), ["a.cpb", "b.cpb"]);
}

#[test]
fn who_names_a_cpb_gets_one_whatever_the_size() {
    let dir = Dir::new();
    let file = dir.copy(&fixture("keras_mlp/saved_model.pb"), "m.pb");
    let message = "tensorflow.SavedModel";
    run([
        &"split",
        &file,
        &"--message",
        &message,
        &"-o",
        &dir.path("n.cpb"),
    ])
    .ok();
    // `m.pb`, which is the input, isn't removed as if it were an earlier output.
    let beside = run([
        &"split",
        &file,
        &"--message",
        &message,
        &"-o",
        &dir.path("m.cpb"),
    ]);
    assert_eq!(beside.exit, Exit::Done);
    assert_eq!(dir.files(), ["m.cpb", "m.pb", "n.cpb"]);
    run([&"merge", &dir.path("n.cpb"), &"-o", &dir.path("back.pb")]).ok();
    assert_eq!(
        fs::read(dir.path("back.pb")).unwrap(),
        fs::read(&file).unwrap()
    );
}

#[test]
fn what_is_in_the_way_is_replaced_only_by_force() {
    let dir = Dir::new();
    let (file, prefix) = (fixture("keras_mlp/saved_model.pb"), dir.path("m"));
    for stale in ["m.cpb", "m.pb"] {
        dir.file(stale, "stale");
        let refused = run([
            &"split",
            &file,
            &"-o",
            &prefix,
            &"--max-chunk-size",
            &"10KiB",
        ])
        .failed(Exit::Usage);
        assert!(
            refused.contains(stale) && refused.ends_with("(--force replaces it)"),
            "{refused}"
        );
        assert_eq!(fs::read(dir.path(stale)).unwrap(), b"stale");
        let ran = run([
            &"split",
            &file,
            &"-o",
            &prefix,
            &"--max-chunk-size",
            &"10KiB",
            &"--force",
            &"--json",
        ]);
        assert_eq!(ran.exit, Exit::Done);
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let removed = if stale == "m.pb" {
            Some(dir.path(stale))
        } else {
            None
        };
        assert_eq!(
            report["removed"].as_str(),
            removed.as_ref().and_then(|path| path.to_str())
        );
        assert_eq!(ran.err.contains("removed the existing"), removed.is_some());
        assert_eq!(dir.files(), ["m.cpb"]);
        fs::remove_file(dir.path("m.cpb")).unwrap();
    }
}

#[test]
fn any_type_that_tensorflow_has_will_do() {
    let dir = Dir::new();
    // The tensor has a dtype, and 300 strings of 10 bytes.
    let tensor = [
        &[0x08, 7][..],
        &[&[0x42, 10][..], b"0123456789"].concat().repeat(300),
    ]
    .concat();
    let file = dir.file("tensor.pb", &tensor);
    let report = run([
        &"split",
        &file,
        &"-o",
        &dir.path("t"),
        &"--message",
        &"tensorflow.TensorProto",
        &"--max-chunk-size",
        &"1KiB",
        &"--json",
    ])
    .json();
    assert_eq!(report["chunks"].as_array().unwrap().len(), 4);
    run([&"merge", &dir.path("t"), &"-o", &dir.path("back")]).ok();
    assert_eq!(fs::read(dir.path("back")).unwrap(), tensor);
}

#[test]
fn a_type_that_no_name_tells_must_be_given() {
    let file = fixture("graphdef_dtypes/graph.pb");
    let error = run([&"split", &file, &"--dry-run"]).failed(Exit::Usage);
    assert!(error.contains("--message tensorflow.GraphDef"), "{error}");
    let error = run([
        &"split",
        &file,
        &"--dry-run",
        &"--message",
        &"tensorflow.GraphDeff",
    ])
    .failed(Exit::Usage);
    assert_eq!(
        error,
        "no message type `tensorflow.GraphDeff`: did you mean `tensorflow.GraphDef`?"
    );
}

#[test]
fn sizes_and_compressions_out_of_range_are_wrong_usage() {
    let file = fixture("keras_mlp/saved_model.pb");
    for (option, value, hint) in [
        ("--max-chunk-size", "2147483148", "at most 2147483147 bytes"),
        ("--max-chunk-size", "2.5GiB", "at most 2147483147 bytes"),
        ("--max-chunk-size", "0", "0 bytes"),
        ("--max-chunk-size", "64MX", "is not a unit"),
        ("--value-chunk-size", "0", "0 bytes"),
        ("--value-chunk-size", "all", "must be a number of bytes"),
        ("--compression", "lzma", "lzma"),
        ("--compression", "zstd:99", "99"),
    ] {
        let ran = run([&"split", &file, &"--dry-run", &option, &value]);
        assert_eq!(ran.exit, Exit::Usage, "{option} {value}");
        let first = ran.err.lines().next().unwrap();
        assert!(
            first.starts_with("protosplit: ") && first.contains(hint),
            "{first}"
        );
    }
    run([
        &"split",
        &file,
        &"--dry-run",
        &"--max-chunk-size",
        &"2147483147",
        &"--value-chunk-size",
        &"none",
    ])
    .ok();
}

#[test]
fn a_dry_run_shows_the_same_chunks_and_writes_nothing() {
    let dir = Dir::new();
    let file = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let dry = run([
        &"split",
        &file,
        &"--max-chunk-size",
        &"20KiB",
        &"--dry-run",
        &"--json",
    ])
    .json();
    assert_eq!(dir.files(), ["saved_model.pb"]);
    let wet = run([
        &"split",
        &file,
        &"-o",
        &dir.path("m"),
        &"--max-chunk-size",
        &"20KiB",
        &"--json",
    ])
    .json();
    let (dry, wet) = (
        dry["chunks"].as_array().unwrap(),
        wet["chunks"].as_array().unwrap(),
    );
    assert_eq!(dry.len(), wet.len());
    for (dry, wet) in dry.iter().zip(wet) {
        for key in ["index", "kind", "path", "size"] {
            assert_eq!(dry[key], wet[key]);
        }
        assert!(dry["position"].is_null());
    }
}

#[test]
fn values_from_a_size_on_get_chunks_of_their_own_if_anything_is_cut() {
    let dir = Dir::new();
    let file = fixture("functions_consts/saved_model.pb");
    let bytes = |value: &str, name: &str| {
        let prefix = dir.path(name);
        let report = run([
            &"split",
            &file,
            &"-o",
            &prefix,
            &"--max-chunk-size",
            &"100KiB",
            &"--value-chunk-size",
            &value,
            &"--json",
        ])
        .json();
        let chunks = report["chunks"].as_array().unwrap();
        chunks
            .iter()
            .filter(|chunk| chunk["kind"] == "BYTES")
            .count()
    };
    assert_eq!(bytes("none", "none"), 0);
    assert_eq!(bytes("1KiB", "some"), 3);
}

#[test]
fn a_message_that_is_no_such_message_leaves_no_output() {
    let dir = Dir::new();
    let model = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    let cut = dir.file("saved_model.pb", &model[..model.len() - 100]);
    let error = run([
        &"split",
        &cut,
        &"-o",
        &dir.path("m"),
        &"--max-chunk-size",
        &"10KiB",
    ])
    .failed(Exit::Bad);
    assert!(
        error.contains("saved_model.pb: ") && error.contains("past the end"),
        "{error}"
    );
    let wrong = fixture("functions_consts/saved_model.pb");
    let wrong = run([
        &"split",
        &wrong,
        &"-o",
        &dir.path("m"),
        &"--message",
        &"tensorflow.FunctionDef",
        &"--max-chunk-size",
        &"10KiB",
    ]);
    wrong.failed(Exit::Bad);
    assert_eq!(dir.files(), ["saved_model.pb"]);
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage() {
    let error = run([&"split", &"/nowhere/saved_model.pb"]).failed(Exit::Usage);
    assert!(error.starts_with("/nowhere/saved_model.pb: "), "{error}");
    let dir = Dir::new();
    let file = fixture("keras_mlp/saved_model.pb");
    run([
        &"split",
        &file,
        &"-o",
        &dir.path("nowhere/m"),
        &"--max-chunk-size",
        &"10KiB",
    ])
    .failed(Exit::Usage);
    let chunked = dir.path("m.cpb");
    let size: [&dyn AsRef<Path>; 2] = [&"--max-chunk-size", &"10KiB"];
    run([&"split", &file, &"-o", &chunked, size[0], size[1]]).ok();
    let error = run([&"split", &chunked]).failed(Exit::Usage);
    assert!(
        error.ends_with("split already; `protosplit merge` makes a .pb of it"),
        "{error}"
    );
    let error = run([&"split", &file, &"-o", &dir.path("")]).failed(Exit::Usage);
    assert!(error.contains("the output is a prefix, as in "), "{error}");
}
