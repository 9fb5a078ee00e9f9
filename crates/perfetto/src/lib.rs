//! The format of Perfetto traces, for the registry of file formats. Provides the traces' schema,
//! and recognizes trace files by their names.
//!
//! The schema has the names, numbers and types of all fields in Perfetto 0.59, without comments and
//! options. `schema.py` in the crate's folder generates the schema from Perfetto's own Python
//! package.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::sync::OnceLock;

use prost_reflect::DescriptorPool;
use proto_splitter_core::Result;
use proto_splitter_core::formats::{
    Candidate, CandidateKind, Confidence, Format, OpenOptions, Opened,
};

/// Full name of the message type for traces.
pub const TRACE: &str = "perfetto.protos.Trace";

/// File name endings of traces, which Perfetto's tools write and expect.
const ENDINGS: [&str; 3] = [".perfetto-trace", ".pftrace", ".perfetto_trace"];

/// Descriptors of all types in the schema, as a serialized `google.protobuf.FileDescriptorSet`.
static SCHEMA: &[u8] = include_bytes!("schema.binpb");

/// Returns a pool with [`TRACE`], the message type of traces, and all types that it uses.
///
/// ```
/// let pool = proto_splitter_perfetto::descriptor_pool();
/// let packet = pool.get_message_by_name("perfetto.protos.TracePacket").unwrap();
/// assert_eq!(packet.get_field_by_name("timestamp").map(|field| field.number()), Some(8));
/// ```
pub fn descriptor_pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    // A test makes sure that the schema can be decoded. If decoding failed anyway, the pool would
    // be empty.
    POOL.get_or_init(|| DescriptorPool::decode(SCHEMA).unwrap_or_default())
}

/// The format of Perfetto traces. A trace is one `perfetto.protos.Trace` message with up to
/// millions of packets.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_perfetto::PerfettoFormat;
///
/// static FORMATS: Registry = Registry::new(&[&PerfettoFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("boot.perfetto-trace");
/// std::fs::write(&path, b"\x0a\x02\x40\x19")?;
///
/// let opened = FORMATS.open(&path, &OpenOptions::new())?;
/// assert_eq!(opened.get("packet[0].timestamp")?, b"\x19"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PerfettoFormat;

impl Format for PerfettoFormat {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn title(&self) -> &'static str {
        "Perfetto trace"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        let name = candidate.file_name();
        let is_named = ENDINGS.iter().any(|ending| name.ends_with(ending));
        (is_named && candidate.kind() == CandidateKind::File).then_some(Confidence::Likely)
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        Opened::of_input(input, descriptor_pool().get_message_by_name(TRACE), options)
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[TRACE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read_and_complete() {
        let pool = DescriptorPool::decode(SCHEMA).unwrap();
        let trace = pool.get_message_by_name(TRACE).unwrap();
        assert!(trace.get_field_by_name("packet").unwrap().is_list());
        assert!(pool.all_messages().count() > 1000);
    }
}
