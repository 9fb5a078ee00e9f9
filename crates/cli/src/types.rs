//! The message types that a command can use by name.

use std::path::Path;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter::Result;
use proto_splitter::formats::ALL;
use proto_splitter::sequences::Root;

use crate::args::SchemaArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::schema::{self, beside};
use crate::suggest;

/// Hint to append to an error about a file whose message type is unknown.
pub(crate) const SCHEMA_NEEDED: &str = "give its schema with --proto or --descriptor-set";

/// Name of the message type of compiled schemas.
const DESCRIPTOR_SET: &str = "google.protobuf.FileDescriptorSet";

/// Returns the built-in message type with the given full name; `None` if there is none.
pub(crate) fn built_in(name: &str) -> Option<MessageDescriptor> {
    ALL.message(name)
}

/// The message types that a command can use by name: those of the schemas that the user gave, and
/// the built-in ones. The former take precedence.
pub(crate) struct Types {
    given: DescriptorPool,
    /// Type given by `--message` or, with `--delimited`, the sequence's root type; `None` if
    /// neither is given.
    asked: Option<MessageDescriptor>,
    /// Root of the sequence that `--delimited` requests; `None` if the option isn't given.
    sequence: Option<Root>,
}

impl Types {
    /// Loads the schemas in the arguments, and finds the requested type.
    pub(crate) fn load(args: &SchemaArgs) -> Result<Types, Failure> {
        Types::of_pool(schema::load(args)?, args)
    }

    /// Finds the requested type in the schemas `given` or among the built-in types.
    fn of_pool(given: DescriptorPool, args: &SchemaArgs) -> Result<Types, Failure> {
        let mut types = Types {
            given,
            asked: None,
            sequence: None,
        };
        if let Some(name) = &args.message {
            types.asked = Some(types.named(name)?);
        }
        if let Some(name) = &args.delimited {
            let root = types.sequence_named(name)?;
            types.asked = root.descriptor().cloned();
            types.sequence = Some(root);
        }
        Ok(types)
    }

    /// Returns the root of a sequence. `name`, the value of `--delimited`, is either the type of
    /// the sequence's messages, or the field that contains these messages.
    fn sequence_named(&self, name: &str) -> Result<Root, Failure> {
        let parent = || self.get(name.rsplit_once('.')?.0);
        if self.get(name).or_else(parent).is_none() {
            // This call fails if the name is unknown, and suggests a similar name.
            self.named(name)?;
        }
        Root::find(name, |name| self.get(name))
            .map_err(|error| Failure::usage(format!("--delimited: {error}")))
    }

    /// Loads the schemas in the arguments, and finds the requested type. If no schema is given and
    /// the type isn't built in, searches the schemas next to the input. If exactly one of these
    /// schemas defines the type, uses this schema.
    pub(crate) fn load_for(args: &SchemaArgs, input: &Path) -> Result<Types, Failure> {
        let name = args.message.as_deref().or(args.delimited.as_deref());
        let unknown = name.filter(|name| has_no_schema(args) && built_in(name).is_none());
        let Some(name) = unknown else {
            return Types::load(args);
        };
        let has_it = |pool: &DescriptorPool| match &args.delimited {
            Some(name) => Root::named(pool, name).is_ok(),
            None => pool.get_message_by_name(name).is_some(),
        };
        match beside::find(input, has_it) {
            Some((_, given)) => Types::of_pool(given, args),
            None => Types::load(args),
        }
    }

    /// Returns the schema next to an input, and the type of the input's message in this schema. If
    /// the input records a type, `said` is its name, and the schema must define it. Otherwise, the
    /// type is the only one in the schema that no other type contains. A schema fits if it has such
    /// a type, and `is_of` returns true for the type. Returns `None` if the user gave a schema or a
    /// type, if no schema fits, or if several do.
    pub(crate) fn beside(
        args: &SchemaArgs,
        input: &Path,
        said: Option<&str>,
        is_of: impl Fn(&MessageDescriptor) -> bool,
    ) -> Option<(DescriptorPool, MessageDescriptor)> {
        if !has_no_schema(args) || args.message.is_some() || args.delimited.is_some() {
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

    /// Returns the type with the given full name; `None` if it is unknown.
    pub(crate) fn get(&self, name: &str) -> Option<MessageDescriptor> {
        let given = self.given.get_message_by_name(name);
        given.or_else(|| built_in(name))
    }

    /// Returns the type that the user requested; `None` if no type was requested.
    pub(crate) fn asked(&self) -> Option<&MessageDescriptor> {
        self.asked.as_ref()
    }

    /// Returns the root of the sequence that `--delimited` requests; `None` if the option isn't
    /// given.
    pub(crate) fn sequence(&self) -> Option<&Root> {
        self.sequence.as_ref()
    }

    /// Returns the schemas that the user gave.
    pub(crate) fn given(&self) -> &DescriptorPool {
        &self.given
    }

    /// Returns the default type for an input that doesn't specify a type: the only type in the
    /// user's schemas that no other type contains. Returns `None` if the user requested a type or
    /// gave no schemas. Fails if there are several such types.
    pub(crate) fn only_root(&self, input: &Path) -> Result<Option<MessageDescriptor>, Failure> {
        if self.asked.is_some() {
            return Ok(None);
        }
        let roots: Vec<String> = schema::roots(&self.given).collect();
        match &roots[..] {
            [] => Ok(None),
            [root] => Ok(self.given.get_message_by_name(root)),
            _ => Err(Failure::usage(format!(
                "{}: name its type with --message TYPE: the schema has {}",
                shown(input),
                some_of(&roots)
            ))),
        }
    }

    /// Returns the name of a type that errors can suggest for `--message`.
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
            // Among equally similar names, the first one is suggested, so the most likely names
            // come first.
            let known = given
                .iter()
                .chain(&own)
                .chain(&built_in)
                .map(String::as_str);
            let hint = match suggest::nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None if given.is_empty() => {
                    let titles: Vec<&str> = with_types().map(|format| format.title()).collect();
                    let titles = titles.join(", ");
                    format!("known: types of {titles}; --proto and --descriptor-set add others")
                }
                None => format!("the schema has {}", some_of(&given)),
            };
            Failure::usage(format!("no message type `{name}`: {hint}"))
        })
    }
}

// `Debug` isn't derived, since it wouldn't terminate for a recursive descriptor.
impl std::fmt::Debug for Types {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let asked = self.asked.as_ref().map(MessageDescriptor::full_name);
        f.debug_struct("Types")
            .field("asked", &asked)
            .finish_non_exhaustive()
    }
}

/// Returns true if the arguments contain no schema.
fn has_no_schema(args: &SchemaArgs) -> bool {
    args.given.is_none() && args.descriptor_set.is_empty() && args.proto.is_empty()
}

/// Returns the type in a pool that no other type contains, if there is exactly one; otherwise
/// `None`.
fn only_root_of(pool: &DescriptorPool) -> Option<MessageDescriptor> {
    let mut roots = schema::roots(pool);
    let root = roots.next()?;
    roots
        .next()
        .is_none()
        .then(|| pool.get_message_by_name(&root))?
}

/// Returns up to five names and the number of further names, for error messages.
fn some_of(names: &[String]) -> String {
    const MOST: usize = 5;
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
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
                .contains("known: types of")
        );
    }
}
