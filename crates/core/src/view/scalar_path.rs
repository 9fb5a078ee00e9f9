//! Paths to scalar values inside the values that a query selects.

use bytes::Bytes;
use prost_reflect::Kind;

use super::element_runs::ElementRuns;
use super::from_scalar::ScalarValue;
use super::locate::Way;
use super::select::Selected;
use super::{LARGEST_SMALL_VALUE, total};
use crate::path::{FieldPath, TargetKind, is_implicit};
use crate::{Error, ErrorKind, Result};

/// A path that starts at each value selected by a query, and leads to a scalar inside that value.
pub struct ScalarPath {
    way: Way,
    kind: Kind,
    /// Value of an absent field: 0 or empty; `None` if the field has presence.
    absent: Option<ScalarValue>,
}

impl std::fmt::Debug for ScalarPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScalarPath").finish_non_exhaustive()
    }
}

impl ScalarPath {
    /// Parses a path that starts at each value selected by a query. `value` is the kind of these
    /// values. The path `.` leads to the value itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if `text` is not a path, or leads to a message, a whole repeated
    /// field or a map.
    pub fn new(text: &str, value: &TargetKind) -> Result<ScalarPath> {
        let invalid = |message: &str| {
            let error = Error::new(ErrorKind::InvalidPath, message);
            Err(error.at_path(text))
        };
        let (path, target) = match (text, value, value.message()) {
            ("" | ".", TargetKind::Scalar(kind), _) => {
                return Ok(ScalarPath {
                    way: Way::default(),
                    kind: kind.clone(),
                    absent: None,
                });
            }
            (_, _, Some(message)) => {
                let path = FieldPath::parse(if text == "." { "" } else { text }, message)?;
                let target = path.resolve(message)?;
                (path, target)
            }
            _ => return invalid("the values aren't messages, so they contain no fields"),
        };
        let kind = match target.kind {
            TargetKind::Scalar(kind) if !target.whole_field => kind,
            _ => return invalid("it selects a message or a whole field, but not a single value"),
        };
        let message = value.message();
        let implicit = message.is_some_and(|message| is_implicit(&path, message));
        Ok(ScalarPath {
            way: Way::new(&path, message),
            absent: ScalarValue::zero(&kind).filter(|_| implicit),
            kind,
        })
    }

    /// Returns the kind of the values at the path.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl Selected<'_> {
    /// Returns the scalar value at a path inside the most recently returned value. If the field is
    /// absent, returns 0 or an empty value for a field without presence, and `None` for a field
    /// with presence.
    ///
    /// ```
    /// use proto_splitter_core::merge::ReadOptions;
    /// use proto_splitter_core::path::PathQuery;
    /// use proto_splitter_core::view::{MessageView, ScalarPath, ScalarValue};
    /// use prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
    ///
    /// let root = FileDescriptorProto::default().descriptor();
    /// let query = PathQuery::parse("message_type[*]", Some(&root))?;
    /// let name = ScalarPath::new("name", &query.resolve(&root)?.kind)?;
    /// let file = b"\x22\x03\x0a\x01A\x22\x03\x0a\x01B".to_vec();
    /// let view = MessageView::of_plain(&file, ReadOptions::new().descriptor(root))?;
    /// let mut selected = view.select(&query, &[])?;
    /// let mut names = Vec::new();
    /// while selected.next().transpose()?.is_some() {
    ///     names.extend(selected.scalar(&name)?);
    /// }
    /// assert_eq!(names[1], ScalarValue::String("B".into()));
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if the value is larger than [`LARGEST_SMALL_VALUE`];
    /// [`ErrorKind::InvalidMessage`] if the bytes aren't a valid value of the path's kind; any
    /// error from reading the chunks.
    pub fn scalar(&mut self, path: &ScalarPath) -> Result<Option<ScalarValue>> {
        let bytes = match self.last.as_slice() {
            [piece]
                if let Some(bytes) = self.cursor.input().part_at_hand(piece)
                    && let Some(found) = path.way.at_once(bytes) =>
            {
                found
                    .and_then(|found| bytes.get(found))
                    .map(Bytes::copy_from_slice)
            }
            _ => self
                .scalar_bytes(path)
                .map_err(|error| self.cursor.input_mut().damage_first(error))?,
        };
        let Some(bytes) = bytes else {
            return Ok(path.absent.clone());
        };
        let value = ScalarValue::decode(&path.kind, bytes);
        value.map(Some).ok_or_else(|| {
            let message = "the bytes there are not a value of the field's type";
            let start = self.last.first().map_or(0, |piece| piece.start);
            Error::new(ErrorKind::InvalidMessage, message).at_offset(start)
        })
    }

    fn scalar_bytes(&mut self, path: &ScalarPath) -> Result<Option<Bytes>> {
        let found = path.way.follow(&mut self.cursor, self.last.clone())?;
        let Some(found) = found else {
            return Ok(None);
        };
        let size = total(&found.pieces);
        if size > LARGEST_SMALL_VALUE {
            let message =
                format!("the value has {size} bytes, but only small values can be read here");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        match found.pieces.last() {
            Some(piece) => {
                let bytes = self.cursor.bytes(piece.clone())?;
                Ok(Some(Bytes::copy_from_slice(bytes)))
            }
            None => Ok(None),
        }
    }
}
