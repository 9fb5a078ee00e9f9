//! Tests of requirements for every command: streams, exit status, JSON, width of tables, and
//! suggestions.

use std::io::pipe;
use std::process::{Command, Output, Stdio};

use protosplit_cli::{Exit, Interrupt, Terminal};
use serde_json::Value;

use crate::support::{Dir, fixture, run_all};

const NODE: &str = "meta_graphs[0].graph_def.node[1]";

/// Creates a folder with the inputs for the commands below.
pub(crate) fn prepared() -> Dir {
    let dir = Dir::new();
    for model in ["model", "other"] {
        std::fs::create_dir(dir.path(model)).unwrap();
    }
    let of = |model: &str, file: &str| fixture(model).join(file);
    dir.copy(
        &of("functions_consts", "saved_model.pb"),
        "model/saved_model.pb",
    );
    dir.copy(&of("keras_mlp", "saved_model.pb"), "other/saved_model.pb");
    dir.copy(&of("graphdef_dtypes", "graph.pb"), "graph.pb");
    for (key, of) in [("key.pem", "p256.pem"), ("key.pub", "p256.pub")] {
        dir.copy(&fixture("../sign").join(of), key);
    }
    dir.file("name", "another");
    dir.file("parameters", b"");
    dir.file("bad.cpb", [0; 200]);
    dir.file("bad.pb", b"\x12\x03\x0a\x05");
    std::fs::create_dir(dir.path("broken")).unwrap();
    dir.file("broken/saved_model.pb", b"\x12\x03\x0a\x05");
    let split = ["split", "model", "-o", "small", "--max-chunk-size", "20KiB"];
    assert!(ran(&dir, &split).status.success());
    let externalize = ["externalize", "model", "-o", "runs", "--min-size", "1KiB"];
    assert!(ran(&dir, &externalize).status.success());
    dir
}

fn command(dir: &Dir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command
        .args(args)
        .current_dir(dir.path(""))
        .stdin(Stdio::null());
    command
}

fn ran(dir: &Dir, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Every command that prints a report, and true if it supports `--json`. Commands that write files
/// have different outputs.
const REPORTING: [(&[&str], bool); 26] = [
    (&["split", "model", "--dry-run"], true),
    (&["split", "model", "-o", "split", "--force"], true),
    (
        &[
            "split",
            "model/saved_model.pb",
            "--max-chunk-size=20KiB",
            "-o",
            "-",
        ],
        false,
    ),
    (&["merge", "small", "-o", "merge", "--force"], true),
    (&["merge", "small", "-o", "-"], false),
    (
        &[
            "verify",
            "small",
            "--deep",
            "--against",
            "model/saved_model.pb",
        ],
        true,
    ),
    (&["tree", "small", "--min-size", "0"], true),
    (&["tree", "small", "--diff", "other"], true),
    (&["tree", "small", "--html", "-"], false),
    (&["tree", "small", "--svg", "-"], false),
    (&["info", "small"], true),
    (&["ls", "small"], true),
    (&["layout", "small"], true),
    (&["cat", "small"], false),
    (&["schema", "small"], true),
    (&["get", "small", NODE], false),
    (
        &["convert", "model", "convert", "--to", "cpb", "--force"],
        true,
    ),
    (&["diff", "model", "other"], true),
    (
        &[
            "recompress",
            "small",
            "--compression",
            "none",
            "-o",
            "rec",
            "--force",
        ],
        true,
    ),
    (
        &[
            "replace",
            "small",
            "meta_graphs[0].graph_def.node[1].name",
            "--with",
            "name",
            "-o",
            "rep",
            "--force",
        ],
        true,
    ),
    (
        &["externalize", "model", "--dry-run", "--min-size", "1KiB"],
        true,
    ),
    (
        &[
            "externalize",
            "model",
            "-o",
            "ext",
            "--min-size",
            "1KiB",
            "--force",
        ],
        true,
    ),
    (&["internalize", "runs", "-o", "int", "--force"], true),
    (&["fingerprint", "model"], true),
    (
        &["sign", "model", "--key", "key.pem", "-o", "sig", "--force"],
        true,
    ),
    (&["completions", "bash"], false),
];

#[test]
fn a_pipe_that_nobody_reads_is_no_error_for_any_command() {
    let dir = prepared();
    let helps = ["--help", "split", "get", "man"].map(|command| vec![command, "--help"]);
    let with_json = REPORTING.iter().filter(|(_, json)| *json);
    let with_json = with_json.map(|(args, _)| [args, &["--json"][..]].concat());
    let all = REPORTING.iter().map(|(args, _)| args.to_vec());
    for args in all.chain(with_json).chain(helps) {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut closed = command(&dir, &args);
        closed.stdout(writer).stderr(Stdio::piped());
        let closed = closed.spawn().unwrap().wait_with_output().unwrap();
        let read = ran(&dir, &args);
        let said = |ran: &Output| String::from_utf8(ran.stderr.clone()).unwrap();
        assert_eq!(
            (closed.status.code(), said(&closed)),
            (read.status.code(), said(&read)),
            "{args:?}"
        );
        assert!(!read.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_reports_does_so_as_one_json_object_too() {
    let dir = prepared();
    for (args, has_json) in REPORTING {
        let args = [args, &["--json"]].concat();
        let ran = ran(&dir, &args);
        let out = String::from_utf8_lossy(&ran.stdout);
        if !has_json {
            let page = args.contains(&"--html") || args.contains(&"--svg");
            assert!(page || ran.status.code() == Some(2), "{args:?}: {out}");
            continue;
        }
        assert_eq!(out.lines().count(), 1, "{args:?}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert!(report.is_object(), "{args:?}: {report}");
    }
}

#[test]
fn the_status_tells_done_from_bad_data_from_wrong_usage() {
    let dir = prepared();
    let done = |args: &'static [&'static str]| (0, args);
    let bad = |args: &'static [&'static str]| (1, args);
    let wrong = |args: &'static [&'static str]| (2, args);
    for (status, args) in [
        done(&[
            "split",
            "graph.pb",
            "--message",
            "tensorflow.GraphDef",
            "-o",
            "s",
        ]),
        bad(&["split", "broken", "-o", "s1"]),
        wrong(&["split", "graph.pb"]),
        done(&["merge", "small", "-o", "m"]),
        bad(&["merge", "bad.cpb", "-o", "m1"]),
        wrong(&["merge", "small", "-o", "m"]),
        done(&["verify", "small"]),
        bad(&["verify", "small", "--against", "other/saved_model.pb"]),
        bad(&["verify", "bad.cpb"]),
        wrong(&["verify", "nowhere"]),
        done(&["tree", "small"]),
        bad(&["tree", "broken"]),
        wrong(&["tree", "small", "no_such.path"]),
        wrong(&["tree", "small", "--sort", "color"]),
        done(&["tree", "small", "--diff", "other"]),
        bad(&["tree", "small", "--diff", "broken"]),
        wrong(&["tree", "-", "--diff", "-"]),
        done(&["info", "small"]),
        bad(&["info", "bad.cpb"]),
        wrong(&["info", "small", "--message", "tensorflow.Elephant"]),
        done(&["ls", "model"]),
        bad(&["ls", "bad.cpb"]),
        wrong(&["ls"]),
        done(&["layout", "small", "--blocks"]),
        bad(&["layout", "bad.cpb"]),
        wrong(&["layout", "nowhere"]),
        done(&["cat", "small", NODE]),
        bad(&["cat", "broken"]),
        done(&["cat", "graph.pb"]),
        wrong(&["cat", "graph.pb", "--format", "json"]),
        done(&["schema", "small"]),
        wrong(&["schema", "graph.pb"]),
        done(&["get", "small", NODE, "-o", "node"]),
        bad(&["get", "small", "meta_graphs[7]"]),
        wrong(&["get", "small", "meta_graphs["]),
        wrong(&["cat", "small", "no_such.path"]),
        wrong(&["get", "small", NODE, "-o", "node"]),
        done(&["convert", "model", "c", "--to", "cpb"]),
        bad(&["convert", "broken", "c1", "--to", "cpb"]),
        wrong(&["convert", "model"]),
        done(&["fingerprint", "model"]),
        bad(&["fingerprint", "broken"]),
        done(&["externalize", "model", "--dry-run"]),
        bad(&["externalize", "broken", "--dry-run"]),
        wrong(&["externalize", "runs", "--dry-run"]),
        wrong(&["internalize", "model", "-o", "no"]),
        wrong(&["fingerprint", "graph.pb"]),
        done(&["sign", "model", "--key", "key.pem", "-o", "sig"]),
        wrong(&["sign", "model", "--key", "graph.pb"]),
        wrong(&["sign", "nowhere", "--key", "key.pem"]),
        done(&["diff", "model", "small"]),
        bad(&["diff", "model", "other"]),
        wrong(&["diff", "-", "-"]),
        done(&["recompress", "small", "--compression", "none", "-o", "r"]),
        bad(&["recompress", "bad.cpb", "--compression", "none", "-o", "r1"]),
        wrong(&["recompress", "small", "--compression", "lead", "-o", "r1"]),
        done(&["replace", "small", NODE, "--with", "node", "-o", "p"]),
        bad(&["replace", "small", NODE, "--with", "name", "-o", "p1"]),
        wrong(&["replace", "-", NODE, "--with", "-", "-o", "p1"]),
        done(&[
            "append",
            "parameters",
            "name",
            "--dtype",
            "uint8",
            "--shape",
            "7",
        ]),
        bad(&["append", "parameters", "name"]),
        wrong(&[
            "append",
            "parameters",
            "name",
            "--dtype",
            "uint8",
            "--shape",
            "8",
        ]),
        done(&["completions", "zsh"]),
        wrong(&["completions", "tea"]),
        done(&["man", "pages"]),
        wrong(&["man"]),
        wrong(&["man", "name"]),
    ] {
        let ran = ran(&dir, args);
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(status), "{args:?}: {err}");
        let last = err.lines().last().unwrap_or_default();
        let differs = matches!(args[0], "diff" | "fingerprint") && status == 1;
        assert!(
            status == 0 || differs || last.starts_with("protosplit: "),
            "{args:?}: {err}"
        );
    }
}

#[test]
fn help_is_a_command_as_well_as_an_option() {
    let dir = prepared();
    for command in ["split", "get", "man"] {
        let [as_command, as_option] =
            [["help", command], [command, "--help"]].map(|args| ran(&dir, &args));
        assert_eq!(as_command.status.code(), Some(0), "{command}");
        assert_eq!(as_command.stdout, as_option.stdout, "{command}");
    }
    let all = ran(&dir, &["help"]);
    assert_eq!(all.stdout, ran(&dir, &["--help"]).stdout);
    let unknown = ran(&dir, &["help", "spilt"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_written_by_no_command_whatever_is_forced() {
    let dir = prepared();
    let pipe = dir.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for args in [
        &["merge", "small", "-o", "pipe"][..],
        &["get", "small", NODE, "-o", "pipe"],
        &["tree", "small", "--html", "pipe"],
        &["recompress", "small", "--compression", "none", "-o", "pipe"],
        &["replace", "model", NODE, "--with", "name", "-o", "pipe"],
        &["convert", "model", "pipe", "--to", "cpb"],
    ] {
        let ran = ran(&dir, &[args, &["--force"]].concat());
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {err}");
        let kind = std::fs::metadata(&pipe).unwrap().file_type();
        assert!(
            std::os::unix::fs::FileTypeExt::is_fifo(&kind),
            "{args:?}: {err}"
        );
    }
}

#[test]
fn a_folder_that_is_not_there_is_named_by_all_that_write_to_it() {
    let dir = prepared();
    let none = ["--compression", "none", "-o"];
    let with = ["--with", "name", "-o"];
    let name = "meta_graphs[0].graph_def.node[1].name";
    let graph = ["split", "graph.pb", "--message", "tensorflow.GraphDef"];
    let several = [
        "--profile=extended",
        "--max-chunk-size=1KiB",
        "--max-file-size=8KiB",
    ];
    for args in [
        &[&graph[..], &["-o"]].concat()[..],
        &[&graph[..], &several, &["-o"]].concat(),
        &["split", "model", "-o"],
        &["merge", "small/saved_model.cpb", "-o"],
        &["merge", "small", "-o"],
        &["get", "small", NODE, "-o"],
        &["tree", "small", "--html"],
        &[&["recompress", "small/saved_model.cpb"], &none[..]].concat(),
        &[&["recompress", "small"], &none[..]].concat(),
        &[&["replace", "small/saved_model.cpb", name], &with[..]].concat(),
        &[&["replace", "model", name], &with[..]].concat(),
        &["convert", "model", "--to", "cpb"],
        &["schema", "model", "-o"],
    ] {
        for (target, folder) in [
            ("missing/x", "missing does not exist"),
            ("missing/more/x", "missing does not exist"),
            ("name/x", "name is not a folder"),
        ] {
            let ran = ran(&dir, &[args, &[target]].concat());
            let err = String::from_utf8(ran.stderr).unwrap();
            let last = err.lines().last().unwrap_or_default();
            assert_eq!(ran.status.code(), Some(2), "{args:?}: {err}");
            let begins = last.starts_with(&format!("protosplit: {target}"));
            let ends = last.ends_with(&format!(": the folder {folder}"));
            assert!(begins && ends, "{args:?}: {err}");
        }
    }
    assert!(!dir.path("missing").exists());
}

#[test]
fn quiet_is_quiet_and_verbose_tells_of_work() {
    let dir = prepared();
    for (args, _) in REPORTING {
        let quiet = ran(&dir, &[args, &["-q", "--progress", "always"]].concat());
        assert_eq!(quiet.stderr, b"", "{args:?}");
        let verbose = ran(&dir, &[args, &["-v"]].concat());
        let err = String::from_utf8(verbose.stderr).unwrap();
        let works = !matches!(args[0], "completions" | "schema");
        assert!(!works || err.contains(", in "), "{args:?}: {err}");
    }
}

#[test]
fn progress_is_shown_where_it_is_asked_for_and_goes_before_results_come() {
    let dir = prepared();
    for args in [
        &["diff", "model", "other"][..],
        &["get", "small", "", "-o", "got", "--force"],
        &["cat", "small"],
        &["fingerprint", "model"],
        &["split", "model", "-o", "split", "--force"],
        &["merge", "small", "-o", "merge", "--force"],
        &["verify", "small"],
    ] {
        let always = ran(&dir, &[args, &["--progress", "always"]].concat());
        let never = ran(&dir, &[args, &["--progress", "never"]].concat());
        assert_eq!(always.status.code(), never.status.code(), "{args:?}");
        let err = String::from_utf8(always.stderr).unwrap();
        // The work may be done before any progress is reported, but the line is cleared in any
        // case.
        let rest = err.rsplit("\x1b[K").next().unwrap();
        assert_eq!(
            rest,
            String::from_utf8(never.stderr).unwrap(),
            "{args:?}: {err:?}"
        );
    }
}

#[test]
fn no_command_colors_what_it_says() {
    let dir = prepared();
    for (args, _) in REPORTING
        .iter()
        .chain(&[(&["--help"][..], false), (&["tre"][..], false)])
    {
        for variable in ["NO_COLOR", "CLICOLOR_FORCE"] {
            let ran = command(&dir, args).env(variable, "1").output().unwrap();
            for stream in [ran.stdout, ran.stderr] {
                let colors = stream.windows(2).any(|two| two == b"\x1b[");
                assert!(!colors, "{args:?} with {variable}");
            }
        }
    }
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    let dir = prepared();
    let small = dir.path("small");
    let other = dir.path("other");
    let small = small.to_str().unwrap();
    for args in [
        &["tree", small, "--min-size", "0"][..],
        &["tree", small, "--diff", other.to_str().unwrap()],
        &["ls", small],
        &["info", small],
        &["layout", small],
        &["layout", small, "--blocks"],
    ] {
        for width in [100, 140] {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let all = ["protosplit"].into_iter().chain(args.iter().copied());
            let terminal = Terminal::of_width(width);
            let exit = protosplit_cli::run_on(all, &mut out, &mut err, terminal, &Interrupt::new());
            assert_eq!(exit, Exit::Done, "{args:?}");
            let out = String::from_utf8(out).unwrap();
            // The lines outside of the table contain the name of the file in full, so they may be
            // longer.
            let rows = out.lines().filter(|line| !line.contains(small));
            let longest = rows.map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{longest} of {width}: {args:?}\n{out}");
        }
    }
}

#[test]
fn what_is_mistyped_is_answered_with_what_was_meant() {
    let dir = prepared();
    let small = dir.path("small");
    let small = small.to_str().unwrap();
    let (model, value) = (dir.path("graph.pb"), dir.path("name"));
    let model = model.to_str().unwrap();
    let value = value.to_str().unwrap();
    let path = "`meta_graphs[0].graph_def`";
    let typed = "meta_graph[0].graphdef";
    for (args, meant) in [
        (&["tree", small, typed][..], path),
        (&["cat", small, typed], path),
        (&["get", small, typed], path),
        (
            &["replace", small, typed, "--with", value, "-o", "nowhere"],
            path,
        ),
        (
            &["tree", small, "--message", "tensorflow.Graphdef"],
            "`tensorflow.GraphDef`",
        ),
        (
            &["split", model, "--message", "GraphDef"],
            "`tensorflow.GraphDef`",
        ),
        (&["tre", small], "'tree'"),
        (&["fingerprnt", small], "'fingerprint'"),
        (&["info", small, "--jsn"], "'--json'"),
        (&["tree", small, "--min-sise", "0"], "'--min-size'"),
        (&["tree", small, "--sort", "sise"], "'size'"),
        (&["layout", small, "--block"], "'--blocks'"),
    ] {
        let args: Vec<_> = args
            .iter()
            .map(|arg| arg as &dyn AsRef<std::path::Path>)
            .collect();
        let ran = run_all(args.iter().copied());
        assert_ne!(ran.exit, Exit::Done);
        assert!(ran.err.contains(meant), "{}", ran.err);
    }
}
