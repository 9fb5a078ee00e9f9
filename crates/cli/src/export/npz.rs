//! NumPy's archive: a zip file of NumPy files, here not compressed.

use std::io::{Seek, Write};

use proto_splitter::progress::Meter;
use proto_splitter::tensor::TensorInfo;
use proto_splitter::{Error, ErrorKind, Opened};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::Metered;
use crate::npy;

pub(super) fn write(
    opened: &Opened,
    tensors: &[TensorInfo],
    sink: &mut (impl Write + Seek),
    meter: &Meter,
) -> Result<(), Error> {
    let mut archive = ZipWriter::new(sink);
    for tensor in tensors {
        let at_tensor = |error: Error| error.context(format!("tensor {:?}", tensor.name));
        let reader = opened.read_tensor(tensor).map_err(at_tensor)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(npy::size(tensor).map_err(at_tensor)? > u64::from(u32::MAX));
        // Readers take the name of the array from the entry's.
        archive
            .start_file(format!("{}.npy", tensor.name), options)
            .map_err(|error| at_tensor(failure(&error)))?;
        let mut sink = Metered {
            sink: &mut archive,
            meter,
        };
        npy::write(reader, &mut sink).map_err(at_tensor)?;
    }
    archive.finish().map_err(|error| failure(&error))?;
    Ok(())
}

fn failure(error: &zip::result::ZipError) -> Error {
    Error::new(ErrorKind::Io, error.to_string())
}
