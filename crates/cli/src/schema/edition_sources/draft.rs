//! Changing a source so that columns can be mapped back to the original.

use std::ops::Range;

/// A source that is being changed. Removed parts are replaced by spaces, so that later text keeps
/// its position.
#[derive(Debug)]
pub(super) struct Draft {
    text: Vec<u8>,
    /// Inserted strings and their offsets, in ascending order of the offsets.
    insertions: Vec<(usize, &'static str)>,
}

/// The strings inserted into a source, for mapping columns back to the original.
#[derive(Debug)]
pub(super) struct Insertions(Vec<Insertion>);

/// The position and length of an inserted string. Line and column refer to the original, and count
/// from 0.
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

    /// Inserts a string without line breaks. `offset` must not be before that of the last
    /// insertion.
    pub(super) fn insert(&mut self, offset: usize, text: &'static str) {
        self.insertions.push((offset, text));
    }

    /// Replaces a range of bytes with spaces, except for line breaks.
    pub(super) fn blank(&mut self, range: Range<usize>) {
        for byte in self.text.get_mut(range).unwrap_or_default() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    /// Returns the changed source and the insertions; `None` if an offset is in the middle of a
    /// character.
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
    /// Converts a column in the changed source to the column in the original. Lines and columns count
    /// from 1.
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
