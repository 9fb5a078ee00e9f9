//! Tests of reading an object by position.

use std::io::ErrorKind;
use std::time::Duration;

use proto_splitter_object_store::{ObjectLocation, ObjectReadOptions, ObjectReader};
use record_file::ReadAt;

use crate::server::{Fault, Server, rounds};

fn some(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (at * 7 + at / 251).to_le_bytes()[0])
        .collect()
}

fn open(server: &Server, name: &str, options: &ObjectReadOptions) -> std::io::Result<ObjectReader> {
    ObjectReader::open(&ObjectLocation::parse(&server.url(name)).unwrap(), options)
}

/// Reads `len` bytes at offset `at`.
fn read(reader: &ObjectReader, at: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    reader.read_exact_at(at, &mut bytes).map(|()| bytes)
}

#[test]
fn an_object_is_opened_in_one_round_and_its_ends_are_at_hand() {
    let server = Server::start();
    for size in [1, 1000, 65_536, 262_144, 300_000, 2_000_000] {
        let bytes = some(size);
        server.put("object", bytes.clone());
        server.set_latency(Duration::from_millis(30));
        let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
        assert_eq!(reader.size().unwrap(), size as u64);
        let log = server.take_log();
        assert_eq!((log.len(), rounds(&log)), (2, 1), "{log:?}");
        let tail = size.min(262_144);
        assert_eq!(
            read(&reader, (size - tail) as u64, tail).unwrap(),
            bytes[size - tail..]
        );
        let head = size.min(65_536);
        assert_eq!(read(&reader, 0, head).unwrap(), bytes[..head]);
        assert!(server.take_log().is_empty(), "{size}");
    }
}

#[test]
fn what_was_told_is_fetched_at_once_and_only_once() {
    let server = Server::start();
    let bytes = some(8 << 20);
    server.put("object", bytes.clone());
    server.set_latency(Duration::from_millis(30));
    let options = ObjectReadOptions::new().request_size(1 << 20);
    let reader = open(&server, "object", &options).unwrap();
    server.take_log();
    let wanted = 1 << 20..6 << 20;
    reader.prefetch(std::slice::from_ref(&wanted));
    let got = read(&reader, 1 << 20, 5 << 20).unwrap();
    assert_eq!(got, bytes[1 << 20..6 << 20]);
    let log = server.take_log();
    assert_eq!((log.len(), rounds(&log)), (5, 1));
    assert_eq!(log.iter().map(|served| served.bytes).sum::<u64>(), 5 << 20);
    assert!(log.iter().all(|served| served.if_match), "{log:?}");
    reader.prefetch(std::slice::from_ref(&wanted));
    assert_eq!(
        read(&reader, 3 << 20, 1000).unwrap(),
        bytes[3 << 20..][..1000]
    );
    assert!(server.take_log().is_empty());
}

#[test]
fn what_nobody_told_of_is_read_all_the_same() {
    let server = Server::start();
    let bytes = some(3_000_000);
    server.put("object", bytes.clone());
    let reader = open(
        &server,
        "object",
        &ObjectReadOptions::new().cache_size(400_000),
    )
    .unwrap();
    for (at, len) in [
        (100_000, 10),
        (1_000_000, 300_000),
        (70_000, 2_000_000),
        (2_999_999, 1),
    ] {
        let got = read(&reader, at as u64, len).unwrap();
        assert!(got == bytes[at..at + len], "{at}");
    }
    let mut behind = [0; 4];
    assert_eq!(reader.read_at(3_000_000, &mut behind).unwrap(), 0);
    assert_eq!(reader.read_at(u64::MAX, &mut behind).unwrap(), 0);
    let short = reader.read_exact_at(2_999_999, &mut behind).unwrap_err();
    assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn reading_in_sequence_takes_larger_and_larger_requests() {
    let server = Server::start();
    let bytes = some(20 << 20);
    server.put("object", bytes.clone());
    let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
    server.take_log();
    let mut got = Vec::new();
    let mut piece = [0; 10_000];
    while got.len() < bytes.len() {
        let n = reader.read_at(got.len() as u64, &mut piece).unwrap();
        got.extend_from_slice(&piece[..n]);
    }
    assert!(got == bytes);
    let log = server.take_log();
    assert!(log.len() < 20, "{} requests", log.len());
}

#[test]
fn answers_that_fail_are_cut_or_late_are_asked_for_again() {
    let server = Server::start();
    let bytes = some(3 << 20);
    server.put("object", bytes.clone());
    for faults in [
        &[Fault::Status(500), Fault::Status(503)][..],
        &[Fault::Cut(1000), Fault::Cut(0), Fault::Cut(100_000)],
        &[Fault::Slow(Duration::from_millis(200))],
    ] {
        server.fail(faults);
        let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
        server.fail(faults);
        assert!(read(&reader, 100_000, 2 << 20).unwrap() == bytes[100_000..][..2 << 20]);
    }
}

#[test]
fn a_body_that_contradicts_its_range_is_an_error() {
    let server = Server::start();
    let bytes = some(3 << 20);
    server.put("object", bytes.clone());
    let huge = "bytes 0-18446744073709551615/18446744073709551615";
    for (fault, said) in [
        (Fault::Short(1000), "1000 bytes, but had announced "),
        (Fault::Short(0), "0 bytes, but had announced "),
        (Fault::WrongRange(huge), "a wrong Content-Range: \"bytes 0-"),
        (Fault::WrongRange("bytes 9-8/10"), "a wrong Content-Range"),
        (Fault::WrongRange("items 0-8/10"), "a wrong Content-Range"),
    ] {
        // Either of the first two requests may be the one for the end of the object, whose offset
        // is computed from the length of the response.
        for before in [&[][..], &[Fault::Slow(Duration::ZERO)]] {
            server.fail(before);
            server.fail(&[fault]);
            match open(&server, "object", &ObjectReadOptions::new()) {
                Ok(reader) => assert!(read(&reader, 0, 3 << 20).unwrap() == bytes),
                Err(error) => assert!(error.to_string().contains(said), "{error}"),
            }
        }
        let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
        server.fail(&[fault]);
        let error = read(&reader, 1 << 20, 10_000).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_server_that_tells_no_lengths_is_read_all_the_same() {
    let server = Server::start();
    server.omit_lengths();
    let bytes = some(3 << 20);
    server.put("object", bytes.clone());
    let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
    assert!(read(&reader, 0, 3 << 20).unwrap() == bytes);
    let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
    server.fail(&[Fault::Cut(1000)]);
    let error = read(&reader, 1 << 20, 10_000).unwrap_err().to_string();
    assert!(error.contains("1000 bytes, but had announced "), "{error}");
}

#[test]
fn an_object_that_is_replaced_meanwhile_is_an_error() {
    let server = Server::start();
    let bytes = some(3 << 20);
    for other in [some(3 << 20), some(2 << 20)] {
        server.put("object", bytes.clone());
        let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
        server.put("object", other);
        for _ in 0..2 {
            let error = read(&reader, 1 << 20, 10).unwrap_err();
            let expected = format!(
                "{}: the object was replaced while it was read",
                server.url("object")
            );
            assert_eq!(error.to_string(), expected);
        }
        // Bytes that were fetched before the object was replaced belong to the version that was
        // opened.
        assert_eq!(read(&reader, 5, 10).unwrap(), bytes[5..15]);
    }
}

#[test]
fn a_server_that_does_not_count_from_the_end_is_asked_from_the_front() {
    let server = Server::start();
    server.refuse_suffixes();
    for size in [1000, 2_000_000] {
        let bytes = some(size);
        server.put("object", bytes.clone());
        let reader = open(&server, "object", &ObjectReadOptions::new()).unwrap();
        assert_eq!(reader.size().unwrap(), size as u64);
        assert!(read(&reader, 0, size).unwrap() == bytes);
    }
}

#[test]
fn nothing_and_an_object_of_no_bytes_are_told_apart() {
    let server = Server::start();
    server.put("empty", Vec::new());
    let reader = open(&server, "empty", &ObjectReadOptions::new()).unwrap();
    assert_eq!(reader.size().unwrap(), 0);
    assert_eq!(reader.read_at(0, &mut [0; 9]).unwrap(), 0);
    let error = open(&server, "nothing", &ObjectReadOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let expected = format!("{}: no such object", server.url("nothing"));
    assert_eq!(error.to_string(), expected);
}

#[test]
fn many_threads_read_one_object() {
    let server = Server::start();
    let bytes = some(4 << 20);
    server.put("object", bytes.clone());
    let options = ObjectReadOptions::new()
        .request_size(100_000)
        .cache_size(300_000);
    let reader = open(&server, "object", &options).unwrap();
    let all = 0..bytes.len() as u64;
    reader.prefetch(std::slice::from_ref(&all));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (reader, bytes) = (&reader, &bytes);
            scope.spawn(move || {
                for step in 0..40 {
                    let at = (step * 4 + thread) * 26_000;
                    let got = read(reader, at as u64, 26_000).unwrap();
                    assert!(got == bytes[at..at + 26_000], "{at}");
                }
            });
        }
    });
}
