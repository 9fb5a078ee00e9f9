//! Names for the parts of a program or model, for display.

use proto_splitter_core::Result;
use proto_splitter_core::view::size_tree::{MemberFields, MemberName, NameRule};
use proto_splitter_core::wire::{SourceInput, WireCursor};

use crate::proto::framework::var_type::{TensorDesc, Type};
use prost::Message;

/// Maximum size of a `TensorDesc` to display, in bytes.
const MAX_DESC: usize = 1024;

/// Rules for the names of message parts in a size tree. An op is named by its first output and its
/// type, a variable by its name and kind, a parameter by its name and tensor, and an attribute or a
/// file by its name.
pub const NAMES: [NameRule; 7] = [
    ("paddle.framework.proto.OpDesc", op),
    ("paddle.framework.proto.OpDesc.Attr", named),
    ("paddle.framework.proto.OpDesc.Var", named),
    ("paddle.framework.proto.VarDesc", variable),
    ("proto_splitter.paddle.Parameter", parameter),
    ("proto_splitter.paddle.ParameterFile", named),
    ("proto_splitter.paddle.Companion", named),
];

fn named(fields: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = fields.text(&[1])?;
    Ok(MemberName { name, detail: None })
}

fn op(op: &mut MemberFields<'_>) -> Result<MemberName> {
    let detail = op.text(&[3])?;
    // Path of the first argument of the op's first output.
    let name = op.text(&[2, 2])?;
    Ok(MemberName { name, detail })
}

fn variable(var: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = var.text(&[1])?;
    let kind = var.number(&[2, 1])?;
    let kind = kind.and_then(|kind| Type::try_from(i32::try_from(kind).ok()?).ok());
    // Path of the tensor's description, which depends on the variable's kind.
    let desc: &[u32] = match kind {
        Some(Type::LodTensor) => &[2, 3, 1],
        Some(Type::SelectedRows) => &[2, 2],
        Some(Type::LodTensorArray) => &[2, 4, 1],
        _ => &[],
    };
    let tensor = match desc {
        [] => None,
        path => var.bytes(path, MAX_DESC)?.as_deref().and_then(tensor),
    };
    let kind = kind.map(|kind| kind.as_str_name().to_lowercase());
    let detail = [kind, tensor]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let detail = Some(detail).filter(|detail| !detail.is_empty());
    Ok(MemberName { name, detail })
}

fn parameter(parameter: &mut MemberFields<'_>) -> Result<MemberName> {
    let name = parameter.text(&[1])?;
    let dtype = parameter.number(&[6, 1])?;
    let dtype = dtype.and_then(|dtype| Type::try_from(i32::try_from(dtype).ok()?).ok());
    let detail = dtype.map(|dtype| dtype.as_str_name().to_lowercase());
    Ok(MemberName { name, detail })
}

/// Formats a tensor's data type and dims, such as `fp32[2, ?]`.
fn tensor(desc: &[u8]) -> Option<String> {
    // Checks that there is a data type, since a missing one would decode as BOOL.
    let mut cursor = WireCursor::new(SourceInput::new(desc, desc.len() as u64));
    cursor.next().ok()??;
    let desc = TensorDesc::decode(desc).ok()?;
    let dtype = Type::try_from(desc.data_type)
        .ok()?
        .as_str_name()
        .to_lowercase();
    let dims = desc.dims.iter().map(|dim| match dim {
        ..0 => "?".to_owned(),
        size => size.to_string(),
    });
    Some(format!("{dtype}[{}]", dims.collect::<Vec<_>>().join(", ")))
}
