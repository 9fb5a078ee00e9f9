//! What a type says of its parts.

use prost::Message;

use super::scan::{Part, Repeated, Singular};

/// A message type that says where its many elements are, so that several threads can decode them.
///
/// A type that has none, but is an element of another, has no parts:
///
/// ```
/// use prost::Message;
/// use proto_splitter_core::decode::{InParts, Parts};
///
/// #[derive(Clone, PartialEq, Message)]
/// struct Table {
///     #[prost(string, tag = "1")]
///     name: String,
///     #[prost(message, repeated, tag = "2")]
///     rows: Vec<Row>,
/// }
///
/// #[derive(Clone, PartialEq, Message)]
/// struct Row {
///     #[prost(int64, repeated, tag = "1")]
///     cells: Vec<i64>,
/// }
///
/// impl InParts for Table {
///     fn parts(parts: &mut Parts<Self>) {
///         parts.repeated(2, |table| &mut table.rows);
///     }
/// }
///
/// impl InParts for Row {
///     fn parts(_: &mut Parts<Self>) {}
/// }
///
/// let table = Table { name: "squares".into(), rows: (0..10_000).map(|n| Row { cells: vec![n, n * n] }).collect() };
/// assert_eq!(proto_splitter_core::decode::decode::<Table>(table.encode_to_vec())?, table);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub trait InParts: Message + Default + 'static {
    /// Names the fields that hold many elements, and those that lead to them.
    fn parts(parts: &mut Parts<Self>);
}

/// The fields of a message that [`InParts::parts`] names.
pub struct Parts<M> {
    pub(super) parts: Vec<Box<dyn Part<M>>>,
}

impl<M: InParts> Parts<M> {
    /// A repeated field of messages: its elements are decoded in blocks, and the large ones among
    /// them in parts of their own.
    pub fn repeated<E: InParts>(&mut self, number: u32, field: fn(&mut M) -> &mut Vec<E>) {
        self.parts.push(Box::new(Repeated::new(number, field)));
    }

    /// A singular message that has parts itself. `field` gives the message, an empty one if none
    /// was there before. It must not be a member of a oneof, which another member may have
    /// replaced.
    pub fn singular<S: InParts>(&mut self, number: u32, field: fn(&mut M) -> &mut S) {
        self.parts.push(Box::new(Singular::new(number, field)));
    }

    pub(super) fn of_type() -> Self {
        let mut parts = Parts { parts: Vec::new() };
        M::parts(&mut parts);
        parts
    }
}

impl<M> std::fmt::Debug for Parts<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = self.parts.iter().map(|part| part.number());
        f.debug_list().entries(numbers).finish()
    }
}
