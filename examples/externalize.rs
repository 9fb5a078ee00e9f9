//! Creates a SavedModel over 2 GiB, which TensorFlow can't read, and externalizes it, so that
//! TensorFlow can.
//!
//!     cargo run --release --example externalize -- OUTPUT
//!     cargo run --release --example externalize -- OUTPUT --mib 40
//!
//! The model's size is 2.5 GiB, or the number of MiB after `--mib`. The original model is written
//! to a temporary folder next to OUTPUT and removed at the end; `--keep FOLDER` keeps it in FOLDER.
//! The model adds the largest element of each of its ten constants to its input `x`.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use proto_splitter::externalize::{ExternalizeOptions, ExternalizePlan};
use proto_splitter_testkit::runnable::{RunnableSize, runnable_model};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut output = None;
    let mut keep = None;
    let mut size = RunnableSize::OVER_THE_LIMIT;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--mib" => {
                let mib: u64 = rest.next().ok_or("--mib needs a number")?.parse()?;
                let constants = size.constants + size.functions;
                size.constant_bytes = (mib << 20) / constants / 4 * 4;
            }
            "--keep" => keep = Some(PathBuf::from(rest.next().ok_or("--keep needs a folder")?)),
            _ if arg.starts_with('-') => return Err(format!("there is no option {arg}").into()),
            _ => output = Some(PathBuf::from(arg)),
        }
    }
    let output = output.ok_or("say where to write the model")?;
    let parent = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let temporary = tempfile::tempdir_in(parent)?;
    let model = keep.unwrap_or_else(|| temporary.path().join("model"));
    fs::create_dir(&model)?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(model.join("saved_model.pb"))?);
    runnable_model(&size).write_to(&mut out)?;
    out.flush()?;
    let bytes = fs::metadata(model.join("saved_model.pb"))?.len();
    println!("model        {bytes} bytes");

    let start = Instant::now();
    let plan = ExternalizePlan::new(&model, &ExternalizeOptions::new())?;
    for constant in plan.constants() {
        let function = constant.function.as_deref().unwrap_or("the main graph");
        println!(
            "moves        {} of {function}: {} bytes",
            constant.node, constant.size
        );
    }
    let written = plan.write(&output)?;
    println!("externalized {:.2} s", start.elapsed().as_secs_f64());
    println!("saved_model  {} bytes", written.model_size);
    println!("constants    {} bytes", written.stored);
    Ok(())
}
