//! Tests with stores that fail for a long time, don't respond, send too much, or don't support a
//! request.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use proto_splitter_core::progress::Progress;
use proto_splitter_object_store::{
    Folder, ObjectLocation, ObjectReadOptions, ObjectReader, StoreOptions,
};
use record_file::ReadAt;

use crate::server::{FLOOD, Fault, Server};

/// A time that is much longer than each of these tests, even on busy machines.
const LONG: Duration = Duration::from_secs(60);

/// Opens an object in a store whose requests are retried for the given time.
fn open(url: &str, time: Duration) -> io::Result<ObjectReader> {
    let options = StoreOptions::new().retry_timeout(time);
    let location = ObjectLocation::parse_with(url, &options)?;
    ObjectReader::open(&location, &ObjectReadOptions::new())
}

/// Returns the error from opening an object, and the time until this error.
fn fail(url: &str, time: Duration) -> (io::Error, Duration) {
    let begun = Instant::now();
    let error = open(url, time).unwrap_err();
    (error, begun.elapsed())
}

fn failing(fault: Fault) -> Server {
    let server = Server::start();
    server.fail_always(fault);
    server
}

#[test]
fn requests_that_fail_are_tried_again_until_the_time_has_passed() {
    let time = Duration::from_secs(1);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}/m", free.local_addr().unwrap());
    drop(free);
    let silent = failing(Fault::Slow(Duration::from_secs(3)));
    let broken = failing(Fault::Said(500, "out of order"));
    let busy = failing(Fault::Said(503, "<Code>SlowDown</Code>"));
    thread::scope(|scope| {
        for (url, least, said) in [
            (refusing, time, "no answer"),
            (silent.url("m"), time, "no answer"),
            (broken.url("m"), time, "500 Internal Server Error"),
            // A throttled request is retried for longer.
            (busy.url("m"), time * 3, "<Code>SlowDown</Code>"),
        ] {
            scope.spawn(move || {
                let (error, took) = fail(&url, time);
                let error = error.to_string();
                assert!(error.starts_with(&url) && error.contains(said), "{error}");
                assert!(took >= least && took < LONG, "{took:?}: {error}");
            });
        }
    });
}

#[test]
fn a_store_that_recovers_in_time_is_read() {
    let server = Server::start();
    server.put("m", vec![7; 1000]);
    server.fail(&[Fault::Status(503), Fault::Status(500), Fault::Status(429)]);
    let reader = open(&server.url("m"), LONG).unwrap();
    assert_eq!(reader.size().unwrap(), 1000);
}

#[test]
fn what_would_be_answered_again_is_asked_once() {
    for status in [400, 403, 410, 501, 505] {
        let server = failing(Fault::Status(status));
        let (error, took) = fail(&server.url("m"), LONG * 2);
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert!(took < LONG, "{took:?}");
        assert!(server.take_log().len() <= 3);
    }
}

#[test]
fn of_an_error_the_begin_is_read_and_shown() {
    for status in [403, 400, 500] {
        let server = failing(Fault::Flood(status));
        let (error, _) = fail(&server.url("m"), Duration::from_secs(3));
        let error = error.to_string();
        assert!(
            error.contains("xxxx") && error.chars().count() < 1000,
            "{error}"
        );
        // The kernel may buffer some MiB before the client closes the connection.
        let (answers, bytes) = server.flooded();
        assert!(bytes < answers * FLOOD / 4, "{bytes} in {answers}");
    }
}

#[test]
fn a_missing_bucket_is_not_called_a_missing_object() {
    for (body, said) in [
        ("<Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        (
            "<Error><Code>ContainerNotFound</Code></Error>",
            "no such bucket",
        ),
        ("<Error><Code>NoSuchKey</Code></Error>", "no such object"),
        ("", "no such object"),
    ] {
        let server = failing(Fault::Said(404, body));
        let (error, _) = fail(&server.url("m"), LONG);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), format!("{}: {said}", server.url("m")));
    }
}

#[test]
fn no_error_has_a_password_or_a_token() {
    let body = "see http://me:secret@elsewhere/?X-Amz-Signature=secret";
    for status in [400, 403, 404, 409, 412, 416, 500, 501] {
        let server = failing(Fault::Said(status, body));
        let url = server.url_with_password("m");
        let (error, _) = fail(&url, Duration::from_millis(50));
        let said = format!("{error} {error:?}");
        assert!(
            said.contains("//me:***@") && !said.contains("secret"),
            "{said}"
        );
    }
}

#[test]
fn a_server_that_sends_no_ranges_is_copied_from() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start();
    server.ignore_ranges();
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    server.put("m", bytes.clone());
    let (error, _) = fail(&server.url("m"), LONG);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("doesn't send ranges"), "{error}");
    let location = ObjectLocation::parse(&server.url("m")).unwrap();
    let target = folder.path().join("m");
    Folder::download_one(&location, &target, &Progress::none()).unwrap();
    assert!(std::fs::read(target).unwrap() == bytes);
}

#[test]
fn a_web_server_that_knows_no_lists_has_no_folders() {
    let server = Server::start();
    let location = ObjectLocation::parse(&server.url("models")).unwrap();
    assert_eq!(Folder::new(&location).list().unwrap(), []);
}
