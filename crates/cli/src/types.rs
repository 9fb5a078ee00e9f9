//! The message types that are built in, and the splitter of each.

use std::path::Path;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::split::{ComposableSplitter, SizeSplitter, SplitContext};
use proto_splitter::{GRAPH_DEF, GraphDefSplitter, Result, SAVED_MODEL, SavedModelSplitter};

use crate::failure::Failure;

/// What a SavedModel's message is called, without its extension.
pub(crate) const SAVED_MODEL_STEM: &str = "saved_model";

fn pool() -> &'static DescriptorPool {
    proto_splitter::proto::saved_model::descriptor_pool()
}

/// The type with this full name, if it is built in.
pub(crate) fn built_in(name: &str) -> Option<MessageDescriptor> {
    pool().get_message_by_name(name)
}

/// The type that was asked for with `--message`.
pub(crate) fn named(name: &str) -> Result<MessageDescriptor, Failure> {
    built_in(name).ok_or_else(|| {
        let known = pool().all_messages().filter(|known| !known.is_map_entry());
        let names: Vec<String> = known.map(|known| known.full_name().to_owned()).collect();
        let hint = match nearest(name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "known are those of TensorFlow's SavedModel and GraphDef".into(),
        };
        Failure::usage(format!("no message type `{name}`: {hint}"))
    })
}

/// The type that the name of the file tells.
pub(crate) fn of_file(path: &Path) -> Option<MessageDescriptor> {
    let stem = path.file_stem()?;
    (stem == SAVED_MODEL_STEM)
        .then(|| built_in(SAVED_MODEL))
        .flatten()
}

/// The type that `--message` names, or else the name of the file.
pub(crate) fn asked_or_of_file(
    asked: Option<&str>,
    path: &Path,
) -> Result<Option<MessageDescriptor>, Failure> {
    asked.map_or_else(|| Ok(of_file(path)), |name| named(name).map(Some))
}

fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let wanted = name.to_lowercase();
    let distance = |candidate: &'a String| {
        let full = candidate.to_lowercase();
        let short = last(candidate).to_lowercase();
        edits(&wanted, &full).min(edits(&wanted, &short))
    };
    let (near, edits) = known
        .iter()
        .map(|candidate| (candidate, distance(candidate)))
        .min_by_key(|(_, d)| *d)?;
    (edits <= 1 + name.len() / 5).then_some(near.as_str())
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The splitter of a type: the one made for it, or the one for any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Splitter {
    SavedModel,
    GraphDef,
    Size,
}

impl Splitter {
    pub(crate) fn of(descriptor: &MessageDescriptor) -> Self {
        match descriptor.full_name() {
            SAVED_MODEL => Splitter::SavedModel,
            GRAPH_DEF => Splitter::GraphDef,
            _ => Splitter::Size,
        }
    }
}

impl ComposableSplitter for Splitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        match self {
            Splitter::SavedModel => SavedModelSplitter.build_chunks(cx),
            Splitter::GraphDef => GraphDefSplitter.build_chunks(cx),
            Splitter::Size => SizeSplitter.build_chunks(cx),
        }
    }

    fn version(&self) -> i32 {
        match self {
            Splitter::SavedModel => SavedModelSplitter.version(),
            Splitter::GraphDef => GraphDefSplitter.version(),
            Splitter::Size => SizeSplitter.version(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_type_is_answered_with_the_one_that_was_meant() {
        for (typed, meant) in [
            ("GraphDef", "tensorflow.GraphDef"),
            ("tensorflow.Graphdef", "tensorflow.GraphDef"),
            ("tensorflow.SaveModel", "tensorflow.SavedModel"),
            ("tensorproto", "tensorflow.TensorProto"),
        ] {
            let failure = named(typed).unwrap_err();
            assert_eq!(
                failure.message(),
                format!("no message type `{typed}`: did you mean `{meant}`?")
            );
            assert_eq!(failure.exit(), crate::Exit::Usage);
        }
        assert!(
            named("onnx.ModelProto")
                .unwrap_err()
                .message()
                .contains("known are")
        );
    }

    #[test]
    fn the_name_of_a_saved_model_tells_its_type() {
        for name in ["saved_model.pb", "a/saved_model.cpb", "a/saved_model"] {
            assert_eq!(of_file(Path::new(name)).unwrap().full_name(), SAVED_MODEL);
        }
        assert!(of_file(Path::new("graph.pb")).is_none());
    }
}
