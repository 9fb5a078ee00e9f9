//! Splitters' requests to reduce messages by size. The requests run once all splitters have made
//! their cuts, so the order of calls doesn't matter, and a child splitter may reduce the same
//! message as its parent splitter.

use std::cmp::Reverse;
use std::ops::Range;

use super::continuation::RunBudget;
use super::cuts::Cuts;
use super::size::Engine;
use crate::split::options::{SizeRules, SplitOptions};
use crate::split::read::source::Source;
use crate::split::read::source_view::{Located, SourceView};
use crate::{Error, ErrorKind, Result};

/// A message that must fit within the maximum chunk size, and the rules for cutting it.
#[derive(Debug)]
struct SizeRequest {
    message: Located,
    /// True if a path can lead to the message.
    addressable: bool,
    rules: SizeRules,
}

/// All messages that must fit within the maximum chunk size.
#[derive(Debug, Default)]
pub(in crate::split) struct SizeRequests {
    fits: Vec<SizeRequest>,
}

impl SizeRequests {
    pub(in crate::split) fn add(&mut self, message: &SourceView<'_>, rules: &SizeRules) {
        self.fits.push(SizeRequest {
            message: message.located(),
            addressable: message.addressable,
            rules: rules.clone(),
        });
    }

    /// Returns true if a splitter requested to reduce `message`, or a message that encloses it, by
    /// size, and the message to reduce has more than `max` bytes. The reduction may then cut
    /// `message`.
    pub(in crate::split) fn reaches(&self, message: &Located, max: u64) -> bool {
        let Some(inner) = message.contents.first() else {
            return false;
        };
        let around = |outer: &Range<u64>| outer.start <= inner.start && inner.end <= outer.end;
        self.fits
            .iter()
            .filter(|fit| fit.message.size() > max)
            .any(|fit| fit.message.contents.iter().any(around))
    }

    /// Returns true if a splitter requested to reduce the root message by size, and no rule forbids
    /// slicing the root message's fields.
    pub(in crate::split) fn may_slice_all(&self, source: &Source) -> bool {
        let name = source.descriptor().full_name();
        let keeps = |fit: &SizeRequest| fit.rules.keeps_whole(name);
        self.fits.iter().any(|fit| fit.message.path.is_root()) && !self.fits.iter().any(keeps)
    }

    /// Runs all requests, and adds the resulting cuts to `marks`.
    pub(in crate::split) fn run(
        self,
        source: &Source,
        options: &SplitOptions,
        marks: &mut Cuts,
        turns: &RunBudget,
    ) -> Result<()> {
        let mut fitted = Cuts::default();
        for fit in self.outermost() {
            if let Some(found) = fit.run(source, options, marks, turns)? {
                fitted.absorb(found);
            }
        }
        marks.absorb(fitted);
        Ok(())
    }

    /// Returns the requests for the outermost messages, each with the rules of all requests for
    /// messages inside it, since reducing a message also reduces the messages inside it.
    fn outermost(self) -> Vec<SizeRequest> {
        let mut fits = self.fits;
        // Pieces of a message are only inside pieces of its parent, so comparing the first pieces
        // suffices.
        fits.sort_by_key(|fit| fit.first().map(|piece| (piece.start, Reverse(piece.end))));
        let mut outermost: Vec<SizeRequest> = Vec::new();
        for fit in fits {
            match outermost.last_mut() {
                Some(outer) if outer.encloses(&fit) => outer.rules.extend(fit.rules),
                _ => outermost.push(fit),
            }
        }
        outermost
    }
}

impl SizeRequest {
    fn first(&self) -> Option<Range<u64>> {
        self.message.contents.first().cloned()
    }

    fn encloses(&self, other: &SizeRequest) -> bool {
        let Some(inner) = other.first() else {
            return false;
        };
        let mut pieces = self.message.contents.iter();
        pieces.any(|piece| piece.start <= inner.start && inner.end <= piece.end)
    }

    fn run(
        self,
        source: &Source,
        options: &SplitOptions,
        marks: &Cuts,
        turns: &RunBudget,
    ) -> Result<Option<Cuts>> {
        let Some(descriptor) = &self.message.descriptor else {
            return Ok(None);
        };
        if self.message.size() <= options.effective_max_chunk_size() {
            // Nothing is cut, but invalid messages and messages of another type are still refused.
            if self.message.path.is_root() {
                self.message.check_fields(source)?;
            }
            // The file will be chunked in any case, so long fields are sliced to locate their
            // elements faster.
            let long = self.message.size() > options.effective_max_slice_size();
            return match self.message.chains.as_slice() {
                [chain]
                    if options.always_chunked && long && marks.is_empty() && self.addressable =>
                {
                    let engine = Engine::new(source, options, &self.rules, marks, turns);
                    engine.slice_long_fields(chain, descriptor, &self.message.path)
                }
                _ => Ok(None),
            };
        }
        let chain = match self.message.chains.as_slice() {
            [chain] if self.addressable => Ok(chain),
            [_] => Err("no path leads to"),
            _ => Err("is written in several pieces"),
        };
        let chain = chain.map_err(|why| {
            let message = format!(
                "{} bytes of a message that {why} and can't be cut, over the maximum chunk size of {} bytes",
                self.message.size(),
                options.effective_max_chunk_size()
            );
            let path = self.message.path.display(Some(source.descriptor()));
            let error = Error::new(ErrorKind::Uncuttable, message).refusing_size();
            error.at_path(path)
        })?;
        let engine = Engine::new(source, options, &self.rules, marks, turns);
        engine.fit(chain, descriptor, &self.message.path).map(Some)
    }
}
