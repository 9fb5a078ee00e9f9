//! Tests of writing objects.

use std::io::{ErrorKind, Write};
use std::sync::Arc;

use futures::executor::block_on;
use proto_splitter_object_store::object_store::memory::InMemory;
use proto_splitter_object_store::object_store::path::Path;
use proto_splitter_object_store::object_store::{ObjectStore, ObjectStoreExt};
use proto_splitter_object_store::{Folder, ObjectLocation, ObjectWriteOptions, ObjectWriter};

const PART: usize = 5 << 20;

fn memory() -> (Arc<InMemory>, ObjectLocation) {
    let store = Arc::new(InMemory::new());
    let location = ObjectLocation::of_store(store.clone(), Path::from("folder/object"));
    (store, location)
}

fn content(store: &InMemory) -> Option<Vec<u8>> {
    let path = Path::from("folder/object");
    let got = block_on(store.get(&path)).ok()?;
    Some(block_on(got.bytes()).unwrap().to_vec())
}

fn options() -> ObjectWriteOptions {
    ObjectWriteOptions::new().part_size(PART as u64).at_once(2)
}

fn some(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at * 11 + at / 255).to_le_bytes()[0])
        .collect()
}

#[test]
fn what_is_written_is_there_once_it_is_finished() {
    for size in [0, 10, PART - 1, PART, PART + 1, 3 * PART] {
        let (store, location) = memory();
        let bytes = some(size);
        let mut writer = ObjectWriter::create(&location, &options()).unwrap();
        for piece in bytes.chunks(777_777) {
            writer.write_all(piece).unwrap();
            assert!(content(&store).is_none());
        }
        assert_eq!(writer.finish().unwrap(), size as u64);
        assert!(content(&store).unwrap() == bytes, "{size}");
    }
}

#[test]
fn what_is_there_stays_unless_it_is_to_be_replaced() {
    for size in [10, 2 * PART] {
        let (store, location) = memory();
        let written = |options: &ObjectWriteOptions| -> std::io::Result<u64> {
            let mut writer = ObjectWriter::create(&location, options)?;
            writer.write_all(&some(size))?;
            writer.finish()
        };
        written(&options()).unwrap();
        let error = written(&options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        written(&options().force(true)).unwrap();
        assert_eq!(content(&store).unwrap().len(), size);
    }
}

#[test]
fn an_object_that_appears_meanwhile_stays() {
    for size in [10, 2 * PART] {
        let (store, location) = memory();
        let mut writer = ObjectWriter::create(&location, &options()).unwrap();
        writer.write_all(&some(size)).unwrap();
        let path = Path::from("folder/object");
        block_on(store.put(&path, "theirs".into())).unwrap();
        let error = writer.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(content(&store).unwrap(), b"theirs");
    }
}

#[test]
fn what_is_dropped_or_aborted_leaves_nothing() {
    for abort in [false, true] {
        let (store, location) = memory();
        let mut writer = ObjectWriter::create(&location, &options()).unwrap();
        writer.write_all(&some(3 * PART)).unwrap();
        if abort {
            writer.abort().unwrap()
        } else {
            drop(writer)
        }
        assert!(content(&store).is_none());
        assert!(!location.exists().unwrap());
    }
}

#[test]
fn a_web_server_is_only_read_from() {
    let location = ObjectLocation::parse("http://localhost:9/object").unwrap();
    assert!(location.is_read_only());
    let error = ObjectWriter::create(&location, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn names_of_objects_are_kept_as_they_are() {
    for (folder, start, end) in [("a b", "model.v1", ".cpb"), ("é~[x]", "50%", "{#}.cpb")] {
        let name = format!("{start}{end}");
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let at = |path: &str| {
            let path = Path::parse(path).unwrap();
            ObjectLocation::of_store(Arc::clone(&store), path)
        };
        let location = at(&format!("{folder}/{name}"));
        let mut writer = ObjectWriter::create(&location, &options()).unwrap();
        writer.write_all(b"x").unwrap();
        writer.finish().unwrap();
        for derived in [
            location.beside(&name),
            location.folder().inside(&name),
            at(folder).inside(start).continued(end),
        ] {
            assert_eq!(derived.path(), location.path());
            assert!(derived.exists().unwrap());
        }
        let items = Folder::new(&location.folder()).list().unwrap();
        assert!(items.iter().map(|item| &item.name).eq([&name]));
    }
}
