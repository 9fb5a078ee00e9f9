//! Hashes of messages as serialized by C++'s deterministic serialization.

use proto_splitter_core::Result;

pub(crate) use proto_splitter_core::canonical::{Canonical, Edits, Key, Plan};

use crate::farmhash::Farmhash;

/// Hashing of the message that a [`Plan`] describes.
pub(crate) trait Hashed {
    /// Returns the `Fingerprint64` of the message that `plan` describes.
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
