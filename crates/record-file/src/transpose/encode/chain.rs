//! What happens in the records of a chunk, one event after the other.
use super::machine::index;
use super::pairs::Pairs;

/// A step from one event to the one before it, and how often it is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u64,
}

/// The events of a chunk, as steps from one to another; kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// How many different events there are.
    pub(super) events: u32,
    pub(super) first: Option<u32>,
    pub(super) last: Option<u32>,
    pub(super) steps: Vec<Step>,
    numbers: Pairs,
    /// The steps, from the first event to the last; they are taken from its end.
    pub(super) path: Vec<u32>,
}

impl Chain {
    pub(crate) fn find_steps(&mut self, events: u32, chain: &[u32]) {
        let Chain {
            steps,
            numbers,
            path,
            ..
        } = self;
        self.events = events;
        self.first = chain.first().copied();
        self.last = chain.last().copied();
        steps.clear();
        numbers.clear(chain.len());
        path.clear();
        path.extend(chain.windows(2).map(|pair| {
            // Decoding goes backwards.
            let &[to, from] = pair else {
                return 0;
            };
            let fresh = index(steps.len());
            let number = numbers.number(from, to, fresh);
            if number == fresh {
                steps.push(Step { from, to, count: 0 });
            }
            steps[number as usize].count += 1;
            number
        }));
    }
}
