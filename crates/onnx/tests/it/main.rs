//! ONNX models: what they refer to, what becomes of them, and what is refused.

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
