//! The constants and layers of an open module or executable, as an archive.

use std::sync::{Arc, OnceLock};

use proto_splitter_core::formats::{Archive, Checks, Verified};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::read_through;
use proto_splitter_core::tensor::{TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

use crate::executable::{Executable, unpacked_module};
use crate::layers::Layer;
use crate::literals::Literals;
use crate::split_proto::SplitProto;
use crate::{
    CPU_EXECUTABLE, EXECUTABLE_AND_OPTIONS, GPU_EXECUTABLE, HLO_PROTO, HUMAN_READABLE_EXECUTABLE,
};

/// Name of the properties that describe layers.
pub(super) const LAYER: &str = "layer";

/// The constants, layers and split proto of an open message.
#[derive(Debug)]
pub(super) struct Parts {
    message_type: String,
    /// The whole message, which is read in order to verify it.
    message: Arc<dyn ReadAt>,
    layers: Vec<Layer>,
    split: Option<SplitProto>,
    /// Constants, which are found on first use; `None` if the message has no module.
    literals: OnceLock<Option<Literals>>,
}

impl Parts {
    pub(super) fn new(
        message_type: &str,
        message: Arc<dyn ReadAt>,
        layers: Vec<Layer>,
        split: Option<SplitProto>,
    ) -> Parts {
        Parts {
            message_type: message_type.to_owned(),
            message,
            layers,
            split,
            literals: OnceLock::new(),
        }
    }

    /// Returns the constants of the message's module; `None` if the message's type has no module.
    fn literals(&self) -> Result<Option<&Literals>> {
        if let Some(literals) = self.literals.get() {
            return Ok(literals.as_ref());
        }
        let message = Arc::clone(&self.message);
        let literals = match self.message_type.as_str() {
            HLO_PROTO => Some(Literals::new(message, &[1])),
            GPU_EXECUTABLE | CPU_EXECUTABLE => Some(Literals::new(message, &[1, 1])),
            HUMAN_READABLE_EXECUTABLE => {
                let module = unpacked_module(&*message)?;
                Some(Literals::new(message, module))
            }
            EXECUTABLE_AND_OPTIONS => {
                let inside = Executable::find(&message)?;
                let literals = Literals::new(inside.message, &[1, 1]);
                // Executables for other platforms may be arbitrary bytes.
                let is_known = inside.split.is_some() || literals.infos().is_ok();
                is_known.then_some(literals)
            }
            _ => None,
        };
        Ok(self.literals.get_or_init(|| literals).as_ref())
    }

    /// Returns the split proto of the executable that is embedded in the message; `None` if there
    /// is no such executable, or it isn't a split proto.
    fn inside(&self) -> Result<Option<SplitProto>> {
        if self.message_type != EXECUTABLE_AND_OPTIONS {
            return Ok(None);
        }
        Ok(Executable::find(&self.message)?.split)
    }
}

fn described(split: &SplitProto) -> String {
    let manifest = split.manifest();
    let count = manifest.records().len();
    format!(
        "{} in {count} records after a manifest",
        manifest.message_type()
    )
}

impl Archive for Parts {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        self.literals()?.map_or(Ok(Vec::new()), Literals::infos)
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        match self.literals()? {
            Some(literals) => literals.read(info),
            None => {
                let message = format!("there is no constant {:?}", info.name);
                Err(Error::new(ErrorKind::InvalidPath, message))
            }
        }
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let layers = self.layers.iter();
        let layers = layers.map(|layer| (LAYER.to_owned(), layer.to_string()));
        let mut properties: Vec<_> = layers.collect();
        if let Some(split) = &self.split {
            properties.push(("split proto".to_owned(), described(split)));
        }
        if let Some(inside) = self.inside()? {
            properties.push(("serialized_executable".to_owned(), described(&inside)));
        }
        Ok(properties)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let size = read_through(&*self.message, progress)?;
        let inside = self.inside()?;
        if let Some(inside) = &inside {
            let read = read_through(&**inside.message(), progress);
            read.map_err(|error| error.context("serialized_executable"))?;
        }
        let tensors = self.tensors()?.len() as u64;
        let checks = if self.split.is_some() || inside.is_some() {
            Checks::Checksums
        } else {
            Checks::Structure
        };
        let mut warnings = Vec::new();
        for (split, place) in [(&self.split, ""), (&inside, "serialized_executable: ")] {
            let findings = split.as_ref().map(SplitProto::findings).transpose()?;
            let findings = findings.unwrap_or_default();
            warnings.extend(findings.iter().map(|finding| format!("{place}{finding}")));
        }
        Ok(Verified::new(tensors, size, checks).warnings(warnings))
    }
}
