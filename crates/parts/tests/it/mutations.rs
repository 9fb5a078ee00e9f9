//! Tests with random damage to everything that a commit reads: the plan, the reports, and the files
//! that the parts wrote.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use proto_splitter_core::merge::{MergeCheck, Merger, ReadOptions, SourceCheck};
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_core::{ErrorKind, Result};
use proto_splitter_parts::{Committed, PartOptions, PartReport, PartsPlan};

use super::support::{Folder, Random, options, run_all};

/// Number of mutations for each operation.
const ROUNDS: usize = 320;

/// Content of the files to damage, by path. The commit reads all of them.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A folder in which all parts were run, but the plan was not committed yet.
struct Done {
    folder: Folder,
    files: Files,
    reports: usize,
}

impl Done {
    fn new(plan: impl Fn(&Folder) -> PartsPlan) -> Done {
        let folder = Folder::new();
        SizeSplitter
            .write_with(folder.source(), folder.path("in"), &options())
            .unwrap();
        let kept = ["source.pb", "in.cpb"].map(|name| folder.path(name));
        let plan = plan(&folder);
        plan.write(folder.path("plan"), false).unwrap();
        let reports = run_all(&plan);
        for report in &reports {
            let name = format!("report {}", report.part());
            report.write(folder.path(&name)).unwrap();
        }
        let there = fs::read_dir(folder.path("")).unwrap();
        let paths = there.map(|entry| entry.unwrap().path());
        let written = paths.filter(|path| !kept.contains(path));
        Done {
            files: written
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .collect(),
            reports: reports.len(),
            folder,
        }
    }

    /// Restores the state before the commit, except for one changed file.
    fn restore(&self, changed: Option<(&Path, &[u8])>) {
        for name in ["m.cpb", "merged.pb"] {
            let _ = fs::remove_file(self.folder.path(name));
        }
        for (path, bytes) in &self.files {
            let bytes = match changed {
                Some((changed, bytes)) if changed == path => bytes,
                _ => bytes,
            };
            fs::write(path, bytes).unwrap();
        }
    }

    fn commit(&self, options: &PartOptions) -> Result<Committed> {
        let plan = PartsPlan::read(self.folder.path("plan"))?;
        let read = |part| PartReport::read(self.folder.path(&format!("report {part}")));
        let reports = (0..self.reports).map(read).collect::<Result<Vec<_>>>()?;
        plan.commit(&reports, options)
    }

    /// Fails unless the result of a commit, and the files that it wrote, are correct.
    fn check(&self, committed: &Committed) {
        match committed {
            Committed::Split(done) => {
                let merged = Merger::new().merge_to_bytes(&done.path).unwrap();
                assert!(merged[..] == self.folder.message);
            }
            Committed::Merge(merged) => {
                assert_eq!(merged.byte_exact, Some(true));
                let there = fs::read(self.folder.path("merged.pb")).unwrap();
                assert!(there == self.folder.message);
            }
            Committed::Verify(all) => {
                assert_eq!(all.problems, Vec::<String>::new());
                let MergeCheck::Merged { size, source, .. } = all.merge else {
                    panic!("{:?}", all.merge)
                };
                assert_eq!(size, self.folder.message.len() as u64);
                assert_eq!(source, Some(SourceCheck::Same));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let len = bytes.len();
    let at = random.below(len);
    let end = at + 1 + random.below((len - at).min(40));
    match random.below(9) {
        0..3 => bytes[at] ^= 1 << random.below(8),
        3 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
        4 => bytes[at..end].fill(0),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(at..end)),
        7 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        _ => {
            let other = random.below(len);
            bytes.swap(at, other);
        }
    }
    bytes
}

fn parts(parts: usize) -> NonZeroUsize {
    NonZeroUsize::new(parts).unwrap()
}

fn split() -> Done {
    Done::new(|folder| folder.split(3, &options()).unwrap())
}

fn merge() -> Done {
    Done::new(|folder| {
        let target = folder.path("merged.pb");
        PartsPlan::merge(folder.path("in.cpb"), target, ReadOptions::new(), parts(3)).unwrap()
    })
}

fn verify() -> Done {
    Done::new(|folder| {
        PartsPlan::verify(folder.path("in.cpb"), &ReadOptions::new(), parts(3)).unwrap()
    })
}

#[test]
fn a_commit_after_random_damage_fails_or_its_result_is_right() {
    let (mut refused, mut done) = (0, 0);
    for (seed, prepare) in [(1, split as fn() -> Done), (2, merge), (3, verify)] {
        let prepared = prepare();
        let paths: Vec<&PathBuf> = prepared.files.keys().collect();
        let mut random = Random::new(seed);
        for round in 0..ROUNDS {
            let path = paths[round % paths.len()];
            let bytes = mutated(&prepared.files[path], &mut random);
            let is_same = bytes == prepared.files[path];
            prepared.restore(Some((path, &bytes)));
            match prepared.commit(&PartOptions::new()) {
                Ok(committed) => {
                    prepared.check(&committed);
                    done += usize::from(!is_same);
                }
                Err(error) => {
                    assert!(!is_same, "{error}");
                    let made = ["m.cpb", "merged.pb"].map(|name| prepared.folder.path(name));
                    let what = format!("{}, round {round}: {error}", path.display());
                    assert!(made.iter().all(|made| !made.exists()), "{what}");
                    refused += 1;
                }
            }
        }
        prepared.restore(None);
        prepared.check(&prepared.commit(&PartOptions::new()).unwrap());
    }
    assert!(refused > 800 && done < 20, "{refused} refused, {done} done");
}

/// Returns the hidden file for the merge, or the file that a part of the split wrote.
fn written(done: &Done) -> &PathBuf {
    let is_written = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(".protosplit-") || name.starts_with("m.00002-")
    };
    done.files.keys().find(is_written).unwrap()
}

#[test]
fn a_bit_that_was_flipped_in_what_parts_wrote_is_found_unless_nothing_is_read_again() {
    for (prepare, part) in [(split as fn() -> Done, "part 1: "), (merge, "part 1 wrote")] {
        let done = prepare();
        let path = written(&done);
        let mut bytes = done.files[path].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        done.restore(Some((path, &bytes)));
        let error = done.commit(&PartOptions::new()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("run again"), "{error}");
        // Running the part again repairs the file.
        let plan = PartsPlan::read(done.folder.path("plan")).unwrap();
        plan.run(1, &PartOptions::new()).unwrap();
        done.check(&done.commit(&PartOptions::new()).unwrap());
        // Without rereading, the damage is undetected.
        done.restore(Some((path, &bytes)));
        done.commit(&PartOptions::new().reread(false)).unwrap();
    }
}

#[test]
fn a_damaged_plan_or_report_is_named_as_damaged() {
    let done = merge();
    for name in ["plan", "report 1"] {
        let path = done.folder.path(name);
        let mut bytes = done.files[&path].clone();
        bytes[1] ^= 1;
        done.restore(Some((&path, &bytes)));
        let error = done.commit(&PartOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
        let said = format!("{}: ", path.display());
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}

#[test]
fn a_commit_of_a_merge_that_was_killed_between_its_two_names_is_done_by_the_next() {
    let done = merge();
    done.restore(None);
    let (hidden, target) = (written(&done), done.folder.path("merged.pb"));
    fs::hard_link(hidden, &target).unwrap();
    done.check(&done.commit(&PartOptions::new()).unwrap());
    assert!(!hidden.exists());
    // The commit also succeeds if the hidden file is replaced with a copy of the merged message, or
    // is missing.
    fs::write(hidden, &done.folder.message).unwrap();
    done.check(&done.commit(&PartOptions::new()).unwrap());
    assert!(!hidden.exists());
    done.check(&done.commit(&PartOptions::new()).unwrap());
    // The commit fails if the target has other content.
    done.restore(None);
    let mut other = done.folder.message.clone();
    other[5] ^= 1;
    fs::write(&target, &other).unwrap();
    let error = done.commit(&PartOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(fs::read(&target).unwrap() == other && hidden.exists());
}
