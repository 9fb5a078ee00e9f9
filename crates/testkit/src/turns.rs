//! Timing of several functions that do the same work. They run alternately, since the speed of
//! memory and caches on a small machine varies from minute to minute.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::generate::Random;

/// A function to time, and the names of the parts of its work. Each call of the function does the
/// work once, and returns the duration of each part.
pub struct Contestant<'a> {
    parts: Vec<String>,
    turn: Box<Turn<'a>>,
}

type Turn<'a> = dyn FnMut() -> Result<Vec<Duration>, Box<dyn Error>> + 'a;

impl std::fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contestant")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl<'a> Contestant<'a> {
    /// Creates a contestant whose work is timed as a whole. Dropping the result isn't timed.
    pub fn new<T>(
        name: impl Into<String>,
        mut work: impl FnMut() -> Result<T, Box<dyn Error>> + 'a,
    ) -> Self {
        Contestant::timed([name.into()], move || {
            let start = Instant::now();
            let done = work()?;
            let took = start.elapsed();
            drop(done);
            Ok(vec![took])
        })
    }

    /// Creates a contestant that times the parts of its work itself. `turn` returns a duration for
    /// each of `parts`.
    pub fn timed(
        parts: impl IntoIterator<Item = impl Into<String>>,
        turn: impl FnMut() -> Result<Vec<Duration>, Box<dyn Error>> + 'a,
    ) -> Self {
        Contestant {
            parts: parts.into_iter().map(Into::into).collect(),
            turn: Box::new(turn),
        }
    }
}

/// The durations of one part of the work, in all turns except for the first, which isn't counted.
#[derive(Clone, Debug)]
pub struct Times {
    /// Name of the part or, if the work is timed as a whole, of the contestant.
    pub name: String,
    sorted: Vec<Duration>,
}

impl Times {
    /// Returns the shortest duration, in seconds.
    pub fn best(&self) -> f64 {
        self.sorted[0].as_secs_f64()
    }

    /// Returns the median duration, in seconds.
    pub fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2].as_secs_f64()
    }
}

/// Runs each contestant once without counting it, and then `rounds` more times. In every round, the
/// contestants have a different random order. Returns the times of all parts, in the order of the
/// contestants.
///
/// # Errors
///
/// The first error from any turn.
///
/// # Panics
///
/// If a turn doesn't return a duration for each of its parts.
pub fn in_turns(
    rounds: u64,
    contestants: &mut [Contestant<'_>],
) -> Result<Vec<Times>, Box<dyn Error>> {
    let mut taken: Vec<Vec<Vec<Duration>>> = vec![Vec::new(); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    let mut random = Random::new(rounds);
    for round in 0..=rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let took = (contestants[at].turn)()?;
            assert_eq!(took.len(), contestants[at].parts.len());
            if round > 0 {
                taken[at].push(took);
            }
        }
    }
    let mut all = Vec::new();
    for (contestant, taken) in contestants.iter().zip(taken) {
        for (part, name) in contestant.parts.iter().enumerate() {
            let mut sorted: Vec<Duration> = taken.iter().map(|turn| turn[part]).collect();
            sorted.sort();
            let name = name.clone();
            all.push(Times { name, sorted });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_takes_as_many_turns_and_one_that_is_not_counted() {
        let (mut first, mut second) = (0, 0);
        let millis = Duration::from_millis;
        let times = in_turns(
            4,
            &mut [
                Contestant::timed(["a", "b"], || {
                    first += 1;
                    Ok(vec![millis(10 - first), millis(first)])
                }),
                Contestant::new("c", || {
                    second += 1;
                    Ok(())
                }),
            ],
        )
        .unwrap();
        assert_eq!((first, second), (5, 5));
        let names: Vec<&str> = times.iter().map(|times| times.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((times[0].best(), times[0].median()), (0.005, 0.007));
        assert_eq!((times[1].best(), times[1].median()), (0.002, 0.004));
    }
}
