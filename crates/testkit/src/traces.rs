//! Traces for tests and benchmarks: messages with millions of small elements.

use std::io::{self, Write};

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_splitter_core::wire::put_varint;

use crate::compiled::compiled;

/// Source of the .proto file that defines the traces.
pub const SCHEMA: &str = include_str!("../proto/trace.proto");

/// Returns the message type of a trace: `testkit.Trace`.
///
/// # Panics
///
/// If the schema doesn't compile.
pub fn trace_type() -> MessageDescriptor {
    message_type("testkit.Trace")
}

/// Returns the message type that contains several traces: `testkit.Traces`.
///
/// # Panics
///
/// If the schema doesn't compile.
pub fn traces_type() -> MessageDescriptor {
    message_type("testkit.Traces")
}

fn message_type(name: &str) -> MessageDescriptor {
    static POOL: std::sync::LazyLock<DescriptorPool> =
        std::sync::LazyLock::new(|| compiled("trace.proto", SCHEMA));
    POOL.get_message_by_name(name).expect("it is in its file")
}

/// Writes a trace with `packets` packets, one per microsecond. A packet has about ten bytes, and
/// every fourth packet also has a name.
///
/// # Errors
///
/// If writing fails.
pub fn write_trace(packets: u64, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\x0a\x04host")?;
    let mut packet = Vec::with_capacity(64);
    let mut framed = Vec::with_capacity(64);
    for index in 0..packets {
        packet.clear();
        packet.push(0x08);
        put_varint(&mut packet, 1_000_000_000 + index * 1000);
        if index % 4 == 0 {
            let name = format!("event {}", index % 1000);
            packet.push(0x12);
            put_varint(&mut packet, name.len() as u64);
            packet.extend_from_slice(name.as_bytes());
        }
        packet.extend_from_slice(&[0x18, u8::from(index % 3 == 0) + 1]);
        framed.clear();
        framed.push(0x12);
        put_varint(&mut framed, packet.len() as u64);
        framed.extend_from_slice(&packet);
        out.write_all(&framed)?;
    }
    out.write_all(b"\x1a\x07\x08\x01\x12\x03cpu\x1a\x07\x08\x02\x12\x03gpu")
}

/// Returns the bytes that [`write_trace`] writes.
///
/// # Panics
///
/// Never panics, since writing to memory doesn't fail.
pub fn trace(packets: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_trace(packets, &mut bytes).expect("memory takes it");
    bytes
}
