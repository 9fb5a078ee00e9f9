//! Stand-ins for brotli in a build without it. None of these types can be constructed.
use super::step::{Progress, missing};
use crate::compression::CompressionKind;
use crate::error::Result;

pub(super) enum Encoder {}

impl Encoder {
    pub(super) fn new(_: u32, _: Option<u32>, _: u64) -> Result<Encoder> {
        Err(missing(CompressionKind::Brotli))
    }

    pub(super) fn step(&mut self, _: &mut &[u8], _: &mut [u8], _: bool) -> Result<(usize, bool)> {
        match *self {}
    }
}

pub(crate) enum Decoder {}

impl Decoder {
    pub(super) fn new() -> Result<Decoder> {
        Err(missing(CompressionKind::Brotli))
    }

    pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<(Progress, bool)> {
        match *self {}
    }
}
