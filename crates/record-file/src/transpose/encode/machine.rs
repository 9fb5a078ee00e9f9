//! The state machine that gives back a chain of events.
//!
//! A transition names a state by its distance from where the state before says to begin, 0 to 63. So there are
//! lists of states, one for each event that some others follow often, its *private* list, and one *public* list
//! for all the rest. A list longer than 64 is cut into blocks, which are reached through states that emit nothing. What
//! follows rarely is at the end of a list, where more steps lead to it.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pairs::Pairs;

const NONE: u32 = u32::MAX;
/// States that a transition can name.
const BLOCK: usize = 64;
const MAX_OFFSET: u32 = 63;
/// Steps taken at least so often are worth a state of their own.
const WORTH_A_STATE: u64 = 10;
/// In a transition's byte: how many further ones, by 0 each, come with it.
const MAX_REPEATED: u8 = 3;

/// A step from one event to the one before it, and how often it is taken.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: u32,
    to: u32,
    count: u64,
}

/// The events of a chunk, as steps from one to another; kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// How many different events there are.
    events: u32,
    first: Option<u32>,
    last: Option<u32>,
    steps: Vec<Step>,
    numbers: Pairs,
    /// The steps, from the first event to the last; they are taken from its end.
    path: Vec<u32>,
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// What it emits, [`NONE`] for nothing.
    event: u32,
    /// Where transitions of a state that emits nothing begin.
    base: u32,
    /// The state that leads to the block this one is in.
    source: u32,
}

impl State {
    const EMPTY: State = State {
        event: NONE,
        base: NONE,
        source: NONE,
    };

    pub(crate) fn event(&self) -> Option<u32> {
        (self.event != NONE).then_some(self.event)
    }
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) states: Vec<State>,
    pub(crate) first: usize,
    events: Vec<Event>,
    /// What to write for each step, by its number in the chain.
    written: Vec<Written>,
    offsets: Vec<u8>,
}

/// The transitions that make a step: some of [`Machine::offsets`].
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    begin: u32,
    len: u16,
    /// The first of them.
    only: u8,
}

/// Adds a transition behind `byte` at `at`, if there is one: in a byte of its own, or as a repetition. No branch, since
/// which it is could hardly be foreseen.
#[inline]
fn join(byte: u8, at: usize, offset: u8, there: bool) -> (u8, usize) {
    let repeats = offset == 0 && byte & MAX_REPEATED < MAX_REPEATED;
    let joined = if repeats { byte + 1 } else { offset << 2 };
    (
        if there { joined } else { byte },
        at + usize::from(there && !repeats),
    )
}

/// An event, as the machine is concerned with it.
#[derive(Debug, Clone)]
struct Event {
    /// Where transitions from it begin.
    base: u32,
    /// Its place in the public list.
    public: u32,
    /// The state in its private list that leads to the public one.
    way_out: u32,
    /// How often it is come to by steps that no private list has.
    incoming: u64,
    /// The steps from it, as a range of the sorted ones.
    steps: (usize, usize),
    /// Whether nothing need be written of the only step from it.
    implicit: bool,
}

impl Machine {
    pub(crate) fn build(chain: &Chain) -> Self {
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
        let mut builder = Builder::new(chain, last);
        builder.private_lists();
        builder.public_list();
        builder.bases();
        // The chain ends at its first event, and it must be told that by a transition that is missing.
        builder.events[first as usize].implicit = false;
        let mut machine = Machine {
            first: builder
                .states
                .iter()
                .position(|state| state.event == last)
                .unwrap_or(0),
            states: builder.states,
            events: builder.events,
            written: vec![Written::default(); chain.steps.len()],
            offsets: Vec::new(),
        };
        for step in &builder.steps {
            let begin = machine.offsets.len();
            machine.write_step(step);
            let offsets = &machine.offsets[begin..];
            machine.written[step.number as usize] = Written {
                begin: index(begin),
                // As deep as the blocks of a list are nested, each 64 times the one before.
                len: u16::try_from(offsets.len()).unwrap_or(u16::MAX),
                only: offsets.first().copied().unwrap_or(0),
            };
        }
        machine
    }

    /// What a state says of the next one.
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

    /// The transitions that lead along a chain.
    pub(crate) fn transitions(&self, chain: &Chain) -> Vec<u8> {
        let lens = self.written.iter().map(|written| u64::from(written.len));
        let most: u64 = chain
            .steps
            .iter()
            .zip(lens)
            .map(|(step, len)| step.count * len)
            .sum();
        // The first byte takes no repetitions, and is left out in the end.
        let mut out = vec![
            0;
            usize::try_from(most)
                .unwrap_or(usize::MAX)
                .saturating_add(1)
        ];
        let mut byte = MAX_REPEATED;
        let mut at = 0;
        for &step in chain.path.iter().rev() {
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
        out.truncate(at + 1);
        out.remove(0);
        out
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

    /// The offsets that lead to a state from a base, through the states that lead to its block.
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

/// A step, and the place in the private list of where it comes from, if it is there.
#[derive(Debug, Clone, Copy)]
struct Placed {
    from: u32,
    to: u32,
    count: u64,
    /// Its number in the chain.
    number: u32,
    in_list: bool,
    place: u32,
}

struct Builder {
    states: Vec<State>,
    events: Vec<Event>,
    /// By the event they come from, then by the one they go to.
    steps: Vec<Placed>,
    public_begin: u32,
}

/// What waits for a place in a list: the least frequent comes first, of equally frequent ones the last.
type Waiting = BinaryHeap<(Reverse<u64>, u32)>;

impl Builder {
    fn new(chain: &Chain, last: u32) -> Self {
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
            chain.events as usize
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
        // Where decoding begins is a state even if nothing else leads there.
        let begin = &mut events[last as usize];
        begin.incoming = begin.incoming.max(1);
        for step in steps.iter().filter(|step| step.in_list) {
            events[step.to as usize].incoming -= step.count;
        }
        Builder {
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
                // Nobody else comes there.
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
            // It would take a state to lead to that one in the public list: it may as well be here.
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

    /// Where transitions to the public list begin: of events without a private list, and of the ways out of those.
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

    /// The first of the states that everything in the public list that follows `event` is reached from: the
    /// lowest one in a block that leads to all their blocks.
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

    /// Where the block in the public list begins that a state is in.
    fn block_of(&self, at: u32) -> u32 {
        match self.states[at as usize].source {
            NONE => self.public_begin,
            source => self.states[source as usize].base,
        }
    }
}

/// Gives each a state in a new list, filled from its end, and says which.
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
        // Each block but one is led to by a state in another.
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

fn offset(to: u32, base: u32) -> u8 {
    u8::try_from(to.wrapping_sub(base)).unwrap_or(0)
}

/// Events and states are fewer than fields, each of which takes more than a byte: memory ends before numbers do.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}
