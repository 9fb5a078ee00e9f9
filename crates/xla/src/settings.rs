//! The settings of a conversion.

use proto_splitter_core::formats::ConvertOptions;
use proto_splitter_core::{Error, ErrorKind, Result};

/// Fails if there are other settings than the known ones.
pub(crate) fn no_more_settings(options: &ConvertOptions, known: &[&str]) -> Result<()> {
    let mut names = options.settings.keys();
    let Some(name) = names.find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let message = format!("there is no setting {name:?} for this form");
    Err(Error::new(ErrorKind::InvalidConfig, message))
}
