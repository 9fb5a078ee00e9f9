//! Benchmark of reading a message from a store. The store is a server in this process, which
//! listens only on the loopback address, and needs 30 ms for each response, like real stores.
//!
//!     cargo bench -p proto-splitter-object-store --bench object_store            64 MiB
//!     cargo bench -p proto-splitter-object-store --bench object_store -- 3GiB    3 GiB
//!     ... -- 3GiB 30 90                                        30 ms, and 90 MiB/s per connection
//!
//! The benchmark prints the round trips and bytes that are needed to open the file and read one
//! value. It also compares the time of a merge to a file with the time of downloading the same
//! bytes over the same number of connections. The values and the merged bytes are checked. The
//! targets are at most 4 round trips, 1.1 times the value's bytes, and 1.2 times the time of the
//! download.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a benchmark"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost_reflect::ReflectMessage;
use prost_reflect::prost_types::FileDescriptorProto;
use proto_splitter_core::merge::{ChunkStore, Limits, ReadOptions};
use proto_splitter_core::split::{ChunkCompression, SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_object_store::{
    DEFAULT_AT_ONCE, DEFAULT_REQUEST_SIZE, ObjectLocation, ObjectReadOptions, ObjectReader,
    open_chunked,
};

const MIB: u64 = 1 << 20;

/// Sizes of consecutive values in the message, in MiB. The sequence is repeated.
const VALUES: [u64; 8] = [4, 4, 4, 1, 4, 4, 4, 16];

/// Number of measurements of the download and of the merge. Only the fastest of each is reported.
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>().unwrap());
    let size = arguments.first().map_or(64 * MIB, |text| size_of(text));
    let latency = Duration::from_millis(number(1).unwrap_or(30));
    let pace = number(2).map(|mebibytes| mebibytes * MIB);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("message.pb");
    let crc32c = write_message(&source, size);
    let descriptor = FileDescriptorProto::default().descriptor();
    let options = SplitOptions::new()
        .compression("none".parse::<ChunkCompression>().unwrap())
        .max_chunk_size(size.div_ceil(4).min(1 << 30));
    let split = Source::open(&source, descriptor).unwrap();
    let written = SizeSplitter.write_with(split, folder.path().join("m"), &options);
    let chunked = written.unwrap().path;
    let server = Server::start(&chunked, latency, pace);
    println!(
        "{} MiB in {} chunks, {} ms an answer",
        std::fs::metadata(&source).unwrap().len() / MIB,
        open(&server).len(),
        latency.as_millis()
    );
    println!("| what | round trips | requests | bytes fetched | of its bytes |");
    println!("| --- | --- | --- | --- | --- |");
    for (index, mebibytes) in [(3, 1), (4, 4), (7, 16)] {
        let original = value_of(&source, index);
        server.take_log();
        let file = open(&server);
        let value = file.get(&format!("4[{index}].1").parse().unwrap()).unwrap();
        assert!(value == original, "another value");
        drop(file);
        let log = server.take_log();
        let bytes: u64 = log.iter().map(|served| served.bytes).sum();
        let (rounds, ratio) = (rounds(&log), bytes as f64 / original.len() as f64);
        println!(
            "| open, one value of {mebibytes} MiB | {rounds} | {} | {bytes} | {ratio:.3} |",
            log.len()
        );
        assert!(rounds <= 4, "{rounds} round trips");
        // For large values, the bytes that are fetched at both ends of the file hardly matter.
        assert!(mebibytes < 4 || ratio <= 1.1, "{ratio:.3} times its bytes");
    }
    let (mut download, mut merge) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let target = folder.path().join("target");
        let begun = Instant::now();
        server.download(&target);
        download = download.min(begun.elapsed().as_secs_f64());
        std::fs::remove_file(&target).unwrap();
        let begun = Instant::now();
        let mut sink = BufWriter::with_capacity(1 << 20, File::create(&target).unwrap());
        let merged = open(&server)
            .merge_to(&mut sink, &ReadOptions::new())
            .unwrap();
        sink.flush().unwrap();
        merge = merge.min(begun.elapsed().as_secs_f64());
        assert_eq!((merged.crc32c, merged.byte_exact), (crc32c, Some(true)));
        std::fs::remove_file(&target).unwrap();
    }
    let ratio = merge / download;
    println!("| what | seconds |");
    println!("| --- | --- |");
    println!("| download by {DEFAULT_AT_ONCE} connections | {download:.2} |");
    println!("| merge | {merge:.2} |");
    println!("a merge takes {ratio:.2} times the download (aim: 1.20)");
}

fn size_of(text: &str) -> u64 {
    let (number, unit) = match text.strip_suffix("GiB") {
        Some(number) => (number, 1 << 30),
        None => (text.strip_suffix("MiB").unwrap_or(text), MIB),
    };
    number.parse::<u64>().unwrap() * unit
}

fn open(
    server: &Server,
) -> proto_splitter_core::container::ChunkedFile<Arc<dyn record_file::ReadAt>> {
    let options = ObjectReadOptions::new();
    let location = ObjectLocation::parse(&server.url).unwrap();
    let reader = ObjectReader::open(&location, &options).unwrap();
    open_chunked(reader, &Limits::new(), &options).unwrap()
}

/// Writes a message of about `size` bytes, and returns its crc32c.
fn write_message(path: &Path, size: u64) -> u32 {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let (mut crc32c, mut written, mut state) = (0, 0, 0x9e37_79b9_7f4a_7c15u64);
    for mebibytes in VALUES.iter().cycle() {
        if written >= size && written > VALUES.iter().sum::<u64>() * MIB {
            break;
        }
        let len = mebibytes * MIB;
        // Each field is a `message_type` with a long `name`.
        let mut field = vec![4 << 3 | 2];
        prost::encoding::encode_varint(field_len(len), &mut field);
        field.push(1 << 3 | 2);
        prost::encoding::encode_varint(len, &mut field);
        let end = field.len() + len as usize;
        while field.len() < end {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The field is a string, so its bytes must be letters.
            field.extend(state.to_le_bytes().map(|byte| b'@' | byte & 63));
        }
        field.truncate(end);
        crc32c = crc32c::crc32c_append(crc32c, &field);
        file.write_all(&field).unwrap();
        written += field.len() as u64;
    }
    file.flush().unwrap();
    crc32c
}

/// Returns the value with this index, which is read from the message's file.
fn value_of(path: &Path, index: usize) -> String {
    let before: u64 = VALUES[..index]
        .iter()
        .map(|mebibytes| field_len(field_len(mebibytes * MIB)))
        .sum();
    let len = VALUES[index] * MIB;
    let mut bytes = vec![0; len as usize];
    let begin = before + field_len(field_len(len)) - len;
    File::open(path)
        .unwrap()
        .read_exact_at(&mut bytes, begin)
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

fn field_len(len: u64) -> u64 {
    1 + prost::encoding::encoded_len_varint(len) as u64 + len
}

/// The log entry of a request that was answered.
struct Served {
    bytes: u64,
    from: Instant,
    to: Instant,
}

/// Returns the number of round trips. Requests that begin before the first response of a round trip
/// has ended belong to the same round trip.
fn rounds(log: &[Served]) -> usize {
    let mut log: Vec<_> = log.iter().collect();
    log.sort_by_key(|served| served.from);
    let (mut rounds, mut end) = (0, None);
    for served in log {
        if end.is_none_or(|end| served.from >= end) {
            rounds += 1;
            end = Some(served.to);
        }
        end = end.map(|end| end.min(served.to));
    }
    rounds
}

/// A server that sends byte ranges of one file.
struct Server {
    url: String,
    address: String,
    size: u64,
    log: Arc<Mutex<Vec<Served>>>,
}

#[derive(Clone)]
struct Serving {
    file: Arc<File>,
    size: u64,
    latency: Duration,
    /// Maximum bytes per second on each connection; `None` for no limit.
    pace: Option<u64>,
    log: Arc<Mutex<Vec<Served>>>,
}

impl Server {
    fn start(file: &Path, latency: Duration, pace: Option<u64>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let log = Arc::default();
        let file = File::open(file).unwrap();
        let size = file.metadata().unwrap().len();
        let serving = Serving {
            file: Arc::new(file),
            size,
            latency,
            pace,
            log: Arc::clone(&log),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                // If a client disconnects, only its own connection ends.
                std::thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        Server {
            url: format!("http://{address}/m.cpb"),
            address,
            size,
            log,
        }
    }

    fn take_log(&self) -> Vec<Served> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    /// Downloads the file to `target`, with as many connections as the reader uses, and with
    /// requests of the same size.
    fn download(&self, target: &Path) {
        let file = File::create(target).unwrap();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..DEFAULT_AT_ONCE {
                scope.spawn(|| {
                    let stream = TcpStream::connect(&self.address).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut buffer = Vec::new();
                    loop {
                        let begin = next.fetch_add(DEFAULT_REQUEST_SIZE, Ordering::Relaxed);
                        if begin >= self.size {
                            return;
                        }
                        let end = self.size.min(begin + DEFAULT_REQUEST_SIZE);
                        let last = end - 1;
                        let request =
                            format!("GET /m.cpb HTTP/1.1\r\nRange: bytes={begin}-{last}\r\n\r\n");
                        (&stream).write_all(request.as_bytes()).unwrap();
                        while read_line(&mut reader).is_some_and(|line| !line.is_empty()) {}
                        buffer.resize((end - begin) as usize, 0);
                        reader.read_exact(&mut buffer).unwrap();
                        file.write_all_at(&buffer, begin).unwrap();
                    }
                });
            }
        });
    }
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

impl Serving {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = read_line(&mut reader) {
            let from = Instant::now();
            let mut asked = None;
            while let Some(line) = read_line(&mut reader).filter(|line| !line.is_empty()) {
                let (name, value) = line.split_once(':').unwrap_or_default();
                if name.eq_ignore_ascii_case("range") {
                    asked = value.trim().strip_prefix("bytes=").map(str::to_owned);
                }
            }
            let (begin, end) = self.range(asked.as_deref());
            std::thread::sleep(self.latency);
            let body = if request.starts_with("HEAD") {
                0
            } else {
                end - begin
            };
            self.log.lock().unwrap().push(Served {
                bytes: body,
                from,
                to: Instant::now(),
            });
            let (last, len, size) = (end.saturating_sub(1), end - begin, self.size);
            let head = format!(
                "HTTP/1.1 206 -\r\nContent-Length: {len}\r\nContent-Range: bytes {begin}-{last}/{size}\r\nETag: \"one\"\r\nLast-Modified: Sun, 22 Nov 2026 12:00:00 GMT\r\n\r\n"
            );
            stream.write_all(head.as_bytes())?;
            self.send(&mut stream, begin, begin + body)?;
        }
        Ok(())
    }

    fn range(&self, asked: Option<&str>) -> (u64, u64) {
        match asked.and_then(|range| range.split_once('-')) {
            None => (0, self.size),
            Some(("", last)) => (self.size.saturating_sub(last.parse().unwrap()), self.size),
            Some((first, last)) => {
                let end = last.parse::<u64>().map_or(self.size, |last| last + 1);
                (first.parse().unwrap(), end.min(self.size))
            }
        }
    }

    fn send(&self, stream: &mut TcpStream, mut at: u64, end: u64) -> std::io::Result<()> {
        let (begun, first) = (Instant::now(), at);
        let mut buffer = vec![0; 256 << 10];
        while at < end {
            let step = (end - at).min(buffer.len() as u64) as usize;
            self.file.read_exact_at(&mut buffer[..step], at)?;
            stream.write_all(&buffer[..step])?;
            at += step as u64;
            if let Some(pace) = self.pace {
                let due = Duration::from_secs_f64((at - first) as f64 / pace as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        Ok(())
    }
}
