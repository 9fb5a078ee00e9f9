//! The message types known by name, and their splitters.

use std::path::Path;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::Result;
use proto_splitter::formats::ALL;
use proto_splitter::split::{ComposableSplitter, SplitContext};

use crate::args::SchemaArgs;
use crate::failure::Failure;
use crate::input::shown;
use crate::schema::{self, beside};
use crate::suggest;

/// Hint for a file whose type is unknown.
pub(crate) const SCHEMA_NEEDED: &str = "--proto or --descriptor-set gives its schema";

/// The type of a compiled schema, which is itself a message.
const DESCRIPTOR_SET: &str = "google.protobuf.FileDescriptorSet";

/// Returns the built-in type with this full name.
pub(crate) fn built_in(name: &str) -> Option<MessageDescriptor> {
    ALL.message(name)
}

/// The types that a command knows by name: those of the given schemas, then the built-in ones.
pub(crate) struct Types {
    given: DescriptorPool,
    /// Type named by `--message`.
    asked: Option<MessageDescriptor>,
}

impl Types {
    /// Loads the given schemas and finds the requested type.
    pub(crate) fn load(args: &SchemaArgs) -> Result<Types, Failure> {
        let given = schema::load(args)?;
        let mut types = Types { given, asked: None };
        if let Some(name) = &args.message {
            types.asked = Some(types.named(name)?);
        }
        Ok(types)
    }

    /// Loads the given schemas and finds the requested type. If no schema is given and the type is
    /// not built in, uses the one beside the input that has it.
    pub(crate) fn load_for(args: &SchemaArgs, input: &Path) -> Result<Types, Failure> {
        let name = args.message.as_deref();
        let unknown = name.filter(|name| has_no_schema(args) && built_in(name).is_none());
        let Some(name) = unknown else {
            return Types::load(args);
        };
        let has_it = |pool: &DescriptorPool| pool.get_message_by_name(name).is_some();
        match beside::find(input, has_it) {
            Some((_, given)) => {
                let asked = given.get_message_by_name(name);
                Ok(Types { given, asked })
            }
            None => Types::load(args),
        }
    }

    /// Returns the types of the only schema beside an input that fits it, if none was given. A schema
    /// fits if it has the type that the input names, or else if it has a single type that no other
    /// is made of, and the input `is_of` that type.
    pub(crate) fn beside(
        args: &SchemaArgs,
        input: &Path,
        said: Option<&str>,
        is_of: impl Fn(&MessageDescriptor) -> bool,
    ) -> Option<(DescriptorPool, MessageDescriptor)> {
        if !has_no_schema(args) || args.message.is_some() {
            return None;
        }
        let type_of = |pool: &DescriptorPool| match said {
            Some(name) => pool.get_message_by_name(name),
            None => only_root_of(pool),
        };
        let fits = |pool: &DescriptorPool| type_of(pool).is_some_and(|root| is_of(&root));
        let (_, pool) = beside::find(input, fits)?;
        let descriptor = type_of(&pool)?;
        Some((pool, descriptor))
    }

    /// Returns the type with this full name, if known.
    pub(crate) fn get(&self, name: &str) -> Option<MessageDescriptor> {
        let given = self.given.get_message_by_name(name);
        given.or_else(|| built_in(name))
    }

    /// Returns the requested type.
    pub(crate) fn asked(&self) -> Option<&MessageDescriptor> {
        self.asked.as_ref()
    }

    /// Returns the given schemas.
    pub(crate) fn given(&self) -> &DescriptorPool {
        &self.given
    }

    /// The type of an input that doesn't say one, where none was asked for: the one of the given
    /// schemas that no other is made of. Without schemas there is none.
    pub(crate) fn only_root(&self, input: &Path) -> Result<Option<MessageDescriptor>, Failure> {
        if self.asked.is_some() {
            return Ok(None);
        }
        let roots: Vec<String> = schema::roots(&self.given).collect();
        match &roots[..] {
            [] => Ok(None),
            [root] => Ok(self.given.get_message_by_name(root)),
            _ => Err(Failure::usage(format!(
                "{}: --message TYPE has to say which type it has: the schema has {}",
                shown(input),
                some_of(&roots)
            ))),
        }
    }

    /// Returns an example for `--message`: a type that isn't part of another.
    pub(crate) fn example(&self) -> String {
        let mut roots = schema::roots(&self.given);
        let built_in = || {
            ALL.formats()
                .iter()
                .flat_map(|format| format.message_types())
                .next()
        };
        roots
            .next()
            .unwrap_or_else(|| (*built_in().unwrap_or(&"TYPE")).to_owned())
    }

    fn named(&self, name: &str) -> Result<MessageDescriptor, Failure> {
        self.get(name).ok_or_else(|| {
            let names = |pool| -> Vec<String> {
                let messages = schema::messages(pool);
                messages.map(|m| m.full_name().to_owned()).collect()
            };
            let given = names(&self.given);
            let with_types = || {
                ALL.formats().iter().filter(|format| {
                    !format.message_types().is_empty() && format.descriptor_pool().is_some()
                })
            };
            let pools = with_types().filter_map(|format| format.descriptor_pool());
            let built_in: Vec<String> = pools.flat_map(names).collect();
            let own = [DESCRIPTOR_SET.to_owned()];
            let known = given
                .iter()
                .chain(&built_in)
                .chain(&own)
                .map(String::as_str);
            let hint = match suggest::nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None if given.is_empty() => {
                    let titles: Vec<&str> = with_types().map(|format| format.title()).collect();
                    let titles = titles.join(", ");
                    format!("known are those of {titles}; --proto and --descriptor-set add others")
                }
                None => format!("the schema has {}", some_of(&given)),
            };
            Failure::usage(format!("no message type `{name}`: {hint}"))
        })
    }
}

// Implemented by hand: the derived `Debug` of a recursive descriptor doesn't end.
impl std::fmt::Debug for Types {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let asked = self.asked.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("Types")
            .field("asked", &asked)
            .finish_non_exhaustive()
    }
}

/// Returns true if the arguments name no schema.
fn has_no_schema(args: &SchemaArgs) -> bool {
    args.descriptor_set.is_empty() && args.proto.is_empty()
}

/// Returns the type of a pool that no other is made of, if there is exactly one.
fn only_root_of(pool: &DescriptorPool) -> Option<MessageDescriptor> {
    let mut roots = schema::roots(pool);
    let root = roots.next()?;
    roots
        .next()
        .is_none()
        .then(|| pool.get_message_by_name(&root))?
}

/// Returns the first few names.
fn some_of(names: &[String]) -> String {
    const MOST: usize = 5;
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The splitter of a type: that of its format, or the generic one.
#[derive(Clone, Copy)]
pub(crate) struct Splitter(&'static (dyn ComposableSplitter + Sync));

impl Splitter {
    pub(crate) fn of(descriptor: &MessageDescriptor) -> Self {
        Splitter(ALL.splitter(descriptor.full_name()))
    }
}

impl ComposableSplitter for Splitter {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        self.0.build_chunks(cx)
    }

    fn version(&self) -> i32 {
        self.0.version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(message: &str) -> Result<Types, Failure> {
        Types::load(&SchemaArgs {
            message: Some(message.to_owned()),
            ..SchemaArgs::default()
        })
    }

    #[test]
    fn a_mistyped_type_is_answered_with_the_one_that_was_meant() {
        for (typed, meant) in [
            ("GraphDef", "tensorflow.GraphDef"),
            ("tensorflow.Graphdef", "tensorflow.GraphDef"),
            ("tensorflow.SaveModel", "tensorflow.SavedModel"),
            ("tensorproto", "tensorflow.TensorProto"),
        ] {
            let failure = types(typed).unwrap_err();
            assert_eq!(
                failure.message(),
                format!("no message type `{typed}`: did you mean `{meant}`?")
            );
            assert_eq!(failure.exit(), crate::Exit::Usage);
        }
        assert!(
            types("unheard.Of")
                .unwrap_err()
                .message()
                .contains("known are")
        );
    }
}
