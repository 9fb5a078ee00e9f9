//! Reading the data of all parameters at once.

use std::num::NonZeroUsize;

use bytes::Bytes;
use proto_splitter_core::tensor::{read_many, read_many_into};
use proto_splitter_core::{Error, ErrorKind, Result};

use super::PaddleModel;

impl PaddleModel {
    /// Reads the data of all [`parameters`](Self::parameters) into newly allocated memory, and
    /// returns the data of each in the same order. Uses `threads` threads, or one per core if
    /// `threads` is `None`.
    ///
    /// All returned buffers share one allocation, which is only freed once all of them are dropped.
    /// To keep only some parameters, read each with
    /// [`Stream::to_bytes`](crate::stream::Stream::to_bytes).
    ///
    /// ```
    /// use proto_splitter_paddle::proto::framework::var_type::Type;
    /// use proto_splitter_paddle::stream::{Layout, TensorSpec};
    /// use proto_splitter_paddle::{PaddleModel, ParameterWriter};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("model.pdiparams");
    /// let mut writer = ParameterWriter::create(&path, Layout::Paddle, false)?;
    /// for data in [[1, 2], [3, 4]] {
    ///     writer.write(&TensorSpec::dense(Type::Uint8, [2]), &mut &data[..])?;
    /// }
    /// writer.finish()?;
    ///
    /// let model = PaddleModel::open(&path)?;
    /// assert_eq!(model.read_all(None)?, [[1, 2].as_slice(), &[3, 4]]);
    ///
    /// let mut buffers = [[0; 2]; 2];
    /// model.read_all_to(buffers.iter_mut().map(|buffer| &mut buffer[..]), None)?;
    /// assert_eq!(buffers, [[1, 2], [3, 4]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SourceChanged`] if a file has changed since it was opened;
    /// [`ErrorKind::LimitExceeded`] if the memory can't be allocated; [`ErrorKind::Io`].
    pub fn read_all(&self, threads: Option<NonZeroUsize>) -> Result<Vec<Bytes>> {
        let parameters = self.parameters();
        let ranges =
            parameters.map(|(file, parameter)| (file.bytes() as _, parameter.stream().data()));
        read_many(&ranges.collect::<Vec<_>>(), threads)
    }

    /// Reads the data of all parameters as [`read_all`](Self::read_all) does, but into one buffer
    /// per parameter. Each buffer must have the size of its parameter's data. This is faster than
    /// [`read_all`](Self::read_all) if the buffers have been written to before, so that their
    /// memory is already mapped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if there are too few or too many buffers, or a buffer has the
    /// wrong size; nothing was read in this case. Otherwise, the errors of
    /// [`read_all`](Self::read_all), after which some buffers may have been filled.
    pub fn read_all_to<'a>(
        &'a self,
        buffers: impl IntoIterator<Item = &'a mut [u8]>,
        threads: Option<NonZeroUsize>,
    ) -> Result<()> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidConfig, message);
        let (mut parameters, mut filled) = (self.parameters(), Vec::new());
        for buffer in buffers {
            let Some((file, parameter)) = parameters.next() else {
                let message = format!("more buffers than the {} parameters", filled.len());
                return Err(invalid(message));
            };
            let data = parameter.stream().data();
            let size = data.end - data.start;
            if size != buffer.len() as u64 {
                let message = format!(
                    "the buffer has {} bytes, but the data has {size}",
                    buffer.len()
                );
                let name = parameter
                    .name()
                    .map_or_else(|| format!("tensor {}", filled.len()), str::to_owned);
                return Err(invalid(message).at_path(name));
            }
            filled.push((file.bytes() as _, data.start, buffer));
        }
        let left = parameters.count();
        if left > 0 {
            let message = format!(
                "{} buffers for {} parameters",
                filled.len(),
                filled.len() + left
            );
            return Err(invalid(message));
        }
        read_many_into(filled, threads)
    }
}
