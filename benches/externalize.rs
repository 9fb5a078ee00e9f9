//! A benchmark that compares externalizing a model of 2.5 GiB with copying it: `cargo bench --bench
//! externalize`.
//!
//! Both operations read the model from the page cache, sync their output to disk, and run in
//! separate processes. The benchmark needs 8 GiB of disk; `-- --quick` makes the model 16 times
//! smaller, to check that the benchmark runs. At the end, the original is read from the
//! externalized model and compared with the model.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::Command;

use proto_splitter::externalize::{ExternalizeOptions, ExternalizePlan, original};
use proto_splitter::record_file::ReadAt;
use proto_splitter_testkit::memory::{Peak, watch};
use proto_splitter_testkit::runnable::{RunnableSize, runnable_model};
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};

const ROUNDS: u64 = 5;
const QUICK: u64 = 16;

/// Argument with which this program starts itself, to externalize a model in a separate process.
const WORK: &str = "--externalize";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [WORK, from, to] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ExternalizePlan::new(from, &ExternalizeOptions::new())?.write(to)?;
        return Ok(());
    }
    let folder = scratch_folder()?;
    let model = folder.path().join("model");
    fs::create_dir(&model)?;
    let mut size = RunnableSize::OVER_THE_LIMIT;
    size.constant_bytes /= scale(QUICK);
    let plain = model.join("saved_model.pb");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&plain)?);
    runnable_model(&size).write_to(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;

    let (copy, output) = (folder.path().join("copy"), folder.path().join("out"));
    let mut cp = Command::new("sh");
    cp.args(["-c", "cp \"$1\" \"$2\" && sync \"$2\"", "sh"]);
    cp.args([&plain, &copy]);
    let mut externalize = Command::new(std::env::current_exe()?);
    externalize.arg(WORK).args([&model, &output]);
    let (mut peak_cp, mut peak) = (Peak::default(), Peak::default());
    let mut contestants = [
        Contestant::new("cp of the file, and sync", || {
            measure(&mut cp, &mut peak_cp)?;
            Ok(fs::remove_file(&copy)?)
        }),
        Contestant::new("externalize", || {
            measure(&mut externalize, &mut peak)?;
            Ok(fs::remove_dir_all(&output)?)
        }),
    ];
    let times = in_turns(ROUNDS, &mut contestants)?;
    drop(contestants);
    let bytes = fs::metadata(&plain)?.len();
    println!(
        "| a model of {bytes} bytes | best s | median s | times the copy | peak anonymous MiB |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for (time, peak) in times.iter().zip([peak_cp, peak]) {
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.1} |",
            time.name,
            time.best(),
            time.median(),
            time.median() / times[0].median(),
            peak.anonymous as f64 / f64::from(1 << 20),
        );
    }

    measure(&mut externalize, &mut Peak::default())?;
    let original = original(&output)?.ok_or("nothing says what the original was")?;
    let plain = File::open(&plain)?;
    let (mut was, mut is) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..bytes).step_by(1 << 20) {
        let len = usize::try_from((bytes - at).min(1 << 20))?;
        plain.read_exact_at(at, &mut was[..len])?;
        original.read_exact_at(at, &mut is[..len])?;
        if was != is {
            return Err(
                format!("what would come back isn't the model: see the MiB at {at}").into(),
            );
        }
    }
    Ok(())
}

/// Runs a command, which must succeed, and increases `most` to the command's peak memory.
fn measure(command: &mut Command, most: &mut Peak) -> Result<(), Box<dyn Error>> {
    let (status, peak) = watch(command)?;
    most.anonymous = most.anonymous.max(peak.anonymous);
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}
