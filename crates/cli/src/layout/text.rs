//! Formatting a layout as text.

use proto_splitter::ops::{FileLayout, Layout, Region, RegionKind};

use crate::display_name::shown;
use crate::sanitize::one_line;
use crate::size;
use crate::table::{Align, Table, facts};

pub(super) fn text(layout: &Layout, width: Option<usize>) -> String {
    let files = std::iter::once(&layout.main).chain(&layout.other_files);
    let texts: Vec<String> = files.map(|file| of_file(file, width)).collect();
    texts.join("\n")
}

fn of_file(file: &FileLayout, width: Option<usize>) -> String {
    let table = if file.regions.iter().any(|region| !region.parts.is_empty()) {
        parts_table(file).render_within(width)
    } else {
        table(file).render_within(width)
    };
    let mut totals = vec![("file", one_line(&shown(&file.file)))];
    totals.push((
        "size",
        format!(
            "{} ({} bytes)",
            size::show(file.file_bytes),
            file.file_bytes
        ),
    ));
    for total in &file.totals {
        let name = name(total.what);
        let regions = if total.regions > 1 {
            format!("{} regions, ", total.regions)
        } else {
            String::new()
        };
        totals.push((name, format!("{regions}{} bytes", total.bytes)));
    }
    let sum = |of: fn(&Region) -> u64| file.regions.iter().map(of).sum::<u64>();
    if file.blocks > 0 {
        let bytes = sum(|region| region.block_header_bytes);
        totals.push((
            "blocks",
            format!("{}, their headers {bytes} bytes", file.blocks),
        ));
    }
    totals.push(("data", format!("{} bytes", file.data_bytes)));
    totals.push((
        "overhead",
        format!(
            "{} bytes, {}",
            file.overhead_bytes,
            percent(file.overhead_bytes, file.file_bytes)
        ),
    ));
    format!("{table}\n{}", facts(&totals))
}

fn table(file: &FileLayout) -> Table<8> {
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
    for region in &file.regions {
        table.row([
            region.begin.to_string(),
            region.end.to_string(),
            (region.end - region.begin).to_string(),
            region.header_bytes.to_string(),
            region.block_header_bytes.to_string(),
            region.data_bytes.to_string(),
            region.fill_bytes.to_string(),
            said(region),
        ]);
    }
    table
}

/// Returns a table with a line for each part of each region. A region without listed parts has one
/// line.
fn parts_table(file: &FileLayout) -> Table<4> {
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
    for region in &file.regions {
        if region.parts.is_empty() {
            row(region.begin, region.end, said(region));
        }
        for part in &region.parts {
            row(
                part.begin,
                part.end,
                format!("{}: {}", said(region), part.what),
            );
        }
    }
    table
}

fn said(region: &Region) -> String {
    let mut said = name(region.what).to_owned();
    match region.chunks.as_slice() {
        [] if region.records > 1 => said = format!("{} {said}", region.records),
        [] => {}
        [one] => said = format!("chunk {one}"),
        [first, others @ ..] => said = format!("chunk {first} and {} others", others.len()),
    }
    if region.what == RegionKind::Trailer && !region.chunks.is_empty() {
        said.push_str(", and the trailer");
    }
    match region.compression.as_deref() {
        Some(compression) if compression != "none" => format!("{said}, {compression}"),
        _ => said,
    }
}

fn name(what: RegionKind) -> &'static str {
    match what {
        RegionKind::Signature => "signature",
        RegionKind::FileMetadata => "file metadata",
        RegionKind::Padding => "padding",
        RegionKind::Records => "records",
        RegionKind::TransposedRecords => "transposed records",
        RegionKind::Trailer => "trailer",
        RegionKind::Unknown => "unknown",
        RegionKind::Unreadable => "unreadable",
        RegionKind::Message => "message",
        _ => "unknown",
    }
}

fn percent(part: u64, of: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(of.max(1));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}
