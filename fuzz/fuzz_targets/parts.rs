//! Reads arbitrary bytes as the plan for a split in parts or, if the first byte is odd, as the
//! report of a part. An accepted plan is executed on an existing file, whatever the plan claims
//! about its input.
#![no_main]

use std::num::NonZeroUsize;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use prost_reflect::ReflectMessage;
use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitOptions};
use proto_splitter_parts::proto::Plan;
use proto_splitter_parts::proto::plan::Work;
use proto_splitter_parts::{PartOptions, PartReport, PartsPlan, with_checksum};

/// Maximum number of parts of a plan to run.
const PARTS: usize = 4;

/// Returns a serialized file descriptor, which is a message that can be cut into a few chunks.
fn message() -> Vec<u8> {
    Plan::default()
        .descriptor()
        .parent_file_descriptor_proto()
        .encode_to_vec()
}

/// Writes the message to `folder/m.pb`, and returns a valid plan for splitting this file.
fn planned(folder: &Path) -> PartsPlan {
    let source = folder.join("m.pb");
    std::fs::write(&source, message()).expect("a source");
    let of = Plan::default().descriptor();
    let descriptor = of.parent_file_descriptor_proto().descriptor();
    let source = Source::open(&source, descriptor).expect("a source");
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(256);
    let parts = NonZeroUsize::new(3).expect("it is three");
    PartsPlan::split(&SizeSplitter, &source, folder.join("out"), &options, parts).expect("a plan")
}

fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("parts") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let plan = planned(folder.path());
    std::fs::write(corpus.join("plan"), [&[0], &plan.to_bytes()[..]].concat()).expect("a seed");
    let report = plan.run(0, &PartOptions::new()).expect("a report");
    std::fs::write(
        corpus.join("report"),
        [&[1], &report.to_bytes()[..]].concat(),
    )
    .expect("a seed");
}

/// Parses a plan, and changes its input and output to valid files in `folder`. Returns `None` if
/// the plan is invalid.
fn led_to(folder: &Path, bytes: &[u8]) -> Option<PartsPlan> {
    let mut plan = Plan::decode(bytes).ok()?;
    let Some(Work::Split(split)) = &mut plan.work else {
        return None;
    };
    let there = Plan::decode(planned(folder).to_bytes()).ok()?;
    let Some(Work::Split(there)) = there.work else {
        return None;
    };
    split.source = there.source;
    split.prefix = there.prefix;
    PartsPlan::from_bytes(with_checksum(plan.encode_to_vec())).ok()
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| {
        let Some((how, bytes)) = data.split_first() else {
            return;
        };
        if how % 2 == 1 {
            if let Ok(report) = PartReport::from_bytes(&with_checksum(bytes.to_vec())) {
                let again = PartReport::from_bytes(&report.to_bytes()).expect("what was written is read");
                assert_eq!(again, report);
            }
            return;
        }
        if let Ok(plan) = PartsPlan::from_bytes(with_checksum(bytes.to_vec())) {
            let _ = (plan.parts(), plan.id(), plan.verb(), plan.files(), plan.main_name());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let Some(plan) = led_to(folder.path(), bytes) else {
            return;
        };
        let options = PartOptions::new().threads(NonZeroUsize::new(1));
        let parts = 0..plan.parts().min(PARTS);
        let reports: Vec<PartReport> = parts.filter_map(|part| plan.run(part, &options).ok()).collect();
        let _ = plan.commit(&reports, &options);
    }
);
