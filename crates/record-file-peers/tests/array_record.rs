//! Tests for array_record files, which are Riegeli/records files whose chunks are groups of
//! records, followed by an index.
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

use record_file::{ChunkType, ReaderOptions, RecordFile};
use record_file_peers::{read_ours, records};

/// Writes a file with array_record; `None` if it isn't installed.
fn write(records: &[Vec<u8>], options: &str) -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../.interop/array_record-venv/bin/python");
    if !python.exists() {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            // The output of a passing test is hidden, but this message should be visible.
            let message = "array_record isn't installed, so nothing is compared with it: \
                see array_record/setup.sh\n";
            std::io::stderr().write_all(message.as_bytes()).unwrap();
        });
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut process = Command::new(python)
        .arg(root.join("array_record/write.py"))
        .args([path.as_os_str(), options.as_ref()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    for record in records {
        let len = u32::try_from(record.len()).unwrap();
        stdin.write_all(&len.to_le_bytes()).unwrap();
        stdin.write_all(record).unwrap();
    }
    drop(stdin);
    assert!(process.wait().unwrap().success(), "{options}");
    Some(std::fs::read(path).unwrap())
}

#[test]
fn groups_are_chunks_and_an_index_follows_them() {
    let mut all = records::messages(230);
    all.push(Vec::new());
    all.push(vec![7; 70_000]);
    for count in [0, 1, 50, 51, all.len()] {
        for options in [
            "group_size:50,uncompressed",
            "group_size:50,zstd:3,pad_to_block_boundary:true",
            "group_size:50,brotli:4",
            "group_size:1,snappy",
            "group_size:50,transpose:true,zstd:1,pad_to_block_boundary:true",
            "group_size:50,transpose:true,uncompressed",
        ] {
            let written = &all[..count];
            let Some(file) = write(written, options) else {
                return;
            };
            let what = format!("{count} records, {options}");
            let group = if options.starts_with("group_size:1,") {
                1
            } else {
                50
            };
            let read = read_ours(&file).unwrap();
            let ours = read.iter().take(count).map(|(_, _, record)| record);
            assert!(ours.eq(written), "{what}");
            let indices = read.iter().take(count).map(|(_, index, _)| *index);
            assert!(
                indices.eq((0..count as u64).map(|index| index % group)),
                "{what}"
            );
            // The additional records are one for the index, one for each group, and three copies of
            // the index's position.
            let groups = count.div_ceil(usize::try_from(group).unwrap());
            assert_eq!(read.len(), count + 1 + groups + 3, "{what}");

            let opened = RecordFile::open(&file, ReaderOptions::new()).unwrap();
            let chunks: Vec<_> = opened.chunks().map(Result::unwrap).collect();
            let with_records = chunks.iter().filter(|chunk| chunk.header.num_records > 0);
            let transposed = options.contains("transpose");
            for chunk in with_records.take(groups) {
                let expected = if transposed {
                    ChunkType::Transposed
                } else {
                    ChunkType::Simple
                };
                assert_eq!(chunk.header.kind, expected, "{what}");
                if options.contains("pad_to_block_boundary:true") {
                    assert!(
                        chunk.begin().0.is_multiple_of(1 << 16) || chunk.begin().0 == 64,
                        "{what}"
                    );
                }
            }
            assert_eq!(
                opened.last_record().unwrap().unwrap().record_index(),
                2,
                "{what}"
            );
        }
    }
}
