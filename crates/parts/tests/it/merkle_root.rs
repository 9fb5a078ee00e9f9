//! Tests of Merkle roots of splits in parts.

use std::fs;

use proto_splitter_core::prost::Message;
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_core::{ChunkedFile, ErrorKind};
use proto_splitter_parts::proto::{Plan, Report, SplitReport, plan, report};
use proto_splitter_parts::with_checksum;
use proto_splitter_parts::{Committed, CommittedSplit, PartOptions, PartReport, PartsPlan};
use record_file::Compression;

use super::support::{Folder, options, run_all};

fn commit(
    plan: &PartsPlan,
    reports: &[PartReport],
    options: &PartOptions,
) -> proto_splitter_core::Result<CommittedSplit> {
    match plan.commit(reports, options)? {
        Committed::Split(done) => Ok(done),
        other => panic!("{other:?}"),
    }
}

/// Returns a part's report with a change to its content and a valid checksum.
fn changed(report: &PartReport, change: impl FnOnce(&mut SplitReport)) -> PartReport {
    let mut message = Report::decode(&report.to_bytes()[..]).unwrap();
    match &mut message.result {
        Some(report::Result::Split(split)) => change(split),
        other => panic!("{other:?}"),
    }
    PartReport::from_bytes(&with_checksum(message.encode_to_vec())).unwrap()
}

fn flip(split: &mut SplitReport, at: usize) {
    let mut leaves = split.leaves.to_vec();
    leaves[at] ^= 1;
    split.leaves = leaves.into();
}

#[test]
fn a_split_in_parts_has_the_root_of_a_split_in_one_go() {
    let options = options().merkle_root(true);
    for parts in [1, 3, 100] {
        let folder = Folder::new();
        let alone = SizeSplitter.write_with(folder.source(), folder.path("alone"), &options);
        let expected = alone.unwrap().merkle_root.unwrap();
        let plan = folder.split(parts, &options).unwrap();
        // Other hosts read the plan from its bytes.
        let plan = PartsPlan::from_bytes(plan.to_bytes()).unwrap();
        let done = commit(&plan, &run_all(&plan), &PartOptions::new()).unwrap();
        assert_eq!(done.merkle_root, Some(expected), "{parts}");
        let file = ChunkedFile::open(&done.path).unwrap();
        let problems = file.verify_against(&expected, &Default::default()).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert!(file.verify(&Default::default()).problems().is_empty());
        file.require_root(&expected).unwrap();
        assert!(folder.merged("m") == folder.message);
        // Without rereading, the root is the same.
        let trusting = PartOptions::new().reread(false);
        let again = commit(&plan, &run_all(&plan), &trusting).unwrap();
        assert_eq!((again.merkle_root, again.was_there), (Some(expected), true));
    }
}

#[test]
fn without_a_root_in_the_plan_there_is_none() {
    let folder = Folder::new();
    let plan = folder.split(3, &options()).unwrap();
    let done = commit(&plan, &run_all(&plan), &PartOptions::new()).unwrap();
    assert_eq!(done.merkle_root, None);
    let file = ChunkedFile::open(done.path).unwrap();
    assert!(file.trailer().metadata().merkle_tree.is_none());
}

#[test]
fn parts_with_the_chunks_of_the_files_of_one_host_are_the_same_files() {
    for size in [6000, 8000, 11_000] {
        let (alone, parts) = (Folder::new(), Folder::new());
        let options = options()
            .merkle_root(true)
            .compression(Compression::None)
            .max_file_size(Some(size));
        let written = SizeSplitter.write_with(alone.source(), alone.path("m"), &options);
        let written = written.unwrap();
        assert!(written.files.len() > 1);
        let file = ChunkedFile::open(&written.path).unwrap();
        let chunks = &file.trailer().metadata().chunks;
        // The plan is changed so that each part gets the chunks of one of the files that a single
        // host wrote.
        let plan = parts.split(1, &options).unwrap();
        let mut message = Plan::decode(plan.to_bytes()).unwrap();
        let Some(plan::Work::Split(split)) = &mut message.work else {
            panic!("no plan of a split")
        };
        let ends = (1..).map(|number| chunks.iter().filter(|chunk| chunk.file <= number).count());
        let ends = ends.take(written.files.len());
        split.part_ends = ends.map(|end| end as u64).collect();
        message.crc32c = 0;
        let plan = PartsPlan::from_bytes(with_checksum(message.encode_to_vec())).unwrap();
        let done = commit(&plan, &run_all(&plan), &PartOptions::new()).unwrap();
        assert_eq!(done.merkle_root, written.merkle_root);
        assert_eq!(parts.names(), alone.names());
        for name in parts.names() {
            let [one, other] = [&parts, &alone].map(|folder| fs::read(folder.path(&name)));
            assert!(one.unwrap() == other.unwrap(), "{size}: {name}");
        }
    }
}

#[test]
fn a_report_with_other_hashes_is_refused() {
    let folder = Folder::new();
    let plan = folder.split(2, &options().merkle_root(true)).unwrap();
    let reports = run_all(&plan);
    let refused = |change: &dyn Fn(&mut SplitReport)| {
        let given = [reports[0].clone(), changed(&reports[1], change)];
        let error = commit(&plan, &given, &PartOptions::new()).unwrap_err();
        assert!(!folder.path("m.cpb").exists());
        (error.kind(), error.to_string())
    };
    for change in [
        &(|split: &mut SplitReport| split.leaves.clear()) as &dyn Fn(&mut SplitReport),
        &|split| split.leaves.truncate(32),
        &|split| split.leaves.truncate(split.leaves.len() - 1),
        &|split| split.leaves = [&split.leaves[..], &[0; 32]].concat().into(),
    ] {
        let (kind, said) = refused(change);
        let expected = "part 1: its report has other hashes than the plan";
        assert_eq!((kind, said.as_str()), (ErrorKind::InvalidMessage, expected));
    }
    let Ok(Report {
        result: Some(report::Result::Split(split)),
        ..
    }) = Report::decode(&reports[1].to_bytes()[..])
    else {
        panic!("no report of a split")
    };
    for at in (0..split.leaves.len()).step_by(7) {
        let (kind, said) = refused(&|split| flip(split, at));
        // Two chunks of this part are equal, and share a record.
        let is_shared = said == "part 1: its report has two hashes of one record";
        assert!(
            is_shared
                || kind == ErrorKind::ChecksumMismatch
                    && said.starts_with("part 1: m.00002-")
                    && said.ends_with(
                        "its hash differs from the hash in the report: have the part run again"
                    ),
            "{at}: {said}"
        );
    }
    commit(&plan, &reports, &PartOptions::new()).unwrap();
}

#[test]
fn hashes_that_no_plan_asks_for_are_refused() {
    let folder = Folder::new();
    let plan = folder.split(1, &options()).unwrap();
    let reports = run_all(&plan);
    let given = changed(&reports[0], |split| split.leaves = vec![0; 32].into());
    let error = commit(&plan, &[given], &PartOptions::new()).unwrap_err();
    let expected = "part 0: its report has other hashes than the plan";
    assert_eq!(error.to_string(), expected);
}
