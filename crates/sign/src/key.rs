//! Elliptic-curve keys, for creating and checking signatures.

use std::fmt;

use p256::ecdsa::signature::{Signer, Verifier};
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey, LineEnding};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::statement::sha256_hex;

/// A P-256 or P-384 private key, for signing.
///
/// To create a key, run `openssl ecparam -name prime256v1 -genkey -noout -out key.pem`. To extract
/// the corresponding [`VerifyingKey`], run `openssl ec -in key.pem -pubout -out key.pub`.
pub struct SigningKey(Private);

enum Private {
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
}

impl SigningKey {
    /// Parses a PEM key in PKCS #8 form (`PRIVATE KEY`) or SEC 1 form (`EC PRIVATE KEY`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text isn't a private key, or the key is encrypted or
    /// uses a curve other than P-256 and P-384.
    pub fn from_pem(pem: &str) -> Result<Self> {
        // Skips the parameters of the curve, which older versions of openssl write before the key.
        let start = pem.find("-----BEGIN EC PRIVATE KEY").unwrap_or(0);
        let pem = &pem[start..];
        if pem.contains("ENCRYPTED") {
            return Err(invalid(
                "the private key is encrypted: decrypt it with openssl first",
            ));
        }
        if let Ok(key) = p256::SecretKey::from_sec1_pem(pem)
            .or_else(|_| p256::SecretKey::from_pkcs8_pem(pem).map_err(drop))
        {
            return Ok(SigningKey(Private::P256(key.into())));
        }
        if let Ok(key) = p384::SecretKey::from_sec1_pem(pem)
            .or_else(|_| p384::SecretKey::from_pkcs8_pem(pem).map_err(drop))
        {
            return Ok(SigningKey(Private::P384(key.into())));
        }
        Err(invalid("not a private key of P-256 or P-384 in PEM"))
    }

    /// Returns the corresponding public key.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(match &self.0 {
            Private::P256(key) => Public::P256(*key.verifying_key()),
            Private::P384(key) => Public::P384(*key.verifying_key()),
        })
    }

    /// Signs the hash of `message`, and returns the signature in DER. The hash function is the one
    /// that belongs to the key's curve.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let failed = |_| invalid("the key can't sign");
        Ok(match &self.0 {
            Private::P256(key) => {
                let signature: p256::ecdsa::DerSignature = key.try_sign(message).map_err(failed)?;
                signature.as_bytes().to_vec()
            }
            Private::P384(key) => {
                let signature: p384::ecdsa::DerSignature = key.try_sign(message).map_err(failed)?;
                signature.as_bytes().to_vec()
            }
        })
    }
}

/// Shows only the curve, so that private keys don't get into logs.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Private::P256(_) => "SigningKey(P-256)",
            Private::P384(_) => "SigningKey(P-384)",
        })
    }
}

/// A P-256 or P-384 public key, for checking signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey(Public);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
}

impl VerifyingKey {
    /// Parses a public key in PEM (`PUBLIC KEY`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text isn't a public key, or the key uses a curve other
    /// than P-256 and P-384.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let pem = pem.trim_start();
        if let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_pem(pem) {
            return Ok(VerifyingKey(Public::P256(key)));
        }
        if let Ok(key) = p384::ecdsa::VerifyingKey::from_public_key_pem(pem) {
            return Ok(VerifyingKey(Public::P384(key)));
        }
        Err(invalid("not a public key of P-256 or P-384 in PEM"))
    }

    /// Returns the SHA-256 of the key's PEM text, by which a signature identifies its key.
    pub(crate) fn hint(&self) -> Result<String> {
        let pem = match &self.0 {
            Public::P256(key) => key.to_public_key_pem(LineEnding::LF),
            Public::P384(key) => key.to_public_key_pem(LineEnding::LF),
        };
        let pem = pem.map_err(|_| invalid("the key can't be encoded in PEM"))?;
        Ok(sha256_hex(pem.as_bytes()))
    }

    /// Returns true if `signature`, in DER, is a signature of `message` that was made with the
    /// corresponding private key.
    pub(crate) fn accepts(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Public::P256(key) => p256::ecdsa::DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Public::P384(key) => p384::ecdsa::DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, what)
}
