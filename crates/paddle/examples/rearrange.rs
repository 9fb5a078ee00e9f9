//! Lists the parameters of a Paddle model, writes a model as one chunked file, writes a model's
//! files in another arrangement, or creates models with all kinds of tensors.
//!
//! ```text
//! rearrange MODEL                       lists its parameters, one JSON object per line
//! rearrange MODEL OUT.cpb               writes it to one file in chunks
//! rearrange MODEL|IN.cpb FOLDER HOW     writes files: files, combined, separate, sized, model-format
//! rearrange make FOLDER                 makes models of all kinds of tensors, and lists their parameters
//! ```
#![allow(clippy::print_stdout, reason = "a program prints its results")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::split::{SplitExt, SplitOptions};
use proto_splitter_paddle::proto::framework::var_type::{LoDTensorDesc, TensorDesc, Type};
use proto_splitter_paddle::proto::framework::{BlockDesc, ProgramDesc, VarDesc, VarType};
use proto_splitter_paddle::stream::{Layout, TensorSpec};
use proto_splitter_paddle::{
    Arrangement, ModelSplitter, PaddleModel, PaddleWriteOptions, ParameterWriter, convert,
    write_model,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [model] => list(model),
        ["make", folder] => make(Path::new(folder)),
        [model, out] => {
            // Uses small chunks, so that even small values get separate chunks, which readers must
            // merge.
            let options = SplitOptions::new().max_chunk_size(1 << 10).force(true);
            let prefix = Path::new(out).with_extension("");
            let written =
                ModelSplitter.write_with(PaddleModel::open(model)?.source()?, &prefix, &options)?;
            println!(
                "{}: {} chunks",
                written.path.display(),
                written.chunks.len()
            );
            Ok(())
        }
        [model, folder, how] => {
            let options = PaddleWriteOptions::new().arrangement(match how {
                "files" => Arrangement::Original,
                "combined" => Arrangement::Combined(Layout::Paddle),
                "separate" => Arrangement::Separate(Layout::Paddle),
                other => Arrangement::Combined(other.parse()?),
            });
            let written = if model.ends_with(".cpb") {
                write_model(model, folder, &options)?
            } else {
                convert(&PaddleModel::open(model)?, folder, &options)?
            };
            println!(
                "{}: {} files",
                written.folder.display(),
                written.files.len()
            );
            Ok(())
        }
        _ => Err("usage: rearrange MODEL [OUT.cpb | FOLDER HOW] | make FOLDER".into()),
    }
}

fn list(model: &str) -> Result<(), Box<dyn Error>> {
    let model = PaddleModel::open(model)?;
    model.verify()?;
    for (file, parameter) in model.parameters() {
        let stream = parameter.stream();
        let mut data = vec![0; usize::try_from(stream.data().end - stream.data().start)?];
        stream.read_data(file.bytes(), &mut data)?;
        let line = json!({
            "name": parameter.name(),
            "dtype": stream.dtype().map(|dtype| dtype.as_str_name()),
            "dims": stream.dims(),
            "lod": stream.lod(file.bytes())?,
            "crc32": crc32(&data),
        });
        println!("{line}");
    }
    Ok(())
}

/// Creates models that contain all element types of Paddle 2 and Paddle 3, tensors with LoD, a
/// scalar, an empty tensor, and selected rows.
fn make(folder: &Path) -> Result<(), Box<dyn Error>> {
    let two = [
        "BOOL",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
        "UINT8",
        "INT8",
        "BF16",
        "COMPLEX64",
        "COMPLEX128",
    ];
    let three = ["FP8_E4M3FN", "FP8_E5M2", "UINT16", "UINT32", "UINT64"];
    let of_type = |name: &&str| -> Result<_, Box<dyn Error>> {
        let dtype = Type::from_str_name(name).ok_or("no such type")?;
        Ok(Made::new(format!("of/{name}"), dtype, &[2, 3]))
    };
    let types = |names: &[&str]| names.iter().map(of_type).collect::<Result<Vec<_>, _>>();
    let shapes = vec![
        Made::new("empty", Type::Fp32, &[0, 4]),
        Made::new("scalar", Type::Fp64, &[]),
        Made::new("Sequences", Type::Fp32, &[6, 2]).lod(vec![vec![0, 2, 5, 6]]),
        Made::new("nested", Type::Int64, &[6]).lod(vec![vec![0, 1, 3], vec![0, 2, 5, 6]]),
        Made::new("\u{e9}t\u{e9}", Type::Int8, &[1, 1, 1, 5]),
    ];
    let rows = vec![
        Made::new("rows", Type::Fp32, &[3, 2]).rows(vec![7, 0, 2], 9),
        Made::new("a row", Type::Fp64, &[1, 4]).rows(vec![1_000_000], 1 << 40),
    ];
    let combined = [types(&two)?, shapes.clone()].concat();
    write_made(folder, "combined", combined.clone(), false)?;
    write_made(folder, "separate", [combined, rows].concat(), true)?;
    write_made(folder, "newer", [types(&three)?, shapes].concat(), false)
}

/// A tensor to create.
#[derive(Clone)]
struct Made {
    name: String,
    dtype: Type,
    dims: Vec<u64>,
    lod: Vec<Vec<u64>>,
    rows: Option<(Vec<i64>, i64)>,
}

impl Made {
    fn new(name: impl Into<String>, dtype: Type, dims: &[u64]) -> Self {
        Made {
            name: name.into(),
            dtype,
            dims: dims.to_vec(),
            lod: Vec::new(),
            rows: None,
        }
    }

    fn lod(self, lod: Vec<Vec<u64>>) -> Self {
        Made { lod, ..self }
    }

    fn rows(self, rows: Vec<i64>, height: i64) -> Self {
        Made {
            rows: Some((rows, height)),
            ..self
        }
    }

    fn spec(&self) -> TensorSpec {
        match &self.rows {
            Some((rows, height)) => {
                TensorSpec::selected_rows(self.dtype, &self.dims[..], &rows[..], *height)
            }
            None => TensorSpec::dense(self.dtype, &self.dims[..]).lod(&self.lod[..]),
        }
    }

    fn data(&self) -> Result<Vec<u8>, Box<dyn Error>> {
        let size = self.spec().data_size()?;
        let byte = |at: u64| match self.dtype {
            Type::Bool => at % 2,
            _ => at * 37 % 251,
        };
        Ok((0..size).map(|at| byte(at) as u8).collect())
    }

    fn var(&self) -> VarDesc {
        let mut tensor = TensorDesc {
            data_type: self.dtype.into(),
            dims: self.dims.iter().map(|dim| dim.cast_signed()).collect(),
        };
        if let (Some((_, height)), Some(first)) = (&self.rows, tensor.dims.first_mut()) {
            // The program declares the dims of the whole matrix, not those of the selected rows.
            *first = *height;
        }
        let (kind, lod_tensor, selected_rows) = match &self.rows {
            Some(_) => (Type::SelectedRows, None, Some(tensor)),
            None => {
                let lod_level = i32::try_from(self.lod.len()).ok();
                (
                    Type::LodTensor,
                    Some(LoDTensorDesc { tensor, lod_level }),
                    None,
                )
            }
        };
        VarDesc {
            name: self.name.clone(),
            persistable: Some(true),
            r#type: VarType {
                r#type: kind.into(),
                lod_tensor,
                selected_rows,
                ..VarType::default()
            },
            ..VarDesc::default()
        }
    }
}

/// Writes a program that declares these parameters, and writes the parameters to one file each or
/// to a single file.
fn write_made(
    folder: &Path,
    name: &str,
    mut all: Vec<Made>,
    separate: bool,
) -> Result<(), Box<dyn Error>> {
    let to = folder.join(name);
    fs::create_dir_all(&to)?;
    let block = BlockDesc {
        parent_idx: -1,
        vars: all.iter().map(Made::var).collect(),
        ..BlockDesc::default()
    };
    let program = ProgramDesc {
        blocks: vec![block],
        ..ProgramDesc::default()
    };
    let path = to.join(if separate {
        "__model__"
    } else {
        "model.pdmodel"
    });
    fs::write(path, program.encode_to_vec())?;
    // Paddle reads the parameters in the combined file in this order.
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut one = if separate {
        None
    } else {
        Some(ParameterWriter::create(
            to.join("model.pdiparams"),
            Layout::Paddle,
            false,
        )?)
    };
    for made in all {
        let data = made.data()?;
        if let Some(one) = &mut one {
            one.write(&made.spec(), &mut &data[..])?;
        } else {
            let path = to.join(&made.name);
            fs::create_dir_all(path.parent().ok_or("no folder")?)?;
            let mut file = ParameterWriter::create(path, Layout::Paddle, false)?;
            file.write(&made.spec(), &mut &data[..])?;
            file.finish()?;
        }
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let (rows, height) = made.rows.unzip();
        let line = json!({
            "folder": name,
            "name": made.name,
            "dtype": made.dtype.as_str_name(),
            "dims": made.dims,
            "lod": made.lod,
            "rows": rows,
            "height": height,
            "data": hex,
        });
        println!("{line}");
    }
    Ok(one.map_or(Ok(()), ParameterWriter::finish)?)
}

/// Returns the checksum that Python's `zlib.crc32` computes.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    })
}
