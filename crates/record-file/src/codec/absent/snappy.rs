//! Stand-ins for snappy in a build without it. None of these types can be constructed.
use super::step::{Progress, missing};
use crate::compression::CompressionKind;
use crate::error::Result;

pub(super) enum Encoder {}

impl Encoder {
    pub(super) fn new() -> Result<Encoder> {
        Err(missing(CompressionKind::Snappy))
    }

    pub(super) fn compress(&mut self, _: &[u8]) -> Result<&[u8]> {
        match *self {}
    }
}

pub(crate) enum Decoder {}

impl Decoder {
    pub(super) fn new() -> Result<Decoder> {
        Err(missing(CompressionKind::Snappy))
    }

    pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<(Progress, bool)> {
        match *self {}
    }
}

pub(super) fn decompress(_: &[u8], _: &mut [u8]) -> Result<()> {
    Err(missing(CompressionKind::Snappy))
}
