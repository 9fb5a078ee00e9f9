//! A benchmark that compares merges to memory with TensorFlow's own `Merger::Read` and with
//! Python's protobuf, which run alternately on the same files:
//!
//!     tests/interop/setup.sh
//!     cargo bench --bench peers [-- --quick] [w1 w2 w3 w3-coarse] [none zstd brotli]
//!
//! TensorFlow and Python each run in one separate process, which times the work itself. `--quick`
//! makes the messages 64 times smaller, to check that the benchmark runs; the names select messages
//! and compressions.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "peers/limit.rs"]
mod limit;

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::{Merger, ReadOptions};
use proto_splitter::proto::{graph_def::GraphDef, saved_model, saved_model::SavedModel};
use proto_splitter::split::{ChunkCompression, Source, SplitExt};
use proto_splitter::{GraphDefSplitter, SAVED_MODEL, SavedModelSplitter};
use proto_splitter_testkit::turns::{Contestant, Times, in_turns};
use proto_splitter_testkit::workloads::Workload;

use limit::Limit;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: u64 = 5;

/// Factor by which `--quick` makes the messages smaller, to check that the benchmark runs.
const QUICK: u64 = 64;

/// Compressions of the chunked files, each at its default level.
const COMPRESSIONS: [&str; 3] = ["none", "zstd", "brotli"];

const TENSORFLOW: &str = "TensorFlow";
const TOUCHED: &str = "to touched memory";
const FRESH: &str = "to fresh memory";
const TYPED: &str = "to a typed message";
const LIMIT: &str = "limit";
const PARSE: &str = "Python parse";
const SERIALIZE: &str = "Python serialize";

/// Names of the measured operations. The value is true if the operation is compared with
/// TensorFlow's. Python's operations aren't, since their input is the whole message.
const COLUMNS: [(&str, bool); 7] = [
    (TENSORFLOW, false),
    (TOUCHED, true),
    (FRESH, true),
    (TYPED, true),
    (LIMIT, true),
    (PARSE, false),
    (SERIALIZE, false),
];

/// Returns how many times faster than TensorFlow an operation should be; `None` if there is no
/// target.
fn target(workload: Workload, compression: &str, name: &str) -> Option<u32> {
    use Workload::{W1, W2};
    match (compression, name, workload) {
        ("none", TOUCHED, _) => Some(10),
        ("none", FRESH, _) => Some(5),
        ("none", TYPED, W1) => Some(5),
        ("none", TYPED, _) => Some(1),
        ("zstd", TOUCHED, W1) => Some(6),
        ("zstd", TOUCHED, W2) => Some(10),
        ("zstd", TOUCHED, _) => Some(3),
        ("brotli", TOUCHED, _) => Some(2),
        _ => None,
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let scale = if asked("--quick") { QUICK } else { 1 };
    let any = |names: &[&str]| names.iter().any(|name| asked(name));
    let workloads = Workload::MERGED.map(Workload::name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join(".interop/tf_read").exists() {
        println!("peers: no TensorFlow to compare with; tests/interop/setup.sh installs it");
        return Ok(());
    }
    let target = root.join("target");
    fs::create_dir_all(&target)?;
    let folder = tempfile::tempdir_in(target)?;
    let mut tensorflow = Peer::start(Command::new(root.join(".interop/tf_read")))?;
    let mut python = Command::new(root.join(".interop/tensorflow-venv/bin/python"));
    python.arg(root.join("benches/python_protobuf.py"));
    let mut python = Peer::start(python)?;

    let threads = thread::available_parallelism()?;
    println!("Ours on {threads} threads, TensorFlow and Python on one, which is all they use.\n");
    println!(
        "Seconds are the best of {ROUNDS} turns, and in brackets the median. Then follows how many times faster than TensorFlow's best"
    );
    println!("that is, and in brackets how many times it is to be at least.\n");
    println!("| file | {} |", COLUMNS.map(|(name, _)| name).join(" | "));
    println!("| --- |{}", " --- |".repeat(COLUMNS.len()));
    for workload in Workload::MERGED {
        if any(&workloads) && !asked(workload.name()) {
            continue;
        }
        let source = folder.path().join("message.pb");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&source)?);
        workload.message(scale).write_to(&mut out)?;
        out.flush()?;
        for compression in COMPRESSIONS {
            if any(&COMPRESSIONS) && !asked(compression) {
                continue;
            }
            let prefix = split(workload, scale, &source, compression.parse()?)?;
            let times = merges(workload, &source, &prefix, &mut tensorflow, &mut python)?;
            print(workload, compression, &times);
            fs::remove_file(prefix.with_extension("cpb"))?;
        }
    }
    Ok(())
}

/// Splits the message to a chunked file next to it. Returns the file's prefix.
fn split(
    workload: Workload,
    scale: u64,
    source: &Path,
    compression: ChunkCompression,
) -> Outcome<PathBuf> {
    let descriptor = saved_model::descriptor_pool()
        .get_message_by_name(workload.type_name())
        .ok_or("a type of the schema")?;
    let options = workload.split_options(scale).compression(compression);
    let prefix = source.with_file_name(workload.name());
    let source = Source::open(source, descriptor)?;
    let written = match workload.type_name() {
        SAVED_MODEL => SavedModelSplitter.write_with(source, &prefix, &options)?,
        _ => GraphDefSplitter.write_with(source, &prefix, &options)?,
    };
    written
        .is_split
        .then_some(prefix)
        .ok_or_else(|| "nothing was cut".into())
}

/// Measures all operations on a chunked file, and those of TensorFlow and Python on the same
/// message.
fn merges(
    workload: Workload,
    source: &Path,
    prefix: &Path,
    tensorflow: &mut Peer,
    python: &mut Peer,
) -> Outcome<Vec<Times>> {
    let chunked = prefix.with_extension("cpb");
    // Every run opens the file, since TensorFlow's `Read` does so, too.
    let open = || ChunkedFile::open(&chunked);
    let expected = fs::read(source)?;
    let mut touched = vec![1; expected.len()];
    let options = ReadOptions::new();
    open()?.merge_into(&mut touched, &options)?;
    if touched != expected {
        return Err("the merged message differs".into());
    }
    drop(expected);
    let is_model = workload.type_name() == SAVED_MODEL;
    let kind = if is_model { "savedmodel" } else { "graphdef" };
    let [tf_job, python_job] = [(prefix, "\t-"), (source, "")]
        .map(|(path, rest)| format!("{}\t{kind}{rest}", path.display()));
    let mut limit = Limit::of(&chunked)?;
    let mut contestants = vec![
        Contestant::timed([TENSORFLOW], || tensorflow.ask(&tf_job, 1)),
        Contestant::new(TOUCHED, || {
            Ok(black_box(open()?.merge_into(&mut touched, &options)?))
        }),
        Contestant::new(FRESH, || Ok(black_box(open()?.merge_to_bytes(&options)?))),
        if is_model {
            Contestant::new(TYPED, || {
                let model: SavedModel = Merger::new().options(&options).read(prefix)?;
                Ok(black_box(model))
            })
        } else {
            Contestant::new(TYPED, || {
                let graph: GraphDef = Merger::new().options(&options).read(prefix)?;
                Ok(black_box(graph))
            })
        },
        Contestant::timed([PARSE, SERIALIZE], || python.ask(&python_job, 2)),
    ];
    if let Some(limit) = &mut limit {
        contestants.push(Contestant::new(LIMIT, || limit.run()));
    }
    in_turns(ROUNDS, &mut contestants)
}

fn print(workload: Workload, compression: &str, times: &[Times]) {
    let time = |name: &str| times.iter().find(|times| times.name == name);
    let theirs = time(TENSORFLOW).map_or(f64::NAN, Times::best);
    print!("| {} {compression} |", workload.name());
    for (name, is_compared) in COLUMNS {
        let Some(time) = time(name) else {
            print!(" |");
            continue;
        };
        print!(" {:.3} ({:.3})", time.best(), time.median());
        if is_compared {
            print!(", {:.1}x", theirs / time.best());
        }
        if let Some(least) = target(workload, compression, name) {
            print!(" ({least}x)");
        }
        print!(" |");
    }
    println!();
}

/// A process that runs one job for each line of its input. Its answer is `ok`, followed by the time
/// of each part of the job in seconds.
struct Peer {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(mut command: Command) -> Outcome<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let jobs = child.stdin.take().ok_or("no pipe to the peer")?;
        let answers = child.stdout.take().ok_or("no pipe from the peer")?;
        let answers = BufReader::new(answers);
        Ok(Peer {
            child,
            jobs,
            answers,
        })
    }

    fn ask(&mut self, job: &str, parts: usize) -> Outcome<Vec<Duration>> {
        writeln!(self.jobs, "{job}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let mut words = answer.split('\t');
        if words.next() != Some("ok") {
            return Err(format!("{job}: {answer:?}").into());
        }
        let seconds = words
            .take(parts)
            .map(|word| Ok(Duration::from_secs_f64(word.trim_end().parse()?)));
        seconds.collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // At the end of its input, the process would exit by itself, but perhaps later than this
        // one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
