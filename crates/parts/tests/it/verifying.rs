//! Tests of verifications in parts.

use std::fs;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use proto_splitter_core::ChunkedFile;
use proto_splitter_core::merge::{MergeCheck, ReadOptions, SourceCheck};
use proto_splitter_core::prost::Message;
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_parts::proto::{Report, report};
use proto_splitter_parts::{
    Committed, CommittedVerify, PartOptions, PartReport, PartsPlan, with_checksum,
};

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

/// Returns the shortest of several measurements of the time to commit a verification in two parts,
/// each of which has found this many problems.
fn time_to_list(count: usize) -> Duration {
    let folder = Folder::new();
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &options())
        .unwrap();
    let parts = NonZeroUsize::new(2).unwrap();
    let plan = PartsPlan::verify(folder.path("m.cpb"), &ReadOptions::new(), parts).unwrap();
    let with_problems = |(part, report): (usize, PartReport)| {
        let mut message = Report::decode(&report.to_bytes()[..]).unwrap();
        match &mut message.result {
            Some(report::Result::Verify(read)) => {
                let chunks = part * count..(part + 1) * count;
                read.problems = chunks.map(|chunk| format!("chunk {chunk:08}")).collect();
            }
            other => panic!("{other:?}"),
        }
        message.crc32c = 0;
        PartReport::from_bytes(&with_checksum(message.encode_to_vec())).unwrap()
    };
    let reports = run_all(&plan).into_iter().enumerate();
    let reports: Vec<PartReport> = reports.map(with_problems).collect();
    let time = || {
        let start = Instant::now();
        match plan.commit(&reports, &PartOptions::new()).unwrap() {
            Committed::Verify(all) => assert_eq!(all.problems.len(), 2 * count),
            other => panic!("{other:?}"),
        }
        start.elapsed()
    };
    (0..3).map(|_| time()).min().unwrap()
}

#[test]
fn the_time_to_list_the_problems_of_all_parts_grows_with_their_number() {
    let (few, many) = (time_to_list(2_000), time_to_list(64_000));
    // 32 times as many problems should take about 32 times as long. If each problem were compared
    // with all others, they would take 1,024 times as long.
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio < 200.0, "{few:?} for 2,000, and {many:?} for 64,000");
}
