//! Sizes by field path, to find what takes up space in a message without loading it.
//!
//! [`measure`] traverses a message, skipping every value that is not a message, and adds up sizes
//! by field path: all elements of `graph_def.node` together are one [`TreeNode`], and the `name`s
//! of all these elements are another. For repeated fields and maps, the largest members are also
//! listed, with descriptive names.
//!
//! Sizes are in bytes on the wire, and include tags and lengths. So a message's size is the sum of
//! the sizes of its fields and of its [`own`](TreeNode::own) bytes, which are its tag and length.
//! Memory doesn't grow with the number of elements.
//!
//! ```
//! use proto_splitter_core::view::MessageView;
//! use proto_splitter_core::merge::ReadOptions;
//! use proto_splitter_core::path::FieldPath;
//! use proto_splitter_core::view::size_tree::{Guessed, TreeOptions, measure};
//!
//! // Field 3 is a message twice, with the strings "testing" and "it" in field 1.
//! let message = b"\x1a\x09\x0a\x07testing\x1a\x04\x0a\x02it".to_vec();
//! let view = MessageView::of_plain(&message, ReadOptions::new())?;
//! let tree = measure(&view, &FieldPath::root(), &TreeOptions::new())?;
//!
//! let field = &tree.root.children[0];
//! assert_eq!((field.label().as_str(), field.count, field.size), ("3[*]", 2, 17));
//! assert_eq!(field.guessed, Some(Guessed::Message));
//! assert_eq!(field.members[0].text, "3[0]");
//! assert_eq!(field.members[0].name.name.as_deref(), Some("testing"));
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod arena;
mod build;
mod chunks;
mod diff;
mod largest;
mod measure;
mod node;
mod options;
mod place;
mod schemaless;
mod walk;

pub use chunks::ChunkSet;
pub use diff::{MemberChange, Sum, TreeChange, TreeDiff};
pub use largest::{largest, with_largest};
pub use measure::measure;
pub use node::{Guessed, Member, SizeTree, TreeNode};
pub use options::{DEFAULT_TOP, TreeOptions};
pub use place::TreePlace;
pub use schemaless::looks_like_message;

pub use crate::error::{LargePart, NAMED, largest_named, shown_size};
pub use crate::view::{MemberFields, MemberName, NameRule};

#[cfg(test)]
mod tests;
