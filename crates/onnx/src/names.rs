//! Names for the parts of a model.

use proto_splitter_core::Result;
use proto_splitter_core::view::size_tree::{MemberFields, MemberName, NameRule};

use crate::data_type::type_name;
use crate::proto::tensor_proto::DataType;

/// Rules for naming the parts of a model in a size tree. A node is named by its name, or by its op
/// and first output if it has no name; a tensor by its name and type; and a function as
/// `domain::name:overload`.
///
/// ```
/// use proto_splitter_core::view::MessageView;
/// use proto_splitter_core::merge::ReadOptions;
/// use proto_splitter_core::path::FieldPath;
/// use proto_splitter_core::view::size_tree::{TreeOptions, measure};
/// use proto_splitter_onnx::{NAMES, proto::{GraphProto, ModelProto, NodeProto}};
/// use prost::Message;
/// use prost_reflect::ReflectMessage;
///
/// let node = NodeProto { op_type: Some("Relu".into()), output: vec!["y".into()], ..Default::default() };
/// let graph = GraphProto { node: vec![node], ..Default::default() };
/// let options = ReadOptions::new().descriptor(graph.descriptor());
/// let bytes = graph.encode_to_vec();
///
/// let view = MessageView::of_plain(&bytes, options)?;
/// let tree = measure(&view, &FieldPath::root(), &TreeOptions::new().names(&NAMES))?;
/// let name = &tree.root.children[0].members[0].name;
/// assert_eq!(name.name.as_deref(), Some("Relu:y"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const NAMES: [NameRule; 8] = [
    ("onnx.NodeProto", node),
    ("onnx.TensorProto", tensor),
    ("onnx.SparseTensorProto", sparse),
    ("onnx.AttributeProto", attribute),
    ("onnx.FunctionProto", function),
    ("onnx.ValueInfoProto", by_name),
    ("onnx.TensorAnnotation", by_name),
    ("onnx.OperatorSetIdProto", by_name),
];

fn by_name(message: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = message.text(&[1])?;
    Ok(MemberName { name, detail: None })
}

fn node(node: &mut MemberFields<'_>) -> Result<MemberName> {
    let op = node.text(&[4])?;
    let name = node.text(&[3])?.filter(|name| !name.is_empty());
    if name.is_some() {
        return Ok(MemberName { name, detail: op });
    }
    let output = node.text(&[2])?.unwrap_or_default();
    let name = op.map(|op| format!("{op}:{output}"));
    Ok(MemberName { name, detail: None })
}

fn tensor(tensor: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = tensor.text(&[8])?.filter(|name| !name.is_empty());
    let data_type = tensor
        .number(&[2])?
        .and_then(|number| i32::try_from(number).ok())
        .and_then(|number| DataType::try_from(number).ok());
    let detail = data_type.map(type_name);
    Ok(MemberName { name, detail })
}

fn sparse(sparse: &mut MemberFields<'_>) -> Result<MemberName> {
    match sparse.message(&[1])? {
        Some(mut values) => tensor(&mut values),
        None => Ok(MemberName::default()),
    }
}

fn attribute(attribute: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = attribute.text(&[1])?;
    let detail = match attribute.message(&[5])? {
        Some(mut value) => tensor(&mut value)?.detail,
        None => None,
    };
    Ok(MemberName { name, detail })
}

fn function(function: &mut MemberFields<'_>) -> Result<MemberName> {
    let domain = function.text(&[10])?.unwrap_or_default();
    let name = function.text(&[1])?.unwrap_or_default();
    let overload = function
        .text(&[13])?
        .filter(|overload| !overload.is_empty());
    let overload = overload.map(|overload| format!(":{overload}"));
    let name = Some(format!("{domain}::{name}{}", overload.unwrap_or_default()));
    Ok(MemberName { name, detail: None })
}
