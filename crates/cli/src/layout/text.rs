//! A layout as text.

use super::{Region, Regions, What};
use crate::harmless::one_line;
use crate::size;
use crate::table::{Align, Table, facts};

impl Regions {
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let table = if self.regions.iter().any(|region| !region.parts.is_empty()) {
            self.parts_table().render_within(width)
        } else {
            self.table().render_within(width)
        };
        let mut totals = vec![("file", one_line(&self.file))];
        totals.push((
            "size",
            format!(
                "{} ({} bytes)",
                size::show(self.file_bytes),
                self.file_bytes
            ),
        ));
        for total in &self.totals {
            let name = total.what.name();
            let regions = if total.regions > 1 {
                format!("{} regions, ", total.regions)
            } else {
                String::new()
            };
            totals.push((name, format!("{regions}{} bytes", total.bytes)));
        }
        let sum = |of: fn(&Region) -> u64| self.regions.iter().map(of).sum::<u64>();
        if self.blocks > 0 {
            let bytes = sum(|region| region.block_header_bytes);
            totals.push((
                "blocks",
                format!("{}, their headers {bytes} bytes", self.blocks),
            ));
        }
        totals.push(("data", format!("{} bytes", self.data_bytes)));
        totals.push((
            "overhead",
            format!(
                "{} bytes, {}",
                self.overhead_bytes,
                percent(self.overhead_bytes, self.file_bytes)
            ),
        ));
        format!("{table}\n{}", facts(&totals))
    }

    fn table(&self) -> Table<8> {
        let mut table = Table::new([
            ("begin", Align::Right),
            ("end", Align::Right),
            ("bytes", Align::Right),
            ("header", Align::Right),
            ("blocks", Align::Right),
            ("data", Align::Right),
            ("fill", Align::Right),
            ("what", Align::Left),
        ]);
        for region in &self.regions {
            table.row([
                region.begin.to_string(),
                region.end.to_string(),
                (region.end - region.begin).to_string(),
                region.header_bytes.to_string(),
                region.block_header_bytes.to_string(),
                region.data_bytes.to_string(),
                region.fill_bytes.to_string(),
                region.said(),
            ]);
        }
        table
    }

    /// What is in the regions, and those that nothing is known of.
    fn parts_table(&self) -> Table<4> {
        let mut table = Table::new([
            ("begin", Align::Right),
            ("end", Align::Right),
            ("bytes", Align::Right),
            ("what", Align::Left),
        ]);
        let mut row = |begin: u64, end: u64, what: String| {
            let numbers = [begin, end, end - begin].map(|number| number.to_string());
            let [begin, end, bytes] = numbers;
            table.row([begin, end, bytes, what]);
        };
        for region in &self.regions {
            if region.parts.is_empty() {
                row(region.begin, region.end, region.said());
            }
            for part in &region.parts {
                row(
                    part.begin,
                    part.end,
                    format!("{}: {}", region.said(), part.what),
                );
            }
        }
        table
    }
}

impl Region {
    fn said(&self) -> String {
        let mut said = self.what.name().to_owned();
        match self.chunks.as_slice() {
            [] if self.records > 1 => said = format!("{} {said}", self.records),
            [] => {}
            [one] => said = format!("chunk {one}"),
            [first, others @ ..] => said = format!("chunk {first} and {} others", others.len()),
        }
        if self.what == What::Trailer && !self.chunks.is_empty() {
            said.push_str(", and the trailer");
        }
        match self.compression.as_deref() {
            Some(compression) if compression != "none" => format!("{said}, {compression}"),
            _ => said,
        }
    }
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Signature => "signature",
            What::FileMetadata => "file metadata",
            What::Padding => "padding",
            What::Records => "records",
            What::TransposedRecords => "transposed records",
            What::Trailer => "trailer",
            What::Unknown => "unknown",
            What::Unreadable => "unreadable",
            What::Message => "message",
        }
    }
}

fn percent(part: u64, of: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(of.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}
