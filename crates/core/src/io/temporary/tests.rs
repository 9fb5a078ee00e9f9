//! Tests that temporary files and folders go when their process has ended, and not before.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::io::owner;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Creates a file and a folder that no process has open, like leftovers from a killed process.
fn left_in(folder: &Path) -> [PathBuf; 2] {
    let [file, inner] = ["file", "inner"].map(|name| {
        let name = format!(".protosplit-01234567-{name}.tmp");
        folder.join(name)
    });
    fs::write(&file, "half").unwrap();
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("part"), "half").unwrap();
    [file, inner]
}

#[test]
fn an_error_has_its_number_and_names_no_temporary_item() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("missing/m.cpb");
    let expected = File::create(&target).unwrap_err();
    for made in [
        file_beside(&target, None).map(drop),
        TemporaryFolder::beside(&target, None).map(drop),
    ] {
        let error = made.unwrap_err();
        assert_eq!(error.raw_os_error(), expected.raw_os_error());
        assert_eq!(error.to_string(), expected.to_string());
    }
}

#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    // Creates both folders first, since the inode number of a removed folder may be reused for
    // the next one.
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (folder, is_folder) in folders.iter().zip([false, true]) {
        let left = left_in(folder.path());
        let target = folder.path().join("m.cpb");
        if is_folder {
            drop(TemporaryFolder::beside(&target, None).unwrap());
        } else {
            drop(file_beside(&target, None).unwrap());
        }
        assert!(left.iter().all(|left| !left.exists()));
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

#[test]
fn what_is_written_stays_and_so_does_what_has_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m.cpb");
    let file = file_beside(&target, None).unwrap();
    let inner = TemporaryFolder::beside(&target, None).unwrap();
    let detached = TemporaryFolder::beside(&target, None).unwrap();
    let detached = detached.detach(&target).unwrap();
    let others = [
        ".protosplit-lock-01234567.tmp",
        ".protosplit-0123456789abcdef.tmp",
        ".protosplit-m.old",
        "m.cpb",
    ];
    for other in others {
        fs::write(folder.path().join(other), "all").unwrap();
    }
    let before = names(folder.path());
    sweep(folder.path());
    assert_eq!(names(folder.path()), before);
    assert!(file.path().exists() && inner.path().exists() && detached.path().exists());
}

#[test]
fn folders_that_a_killed_process_detached_go_with_the_next_run_for_their_target() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let detach = |target: &Path, file: &str| {
        let new = TemporaryFolder::beside(target, None).unwrap();
        fs::write(new.path().join(file), b"content").unwrap();
        new.detach(target).unwrap().keep()
    };
    let [first, second] = [detach(&one, "model"), detach(&one, "precious")];
    let third = detach(&other, "model");
    let empty = detach(&one, "model");
    fs::remove_file(empty.join("model")).unwrap();
    // A general sweep doesn't treat detached folders as leftovers.
    sweep(folder.path());
    let is_model = |path: &Path| path.join("model").is_file();
    discard_detached(&one, is_model);
    let left = [&first, &second, &third, &empty].map(|path| path.exists());
    assert_eq!(left, [false, true, true, false]);
    assert!(has_detached(&one) && has_detached(&other));
    discard(&second).unwrap();
    assert!(!has_detached(&one));
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn where_locks_tell_nothing_only_what_an_ended_process_of_this_host_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let name = |owner| format!("{}a.tmp", prefix(b"m.cpb", owner));
    let left = name(Some(owner::tests::ended()));
    let mut stay = [
        name(Some(Owner::this().unwrap())),
        name(Some(owner::tests::elsewhere())),
        name(None),
    ];
    for name in stay.iter().chain([&left]) {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    sweep_by(folder.path(), false);
    stay.sort();
    assert_eq!(names(folder.path()), stay);
}

#[test]
fn a_file_is_abandoned_once_no_process_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("room");
    fs::write(&path, "half").unwrap();
    let users = [(); 2].map(|()| File::open(&path).unwrap());
    users.iter().for_each(hold_shared);
    for user in users {
        remove_abandoned(&path);
        assert!(path.exists());
        drop(user);
    }
    // A child process that another test starts holds the file until it executes its program.
    for _ in 0..1000 {
        remove_abandoned(&path);
        if !path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the file is still there");
}

#[test]
fn a_folder_in_its_place_is_locked_by_nobody() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("model");
    let folder = TemporaryFolder::beside(&target, None).unwrap();
    // A child process between fork and exec has a handle like this one.
    let inherited = folder._held.as_ref().unwrap().0.try_clone().unwrap();
    fs::rename(folder.path(), &target).unwrap();
    folder.keep();
    let there = fs::symlink_metadata(&target).unwrap();
    assert!(system::hold_left(&target, &there).is_some());
    drop(inherited);
}

#[test]
fn a_link_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "all").unwrap();
    let link = folder.path().join(".protosplit-01234567-a.tmp");
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    sweep(folder.path());
    assert_eq!(fs::read(&precious).unwrap(), b"all");
    assert!(link.is_symlink());
}

#[test]
fn of_many_at_once_none_removes_what_another_writes() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m.cpb");
    let kept = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..50 {
                    let made = file_beside(&target, None).unwrap();
                    sweep(folder.path());
                    let of = thread::current().id();
                    let to = folder.path().join(format!("{of:?} {round}"));
                    made.persist(to).unwrap();
                    kept.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(names(folder.path()).len(), kept.into_inner());
}
