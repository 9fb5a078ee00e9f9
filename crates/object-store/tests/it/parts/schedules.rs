//! Tests of random schedules with a store: hosts die at any moment, are late, or run a part twice
//! or at the same time.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_parts::{
    Committed, ObjectUpload, Objects, OpenObject, PartOptions, PartReport, PartsPlan, UploadParts,
};
use record_file::ReadAt;

use super::support::{Bucket, Random, Small, objects, options};

const SCHEDULES: u64 = 200;

/// The request to the store at which a host dies. `is_done` is true if the store still executes it.
#[derive(Clone, Copy, Debug)]
struct Fate {
    step: usize,
    is_done: bool,
}

/// An accessor to objects on a host that dies after some requests.
#[derive(Debug)]
struct Mortal {
    stores: Small,
    left: Arc<AtomicUsize>,
    is_done: bool,
}

impl Mortal {
    /// Executes a request, and fails if the host is dead, or dies before or after the request.
    fn step<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.left.load(Ordering::Relaxed);
        self.left.store(before.saturating_sub(1), Ordering::Relaxed);
        match before {
            0 => Err(Error::new(ErrorKind::Io, "the host is dead")),
            1 if !self.is_done => Err(Error::new(ErrorKind::Io, "the host died")),
            1 => work().and_then(|_| Err(Error::new(ErrorKind::Io, "the host died after it"))),
            _ => work(),
        }
    }
}

impl Objects for Mortal {
    fn is_object(&self, name: &str) -> bool {
        self.stores.is_object(name)
    }
    fn open(&self, name: &str) -> Result<OpenObject> {
        self.step(|| self.stores.open(name))
    }
    fn open_beside(&self, main: &str, named: &str) -> Result<Arc<dyn ReadAt>> {
        self.step(|| self.stores.open_beside(main, named))
    }
    fn url_beside(&self, main: &str, named: &str) -> Result<String> {
        self.stores.url_beside(main, named)
    }
    fn full_name(&self, name: &str) -> Result<String> {
        self.stores.full_name(name)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.stores.exists(name)
    }
    fn put(&self, name: &str, content: &mut dyn Read, size: u64, force: bool) -> Result<()> {
        self.step(|| self.stores.put(name, content, size, force))
    }
    fn put_at_once(&self, name: &str, content: Vec<u8>, force: bool) -> Result<()> {
        self.step(|| self.stores.put_at_once(name, content, force))
    }
    fn begin_upload(&self, name: &str, size: u64) -> Result<ObjectUpload> {
        self.stores.begin_upload(name, size)
    }
    fn upload_from(
        &self,
        name: &str,
        upload: &ObjectUpload,
        first: u64,
    ) -> Result<Box<dyn UploadParts>> {
        let parts = self.step(|| self.stores.upload_from(name, upload, first))?;
        Ok(Box::new(MortalParts {
            parts,
            left: Arc::clone(&self.left),
        }))
    }
    fn finish_upload(
        &self,
        name: &str,
        upload: &ObjectUpload,
        parts: Vec<String>,
        force: bool,
    ) -> Result<()> {
        self.step(|| self.stores.finish_upload(name, upload, parts, force))
    }
}

/// An upload on a host that may die between two parts.
struct MortalParts {
    parts: Box<dyn UploadParts>,
    left: Arc<AtomicUsize>,
}

impl Write for MortalParts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.left.load(Ordering::Relaxed);
        self.left.store(before.saturating_sub(1), Ordering::Relaxed);
        if before <= 1 {
            return Err(io::Error::other("the host died while it uploaded"));
        }
        let most = bytes.len().min(900);
        self.parts.write(&bytes[..most])
    }
    fn flush(&mut self) -> io::Result<()> {
        self.parts.flush()
    }
}

impl UploadParts for MortalParts {
    fn finish(self: Box<Self>) -> Result<Vec<String>> {
        self.parts.finish()
    }
}

fn mortal(fate: Option<Fate>) -> PartOptions {
    let Some(Fate { step, is_done }) = fate else {
        return options();
    };
    let left = Arc::new(AtomicUsize::new(step));
    PartOptions::new().objects(objects(Mortal {
        stores: Small::default(),
        left,
        is_done,
    }))
}

/// Returns the request at which a host dies; `None` for half of the hosts, which don't die.
fn fate(random: &mut Random) -> Option<Fate> {
    (random.below(2) == 0).then(|| Fate {
        step: 1 + random.below(6),
        is_done: random.below(2) == 0,
    })
}

/// Runs random parts, some of them twice at once, until one part has been run `times` times.
/// Returns the reports.
fn run_some(plan: &PartsPlan, times: usize, random: &mut Random) -> Vec<PartReport> {
    let mut reports = Vec::new();
    for _ in 0..times {
        let part = random.below(plan.parts());
        let fates = [(); 2].map(|()| fate(random));
        let hosts = if random.below(3) == 0 { 2 } else { 1 };
        let found = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for &fate in &fates[..hosts] {
                let found = &found;
                scope.spawn(move || {
                    let report = plan.run(part, &mortal(fate));
                    assert!(report.is_ok() || fate.is_some(), "{report:?}");
                    found.lock().unwrap().extend(report.ok());
                });
            }
        });
        reports.extend(found.into_inner().unwrap());
    }
    reports
}

fn missing(plan: &PartsPlan, reports: &[PartReport]) -> Option<usize> {
    (0..plan.parts()).find(|&part| reports.iter().all(|report| report.part() != part))
}

/// Checks that committing an incomplete plan fails, and that the error names the first missing
/// part. Returns false if no part is missing.
fn refuse_incomplete(plan: &PartsPlan, reports: &[PartReport], seed: u64) -> bool {
    let Some(first) = missing(plan, reports) else {
        return false;
    };
    let error = plan.commit(reports, &options()).unwrap_err();
    let said = format!("no report of part {first}");
    assert!(
        error.to_string().starts_with(&said),
        "schedule {seed}: {error}"
    );
    true
}

/// Commits a plan on hosts that die, and then twice at once.
fn commit(plan: &PartsPlan, reports: &[PartReport], random: &mut Random, seed: u64) {
    for _ in 0..random.below(3) {
        drop(plan.commit(reports, &mortal(fate(random))));
    }
    std::thread::scope(|scope| {
        let commit = || plan.commit(reports, &options()).map(drop);
        for done in [scope.spawn(commit), scope.spawn(commit)] {
            let done = done.join().unwrap();
            done.unwrap_or_else(|error| panic!("schedule {seed}: {error}"));
        }
    });
}

#[test]
fn of_200_splits_in_a_store_each_has_the_right_bytes_or_says_what_is_missing() {
    let (mut refused, mut complete) = (0, 0);
    for seed in 0..SCHEDULES {
        let bucket = Bucket::new(&format!("splits-{seed}"));
        let mut random = Random::new(seed);
        let plan = bucket.split("m", 1 + random.below(6)).unwrap();
        bucket.put("m.00001-89abcdef.cpb", b"of somebody else");
        let times = random.below(12);
        let mut reports = run_some(&plan, times, &mut random);
        if refuse_incomplete(&plan, &reports, seed) {
            assert!(!bucket.has("m.cpb"), "schedule {seed}");
            refused += 1;
        } else {
            complete += 1
        }
        for part in 0..plan.parts() {
            reports.push(plan.run(part, &options()).unwrap());
        }
        commit(&plan, &reports, &mut random, seed);
        // Hosts that run parts after the commit change nothing.
        run_some(&plan, 2, &mut random);
        assert!(bucket.merged("m") == bucket.message, "schedule {seed}");
        assert_eq!(bucket.get("m.00001-89abcdef.cpb"), b"of somebody else");
        let names = bucket.names();
        assert_eq!(names.len(), 2 + plan.parts(), "schedule {seed}: {names:?}");
    }
    // If these checks fail, almost all or almost none of the schedules were complete.
    assert!(
        refused > 50 && complete > 20,
        "{refused} refused, {complete} complete"
    );
}

#[test]
fn of_200_merges_in_a_store_each_has_the_right_bytes_or_says_what_is_missing() {
    let bucket = Bucket::new("merges");
    let split = bucket.split("m", 3).unwrap();
    split.commit(&super::run_all(&split), &options()).unwrap();
    let before = bucket.names().len();
    let mut refused = 0;
    for seed in 0..SCHEDULES {
        let mut random = Random::new(seed);
        let plan = bucket.merge("m", "merged.pb", 1 + random.below(6)).unwrap();
        let mut reports = Vec::new();
        while missing(&plan, &reports).is_some() {
            reports.extend(run_some(&plan, 1, &mut random));
            refused += u32::from(refuse_incomplete(&plan, &reports, seed));
            assert!(!bucket.has("merged.pb"), "schedule {seed}");
        }
        commit(&plan, &reports, &mut random, seed);
        let late = plan.run(0, &options()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::AlreadyExists, "{late}");
        // This repeats the commit, as an engine does that didn't receive the result.
        let Committed::Merge(merged) = plan.commit(&reports, &options()).unwrap() else {
            panic!()
        };
        assert_eq!(merged.byte_exact, Some(true));
        assert!(bucket.get("merged.pb") == bucket.message, "schedule {seed}");
        bucket.remove("merged.pb");
    }
    assert_eq!(bucket.names().len(), before, "nothing is left");
    assert!(refused > 50, "{refused} refused");
}
