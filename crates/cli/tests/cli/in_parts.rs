//! Tests for work divided among several hosts, with `--plan-only`, `--plan --part` and `--plan
//! --commit`.

use std::fs;
use std::path::Path;

use protosplit_cli::Exit;

use crate::support::{Dir, fixture, run, run_all};

const MODEL: &str = "functions_consts/saved_model.pb";

/// Plans to split the model into `small.cpb` in parts, and returns the number of parts.
fn plan(dir: &Dir, parts: &str) -> usize {
    planned(dir, &["--value-chunk-size", "1KiB", "--parts", parts])
}

/// Plans to split the model into `small.cpb` with the given options, and returns the number of
/// parts.
fn planned(dir: &Dir, options: &[&str]) -> usize {
    let source = dir.copy(&fixture(MODEL), "saved_model.pb");
    let (prefix, plan) = (dir.path("small"), dir.path("plan"));
    let start: [&dyn AsRef<Path>; 11] = [
        &"split",
        &source,
        &"-o",
        &prefix,
        &"--profile",
        &"extended",
        &"--max-chunk-size",
        &"4KiB",
        &"--plan-only",
        &plan,
        &"--json",
    ];
    let options = options.iter().map(|option| option as &dyn AsRef<Path>);
    let planned = run_all(start.into_iter().chain(options)).json();
    assert_eq!(planned["verb"], "split");
    usize::try_from(planned["parts"].as_u64().unwrap()).unwrap()
}

fn run_parts(verb: &str, plan: &Path, parts: usize) {
    for part in (0..parts).rev() {
        let said = run([&verb, &"--plan", &plan, &"--part", &part.to_string()]).ok();
        assert!(
            said.starts_with(&format!("part {part} of {parts}: ")),
            "{said}"
        );
    }
}

#[test]
fn a_split_a_verification_and_a_merge_by_several_hosts_give_back_the_message() {
    let dir = Dir::new();
    let parts = plan(&dir, "5");
    assert!(parts > 2, "{parts}");
    let split = dir.path("plan");
    run_parts("split", &split, parts);
    assert!(!dir.path("small.cpb").exists());
    let said = run([&"split", &"--plan", &split, &"--commit"]).ok();
    assert!(said.contains("a merge is byte-exact"), "{said}");

    let (chunked, checks) = (dir.path("small.cpb"), dir.path("checks"));
    let (merge, target) = (dir.path("merge"), dir.path("merged.pb"));
    run([
        &"verify",
        &chunked,
        &"--plan-only",
        &checks,
        &"--parts",
        &"3",
    ])
    .ok();
    run_parts("verify", &checks, 3);
    let said = run([&"verify", &"--plan", &checks, &"--commit"]).ok();
    assert!(
        said.starts_with("ok: ") && said.contains("byte-exact"),
        "{said}"
    );

    let arguments: [&dyn AsRef<Path>; 8] = [
        &"merge",
        &chunked,
        &"-o",
        &target,
        &"--plan-only",
        &merge,
        &"--parts",
        &"4",
    ];
    run_all(arguments).ok();
    run_parts("merge", &merge, 4);
    assert!(!target.exists());
    let merged = run([&"merge", &"--plan", &merge, &"--commit", &"--json"]).json();
    assert_eq!(merged["byte_exact"], true);
    assert!(fs::read(target).unwrap() == fs::read(fixture(MODEL)).unwrap());
}

#[test]
fn no_option_is_suggested_to_replace_a_file_that_is_not_a_plan_or_a_report() {
    let dir = Dir::new();
    plan(&dir, "2");
    let (plan, model) = (dir.path("plan"), dir.path("saved_model.pb"));
    let before = fs::read(&model).unwrap();
    let report: [&dyn AsRef<Path>; 7] = [
        &"split",
        &"--plan",
        &plan,
        &"--part",
        &"0",
        &"--report",
        &model,
    ];
    let other = dir.path("other");
    let planned: [&dyn AsRef<Path>; 10] = [
        &"split",
        &model,
        &"-o",
        &other,
        &"--profile",
        &"extended",
        &"--max-chunk-size",
        &"4KiB",
        &"--plan-only",
        &model,
    ];
    for (ran, expected) in [
        (run_all(report), "is not the report of a part"),
        (run_all(planned), "is not a plan"),
    ] {
        let failed = ran.failed(Exit::Usage);
        assert!(failed.contains(expected), "{failed}");
        assert!(!failed.contains("--force"), "{failed}");
    }
    assert!(fs::read(&model).unwrap() == before);
}

#[test]
fn a_commit_prints_the_merkle_root_that_the_parts_hash_for() {
    let dir = Dir::new();
    let (parts, plan) = (planned(&dir, &["--merkle-root"]), dir.path("plan"));
    assert!(parts > 1);
    let said = run([
        &"split",
        &"--plan",
        &plan,
        &"--part",
        &"0",
        &"--merkle-root",
    ]);
    assert!(said.failed(Exit::Usage).contains("--merkle-root"));
    run_parts("split", &plan, parts);
    let said = run([&"split", &"--plan", &plan, &"--commit"]).ok();
    let (_, root) = said.trim_end().rsplit_once("; Merkle root ").unwrap();
    let chunked = dir.path("small.cpb");
    run([&"verify", &chunked, &"--root", &root]).ok();
    let again = run([&"split", &"--plan", &plan, &"--commit", &"--json"]).json();
    assert_eq!(again["merkle_root"], root);
}

#[test]
fn reports_can_be_given_and_what_is_missing_is_said() {
    let dir = Dir::new();
    let parts = plan(&dir, "3");
    let (plan, reports) = (dir.path("plan"), dir.path("reports"));
    fs::create_dir(&reports).unwrap();
    let report = |part: usize| reports.join(part.to_string());
    for part in 0..parts - 1 {
        let number = part.to_string();
        run([
            &"split",
            &"--plan",
            &plan,
            &"--part",
            &number,
            &"--report",
            &report(part),
        ])
        .ok();
    }
    let last = parts - 1;
    let missing = format!("no report of part {last}, of {parts} parts");
    let failed = run([
        &"split",
        &"--plan",
        &plan,
        &"--commit",
        &report(0),
        &report(1),
    ]);
    assert!(failed.failed(Exit::Usage).contains(&missing));
    // Without arguments, reports are looked up in the plan's folder, which contains none.
    let failed = run([&"split", &"--plan", &plan, &"--commit"]).failed(Exit::Usage);
    assert!(failed.contains("no report of part 0"), "{failed}");
    run([
        &"split",
        &"--plan",
        &plan,
        &"--part",
        &last.to_string(),
        &"--report",
        &report(last),
    ])
    .ok();
    let mut arguments: Vec<String> = ["split", "--plan"].map(Into::into).to_vec();
    arguments.push(plan.to_str().unwrap().into());
    arguments.push("--commit".into());
    arguments.extend((0..parts).map(|part| report(part).to_str().unwrap().to_owned()));
    run_all(
        arguments
            .iter()
            .map(|argument| argument as &dyn AsRef<Path>),
    )
    .ok();
}

#[test]
fn a_verification_by_several_hosts_fails_for_what_is_damaged() {
    let dir = Dir::new();
    let chunked = dir.split(&fixture(MODEL), "small", &["--max-chunk-size", "4KiB"]);
    let mut bytes = fs::read(&chunked).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&chunked, bytes).unwrap();
    let plan = dir.path("plan");
    let planned = run([
        &"verify",
        &chunked,
        &"--plan-only",
        &plan,
        &"--parts",
        &"2",
        &"--json",
    ]);
    assert_eq!(planned.json()["parts"], 2);
    for part in ["0", "1"] {
        assert_eq!(
            run([&"verify", &"--plan", &plan, &"--part", &part]).exit,
            Exit::Done
        );
    }
    let all = run([&"verify", &"--plan", &plan, &"--commit"]);
    assert_eq!(all.exit, Exit::Bad);
    assert!(
        all.out.contains("problem") && all.err.contains("chunk "),
        "{all:?}"
    );
}

#[test]
fn what_a_plan_is_not_for_is_refused_in_a_line() {
    let dir = Dir::new();
    plan(&dir, "2");
    let (plan, source) = (dir.path("plan"), dir.path("saved_model.pb"));
    for (ran, said) in [
        (
            run([&"merge", &"--plan", &plan, &"--part", &"0"]),
            "use `protosplit split`",
        ),
        (
            run([&"split", &"--plan", &plan]),
            "use --part K to run a part",
        ),
        (
            run([&"split", &"--plan", &plan, &"--part", &"99"]),
            "counted from 0",
        ),
        (
            run([&"split", &source, &"--plan", &plan]),
            "cannot be used with",
        ),
        (
            run([&"split", &source, &"--parts", &"3"]),
            "--plan-only <FILE>",
        ),
        (
            run([&"split"]),
            "the following required arguments were not provided: <INPUT>",
        ),
        (run([&"merge", &source]), "--output <OUTPUT>"),
        (run([&"verify"]), "<FILE>"),
        (
            run([&"split", &source, &"--plan-only", &dir.path("p")]),
            "profile `extended`",
        ),
        (
            run([&"verify", &source, &"--plan-only", &dir.path("p")]),
            "one message, not in chunks",
        ),
    ] {
        let failed = ran.failed(Exit::Usage);
        assert!(failed.contains(said), "{failed}");
    }
    assert!(!dir.path("p").exists());
    let failed = run([&"split", &"--plan", &source, &"--part", &"0"]);
    assert!(failed.failed(Exit::Bad).contains("not a plan"));
}

/// Kills the processes of parts at random moments, and runs the parts again.
#[cfg(unix)]
#[test]
fn whatever_host_is_killed_the_parts_come_together() {
    use std::process::{Child, Command, Stdio};
    use std::thread::sleep;
    use std::time::Instant;

    const ROUNDS: usize = 20;
    let (mut killed, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let dir = Dir::new();
        let parts = plan(&dir, "4");
        let plan = dir.path("plan");
        let protosplit = |arguments: &[&str]| -> Child {
            let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
            command
                .arg("split")
                .arg("--plan")
                .arg(&plan)
                .args(arguments);
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let started = Instant::now();
        assert!(protosplit(&["--part", "0"]).wait().unwrap().success());
        let whole = started.elapsed();
        let mut hosts: Vec<Child> = (0..parts * 2)
            .map(|host| protosplit(&["--part", &(host % parts).to_string()]))
            .collect();
        sleep(whole * u32::try_from(round % 7).unwrap() / 4);
        for host in hosts.iter_mut().skip(round % 3).step_by(2) {
            host.kill().unwrap();
        }
        for mut host in hosts {
            killed += usize::from(!host.wait().unwrap().success());
        }
        let mut commit = protosplit(&["--commit"]);
        if !commit.wait().unwrap().success() {
            refused += 1;
            assert!(!dir.path("small.cpb").exists());
            run_parts("split", &plan, parts);
            assert!(protosplit(&["--commit"]).wait().unwrap().success());
        }
        let merged = dir.path("merged.pb");
        run([&"merge", &dir.path("small.cpb"), &"-o", &merged]).ok();
        assert!(fs::read(merged).unwrap() == fs::read(fixture(MODEL)).unwrap());
    }
    assert!(
        killed > ROUNDS,
        "{killed} killed, {refused} commits refused"
    );
}

#[test]
fn what_the_plan_says_is_refused_beside_it() {
    let dir = Dir::new();
    plan(&dir, "2");
    let plan = dir.path("plan");
    for (verb, option, value) in [
        ("split", "--max-chunk-size", "1KiB"),
        ("split", "--profile", "extended"),
        ("split", "--message", "tensorflow.GraphDef"),
        ("split", "--compression", "none"),
        ("merge", "--message", "tensorflow.GraphDef"),
        ("verify", "--against", "original.pb"),
    ] {
        let said = run([&verb, &"--plan", &plan, &"--part", &"0", &option, &value]);
        let said = said.failed(Exit::Usage);
        assert!(said.contains(option) && said.contains("--plan"), "{said}");
    }
    // Options that may differ between hosts can be given for a part.
    run([
        &"split",
        &"--plan",
        &plan,
        &"--part",
        &"0",
        &"--threads",
        &"1",
        &"--json",
    ])
    .json();
}

#[test]
fn a_bit_flipped_between_a_part_and_the_commit_is_found_unless_it_is_told_not_to_look() {
    let dir = Dir::new();
    let chunked = dir.split(&fixture(MODEL), "small", &["--max-chunk-size", "4KiB"]);
    let (plan, target) = (dir.path("plan"), dir.path("merged.pb"));
    let arguments: [&dyn AsRef<Path>; 8] = [
        &"merge",
        &chunked,
        &"-o",
        &target,
        &"--plan-only",
        &plan,
        &"--parts",
        &"2",
    ];
    run_all(arguments).ok();
    run_parts("merge", &plan, 2);
    let files = dir.files();
    let hidden = files.iter().find(|name| name.starts_with(".protosplit-"));
    let hidden = dir.path(hidden.unwrap());
    let mut bytes = fs::read(&hidden).unwrap();
    bytes[3] ^= 1;
    fs::write(&hidden, &bytes).unwrap();
    let commit = ["merge", "--plan", plan.to_str().unwrap(), "--commit"];
    let commit = |more: &[&str]| {
        let arguments = [&commit[..], more].concat();
        run_all(
            arguments
                .iter()
                .map(|argument| argument as &dyn AsRef<Path>),
        )
    };
    let said = commit(&[]).failed(Exit::Bad);
    assert!(said.contains("but part 0 wrote"), "{said}");
    assert!(!target.exists());
    commit(&["--no-reread"]).ok();
    assert!(fs::read(&target).unwrap() == bytes);

    let report = dir.path("plan.00001.report");
    let mut bytes = fs::read(&report).unwrap();
    bytes[9] ^= 8;
    fs::write(&report, bytes).unwrap();
    let said = commit(&[]).failed(Exit::Bad);
    assert!(said.contains("plan.00001.report"), "{said}");
    assert!(said.contains("the report of a part is damaged"), "{said}");
}
