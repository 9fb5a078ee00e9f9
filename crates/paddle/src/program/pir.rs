//! Paddle 3.x programs ("PIR"), which are JSON and have no `ProgramDesc`. Only their parameters are
//! read:
//!
//! ```text
//! {"base_code": {"magic": "pir", ..}, "program": {"regions": [{"blocks": [{"ops": [
//!   {"#": "p", "A": [0, 1, 1, "NAME"], "O": {"TT": {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [8, 16], ..]}},
//!    "OA": [1, ..]}, ..
//! ```

use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ParameterSpec, in_order};
use crate::proto::framework::var_type::Type;
use crate::stream::StreamKind;

/// Maximum size of a JSON program, which is read into memory as a whole: 1 GiB.
const MAX_JSON_SIZE: u64 = 1 << 30;

#[derive(Deserialize)]
struct File<'a> {
    base_code: BaseCode,
    #[serde(borrow)]
    program: Program<'a>,
}

#[derive(Deserialize)]
struct BaseCode {
    magic: String,
}

#[derive(Deserialize)]
struct Program<'a> {
    #[serde(borrow)]
    regions: Vec<Region<'a>>,
}

#[derive(Deserialize)]
struct Region<'a> {
    #[serde(borrow)]
    blocks: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    ops: Vec<Op<'a>>,
}

#[derive(Deserialize)]
struct Op<'a> {
    #[serde(rename = "#")]
    name: String,
    #[serde(rename = "A", borrow, default)]
    attributes: Option<&'a RawValue>,
    #[serde(rename = "O", borrow, default)]
    outputs: Option<&'a RawValue>,
    #[serde(rename = "OA", borrow, default)]
    output_attributes: Option<&'a RawValue>,
}

impl Op<'_> {
    /// Returns true if the op is a parameter whose value is in the parameter file. Some layers
    /// declare state as a parameter that every run creates anew. The first output attribute of such
    /// an op says that the parameter isn't persistable.
    fn is_stored(&self) -> bool {
        let persistable = &value(self.output_attributes)[0];
        self.name == "p" && persistable.as_i64() != Some(0) && persistable.as_bool() != Some(false)
    }
}

fn value(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Returns true if a file that begins with these bytes looks like JSON.
pub(crate) fn looks_like_json(front: &[u8]) -> bool {
    let first = front.iter().find(|byte| !byte.is_ascii_whitespace());
    first == Some(&b'{')
}

/// Returns the parameters that a program declares, in the order of its parameter file.
pub(crate) fn parameters(program: &dyn ReadAt) -> Result<Vec<ParameterSpec>> {
    let size = program.size()?;
    if size > MAX_JSON_SIZE {
        let message = format!("the program has {size} bytes, over the limit of {MAX_JSON_SIZE}");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let mut text = vec![0; usize::try_from(size).unwrap_or_default()];
    program.read_exact_at(0, &mut text)?;
    let file: File<'_> = serde_json::from_slice(&text)
        .map_err(|error| Error::invalid(format!("not a program of Paddle 3.x: {error}")))?;
    if file.base_code.magic != "pir" {
        let magic = &file.base_code.magic;
        return Err(Error::invalid(format!(
            "not a program of Paddle 3.x: its magic is {magic:?}"
        )));
    }
    let blocks = file
        .program
        .regions
        .iter()
        .flat_map(|region| &region.blocks);
    let ops = blocks.flat_map(|block| &block.ops);
    let specs = ops.filter(|op| op.is_stored()).map(parameter);
    in_order(specs.collect::<Result<_>>()?)
}

fn parameter(op: &Op<'_>) -> Result<ParameterSpec> {
    let attributes = value(op.attributes);
    let name = attributes.get(3).and_then(Value::as_str);
    let name = name.ok_or_else(|| Error::invalid("a parameter of the program has no name"))?;
    let outputs = value(op.outputs);
    let tensor = &outputs["TT"];
    let dtype = tensor["D"][0]["#"].as_str().and_then(dtype);
    let dims = tensor["D"][1].as_array();
    let dims = dims.and_then(|dims| dims.iter().map(Value::as_i64).collect::<Option<Vec<_>>>());
    Ok(match (tensor["#"].as_str(), dtype, dims) {
        (Some("0.t_dtensor"), Some(dtype), Some(dims)) => ParameterSpec::dense(name, dtype, dims),
        // The program's type isn't supported here, but the stream declares its own type.
        _ => ParameterSpec::new(name, StreamKind::Dense),
    })
}

/// Returns the data type that has this name in a JSON program.
fn dtype(name: &str) -> Option<Type> {
    Some(match name.strip_prefix("0.t_")? {
        "bool" => Type::Bool,
        "f16" => Type::Fp16,
        "bf16" => Type::Bf16,
        "f32" => Type::Fp32,
        "f64" => Type::Fp64,
        "i8" => Type::Int8,
        "ui8" => Type::Uint8,
        "i16" => Type::Int16,
        "i32" => Type::Int32,
        "i64" => Type::Int64,
        "c64" => Type::Complex64,
        "c128" => Type::Complex128,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_named_and_in_the_order_of_their_file() {
        let program = br##"{"base_code":{"magic":"pir","version":4},"program":{"regions":[{"#":"r","blocks":[{"ops":[
            {"#":"p","A":[0,1,1,"w"],"O":{"%":1,"TT":{"#":"0.t_dtensor","D":[{"#":"0.t_f32"},[8,-1],"NCHW",[],0]}}},
            {"#":"p","A":[0,1,1,"b"],"O":{"%":2,"TT":{"#":"0.t_new","D":[]}},"OA":[1,1,1]},
            {"#":"p","A":[0,1,1,"state"],"O":{"%":3,"TT":{"#":"0.t_dtensor","D":[{"#":"0.t_f32"},[0]]}},"OA":[0,1,1]},
            {"#":"1.data","A":[{"AT":{},"N":"name"}],"I":[],"O":[]}]}]}]}}"##;
        let specs = parameters(&program.as_slice()).unwrap();
        let wanted = [
            ParameterSpec::new("b", StreamKind::Dense),
            ParameterSpec::dense("w", Type::Fp32, [8, -1]),
        ];
        assert_eq!(specs, wanted);
    }

    #[test]
    fn other_json_is_refused() {
        for (text, said) in [
            (&b"{\"base_code\":{\"magic\":\"other\"},\"program\":{\"regions\":[]}}"[..], "\"other\""),
            (b"{}", "base_code"),
            (b"{\"base_code\":{\"magic\":\"pir\"},\"program\":{\"regions\":[{\"blocks\":[{\"ops\":[{\"#\":\"p\"}]}]}]}}", "no name"),
        ] {
            let error = parameters(&text).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
