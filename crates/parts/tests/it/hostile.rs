//! Tests with damaged and forged plans and reports.

use proto_splitter_core::prost::Message;
use proto_splitter_core::{Error, ErrorKind};
use proto_splitter_parts::proto::{Plan, Report, plan, report};
use proto_splitter_parts::{PartOptions, PartReport, PartsPlan, with_checksum};

use super::support::{Folder, options, run_all};

fn changed(plan: &PartsPlan, change: impl Fn(&mut Plan)) -> Error {
    let mut message = Plan::decode(plan.to_bytes()).unwrap();
    change(&mut message);
    PartsPlan::from_bytes(with_checksum(message.encode_to_vec())).unwrap_err()
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    let folder = Folder::new();
    let plan = folder.split(3, &options()).unwrap();
    let split = |change: fn(&mut proto_splitter_parts::proto::SplitPlan)| {
        changed(&plan, |message| match &mut message.work {
            Some(plan::Work::Split(split)) => change(split),
            other => panic!("{other:?}"),
        })
    };
    for (error, said) in [
        (
            split(|plan| plan.source = None),
            "the plan of a split has no source",
        ),
        (
            split(|plan| plan.prefix = "m".into()),
            "the plan of a split has paths that aren't absolute",
        ),
        (
            split(|plan| plan.trailer = "x".into()),
            "the plan of a split has no trailer",
        ),
        (
            split(|plan| drop(plan.chunks.pop())),
            "the plan of a split and its trailer have different chunks",
        ),
        (
            split(|plan| plan.part_ends = vec![9, 3, 14]),
            "the plan's parts don't add up to 14",
        ),
        (
            split(|plan| plan.part_ends.clear()),
            "the plan's parts don't add up to 14",
        ),
        (
            split(|plan| plan.chunks[1].pieces[0] = u64::MAX),
            "chunk 1: the plan has a piece of a chunk that is out of range",
        ),
        (
            split(|plan| plan.chunks[1].pieces.truncate(1)),
            "chunk 1: the plan has a piece of a chunk that is out of range",
        ),
        (
            split(|plan| plan.chunks[0].pieces.clear()),
            "chunk 0: the plan has 0 bytes, but its trailer says",
        ),
    ] {
        assert!(error.to_string().starts_with(said), "{error}");
    }
    let later = changed(&plan, |message| message.version = 2);
    assert_eq!(
        (later.kind(), later.to_string().as_str()),
        (
            ErrorKind::UnsupportedVersion,
            "the plan has the unsupported version 2"
        )
    );
    let nothing = changed(&plan, |message| message.work = None);
    assert_eq!(nothing.to_string(), "not a plan: it has no work");
}

#[test]
fn a_report_that_contradicts_the_plan_or_its_file_is_refused() {
    let folder = Folder::new();
    let plan = folder.split(2, &options()).unwrap();
    let reports = run_all(&plan);
    let changed = |change: fn(&mut proto_splitter_parts::proto::SplitReport)| {
        let mut message = Report::decode(&reports[1].to_bytes()[..]).unwrap();
        match &mut message.result {
            Some(report::Result::Split(split)) => change(split),
            other => panic!("{other:?}"),
        }
        let report = PartReport::from_bytes(&with_checksum(message.encode_to_vec())).unwrap();
        let given = [reports[0].clone(), report];
        plan.commit(&given, &PartOptions::new())
            .unwrap_err()
            .to_string()
    };
    for (said, expected) in [
        (
            changed(|split| split.file = "../m.00001-89abcdef.cpb".into()),
            "part 1: its report names a file in another folder",
        ),
        (
            changed(|split| split.file.clear()),
            "part 1: its report names a file in another folder",
        ),
        (
            changed(|split| split.offsets.truncate(1)),
            "part 1: its report has other chunks than the plan",
        ),
        (
            changed(|split| split.crc32cs.clear()),
            "part 1: its report has other chunks than the plan",
        ),
        (
            changed(|split| split.run_crc32cs.push(1)),
            "part 1: its report has other bytes of the source than the plan",
        ),
        (
            changed(|split| split.crc32cs[0] ^= 1),
            "part 1: its report contradicts the end of its file",
        ),
        (
            changed(|split| split.offsets[0] += 1),
            "part 1: its report contradicts the end of its file",
        ),
    ] {
        assert_eq!(said, expected);
    }
    let error = changed(|split| split.size += 1);
    assert!(error.contains("but its part wrote"), "{error}");
    for bytes in [&b""[..], b"\x08\x01", b"\xff"] {
        assert!(PartReport::from_bytes(bytes).is_err());
        assert!(PartReport::from_bytes(&with_checksum(bytes.to_vec())).is_err());
    }
}
