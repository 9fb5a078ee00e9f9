//! Tables for people: columns as wide as what is in them.

/// On which side the text of a column is flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under a head, to be printed.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    aligns: [Align; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [(&str, Align); N]) -> Self {
        let aligns = columns.map(|(_, align)| align);
        Table {
            aligns,
            rows: vec![columns.map(|(name, _)| name.to_owned())],
        }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self) -> String {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(widths).zip(self.aligns) {
                let gap = " ".repeat(width - cell.chars().count());
                let (before, after) = if align == Align::Right {
                    (gap, String::new())
                } else {
                    (String::new(), gap)
                };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Lines of a name and what belongs to it.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts
        .iter()
        .map(|(name, fact)| format!("{name:width$}  {fact}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters_and_lines_end_with_their_text() {
        let mut table = Table::new([
            ("index", Align::Right),
            ("path", Align::Left),
            ("", Align::Left),
        ]);
        table.row(["7".into(), "é".into(), "x".into()]);
        table.row(["11".into(), "node[3]".into(), String::new()]);
        assert_eq!(
            table.render(),
            "index  path\n    7  é        x\n   11  node[3]\n"
        );
    }

    #[test]
    fn facts_stand_in_one_column() {
        assert_eq!(
            facts(&[("file", "a".into()), ("bytes", "1".into())]),
            "file   a\nbytes  1\n"
        );
    }
}
