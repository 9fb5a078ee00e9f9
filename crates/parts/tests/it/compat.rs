//! Tests that plans and reports of version 0.1.0 can still be executed and committed, and that the
//! same work still produces the same plans and reports. `UPDATE_COMPAT=1` rewrites the stored plans
//! and reports of the current version.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use proto_splitter_core::merge::{MergeCheck, ReadOptions};
use proto_splitter_core::prost::Message;
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_parts::proto::plan::Work;
use proto_splitter_parts::proto::{Input, Plan, Report};
use proto_splitter_parts::{Committed, PartOptions, PartReport, PartsPlan, with_checksum};

use super::support::{Folder, options, run_all};

/// Number of parts in each plan.
const PARTS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Placeholders in stored plans for the folder, and for the time at which the input was last
/// changed.
const ELSEWHERE: (&str, i64) = ("/elsewhere", 1);

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/compat/0.1.0/parts")
        .join(name)
}

/// Returns a plan for each operation, with the operation's name. Also splits the message in the
/// folder, since the plans for merging and verifying need a chunked file.
fn plans(folder: &Folder) -> [(&'static str, PartsPlan); 3] {
    let written = folder.path("input.cpb");
    SizeSplitter
        .write_with(folder.source(), folder.path("input"), &options())
        .unwrap();
    let (target, read) = (folder.path("merged.pb"), ReadOptions::new());
    [
        ("split", folder.split(PARTS.get(), &options()).unwrap()),
        (
            "merge",
            PartsPlan::merge(&written, target, read.clone(), PARTS).unwrap(),
        ),
        ("verify", PartsPlan::verify(&written, &read, PARTS).unwrap()),
    ]
}

/// Returns a plan whose paths are in the given folder, and whose input was last changed at the
/// given time.
fn moved(plan: &[u8], to: (&str, i64)) -> Vec<u8> {
    let mut plan = Plan::decode(plan).unwrap();
    plan.crc32c = 0;
    let path = |path: &str| format!("{}/{}", to.0, path.rsplit('/').next().unwrap());
    let input = |input: &mut Option<Input>| {
        let input = input.as_mut().unwrap();
        (input.path, input.modified) = (path(&input.path), Some(to.1));
    };
    match plan.work.as_mut().unwrap() {
        Work::Split(split) => {
            input(&mut split.source);
            split.prefix = path(&split.prefix);
        }
        Work::Merge(merge) => {
            input(&mut merge.input);
            merge.target = path(&merge.target);
        }
        Work::Verify(verify) => input(&mut verify.input),
    }
    with_checksum(plan.encode_to_vec())
}

/// Returns a report in which the id of the plan is replaced with `id`.
fn of_plan(report: &[u8], id: [u8; 16]) -> Vec<u8> {
    let mut report = Report::decode(report).unwrap();
    (report.crc32c, report.plan_id) = (0, id.to_vec().into());
    with_checksum(report.encode_to_vec())
}

fn id_of(reports: &[PartReport]) -> [u8; 16] {
    let report = Report::decode(&reports[0].to_bytes()[..]).unwrap();
    (*report.plan_id).try_into().unwrap()
}

fn modified(plan: &PartsPlan) -> i64 {
    let plan = Plan::decode(plan.to_bytes()).unwrap();
    let input = match plan.work.unwrap() {
        Work::Split(split) => split.source,
        Work::Merge(merge) => merge.input,
        Work::Verify(verify) => verify.input,
    };
    input.unwrap().modified.unwrap()
}

#[test]
fn the_same_work_has_the_plans_and_reports_that_it_had() {
    let folder = Folder::new();
    for (name, plan) in plans(&folder) {
        let reports = run_all(&plan).into_iter().enumerate();
        let reports = reports.map(|(part, report)| {
            let bytes = of_plan(&report.to_bytes(), [0; 16]);
            (format!("{name}.{part:05}.report"), bytes)
        });
        let plan = (format!("{name}.plan"), moved(&plan.to_bytes(), ELSEWHERE));
        for (name, bytes) in std::iter::once(plan).chain(reports) {
            if std::env::var_os("UPDATE_COMPAT").is_some() {
                fs::create_dir_all(kept("")).unwrap();
                fs::write(kept(&name), &bytes).unwrap();
            }
            assert!(
                fs::read(kept(&name)).unwrap() == bytes,
                "{name}: other bytes than 0.1.0 wrote, which is a decision for the changelog"
            );
        }
    }
}

#[test]
fn kept_plans_are_executed_and_committed_with_kept_reports() {
    let folder = Folder::new();
    let there = folder
        .path("")
        .to_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    for (name, of_today) in plans(&folder) {
        let plan = fs::read(kept(&format!("{name}.plan"))).unwrap();
        let plan = PartsPlan::from_bytes(moved(&plan, (&there, modified(&of_today)))).unwrap();
        assert_eq!((plan.verb(), plan.parts()), (name, PARTS.get()));
        // The files of the parts must exist for the commit, but the stored reports are used for it.
        let id = id_of(&run_all(&plan));
        let report = |part| {
            let report = fs::read(kept(&format!("{name}.{part:05}.report"))).unwrap();
            PartReport::from_bytes(&of_plan(&report, id)).unwrap()
        };
        let reports: Vec<PartReport> = (0..plan.parts()).map(report).collect();
        match plan.commit(&reports, &PartOptions::new()).unwrap() {
            Committed::Split(_) => assert!(folder.merged("m") == folder.message),
            Committed::Merge(_) => {
                assert!(fs::read(folder.path("merged.pb")).unwrap() == folder.message);
            }
            Committed::Verify(all) => {
                assert!(all.problems.is_empty(), "{:?}", all.problems);
                assert!(matches!(all.merge, MergeCheck::Merged { .. }));
            }
            other => panic!("{other:?}"),
        }
    }
}
