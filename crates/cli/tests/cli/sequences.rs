//! Tests for `--delimited`, with which every verb reads files of many messages, and for `convert
//! --to delimited|records`.

use std::fs;
use std::path::{Path, PathBuf};

use protosplit_cli::Exit;

use crate::support::{Dir, Ran, run, run_all};

const SCHEMA: &str = r#"
    syntax = "proto3"; package log;
    message Log { repeated Event event = 3; string host = 4; }
    message Event { string name = 1; int64 time = 2; }
"#;

/// Contents of a delimited file with three events.
const EVENTS: &[u8] = b"\x08\x0a\x04load\x10\x05\x05\x0a\x03run\x08\x0a\x04stop\x10\x09";

/// Encoded `log.Log` that contains the events in [`EVENTS`].
const LOG: &[u8] = b"\x1a\x08\x0a\x04load\x10\x05\x1a\x05\x0a\x03run\x1a\x08\x0a\x04stop\x10\x09";

struct Log {
    dir: Dir,
    file: PathBuf,
    proto: PathBuf,
}

fn log() -> Log {
    let dir = Dir::new();
    let file = dir.file("events.log", EVENTS);
    let proto = dir.file("log.proto", SCHEMA);
    Log { dir, file, proto }
}

impl Log {
    /// Runs a verb on a file, with the options that specify the schema.
    fn run(&self, verb: &str, file: &Path, args: &[&str]) -> Ran {
        let front: [&dyn AsRef<Path>; 2] = [&verb, &file];
        let args = args.iter().map(|arg| arg as &dyn AsRef<Path>);
        let schema: [&dyn AsRef<Path>; 2] = [&"--proto", &self.proto];
        run_all(front.into_iter().chain(args).chain(schema))
    }

    fn on_log(&self, verb: &str, args: &[&str]) -> Ran {
        let args: Vec<&str> = args
            .iter()
            .copied()
            .chain(["--delimited", "log.Event"])
            .collect();
        self.run(verb, &self.file, &args)
    }

    fn convert(&self, input: &Path, output: &Path, args: &[&str]) -> Ran {
        let output = output.to_str().unwrap();
        let args: Vec<&str> = ["-o", output].iter().chain(args).copied().collect();
        self.run("convert", input, &args)
    }
}

#[test]
fn each_verb_takes_the_messages_of_a_delimited_file_by_their_number() {
    let log = log();
    assert_eq!(
        log.on_log("cat", &["message[*].name", "--format", "jsonl"])
            .ok(),
        "\"load\"\n\"run\"\n\"stop\"\n"
    );
    assert_eq!(log.on_log("get", &["message[-1].name"]).ok(), "stop");
    assert!(log.on_log("tree", &[]).ok().contains("message[*]"));
    assert!(
        log.on_log("info", &[])
            .ok()
            .contains("proto_splitter.Sequence")
    );
    assert!(log.on_log("verify", &[]).ok().contains("ok"));
    let listed = log.on_log("ls", &[]).ok();
    assert!(listed.contains("27 B"), "{listed}");
    assert!(!log.on_log("info", &[]).ok().contains("tensors"));
    assert_eq!(log.on_log("cat", &["message", "--count"]).ok().trim(), "3");
    let pieces = log.dir.path("pieces");
    let pieces = pieces.to_str().unwrap();
    log.on_log(
        "pieces",
        &["--field", "message", "--count", "2", "-o", pieces],
    )
    .ok();
    assert_eq!(fs::read_dir(pieces).unwrap().count(), 2);
}

#[test]
fn the_messages_of_a_file_are_elements_of_a_field_that_is_named() {
    let log = log();
    let field = ["--delimited", "log.Log.event"];
    let names = log.run("cat", &log.file, &[&["event[1].name"], &field[..]].concat());
    assert!(names.ok().contains("run"));
    let whole = log.dir.path("whole.pb");
    log.convert(&log.file, &whole, &[&["--to", "pb"], &field[..]].concat())
        .ok();
    assert_eq!(fs::read(&whole).unwrap(), LOG);
    let back = log.dir.path("back.log");
    log.convert(
        &whole,
        &back,
        &["--to", "delimited", "--message", "log.Log"],
    )
    .ok();
    assert_eq!(fs::read(&back).unwrap(), EVENTS);
}

#[test]
fn a_sequence_is_split_merged_and_written_as_it_was() {
    let log = log();
    let chunks = log.dir.path("events.cpb");
    let output = chunks.to_str().unwrap();
    let split = ["-o", output, "--max-chunk-size", "10"];
    log.on_log("split", &split).ok();
    run([&"verify", &chunks]).ok();
    let delimited = ["--delimited", "log.Event"];
    let names = log.run(
        "cat",
        &chunks,
        &[&["message[2].name"], &delimited[..]].concat(),
    );
    assert!(names.ok().contains("stop"));
    let back = log.dir.path("back.log");
    log.convert(
        &chunks,
        &back,
        &[&["--to", "delimited"], &delimited[..]].concat(),
    )
    .ok();
    assert_eq!(fs::read(&back).unwrap(), EVENTS);
}

#[test]
fn records_say_what_they_are_and_others_are_read_as_asked() {
    let log = log();
    let records = log.dir.path("events.riegeli");
    let to = ["--to", "records", "--set", "records=transpose,zstd:1"];
    log.convert(
        &log.file,
        &records,
        &[&to[..], &["--delimited", "log.Event"]].concat(),
    )
    .ok();
    // The file needs no options, since it contains the type and its schema.
    assert!(
        run([&"cat", &records, &"message[2].name"])
            .ok()
            .contains("stop")
    );
    assert!(run([&"verify", &records]).ok().contains("ok"));
    assert!(run([&"info", &records]).ok().contains("sequence"));
    let back = log.dir.path("back.log");
    run([&"convert", &records, &"-o", &back, &"--to", &"delimited"]).ok();
    assert_eq!(fs::read(&back).unwrap(), EVENTS);

    // Without its type, a record file is recognized neither as a sequence nor as a chunked message.
    let untyped = log.dir.path("untyped.riegeli");
    run([
        &"convert",
        &log.file,
        &"-o",
        &untyped,
        &"--to",
        &"records",
        &"--input-format",
        &"sequence",
    ])
    .ok();
    run([&"cat", &untyped, &"1[0].1"]).failed(Exit::Bad);
    let named = log.run(
        "cat",
        &untyped,
        &["message[0].name", "--delimited", "log.Event"],
    );
    assert!(named.ok().contains("load"));
    let numbered = run([&"cat", &untyped, &"1[0].1", &"--input-format", &"sequence"]);
    assert!(numbered.ok().contains("load"));

    let mut damaged = fs::read(&records).unwrap();
    let last = damaged.len() - 3;
    damaged[last] ^= 4;
    let damaged = log.dir.file("damaged.riegeli", &damaged);
    run([&"verify", &damaged]).failed(Exit::Bad);
}

#[test]
fn every_form_that_is_listed_can_be_written() {
    let log = log();
    let message = ["--message", "log.Log"];
    let plain = log.dir.file("log.pb", LOG);
    for (input, options) in [(&log.file, ["--delimited", "log.Event"]), (&plain, message)] {
        let help = ["--to", "help", "--json"];
        let listed = log
            .run("convert", input, &[&help[..], &options].concat())
            .json();
        let forms = listed["forms"].as_array().unwrap();
        assert!(forms.len() >= 3, "{listed}");
        for form in forms {
            let to = form["name"].as_str().unwrap();
            let ending = if to == "cpb" { ".cpb" } else { "" };
            let output = log
                .dir
                .path(&format!("{}-as-{to}{ending}", input.display()).replace('/', "-"));
            log.convert(input, &output, &[&["--to", to][..], &options].concat())
                .ok();
            assert!(output.is_file(), "{to}");
        }
    }
}

#[test]
fn an_edited_sequence_keeps_its_form() {
    let log = log();
    let edited = log.dir.path("edited.log");
    let output = edited.to_str().unwrap();
    log.on_log("edit", &["--replace", "message[1].name=walk", "-o", output])
        .ok();
    let expected = b"\x08\x0a\x04load\x10\x05\x06\x0a\x04walk\x08\x0a\x04stop\x10\x09";
    assert_eq!(fs::read(&edited).unwrap(), expected);
}

#[test]
fn an_error_in_a_message_has_its_number_and_its_offset_in_the_file() {
    let mut log = log();
    // In the second event, the field for the name contains a number.
    let bytes = b"\x08\x0a\x04load\x10\x05\x02\x08\x07\x08\x0a\x04stop\x10\x09";
    log.file = log.dir.file("other.log", bytes);
    for format in ["jsonl", "json", "text"] {
        let line = log.on_log("cat", &["message[*]", "--format", format]);
        let line = line.failed(Exit::Bad);
        assert!(line.contains("other.log: message[1]: "), "{line}");
        assert!(line.contains(" at 0xa"), "{line}");
    }
}

#[test]
fn what_is_wrong_is_said_in_a_line_and_nothing_is_written() {
    let log = log();
    let cut = log.dir.file("cut.log", &EVENTS[..EVENTS.len() - 3]);
    let line = log.run("cat", &cut, &["message[0]", "--delimited", "log.Event"]);
    let line = line.failed(Exit::Bad);
    assert!(
        line.contains("message 2: it should have 8 bytes, but the file ends after 5"),
        "{line}"
    );
    let line = log
        .run("tree", &log.file, &["--delimited", "log.Evnt"])
        .failed(Exit::Usage);
    assert!(line.contains("did you mean `log.Event`?"), "{line}");
    let line = log
        .run("tree", &log.file, &["--delimited", "log.Log.host"])
        .failed(Exit::Usage);
    assert!(
        line.contains("log.Log.host isn't a repeated message"),
        "{line}"
    );

    // A sequence can't contain the log's `host` field.
    let host = [LOG, b"\x22\x01h"].concat();
    let host = log.dir.file("host.pb", &host);
    let out = log.dir.path("out.log");
    let to = ["--to", "delimited", "--message", "log.Log"];
    let line = log.convert(&host, &out, &to).failed(Exit::Bad);
    assert!(
        line.contains("field 4 would be lost in a sequence of field 3"),
        "{line}"
    );
    assert!(!out.exists());
    log.convert(&host, &out, &[&to[..], &["--set", "others=drop"]].concat())
        .ok();
    assert_eq!(fs::read(&out).unwrap(), EVENTS);
}
