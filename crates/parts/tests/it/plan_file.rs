//! Tests of plans in files, with the reports of their parts next to them.

use std::fs;
use std::num::NonZeroUsize;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{SizeSplitter, SplitExt};
use proto_splitter_parts::{PartOptions, PartsPlan, PlanFile};

use super::support::{Folder, options};

fn verification(folder: &Folder) -> PartsPlan {
    let reading = ReadOptions::new();
    PartsPlan::verify(folder.path("m.cpb"), &reading, NonZeroUsize::MIN).unwrap()
}

#[test]
fn a_plan_replaces_nothing_but_a_plan_and_a_report_nothing_but_a_report() {
    let folder = Folder::new();
    SizeSplitter
        .write_with(folder.source(), folder.path("m"), &options())
        .unwrap();
    let running = PartOptions::new();
    let write = |name: &str| PlanFile::write(folder.path(name), verification(&folder), &running);
    let check = |name: &str| PlanFile::check_place(folder.path(name), &running);
    check("plan").unwrap();
    write("plan").unwrap();
    check("plan").unwrap();
    let file = write("plan").unwrap();
    let report = folder.path("report");
    for _ in 0..2 {
        file.run(0, Some(&report), &running).unwrap();
        file.run(0, None, &running).unwrap();
    }
    let content = |name: &str| fs::read(folder.path(name)).unwrap();
    for name in ["m.cpb", "source.pb", "report"] {
        let before = content(name);
        for refused in [check(name), write(name).map(drop)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        }
        assert!(content(name) == before, "{name}");
    }
    for name in ["m.cpb", "source.pb", "plan"] {
        let before = content(name);
        let error = file.run(0, Some(&folder.path(name)), &running).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(content(name) == before, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn plans_and_reports_are_as_private_as_the_input() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(folder.path("source.pb"), private).unwrap();
    let (split, running) = (folder.split(2, &options()).unwrap(), PartOptions::new());
    let file = PlanFile::write(folder.path("plan"), split, &running).unwrap();
    let done = file.run(0, None, &running).unwrap();
    for path in [file.path(), &done.report] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}
