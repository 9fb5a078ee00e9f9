use std::fs;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run, run_all};

#[test]
fn a_message_goes_to_several_files_and_comes_back_from_them() {
    let dir = Dir::new();
    let input = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let prefix = dir.path("m");
    let split = |more: &[&str]| {
        let (input, prefix) = (input.to_str().unwrap(), prefix.to_str().unwrap());
        let mut args = vec!["split", input, "-o", prefix, "--profile", "extended"];
        args.extend(["--max-file-size", "8KiB", "--compression", "none", "--json"]);
        args.extend(more);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = std::iter::once("protosplit").chain(args);
        let exit = protosplit_cli::run(args, &mut out, &mut err);
        (
            exit,
            String::from_utf8(out).unwrap(),
            String::from_utf8(err).unwrap(),
        )
    };
    let (exit, out, err) = split(&[]);
    assert_eq!(exit, Exit::Done, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let files = report["files"].as_array().unwrap();
    assert!(files.len() > 1, "{out}");
    for file in dir.files().iter().filter(|file| file.starts_with("m.")) {
        assert!(
            fs::metadata(dir.path(file)).unwrap().len() <= 8 << 10,
            "{file}"
        );
    }
    assert_eq!(dir.files().len(), files.len() + 2);

    let info = run([&"info", &prefix, &"--json"]).json();
    assert_eq!(info["files"].as_array().unwrap().len(), files.len());
    assert_eq!(info["file_bytes"], report["output_bytes"]);
    assert_eq!(info["join_version"], 1);
    for command in ["info", "ls"] {
        let listed = run([&command, &prefix, &"--json"]).json();
        assert_eq!(listed["files"].as_array().unwrap().len(), files.len());
        let text = run([&command, &prefix]).ok();
        let lines = text.lines().filter(|line| line.ends_with(".cpb"));
        assert!(lines.count() >= files.len(), "{text}");
    }
    let layout = run([&"layout", &prefix, &"--json"]).json();
    let others = layout["other_files"].as_array().unwrap();
    assert_eq!(others.len(), files.len());
    let chunks = |file: &serde_json::Value| -> usize {
        let regions = file["regions"].as_array().unwrap().iter();
        regions
            .map(|region| region["chunks"].as_array().map_or(0, Vec::len))
            .sum()
    };
    let in_others: usize = others.iter().map(chunks).sum();
    let all = info["chunks"].as_array().unwrap().len();
    assert_eq!(chunks(&layout) + in_others, all);

    // By default, a changed copy has all of its chunks in one file.
    let one = dir.path("one.cpb");
    let recompress: [&dyn AsRef<std::path::Path>; 6] = [
        &"recompress",
        &prefix,
        &"-o",
        &one,
        &"--compression",
        &"zstd",
    ];
    run(recompress).ok();
    assert!(run([&"info", &one, &"--json"]).json()["files"].is_null());
    run([&"verify", &one, &"--against", &input]).ok();
    let node = "meta_graphs[0].graph_def.node[1].name";
    let name = dir.file("name", "another");
    let new = dir.path("new.cpb");
    run([&"replace", &prefix, &node, &"--with", &name, &"-o", &new]).ok();
    assert_eq!(run([&"cat", &new, &node]).ok(), "another\n");
    for made in [one, new] {
        fs::remove_file(made).unwrap();
    }

    // A changed copy has several files only if that is requested again.
    let several = dir.path("several");
    fs::create_dir(&several).unwrap();
    let target = several.join("m.cpb");
    let (read, written) = (prefix.to_str().unwrap(), target.to_str().unwrap());
    let new = name.to_str().unwrap();
    for args in [
        vec!["recompress", read, "--compression", "zstd"],
        vec!["replace", read, node, "--with", new],
    ] {
        let out = ["-o", written, "--max-file-size", "6KiB", "--force"];
        let mut args: Vec<_> = args.into_iter().chain(out).collect();
        let text = run_all(args.iter().map(|arg| arg as _)).out;
        args.push("--json");
        let ran = run_all(args.iter().map(|arg| arg as _));
        let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let files = report["files"].as_array().unwrap().len() + 1;
        assert!(text.contains(&format!("{files} files, together")), "{text}");
        let found = fs::read_dir(&several).unwrap();
        let sizes: Vec<u64> = found
            .map(|f| f.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(
            sizes.len(),
            files,
            "the second replaces what the first left"
        );
        assert!(sizes.iter().all(|size| *size <= 6 << 10), "{sizes:?}");
        run([&"verify", &target]).ok();
    }
    assert_eq!(run([&"cat", &target, &node]).ok(), "another\n");
    fs::remove_dir_all(several).unwrap();
    fs::remove_file(name).unwrap();

    run([&"verify", &prefix, &"--against", &input]).ok();
    run([&"merge", &prefix, &"-o", &dir.path("back.pb")]).ok();
    assert_eq!(
        fs::read(dir.path("back.pb")).unwrap(),
        fs::read(&input).unwrap()
    );

    // The input's files are never overwritten, even with `--force`.
    let part = files[0]["file"].as_str().unwrap().to_owned();
    let output: [&dyn AsRef<std::path::Path>; 3] = [&"-o", &part, &"--force"];
    for mut args in [
        vec!["merge"],
        vec!["recompress", "--compression", "none"],
        vec!["replace", "--with", input.to_str().unwrap(), node],
    ] {
        args.insert(1, prefix.to_str().unwrap());
        let args = args.iter().map(|arg| arg as &dyn AsRef<std::path::Path>);
        let error = run_all(args.chain(output)).failed(Exit::Usage);
        assert!(
            error.contains("refusing to overwrite the input "),
            "{error}"
        );
    }

    // The message is split again into a different number of files. The files of the earlier split
    // that are left over are removed and listed.
    let (exit, _, err) = split(&["--max-chunk-size", "3KiB"]);
    assert_eq!(exit, Exit::Usage, "{err}");
    let (exit, out, err) = split(&["--max-chunk-size", "3KiB", "--force"]);
    assert_eq!(exit, Exit::Done, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for removed in report["removed_files"].as_array().unwrap() {
        let removed = removed.as_str().unwrap();
        assert!(err.contains(&format!(
            "removed {removed}, which belonged to an earlier split"
        )));
    }
    run([&"verify", &prefix]).ok();

    let gone = report["files"][0]["file"].as_str().unwrap();
    fs::remove_file(gone).unwrap();
    let error = run([&"verify", &prefix]).failed(Exit::Usage);
    let name = gone.rsplit('/').next().unwrap();
    assert!(
        error.contains(name) && error.contains("isn't there"),
        "{error}"
    );
}

#[test]
fn what_the_extended_profile_is_needed_for_is_said() {
    let dir = Dir::new();
    let input = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let error = run([&"split", &input, &"--max-file-size", &"1MiB"]).failed(Exit::Usage);
    assert!(error.contains("needs --profile extended"), "{error}");
    let folder = dir.path("");
    let rewritten = dir.path("rewritten.cpb");
    let others = Dir::new();
    let one = others.path("one.cpb");
    let (out, size) = (others.path("one"), "8KiB");
    run([&"split", &input, &"-o", &out, &"--max-chunk-size", &size]).ok();
    for (read, why) in [
        (&one, "since TensorFlow reads a single file only"),
        (&input, "one message, not in chunks"),
        (
            &folder,
            "TensorFlow reads a SavedModel from a single file; to write",
        ),
    ] {
        let args: [&dyn AsRef<std::path::Path>; 9] = [
            &"replace",
            read,
            &"meta_graphs[0].meta_info_def",
            &"--with",
            &dir.path("value"),
            &"-o",
            &rewritten,
            &"--max-file-size",
            &size,
        ];
        fs::write(dir.path("value"), "").unwrap();
        let error = run(args).failed(Exit::Usage);
        assert!(error.contains(why), "{error}");
        fs::remove_file(dir.path("value")).unwrap();
    }
    let error = run([
        &"split",
        &folder,
        &"-o",
        &dir.path("x"),
        &"--profile",
        &"extended",
    ]);
    assert!(
        error
            .failed(Exit::Usage)
            .contains("can't use --profile extended")
    );
    let error = run([&"split", &input, &"--profile", &"other"]);
    assert_eq!(error.exit, Exit::Usage);
    assert!(
        error.err.contains("possible values: tensorflow, extended"),
        "{}",
        error.err
    );
    let error = run([
        &"split",
        &input,
        &"--max-chunk-size",
        &"2KiB",
        &"--max-value-size",
        &"1KiB",
    ]);
    let error = error.failed(Exit::Bad);
    assert!(
        error.ends_with("the profile `extended` may cut it"),
        "{error}"
    );
    assert_eq!(dir.files(), ["saved_model.pb"]);
}

#[test]
fn files_are_filled_to_their_size_after_compression() {
    let dir = Dir::new();
    // Random digits, which can be compressed to less than half of their size.
    let mut state = 1_u32;
    let mut text = || {
        let mut digits = String::new();
        while digits.len() < 900 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            digits.push_str(&format!("{:08}", state >> 8));
        }
        digits
    };
    let mut message = Vec::new();
    for _ in 0..600 {
        let text = text();
        let len = u32::try_from(text.len()).unwrap();
        let varint = |value: u32| {
            [
                u8::try_from(value & 127).unwrap() | 128,
                u8::try_from(value >> 7).unwrap(),
            ]
        };
        message.push(0x0a);
        message.extend(varint(len + 3));
        message.push(0x0a);
        message.extend(varint(len));
        message.extend(text.into_bytes());
    }
    let graph = dir.file("graph.pb", message);
    let max: u64 = 64 << 10;
    let options = [
        "--message",
        "tensorflow.GraphDef",
        "--profile",
        "extended",
        "--max-chunk-size",
        "4KiB",
        "--max-file-size",
        "64KiB",
        "--compression",
        "zstd",
    ];
    let chunked = dir.split(&graph, "g", &options);
    let mut parts: Vec<u64> = dir
        .files()
        .iter()
        .filter(|name| name.contains(".0000"))
        .map(|name| fs::metadata(dir.path(name)).unwrap().len())
        .collect();
    assert!(parts.len() > 2, "{parts:?}");
    assert!(parts.iter().all(|size| *size <= max), "{parts:?}");
    // Except for the last file, each file is so full that another chunk wouldn't fit.
    parts.pop();
    assert!(parts.iter().all(|size| *size > max * 9 / 10), "{parts:?}");
    run([&"verify", &chunked, &"--against", &graph]).ok();
}
