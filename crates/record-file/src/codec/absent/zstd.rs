//! Stand-ins for zstd in a build without it. None of these types can be constructed.
use super::step::{Each, Progress, missing};
use crate::compression::CompressionKind;
use crate::error::Result;

const KIND: CompressionKind = CompressionKind::Zstd;

pub(super) enum Encoder {}

impl Encoder {
    pub(super) fn new(_: i32, _: Option<u32>, _: u64, _: Option<Encoder>) -> Result<Encoder> {
        Err(missing(KIND))
    }

    pub(super) fn run(
        &mut self,
        _: &[u8],
        _: &mut Vec<u8>,
        _: bool,
        _: &mut Each<'_>,
    ) -> Result<()> {
        match *self {}
    }

    pub(super) fn step(&mut self, _: &mut &[u8], _: &mut [u8], _: bool) -> Result<(usize, bool)> {
        match *self {}
    }
}

pub(super) fn most_compressed(size: usize) -> usize {
    size
}

pub(crate) enum Decoder {}

impl Decoder {
    pub(super) fn new() -> Result<Decoder> {
        Err(missing(KIND))
    }

    pub(super) fn begin(&mut self, _: u32) -> Result<()> {
        match *self {}
    }

    pub(super) fn memory(&self) -> usize {
        match *self {}
    }

    pub(super) fn decompress<B: ?Sized>(&mut self, _: &[u8], _: &mut B, _: u64) -> Result<usize> {
        match *self {}
    }

    pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<(Progress, bool)> {
        match *self {}
    }

    pub(super) fn step_to(
        &mut self,
        _: &[u8],
        _: &mut Vec<u8>,
        _: u64,
    ) -> Result<(Progress, bool)> {
        match *self {}
    }
}

pub(super) fn check_single(_: &[u8]) -> Result<()> {
    Err(missing(KIND))
}

pub(super) fn window(_: &[u8]) -> Option<u64> {
    None
}

pub(super) fn most_content(_: &[u8]) -> Option<u64> {
    None
}
