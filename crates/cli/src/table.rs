//! Text tables whose columns fit their contents.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table as Layout};

use crate::sanitize::{one_line, shorten};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Number of spaces between two columns.
const GAP: u16 = 2;

/// Maximum number of characters in a cell of any column.
const WIDEST: usize = 1000;

/// Number of rows to format at a time, since the table library needs kilobytes of memory for each
/// row.
pub(crate) const BLOCK: usize = 1000;

/// A table with all of its rows in memory.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: Columns<N>,
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [(&str, Align); N]) -> Self {
        Table {
            columns: Columns::new(columns),
            rows: Vec::new(),
        }
    }

    /// Hides the column with the given name.
    pub(crate) fn hide(&mut self, column: &str) {
        let heads = self.columns.head.iter();
        for (hidden, name) in self.columns.hidden.iter_mut().zip(heads) {
            *hidden |= name == column;
        }
    }

    /// Adds a row. The text of each cell is put on one line. A very long text is shortened in the
    /// middle.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(cell));
    }

    /// Returns the table as text. If `width` is given, cells of the last column are shortened in
    /// the middle until lines fit. The table library would cut the ends of cells instead, but the
    /// ends of a path are more important than its middle.
    pub(crate) fn render_within(mut self, width: Option<usize>) -> String {
        for rows in self.rows.chunks(BLOCK) {
            self.columns.widen(rows);
        }
        let mut text = self.columns.fit(width);
        for rows in self.rows.chunks_mut(BLOCK) {
            text.push_str(&self.columns.lines(rows));
        }
        text
    }

    pub(crate) fn render(self) -> String {
        self.render_within(None)
    }
}

/// The columns of a table whose rows aren't kept in memory. The caller passes all rows twice, in
/// blocks: first to [`widen`](Self::widen), then to [`lines`](Self::lines).
#[derive(Debug)]
pub(crate) struct Columns<const N: usize> {
    head: [String; N],
    aligns: [Align; N],
    hidden: [bool; N],
    widths: [u16; N],
    /// Maximum number of characters in a cell of the last column.
    last: usize,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new(columns: [(&str, Align); N]) -> Self {
        Columns {
            head: columns.map(|(name, _)| name.to_owned()),
            aligns: columns.map(|(_, align)| align),
            hidden: [false; N],
            widths: [0; N],
            last: WIDEST,
        }
    }

    /// Widens the columns to fit the given rows.
    pub(crate) fn widen(&mut self, rows: &[[String; N]]) {
        let widths = self.layout(rows).column_max_content_widths();
        for (widest, width) in self.widths.iter_mut().zip(widths) {
            *widest = width.max(*widest);
        }
    }

    /// Limits the last column so that lines fit in `width`, and returns the header line. Call this
    /// after [`widen`](Self::widen) was called with all rows.
    pub(crate) fn fit(&mut self, width: Option<usize>) -> String {
        let mut head = [self.head.clone()];
        self.widen(&head);
        if let (Some(width), Some(last)) = (width, N.checked_sub(1)) {
            let columns = self.widths.iter().zip(self.hidden).take(last);
            let before = columns.map(|(&width, hidden)| {
                if hidden {
                    0
                } else {
                    usize::from(width.saturating_add(GAP))
                }
            });
            self.last = width.saturating_sub(before.sum()).max(LEAST_LAST);
            let most = u16::try_from(self.last).unwrap_or(u16::MAX);
            self.widths[last] = self.widths[last].min(most);
        }
        self.lines(&mut head)
    }

    /// Formats rows as lines. Call this after [`fit`](Self::fit).
    pub(crate) fn lines(&self, rows: &mut [[String; N]]) -> String {
        if let Some(last) = N.checked_sub(1) {
            for row in &mut *rows {
                row[last] = shorten(&row[last], self.last);
            }
        }
        // With an additional row of the widest cells, the library gives all blocks the same column
        // widths.
        let widest = self.widths.map(|width| "x".repeat(usize::from(width)));
        let block = self
            .layout(std::iter::once(&widest).chain(&*rows))
            .trim_fmt();
        block
            .lines()
            .skip(1)
            .flat_map(|line| [line, "\n"])
            .collect()
    }

    fn layout<'a>(&self, rows: impl IntoIterator<Item = &'a [String; N]>) -> Layout {
        let mut layout = Layout::new();
        layout
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .add_rows(rows);
        let columns = layout.column_iter_mut().zip(self.aligns).zip(self.hidden);
        for ((column, align), hidden) in columns {
            column
                .set_padding((0, GAP))
                .set_cell_alignment(match align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                });
            if hidden {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        layout
    }
}

/// Returns the text of a cell on one line. A very long text is shortened in the middle.
pub(crate) fn cell(text: impl AsRef<str>) -> String {
    shorten(&one_line(text.as_ref()), WIDEST)
}

/// Minimum width of a table's last column, in characters. Because of this minimum, lines may be too
/// long for a narrow terminal.
const LEAST_LAST: usize = 16;

/// Formats names and values, one pair per line.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts
        .iter()
        .map(|(name, fact)| (name, shorten(&one_line(fact), WIDEST)))
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
    fn columns_are_as_wide_as_their_widest_row_however_many_there_are() {
        let mut table = Table::new([("index", Align::Left), ("path", Align::Right)]);
        let rows = 3 * BLOCK + 7;
        for row in 0..rows {
            let path = if row == 2 * BLOCK { "a path" } else { "p" };
            table.row([row.to_string(), path.into()]);
        }
        let text = table.render();
        assert_eq!(text.lines().count(), 1 + rows);
        assert!(text.starts_with("index    path\n0           p\n"), "{text}");
        assert!(text.contains("\n2000   a path\n2001        p\n"), "{text}");
    }

    #[test]
    fn on_a_narrow_terminal_the_last_column_is_cut_in_its_middle() {
        let path = "meta_graphs[0].graph_def.node[7].attr[\"value\"]";
        let mut table = Table::new([("index", Align::Right), ("path", Align::Left)]);
        table.row(["7".into(), path.into()]);
        assert_eq!(
            table.render_within(Some(30)),
            "index  path\n    7  meta_graphs…tr[\"value\"]\n"
        );
        let wide = |width| {
            let mut table = Table::new([("index", Align::Right), ("path", Align::Left)]);
            table.row(["7".into(), path.into()]);
            table.render_within(width)
        };
        assert!(wide(None).contains(path) && wide(Some(80)).contains(path));
        assert!(wide(Some(1)).contains("…"));
    }

    #[test]
    fn a_column_that_says_nothing_takes_no_room() {
        let mut table = Table::new([
            ("index", Align::Right),
            ("file", Align::Right),
            ("crc32c", Align::Left),
            ("path", Align::Left),
        ]);
        table.row(["7", "0", "-", "a rather long path"].map(String::from));
        table.hide("file");
        table.hide("crc32c");
        assert_eq!(
            table.render_within(Some(23)),
            "index  path\n    7  a rathe…ong path\n"
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
