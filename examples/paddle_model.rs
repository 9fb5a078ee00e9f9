//! Creates a Paddle model of 2.5 GiB, which is larger than a protobuf message can be, lists its
//! parameters, writes it to one chunked file, restores the original files, and compares them.
//!
//! Needs 8 GiB of disk space in FOLDER (default: the folder for temporary files). With MIB, the
//! model has this size in MiB instead (at least 1), and the example needs three times as much
//! space.
//!
//! ```text
//! cargo run --release --example paddle_model -- [FOLDER] [MIB]
//! ```
#![allow(clippy::print_stdout, reason = "a program prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use proto_splitter::paddle::proto::framework::var_type::{LoDTensorDesc, TensorDesc, Type};
use proto_splitter::paddle::proto::framework::{BlockDesc, ProgramDesc, VarDesc, VarType, Version};
use proto_splitter::paddle::stream::{Layout, TensorSpec};
use proto_splitter::paddle::{
    ModelSplitter, PaddleModel, PaddleWriteOptions, ParameterWriter, write_model,
};
use proto_splitter::prost::Message;
use proto_splitter::split::{SplitExt, SplitOptions};

/// Number of columns in each matrix.
const COLUMNS: u64 = 1 << 12;

/// Number of matrices in the model.
const LAYERS: u64 = 10;

/// Default total size of the matrices, in MiB.
const MIB: u64 = 2560;

/// Maximum size of the model, in MiB: 1 TiB.
const MOST_MIB: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut folder, mut mib) = (None, MIB);
    for arg in std::env::args().skip(1) {
        match arg.parse() {
            Ok(number) => mib = number,
            Err(_) => folder = Some(arg),
        }
    }
    if !(1..=MOST_MIB).contains(&mib) {
        return Err(format!("{mib} MiB: the size must be from 1 to {MOST_MIB}").into());
    }
    let folder = match folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let original = folder.path().join("original");
    fs::create_dir(&original)?;
    timed("made", || {
        make(&original, (mib << 20) / LAYERS / COLUMNS / 4)
    })?;

    let model = PaddleModel::open(&original)?;
    for (file, parameter) in model.parameters() {
        let stream = parameter.stream();
        let (name, dims, data) = (
            parameter.name().unwrap_or("?"),
            stream.dims(),
            stream.data(),
        );
        println!(
            "  {name} {dims:?}: {} bytes at {} of {}",
            data.end - data.start,
            data.start,
            file.path().display()
        );
    }

    let one = timed("to one file", || {
        Ok(ModelSplitter.write_with(
            model.source()?,
            folder.path().join("model"),
            &SplitOptions::new(),
        )?)
    })?;
    println!(
        "  {} chunks, {} bytes of {}",
        one.chunks.len(),
        one.output_size,
        one.source_size
    );

    let again = folder.path().join("again");
    timed("back", || {
        Ok(write_model(&one.path, &again, &PaddleWriteOptions::new())?)
    })?;
    for name in ["model.pdmodel", "model.pdiparams"] {
        let is_same = same(&original.join(name), &again.join(name))?;
        println!(
            "  {name}: {}",
            if is_same {
                "the same bytes"
            } else {
                "other bytes"
            }
        );
        if !is_same {
            return Err("the files differ after the round trip".into());
        }
    }
    Ok(())
}

fn timed<T>(
    what: &str,
    work: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let start = Instant::now();
    let result = work()?;
    println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(result)
}

/// Writes a program whose parameters are matrices with `rows` rows, and writes the matrices. The
/// first matrix equals the last one, as with tied weights.
fn make(folder: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = (0..LAYERS)
        .map(|layer| format!("layer_{layer}.w_0"))
        .collect();
    let var = |name: &String| VarDesc {
        name: name.clone(),
        persistable: Some(true),
        r#type: VarType {
            r#type: Type::LodTensor.into(),
            lod_tensor: Some(LoDTensorDesc {
                tensor: TensorDesc {
                    data_type: Type::Fp32.into(),
                    dims: vec![rows.cast_signed(), COLUMNS.cast_signed()],
                },
                lod_level: None,
            }),
            ..VarType::default()
        },
        ..VarDesc::default()
    };
    let program = ProgramDesc {
        blocks: vec![BlockDesc {
            parent_idx: -1,
            vars: names.iter().map(var).collect(),
            ..BlockDesc::default()
        }],
        version: Some(Version {
            version: Some(2_006_002),
        }),
        ..ProgramDesc::default()
    };
    fs::write(folder.join("model.pdmodel"), program.encode_to_vec())?;
    let spec = TensorSpec::dense(Type::Fp32, [rows, COLUMNS]);
    let mut writer =
        ParameterWriter::create(folder.join("model.pdiparams"), Layout::Paddle, false)?;
    for layer in 0..LAYERS {
        writer.write(&spec, &mut Noise(1 + layer % (LAYERS - 1)))?;
    }
    Ok(writer.finish()?)
}

/// A random number generator (xorshift), for incompressible data.
struct Noise(u64);

impl Read for Noise {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        for bytes in buf.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.copy_from_slice(&self.0.to_le_bytes()[..bytes.len()]);
        }
        Ok(buf.len())
    }
}

fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut front, mut other) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = a.read(&mut front)?;
        if read == 0 {
            return Ok(true);
        }
        b.read_exact(&mut other[..read])?;
        if front[..read] != other[..read] {
            return Ok(false);
        }
    }
}
