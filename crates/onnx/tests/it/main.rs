//! Tests with ONNX models: their external data, their conversions, and errors in invalid models.

#![allow(clippy::unwrap_used)]

mod contexts;
mod format;
mod hostile;
mod leaving;
#[path = "../../../testkit/src/own_process.rs"]
#[allow(unreachable_pub, reason = "a file of the test kit")]
mod own_process;
mod placing;
mod reading;
mod rope_memory;
mod round_trips;
mod safetensors;
mod support;
