//! Tests for `protosplit pieces`, and for other ways to read a long trace.

use std::fs;

use prost_reflect::DynamicMessage;
use proto_splitter_testkit::traces::{SCHEMA, trace, trace_type};
use protosplit_cli::Exit;

use crate::support::{Dir, files, fixture, run_all};

/// Creates a trace of `packets` packets, and returns the options that specify its type, too.
fn traced(packets: u64) -> (Dir, Vec<String>) {
    let dir = Dir::new();
    dir.file("trace.pb", trace(packets));
    let schema = dir.file("trace.proto", SCHEMA);
    let schema = schema.to_str().unwrap().to_owned();
    let of = ["--message", "testkit.Trace", "--proto"];
    (
        dir,
        of.map(str::to_owned).into_iter().chain([schema]).collect(),
    )
}

fn packets(bytes: &[u8]) -> usize {
    let message = DynamicMessage::decode(trace_type(), bytes).unwrap();
    let packets = message.get_field_by_name("packet").unwrap();
    packets.as_list().unwrap().len()
}

#[test]
fn pieces_are_messages_that_together_are_the_whole() {
    let (dir, of) = traced(10_000);
    let whole = trace(10_000);
    let small = {
        let mut args = vec![
            "split".to_owned(),
            dir.path("trace.pb").display().to_string(),
        ];
        args.extend(of.iter().cloned());
        args.extend(["--max-chunk-size=10KiB".into(), "-o".into()]);
        args.push(dir.path("small").display().to_string());
        run_all(args.iter().map(|arg| arg as &dyn AsRef<std::path::Path>)).ok();
        dir.path("small.cpb")
    };
    for (at, input) in [dir.path("trace.pb"), small].iter().enumerate() {
        for (by, most) in [("--count=3000", 4), ("--max-size=20KiB", 5)] {
            let out = dir.path(&format!("parts{at}{most}"));
            let mut args: Vec<&dyn AsRef<std::path::Path>> =
                vec![&"pieces", input, &"--field", &"packet", &by];
            args.extend([&"-o" as &dyn AsRef<std::path::Path>, &out]);
            args.extend(of.iter().map(|arg| arg as &dyn AsRef<std::path::Path>));
            run_all(args.iter().copied()).ok();
            let names = files(&out);
            assert!(names.len() >= most, "{names:?}");
            assert_eq!(names[0], "00001.pb");
            let mut together = b"\x0a\x04host".to_vec();
            for name in &names {
                let piece = fs::read(out.join(name)).unwrap();
                assert!(packets(&piece) <= 3000 && piece.len() <= 40 << 10);
                together.extend(piece);
            }
            assert!(whole.starts_with(&together), "in order, and nothing else");
            assert_eq!(packets(&together), 10_000);
            // A folder that isn't empty isn't changed.
            let error = run_all(args.iter().copied()).failed(Exit::Usage);
            assert!(error.contains("already exists"), "{error}");
        }
    }
}

#[test]
fn the_field_of_pieces_may_be_said_by_names() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let pieces = |field: &str, out: &str| {
        let field = format!("meta_graphs[-1].graph_def.library.{field}");
        let out = dir.path(out);
        let args: [&dyn AsRef<std::path::Path>; 7] = [
            &"pieces",
            &model,
            &"--field",
            &field,
            &"--count=4",
            &"-o",
            &out,
        ];
        (run_all(args), out)
    };
    let [by_name, by_number] = [
        ("function[\"__inference_f_325\"].node_def", "by name"),
        ("function[5].node_def", "by number"),
    ]
    .map(|(field, out)| {
        let (ran, out) = pieces(field, out);
        ran.ok();
        files(&out)
            .iter()
            .map(|name| fs::read(out.join(name)).unwrap())
            .collect::<Vec<_>>()
    });
    assert_eq!(by_name.len(), 3);
    assert!(by_name == by_number);
    let (ran, _) = pieces("function[\"__inference_f_326\"].node_def", "none");
    let error = ran.failed(Exit::Bad);
    assert!(
        error.contains("did you mean \"__inference_f_325\"?"),
        "{error}"
    );
    let (ran, _) = pieces("function[5].node_deff", "none");
    let error = ran.failed(Exit::Usage);
    assert!(error.contains("did you mean `"), "{error}");
}

#[test]
fn each_piece_has_the_other_fields_if_that_is_asked_for() {
    let (dir, of) = traced(100);
    let out = dir.path("parts");
    let file = dir.path("trace.pb");
    let args: [&dyn AsRef<std::path::Path>; 8] = [
        &"pieces",
        &file,
        &"--field",
        &"packet",
        &"--count=40",
        &"--with-rest",
        &"-o",
        &out,
    ];
    run_all(args.into_iter().chain(of.iter().map(|arg| arg as _))).ok();
    assert_eq!(files(&out), ["00001.pb", "00002.pb", "00003.pb"]);
    for (name, count) in [("00001.pb", 40), ("00003.pb", 20)] {
        let piece = fs::read(out.join(name)).unwrap();
        assert_eq!(packets(&piece), count);
        let message = DynamicMessage::decode(trace_type(), &piece[..]).unwrap();
        assert_eq!(
            message.get_field_by_name("machine").unwrap().as_str(),
            Some("host")
        );
        assert_eq!(
            message
                .get_field_by_name("track")
                .unwrap()
                .as_list()
                .unwrap()
                .len(),
            2
        );
    }
    let bad = dir.path("bad");
    for (field, why) in [
        ("machine", "not repeated"),
        ("nothing", "has no field nothing"),
    ] {
        let args: [&dyn AsRef<std::path::Path>; 7] = [
            &"pieces",
            &file,
            &"--field",
            &field,
            &"--count=40",
            &"-o",
            &bad,
        ];
        let ran = run_all(args.into_iter().chain(of.iter().map(|arg| arg as _)));
        assert!(ran.exit != Exit::Done && ran.err.contains(why), "{ran:?}");
        assert!(!bad.exists());
    }
}
