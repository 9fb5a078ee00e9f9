//! Writes three checkpoints of a SameDiff model to one file, extracts the second one, and checks
//! sizes and contents. Two thirds of the values are the same in all checkpoints. Needs about 3 GiB
//! of disk space in the folder for temporary files. The first argument is the size of a checkpoint
//! in MiB (default: 1024).
//!
//!     cargo run --release --example samediff_checkpoints

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, Draft, Graph, Model, Nd4jType, SameDiffVariable,
    SameDiffWriteOptions, TagContent, VarType,
};
use record_file::ReadAt;

/// Number of parameters in a checkpoint.
const PARAMETERS: u64 = 12;

/// A source whose bytes are computed from a seed when they are read.
struct Values {
    seed: u64,
    len: u64,
}

impl ReadAt for Values {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        for (byte, at) in buf[..len].iter_mut().zip(offset..) {
            let word = (at / 8 + 1)
                .wrapping_mul(self.seed | 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *byte = word.rotate_left(31).to_le_bytes()[usize::from(at.to_le_bytes()[0] % 8)];
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

/// Returns the parameter number `number` in a checkpoint. Every third parameter changes with each
/// checkpoint.
fn parameter(number: u64, checkpoint: u64, len: u64) -> Result<Array, Box<dyn Error>> {
    let changed = if number.is_multiple_of(3) {
        checkpoint
    } else {
        0
    };
    let values = Values {
        seed: 1000 * changed + number,
        len,
    };
    let info = ArrayInfo::new(Nd4jType::UInt8, [len])?;
    Ok(Array::from_source(info, Arc::new(values), 0, len)?)
}

fn name(number: u64) -> String {
    format!("layer{number}/weights")
}

fn checkpoint(checkpoint: u64, len: u64) -> Result<TagContent, Box<dyn Error>> {
    let mut graph = Graph::default();
    for number in 0..PARAMETERS {
        let shape = [i64::try_from(len)?];
        graph.variables.push(SameDiffVariable::new(
            name(number),
            VarType::Variable,
            Nd4jType::UInt8,
            shape,
        ));
    }
    let mut content = TagContent::new(graph);
    for number in 0..PARAMETERS {
        content = content.parameter(name(number), parameter(number, checkpoint, len)?);
    }
    Ok(content)
}

/// Fails unless two arrays have the same bytes.
fn check_same(a: &Array, b: &Array) -> Result<(), Box<dyn Error>> {
    let (mut a, mut b) = (a.values()?, b.values()?);
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut left = a.len();
    while left > 0 {
        let len = usize::try_from(left)?.min(x.len());
        a.read_exact(&mut x[..len])?;
        b.read_exact(&mut y[..len])?;
        if x[..len] != y[..len] {
            return Err("values differ".into());
        }
        left -= len as u64;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mebibytes: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1024), |text| text.parse())?;
    let len = (mebibytes << 20) / PARAMETERS;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("checkpoints.zip");

    let mut draft = Draft::new();
    for (number, tag) in ["epoch-1", "epoch-2", "epoch-3"].into_iter().enumerate() {
        draft.add_tag(tag.parse()?, checkpoint(number as u64, len)?)?;
    }
    let written = draft.write(&path, &SameDiffWriteOptions::new())?;
    // The file has twelve arrays of the first checkpoint, and four new ones of each other
    // checkpoint.
    assert_eq!((written.arrays, written.shared), (20, 16));
    let data = 20 * len;
    assert!(written.size > data && written.size < data + (1 << 16));
    println!(
        "three checkpoints: {} bytes, {} arrays",
        written.size, written.arrays
    );

    let middle = folder.path().join("epoch-2.zip");
    let mut draft = Draft::open(&Model::open(&path)?)?;
    draft.extract_tag("epoch-2")?;
    let written = draft.write(&middle, &SameDiffWriteOptions::new())?;
    assert_eq!(written.arrays, PARAMETERS);
    assert!(written.size > PARAMETERS * len && written.size < PARAMETERS * len + (1 << 16));
    println!(
        "the middle one: {} bytes, {} arrays",
        written.size, written.arrays
    );

    let model = Model::open(&middle)?;
    let parameters = model.default_tag().parameters()?;
    for number in 0..PARAMETERS {
        let files = parameters
            .get(&name(number))
            .ok_or("a parameter is missing")?;
        check_same(&parameters.open(&files[0])?, &parameter(number, 1, len)?)?;
    }
    let report = model.check(&CheckOptions::new())?.into_result()?;
    println!("checked: {} arrays, {} bytes", report.arrays, report.bytes);
    Ok(())
}
