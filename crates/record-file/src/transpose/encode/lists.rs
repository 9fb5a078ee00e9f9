//! Arranging the states of the machine in lists.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chain::Chain;
use super::state::{MAX_OFFSET, NONE, State, index};

/// Number of states that one transition can select from.
const BLOCK: usize = MAX_OFFSET as usize + 1;
/// Minimum number of occurrences of a step for which the private list of the source event gets a
/// state for the target event.
const WORTH_A_STATE: u64 = 10;

/// An event, with its states, the steps that lead from it, and the base of its transitions.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// Base of the transitions from the event: the index of the state that offset 0 selects.
    pub(super) base: u32,
    /// The event's state in the public list.
    pub(super) public: u32,
    /// State in the event's private list through which the public list is reached.
    pub(super) way_out: u32,
    /// Number of occurrences of steps to the event, except steps whose target state is in a private
    /// list.
    incoming: u64,
    /// The steps from the event, as a range in the sorted steps.
    steps: (usize, usize),
    /// True if only one step leads from the event, so that the step needs no transition.
    pub(super) implicit: bool,
}

/// A step from one event to another. If the private list of the source event has a state for the
/// target event, `place` is this state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) from: u32,
    pub(super) to: u32,
    count: u64,
    /// Number of the step in the chain.
    pub(super) number: u32,
    in_list: bool,
    pub(super) place: u32,
}

/// The states of a machine, in the order of their lists, and the events and steps from which the
/// states are built.
pub(super) struct Lists {
    pub(super) states: Vec<State>,
    pub(super) events: Vec<Event>,
    /// Steps, ordered by their source event, then by their target.
    pub(super) steps: Vec<Placed>,
    public_begin: u32,
}

/// A queue of states that will be placed in a list. The least frequent state is first; among
/// equally frequent states, the state with the highest number is first.
type Waiting = BinaryHeap<(Reverse<u64>, u32)>;

impl Lists {
    pub(super) fn build(chain: &Chain, num_events: u32, last: u32) -> Self {
        let mut lists = Lists::new(chain, num_events, last);
        lists.private_lists();
        lists.public_list();
        lists.bases();
        lists
    }

    fn new(chain: &Chain, num_events: u32, last: u32) -> Self {
        let mut steps: Vec<_> = chain
            .steps
            .iter()
            .zip(0..)
            .map(|(step, number)| Placed {
                from: step.from,
                to: step.to,
                count: step.count,
                number,
                in_list: step.count >= WORTH_A_STATE,
                place: NONE,
            })
            .collect();
        steps.sort_unstable_by_key(|step| (step.from, step.to));
        let mut events = vec![
            Event {
                base: NONE,
                public: NONE,
                way_out: NONE,
                incoming: 0,
                steps: (0, 0),
                implicit: false,
            };
            num_events as usize
        ];
        let mut at = 0;
        for group in steps.chunk_by(|a, b| a.from == b.from) {
            let event = &mut events[group[0].from as usize];
            event.steps = (at, at + group.len());
            event.implicit = group.len() == 1;
            at += group.len();
        }
        for step in &steps {
            events[step.to as usize].incoming += step.count;
        }
        // The first decoded event needs a state even if no step leads to the event.
        let begin = &mut events[last as usize];
        begin.incoming = begin.incoming.max(1);
        for step in steps.iter().filter(|step| step.in_list) {
            events[step.to as usize].incoming -= step.count;
        }
        Lists {
            states: Vec::new(),
            events,
            steps,
            public_begin: 0,
        }
    }

    fn private_lists(&mut self) {
        for event in 0..index(self.events.len()) {
            self.private_list(event);
        }
    }

    fn private_list(&mut self, event: u32) {
        let (begin, end) = self.events[event as usize].steps;
        let mut waiting = Waiting::new();
        let mut elsewhere = 0;
        let mut left_out = None;
        for (at, step) in self.steps[begin..end].iter().enumerate() {
            let incoming = &mut self.events[step.to as usize].incoming;
            if step.in_list {
                waiting.push((Reverse(step.count), step.to));
            } else if step.count == *incoming {
                // No other event leads to this state.
                *incoming = 0;
                waiting.push((Reverse(step.count), step.to));
            } else {
                elsewhere += step.count;
                left_out = Some(begin + at);
            }
        }
        if waiting.is_empty() {
            return;
        }
        if let Some(at) = left_out.filter(|_| waiting.len() + 1 == end - begin) {
            // Reaching the target in the public list would require another state, so the target is
            // placed in the private list instead.
            let step = &self.steps[at];
            self.events[step.to as usize].incoming -= step.count;
            waiting.push((Reverse(step.count), step.to));
        }
        if waiting.len() < end - begin {
            waiting.push((Reverse(elsewhere), NONE));
        }
        self.events[event as usize].base = index(self.states.len());
        let events = index(self.events.len());
        let steps = &mut self.steps[begin..end];
        let way_out = &mut self.events[event as usize].way_out;
        place(&mut self.states, waiting, events, |to, at| {
            if to == NONE {
                *way_out = at;
            } else if let Ok(step) = steps.binary_search_by_key(&to, |step| step.to) {
                steps[step].place = at;
            }
        });
    }

    fn public_list(&mut self) {
        self.public_begin = index(self.states.len());
        let waiting: Waiting = self
            .events
            .iter()
            .zip(0..)
            .filter(|(event, _)| event.incoming > 0)
            .map(|(event, number)| (Reverse(event.incoming), number))
            .collect();
        let count = index(self.events.len());
        let events = &mut self.events;
        place(&mut self.states, waiting, count, |event, at| {
            events[event as usize].public = at;
        });
    }

    /// Computes the bases of the transitions into the public list: from events without a private
    /// list, and from the states through which private lists lead to the public list.
    fn bases(&mut self) {
        for event in 0..self.events.len() {
            let Event { base, way_out, .. } = self.events[event];
            if way_out != NONE {
                let base = self.base_in_public_list(event);
                self.states[way_out as usize].base = base;
            } else if base == NONE {
                self.events[event].base = self.base_in_public_list(event);
            }
        }
    }

    /// Returns the base of the transitions from `event` into the public list. All these transitions
    /// select states in one block, from which the blocks of all targets can be reached. The base is
    /// the lowest of the selected states.
    fn base_in_public_list(&self, event: usize) -> u32 {
        let (begin, end) = self.events[event].steps;
        let mut block = NONE;
        let mut lowest = NONE;
        for step in self.steps[begin..end]
            .iter()
            .filter(|step| step.place == NONE)
        {
            let mut at = self.events[step.to as usize].public;
            if at == NONE {
                continue;
            }
            if block == NONE {
                block = self.block_of(at);
            }
            while block > at || at - block > MAX_OFFSET {
                if block > at {
                    let source = self.states[block as usize].source;
                    if source == NONE {
                        break;
                    }
                    lowest = lowest.min(source);
                    block = self.block_of(source);
                } else {
                    let source = self.states[at as usize].source;
                    if source == NONE {
                        break;
                    }
                    at = source;
                }
            }
            lowest = lowest.min(at);
        }
        lowest
    }

    /// Returns the index of the first state in the block that contains the state `at` of the public
    /// list.
    fn block_of(&self, at: u32) -> u32 {
        match self.states[at as usize].source {
            NONE => self.public_begin,
            source => self.states[source as usize].base,
        }
    }
}

/// Places the waiting states in a new list at the end of `states`, and fills the list from its end.
/// Calls `placed` with the number of each waiting state and the state's index in `states`.
fn place(
    states: &mut Vec<State>,
    mut waiting: Waiting,
    events: u32,
    mut placed: impl FnMut(u32, u32),
) {
    let mut count = waiting.len();
    if count == 0 {
        return;
    }
    if count > BLOCK {
        // Every block except one is reached through a state in another block.
        count += (count - 2) / (BLOCK - 1);
    }
    let mut at = states.len() + count;
    states.resize(at, State::EMPTY);
    let mut size = (count - 1) % BLOCK + 1;
    let mut blocks: Vec<usize> = Vec::new();
    loop {
        let mut weight = 0;
        for _ in 0..size {
            let Some((Reverse(count), what)) = waiting.pop() else {
                return;
            };
            weight += count;
            at -= 1;
            if what == NONE {
                placed(what, index(at));
            } else if let Some(block) = what.checked_sub(events) {
                let base = blocks[block as usize];
                states[at].base = index(base);
                let end = states.len().min(base + BLOCK);
                for state in &mut states[base..end] {
                    state.source = index(at);
                }
            } else {
                states[at].event = what;
                placed(what, index(at));
            }
        }
        if waiting.is_empty() {
            return;
        }
        waiting.push((Reverse(weight), events + index(blocks.len())));
        blocks.push(at);
        size = BLOCK;
    }
}
