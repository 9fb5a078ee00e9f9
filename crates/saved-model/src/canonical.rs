//! Hashes of messages as C++ serializes them deterministically.

use proto_splitter_core::Result;

pub(crate) use proto_splitter_core::canonical::{Canonical, Edits, Key, Plan};

use crate::farmhash::Farmhash;

/// Hashes of what was planned.
pub(crate) trait Hashed {
    /// The fingerprint of a plan.
    fn hash(&self, plan: &Plan) -> Result<u64>;
}

impl Hashed for Canonical<'_> {
    fn hash(&self, plan: &Plan) -> Result<u64> {
        let _span = tracing::debug_span!("hash", bytes = plan.len()).entered();
        let mut hash = Farmhash::new();
        self.write(plan, &mut hash)?;
        Ok(hash.finish())
    }
}

#[cfg(test)]
mod tests;
