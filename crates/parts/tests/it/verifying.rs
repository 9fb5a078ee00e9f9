//! Tests of verifications in parts.

use std::fs;
use std::num::NonZeroUsize;

use proto_splitter_core::ChunkedFile;
use proto_splitter_core::merge::{MergeCheck, ReadOptions, SourceCheck};
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_parts::{Committed, CommittedVerify, PartOptions, PartsPlan};

use super::support::{Folder, options, run_all};

fn verify(folder: &Folder, parts: usize) -> CommittedVerify {
    let parts = NonZeroUsize::new(parts).unwrap();
    let plan = PartsPlan::verify(folder.path("m.cpb"), &ReadOptions::new(), parts).unwrap();
    let plan = PartsPlan::from_bytes(plan.to_bytes()).unwrap();
    match plan.commit(&run_all(&plan), &PartOptions::new()).unwrap() {
        Committed::Verify(all) => all,
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_of_any_number_find_what_one_host_finds() {
    for several in [None, Some(5000)] {
        let folder = Folder::new();
        let options = options().max_file_size(several);
        SizeSplitter
            .write_with(folder.source(), folder.path("m"), &options)
            .unwrap();
        let alone = ChunkedFile::open(folder.path("m.cpb")).unwrap();
        let alone = alone.verify(&ReadOptions::new());
        for parts in [1, 2, 3, 100] {
            let all = verify(&folder, parts);
            assert!(all.problems.is_empty(), "{:?}", all.problems);
            assert_eq!((all.records, all.bytes), (alone.records(), alone.bytes()));
            let MergeCheck::Merged { size, source, .. } = all.merge else {
                panic!("{:?}", all.merge)
            };
            assert_eq!(size, folder.message.len() as u64);
            assert_eq!(source, Some(SourceCheck::Same));
        }
    }
}

#[test]
fn whatever_byte_is_damaged_the_parts_say_what_one_host_says() {
    let folder = Folder::new();
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &options())
        .unwrap();
    let whole = fs::read(folder.path("m.cpb")).unwrap();
    let mut compared = 0;
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(folder.path("m.cpb"), bytes).unwrap();
        // If the file can't be opened, a plan to verify it can't be made either.
        let Ok(alone) = ChunkedFile::open(folder.path("m.cpb")) else {
            continue;
        };
        let alone = alone.verify(&ReadOptions::new());
        let mut expected: Vec<String> = alone.problems().iter().map(ToString::to_string).collect();
        let mut found = verify(&folder, 3).problems;
        expected.sort();
        found.sort();
        assert!(!found.is_empty(), "byte {at}");
        expected.dedup();
        assert_eq!(found, expected, "byte {at}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}
