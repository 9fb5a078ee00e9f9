//! The part of a tree to show: the report, as in JSON.

use proto_splitter::ChunkIndex;
use proto_splitter::path::Select;
use proto_splitter::size_tree::{ChunkSet, Guessed, LargePart, Member, SizeTree, TreeNode};
use serde::Serialize;

use crate::args::{MinSize, SortBy, TreeArgs};
use crate::input::Input;

/// How many of the largest parts a report or an error names.
pub(super) const NAMED: usize = 3;

/// A size tree reduced to the nodes worth a line.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    /// Full name of the message's type, if known.
    pub(super) message: Option<String>,
    /// The three largest parts, as an error about a limit names them.
    pub(super) largest: Vec<Large>,
    pub(super) tree: Field,
    /// For a page: the trees of members, each separate.
    #[serde(skip)]
    pub(super) inside: Vec<Field>,
}

/// A large part of the message.
#[derive(Debug, Serialize)]
pub(super) struct Large {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    size: u64,
}

impl From<LargePart> for Large {
    fn from(part: LargePart) -> Large {
        let LargePart {
            path, name, size, ..
        } = part;
        Large { path, name, size }
    }
}

/// The trees of members, each separate, the largest first.
pub(super) type Entered = Vec<SizeTree>;

/// All values at one path.
#[derive(Debug, Serialize)]
pub(super) struct Field {
    /// Path from the root of the message.
    pub(super) path: String,
    #[serde(skip)]
    pub(super) label: String,
    /// Further description of a single value, for people.
    #[serde(skip)]
    pub(super) detail: Option<String>,
    #[serde(rename = "type")]
    pub(super) type_name: Option<String>,
    /// Kind of data, guessed if the type is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guess: Option<&'static str>,
    pub(super) count: u64,
    pub(super) size: u64,
    /// Bytes outside the fields below.
    pub(super) own: u64,
    /// Share of the root of this tree.
    pub(super) share: f64,
    #[serde(flatten)]
    pub(super) chunks: Chunks,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<Listed>,
    /// Members not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) other_members: Option<Rest>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<Field>,
    /// Fields not listed, except for those that are too deep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) other_fields: Option<Rest>,
}

/// An element of a repeated field, or an entry of a map.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub(super) path: String,
    /// The end of the path, which distinguishes it from other members.
    #[serde(skip)]
    pub(super) short: String,
    /// The index or key.
    #[serde(skip)]
    pub(super) selector: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    pub(super) size: u64,
    pub(super) share: f64,
    #[serde(flatten)]
    pub(super) chunks: Chunks,
}

/// The chunks that contain a node; empty for a message in one piece.
#[derive(Debug, Serialize)]
pub(super) struct Chunks {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<u64>,
    /// True if there are more than listed.
    #[serde(skip_serializing_if = "is_false")]
    more_chunks: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Rest {
    pub(super) count: u64,
    pub(super) size: u64,
}

/// The limits on the nodes to show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) depth: usize,
    pub(super) top: usize,
    pub(super) min_size: u64,
    pub(super) sort: SortBy,
}

impl Limits {
    /// Returns the requested or default limits: `top`, and a share of the whole. A requested number or order includes nodes of any size.
    pub(super) fn of(args: &TreeArgs, whole: u64, top: usize, least: MinSize) -> Limits {
        let is_asked_for = args.top.is_some() || args.sort != SortBy::Size;
        let least = if is_asked_for {
            MinSize::Bytes(0)
        } else {
            least
        };
        Limits {
            depth: args.depth.unwrap_or(usize::MAX),
            top: args.top.unwrap_or(top),
            min_size: args.min_size.unwrap_or(least).of(whole),
            sort: args.sort,
        }
    }
}

impl Report {
    pub(super) fn new(input: &Input, tree: &SizeTree, entered: &Entered, limits: Limits) -> Report {
        let message = input.descriptor();
        let cut = Cut {
            limits,
            whole: tree.root.size,
        };
        Report {
            file: crate::input::shown(input.file()),
            message: message.map(|message| message.full_name().to_owned()),
            largest: tree.largest(NAMED).into_iter().map(Large::from).collect(),
            tree: cut.field(&tree.root, String::new(), 0),
            inside: entered
                .iter()
                .filter(|inside| limits.depth == usize::MAX && inside.root.size >= limits.min_size)
                .map(|inside| cut.field(&inside.root, String::new(), 0))
                .collect(),
        }
    }

    /// Returns true if the message is in chunks.
    pub(super) fn is_chunked(&self) -> bool {
        !self.tree.chunks.chunks.is_empty()
    }
}

struct Cut {
    limits: Limits,
    whole: u64,
}

impl Cut {
    fn field(&self, node: &TreeNode, above: String, depth: usize) -> Field {
        let label = node.label();
        let path = match (above.as_str(), label.as_str()) {
            ("", label) => label.to_owned(),
            (above, label) => format!("{above}.{label}"),
        };
        let below = depth < self.limits.depth;
        let (members, other_members) = if below {
            self.members(node)
        } else {
            (Vec::new(), None)
        };
        let (fields, other_fields) = if below {
            self.fields(node, &path, depth + 1)
        } else {
            (Vec::new(), None)
        };
        Field {
            path,
            label,
            detail: None,
            type_name: node.type_name.clone(),
            guess: node.guessed.map(guess),
            count: node.count,
            size: node.size,
            own: node.own,
            share: self.share(node.size),
            chunks: Chunks::of(&node.chunks),
            members,
            other_members,
            fields,
            other_fields,
        }
    }

    fn members(&self, node: &TreeNode) -> (Vec<Listed>, Option<Rest>) {
        let shown = |member: &&Member| member.size >= self.limits.min_size;
        let mut members: Vec<&Member> = node.members.iter().filter(shown).collect();
        members.truncate(self.limits.top);
        if self.limits.sort == SortBy::Name {
            members.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let listed: u64 = members.iter().map(|member| member.size).sum();
        let rest = Rest {
            count: node.count.saturating_sub(members.len() as u64),
            size: node.size.saturating_sub(listed),
        };
        let rest = Some(rest).filter(|rest| rest.count > 0 && !members.is_empty());
        let listed = members.into_iter().map(|member| Listed {
            path: member.text.clone(),
            short: member.short.clone(),
            selector: selector(member),
            name: member.name.name.clone(),
            detail: member.name.detail.clone(),
            size: member.size,
            share: self.share(member.size),
            chunks: Chunks::of(&member.chunks),
        });
        (listed.collect(), rest)
    }

    fn fields(&self, node: &TreeNode, path: &str, depth: usize) -> (Vec<Field>, Option<Rest>) {
        let shown = |child: &&TreeNode| child.size >= self.limits.min_size;
        // Sorted by size.
        let mut shown: Vec<&TreeNode> = node.children.iter().filter(shown).collect();
        if self.limits.sort == SortBy::Count {
            shown.sort_by_key(|child| std::cmp::Reverse(child.count));
        }
        shown.truncate(self.limits.top);
        if self.limits.sort == SortBy::Name {
            shown.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let sizes = |size: u64, child: &TreeNode| size.saturating_add(child.size);
        let all = node.children.iter().fold(0, sizes);
        let rest = Rest {
            count: (node.children.len() - shown.len()) as u64,
            size: all - shown.iter().copied().fold(0, sizes),
        };
        let rest = Some(rest).filter(|rest| rest.count > 0);
        let fields = shown
            .into_iter()
            .map(|child| self.field(child, path.to_owned(), depth))
            .collect();
        (fields, rest)
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "rounded to millionths right after"
    )]
    fn share(&self, size: u64) -> f64 {
        match self.whole {
            0 => 0.0,
            whole => (size as f64 * 1e6 / whole as f64).round() / 1e6,
        }
    }
}

fn selector(member: &Member) -> String {
    match member.path.steps().last().map(|step| &step.select) {
        Some(Select::Index(index)) => format!("[{index}]"),
        Some(Select::Key(key)) => format!("[{key}]"),
        _ => String::new(),
    }
}

impl Chunks {
    /// Returns the set for a message without chunks.
    pub(super) fn none() -> Self {
        Chunks {
            chunks: Vec::new(),
            more_chunks: false,
        }
    }

    fn of(set: &ChunkSet) -> Self {
        Chunks {
            chunks: set.indices().map(ChunkIndex::get).collect(),
            more_chunks: set.more(),
        }
    }

    /// Formats the set as `3`, `0, 3` or `0..7`; long sets as their number.
    pub(super) fn text(&self) -> String {
        let listed = &self.chunks;
        match (listed.as_slice(), self.more_chunks) {
            (_, true) => format!("{}+ chunks", listed.len()),
            ([], _) => String::new(),
            ([first, .., last], _)
                if listed.len() > 2 && last - first + 1 == listed.len() as u64 =>
            {
                format!("{first}..{last}")
            }
            (few, _) if few.len() <= 3 => {
                let few: Vec<String> = few.iter().map(u64::to_string).collect();
                few.join(", ")
            }
            (several, _) => format!("{} chunks", several.len()),
        }
    }
}

fn guess(guessed: Guessed) -> &'static str {
    match guessed {
        Guessed::Message => "message",
        Guessed::Text => "text",
        Guessed::Bytes => "bytes",
        Guessed::Number => "number",
    }
}
