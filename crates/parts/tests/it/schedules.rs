//! Tests of random schedules: hosts die at any moment, or run a part twice, concurrently, or late.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_parts::{Committed, FolderStore, PartOptions, PartReport, PartStore, PartsPlan};
use record_file::ReadAt;

use super::support::{Folder, Random, options};

const SCHEDULES: u64 = 200;

/// The moment at which a host dies, if it does.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Lives,
    /// The host dies while it writes its file, and leaves an incomplete file with a temporary name.
    DiesWriting,
    /// The host dies before its file gets its final name.
    DiesBefore,
    /// The host dies after its file got its final name, but before its report is delivered.
    DiesAfter,
}

const FATES: [Fate; 6] = [
    Fate::Lives,
    Fate::Lives,
    Fate::Lives,
    Fate::DiesWriting,
    Fate::DiesBefore,
    Fate::DiesAfter,
];

/// A store in a folder, on a host that may die.
struct Mortal {
    folder: FolderStore,
    fate: Fate,
}

fn died<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Io, "the host died"))
}

impl PartStore for Mortal {
    fn begin(&self, made_from: &MadeFrom) -> Result<AtomicFile> {
        let file = self.folder.begin(made_from)?;
        match self.fate {
            Fate::DiesWriting => {
                fs::write(file.folder().join(".protosplit-left.tmp"), "a half").unwrap();
                died()
            }
            _ => Ok(file),
        }
    }

    fn keep(&self, file: AtomicFile, name: &str) -> Result<()> {
        if let Fate::DiesBefore = self.fate {
            return died();
        }
        self.folder.keep(file, name)?;
        match self.fate {
            Fate::DiesAfter => died(),
            _ => Ok(()),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        self.folder.open(name)
    }
}

fn run(plan: &PartsPlan, main: &Path, part: usize, fate: Fate) -> Option<PartReport> {
    let folder = FolderStore::beside(main);
    let report = plan.run_to(part, &Mortal { folder, fate }, &PartOptions::new());
    assert_eq!(report.is_ok(), matches!(fate, Fate::Lives), "{report:?}");
    report.ok()
}

#[test]
fn of_200_schedules_each_ends_with_the_right_bytes_or_says_what_is_missing() {
    let (mut refused, mut committed) = (0, 0);
    for seed in 0..SCHEDULES {
        let folder = Folder::new();
        let main = folder.path("m.cpb");
        let mut random = Random::new(seed);
        let plan = folder.split(1 + random.below(6), &options()).unwrap();
        fs::write(folder.path("m.00001-89abcdef.cpb"), "of somebody else").unwrap();
        let mut reports: Vec<PartReport> = Vec::new();
        for _ in 0..random.below(12) {
            let part = random.below(plan.parts());
            let fates = [(); 2].map(|()| FATES[random.below(FATES.len())]);
            // In a third of the cases, two hosts run the part at the same time.
            let hosts = if random.below(3) == 0 { 2 } else { 1 };
            let found = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for &fate in &fates[..hosts] {
                    let (plan, main, found) = (&plan, &main, &found);
                    scope.spawn(move || {
                        let report = run(plan, main, part, fate);
                        found.lock().unwrap().extend(report);
                    });
                }
            });
            reports.extend(found.into_inner().unwrap());
            if random.below(4) == 0 {
                check(
                    &plan,
                    &folder,
                    &reports,
                    (&mut refused, &mut committed),
                    seed,
                );
            }
        }
        check(
            &plan,
            &folder,
            &reports,
            (&mut refused, &mut committed),
            seed,
        );
        // A host that runs a part late either finishes missing work, or changes nothing.
        for part in 0..plan.parts() {
            let fate = FATES[random.below(FATES.len())];
            reports.extend(run(&plan, &main, part, fate));
            reports.extend(run(&plan, &main, part, Fate::Lives));
        }
        let commits = || {
            std::thread::scope(|scope| {
                let commit = || plan.commit(&reports, &PartOptions::new()).map(drop);
                [scope.spawn(commit), scope.spawn(commit)].map(|thread| thread.join().unwrap())
            })
        };
        for done in commits() {
            done.unwrap_or_else(|error| panic!("schedule {seed}: {error}"));
        }
        run(&plan, &main, 0, Fate::Lives);
        assert!(folder.merged("m") == folder.message, "schedule {seed}");
        let bystander = fs::read(folder.path("m.00001-89abcdef.cpb")).unwrap();
        assert_eq!(bystander, b"of somebody else", "schedule {seed}");
        let names = folder.names().into_iter();
        let names: Vec<_> = names
            .filter(|name| !name.starts_with(".protosplit-left"))
            .collect();
        assert_eq!(
            names.len(),
            1 + 1 + plan.parts(),
            "schedule {seed}: {names:?}"
        );
    }
    // If these checks fail, almost all or almost none of the schedules were complete.
    assert!(
        refused > 50 && committed > 20,
        "{refused} refused, {committed} committed early"
    );
}

/// Tries to commit with the reports so far.
fn check(
    plan: &PartsPlan,
    folder: &Folder,
    reports: &[PartReport],
    (refused, committed): (&mut u32, &mut u32),
    seed: u64,
) {
    let has = |part| reports.iter().any(|report| report.part() == part);
    let missing: Vec<usize> = (0..plan.parts()).filter(|&part| !has(part)).collect();
    match plan.commit(reports, &PartOptions::new()) {
        Ok(_) => {
            assert_eq!(missing, [0; 0], "schedule {seed}");
            assert!(folder.merged("m") == folder.message, "schedule {seed}");
            *committed += 1;
        }
        Err(error) => {
            let first = missing
                .first()
                .unwrap_or_else(|| panic!("schedule {seed}: {error}"));
            let said = format!("no report of part {first}");
            assert!(
                error.to_string().starts_with(&said),
                "schedule {seed}: {error}"
            );
            assert!(!folder.path("m.cpb").exists(), "schedule {seed}");
            *refused += 1;
        }
    }
}

#[test]
fn a_merge_has_the_right_bytes_whichever_hosts_die_come_twice_or_late() {
    let folder = Folder::new();
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &options())
        .unwrap();
    for seed in 0..SCHEDULES {
        let mut random = Random::new(seed);
        let target = folder.path("merged.pb");
        let parts = (1 + random.below(6)).try_into().unwrap();
        let plan = PartsPlan::merge(folder.path("m.cpb"), &target, ReadOptions::new(), parts);
        let plan = plan.unwrap();
        let mut reports: Vec<PartReport> = Vec::new();
        while (0..plan.parts()).any(|part| reports.iter().all(|report| report.part() != part)) {
            let error = plan.commit(&reports, &PartOptions::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "schedule {seed}");
            assert!(!target.exists(), "schedule {seed}");
            let (part, hosts) = (random.below(plan.parts()), 1 + random.below(2));
            let killed = [(); 2].map(|()| random.below(2) == 0);
            let delay = Duration::from_micros(random.below(300) as u64);
            std::thread::scope(|scope| {
                let hosts = killed.into_iter().take(hosts).map(|is_killed| {
                    let token = CancelToken::new();
                    let progress = Progress::default().cancelled_by(&token);
                    let plan = &plan;
                    let host =
                        scope.spawn(move || plan.run(part, &PartOptions::new().progress(progress)));
                    if is_killed {
                        std::thread::sleep(delay);
                        token.cancel();
                    }
                    host
                });
                for host in hosts.collect::<Vec<_>>() {
                    reports.extend(host.join().unwrap().ok());
                }
            });
        }
        let committed = plan.commit(&reports, &PartOptions::new()).unwrap();
        let Committed::Merge(merged) = committed else {
            panic!()
        };
        assert_eq!(merged.byte_exact, Some(true));
        let late = plan.run(0, &PartOptions::new()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::AlreadyExists, "{late}");
        // This repeats the commit, as a scheduler does that didn't receive the first result.
        plan.commit(&reports, &PartOptions::new()).unwrap();
        assert!(
            fs::read(&target).unwrap() == folder.message,
            "schedule {seed}"
        );
        fs::remove_file(target).unwrap();
    }
    assert_eq!(folder.names(), ["m.cpb"], "nothing is left");
}
