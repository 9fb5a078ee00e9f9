//! Tests of behavior through the public API. The table lists the modules that test each behavior:
//!
//! | behavior | tests |
//! | --- | --- |
//! | blocks, headers, ends of chunks | `layout`, `writing`, `fixtures` |
//! | closing of chunks by a writer; its failures, its options | `writing`, `flushing`, `options`, `hostile_io`, `failing_calls` |
//! | padding, appending, concatenated files | `padding`, `appending`, `walking` |
//! | records of any size and number, chunks without records, files that grow | `reading`, `streams`, `one_by_one`, `large`, `walking`, `properties` |
//! | the same file by every way of writing, streamed or held | `routes`, `streams`, `parallel` |
//! | positions, seeking, the last record | `positions`, `seeking`, `walking` |
//! | search | `seeking`, `walking`, `properties` |
//! | recovery | `reading`, `recovering`, `damage` |
//! | truncated files, flipped bits, failing I/O | `damage`, `hash_first`, `recovering`, `hostile_io`, `failing_calls`, `parallel_reading` |
//! | false claims of chunks, bombs | `hostile_chunks`, `hostile_transposed`, `mutations` |
//! | transposed chunks, projection | `transposed_writing`, `projection`, `hostile_transposed` |
//! | metadata | `metadata`, `reading`, `recovering`, `damage` |
//! | `array_record` files | `fixtures`; the package `record-file-peers` compares with `array_record` itself |
//! | levels, windows, threads, pairs | `codecs`, `streams`, `parallel`, `parallel_reading`, `pairs`, `two_at_once`, `memory` |
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod appending;
mod codecs;
mod damage;
mod elsewhere;
mod failing_calls;
mod fixtures;
mod flushing;
mod hash_first;
mod hostile_chunks;
mod hostile_io;
mod hostile_transposed;
mod large;
mod layout;
mod memory;
mod metadata;
mod mutations;
mod noise;
mod one_by_one;
mod options;
// The module is included by path, since the test kit depends on this crate.
#[path = "../../../testkit/src/own_process.rs"]
#[allow(unreachable_pub, reason = "a file of the test kit")]
mod own_process;
mod padding;
mod pairs;
mod parallel;
mod parallel_reading;
mod positions;
mod projection;
mod properties;
mod reading;
mod recovering;
mod routes;
mod seeking;
mod streams;
mod support;
mod targets;
mod transposed_reading;
mod transposed_writing;
mod two_at_once;
mod walking;
mod writing;
