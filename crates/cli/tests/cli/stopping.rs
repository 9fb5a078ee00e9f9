//! Tests for interrupted commands, and for full disks.
//!
//! Each test runs in its own process. A child process has all open files of its parent for a moment when it starts, so a file that another
//! test has locked would stay locked.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use proto_splitter_testkit::own_process::in_own_process;
use tempfile::TempDir;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Creates a graph with many small nodes, and one node with an incompressible attribute of `bytes` bytes. Returns the graph's bytes.
fn graph(dir: &Path, bytes: usize) -> Vec<u8> {
    let mut seed = 1u64;
    let noise: Vec<u8> = (0..bytes)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        })
        .collect();
    let mut graph = Vec::new();
    for piece in noise.chunks(300_000) {
        // The field `node { name }`.
        let mut node = vec![0x0a];
        prost_reflect::prost::encoding::encode_varint(piece.len() as u64, &mut node);
        node.extend_from_slice(piece);
        graph.push(0x0a);
        prost_reflect::prost::encoding::encode_varint(node.len() as u64, &mut graph);
        graph.extend(node);
    }
    fs::write(dir.join("graph.pb"), &graph).unwrap();
    graph
}

/// Returns the bytes of a SavedModel that contains the graph.
fn model_of(graph: &[u8]) -> Vec<u8> {
    let field = |content: &[u8]| {
        let mut field = vec![0x12];
        prost_reflect::prost::encoding::encode_varint(content.len() as u64, &mut field);
        [&field[..], content].concat()
    };
    [&b"\x08\x01"[..], &field(&field(graph))].concat()
}

const SPLIT: &str =
    "split graph.pb -o out/graph --message tensorflow.GraphDef --max-chunk-size 256KiB";

#[test]
fn a_disk_that_is_full_at_any_moment_leaves_no_file() {
    in_own_process(|| {
        let folder = TempDir::new().unwrap();
        let dir = folder.path();
        let graph_bytes = graph(dir, 2_000_000);
        fs::write(dir.join("value"), vec![b'v'; 800_000]).unwrap();
        // The shell limits the size of files to a number of blocks. Since SIGXFSZ is ignored, a write beyond the limit fails.
        let in_shell = |blocks: u64, command: &str| {
            let script = format!("trap '' XFSZ; ulimit -f {blocks}; {command}");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(dir);
            command.output().unwrap()
        };
        let limited = |blocks, arguments: &str| {
            let command = format!("exec {} {arguments}", env!("CARGO_BIN_EXE_protosplit"));
            in_shell(blocks, &command)
        };
        // Depending on the shell, a block has 512 bytes or 1 KiB, so its size is measured.
        in_shell(1, "head -c 5000 /dev/zero > block");
        let block = fs::metadata(dir.join("block")).unwrap().len();
        let out = dir.join("out");
        fs::create_dir(&out).unwrap();
        let whole = limited(1_000_000, &format!("{SPLIT} --compression zstd:1"));
        assert_eq!(whole.status.code(), Some(0), "{whole:?}");
        fs::rename(out.join("graph.cpb"), dir.join("graph.cpb")).unwrap();
        fs::create_dir(dir.join("model")).unwrap();
        fs::write(dir.join("model/saved_model.pb"), model_of(&graph_bytes)).unwrap();
        let whole = limited(1_000_000, "split model -o chunked --max-chunk-size 256KiB");
        assert_eq!(whole.status.code(), Some(0), "{whole:?}");
        let in_files = "--profile extended --max-file-size 1500KiB --compression none";
        let replace = "--with value --compression none -o out/other";
        let in_one = SPLIT.replace("out/graph", "extended");
        let whole = limited(1_000_000, &format!("{in_one} --profile extended"));
        assert_eq!(whole.status.code(), Some(0), "{whole:?}");
        let to_files = "--max-file-size 1500KiB";
        for command in [
            format!("{SPLIT} --compression none --threads 1"),
            format!("{SPLIT} --compression none --threads 3"),
            format!("{SPLIT} --compression zstd:1 --threads 1"),
            format!("{SPLIT} --compression zstd:1 --threads 3"),
            format!("{SPLIT} {in_files} --threads 1"),
            format!("{SPLIT} {in_files} --threads 3"),
            "merge graph.cpb -o out/graph.pb --threads 1".to_owned(),
            "merge graph.cpb -o out/graph.pb --threads 3".to_owned(),
            "recompress graph.cpb -o out/other.cpb --compression none".to_owned(),
            format!("recompress extended.cpb -o out/other.cpb --compression none {to_files}"),
            format!("replace graph.cpb node[1].name {replace}"),
            format!("replace extended.cpb node[1].name {replace}.cpb {to_files}"),
            format!("replace graph.pb node[1].name {replace} --message tensorflow.GraphDef"),
            "get graph.cpb '' -o out/part".to_owned(),
            "get graph.pb '' -o out/part".to_owned(),
            "split model -o out/chunked --max-chunk-size 256KiB --compression none".to_owned(),
            "merge chunked -o out/plain".to_owned(),
            "convert model out/chunked --to cpb".to_owned(),
            "convert chunked out/plain --to pb".to_owned(),
            "recompress chunked -o out/other --compression none".to_owned(),
            "tree graph.pb --message tensorflow.GraphDef --html out/page.html".to_owned(),
        ] {
            // With a limit that is never reached, the command succeeds.
            let output = limited(1_000_000, &command);
            assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
            let largest = empty(&out);
            let last = (largest - 1) / block;
            // The limits are at positions from the first byte to the last block, which contains the trailer.
            for blocks in [
                0,
                1,
                last / 8,
                last / 3,
                last / 2,
                last * 9 / 10,
                last - 1,
                last,
            ] {
                let output = limited(blocks, &command);
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{blocks}, {command}: {output:?}"
                );
                assert!(names(&out).is_empty(), "{blocks}, {command}");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains("out/"), "{blocks}, {command}: {said}");
            }
        }
    });
}

/// Removes the contents of a folder, and returns the size of the largest file in it, in bytes.
fn empty(folder: &Path) -> u64 {
    let mut largest = 0;
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            largest = largest.max(empty(&path));
            fs::remove_dir(path).unwrap();
        } else {
            largest = largest.max(fs::metadata(&path).unwrap().len());
            fs::remove_file(path).unwrap();
        }
    }
    largest
}

#[test]
fn whatever_is_interrupted_while_it_writes_leaves_nothing() {
    in_own_process(|| {
        let folder = TempDir::new().unwrap();
        let dir = folder.path();
        let out = dir.join("out");
        fs::create_dir(&out).unwrap();
        // Creates a file that ends with many zeros. They need no disk space, but compressing or copying them takes a long time.
        let sparse = |name: &str, front: &[u8], len: u64| {
            fs::write(dir.join(name), front).unwrap();
            let file = File::options().append(true).open(dir.join(name)).unwrap();
            file.set_len(front.len() as u64 + len).unwrap();
        };
        let len = 2_u64 << 30;
        // Returns the tags and lengths of nested fields with these numbers.
        let heads = |numbers: &[u8]| {
            let mut heads = Vec::new();
            for number in numbers {
                let mut head = vec![number << 3 | 2];
                let size = len + heads.len() as u64;
                prost_reflect::prost::encoding::encode_varint(size, &mut head);
                heads = [head, heads].concat();
            }
            heads
        };
        sparse("tensor.pb", &heads(&[4]), len);
        sparse("value", b"", len);
        fs::create_dir(dir.join("model")).unwrap();
        // These are the numbers of meta_graphs, graph_def, node, attr, value, tensor and tensor_content.
        let front = heads(&[4, 8, 2, 5, 1, 2, 2]);
        sparse("model/saved_model.pb", &front, len);
        let type_name = "--message tensorflow.TensorProto";
        let split = "split tensor.pb -o tensor --compression zstd:1 --max-chunk-size 64MiB";
        let output = Command::new(env!("CARGO_BIN_EXE_protosplit"))
            .args(split.split(' ').chain(type_name.split(' ')))
            .current_dir(dir)
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let signals = [("-INT", 2), ("-TERM", 15)].into_iter().cycle();
        let commands = [
            "merge tensor.cpb -o out/tensor.pb",
            "recompress tensor.cpb -o out/other.cpb --compression none",
            "replace tensor.cpb tensor_content --with value -o out/other.cpb --compression none",
            "replace tensor.pb tensor_content --with value -o out/other.pb",
            "get tensor.cpb tensor_content -o out/part",
            "get tensor.pb tensor_content -o out/part",
            "split model -o out/chunked --compression zstd:1",
            "convert model out/chunked --to cpb",
        ];
        for (command, (name, number)) in commands.into_iter().zip(signals) {
            let mut child = Command::new(env!("CARGO_BIN_EXE_protosplit"));
            child.args(command.split(' ')).current_dir(dir);
            if command.contains("tensor_content") || command.starts_with("merge") {
                child.args(type_name.split(' '));
            }
            let mut child = child
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while names(&out).is_empty() {
                assert_eq!(child.try_wait().unwrap(), None, "{command}");
                sleep(Duration::from_millis(1));
            }
            let pid = child.id().to_string();
            let sent = Command::new("kill").args([name, &pid]).status().unwrap();
            assert!(sent.success());
            assert_eq!(child.wait().unwrap().signal(), Some(number), "{command}");
            assert!(names(&out).is_empty(), "{command}");
        }
    });
}

/// Runs the command until it reports progress, and then sends signals to it. Returns the signal that ended the process.
fn stopped(dir: &Path, mut command: Command, signals: &[&str]) -> Option<i32> {
    command.current_dir(dir);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut first = [0];
    stderr.read_exact(&mut first).unwrap();
    let pid = child.id().to_string();
    for signal in signals {
        let sent = Command::new("kill").args([signal, &pid[..]]).status();
        assert!(sent.unwrap().success());
    }
    let mut said = first.to_vec();
    stderr.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("splitting: "), "{said}");
    child.wait().unwrap().signal()
}

#[test]
fn what_is_interrupted_ends_by_that_signal_and_leaves_nothing() {
    in_own_process(|| {
        let folder = TempDir::new().unwrap();
        let dir = folder.path();
        // With the compression below, splitting this graph takes many seconds.
        let graph_bytes = graph(dir, 40_000_000);
        fs::create_dir(dir.join("out")).unwrap();
        let how = ["--compression", "zstd:19", "--progress", "always"];
        let file = ["split", "graph.pb", "-o", "out/graph", "--max-chunk-size"];
        let type_name = ["1MiB", "--message", "tensorflow.GraphDef"];
        let arguments = [&file[..], &type_name, &how].concat();
        let protosplit = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
            command.args(arguments);
            command
        };
        assert_eq!(stopped(dir, protosplit(&arguments), &["-INT"]), Some(2));
        assert!(names(&dir.join("out")).is_empty());

        // The process ignores SIGHUP, as if it were run by `nohup`.
        let mut hangups_ignored = Command::new("sh");
        let script = "trap '' HUP; exec \"$0\" \"$@\"";
        hangups_ignored.args(["-c", script, env!("CARGO_BIN_EXE_protosplit")]);
        hangups_ignored.args(&arguments);
        let ended_by = stopped(dir, hangups_ignored, &["-HUP", "-TERM"]);
        assert_eq!(ended_by, Some(15));
        assert!(names(&dir.join("out")).is_empty());

        fs::create_dir(dir.join("model")).unwrap();
        fs::write(dir.join("model/saved_model.pb"), model_of(&graph_bytes)).unwrap();
        let of_model = [
            "split",
            "model",
            "-o",
            "out/model",
            "--max-chunk-size",
            "1MiB",
        ];
        let of_model = protosplit(&[&of_model[..], &how].concat());
        assert_eq!(stopped(dir, of_model, &["-TERM"]), Some(15));
        assert!(names(&dir.join("out")).is_empty());
    });
}

#[test]
fn what_writes_to_a_pipe_that_nobody_empties_ends_at_once() {
    in_own_process(|| {
        let folder = TempDir::new().unwrap();
        let dir = folder.path();
        graph(dir, 2_000_000);
        let output = Command::new(env!("CARGO_BIN_EXE_protosplit"))
            .args("split graph.pb --message tensorflow.GraphDef --max-chunk-size 256KiB".split(' '))
            .current_dir(dir)
            .output();
        assert!(output.unwrap().status.success());
        for command in [
            "split graph.pb --message tensorflow.GraphDef --max-chunk-size 256KiB -o -",
            "split graph.pb --message tensorflow.GraphDef -o -",
            "merge graph.cpb -o -",
            "get graph.cpb .",
        ] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_protosplit"))
                .args(command.split(' '))
                .current_dir(dir)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // Only one byte of the output is read, so that the pipe becomes full.
            let mut pipe = child.stdout.take().unwrap();
            pipe.read_exact(&mut [0]).unwrap();
            let pid = child.id().to_string();
            let sent = Command::new("kill").args(["-INT", &pid]).status();
            assert!(sent.unwrap().success());
            // A command that waited for the pipe to be read would never end.
            let ended = (0..6000).find_map(|_| {
                sleep(Duration::from_millis(10));
                child.try_wait().unwrap()
            });
            child.kill().unwrap();
            assert_eq!(
                ended.and_then(|status| status.signal()),
                Some(2),
                "{command}"
            );
        }
    });
}
