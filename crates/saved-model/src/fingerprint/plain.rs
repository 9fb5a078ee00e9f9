//! The fingerprint of a `saved_model.pb`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use proto_splitter_core::Result;
use proto_splitter_core::progress::Progress;
use record_file::ReadAt;

use super::regular::{node_edits, suffix_uid};
use super::{
    FingerprintError, Hashes, PLAIN_PRODUCER, descriptor, fingerprint_cat64, fingerprint64,
};
use crate::hashed::{Canonical, Edits, Hashed as _, Key, Plan};

pub(super) const META_GRAPHS: u32 = 2;
pub(super) const GRAPH_DEF: u32 = 2;
pub(super) const SIGNATURE_DEF: u32 = 5;
pub(super) const OBJECT_GRAPH_DEF: u32 = 7;
const CONCRETE_FUNCTIONS: u32 = 2;
const NODE: u32 = 1;
const LIBRARY: u32 = 2;
const VERSIONS: u32 = 4;

/// Returns the hashes of the `SavedModel` in the `size` bytes of `source`.
pub(crate) fn hashes(
    source: &dyn ReadAt,
    size: u64,
    progress: &Progress,
) -> Result<Hashes, FingerprintError> {
    let mut canonical = Canonical::new(source, size).progress(progress);
    let whole = canonical.whole();
    let model = canonical.message(
        &descriptor("tensorflow.SavedModel")?,
        &whole,
        &Edits::none(),
    )?;
    let saved_model_checksum = canonical.hash(&model)?;
    let meta_graph = [first_meta_graph(&mut canonical, &whole)?];
    let signatures = canonical.map(
        &descriptor("tensorflow.MetaGraphDef")?,
        &meta_graph,
        SIGNATURE_DEF,
    )?;
    Ok(Hashes {
        saved_model_checksum,
        graph_def_program_hash: program_hash(&mut canonical, &meta_graph)?,
        signature_def_hash: signatures_hash(&canonical, &signatures)?,
        saved_object_graph_hash: concrete_functions_hash(&mut canonical, &meta_graph)?,
        producer: PLAIN_PRODUCER,
    })
}

pub(super) fn first_meta_graph(
    canonical: &mut Canonical<'_>,
    model: &[Range<u64>],
) -> Result<Range<u64>, FingerprintError> {
    let mut meta_graphs = canonical.pieces(model, META_GRAPHS)?.into_iter();
    meta_graphs
        .next()
        .ok_or_else(|| FingerprintError::refused("it has no meta graph"))
}

/// Returns the hash of the graph as changed by TensorFlow's `SimpleDelete`. `SimpleDelete` sets the
/// fields `library` and `versions` to empty messages, even if the graph doesn't have these fields.
fn program_hash(
    canonical: &mut Canonical<'_>,
    meta_graph: &[Range<u64>],
) -> Result<u64, FingerprintError> {
    let graph = canonical.pieces(meta_graph, GRAPH_DEF)?;
    let refusal = RefCell::new(None);
    let of_node = |canonical: &mut Canonical<'_>, node| node_edits(canonical, node, &refusal);
    let edits = Edits::none()
        .field(LIBRARY, Edits::content([]))
        .field(VERSIONS, Edits::content([]))
        .elements(NODE, &of_node);
    let plan = canonical.message(&descriptor("tensorflow.GraphDef")?, &graph, &edits)?;
    if let Some(why) = refusal.take() {
        return Err(FingerprintError::Refused(why));
    }
    Ok(canonical.hash(&plan)?)
}

fn signatures_hash(
    canonical: &Canonical<'_>,
    signatures: &BTreeMap<Key, Plan>,
) -> Result<u64, FingerprintError> {
    let mut hash = 0;
    for (key, signature) in signatures {
        hash = fingerprint_cat64(hash, fingerprint64(text(key)));
        hash = fingerprint_cat64(hash, canonical.hash(signature)?);
    }
    Ok(hash)
}

fn concrete_functions_hash(
    canonical: &mut Canonical<'_>,
    meta_graph: &[Range<u64>],
) -> Result<u64, FingerprintError> {
    let graph = canonical.pieces(meta_graph, OBJECT_GRAPH_DEF)?;
    let functions = canonical.map(
        &descriptor("tensorflow.SavedObjectGraph")?,
        &graph,
        CONCRETE_FUNCTIONS,
    )?;
    let mut by_uid = BTreeMap::new();
    for (key, function) in &functions {
        let name = text(key);
        let Some(uid) = suffix_uid(name) else {
            let name = String::from_utf8_lossy(name);
            let why = format!("the concrete function `{name}` does not end in an integer");
            return Err(FingerprintError::Refused(why));
        };
        // If several functions have the same number, TensorFlow uses the one that it visits first.
        by_uid.entry(uid).or_insert((name, function));
    }
    let mut hash = 0;
    for (uid, (name, function)) in by_uid {
        let uid = uid.to_string();
        let name = name.strip_suffix(uid.as_bytes()).unwrap_or(name);
        hash = fingerprint_cat64(hash, fingerprint64(name));
        hash = fingerprint_cat64(hash, canonical.hash(function)?);
    }
    Ok(hash)
}

pub(super) fn text(key: &Key) -> &[u8] {
    match key {
        Key::Text(text) => text,
        Key::Signed(_) | Key::Unsigned(_) => &[],
    }
}
