//! A small HTTP server that serves ranges of objects, and can respond with faults.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The server's objects and its behavior.
#[derive(Default)]
struct State {
    objects: HashMap<String, Object>,
    faults: Vec<Fault>,
    /// Fault in the responses to all requests, if any.
    steady: Option<Fault>,
    latency: Duration,
    refuses_suffixes: bool,
    ignores_ranges: bool,
    omits_lengths: bool,
    log: Vec<Served>,
    flooded: (u64, u64),
}

#[derive(Clone)]
struct Object {
    bytes: Arc<Vec<u8>>,
    version: u32,
}

/// A fault in the response to the next matching request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A server error with this status.
    Status(u16),
    /// An error with this status and body.
    Said(u16, &'static str),
    /// An error with this status, whose body only ends when the client disconnects, or after
    /// [`FLOOD`] bytes.
    Flood(u16),
    /// A body that ends, together with the connection, after this many bytes.
    Cut(usize),
    /// A body of only this many bytes, as its `Content-Length` says, although its `Content-Range`
    /// has more.
    Short(usize),
    /// A response with this text as its `Content-Range`.
    WrongRange(&'static str),
    /// A response that needs this time.
    Slow(Duration),
}

/// Maximum number of bytes to send in an endless body: 64 MiB.
pub const FLOOD: u64 = 64 << 20;

/// A request and its response. Some fields only appear in messages of failed tests.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "shown in messages")]
pub struct Served {
    pub method: String,
    pub range: Option<Range<u64>>,
    /// Number of bytes in the response's body.
    pub bytes: u64,
    pub if_match: bool,
    pub status: u16,
    /// Time at which the request was received.
    pub from: Instant,
    /// Time at which the response was sent.
    pub to: Instant,
}

/// A simulated object store that serves HTTP on a local port.
pub struct Server {
    state: Arc<Mutex<State>>,
    address: String,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                thread::spawn(move || {
                    // If a client disconnects, only its own connection ends.
                    drop(serve(stream, &state));
                });
            }
        });
        Server { state, address }
    }

    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Adds or replaces an object, which gets a new version.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        let version = state
            .objects
            .get(name)
            .map_or(0, |object| object.version + 1);
        let bytes = Arc::new(bytes);
        state
            .objects
            .insert(name.to_owned(), Object { bytes, version });
    }

    /// Makes the next matching requests fail, one for each of these faults.
    pub fn fail(&self, faults: &[Fault]) {
        self.state.lock().unwrap().faults.extend_from_slice(faults);
    }

    /// Makes all requests fail from now on.
    pub fn fail_always(&self, fault: Fault) {
        self.state.lock().unwrap().steady = Some(fault);
    }

    /// Makes the server ignore ranges and send whole objects.
    pub fn ignore_ranges(&self) {
        self.state.lock().unwrap().ignores_ranges = true;
    }

    /// Makes the server omit the length of each response, and close the connection at its end.
    pub fn omit_lengths(&self) {
        self.state.lock().unwrap().omits_lengths = true;
    }

    /// Returns the number of endless response bodies, and the number of bytes sent in them.
    pub fn flooded(&self) -> (u64, u64) {
        self.state.lock().unwrap().flooded
    }

    /// Returns an object's URL with a user and a password.
    pub fn url_with_password(&self, name: &str) -> String {
        let host = self.address.strip_prefix("http://").unwrap();
        format!("http://me:secret@{host}/{name}")
    }

    /// Sets the time that the server needs for each response.
    pub fn set_latency(&self, latency: Duration) {
        self.state.lock().unwrap().latency = latency;
    }

    /// Makes the server refuse requests for the last bytes of an object.
    pub fn refuse_suffixes(&self) {
        self.state.lock().unwrap().refuses_suffixes = true;
    }

    /// Returns the requests since the last call of this function.
    pub fn take_log(&self) -> Vec<Served> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }
}

/// Returns the number of round trips. Requests that begin before the first response of a round trip
/// has ended belong to the same round trip.
pub fn rounds(log: &[Served]) -> usize {
    let mut log: Vec<_> = log.iter().collect();
    log.sort_by_key(|served| served.from);
    let mut rounds = 0;
    let mut end: Option<Instant> = None;
    for served in log {
        if end.is_none_or(|end| served.from >= end) {
            rounds += 1;
            end = Some(served.to);
        }
        end = end.map(|end| end.min(served.to));
    }
    rounds
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let from = Instant::now();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        if let Some(len) = headers
            .get("content-length")
            .and_then(|len| len.parse().ok())
        {
            std::io::copy(&mut reader.by_ref().take(len), &mut std::io::sink())?;
        }
        let mut words = request.split_whitespace();
        let method = words.next().unwrap_or_default().to_owned();
        let name = words
            .next()
            .unwrap_or_default()
            .trim_start_matches('/')
            .to_owned();
        let (object, fault, latency, refuses_suffixes, omits_lengths) = {
            let mut state = state.lock().unwrap();
            let fault = (!state.faults.is_empty()).then(|| state.faults.remove(0));
            let object = state.objects.get(&name).cloned();
            if state.ignores_ranges {
                headers.remove("range");
            }
            let fault = fault.or(state.steady);
            // Most web servers can't list folders.
            let fault = match method.as_str() {
                "PROPFIND" => Some(Fault::Said(405, "no lists here")),
                _ => fault,
            };
            (
                object,
                fault,
                state.latency,
                state.refuses_suffixes,
                state.omits_lengths,
            )
        };
        thread::sleep(latency);
        if let Some(Fault::Slow(time)) = fault {
            thread::sleep(time);
        }
        if let Some(Fault::Flood(status)) = fault {
            write!(
                stream,
                "HTTP/1.1 {status} -\r\nContent-Length: {FLOOD}\r\n\r\n"
            )?;
            state.lock().unwrap().flooded.0 += 1;
            for _ in 0..FLOOD >> 16 {
                stream.write_all(&[b'x'; 1 << 16])?;
                state.lock().unwrap().flooded.1 += 1 << 16;
            }
            return Ok(());
        }
        let mut answer = answer(object, &headers, fault, refuses_suffixes);
        if method == "HEAD" {
            answer.body = 0..0;
        }
        if omits_lengths {
            let (front, rest) = answer.head.split_once("Content-Length: ").unwrap();
            let rest = rest.split_once("\r\n").unwrap().1;
            answer.head = format!("{front}Connection: close\r\n{rest}");
        }
        let body = &answer.bytes[answer.body.clone()];
        let cut = match fault {
            Some(Fault::Cut(at)) if at < body.len() => Some(at),
            _ => None,
        };
        let sent = &body[..cut.unwrap_or(body.len())];
        let served = Served {
            method,
            range: answer.range,
            bytes: sent.len() as u64,
            if_match: headers.contains_key("if-match"),
            status: answer.status,
            from,
            to: Instant::now(),
        };
        state.lock().unwrap().log.push(served);
        stream.write_all(answer.head.as_bytes())?;
        stream.write_all(sent)?;
        stream.flush()?;
        if cut.is_some() || omits_lengths {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    bytes: Arc<Vec<u8>>,
    body: Range<usize>,
    range: Option<Range<u64>>,
}

fn answer(
    object: Option<Object>,
    headers: &HashMap<String, String>,
    fault: Option<Fault>,
    refuses_suffixes: bool,
) -> Answer {
    let none = |status: u16| Answer {
        status,
        head: format!("HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n"),
        bytes: Arc::default(),
        body: 0..0,
        range: None,
    };
    match fault {
        Some(Fault::Status(status)) => return none(status),
        Some(Fault::Said(status, body)) => {
            let len = body.len();
            return Answer {
                status,
                head: format!("HTTP/1.1 {status} -\r\nContent-Length: {len}\r\n\r\n"),
                bytes: Arc::new(body.as_bytes().to_vec()),
                body: 0..len,
                range: None,
            };
        }
        _ => {}
    }
    let Some(Object { bytes, version }) = object else {
        return none(404);
    };
    let e_tag = format!("\"version-{version}\"");
    if headers
        .get("if-match")
        .is_some_and(|wanted| *wanted != e_tag)
    {
        return none(412);
    }
    let size = bytes.len() as u64;
    let asked = headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let range = match asked.and_then(|range| range.split_once('-')) {
        None => None,
        Some(("", _)) if refuses_suffixes => return none(400),
        Some(("", last)) => Some(size.saturating_sub(last.parse().unwrap())..size),
        Some((first, "")) => Some(first.parse().unwrap()..size),
        Some((first, last)) => {
            let last: u64 = last.parse().unwrap();
            Some(first.parse().unwrap()..size.min(last + 1))
        }
    };
    if range.as_ref().is_some_and(|range| range.start >= range.end) {
        return none(416);
    }
    let body = range.clone().unwrap_or(0..size);
    let (status, of) = match &range {
        Some(range) => (
            206,
            format!(
                "Content-Range: bytes {}-{}/{size}\r\n",
                range.start,
                range.end - 1
            ),
        ),
        None => (200, String::new()),
    };
    let (of, body) = match fault {
        Some(Fault::Short(len)) => (of, body.start..body.end.min(body.start + len as u64)),
        Some(Fault::WrongRange(text)) => (format!("Content-Range: {text}\r\n"), body),
        _ => (of, body),
    };
    let len = body.end - body.start;
    let head = format!(
        "HTTP/1.1 {status} -\r\nContent-Length: {len}\r\n{of}ETag: {e_tag}\r\nLast-Modified: Sun, 22 Nov 2026 12:00:00 GMT\r\n\r\n"
    );
    let [start, end] = [body.start, body.end].map(|at| usize::try_from(at).unwrap());
    Answer {
        status,
        head,
        bytes,
        body: start..end,
        range,
    }
}
