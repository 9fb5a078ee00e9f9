//! Tests of splits in parts.

use std::fs;

use proto_splitter_core::split::{Profile, SplitOptions};
use proto_splitter_core::{ChunkedFile, Error, ErrorKind};
use proto_splitter_parts::{Committed, CommittedSplit, PartOptions, PartReport, PartsPlan};

use super::support::{Folder, options, run_all};

fn commit(plan: &PartsPlan, reports: &[PartReport]) -> Result<CommittedSplit, Error> {
    match plan.commit(reports, &PartOptions::new())? {
        Committed::Split(done) => Ok(done),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_of_any_number_make_one_message_that_merges_byte_for_byte() {
    for parts in [1, 2, 3, 7, 100] {
        let folder = Folder::new();
        let plan = folder.split(parts, &options()).unwrap();
        assert!(
            plan.parts() <= parts && plan.parts() >= parts.min(10),
            "{}",
            plan.parts()
        );
        // Other hosts read the plan from a file.
        plan.write(folder.path("m.plan"), false).unwrap();
        let read = PartsPlan::read(folder.path("m.plan")).unwrap();
        assert_eq!(read.id(), plan.id());
        let mut reports = run_all(&read);
        assert_eq!(folder.names().len(), 1 + plan.parts(), "no main file yet");
        reports.reverse();
        let done = commit(&plan, &reports).unwrap();
        assert_eq!((done.files.len(), done.byte_exact), (plan.parts(), true));
        assert!(folder.merged("m") == folder.message);
        let file = ChunkedFile::open(done.path).unwrap();
        let verified = file.verify(&Default::default());
        assert!(verified.problems().is_empty(), "{:?}", verified.problems());
        assert_eq!(file.trailer().metadata().chunks.len(), done.chunks);
    }
}

#[test]
fn a_file_of_parts_says_of_its_chunks_what_one_of_a_single_host_says() {
    use proto_splitter_core::split::{SizeSplitter, SplitExt};
    let folder = Folder::new();
    let plan = folder.split(4, &options()).unwrap();
    let done = commit(&plan, &run_all(&plan)).unwrap();
    let alone = options().max_file_size(Some(4096));
    SizeSplitter
        .write_with(folder.source(), folder.path("alone"), &alone)
        .unwrap();
    let [parts, alone] = ["m.cpb", "alone.cpb"].map(|name| {
        let file = ChunkedFile::open(folder.path(name)).unwrap();
        let mut metadata = file.trailer().metadata().clone();
        for chunk in &mut metadata.chunks {
            (chunk.file, chunk.offset) = (0, 0);
        }
        metadata.files.clear();
        metadata
    });
    assert_eq!(parts, alone);
    assert_eq!(done.files.len(), 4);
}

#[test]
fn no_file_is_larger_than_was_asked_for_whatever_the_number_of_parts() {
    let folder = Folder::new();
    let plan = folder
        .split(2, &options().max_file_size(Some(5000)))
        .unwrap();
    assert!(plan.parts() > 2, "{}", plan.parts());
    let done = commit(&plan, &run_all(&plan)).unwrap();
    assert!(
        done.files.iter().all(|file| file.size <= 5000),
        "{:?}",
        done.files
    );
    assert!(folder.merged("m") == folder.message);
}

#[test]
fn a_commit_without_all_reports_or_with_one_of_another_plan_says_which() {
    let folder = Folder::new();
    let plan = folder.split(8, &options()).unwrap();
    let reports = run_all(&plan);
    let other = folder.split(7, &options()).unwrap();
    let foreign = other.run(0, &PartOptions::new()).unwrap();
    for (given, said) in [
        (&reports[..3], "no report of part 3, 4, 5, 6, 7, of 8 parts"),
        (
            &reports[..1],
            "no report of part 1, 2, 3, 4, 5 and 2 more, of 8 parts",
        ),
        (
            &[],
            "no report of part 0, 1, 2, 3, 4 and 3 more, of 8 parts",
        ),
        (
            &[&reports[..], &[foreign]].concat(),
            "the report is of part 0 of another plan",
        ),
    ] {
        let error = commit(&plan, given).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidConfig, said)
        );
        assert!(!folder.path("m.cpb").exists());
    }
}

#[test]
fn a_commit_that_is_repeated_succeeds_again_and_one_of_another_plan_replaces_nothing() {
    let folder = Folder::new();
    let plan = folder.split(3, &options()).unwrap();
    let other = folder.split(5, &options()).unwrap();
    let [reports, others] = [&plan, &other].map(run_all);
    assert!(!commit(&plan, &reports).unwrap().was_there);
    assert!(commit(&plan, &reports).unwrap().was_there);
    let before = fs::read(folder.path("m.cpb")).unwrap();
    let error = commit(&other, &others).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(fs::read(folder.path("m.cpb")).unwrap() == before);
    assert!(folder.merged("m") == folder.message);
    // Planning the other split again fails, too.
    let error = folder.split(5, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn with_force_the_files_of_the_split_before_go_and_only_they() {
    let folder = Folder::new();
    let old = folder.split(3, &options()).unwrap();
    commit(&old, &run_all(&old)).unwrap();
    fs::write(folder.path("bystander.00001-89abcdef.cpb"), "not ours").unwrap();
    let new = folder.split(2, &options().force(true)).unwrap();
    let done = commit(&new, &run_all(&new)).unwrap();
    assert_eq!(done.removed.len(), 3, "{:?}", done.removed);
    let names = folder.names();
    assert_eq!(names.len(), 1 + 1 + 2, "{names:?}");
    assert!(folder.merged("m") == folder.message);
}

#[test]
fn a_part_whose_file_is_gone_or_damaged_is_not_committed() {
    for damage in [false, true] {
        let folder = Folder::new();
        let plan = folder.split(3, &options()).unwrap();
        let reports = run_all(&plan);
        let (name, _) = reports[1].file().unwrap();
        let path = folder.path(name);
        if damage {
            let mut bytes = fs::read(&path).unwrap();
            bytes.pop();
            fs::write(&path, bytes).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let error = commit(&plan, &reports).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(!folder.path("m.cpb").exists());
        plan.run(1, &PartOptions::new()).unwrap();
        commit(&plan, &reports).unwrap();
        assert!(folder.merged("m") == folder.message);
    }
}

#[test]
fn a_source_that_was_changed_since_fails_every_step() {
    let folder = Folder::new();
    let plan = folder.split(2, &options()).unwrap();
    let reports = run_all(&plan);
    let mut message = folder.message.clone();
    message.push(0x22);
    message.push(0x00);
    fs::write(folder.path("source.pb"), message).unwrap();
    let part = plan.run(0, &PartOptions::new()).unwrap_err();
    let committed = commit(&plan, &reports).unwrap_err();
    for error in [part, committed] {
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    }
}

#[test]
fn a_message_in_which_nothing_has_to_be_cut_is_one_part() {
    let folder = Folder::new();
    let whole = SplitOptions::new().profile(Profile::Extended);
    let plan = folder.split(9, &whole).unwrap();
    assert_eq!(plan.parts(), 1);
    commit(&plan, &run_all(&plan)).unwrap();
    assert!(folder.merged("m") == folder.message);
}

#[test]
fn what_several_files_can_not_hold_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    let error = folder
        .split(2, &options().profile(Profile::TensorFlow))
        .unwrap_err();
    assert!(error.to_string().contains("profile `extended`"), "{error}");
    let plan = folder.split(2, &options()).unwrap();
    let error = plan.run(2, &PartOptions::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "part 2: the plan has 2 parts, counted from 0"
    );
    assert!(folder.names().is_empty());
}
