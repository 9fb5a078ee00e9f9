//! The state machine that reproduces a chain of events.
//!
//! A transition selects a state by its offset, 0 to 63, from a base that the previous state
//! determines. Therefore, there are lists of states: a *private* list for each event that is often
//! followed by certain other events, and one *public* list for all other states. A list of more
//! than 64 states is divided into blocks, which are reached through states that emit nothing.
//! Infrequent states are at the end of a list, and take more transitions to reach.
use super::chain::{AT_ONCE, Chain};
use super::lists::{Event, Lists, Placed};
use super::state::{MAX_OFFSET, NONE, State, index};
use crate::block_pool::{BlockPool, PieceQueue};

/// Maximum number of additional transitions with offset 0 that a transition's byte can hold.
const MAX_REPEATED: u8 = 3;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) states: Vec<State>,
    pub(crate) first: usize,
    events: Vec<Event>,
    /// The transitions to write for each step, indexed by the step's number in the chain.
    written: Vec<Written>,
    offsets: Vec<u8>,
}

/// The transitions that make up a step: a range of [`Machine::offsets`].
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    begin: u32,
    len: u16,
    /// The first offset of the step; 0 if the step has no offsets.
    only: u8,
}

/// If `there` is set, adds a transition after `byte`, which is at index `at`. The transition
/// becomes a new byte or, if possible, a repetition in `byte`. Returns the last byte and its index.
/// The code has no branches, since the choice is hard to predict.
#[inline]
fn join(byte: u8, at: usize, offset: u8, there: bool) -> (u8, usize) {
    let repeats = offset == 0 && byte & MAX_REPEATED < MAX_REPEATED;
    let joined = if repeats { byte + 1 } else { offset << 2 };
    (
        if there { joined } else { byte },
        at + usize::from(there && !repeats),
    )
}

impl Machine {
    pub(crate) fn build(chain: &Chain, num_events: u32) -> Self {
        let (Some(first), Some(last)) = (chain.first, chain.last) else {
            return Machine {
                states: vec![State {
                    base: 0,
                    ..State::EMPTY
                }],
                first: 0,
                events: Vec::new(),
                written: Vec::new(),
                offsets: Vec::new(),
            };
        };
        let Lists {
            states,
            mut events,
            steps,
            ..
        } = Lists::build(chain, num_events, last);
        // Decoding ends at the chain's first event, because no transition is left to read. An
        // implicit transition wouldn't be read, so decoding would continue.
        events[first as usize].implicit = false;
        let mut machine = Machine {
            first: states
                .iter()
                .position(|state| state.event == last)
                .unwrap_or(0),
            states,
            events,
            written: vec![Written::default(); chain.steps.len()],
            offsets: Vec::new(),
        };
        for step in &steps {
            let begin = machine.offsets.len();
            machine.write_step(step);
            let offsets = &machine.offsets[begin..];
            machine.written[step.number as usize] = Written {
                begin: index(begin),
                // The number of transitions is limited by the nesting depth of a list's blocks, and
                // each level has 64 times the number of blocks of the previous level.
                len: u16::try_from(offsets.len()).unwrap_or(u16::MAX),
                only: offsets.first().copied().unwrap_or(0),
            };
        }
        machine
    }

    /// Returns a state's `next` value: the base of the next transition, plus the number of states
    /// if that transition is implicit.
    pub(crate) fn next_of(&self, state: &State) -> u64 {
        let Some(event) = state.event() else {
            return u64::from(state.base);
        };
        let event = &self.events[event as usize];
        match event.base {
            NONE => 0,
            base if event.implicit => u64::from(base) + self.states.len() as u64,
            base => u64::from(base),
        }
    }

    /// Returns the transitions along a chain, freeing the chain's path.
    pub(crate) fn transitions(&self, chain: &mut Chain, blocks: &mut BlockPool) -> PieceQueue {
        let longest = self.written.iter().map(|way| way.len).max().unwrap_or(0);
        // Each batch begins with the last byte of the previous batch, to which repetitions may be
        // added.
        let at_once = AT_ONCE.min(chain.path.len());
        let mut some = vec![0; at_once * usize::from(longest) + 1];
        let mut out = PieceQueue::default();
        // No repetitions can be added to this first byte, which is dropped at the end.
        let mut byte = MAX_REPEATED;
        let mut begin = 1;
        chain.path.take_back(blocks, |steps, blocks| {
            let at = self.follow(steps, byte, &mut some);
            byte = some[at];
            // The last byte may still get repetitions.
            if at > 0 {
                out.append(&some[begin..at], blocks);
                begin = 0;
            }
        });
        if begin == 0 {
            out.append(&[byte], blocks);
        }
        out
    }

    /// Writes `byte`, the last transition of earlier steps, to `out`, and then the transitions of
    /// `steps`. Returns the index of the last transition in `out`.
    #[inline(never)]
    fn follow(&self, steps: &[u32], mut byte: u8, out: &mut [u8]) -> usize {
        let mut at = 0;
        out[0] = byte;
        for &step in steps {
            let Written { begin, len, only } = self.written[step as usize];
            if len > 1 {
                for &offset in &self.offsets[begin as usize..begin as usize + usize::from(len)] {
                    (byte, at) = join(byte, at, offset, true);
                    out[at] = byte;
                }
                continue;
            }
            (byte, at) = join(byte, at, only, len == 1);
            out[at] = byte;
        }
        at
    }

    fn write_step(&mut self, step: &Placed) {
        let from = &self.events[step.from as usize];
        if from.implicit {
            return;
        }
        let mut base = from.base;
        let mut to = step.place;
        if to == NONE {
            let way_out = from.way_out;
            if way_out != NONE {
                self.write_way(base, way_out);
                base = self.states[way_out as usize].base;
            }
            to = self.events[step.to as usize].public;
        }
        self.write_way(base, to);
    }

    /// Appends the offsets of the transitions from `base` to the state `to`. All transitions but
    /// the last select states that lead to the block of `to`.
    fn write_way(&mut self, base: u32, mut to: u32) {
        let begin = self.offsets.len();
        while base > to || to - base > MAX_OFFSET {
            let source = self.states[to as usize].source;
            if source == NONE {
                break;
            }
            self.offsets
                .push(offset(to, self.states[source as usize].base));
            to = source;
        }
        self.offsets.push(offset(to, base));
        self.offsets[begin..].reverse();
    }
}

fn offset(to: u32, base: u32) -> u8 {
    debug_assert!(to.wrapping_sub(base) <= MAX_OFFSET, "{base} to {to}");
    u8::try_from(to.wrapping_sub(base)).unwrap_or(0)
}
