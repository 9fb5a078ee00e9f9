//! Tests of splits, merges and verifications in parts that read and write objects.

mod schedules;
mod support;

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::{MergeCheck, MergeOptions, ReadOptions};
use proto_splitter_core::prost_reflect::ReflectMessage;
use proto_splitter_core::prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::split::SizeSplitter;
use proto_splitter_object_store::ObjectParts;
use proto_splitter_parts::{Committed, Objects, PartOptions, PartsPlan, PlanFile, Planner};

use crate::server::{Fault, Server};
use support::{Bucket, Small, objects, options, run_all, split_options};

#[test]
fn a_message_in_a_store_is_split_verified_and_merged_by_parts() {
    let bucket = Bucket::new("each");
    for parts in [1, 3, 100] {
        let (main, merged) = (format!("m{parts}"), format!("m{parts}.pb"));
        let split = bucket.split(&main, parts).unwrap();
        let split = PartsPlan::from_bytes(split.to_bytes()).unwrap();
        assert!(split.parts() <= parts && split.parts() >= parts.min(8));
        let mut reports = run_all(&split);
        reports.reverse();
        assert!(!bucket.has(&format!("{main}.cpb")));
        let Committed::Split(done) = split.commit(&reports, &options()).unwrap() else {
            panic!()
        };
        assert_eq!((done.files.len(), done.was_there), (split.parts(), false));
        assert!(bucket.merged(&main) == bucket.message, "{parts}");

        let verify = bucket
            .planner(parts)
            .verify(bucket.url(&format!("{main}.cpb")), &ReadOptions::new());
        let verify = verify.unwrap();
        let Committed::Verify(all) = verify.commit(&run_all(&verify), &options()).unwrap() else {
            panic!()
        };
        assert_eq!(all.problems, Vec::<String>::new());
        assert!(
            matches!(all.merge, MergeCheck::Merged { .. }),
            "{:?}",
            all.merge
        );

        let merge = bucket.merge(&main, &merged, parts).unwrap();
        let merge = PartsPlan::from_bytes(merge.to_bytes()).unwrap();
        let reports = run_all(&merge);
        assert!(!bucket.has(&merged));
        let Committed::Merge(done) = merge.commit(&reports, &options()).unwrap() else {
            panic!()
        };
        assert_eq!(done.byte_exact, Some(true));
        assert!(bucket.get(&merged) == bucket.message, "{parts}");
    }
}

#[test]
fn parts_are_named_after_the_decoded_name_of_the_main_object() {
    let bucket = Bucket::new("encoded");
    for (encoded, decoded) in [
        ("my%20model", "my model."),
        ("50%25", "50%."),
        ("ö%3F", "ö?."),
    ] {
        let split = bucket.split(encoded, 2).unwrap();
        split.commit(&run_all(&split), &options()).unwrap();
        assert!(bucket.merged(encoded) == bucket.message);
        let names = bucket.names();
        let own = names.iter().filter(|name| name.starts_with(decoded));
        assert_eq!(own.count(), 3, "{decoded}");
    }
}

#[test]
fn files_and_objects_go_together() {
    let bucket = Bucket::new("both");
    let folder = tempfile::tempdir().unwrap();
    // Splits an object into files, and merges the files into an object.
    let split = bucket.planner(3).split_object(
        &SizeSplitter,
        (
            &bucket.url("source.pb"),
            FileDescriptorProto::default().descriptor(),
        ),
        folder.path().join("m"),
        &split_options(),
    );
    let split = split.unwrap();
    split.commit(&run_all(&split), &options()).unwrap();
    let main = folder.path().join("m.cpb");
    let merge = bucket
        .planner(2)
        .merge(&main, bucket.url("merged.pb"), ReadOptions::new());
    let merge = merge.unwrap();
    merge.commit(&run_all(&merge), &options()).unwrap();
    assert!(bucket.get("merged.pb") == bucket.message);
    // Splits into objects, and merges the objects into a file.
    let split = bucket.split("m", 2).unwrap();
    split.commit(&run_all(&split), &options()).unwrap();
    let merged = folder.path().join("merged.pb");
    let merge = bucket
        .planner(2)
        .merge(bucket.url("m.cpb"), &merged, ReadOptions::new());
    let merge = merge.unwrap();
    merge.commit(&run_all(&merge), &options()).unwrap();
    assert!(fs::read(&merged).unwrap() == bucket.message);
}

#[test]
fn an_object_that_was_damaged_is_named_by_the_commit_unless_it_does_not_look() {
    let bucket = Bucket::new("spoiled");
    let split = bucket.split("m", 2).unwrap();
    let reports = run_all(&split);
    let (part, _) = reports[1].file().unwrap();
    let whole = bucket.get(part);
    let mut spoiled = whole.clone();
    spoiled[whole.len() / 3] ^= 1;
    bucket.put(part, &spoiled);
    let error = split.commit(&reports, &options()).unwrap_err();
    assert!(error.to_string().contains(part), "{error}");
    assert!(error.to_string().contains("run again"), "{error}");
    assert!(!bucket.has("m.cpb"));
    // Removes the damaged object, since running the part again wouldn't overwrite it.
    bucket.remove(part);
    split.run(1, &options()).unwrap();
    split.commit(&reports, &options()).unwrap();

    let spoiling = PartOptions::new().objects(objects(Small::spoiling()));
    let merge = bucket.merge("m", "merged.pb", 2).unwrap();
    let error = merge.commit(&run_all(&merge), &spoiling).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
    let named = format!("{}: crc32c of bytes ", bucket.url("merged.pb"));
    assert!(error.to_string().starts_with(&named), "{error}");
    bucket.remove("merged.pb");
    let merge = bucket.merge("m", "merged.pb", 2).unwrap();
    merge
        .commit(&run_all(&merge), &spoiling.reread(false))
        .unwrap();
    assert!(bucket.get("merged.pb") != bucket.message);
}

#[test]
fn what_is_there_is_replaced_only_if_asked_for() {
    let bucket = Bucket::new("there");
    let split = bucket.split("m", 2).unwrap();
    let reports = run_all(&split);
    // The object is created after the plan was made.
    bucket.put("m.cpb", b"precious");
    let error = split.commit(&reports, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(bucket.get("m.cpb"), b"precious");
    let error = bucket.split("m", 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let name = bucket.url("m.cpb");
    assert_eq!(
        error.to_string(),
        format!("{name}: the object is there already")
    );
    bucket.remove("m.cpb");
    split.commit(&reports, &options()).unwrap();

    let merge = bucket.merge("m", "merged.pb", 2).unwrap();
    let reports = run_all(&merge);
    bucket.put("merged.pb", b"precious");
    let error = merge.commit(&reports, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let error = bucket.merge("m", "merged.pb", 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(bucket.get("merged.pb"), b"precious");
    bucket.remove("merged.pb");
    merge.commit(&reports, &options()).unwrap();
    assert!(bucket.get("merged.pb") == bucket.message);
}

#[test]
fn a_plan_replaces_no_object_but_a_plan() {
    let bucket = Bucket::new("plans");
    for (name, is_replaced) in [("plan", true), ("plan", true), ("source.pb", false)] {
        let split = bucket.split("m", 2).unwrap();
        let written = PlanFile::write(bucket.url(name), split, &options());
        let kind = written.err().map(|error| error.kind());
        assert_eq!(kind.is_none(), is_replaced, "{kind:?}");
        assert!(is_replaced || kind == Some(ErrorKind::AlreadyExists));
    }
    assert!(bucket.get("source.pb") == bucket.message);
}

#[test]
fn no_object_of_the_input_is_replaced_by_the_merged_message() {
    let bucket = Bucket::new("input");
    let split = bucket.split("m", 2).unwrap();
    split.commit(&run_all(&split), &options()).unwrap();
    let names = bucket.names();
    assert_eq!(names.len(), 3);
    for name in names.into_iter().chain(["%6d.cpb".to_owned()]) {
        let (input, target) = (bucket.url("m.cpb"), bucket.url(&name));
        let forced = MergeOptions::new().force(true);
        let error = bucket.planner(2).merge(input, &target, forced).unwrap_err();
        let refused = format!("refusing to overwrite the input {target}");
        assert_eq!(error.to_string(), refused);
    }
}

#[test]
fn an_object_that_was_replaced_since_the_plan_is_told_by_its_etag() {
    let bucket = Bucket::new("replaced");
    let split = bucket.split("m", 2).unwrap();
    // The object is replaced by one with the same bytes but another version.
    bucket.put("source.pb", &bucket.message.clone());
    let error = split.run(0, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    let split = bucket.split("m", 2).unwrap();
    split.commit(&run_all(&split), &options()).unwrap();
    let merge = bucket.merge("m", "merged.pb", 2).unwrap();
    bucket.put("m.cpb", &bucket.get("m.cpb"));
    let error = merge.run(0, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
}

#[test]
fn a_part_that_is_gone_or_another_is_named_by_the_commit() {
    let bucket = Bucket::new("gone");
    let split = bucket.split("m", 3).unwrap();
    let reports = run_all(&split);
    let name = reports[1].file().unwrap().0.to_owned();
    let content = bucket.get(&name);
    bucket.remove(&name);
    let error = split.commit(&reports, &options()).unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    let mut other = content.clone();
    let end = other.len() - 1;
    other[end] ^= 1;
    bucket.put(&name, &other);
    assert!(split.commit(&reports, &options()).is_err());
    // Another object with the same name as the part isn't overwritten either.
    split.run(1, &options()).unwrap();
    assert!(bucket.get(&name) == other);
    bucket.put(&name, &content);
    split.commit(&reports, &options()).unwrap();
}

#[test]
fn damage_is_found_by_the_part_that_reads_it() {
    let bucket = Bucket::new("damage");
    let split = bucket.split("m", 3).unwrap();
    let reports = run_all(&split);
    split.commit(&reports, &options()).unwrap();
    let name = reports[1].file().unwrap().0.to_owned();
    let mut content = bucket.get(&name);
    let middle = content.len() / 2;
    content[middle] ^= 1;
    bucket.put(&name, &content);
    let verify = bucket
        .planner(3)
        .verify(bucket.url("m.cpb"), &ReadOptions::new());
    let verify = verify.unwrap();
    let Committed::Verify(all) = verify.commit(&run_all(&verify), &options()).unwrap() else {
        panic!()
    };
    assert!(!all.problems.is_empty());
    let merge = bucket.merge("m", "merged.pb", 3).unwrap();
    let failed = (0..merge.parts()).filter(|&part| merge.run(part, &options()).is_err());
    assert!(failed.count() > 0);
}

#[test]
fn a_source_on_a_server_that_fails_at_times_is_split_and_one_that_changes_is_refused() {
    let server = Server::start();
    let bucket = Bucket::new("server");
    server.put("source.pb", bucket.message.clone());
    let descriptor = FileDescriptorProto::default().descriptor();
    let plan = |prefix: &str| {
        bucket.planner(4).split_object(
            &SizeSplitter,
            (&server.url("source.pb"), descriptor.clone()),
            bucket.url(prefix),
            &split_options(),
        )
    };
    let split = plan("m").unwrap();
    let mut reports = Vec::new();
    for part in 0..split.parts() {
        server.fail(&[Fault::Status(503), Fault::Cut(part * 300)]);
        reports.push(split.run(part, &options()).unwrap());
    }
    split.commit(&reports, &options()).unwrap();
    assert!(bucket.merged("m") == bucket.message);
    let late = plan("late").unwrap();
    server.put("source.pb", bucket.message.clone());
    let error = late.run(0, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    // A web server can't be the target of a merge.
    let error =
        bucket
            .planner(1)
            .merge(bucket.url("m.cpb"), server.url("m.pb"), ReadOptions::new());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("a web server can only be read from")
    );
}

#[test]
fn a_plan_of_objects_says_where_there_are_no_stores() {
    let bucket = Bucket::new("without");
    let split = bucket.split("m", 2).unwrap();
    let error = split
        .run(0, &proto_splitter_parts::PartOptions::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(
        error.to_string().contains("an object in a store"),
        "{error}"
    );
}

#[test]
fn a_plan_keeps_no_password_and_no_token() {
    let stores: Arc<dyn Objects> = Arc::new(ObjectParts::new());
    let planner = Planner::new(NonZeroUsize::MIN).objects(stores);
    for url in [
        "http://me:secret@127.0.0.1:1/m.cpb",
        "https://127.0.0.1:1/m.cpb?sig=secret",
    ] {
        let options = ReadOptions::new();
        let target = "memory:///parts/never.pb";
        for error in [
            planner.verify(url, &options).unwrap_err(),
            planner.merge(url, target, options.clone()).unwrap_err(),
            planner.merge(target, url, options).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let error = error.to_string();
            assert!(
                error.contains("***") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
