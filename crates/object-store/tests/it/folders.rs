//! Tests of copying whole folders from and to stores.

use std::fs;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_object_store::{Folder, ObjectLocation, ObjectWriteOptions};

use crate::server::Server;

fn files(folder: &std::path::Path) {
    for (name, size) in [
        ("saved_model.pb", 10),
        ("variables/v.index", 100),
        ("variables/v.data", 3 << 20),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![u8::try_from(name.len()).unwrap(); size]).unwrap();
    }
}

#[test]
fn a_folder_is_the_same_after_it_went_to_a_store_and_back() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    files(here.path());
    let folder = Folder::new(&ObjectLocation::parse("memory:///folders/same").unwrap());
    let is_last = |name: &str| name == "saved_model.pb";
    let (options, progress) = (ObjectWriteOptions::new(), Progress::none());
    let up = folder
        .upload(here.path(), is_last, &options, &progress)
        .unwrap();
    let down = folder.download(there.path(), &progress).unwrap();
    assert_eq!(up, down);
    assert_eq!(up.len(), 3);
    for item in &up {
        let [a, b] =
            [here.path(), there.path()].map(|path| fs::read(path.join(&item.name)).unwrap());
        assert!(a == b, "{}", item.name);
    }
    let again = folder
        .upload(here.path(), is_last, &options, &progress)
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let again = folder.download(there.path(), &progress).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_copy_that_is_cancelled_says_so_and_leaves_the_last_file_out() {
    let here = tempfile::tempdir().unwrap();
    files(here.path());
    let folder = Folder::new(&ObjectLocation::parse("memory:///folders/cancelled").unwrap());
    let token = CancelToken::new();
    token.cancel();
    let progress = Progress::none().cancelled_by(&token);
    let is_last = |name: &str| name == "saved_model.pb";
    let error = folder
        .upload(here.path(), is_last, &ObjectWriteOptions::new(), &progress)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(
        folder
            .list()
            .unwrap()
            .iter()
            .all(|item| item.name != "saved_model.pb")
    );
}

#[test]
fn a_copy_that_is_cancelled_leaves_no_incomplete_files() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    files(here.path());
    let folder = Folder::new(&ObjectLocation::parse("memory:///folders/incomplete").unwrap());
    let options = ObjectWriteOptions::new();
    let up = folder
        .upload(here.path(), |_| false, &options, &Progress::none())
        .unwrap();
    let token = CancelToken::new();
    token.cancel();
    let progress = Progress::none().cancelled_by(&token);
    let error = folder.download(there.path(), &progress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    for item in &up {
        assert!(!there.path().join(&item.name).exists(), "{}", item.name);
    }
}

#[test]
fn a_copy_from_a_server_without_ranges_that_is_cancelled_leaves_no_file() {
    let server = Server::start();
    server.ignore_ranges();
    server.put("object", vec![7; 3 << 20]);
    let there = tempfile::tempdir().unwrap();
    let location = ObjectLocation::parse(&server.url("object")).unwrap();
    let copy = there.path().join("copy");
    let token = CancelToken::new();
    token.cancel();
    let progress = Progress::none().cancelled_by(&token);
    let error = Folder::download_one(&location, &copy, &progress).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!copy.exists());
}

#[test]
fn a_copy_to_a_folder_that_can_not_be_made_names_it() {
    let server = Server::start();
    server.put("object", vec![7; 10]);
    let there = tempfile::tempdir().unwrap();
    let file = there.path().join("file");
    fs::write(&file, "").unwrap();
    let location = ObjectLocation::parse(&server.url("object")).unwrap();
    let copied = Folder::download_one(&location, &file.join("copy"), &Progress::none());
    let error = copied.unwrap_err().to_string();
    assert!(error.starts_with(file.to_str().unwrap()), "{error}");
}

#[test]
fn a_server_without_ranges_and_lengths_sends_the_object_in_one_piece() {
    let server = Server::start();
    server.ignore_ranges();
    server.omit_lengths();
    let bytes = vec![7; 3 << 20];
    server.put("object", bytes.clone());
    let there = tempfile::tempdir().unwrap();
    let location = ObjectLocation::parse(&server.url("object")).unwrap();
    let copy = there.path().join("copy");
    Folder::download_one(&location, &copy, &Progress::none()).unwrap();
    assert!(fs::read(&copy).unwrap() == bytes);
}
