//! Formatting paths as text, with names or numbers.

use std::fmt::{self, Write};

use prost_reflect::MessageDescriptor;

use super::field_path::{FieldPath, Select};
use super::field_ref::{FieldRef, message_below};
use super::map_key::{MapKey, write_quoted};

impl FieldPath {
    /// Formats the path as text, with the names of `root`'s fields, and with numbers for fields
    /// that `root` lacks.
    pub fn display(&self, root: Option<&MessageDescriptor>) -> String {
        display(self, root)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&display(self, None))
    }
}

fn display(path: &FieldPath, root: Option<&MessageDescriptor>) -> String {
    let mut out = String::new();
    let mut message = root.cloned();
    for step in path.steps() {
        if !out.is_empty() {
            out.push('.');
        }
        let field = message
            .as_ref()
            .and_then(|message| FieldRef::by_number(message, step.field.0));
        match &field {
            Some(field) => out.push_str(&field.name()),
            None => out.push_str(&step.field.to_string()),
        }
        message = field.as_ref().and_then(message_below);
        match &step.select {
            Select::Field => {}
            Select::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
            Select::Key(MapKey::String(key)) => {
                out.push('[');
                let _ = write_quoted(&mut out, key);
                out.push(']');
            }
            Select::Key(key) => {
                let _ = write!(out, "[{key}]");
            }
        }
    }
    out
}
