//! Contests: several implementations take turns at the same work, and a table shows their times.
use std::hint::black_box;
use std::time::{Duration, Instant};

use record_file_peers::Outcome;
use record_file_peers::records::Random;

/// The number of turns of each contender, and the random order of the contenders in each turn.
pub(crate) struct Turns {
    count: usize,
    random: Random,
}

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        println!("| work | by | median s | min s | GB/s | times the first |");
        println!("| --- | --- | --- | --- | --- | --- |");
        Turns {
            count,
            random: Random::new(7),
        }
    }

    fn shuffle(&mut self, order: &mut [usize]) {
        for index in (1..order.len()).rev() {
            let other = self.random.below(index as u64 + 1) as usize;
            order.swap(index, other);
        }
    }
}

type Work<'a> = Box<dyn FnMut() -> Outcome<Duration> + 'a>;

/// The same work done by several contenders. The first contender is the baseline for all others.
pub(crate) struct Contest<'a> {
    work: String,
    bytes: u64,
    contenders: Vec<(String, Work<'a>)>,
}

impl<'a> Contest<'a> {
    /// Creates a contest in which each contender processes `bytes` bytes of records.
    pub(crate) fn new(work: impl Into<String>, bytes: u64) -> Self {
        Contest {
            work: work.into(),
            bytes,
            contenders: Vec::new(),
        }
    }

    /// Adds a contender whose work is timed by the contest. The work must return a value that can't
    /// be computed without doing the work.
    pub(crate) fn by(
        mut self,
        name: impl Into<String>,
        mut work: impl FnMut() -> Outcome<u64> + 'a,
    ) -> Self {
        let timed = move || {
            let start = Instant::now();
            black_box(work()?);
            Ok(start.elapsed())
        };
        self.contenders.push((name.into(), Box::new(timed)));
        self
    }

    /// Adds a contender like [`by`](Self::by), and checks that its work returns the total size of
    /// all records in bytes.
    pub(crate) fn by_reading(
        self,
        name: impl Into<String>,
        mut work: impl FnMut() -> Outcome<u64> + 'a,
    ) -> Self {
        let bytes = self.bytes;
        self.by(name, move || match work()? {
            read if read == bytes => Ok(read),
            read => Err(format!("{read} bytes, not {bytes}").into()),
        })
    }

    /// Adds a contender that measures its own time.
    pub(crate) fn by_other(
        mut self,
        name: impl Into<String>,
        work: impl FnMut() -> Outcome<Duration> + 'a,
    ) -> Self {
        self.contenders.push((name.into(), Box::new(work)));
        self
    }

    /// Runs one turn that isn't counted, then the counted turns, each in a different order.
    pub(crate) fn run(mut self, turns: &mut Turns) -> Outcome<()> {
        let mut times = vec![Vec::new(); self.contenders.len()];
        let mut order: Vec<_> = (0..self.contenders.len()).collect();
        for turn in 0..=turns.count {
            turns.shuffle(&mut order);
            for &index in &order {
                let (name, work) = &mut self.contenders[index];
                let took = work().map_err(|error| format!("{}, {name}: {error}", self.work))?;
                if turn > 0 {
                    times[index].push(took.as_secs_f64());
                }
            }
        }
        let mut first = None;
        for ((name, _), mut times) in self.contenders.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let (median, min) = (times[times.len() / 2], times[0]);
            // Other processes can only slow the work down, so the minimum time is its cost.
            let first = *first.get_or_insert(min);
            println!(
                "| {} | {name} | {median:.4} | {min:.4} | {:.2} | {:.2} |",
                self.work,
                self.bytes as f64 / min / 1e9,
                min / first
            );
        }
        Ok(())
    }
}
