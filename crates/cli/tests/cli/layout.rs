//! Tests that `protosplit layout` describes each byte exactly once.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Dir, fixture, riegeli, run};

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap()
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Checks that the sizes of regions, parts and totals in a report add up to the size of the file.
fn check(report: &Value) {
    let bytes = number(report, "file_bytes");
    assert_eq!(
        bytes,
        fs::metadata(report["file"].as_str().unwrap())
            .unwrap()
            .len()
    );
    let mut at = 0;
    for region in list(report, "regions") {
        assert_eq!(number(region, "begin"), at, "{region}");
        at = number(region, "end");
        let parts = [
            "header_bytes",
            "block_header_bytes",
            "data_bytes",
            "fill_bytes",
        ];
        let sum: u64 = parts.iter().map(|part| number(region, part)).sum();
        assert_eq!(sum, at - number(region, "begin"), "{region}");
        let mut within = number(region, "begin");
        for part in list(region, "parts") {
            assert_eq!(number(part, "begin"), within, "{region}");
            within = number(part, "end");
        }
        assert!(list(region, "parts").is_empty() || within == at, "{region}");
    }
    assert_eq!(at, bytes);
    let totals = list(report, "totals").iter();
    assert_eq!(
        totals.map(|total| number(total, "bytes")).sum::<u64>(),
        bytes
    );
    let sums = ["data_bytes", "overhead_bytes", "unreadable_bytes"];
    assert_eq!(
        sums.iter().map(|sum| number(report, sum)).sum::<u64>(),
        bytes
    );
}

/// Splits a model into several chunks, and returns the path of the chunked file.
fn split(dir: &Dir, model: &Path) -> PathBuf {
    dir.split(model, "m", &["--max-chunk-size", "20KiB"])
}

#[test]
fn regions_totals_and_what_is_in_them_add_up_to_the_file() {
    let dir = Dir::new();
    let model = dir.copy(
        &fixture("functions_consts/saved_model.pb"),
        "saved_model.pb",
    );
    let chunked = split(&dir, &model);
    let mut files = vec![model, chunked];
    for entry in fs::read_dir(riegeli("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".riegeli") || name.ends_with(".array_record") {
            files.push(dir.copy(&path, name));
        }
    }
    assert!(files.len() > 20);
    let (mut blocks, mut damaged) = (0, 0);
    for file in &files {
        for option in ["--allow-outside", "--blocks"] {
            // The layout of a damaged file ends at the damage.
            let ran = run([&"layout", file, &"--json", &option]);
            if ran.out.is_empty() {
                continue;
            }
            damaged += usize::from(!ran.err.is_empty());
            let report: Value = serde_json::from_str(&ran.out).unwrap();
            check(&report);
            let regions = list(&report, "regions").iter();
            let parts = regions.flat_map(|region| list(region, "parts"));
            blocks += parts.filter(|part| part["what"] == "block header").count();
        }
    }
    assert!(blocks > files.len() && damaged > 0, "{blocks} {damaged}");
}

#[test]
fn every_block_header_has_a_row_if_that_is_asked_for() {
    let dir = Dir::new();
    let model = fixture("functions_consts/saved_model.pb");
    let chunked = split(&dir, &model);
    let text = run([&"layout", &dir.path("m"), &"--blocks"]).ok();
    let bytes = fs::metadata(&chunked).unwrap().len();
    let headers = text.lines().filter(|line| line.ends_with(": block header"));
    assert_eq!(headers.count() as u64, bytes.div_ceil(64 << 10), "{text}");
    assert!(text.contains("chunk 3: data"), "{text}");
}
