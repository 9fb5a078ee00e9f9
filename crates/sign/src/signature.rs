//! Signatures, and the files that store them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto_splitter_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::key::{SigningKey, VerifyingKey};
use crate::statement::Statement;

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A signature of a model: a signed statement about its files, and a hash that identifies the
/// signer's key.
///
/// Create it with [`sign`](crate::sign), or parse it from a file. Parsing doesn't check who made
/// the signature; [`verify`](crate::verify) does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(Bundle);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Bundle {
    media_type: String,
    verification_material: VerificationMaterial,
    dsse_envelope: Envelope,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VerificationMaterial {
    public_key: KeyHint,
    tlog_entries: Vec<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyHint {
    hint: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    sig: String,
    keyid: String,
}

impl Signature {
    /// Maximum size of a signature file, in bytes: 256 MiB, which is enough to list a million
    /// files.
    pub const MAX_SIZE: u64 = 256 << 20;

    pub(crate) fn of(statement: &Statement, key: &SigningKey) -> Result<Self> {
        let payload = statement.to_json()?;
        let signed = key.sign(&signed_bytes(&payload))?;
        Ok(Signature(Bundle {
            media_type: MEDIA_TYPE.to_owned(),
            verification_material: VerificationMaterial {
                public_key: KeyHint {
                    hint: key.verifying_key().hint()?,
                },
                tlog_entries: Vec::new(),
            },
            dsse_envelope: Envelope {
                payload: STANDARD.encode(payload),
                payload_type: PAYLOAD_TYPE.to_owned(),
                signatures: vec![EnvelopeSignature {
                    sig: STANDARD.encode(signed),
                    keyid: String::new(),
                }],
            },
        }))
    }

    /// Parses the content of a signature file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidMessage`] if the file isn't a version 0.3 Sigstore bundle that was
    /// signed with a key; [`ErrorKind::LimitExceeded`] if the file is larger than
    /// [`Signature::MAX_SIZE`].
    pub fn from_json(json: &[u8]) -> Result<Self> {
        if json.len() as u64 > Self::MAX_SIZE {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the signature has {} bytes, but at most {} are allowed",
                    json.len(),
                    Self::MAX_SIZE
                ),
            ));
        }
        let bundle: Bundle = serde_json::from_slice(json).map_err(|error| {
            Error::invalid(format!("not a Sigstore bundle signed with a key: {error}"))
        })?;
        if bundle.media_type != MEDIA_TYPE {
            return Err(Error::invalid(format!(
                "the bundle has type {:?}, expected {MEDIA_TYPE:?}",
                bundle.media_type
            )));
        }
        Ok(Signature(bundle))
    }

    /// Returns the content of a signature file, as JSON.
    ///
    /// # Errors
    ///
    /// Doesn't fail in practice, since the JSON consists only of strings.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.0).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Returns the signed statement. Fails if it wasn't signed with the private key for `key`.
    pub(crate) fn statement(&self, key: &VerifyingKey) -> Result<Statement> {
        if self.0.verification_material.public_key.hint != key.hint()? {
            return Err(forged("it was signed with another key"));
        }
        let envelope = &self.0.dsse_envelope;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(forged("the signed content is not an in-toto statement"));
        }
        let [signature] = &*envelope.signatures else {
            return Err(forged("it doesn't have exactly one signature"));
        };
        let decode = |text: &str| {
            STANDARD
                .decode(text)
                .map_err(|_| forged("it is not base64"))
        };
        let (payload, signed) = (decode(&envelope.payload)?, decode(&signature.sig)?);
        if !key.accepts(&signed_bytes(&payload), &signed) {
            return Err(forged("it was not made by this key for these files"));
        }
        Statement::parse(&payload)
    }
}

/// Returns the bytes that DSSE signs: a header with the type and the length of the payload,
/// followed by the payload.
fn signed_bytes(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "DSSEv1 {} {PAYLOAD_TYPE} {} ",
        PAYLOAD_TYPE.len(),
        payload.len()
    )
    .into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn forged(why: &str) -> Error {
    Error::new(
        ErrorKind::ChecksumMismatch,
        format!("the signature is not valid: {why}"),
    )
}
