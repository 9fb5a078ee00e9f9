//! Tests with hosts that write their own chunks.

use std::fs;

use proto_splitter_core::merge::{Merger, ReadOptions};
use proto_splitter_core::prost::Message;
use proto_splitter_core::prost_reflect::ReflectMessage;
use proto_splitter_core::prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use proto_splitter_core::split::{Source, SplitOptions};
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_parts::{PartReport, Shard, ShardOptions, ShardWriter, commit_shards};

use super::support::Folder;

/// The names of some elements of `message_type`, by index.
struct Elements(Vec<(usize, String)>);

impl Shard for Elements {
    fn write_chunks(&self, writer: &mut ShardWriter) -> Result<()> {
        for (at, name) in &self.0 {
            writer.value(&format!("4[{at}].1").parse()?, name.as_bytes())?;
        }
        Ok(())
    }
}

fn rest_message(count: usize) -> FileDescriptorProto {
    let message_type = vec![DescriptorProto::default(); count];
    FileDescriptorProto {
        message_type,
        ..Default::default()
    }
}

fn rest(count: usize) -> Source {
    Source::from(&rest_message(count))
}

fn name(at: usize) -> String {
    format!("{at:03}").repeat(50)
}

fn write(
    folder: &Folder,
    host: usize,
    of: std::ops::Range<usize>,
    options: &ShardOptions,
) -> PartReport {
    let elements = Elements(of.map(|at| (at, name(at))).collect());
    elements.write(folder.path("m"), host, options).unwrap()
}

#[test]
fn whatever_hosts_write_in_whatever_order_becomes_one_message() {
    let folder = Folder::new();
    let options = ShardOptions::new().id("step 7");
    let mut reports: Vec<_> = (0..8)
        .map(|host| write(&folder, host, host * 4..host * 4 + 4, &options))
        .collect();
    // One host has written its file twice, with the same content.
    reports.push(write(&folder, 3, 12..16, &options));
    reports.reverse();
    let done = commit_shards(
        &rest(32),
        folder.path("m"),
        &reports,
        &options,
        &SplitOptions::new(),
    )
    .unwrap();
    assert_eq!((done.files.len(), done.chunks), (8, 33));
    let merger = Merger::new().options(ReadOptions::for_message::<FileDescriptorProto>());
    let message: FileDescriptorProto = merger.read(folder.path("m")).unwrap();
    let names: Vec<_> = message
        .message_type
        .iter()
        .map(|element| element.name().to_owned())
        .collect();
    assert_eq!(names, (0..32).map(name).collect::<Vec<_>>());
    let again = commit_shards(
        &rest(32),
        folder.path("m"),
        &reports,
        &options,
        &SplitOptions::new(),
    );
    assert!(again.unwrap().was_there);
    assert_eq!(folder.names().len(), 9);
}

#[test]
fn the_file_with_the_rest_stays_even_next_to_the_result_and_under_its_name() {
    for force in [false, true] {
        let folder = Folder::new();
        let options = ShardOptions::new();
        let reports = [write(&folder, 0, 0..3, &options)];
        let (path, message) = (folder.path("m.pb"), rest_message(3));
        fs::write(&path, message.encode_to_vec()).unwrap();
        let rest = Source::open(&path, message.descriptor()).unwrap();
        let splitting = SplitOptions::new().force(force);
        let done = commit_shards(&rest, folder.path("m"), &reports, &options, &splitting).unwrap();
        assert!(done.removed.is_empty() && path.exists(), "{force}");
    }
}

#[test]
fn a_missing_host_another_step_or_a_value_written_twice_is_refused() {
    let folder = Folder::new();
    let options = ShardOptions::new().id("step 7");
    let reports: Vec<_> = (0..3)
        .map(|host| write(&folder, host, host..host + 1, &options))
        .collect();
    let other = write(&folder, 1, 1..2, &ShardOptions::new().id("step 8"));
    let both = write(&folder, 1, 0..2, &options);
    let commit = |reports: &[PartReport]| {
        commit_shards(
            &rest(3),
            folder.path("m"),
            reports,
            &options,
            &SplitOptions::new(),
        )
        .unwrap_err()
    };
    for (given, said) in [
        (
            [&reports[0], &reports[2]].map(Clone::clone).to_vec(),
            "no report of part 1, of 3 parts",
        ),
        (
            vec![reports[0].clone(), other],
            "the report is of part 1 of another plan",
        ),
        (
            vec![reports[0].clone(), both],
            "host 1: 4[0].1: it has written a value that host 0 wrote, too",
        ),
    ] {
        let error = commit(&given);
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidConfig, said)
        );
    }
    fs::remove_file(folder.path(reports[2].file().unwrap().0)).unwrap();
    assert_eq!(commit(&reports).kind(), ErrorKind::Io);
    assert!(!folder.path("m.cpb").exists());
}
