//! Tests of ONNX models: their external data, their conversions, and invalid ones.

#![allow(clippy::unwrap_used)]

mod contexts;
mod format;
mod hostile;
mod leaving;
mod placing;
mod reading;
mod round_trips;
mod safetensors;
mod support;
