//! Hashes of messages in C++'s deterministic serialization.

use proto_splitter_core::Result;

pub(crate) use proto_splitter_core::canonical::{Canonical, Edits, Key, Plan};

use crate::farmhash::Farmhash;

/// A plan whose result can be hashed.
pub(crate) trait Hashed {
    /// Returns the fingerprint of a plan's result.
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
