//! Names for the parts of a graph in a size tree.

use prost::Message;
use proto_splitter_core::Result;
use proto_splitter_core::view::size_tree::{MemberFields, MemberName, NameRule};

use crate::proto::{DataType, TensorShapeProto};

/// Maximum size of a serialized shape that is included in a name, in bytes.
const MAX_SHAPE: usize = 1024;

/// Rules that name the parts of a graph in a size tree. A node is described by its name, its op
/// and, if it has one, its tensor; a function by the name in its signature; and a tensor by its
/// type and shape.
///
/// ```
/// use proto_splitter_core::view::MessageView;
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_core::path::FieldPath;
/// use proto_splitter_core::view::size_tree::{TreeOptions, measure};
/// use proto_splitter_graph_def::{NAMES, proto::{GraphDef, NodeDef}};
/// use prost::Message;
/// use prost_reflect::ReflectMessage;
///
/// let node = NodeDef { name: "x".into(), op: "AddV2".into(), ..Default::default() };
/// let graph = GraphDef { node: vec![node], ..Default::default() };
/// let options = ReadOptions::new().descriptor(graph.descriptor());
/// let bytes = graph.encode_to_vec();
///
/// let view = MessageView::of_plain(&bytes, options)?;
/// let tree = measure(&view, &FieldPath::root(), &TreeOptions::new().names(&NAMES))?;
/// let name = &tree.root.children[0].members[0].name;
/// assert_eq!((name.name.as_deref(), name.detail.as_deref()), (Some("x"), Some("AddV2")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const NAMES: [NameRule; 4] = [
    ("tensorflow.NodeDef", node),
    ("tensorflow.FunctionDef", function),
    ("tensorflow.TensorProto", tensor_alone),
    ("tensorflow.AttrValue", attribute),
];

fn node(node: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = node.text(&[1])?;
    let mut detail = node.text(&[2])?.unwrap_or_default();
    if let Some(mut value) = node.entry(5, "value")?
        && let Some(mut tensor) = value.message(&[8])?
        && let Some(tensor) = type_and_shape(&mut tensor, 1, 2)?
    {
        detail.push(' ');
        detail.push_str(&tensor);
    }
    Ok(MemberName {
        name,
        detail: Some(detail).filter(|detail| !detail.is_empty()),
    })
}

fn function(function: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = function.text(&[1, 1])?;
    Ok(MemberName { name, detail: None })
}

fn tensor_alone(tensor: &mut MemberFields<'_>) -> Result<MemberName> {
    Ok(MemberName {
        name: None,
        detail: type_and_shape(tensor, 1, 2)?,
    })
}

fn attribute(value: &mut MemberFields<'_>) -> Result<MemberName> {
    match value.message(&[8])? {
        Some(mut tensor) => tensor_alone(&mut tensor),
        None => Ok(MemberName::default()),
    }
}

/// Formats the type and shape of a tensor, such as `float[2, ?]`. `dtype` and `shape` are the
/// numbers of the fields that contain them. Returns `None` if the type is missing or unknown.
///
/// # Errors
///
/// Fails if reading fails.
pub fn type_and_shape(
    fields: &mut MemberFields<'_>,
    dtype: u32,
    shape: u32,
) -> Result<Option<String>> {
    let known = fields
        .number(&[dtype])?
        .and_then(|number| i32::try_from(number).ok())
        .and_then(|number| DataType::try_from(number).ok());
    let Some(known) = known else {
        return Ok(None);
    };
    let name = type_name(known);
    let shape = fields.bytes(&[shape], MAX_SHAPE)?.unwrap_or_default();
    let Ok(shape) = TensorShapeProto::decode(&shape[..]) else {
        return Ok(Some(name));
    };
    Ok(Some(name + &shape_text(&shape)))
}

/// Returns the name of a type in lower case, without TensorFlow's prefix `DT_`.
pub fn type_name(dtype: DataType) -> String {
    let name = dtype.as_str_name();
    name.strip_prefix("DT_").unwrap_or(name).to_lowercase()
}

/// Formats a shape, such as `[2, ?]`, or `[...]` if the number of dimensions is unknown.
pub fn shape_text(shape: &TensorShapeProto) -> String {
    if shape.unknown_rank {
        return "[...]".to_owned();
    }
    let dims = shape.dim.iter().map(|dim| match dim.size {
        ..0 => "?".to_owned(),
        size => size.to_string(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}
