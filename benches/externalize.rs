//! Externalizing a model of 2.5 GiB beside copying it: `cargo bench --bench externalize`.
//!
//! Both read the model from the page cache and bring what they write to the disk. It needs 8 GiB of
//! disk; `-- --quick` makes the model 16 times smaller, to see that it runs.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};

use proto_splitter::externalize::{ExternalizeOptions, ExternalizePlan};
use proto_splitter_testkit::runnable::{RunnableSize, runnable_model};
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, in_turns};

const ROUNDS: u64 = 5;
const QUICK: u64 = 16;

fn main() -> Result<(), Box<dyn Error>> {
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
    let cp = || -> Result<(), Box<dyn Error>> {
        fs::copy(&plain, &copy)?;
        File::open(&copy)?.sync_all()?;
        fs::remove_file(&copy)?;
        Ok(())
    };
    let externalize = || -> Result<(), Box<dyn Error>> {
        ExternalizePlan::new(&model, &ExternalizeOptions::new())?.write(&output)?;
        fs::remove_dir_all(&output)?;
        Ok(())
    };
    let mut contestants = [
        Contestant::new("copying the file, and sync", cp),
        Contestant::new("externalize", externalize),
    ];
    let times = in_turns(ROUNDS, &mut contestants)?;
    let bytes = fs::metadata(&plain)?.len();
    println!("| a model of {bytes} bytes | best s | median s | times the copy |");
    println!("| --- | --- | --- | --- |");
    for time in &times {
        println!(
            "| {} | {:.2} | {:.2} | {:.2} |",
            time.name,
            time.best(),
            time.median(),
            time.median() / times[0].median(),
        );
    }
    Ok(())
}
