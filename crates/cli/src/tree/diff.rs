//! `protosplit tree --diff`.

use std::path::Path;

use proto_splitter::size_tree::{TreeDiff, TreeOptions};

use super::changes::Report;
use super::shown::Limits;
use super::{COMPARED, diff_page, measure};
use crate::Exit;
use crate::args::TreeArgs;
use crate::failure::Failure;
use crate::input::{self, Opening};
use crate::output::Output;

pub(super) fn run(args: &TreeArgs, old: &Path, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let keep = |_| TreeOptions::new().top(COMPARED);
    input::check_single_standard([old, &args.file])?;
    let [old, new] = Opening::of(&args.reading, output.objects())
        .progress(output.reading("reading"))
        .open_both([old, &args.file])?;
    // If only one of the types is known, use it for both: names can't be compared with numbers.
    let old_type = old.descriptor().or(new.descriptor());
    let (old_tree, _) = measure(&old, old_type, args, keep)?;
    let (new_tree, _) = measure(&new, new.descriptor(), args, keep)?;
    let diff = TreeDiff::of(&old_tree, &new_tree);
    let whole = old_tree.root.size.max(new_tree.root.size);
    let mut report = Report {
        old: crate::input::shown(old.file()),
        new: crate::input::shown(new.file()),
        old_size: old_tree.root.size,
        new_size: new_tree.root.size,
        changes: Vec::new(),
        other_changes: 0,
        lines: Vec::new(),
    };
    let (top, least) = super::TEXT;
    report.add(
        &diff.root,
        String::new(),
        0,
        Limits::of(args, whole, top, least),
    );
    report.changes = report.lines.iter().map(|(_, row)| row.clone()).collect();
    report
        .changes
        .sort_by_key(|row| std::cmp::Reverse(row.change.unsigned_abs()));
    if let Some(target) = &args.html {
        super::write(args, target, &diff_page::page(&report), output)?;
    }
    if args.html.is_none() || args.json {
        let full_paths = args.full_paths;
        output.report(args.json, &report, |report, width| {
            report.text(width, full_paths)
        })?;
    }
    Ok(Exit::Done)
}
