//! The command, run as a whole: in this process where only its results count, as a process of its
//! own where more does.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

mod archives;
mod arguments;
mod bombs;
mod cat;
mod convert;
mod damage;
mod diff;
mod documentation;
mod edit;
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
mod kill;
mod layout;
mod merge;
mod onnx;
mod other_schemas;
mod paddle;
mod pieces;
mod private_outputs;
mod process;
mod rewrite;
mod samediff;
mod schemas;
mod servers;
mod split;
mod standard_streams;
mod stored_checksums;
mod stores;
mod system;
mod tensorflow_checksums;
mod tensors;
mod tree;
mod verbose;
mod verify;
