//! Names for the parts of a SavedModel in a size tree.

use proto_splitter_core::Result;
use proto_splitter_core::view::size_tree::{MemberFields, MemberName, NameRule};
use proto_splitter_graph_def::type_and_shape;

/// Rules that name the parts of a `SavedModel` in a size tree. A meta graph is named by its first
/// tag, and an object by its kind and name. [`proto_splitter_graph_def::NAMES`] has the rules for
/// the parts of graphs.
pub const NAMES: [NameRule; 3] = [
    ("tensorflow.MetaGraphDef", meta_graph),
    ("tensorflow.SavedObject", object),
    ("tensorflow.SignatureDef", signature),
];

fn meta_graph(graph: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = graph.text(&[1, 4])?;
    Ok(MemberName { name, detail: None })
}

fn signature(signature: &mut MemberFields<'_>) -> Result<MemberName> {
    let detail = signature.text(&[3])?;
    Ok(MemberName { name: None, detail })
}

/// Kinds of objects in an object graph. For each kind: the number of the field of `SavedObject`
/// that holds the kind's message, the name of the kind, and the number of the field of this message
/// that contains the object's name (`None` if the kind has no names).
const KINDS: [(u32, &str, Option<u32>); 8] = [
    (4, "user object", Some(1)),
    (5, "asset", None),
    (6, "function", Some(1)),
    (7, "variable", Some(6)),
    (8, "bare concrete function", Some(1)),
    (9, "constant", Some(1)),
    (10, "resource", None),
    (12, "captured tensor", Some(1)),
];

fn object(object: &mut MemberFields<'_>) -> Result<MemberName> {
    for (number, kind, called_by) in KINDS {
        let Some(mut of_kind) = object.message(&[number])? else {
            continue;
        };
        let name = match called_by {
            Some(field) => of_kind.text(&[field])?,
            None => None,
        };
        let mut detail = Some(kind.to_owned());
        if kind == "variable"
            && let Some(variable) = type_and_shape(&mut of_kind, 1, 2)?
        {
            detail = Some(format!("{kind} {variable}"));
        }
        return Ok(MemberName { name, detail });
    }
    Ok(MemberName::default())
}
