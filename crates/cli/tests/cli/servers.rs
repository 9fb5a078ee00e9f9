//! Tests with servers that respond wrongly or not at all. Each command runs in its own process,
//! with a separate environment.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Dir, fixture, run};

/// The behavior of a test server.
enum Server {
    /// Sends no response for five seconds.
    Silent,
    /// Responds with this status, and no body.
    Refusing(u16),
    /// Responds with the status 404 and this body.
    Lacking(&'static str),
    /// Sends the whole file at this path, even if a range is requested. No other path exists.
    Sending(&'static str, Vec<u8>),
    /// Sends the whole file without its length. If the flag is true, the transfer is chunked, so
    /// the client can recognize the end.
    Untold(Vec<u8>, bool),
    /// Sends ranges of a file. For a range that is counted from the end of the file, the body is
    /// shorter than announced.
    Short(Vec<u8>),
    /// Sends a partial response with this `Content-Range` header.
    WrongRange(&'static str),
}

impl Server {
    /// Starts the server on a local port, and returns its address.
    fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Arc::new(self);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&server);
                // An error in a connection, for example because the client disconnects, ends only
                // that connection.
                thread::spawn(move || drop(server.answer(&stream)));
            }
        });
        address
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut body_len = 0;
        let mut range = String::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(len) = header.strip_prefix("content-length:") {
                body_len = len.trim().parse().unwrap();
            }
            if let Some(asked) = header.strip_prefix("range: bytes=") {
                range = asked.to_owned();
            }
        }
        // The request's body is read before responding. Otherwise, closing the socket would reset
        // the connection, and the client might not receive the response.
        std::io::copy(&mut reader.take(body_len), &mut std::io::sink())?;
        let mut words = request.split_whitespace();
        let is_get = words.next() == Some("GET");
        let (status, body) = match self {
            Server::Untold(..) | Server::Short(_) | Server::WrongRange(_) if is_get => {
                return self.send_oddly(&range, stream);
            }
            Server::Untold(..) | Server::Short(_) | Server::WrongRange(_) => (501, &[][..]),
            Server::Silent => {
                thread::sleep(Duration::from_secs(5));
                return Ok(());
            }
            Server::Refusing(status) => (*status, &[][..]),
            Server::Lacking(body) => (404, body.as_bytes()),
            Server::Sending(..) if !is_get => (501, &b"<html>no such method</html>"[..]),
            Server::Sending(name, bytes) if words.next() == Some(name) => (200, &bytes[..]),
            Server::Sending(..) => (404, &b"<html>no such page</html>"[..]),
        };
        let len = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} -\r\nContent-Length: {len}\r\nConnection: close\r\n\
             Last-Modified: Sun, 22 Nov 2026 12:00:00 GMT\r\n\r\n"
        )?;
        stream.write_all(body)
    }

    /// Sends a range of the file, or the whole file, in a way that few real servers would.
    fn send_oddly(&self, range: &str, mut stream: &TcpStream) -> std::io::Result<()> {
        let front = "Connection: close\r\nLast-Modified: Sun, 22 Nov 2026 12:00:00 GMT\r\n";
        match self {
            Server::Untold(bytes, false) => {
                write!(stream, "HTTP/1.1 200 -\r\n{front}\r\n")?;
                stream.write_all(bytes)
            }
            Server::Untold(bytes, true) => {
                let coding = "Transfer-Encoding: chunked";
                write!(stream, "HTTP/1.1 200 -\r\n{front}{coding}\r\n\r\n")?;
                for piece in bytes.chunks(10_000) {
                    write!(stream, "{:x}\r\n", piece.len())?;
                    stream.write_all(piece)?;
                    stream.write_all(b"\r\n")?;
                }
                stream.write_all(b"0\r\n\r\n")
            }
            Server::WrongRange(text) => {
                write!(
                    stream,
                    "HTTP/1.1 206 -\r\n{front}Content-Range: {text}\r\nContent-Length: 4\r\n\r\nsome"
                )
            }
            Server::Short(bytes) => {
                let size = bytes.len();
                let (first, last) = range.split_once('-').unwrap();
                let (begin, end, missing) = match first.parse::<usize>() {
                    Ok(first) => (first, size.min(last.parse::<usize>().unwrap() + 1), 0),
                    Err(_) => (size.saturating_sub(last.parse().unwrap()), size, 1000),
                };
                let sent = &bytes[begin..end - missing];
                write!(
                    stream,
                    "HTTP/1.1 206 -\r\n{front}Content-Range: bytes {begin}-{}/{size}\r\nContent-Length: {}\r\n\r\n",
                    end - 1,
                    sent.len()
                )?;
                stream.write_all(sent)
            }
            _ => Ok(()),
        }
    }
}

/// Runs the command with the given environment variables, and without other settings for object
/// stores.
fn asked(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    for (name, _) in std::env::vars() {
        if ["AWS_", "GOOGLE_", "AZURE_", "PROTO_SPLITTER_"]
            .iter()
            .any(|front| name.starts_with(front))
        {
            command.env_remove(name);
        }
    }
    // The test servers are local, so requests must not use a proxy.
    command.env("NO_PROXY", "*").env("no_proxy", "*");
    command.envs(variables.iter().copied());
    command.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_file_of_a_server_without_ranges_is_copied_first() {
    let dir = Dir::new();
    let small = dir.path("small");
    let model = fixture("functions_consts/saved_model.pb");
    run([
        &"split",
        &model,
        &"-o",
        &small,
        &"--max-chunk-size",
        &"10KiB",
    ])
    .ok();
    let file = dir.path("small.cpb");
    let server = Server::Sending("/m.cpb", fs::read(&file).unwrap()).start();
    let url = format!("http://{server}/m.cpb");
    for command in ["ls", "info", "verify"] {
        let of_file = run([&command, &file]).ok();
        let of_url = asked(&[command, &url], &[]);
        assert!(of_url.status.success(), "{of_url:?}");
        let of_url = String::from_utf8(of_url.stdout).unwrap();
        let of_file = of_file.replace(file.to_str().unwrap(), &url);
        assert_eq!(of_url, of_file);
    }
    // Since web servers can't list folders, a missing file is reported.
    let missing = format!("http://{server}/other");
    let error = said(&asked(&["ls", &missing], &[]));
    assert_eq!(error, format!("protosplit: {missing}: no such object\n"));
    // A plan for several hosts can't refer to a local copy, so the server must support ranges.
    let plan = dir.path("plan");
    let arguments = ["verify", &url, "--plan-only", plan.to_str().unwrap()];
    let error = said(&asked(&arguments, &[]));
    assert!(error.contains("doesn't send ranges"), "{error}");
    assert!(!plan.exists());
}

#[test]
fn a_file_of_a_server_that_does_not_tell_its_size_is_copied_first() {
    let dir = Dir::new();
    let bytes = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    for has_end in [true, false] {
        let server = Server::Untold(bytes.clone(), has_end).start();
        let url = format!("http://{server}/saved_model.pb");
        let out = dir.path(if has_end { "whole" } else { "open" });
        let got = asked(&["get", &url, ".", "-o", out.to_str().unwrap()], &[]);
        let said = String::from_utf8(got.stderr).unwrap();
        assert!(got.status.success(), "{said}");
        assert!(fs::read(&out).unwrap() == bytes);
        // Without an end marker, the file may be incomplete because the connection broke, so there
        // is a warning.
        let warning =
            format!("protosplit: warning: {url}: the server doesn't report the object's size");
        assert_eq!(said.starts_with(&warning), !has_end, "{said}");
    }
}

#[test]
fn a_split_that_is_only_planned_needs_no_place_to_write_to() {
    let bytes = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    // This server sends no ranges, so the file is copied first.
    let server = Server::Sending("/saved_model.pb", bytes).start();
    let url = format!("http://{server}/saved_model.pb");
    let several = ["--profile", "extended", "--max-file-size", "1GiB"];
    for more in [&several[..], &[]] {
        let planned = asked(&[&["split", &url, "--dry-run"][..], more].concat(), &[]);
        assert!(planned.status.success(), "{planned:?}");
    }
}

#[test]
fn a_body_that_contradicts_its_range_is_not_taken() {
    let dir = Dir::new();
    let (out, bytes) = (dir.path("out"), vec![b'7'; 900_000]);
    let bytes = [&b"\x0a\xa0\xf7\x36"[..], &bytes].concat();
    let server = Server::Short(bytes.clone()).start();
    let url = format!("http://{server}/m.pb");
    let limit = [("PROTO_SPLITTER_RETRY_TIMEOUT", "1")];
    let schema = dir.file(
        "t.proto",
        b"syntax = \"proto3\"; message M { string s = 1; }",
    );
    let (out_name, schema) = (out.to_str().unwrap(), schema.to_str().unwrap());
    let read = ["get", &url, ".", "--proto", schema, "-o", out_name];
    let got = asked(&read, &limit);
    assert!(got.status.success(), "{got:?}");
    assert!(fs::read(&out).unwrap() == bytes);
    fs::remove_file(&out).unwrap();

    for text in [
        "bytes 0-18446744073709551615/18446744073709551615",
        "bytes 5-4/9",
        "lines 1-2/3",
    ] {
        let url = format!("http://{}/m.pb", Server::WrongRange(text).start());
        let read = ["get", &url, ".", "--proto", schema, "-o", out_name];
        let error = said(&asked(&read, &limit));
        let expected = format!("{url}: the server answers with a wrong Content-Range: {text:?}\n");
        assert!(error.ends_with(&expected), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn no_output_has_the_password_of_a_url() {
    let bytes = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    let server = Server::Sending("/saved_model.pb", bytes).start();
    let dir = Dir::new();
    let plan = dir.path("plan");
    let here = plan.to_str().unwrap();
    let model = format!("http://me:secret@{server}/saved_model.pb");
    let missing = format!("http://me:secret@{server}/missing");
    let signed = format!("http://{server}/m?X-Amz-Signature=secret");
    let unknown = "ftp://me:secret@host/m";
    for (arguments, shown) in [
        (&["info", "--json", &model][..], "http://me:***@"),
        (&["-vv", "info", &model], "http://me:***@"),
        (&["-vv", "ls", &missing], "http://me:***@"),
        (&["ls", &signed], "X-Amz-Signature=***"),
        (&["ls", unknown], "ftp://me:***@host/m"),
        (&["verify", &model, "--plan-only", here], "http://me:***@"),
    ] {
        let output = asked(arguments, &[]);
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(all.contains(shown) && !all.contains("secret"), "{all}");
    }
    assert!(!plan.exists());
}

#[test]
fn a_store_that_says_nothing_is_told_of_and_given_up() {
    let server = Server::Silent.start();
    let url = format!("http://{server}/m.cpb");
    let begun = Instant::now();
    let error = said(&asked(
        &["ls", &url],
        &[("PROTO_SPLITTER_RETRY_TIMEOUT", "1")],
    ));
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines.len() == 2, "{error}");
    let warned = format!("protosplit: warning: http://{server}: it doesn't answer");
    assert!(lines[0].starts_with(&warned), "{error}");
    let failed = format!("protosplit: {url}: no answer");
    assert!(lines[1].starts_with(&failed), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let wrong = said(&asked(
        &["ls", &url],
        &[("PROTO_SPLITTER_RETRY_TIMEOUT", "soon")],
    ));
    assert!(wrong.contains("not a number of seconds: soon"), "{wrong}");
}

#[test]
fn a_store_that_is_asked_too_much_is_told_of_with_its_own_limit() {
    let server = Server::Refusing(503).start();
    let url = format!("http://{server}/m.cpb");
    let limit = [("PROTO_SPLITTER_RETRY_TIMEOUT", "1")];
    let error = said(&asked(&["ls", &url], &limit));
    let warned = error.lines().next().unwrap_or_default();
    assert!(
        warned.contains("it answers 503 Service Unavailable"),
        "{error}"
    );
    assert!(warned.ends_with("retried for 3 s"), "{error}");
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let body = "<Error><Code>NoSuchBucket</Code><Message>There is none</Message></Error>";
    let server = format!("http://{}", Server::Lacking(body).start());
    let variables = [
        ("AWS_ENDPOINT_URL", &*server),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let dir = Dir::new();
    let model = fixture("functions_consts/saved_model.pb");
    let out = dir.path("out");
    let (url, model) = ("s3://bucket/m.cpb", model.to_str().unwrap());
    for arguments in [
        &["ls", url][..],
        &["merge", url, "-o", out.to_str().unwrap()],
        &["tensors", url],
        &[
            "split",
            model,
            "-o",
            "s3://bucket/m",
            "--max-chunk-size",
            "9KiB",
        ],
    ] {
        let error = said(&asked(arguments, &variables));
        assert_eq!(error, format!("protosplit: {url}: no such bucket\n"));
    }
}

#[test]
fn without_credentials_the_variables_are_named() {
    let server = format!("http://{}", Server::Refusing(403).start());
    let metadata = format!("http://{}", Server::Refusing(403).start());
    for (url, variables, wanted) in [
        (
            "s3://bucket/m.cpb",
            &[
                ("AWS_METADATA_ENDPOINT", &*metadata),
                ("AWS_ENDPOINT_URL", &*server),
            ][..],
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (
            "az://container/m.cpb",
            &[
                ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1"),
                ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
                ("AZURE_STORAGE_ENDPOINT", &*server),
            ],
            "http://, which must be allowed with AZURE_ALLOW_HTTP=true",
        ),
    ] {
        let error = said(&asked(&["ls", url], variables));
        assert!(
            error.starts_with(&format!("protosplit: {url}: ")),
            "{error}"
        );
        assert!(error.contains(wanted) && !error.contains("403"), "{error}");
    }
}

#[test]
fn an_unknown_scheme_is_answered_by_those_that_are_known() {
    let url = "hdfs://name-node/model.cpb";
    let model = fixture("functions_consts/saved_model.pb");
    for output in [
        asked(&["ls", url], &[]),
        asked(&["merge", url, "-o", "never.pb"], &[]),
        asked(&["split", model.to_str().unwrap(), "-o", url], &[]),
    ] {
        let error = said(&output);
        let begin = format!("protosplit: {url}: the scheme hdfs:// is unknown; ");
        assert!(error.starts_with(&begin), "{error}");
        assert!(error.contains("s3, s3a, gs, az, "), "{error}");
    }
}
