//! Tests of the whole command. It runs in this process if only its results matter, and otherwise in
//! a separate process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

mod archives;
mod arguments;
mod bombs;
mod cat;
mod compat;
mod convert;
mod convert_forms;
mod damage;
mod diff;
mod documentation;
mod edit;
mod editions;
mod every_command;
mod extended;
mod externalize;
mod faults;
mod folder;
mod foreign;
mod get;
mod golden;
mod in_parts;
mod info;
mod json_schema;
mod kill;
mod layout;
#[cfg(target_os = "linux")]
mod memory;
mod merge;
mod merkle_root;
mod onnx;
mod opens;
mod other_schemas;
mod paddle;
mod pieces;
mod private_outputs;
mod process;
mod queries;
mod rewrite;
mod samediff;
#[cfg(target_os = "linux")]
mod samediff_memory;
mod schemas;
mod schemas_beside;
mod sequences;
mod servers;
mod sign;
mod split;
#[cfg(target_os = "linux")]
mod split_memory;
mod standard_streams;
#[cfg(unix)]
mod stopping;
mod stored_checksums;
mod stores;
mod system;
mod tensorflow_checksums;
mod tensors;
mod tree;
mod verbose;
mod verify;
