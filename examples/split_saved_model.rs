//! Splits a SavedModel over 2 GiB, merges it back, and compares the result with the original.
//!
//!     cargo run --release --example split_saved_model
//!     cargo run --release --example split_saved_model -- path/to/saved_model.pb
//!
//! Without a path, the example creates a model of 2.5 GiB, and removes its files at the end.
//! `--folder DIR` sets the folder, which needs about twice the model's size (default: a folder
//! under `target/`). `--compression` sets the compression of the chunked file (`none`, `zstd`,
//! `brotli`, `snappy`).
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use proto_splitter::merge::Merger;
use proto_splitter::record_file::Compression;
use proto_splitter::split::{Source, SplitExt, SplitOptions};
use proto_splitter::{SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::models::{ModelSize, saved_model};

/// Maximum memory that the example may need, in bytes, whatever the size of the model.
const MOST_MEMORY: u64 = 256 << 20;

struct Args {
    model: Option<PathBuf>,
    folder: PathBuf,
    compression: Compression,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = parse_args()?;
    fs::create_dir_all(&args.folder)?;
    let folder = tempfile::tempdir_in(&args.folder)?;
    let model = match &args.model {
        Some(model) => model.clone(),
        None => timed("make", || make_model(folder.path()))?,
    };
    println!("model      {}", size(fs::metadata(&model)?.len()));

    let descriptor = proto_splitter::proto::saved_model::descriptor_pool()
        .get_message_by_name(SAVED_MODEL)
        .ok_or("the schema has a SavedModel")?;
    let prefix = folder.path().join("chunked");
    let options = SplitOptions::new().compression(args.compression);
    let written = timed("split", || {
        let source = Source::open(&model, descriptor.clone())?;
        Ok(SavedModelSplitter.write_with(source, &prefix, &options)?)
    })?;
    println!(
        "file       {} {}",
        size(written.output_size),
        file_name(&written.path)
    );
    for chunk in &written.chunks {
        println!(
            "  {:>2} {:7} {:>11}  {}",
            chunk.index,
            chunk.kind,
            size(chunk.size),
            chunk.path.display(Some(&descriptor))
        );
    }

    // If this program created the model, removes it, so that only two files of its size exist at a
    // time. It can be created again for the comparison.
    if args.model.is_none() {
        fs::remove_file(&model)?;
    }
    let merged = folder.path().join("merged.pb");
    timed("merge", || {
        Ok(Merger::new().merge_to_file(&prefix, &merged)?)
    })?;
    timed("compare", || {
        let mut merged = Compare::with(&merged)?;
        match &args.model {
            Some(model) => drop(io::copy(&mut File::open(model)?, &mut merged)?),
            None => saved_model(&ModelSize::OVER_THE_LIMIT).write_to(&mut merged)?,
        }
        merged.finish()
    })?;
    println!("the merged model equals the original, byte for byte");
    if let Some(peak) = peak_memory() {
        println!("peak memory: {}", size(peak));
        if peak > MOST_MEMORY {
            return Err(format!("that is more than {}", size(MOST_MEMORY)).into());
        }
    }
    Ok(())
}

fn parse_args() -> Result<Args, Box<dyn Error>> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let mut args = Args {
        model: None,
        folder: target.join("examples-data"),
        compression: Compression::None,
    };
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--folder" => args.folder = value()?.into(),
            "--compression" => args.compression = value()?.parse()?,
            _ if arg.starts_with('-') => return Err(format!("there is no option {arg}").into()),
            _ => args.model = Some(arg.into()),
        }
    }
    Ok(args)
}

fn make_model(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join("saved_model.pb");
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(&path)?);
    saved_model(&ModelSize::OVER_THE_LIMIT).write_to(&mut out)?;
    out.flush()?;
    Ok(path)
}

/// A writer that compares the bytes written to it with a file.
struct Compare {
    file: BufReader<File>,
    buffer: Vec<u8>,
}

impl Compare {
    fn with(path: &Path) -> io::Result<Self> {
        Ok(Compare {
            file: BufReader::with_capacity(1 << 20, File::open(path)?),
            buffer: Vec::new(),
        })
    }

    /// Fails unless the whole file was compared.
    fn finish(mut self) -> Result<(), Box<dyn Error>> {
        match self.file.read(&mut [0])? {
            0 => Ok(()),
            _ => Err("the merged model is longer".into()),
        }
    }
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.resize(bytes.len(), 0);
        match self.file.read_exact(&mut self.buffer) {
            Ok(()) if self.buffer == bytes => Ok(bytes.len()),
            Ok(()) => Err(io::Error::other("the merged model differs")),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                Err(io::Error::other("the merged model is shorter"))
            }
            Err(e) => Err(e),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn timed<T>(
    what: &str,
    work: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let start = Instant::now();
    let done = work()?;
    println!("{what:10} {:.2} s", start.elapsed().as_secs_f64());
    Ok(done)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Returns the peak memory of this process, in bytes; `None` if the system doesn't report it.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
