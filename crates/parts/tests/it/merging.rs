//! Tests of merges in parts.

use std::fs;
use std::num::NonZeroUsize;

use proto_splitter_core::merge::{MergeOptions, ReadOptions};
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_parts::{Committed, PartOptions, PartsPlan};

use super::support::{Folder, options, run_all};

fn plan(folder: &Folder, parts: usize, options: impl Into<MergeOptions>) -> Result<PartsPlan> {
    let parts = NonZeroUsize::new(parts).unwrap();
    PartsPlan::merge(
        folder.path("m.cpb"),
        folder.path("merged.pb"),
        options,
        parts,
    )
}

fn split(folder: &Folder) {
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &options())
        .unwrap();
}

#[test]
fn parts_of_any_number_write_the_message_that_was_split() {
    let folder = Folder::new();
    split(&folder);
    for parts in [1, 2, 3, 8, 1000] {
        let plan = plan(&folder, parts, ReadOptions::new()).unwrap();
        assert!(plan.parts() <= parts && plan.parts() >= parts.min(8));
        let plan = PartsPlan::from_bytes(plan.to_bytes()).unwrap();
        let mut reports = run_all(&plan);
        reports.reverse();
        assert!(!folder.path("merged.pb").exists());
        let committed = plan.commit(&reports, &PartOptions::new()).unwrap();
        let Committed::Merge(merged) = committed else {
            panic!()
        };
        assert_eq!(merged.byte_exact, Some(true));
        assert!(
            fs::read(folder.path("merged.pb")).unwrap() == folder.message,
            "{parts}"
        );
        fs::remove_file(folder.path("merged.pb")).unwrap();
    }
    assert_eq!(folder.names(), ["m.cpb"]);
}

#[test]
fn what_is_there_is_replaced_only_if_asked_for() {
    let folder = Folder::new();
    split(&folder);
    let early = plan(&folder, 2, ReadOptions::new()).unwrap();
    fs::write(folder.path("merged.pb"), "precious").unwrap();
    let reports = run_all(&early);
    let error = early.commit(&reports, &PartOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(fs::read(folder.path("merged.pb")).unwrap(), b"precious");
    let error = plan(&folder, 2, ReadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let forced = plan(&folder, 2, MergeOptions::new().force(true)).unwrap();
    forced
        .commit(&run_all(&forced), &PartOptions::new())
        .unwrap();
    assert!(fs::read(folder.path("merged.pb")).unwrap() == folder.message);
}

#[test]
fn a_part_of_a_replaced_plan_does_not_take_an_old_target_for_its_own() {
    let folder = Folder::new();
    split(&folder);
    fs::write(folder.path("merged.pb"), "old").unwrap();
    let forced = |parts| plan(&folder, parts, MergeOptions::new().force(true)).unwrap();
    let (early, _late) = (forced(2), forced(3));
    let error = early.run(0, &PartOptions::new()).unwrap_err();
    assert!(error.to_string().contains("planned again"), "{error}");
}

/// Splits the message into several files.
fn split_in_parts(folder: &Folder) {
    let split = folder.split(3, &options()).unwrap();
    split.commit(&run_all(&split), &PartOptions::new()).unwrap();
}

#[test]
fn no_file_of_the_input_is_replaced_by_the_merged_message() {
    let folder = Folder::new();
    split_in_parts(&folder);
    assert!(folder.names().len() > 2);
    for name in folder.names() {
        let error = PartsPlan::merge(
            folder.path("m.cpb"),
            folder.path(&name),
            MergeOptions::new().force(true),
            NonZeroUsize::MIN,
        );
        let error = error.unwrap_err().to_string();
        let refused = "refusing to overwrite the input ";
        assert!(error.starts_with(refused), "{name}: {error}");
    }
    assert!(folder.merged("m") == folder.message);
}

#[cfg(unix)]
#[test]
fn the_merged_message_is_as_private_as_each_file_of_the_input() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    split_in_parts(&folder);
    for name in folder.names() {
        let mode = if name == "m.cpb" { 0o644 } else { 0o600 };
        fs::set_permissions(folder.path(&name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let plan = plan(&folder, 2, ReadOptions::new()).unwrap();
    plan.commit(&run_all(&plan), &PartOptions::new()).unwrap();
    let merged = fs::metadata(folder.path("merged.pb")).unwrap();
    assert_eq!(merged.permissions().mode() & 0o077, 0);
}

#[cfg(unix)]
#[test]
fn a_target_that_is_not_a_regular_file_is_not_replaced_even_by_force() {
    use std::os::unix::net::UnixListener;
    let folder = Folder::new();
    split(&folder);
    let forced = MergeOptions::new().force(true);
    let early = plan(&folder, 2, forced.clone()).unwrap();
    let reports = run_all(&early);
    let _socket = UnixListener::bind(folder.path("merged.pb")).unwrap();
    let late = plan(&folder, 2, forced).unwrap_err();
    let commit = early.commit(&reports, &PartOptions::new()).unwrap_err();
    for error in [late, commit] {
        let error = error.to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_plan_takes_the_place_of_one_that_was_abandoned_and_of_none_that_a_host_works_on() {
    let folder = Folder::new();
    split(&folder);
    let hidden = || {
        let names = folder.names().into_iter();
        let mut hidden: Vec<_> = names.filter(|name| name.starts_with('.')).collect();
        hidden.sort();
        hidden
    };
    let abandoned = plan(&folder, 2, ReadOptions::new()).unwrap();
    let first = hidden();
    assert_eq!(first.len(), 1);
    // Planning the same merge again uses the same hidden file.
    let again = plan(&folder, 2, ReadOptions::new()).unwrap();
    assert_eq!((again.id(), hidden()), (abandoned.id(), first.clone()));
    let other = plan(&folder, 3, ReadOptions::new()).unwrap();
    let second = hidden();
    assert!(second.len() == 1 && second != first, "{second:?}");
    let error = abandoned.run(0, &PartOptions::new()).unwrap_err();
    assert!(error.to_string().contains("planned again"), "{error}");

    let worked_on = fs::File::open(folder.path(&second[0])).unwrap();
    proto_splitter_core::atomic::hold_shared(&worked_on);
    let latest = plan(&folder, 4, ReadOptions::new()).unwrap();
    assert_eq!(hidden().len(), 2);
    other.run(0, &PartOptions::new()).unwrap();
    drop(worked_on);
    latest
        .commit(&run_all(&latest), &PartOptions::new())
        .unwrap();
    fs::remove_file(folder.path("merged.pb")).unwrap();
    let last = plan(&folder, 4, ReadOptions::new()).unwrap();
    assert_eq!(hidden().len(), 1);
    last.commit(&run_all(&last), &PartOptions::new()).unwrap();
    assert_eq!(folder.names(), ["m.cpb", "merged.pb"]);
}

#[test]
fn a_damaged_chunk_fails_the_part_that_has_it() {
    let folder = Folder::new();
    split(&folder);
    let mut bytes = fs::read(folder.path("m.cpb")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(folder.path("m.cpb"), bytes).unwrap();
    let plan = plan(&folder, 4, ReadOptions::new()).unwrap();
    let run = |part| plan.run(part, &PartOptions::new());
    let failed: Vec<_> = (0..4).filter_map(|part| run(part).err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].chunk().is_some());
}

#[test]
fn an_input_that_was_changed_since_fails_every_step() {
    let folder = Folder::new();
    split(&folder);
    let plan = plan(&folder, 2, ReadOptions::new()).unwrap();
    let reports = run_all(&plan);
    let again = options().force(true).max_chunk_size(900);
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &again)
        .unwrap();
    let part = plan.run(0, &PartOptions::new()).unwrap_err();
    let commit = plan.commit(&reports, &PartOptions::new()).unwrap_err();
    for error in [part, commit] {
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    }
}
