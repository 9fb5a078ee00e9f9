//! The states of the machine and their numbers.

pub(super) const NONE: u32 = u32::MAX;
pub(super) const MAX_OFFSET: u32 = 63;

#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// Event that the state emits, or [`NONE`].
    pub(super) event: u32,
    /// Base of the transitions from this state: the index of the state that offset 0 selects. Only
    /// used if this state emits nothing.
    pub(super) base: u32,
    /// State through which the block that contains this state is reached.
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

/// Converts an index to a number of an event or state. There are fewer events and states than
/// fields, and a field takes up more than a byte, so memory is exhausted before a number exceeds 32
/// bits.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}
