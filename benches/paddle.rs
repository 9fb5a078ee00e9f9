//! A benchmark of Paddle models: listing, conversion to one file and back compared with `cp` and
//! `sync`, and reading compared with Paddle itself. Run `cargo bench --bench paddle`, with `--
//! --quick` for models that are 24 times smaller, or with `-- reading` for only the last part.
//!
//! If Paddle wasn't installed by `tests/interop/paddle/run.sh`, the last part is skipped.
//! Conversions run in separate processes, to measure their anonymous memory.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proto_splitter::Result;
use proto_splitter::paddle::proto::framework::var_type::{LoDTensorDesc, TensorDesc, Type};
use proto_splitter::paddle::proto::framework::{BlockDesc, ProgramDesc, VarDesc, VarType, Version};
use proto_splitter::paddle::stream::{Layout, TensorSpec, write_stream};
use proto_splitter::paddle::{
    ModelSplitter, PaddleModel, PaddleWriteOptions, ParameterWriter, write_model,
};
use proto_splitter::prost::Message;
use proto_splitter::split::{SplitExt, SplitOptions};
use proto_splitter_testkit::memory::watch;
use proto_splitter_testkit::scratch::{scale, scratch_folder};
use proto_splitter_testkit::turns::{Contestant, Times, in_turns};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A function that measures one part of the benchmark.
type Measure = fn() -> Outcome<()>;

const MIB: u64 = 1 << 20;

/// Number of tensors in the model to list. The next constant is their total size in bytes.
const LISTED: u64 = 1000;
const LISTED_BYTES: u64 = 3 << 30;

/// Number of tensors in the model to convert. The next constant is the size of each in bytes.
const CONVERTED: u64 = 12;
const CONVERTED_BYTES: u64 = 256 * MIB;

/// Number of tensors in the model that Paddle also reads. The next constant is the size of each in
/// bytes.
const READ: u64 = 16;
const READ_BYTES: u64 = 64 * MIB;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--child") {
        return child(&args[at + 1..]);
    }
    println!(
        "| work | median s | min s | reference | median s | min s | ratio of minima | anonymous MiB |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let parts: [(&str, Measure); 3] = [
        ("listing", listing),
        ("conversions", conversions),
        ("reading", reading),
    ];
    let named = |(name, _): &(&str, Measure)| args.iter().any(|arg| arg == name);
    let all = !parts.iter().any(named);
    let mut chosen = parts.iter().filter(|part| all || named(part));
    chosen.try_for_each(|(_, measure)| measure())
}

/// Runs the conversion that the arguments specify. Called in a separate process.
fn child(args: &[String]) -> Outcome<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["to", model, prefix, ..] => {
            let source = PaddleModel::open(model)?.source()?;
            ModelSplitter.write_with(
                source,
                prefix,
                &SplitOptions::new()
                    .compression(proto_splitter::record_file::Compression::None)
                    .always_chunked(true),
            )?;
        }
        ["back", message, folder, ..] => {
            write_model(message, folder, &PaddleWriteOptions::new())?;
        }
        _ => return Err("no such conversion".into()),
    }
    Ok(())
}

fn program(folder: &Path, count: u64, dims: &[i64]) -> Outcome<()> {
    let var = |at| VarDesc {
        name: format!("w_{at:04}"),
        persistable: Some(true),
        r#type: VarType {
            r#type: Type::LodTensor.into(),
            lod_tensor: Some(LoDTensorDesc {
                tensor: TensorDesc {
                    data_type: Type::Fp32.into(),
                    dims: dims.to_vec(),
                },
                lod_level: Some(0),
            }),
            ..VarType::default()
        },
        ..VarDesc::default()
    };
    let block = BlockDesc {
        parent_idx: -1,
        vars: (0..count).map(var).collect(),
        ..BlockDesc::default()
    };
    let program = ProgramDesc {
        blocks: vec![block],
        version: Some(Version {
            version: Some(2_006_002),
        }),
        ..ProgramDesc::default()
    };
    fs::write(folder.join("model.pdmodel"), program.encode_to_vec())?;
    Ok(())
}

/// Writes a model with `count` tensors, each of which has `bytes` random bytes.
fn model(folder: &Path, count: u64, bytes: u64) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    let rows = bytes / 4 / 1024;
    program(folder, count, &[rows.cast_signed(), 1024])?;
    let path = folder.join("model.pdiparams");
    let mut writer = ParameterWriter::create(path, Layout::Paddle, false)?;
    for at in 0..count {
        writer.write(
            &TensorSpec::dense(Type::Fp32, [rows, 1024]),
            &mut Noise(at + 1),
        )?;
    }
    Ok(writer.finish()?)
}

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

/// Returns the number of bytes that this process has read so far.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|count| count.parse().ok())
        .unwrap_or_default()
}

fn listing() -> Outcome<()> {
    let folder = scratch_folder()?;
    // The tensors' data are holes in the file, since only headers are read.
    let rows = LISTED_BYTES / LISTED / 4 / 1024;
    program(folder.path(), LISTED, &[rows.cast_signed(), 1024])?;
    let mut file = File::create(folder.path().join("model.pdiparams"))?;
    let mut header = Vec::new();
    let spec = TensorSpec::dense(Type::Fp32, [rows, 1024]);
    // This writes the header, and then fails, since there is no data.
    let _ = write_stream(&mut header, &spec, Layout::Paddle, &mut io::empty());
    for _ in 0..LISTED {
        file.write_all(&header)?;
        file.seek(SeekFrom::Current((rows * 4096).cast_signed()))?;
    }
    let size = file.stream_position()?;
    file.set_len(size)?;
    let program = fs::metadata(folder.path().join("model.pdmodel"))?.len();
    let before = bytes_read();
    let overhead = bytes_read() - before;
    let before = bytes_read();
    let opened = PaddleModel::open(folder.path())?;
    let read = bytes_read() - before - overhead;
    assert_eq!(opened.parameters().count() as u64, LISTED);
    let times = in_turns(
        9,
        &mut [Contestant::new("list", || {
            Ok(PaddleModel::open(folder.path())?)
        })],
    )?;
    let what = format!(
        "list {LISTED} tensors of {} MiB: {read} bytes read, {program} of them the program's",
        size / MIB
    );
    println!(
        "| {what} | {:.4} | {:.4} | | | | | |",
        times[0].median(),
        times[0].best()
    );
    Ok(())
}

fn conversions() -> Outcome<()> {
    let folder = scratch_folder()?;
    let path = |name: &str| folder.path().join(name);
    let bytes = CONVERTED_BYTES / scale(24);
    model(&path("model"), CONVERTED, bytes)?;
    let run = |command: &mut Command| -> Outcome<Duration> {
        touch(CONVERTED * bytes)?;
        let start = Instant::now();
        let status = command.status()?;
        let took = start.elapsed();
        if status.success() {
            Ok(took)
        } else {
            Err(format!("{command:?}: {status}").into())
        }
    };
    let myself = std::env::current_exe()?;
    let convert = |how: &str, from: &Path, to: &Path| {
        let mut command = Command::new(&myself);
        command.arg("--child").arg(how).arg(from).arg(to);
        command
    };
    let copied = |from: &Path| -> Outcome<Duration> {
        let copy = path("copy");
        let script = "cp \"$0\" \"$1\" && sync \"$1\"";
        let took = run(Command::new("sh").args(["-c", script]).args([from, &copy]))?;
        fs::remove_file(copy)?;
        Ok(took)
    };
    // An input is copied and converted while the same files exist, since the time to write a file
    // depends on the other files in memory.
    let (one, back) = (path("m.cpb"), path("back"));
    let copies = || -> Outcome<Vec<Duration>> {
        let of_model = copied(&path("model/model.pdiparams"))?;
        run(&mut convert("to", &path("model"), &path("m")))?;
        let of_one = copied(&one)?;
        fs::remove_file(&one)?;
        Ok(vec![of_model, of_one])
    };
    let there_and_back = || -> Outcome<Vec<Duration>> {
        let to = run(&mut convert("to", &path("model"), &path("m")))?;
        let from = run(&mut convert("back", &one, &back))?;
        fs::remove_file(&one)?;
        fs::remove_dir_all(&back)?;
        Ok(vec![to, from])
    };
    let times = in_turns(
        3,
        &mut [
            Contestant::timed(["cp and sync", "cp and sync of the one file"], copies),
            Contestant::timed(["to one file", "back"], there_and_back),
        ],
    )?;
    let (_, to) = watch(&mut convert("to", &path("model"), &path("m")))?;
    let (_, from) = watch(&mut convert("back", &path("m.cpb"), &path("back")))?;
    for (at, peak) in [(0, to), (1, from)] {
        let (reference, row) = (&times[at], &times[at + 2]);
        let what = format!("{} MiB {}", CONVERTED * bytes / MIB, row.name);
        line(&what, row, reference, &(peak.anonymous / MIB).to_string());
    }
    Ok(())
}

/// Allocates `bytes` bytes and frees them, so that the next allocation is fast. A virtual machine
/// returns free memory to its host, and needs seconds to get it back.
fn touch(bytes: u64) -> Outcome<()> {
    drop(black_box(vec![1u8; usize::try_from(bytes)?]));
    Ok(())
}

fn line(what: &str, ours: &Times, reference: &Times, memory: &str) {
    println!(
        "| {what} | {:.2} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {memory} |",
        ours.median(),
        ours.best(),
        reference.name,
        reference.median(),
        reference.best(),
        ours.best() / reference.best(),
    );
}

/// Python script that loads all parameters with Paddle. It prints the time in seconds, without that
/// of the imports.
const PADDLE: &str = r#"
import sys, time, warnings
warnings.filterwarnings("ignore")
import paddle
from paddle import static
paddle.enable_static()
guard = paddle.pir_utils.OldIrGuard()
guard.__enter__()
folder = sys.argv[1]
with open(folder + "/model.pdmodel", "rb") as file:
    program = static.deserialize_program(file.read())
executor = static.Executor(paddle.CPUPlace())
wanted = [v for v in program.list_vars() if v.persistable]
touched = bytearray(b"\x01") * int(sys.argv[2])
del touched
start = time.perf_counter()
with static.scope_guard(static.Scope()):
    static.load_vars(executor, folder, main_program=program, vars=wanted, filename="model.pdiparams")
    took = time.perf_counter() - start
    tensor = static.global_scope().find_var(wanted[-1].name).get_tensor()
    assert tensor.shape()[1] == 1024
print(took)
"#;

fn reading() -> Outcome<()> {
    let python =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(".interop/paddle-3.3.1-venv/bin/python");
    if !python.is_file() {
        println!("| reading beside Paddle: left out, since it isn't installed | | | | | | | |");
        return Ok(());
    }
    let folder = scratch_folder()?;
    let bytes = READ_BYTES / scale(24);
    model(folder.path(), READ, bytes)?;
    let ours = || -> Outcome<Vec<Duration>> {
        // The first read isn't timed. It has the same effect as `touch`, but with pages of the
        // right size.
        drop(PaddleModel::open(folder.path())?.read_all(None)?);
        let start = Instant::now();
        let model = PaddleModel::open(folder.path())?;
        let read = model.read_all(None)?;
        let took = start.elapsed();
        assert_eq!(read.len() as u64, READ);
        Ok(vec![took])
    };
    let paddle = || -> Outcome<Vec<Duration>> {
        let output = Command::new(&python)
            .args(["-c", PADDLE])
            .arg(folder.path())
            .arg((READ * bytes).to_string())
            .output()?;
        let seconds = String::from_utf8(output.stdout)?;
        let seconds = seconds.lines().last().unwrap_or_default().parse::<f64>();
        let seconds = seconds.map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok(vec![Duration::from_secs_f64(seconds)])
    };
    let sizes = PaddleModel::open(folder.path())?;
    let sizes = sizes
        .parameters()
        .map(|(_, parameter)| parameter.stream().data());
    let mut buffers = sizes
        .map(|data| Ok(vec![1; usize::try_from(data.end - data.start)?]))
        .collect::<Outcome<Vec<_>>>()?;
    let to_buffers = || -> Outcome<Vec<Duration>> {
        let start = Instant::now();
        let buffers = buffers.iter_mut().map(|buffer| &mut buffer[..]);
        PaddleModel::open(folder.path())?.read_all_to(buffers, None)?;
        Ok(vec![start.elapsed()])
    };
    let times = in_turns(
        5,
        &mut [
            Contestant::timed(["Paddle 3.3.1"], paddle),
            Contestant::timed(["read"], ours),
            Contestant::timed(["read to buffers"], to_buffers),
        ],
    )?;
    for (row, to) in [
        (&times[1], "fresh memory"),
        (&times[2], "the caller's buffers"),
    ] {
        let size = READ * bytes / MIB;
        let what = format!("read {READ} tensors of {size} MiB in all to {to}");
        line(&what, row, &times[0], "");
    }
    Ok(())
}
