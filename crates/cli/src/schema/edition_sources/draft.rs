//! A text with changes that can be traced back.

use std::ops::Range;

/// A text that is being changed. Removed parts become spaces, so that everything after them keeps
/// its place.
#[derive(Debug)]
pub(super) struct Draft {
    text: Vec<u8>,
    /// In ascending order of their offsets.
    insertions: Vec<(usize, &'static str)>,
}

/// The text inserted into a draft.
#[derive(Debug)]
pub(super) struct Insertions(Vec<Insertion>);

/// An inserted text. Line and column count from 0, in the original.
#[derive(Debug)]
struct Insertion {
    line: usize,
    column: usize,
    length: usize,
}

impl Draft {
    pub(super) fn new(original: &str) -> Self {
        Draft {
            text: original.as_bytes().to_vec(),
            insertions: Vec::new(),
        }
    }

    /// Inserts a text without line breaks, at or after the place of the last one.
    pub(super) fn insert(&mut self, offset: usize, text: &'static str) {
        self.insertions.push((offset, text));
    }

    /// Writes spaces over all but line breaks.
    pub(super) fn blank(&mut self, range: Range<usize>) {
        for byte in self.text.get_mut(range).unwrap_or_default() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    /// Returns the changed text. `None` means that places were in the middle of a character.
    pub(super) fn finish(self) -> Option<(String, Insertions)> {
        let added: usize = self.insertions.iter().map(|(_, text)| text.len()).sum();
        let mut text = Vec::with_capacity(self.text.len().saturating_add(added));
        let mut insertions = Vec::with_capacity(self.insertions.len());
        let (mut copied, mut line, mut line_start) = (0, 0, 0);
        for (offset, inserted) in self.insertions {
            let between = self.text.get(copied..offset)?;
            let breaks = between.iter().enumerate();
            for (at, _) in breaks.filter(|(_, byte)| **byte == b'\n') {
                line += 1;
                line_start = copied + at + 1;
            }
            text.extend_from_slice(between);
            text.extend_from_slice(inserted.as_bytes());
            insertions.push(Insertion {
                line,
                column: offset - line_start,
                length: inserted.len(),
            });
            copied = offset;
        }
        text.extend_from_slice(self.text.get(copied..)?);
        Some((String::from_utf8(text).ok()?, Insertions(insertions)))
    }
}

impl Insertions {
    /// Returns the column in the original of a column in the changed text. Both count from 1, as do
    /// lines.
    pub(super) fn original_column(&self, line: usize, column: usize) -> usize {
        let on_line = self.0.iter().filter(|at| at.line + 1 == line);
        on_line.fold(column, |column, insertion| {
            let beyond = column.saturating_sub(insertion.column + 1);
            column - beyond.min(insertion.length)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_changed_text_lead_back_to_the_original() {
        let original = "one two\nthree four five";
        let mut draft = Draft::new(original);
        draft.blank(0..3);
        for (offset, text) in [(4, "<<"), (7, ">"), (14, "("), (18, ")")] {
            draft.insert(offset, text);
        }
        let (text, insertions) = draft.finish().unwrap();
        assert_eq!(text, "    <<two>\nthree (four) five");
        for word in ["two", "three", "four", "five"] {
            let place = |text: &str| {
                let (before, _) = text.split_once(word).unwrap();
                let line = before.matches('\n').count() + 1;
                (
                    line,
                    before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1,
                )
            };
            let (line, column) = place(&text);
            let found = (line, insertions.original_column(line, column));
            assert_eq!(found, place(original), "{word}");
        }
    }
}
