//! Planning splits, merges and verifications in parts, by the names of inputs, for programs that
//! call the library's operations instead of the command.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use proto_splitter::parts::{Objects, PartsPlan};
use proto_splitter::split::SplitOptions;

use crate::failure::{Failed, Failure};
use crate::named_input::{NameOptions, file_of};
use crate::parts;
use crate::place::{self, check_file};
use crate::remote;
use crate::split;

/// Returns access to the object stores that this build supports, to pass to
/// [`PartOptions::objects`](proto_splitter::parts::PartOptions::objects). Returns `None` if the
/// build supports no stores.
pub fn object_stores() -> Option<Arc<dyn Objects>> {
    remote::stores()
}

/// Hides the passwords and tokens of the given URLs in all later errors. Names that aren't URLs are
/// ignored.
pub fn hide_secrets<'a>(names: impl IntoIterator<Item = &'a Path>) {
    let names: Vec<OsString> = names.into_iter().map(|name| name.into()).collect();
    remote::hide_secrets(&names);
}

/// Plans the split of the named file or object into `PREFIX.cpb` and one file for each part, with
/// [`Planner::split`](proto_splitter::parts::Planner::split). By default, there are at most 16
/// parts or, if the options limit the size of files, one part for each file that is needed.
///
/// ```
/// use proto_splitter::parts::{PartOptions, PlanFile};
/// use proto_splitter::split::{Profile, SplitOptions};
/// use protosplit_cli::{NameOptions, plan_split_named};
///
/// let folder = tempfile::tempdir()?;
/// let [input, prefix, plan] = ["saved_model.pb", "new", "plan"].map(|name| folder.path().join(name));
/// std::fs::write(&input, [0x08, 0x07])?;
/// let options = SplitOptions::new().profile(Profile::Extended);
/// let planned = plan_split_named(&input, &prefix, &NameOptions::new(), &options, None).unwrap();
/// let report = PlanFile::write(&plan, planned, &PartOptions::new())?.report();
/// assert_eq!((report.verb, report.parts), ("split", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Fails, like the command, if the input doesn't exist, isn't a file, is damaged, can't be split,
/// or has an unknown type.
pub fn plan_split_named(
    name: &Path,
    prefix: &Path,
    names: &NameOptions,
    options: &SplitOptions,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failed> {
    hide_secrets([name, prefix]);
    let (name, objects) = remote::find(name)?;
    remote::check_scheme(prefix)?;
    if !remote::is_url(&name) {
        let metadata = fs::metadata(&name).map_err(|error| Failure::io(&name, &error))?;
        check_file(&name, &metadata)?;
    }
    let schema = names.schema();
    let input = split::open_unsplit(names.opening(&schema, &objects), &name)?;
    let source = split::source(&schema, &input)?;
    let prefix = split::prefix_for_file(&name, prefix)?;
    Ok(parts::plan_split(
        (&input, &source),
        &prefix,
        options,
        parts,
    )?)
}

/// Plans the merge of the named chunked file or object in parts, with
/// [`Planner::merge`](proto_splitter::parts::Planner::merge). By default, there are at most 16
/// parts.
///
/// # Errors
///
/// Fails, like the command, if the input doesn't exist, isn't in chunks or is damaged. Also fails
/// if the target exists and `force` is false.
pub fn plan_merge_named(
    name: &Path,
    target: &Path,
    names: &NameOptions,
    force: bool,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failed> {
    hide_secrets([name, target]);
    let (name, objects) = remote::find(name)?;
    remote::check_scheme(target)?;
    if place::is_stream(&name) || target == Path::new(place::STANDARD) {
        return Err(parts::only_chunked("merge").into());
    }
    let schema = names.schema();
    let input = names.opening(&schema, &objects).open(&file_of(&name))?;
    Ok(parts::plan_merge(&input, target, force, parts)?)
}

/// Plans the verification of the named chunked file or object in parts, with
/// [`Planner::verify`](proto_splitter::parts::Planner::verify). By default, there are at most 16
/// parts.
///
/// # Errors
///
/// Fails, like the command, if the input doesn't exist, isn't in chunks, or is too damaged to be
/// opened.
pub fn plan_verify_named(
    name: &Path,
    names: &NameOptions,
    parts: Option<NonZeroUsize>,
) -> Result<PartsPlan, Failed> {
    hide_secrets([name]);
    let (name, objects) = remote::find(name)?;
    if place::is_stream(&name) {
        return Err(parts::only_chunked("verification").into());
    }
    let schema = names.schema();
    let input = names.opening(&schema, &objects).open(&file_of(&name))?;
    Ok(parts::plan_verify(&input, parts)?)
}
