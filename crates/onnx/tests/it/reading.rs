//! External data in cases that readers treat differently.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Candidate, ConvertOptions, Format, OpenOptions, Opened};
use proto_splitter_onnx::{OnnxFormat, OnnxSplitter};

use crate::support::{bytes_of, entry, external, noise, of_initializers, open, raw, whole, write};

/// Opens a model through [`OnnxFormat`].
fn open_format(path: &Path, options: &OpenOptions) -> proto_splitter_core::Result<Opened> {
    OnnxFormat.open(&Candidate::new(path)?, options)
}

/// Reads a model with one 4-byte tensor, whose data file is "0123456789".
fn read(entries: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for name in ["w", "sub/w", "a..b", "w:0"] {
        fs::write(folder.path().join(name), b"0123456789").unwrap();
    }
    let path = write(
        folder.path(),
        &of_initializers(vec![external("t", 4, entries)]),
    );
    match open(&path) {
        Ok(source) => {
            assert_eq!(source.external_tensors(), 1);
            let tensors = source.tensors().unwrap();
            let mut bytes = Vec::new();
            tensors
                .write_raw(tensors.find("t").unwrap(), &mut bytes)
                .unwrap();
            Ok(bytes)
        }
        Err(error) => {
            let line = error.to_string();
            let shown = format!("{}: ", path.display());
            let line = line
                .strip_prefix(&shown)
                .unwrap_or_else(|| panic!("{line}"));
            Err(line.to_owned())
        }
    }
}

#[test]
fn references_are_read_as_onnxruntime_reads_them() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [u8]);
    let cases: &[Case<'_>] = &[
        (
            &[("location", "w"), ("offset", "3"), ("length", "4")],
            b"3456",
        ),
        (&[("location", "w"), ("offset", "3")], b"3456"),
        (&[("location", "w")], b"0123"),
        (
            &[("location", "w"), ("offset", "6"), ("length", "0")],
            b"6789",
        ),
        (
            &[("length", "4"), ("offset", "1"), ("location", "./w")],
            b"1234",
        ),
        (&[("location", "sub/w")], b"0123"),
        (&[("location", "sub/../w")], b"0123"),
        (&[("location", "a..b")], b"0123"),
        (&[("location", "w:0")], b"0123"),
        (
            &[
                ("location", "w"),
                ("checksum", "87ACEC17CD9DCD20A716CC2CF67417B71C8A7016"),
            ],
            b"0123",
        ),
        (&[("location", "w"), ("prepacked_0", "1")], b"0123"),
        (&[("location", "w"), ("basepath", "/somewhere")], b"0123"),
    ];
    for (entries, expected) in cases {
        assert_eq!(read(entries).as_deref(), Ok(*expected), "{entries:?}");
    }
}

#[test]
fn each_bad_reference_is_refused_for_its_own_reason() {
    let with = |key: &'static str, value: &'static str| [("location", "w"), (key, value)];
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &with("offset", "7"),
            "4 bytes from offset 7 go past the end of w, which has 10",
        ),
        (
            &with("offset", "11"),
            "offset 11 is past the end of w, which has 10 bytes",
        ),
        (
            &with("offset", "9223372036854775807"),
            "offset 9223372036854775807 is past the end of w, which has 10 bytes",
        ),
        (
            &with("length", "3"),
            "the length is 3, but its type and shape require 4 bytes",
        ),
        (
            &with("length", "9223372036854775807"),
            "the length is 9223372036854775807, but its type and shape require 4 bytes",
        ),
        (
            &with("offset", "-1"),
            "offset \"-1\" is not a plain decimal number below 2^63",
        ),
        (
            &with("offset", " 0"),
            "offset \" 0\" is not a plain decimal number below 2^63",
        ),
        (
            &with("offset", "x"),
            "offset \"x\" is not a plain decimal number below 2^63",
        ),
        (
            &with("length", "-4"),
            "length \"-4\" is not a plain decimal number below 2^63",
        ),
        (
            &with("offset", "0x0"),
            "offset \"0x0\" is not a plain decimal number below 2^63",
        ),
        (
            &with("offset", "9223372036854775808"),
            "offset \"9223372036854775808\" is not a plain decimal number below 2^63",
        ),
        (
            &with("location", "w"),
            "external_data has \"location\" twice",
        ),
        (&[], "external_data has no location"),
        (&[("location", "")], "location is empty"),
        (
            &[("location", "../w")],
            "location \"../w\" leaves the model's folder",
        ),
        (
            &[("location", "/abs/w")],
            "location \"/abs/w\" is an absolute path",
        ),
        (
            &[("location", "sub\\w")],
            "location \"sub\\\\w\" has a backslash or a zero byte",
        ),
    ];
    for (entries, expected) in cases {
        let line = read(entries).unwrap_err();
        let expected = format!("tensor \"t\": graph.initializer[0]: {expected}");
        assert_eq!(line, expected, "{entries:?}");
    }
}

#[test]
fn keys_that_others_do_not_know_are_warnings() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123456789").unwrap();
    for (key, is_known) in [
        ("offset", true),
        ("checksum", true),
        ("prepacked_0", true),
        ("basepath", false),
        ("nonsense", false),
    ] {
        let entries = [("location", "w"), (key, "1")];
        let tensor = external("t", 4, &entries);
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let source = open(&path).unwrap();
        let warnings = source.warnings();
        assert_eq!(warnings.is_empty(), is_known, "{key}: {warnings:?}");
        assert!(is_known || warnings[0].contains(key), "{warnings:?}");
    }
}

#[test]
fn a_file_that_is_missing_or_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    #[cfg(unix)]
    let _listening = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    for name in ["missing", "folder", "socket"] {
        let tensor = external("t", 4, &[("location", name)]);
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let shown = folder.path().join(name).display().to_string();
        assert!(error.to_string().contains(&shown), "{error}");
        assert!(error.to_string().contains("tensor \"t\""), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let tensor = external("t", 4, &[("location", "pipe")]);
    let path = write(folder.path(), &of_initializers(vec![tensor]));
    let error = open(&path).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[cfg(unix)]
#[test]
fn symlinks_stay_beneath_the_models_folder_or_that_of_its_real_path() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for sub in [
        "model/sub",
        "elsewhere",
        "hub/blobs",
        "hub/snapshots/abc",
        "far",
    ] {
        fs::create_dir_all(at(sub)).unwrap();
    }
    let of = |location: &str| of_initializers(vec![external("t", 4, &[("location", location)])]);
    fs::write(at("elsewhere/secret"), b"9999").unwrap();
    fs::write(at("model/w"), b"1111").unwrap();
    fs::hard_link(at("model/w"), at("model/hard")).unwrap();
    symlink("../w", at("model/sub/near")).unwrap();
    symlink("../elsewhere/secret", at("model/far")).unwrap();
    symlink("../elsewhere", at("model/parent")).unwrap();
    symlink(at("model/w"), at("model/absolute")).unwrap();
    symlink("/proc/self/fd/0", at("model/magic")).unwrap();

    for (location, opens) in [
        ("w", true),
        ("hard", true),
        ("sub/near", true),
        ("far", false),
        ("parent/secret", false),
        ("magic", false),
    ] {
        let path = write(&at("model"), &of(location));
        match open(&path) {
            Ok(_) => assert!(opens, "{location}"),
            Err(error) => {
                assert!(!opens, "{location}: {error}");
                assert_eq!(error.kind(), ErrorKind::Io, "{location}");
                let why = "a symlink leaves the model's folder";
                assert!(error.to_string().contains(why), "{location}: {error}");
            }
        }
    }

    // As in the cache of a model hub, the model and its data are symlinks into one folder of blobs.
    let blob = write(&at("hub/blobs"), &of("model.onnx_data"));
    fs::rename(blob, at("hub/blobs/1a2b")).unwrap();
    fs::write(at("hub/blobs/3c4d"), b"2222").unwrap();
    symlink("../../blobs/1a2b", at("hub/snapshots/abc/model.onnx")).unwrap();
    symlink("../../blobs/3c4d", at("hub/snapshots/abc/model.onnx_data")).unwrap();
    let tensor = &whole(&at("hub/snapshots/abc/model.onnx"))
        .graph
        .unwrap()
        .initializer[0];
    assert_eq!(tensor.raw_data.as_deref(), Some(&b"2222"[..]));

    // The model is a link, and its data is next to the model.
    write(&at("model"), &of("w"));
    symlink("../model/model.onnx", at("far/model.onnx")).unwrap();
    let tensor = &whole(&at("far/model.onnx")).graph.unwrap().initializer[0];
    assert_eq!(tensor.raw_data.as_deref(), Some(&b"1111"[..]));

    // A link that is next to the model and leads elsewhere is refused.
    symlink("../elsewhere/secret", at("far/w")).unwrap();
    let error = open(&at("far/model.onnx")).unwrap_err();
    assert!(
        error.to_string().contains("leaves the model's folder"),
        "{error}"
    );
}

#[test]
fn external_data_wins_over_what_is_beside_it_and_inline_data_over_a_mere_reference() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"file").unwrap();
    let mut both = external("both", 4, &[("location", "w")]);
    both.raw_data = Some(b"here".to_vec().into());
    both.int32_data = vec![1, 2, 3, 4];
    let mut inline = raw("inline", *b"here");
    inline.external_data = vec![entry("location", "w")];
    let path = write(folder.path(), &of_initializers(vec![both, inline.clone()]));
    let source = open(&path).unwrap();
    assert_eq!(source.warnings().len(), 1, "{:?}", source.warnings());
    let initializers = whole(&path).graph.unwrap().initializer;
    assert_eq!(initializers, [raw("both", *b"file"), inline]);
}

#[test]
fn empty_tensors_equal_offsets_and_unknown_types_are_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123456789").unwrap();
    let empty = external(
        "empty",
        0,
        &[("location", "w"), ("offset", "10"), ("length", "0")],
    );
    let one = external("one", 4, &[("location", "w"), ("offset", "2")]);
    let two = external("two", 4, &[("location", "w"), ("offset", "2")]);
    let mut unknown = external("unknown", 2, &[("location", "w"), ("offset", "7")]);
    unknown.data_type = Some(1000);
    let path = write(
        folder.path(),
        &of_initializers(vec![empty, one, two, unknown]),
    );
    let tensors = whole(&path).graph.unwrap().initializer;
    let data: Vec<_> = tensors
        .iter()
        .map(|tensor| tensor.raw_data.clone().unwrap())
        .collect();
    assert_eq!(data, [&b""[..], b"2345", b"2345", b"789"]);
}

#[test]
fn strings_are_never_external() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123").unwrap();
    let mut tensor = external("t", 4, &[("location", "w")]);
    tensor.data_type = Some(crate::support::STRING);
    let path = write(folder.path(), &of_initializers(vec![tensor]));
    let error = open(&path).unwrap_err().to_string();
    assert!(
        error.ends_with("tensor \"t\": strings can't be external data"),
        "{error}"
    );
}

#[test]
fn references_can_be_kept_and_the_folder_can_be_another() {
    use proto_splitter_onnx::{OnnxOptions, OnnxSource};
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/w"), b"0123").unwrap();
    let model = of_initializers(vec![external("t", 4, &[("location", "w")])]);
    let path = write(folder.path(), &model);
    assert!(open(&path).is_err());

    let options = OnnxOptions::new().external_folder(folder.path().join("data"));
    let source = OnnxSource::open(&path, &options).unwrap();
    assert_eq!(source.files().len(), 2);

    let options = OnnxOptions::new().keep_external(true);
    let source = OnnxSource::open(&path, &options).unwrap();
    assert_eq!(bytes_of(&source), fs::read(&path).unwrap());
    assert!(source.tensors().unwrap().find("t").unwrap().is_external());

    // However many tensors a file has, it counts as one towards the limit.
    let tensors = ["t", "u"].map(|name| external(name, 4, &[("location", "w")]));
    let path = write(folder.path(), &of_initializers(tensors.to_vec()));
    let source = OnnxSource::open(&path, &options.max_files(1)).unwrap();
    assert_eq!(
        (source.outside_files().len(), source.outside_tensors()),
        (1, 2)
    );
}

#[test]
fn a_checksum_is_compared_with_its_file() {
    use proto_splitter_core::progress::Progress;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"abc").unwrap();
    let of = |sha1| {
        of_initializers(vec![external(
            "t",
            3,
            &[("location", "w"), ("checksum", sha1)],
        )])
    };
    // The SHA-1 of "abc", from FIPS 180.
    let right = "a9993e364706816aba3e25717850c26c9cd0d89d";
    let path = write(folder.path(), &of(right));
    assert!(
        open(&path)
            .unwrap()
            .verify_checksums(&Progress::none())
            .unwrap()
    );
    let path = write(
        folder.path(),
        &of("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    );
    let error = open(&path)
        .unwrap()
        .verify_checksums(&Progress::none())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    assert!(error.to_string().contains(right), "{error}");
    let path = write(folder.path(), &of_initializers(vec![raw("t", *b"abc")]));
    assert!(
        !open(&path)
            .unwrap()
            .verify_checksums(&Progress::none())
            .unwrap()
    );
}

/// Writes a model with two tensors that declare a SHA-1 which their data file doesn't have, and
/// returns its path.
fn with_another_checksum(folder: &Path) -> PathBuf {
    let of = |name, offset| {
        let entries = [
            ("location", "w"),
            ("offset", offset),
            ("checksum", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ];
        external(name, 50_000, &entries)
    };
    fs::write(folder.join("w"), noise(1, 100_000)).unwrap();
    write(
        folder,
        &of_initializers(vec![of("a", "0"), of("b", "50000")]),
    )
}

#[test]
fn whoever_reads_all_of_a_file_learns_that_its_checksum_is_another() {
    use proto_splitter_core::split::{SplitExt, SplitOptions};
    use proto_splitter_onnx::external::{ExternalOptions, Form};

    let folder = tempfile::tempdir().unwrap();
    let path = with_another_checksum(folder.path());
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let target = out.join("m.onnx");
    let opened = || open_format(&path, &OpenOptions::new()).unwrap();
    let split = SplitOptions::new()
        .max_chunk_size(60_000)
        .always_chunked(true);
    let convert = |at: usize| {
        let form = &OnnxFormat.targets()[at];
        let converted = OnnxFormat.convert(&opened(), form, &target, &ConvertOptions::new());
        converted.map(drop)
    };
    type Way<'a> = (
        &'a str,
        Box<dyn Fn() -> proto_splitter_core::Result<()> + 'a>,
    );
    let ways: Vec<Way<'_>> = vec![
        ("bytes", Box::new(|| opened().bytes().map(drop))),
        ("verify", Box::new(|| opened().verify().map(drop))),
        ("convert to one file", Box::new(|| convert(1))),
        ("convert to a pair", Box::new(|| convert(2))),
        (
            "write",
            Box::new(|| {
                let model = open(&path)?;
                let written = model.write(&target, Form::External, &ExternalOptions::new());
                written.map(drop)
            }),
        ),
        (
            "split",
            Box::new(|| {
                let model = open(&path)?;
                let written = OnnxSplitter.write_with(model.source(), out.join("m"), &split);
                written.map(drop)
            }),
        ),
        (
            "both tensors",
            Box::new(|| {
                let opened = opened();
                opened.tensor("b")?.to_vec()?;
                opened.tensor("a")?.to_vec().map(drop)
            }),
        ),
        (
            "a tensor once more",
            Box::new(|| {
                let opened = opened();
                opened.tensor("a")?.to_vec()?;
                assert!(opened.tensor("b")?.to_vec().is_err());
                opened.tensor("a")?.to_vec().map(drop)
            }),
        ),
    ];
    for (what, way) in ways {
        let Err(error) = way() else {
            panic!("{what}: all of it was read");
        };
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch, "{what}: {error}");
        let shown = folder.path().join("w").display().to_string();
        assert!(error.to_string().contains(&shown), "{what}: {error}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{what}");
    }
    // A part of the file has no checksum.
    assert_eq!(
        opened().tensor("a").unwrap().to_vec().unwrap(),
        noise(1, 100_000)[..50_000]
    );
}

#[test]
fn what_there_is_of_a_model_can_be_looked_at_without_its_data() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there"), b"0123").unwrap();
    let missing = folder.path().join("missing");
    let model = of_initializers(vec![
        external("t", 4, &[("location", "there")]),
        external("m", 4, &[("location", "missing"), ("offset", "8")]),
    ]);
    let path = write(folder.path(), &model);
    assert!(open_format(&path, &OpenOptions::new()).is_err());
    let options = OpenOptions::new().allow_missing_files(true);
    let opened = open_format(&path, &options).unwrap();
    assert_eq!(opened.outside_files(), std::slice::from_ref(&missing));
    assert_eq!(opened.get("graph.name").unwrap(), "g");
    assert_eq!(opened.tensor("t").unwrap().to_vec().unwrap(), b"0123");
    let tensors = opened.tensors().unwrap();
    let shown = missing.display().to_string();
    assert_eq!(tensors[1].location.to_string(), "missing at 8");
    let properties = opened.archive().unwrap().properties().unwrap();
    assert!(properties.contains(&("missing file".into(), shown.clone())));

    let target = folder.path().join("out.onnx");
    let mut errors = vec![
        opened
            .tensor("m")
            .and_then(|tensor| tensor.to_vec())
            .map(drop),
        opened.bytes().map(drop),
        opened.verify().map(drop),
        opened.source().map(drop),
    ];
    errors.extend(OnnxFormat.targets().iter().map(|form| {
        let converted = OnnxFormat.convert(&opened, form, &target, &ConvertOptions::new());
        converted.map(drop)
    }));
    for (at, error) in errors.into_iter().enumerate() {
        let Err(error) = error else {
            panic!("{at}: nothing was missing");
        };
        assert_eq!(error.kind(), ErrorKind::Io, "{at}: {error}");
        assert!(error.to_string().starts_with(&shown), "{at}: {error}");
    }
    assert!(!target.exists());
}

#[test]
fn a_model_that_keeps_its_references_is_converted_only_with_all_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(folder.path().join(name), b"0123").unwrap();
    }
    let tensors = ["a", "b"].map(|name| external(name, 4, &[("location", name)]));
    let path = write(folder.path(), &of_initializers(tensors.to_vec()));
    let options = OpenOptions::new().setting("keep-external", "true");
    let opened = open_format(&path, &options).unwrap();
    let target = folder.path().join("out.onnx");
    let convert = |name: &str| {
        let form = OnnxFormat.targets().iter().find(|form| form.name == name);
        OnnxFormat.convert(&opened, form.unwrap(), &target, &ConvertOptions::new())
    };
    let missing = folder.path().join("b");
    fs::remove_file(&missing).unwrap();
    for form in ["auto", "onnx", "external", "safetensors"] {
        let error = convert(form).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{form}: {error}");
        let shown = missing.display().to_string();
        assert!(error.to_string().starts_with(&shown), "{form}: {error}");
        assert!(!target.exists(), "{form}");
    }
    fs::write(&missing, b"4567").unwrap();
    convert("onnx").unwrap();
}

#[test]
fn an_empty_file_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, b"").unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    let shown = path.display();
    let expected = format!("{shown}: the file is empty, but an ONNX model was expected");
    assert_eq!(error.to_string(), expected);
}

#[cfg(unix)]
#[test]
fn hard_linked_data_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("blob"), b"0123").unwrap();
    fs::hard_link(folder.path().join("blob"), folder.path().join("w")).unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![external("t", 4, &[("location", "w")])]),
    );
    let tensor = whole(&path).graph.unwrap().initializer.remove(0);
    assert_eq!(tensor.raw_data.as_deref(), Some(&b"0123"[..]));
}

#[test]
fn a_name_of_any_length_that_a_model_has_is_read() {
    use proto_splitter_onnx::external::{ExternalOptions, Form};
    let folder = tempfile::tempdir().unwrap();
    let long = "n".repeat(100_000);
    let path = write(
        folder.path(),
        &of_initializers(vec![raw(&long, noise(1, 5000)), raw("w", [1])]),
    );
    let tensors = open(&path).unwrap().tensors().unwrap();
    assert!(tensors.iter().next().unwrap().name() == long);
    let target = folder.path().join("pair.onnx");
    let written = open(&path)
        .unwrap()
        .write(&target, Form::External, &ExternalOptions::new());
    assert_eq!(written.unwrap().tensors, 1);
    assert!(whole(&target) == whole(&path));
}
