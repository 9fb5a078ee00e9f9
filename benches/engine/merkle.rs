//! Measurements of the cost of a Merkle root: splitting to a file, and `verify`, each with and
//! without the hashes for a root.

use std::path::Path;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::ReadOptions;
use proto_splitter::record_file::Compression;
use proto_splitter::split::{Source, SplitExt};
use proto_splitter::{SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::workloads::Workload;

use super::{Outcome, descriptor, remove, row, write};

pub(super) fn merkle(folder: &Path, scale: u64) -> Outcome<()> {
    let source = folder.join("rooted.source");
    write(&Workload::W1.message(scale), &source)?;
    let size = source.metadata()?.len();
    let descriptor = descriptor(SAVED_MODEL)?;
    let plain = Workload::W1
        .split_options(scale)
        .compression(Compression::None);
    let rooted = plain.clone().merkle_root(true);
    let split = |name: &str, options| -> Outcome<()> {
        remove(&folder.join(name).with_extension("cpb"))?;
        let source = Source::open(&source, descriptor.clone())?;
        let written = SavedModelSplitter.write_with(source, folder.join(name), options)?;
        if written.merkle_root.is_some() == options.get_merkle_root() {
            Ok(())
        } else {
            Err("the file has a root that wasn't asked for, or lacks one".into())
        }
    };
    row(
        "W1 split to a file with a Merkle root",
        size,
        &mut || split("rooted", &rooted),
        "without one",
        &mut || split("unrooted", &plain),
    )?;
    remove(&source)?;
    let open = |name: &str| ChunkedFile::open(folder.join(name).with_extension("cpb"));
    let [with, without] = [open("rooted")?, open("unrooted")?];
    let verify = |file: &ChunkedFile| -> Outcome<()> {
        if file.verify(&ReadOptions::new()).problems().is_empty() {
            Ok(())
        } else {
            Err("the file is damaged".into())
        }
    };
    row(
        "W1 verify with a Merkle root",
        size,
        &mut || verify(&with),
        "without one",
        &mut || verify(&without),
    )?;
    ["rooted.cpb", "unrooted.cpb"]
        .iter()
        .try_for_each(|name| remove(&folder.join(name)))
}
