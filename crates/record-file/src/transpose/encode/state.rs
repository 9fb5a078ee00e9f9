//! The states of the machine, and the numbers that name them.

pub(super) const NONE: u32 = u32::MAX;
pub(super) const MAX_OFFSET: u32 = 63;

#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// What it emits, [`NONE`] for nothing.
    pub(super) event: u32,
    /// The start of transitions of a state that emits nothing.
    pub(super) base: u32,
    /// The state that leads to the block this one is in.
    pub(super) source: u32,
}

impl State {
    pub(super) const EMPTY: State = State {
        event: NONE,
        base: NONE,
        source: NONE,
    };

    pub(crate) fn event(&self) -> Option<u32> {
        (self.event != NONE).then_some(self.event)
    }
}

/// Events and states are fewer than fields, and a field takes more than a byte: memory ends
/// before numbers do.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}
