//! Parsing and formatting of a model's text files: `tags.txt`, `params.txt` and `updater.txt`.
//!
//! ```text
//! tags    = 1*( tag EOL )
//! params  = *( name SP ref EOL )
//! updater = *( name 1*( SP ref ) EOL )
//! ref     = [ tag "/" ] id
//! ```
//!
//! The files are UTF-8 without NUL. Each line is written with a line feed at its end. The parser
//! also accepts CRLF, a missing line feed at the end of the file, and a byte order mark at the
//! beginning of the file.

use std::collections::HashSet;
use std::fmt;

use crate::budget::Budget;
use crate::layout::Role;
use crate::limits::SameDiffLimits;
use crate::{Error, ErrorKind, Result, Tag};

/// A reference from a tag's list of arrays to the file of an array. The file is in the folder of
/// the same tag or of another tag.
///
/// ```
/// use proto_splitter_samediff::FileRef;
///
/// let own: FileRef = "7".parse()?;
/// assert_eq!((own.tag(), own.id()), (None, "7"));
/// let other: FileRef = "epoch-1/7".parse()?;
/// assert_eq!((other.tag(), other.id()), (Some("epoch-1"), "7"));
/// # Ok::<(), proto_splitter_samediff::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileRef {
    tag: Option<Box<str>>,
    id: Box<str>,
}

impl FileRef {
    pub(crate) fn new(tag: Option<&str>, id: &str) -> FileRef {
        FileRef {
            tag: tag.map(Into::into),
            id: id.into(),
        }
    }

    /// Returns the name of the tag whose folder contains the file; `None` if this is the tag whose
    /// list has the reference.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the file's name without its extension, `.fb`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tag {
            Some(tag) => write!(f, "{tag}/{}", self.id),
            None => f.write_str(&self.id),
        }
    }
}

impl std::str::FromStr for FileRef {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidReference`] if the text is neither `id` nor `tag/id`.
    fn from_str(text: &str) -> Result<FileRef> {
        let (tag, id) = match text.split_once('/') {
            Some((tag, id)) => (Some(tag), id),
            None => (None, text),
        };
        let bad_id = id.is_empty()
            || id.contains(['/', '\\'])
            || id.contains(|c: char| c.is_whitespace() || c.is_control());
        if bad_id || tag == Some("") {
            let message = format!("reference {text:?} is neither ID nor TAG/ID");
            return Err(Error::new(ErrorKind::InvalidReference, message));
        }
        Ok(FileRef::new(tag, id))
    }
}

/// A line of `params.txt` or `updater.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// References to array files. A line of `params.txt` has one reference. A line of `updater.txt`
    /// has one reference for each of the updater's states.
    pub(crate) refs: Vec<FileRef>,
}

/// Memory for a name or reference in addition to its characters, in bytes.
const KEPT: u64 = 48;

/// Subtracts the memory for `times` copies of `text` from the remaining memory.
fn keep(memory: &mut Budget, text: &str, times: u64) -> Result<()> {
    memory.spend(times.saturating_mul(KEPT.saturating_add(text.len() as u64)))
}

/// Splits a text file into lines, and returns each line with its number, counted from 1.
fn lines<'b>(
    bytes: &'b [u8],
    limits: &SameDiffLimits,
) -> Result<impl Iterator<Item = (u64, &'b str)>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX);
        Error::new(ErrorKind::InvalidText, "the text is not utf-8").at_offset(at)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.trim_end_matches(['\n', '\r']);
    let lines = (1..).zip(text.split('\n'));
    let lines = lines.map(|(number, line)| (number, line.strip_suffix('\r').unwrap_or(line)));
    // An empty file has no lines, but splitting it would return a blank line.
    let all = if text.is_empty() { 0 } else { usize::MAX };
    for (number, line) in lines.clone().take(all) {
        if line.len() as u64 > limits.get_max_line_size() {
            let most = limits.get_max_line_size();
            let message = format!("the line has {} bytes; the limit is {most}", line.len());
            return Err(Error::new(ErrorKind::LimitExceeded, message).on_line(number));
        }
        let wrong = if line.is_empty() {
            "there is a blank line between other lines"
        } else if line.contains('\0') {
            "the text contains a NUL"
        } else {
            continue;
        };
        return Err(Error::new(ErrorKind::InvalidText, wrong).on_line(number));
    }
    Ok(lines.take(all))
}

/// Parses the bytes of `tags.txt`.
pub(crate) fn parse_tags(bytes: &[u8], limits: &SameDiffLimits) -> Result<Vec<Tag>> {
    let mut memory = Budget::of_lines(limits.get_max_list_memory());
    let mut tags = Vec::new();
    let mut seen = HashSet::new();
    for (number, line) in lines(bytes, limits)? {
        // A tag's memory includes its spelling in the file, and its folded name in several places.
        keep(&mut memory, line, 4).map_err(|error| error.on_line(number))?;
        let tag: Tag = line.parse().map_err(|error: Error| error.on_line(number))?;
        if !seen.insert(tag.folded().to_owned()) {
            let message = format!("tag {line:?} is there already, maybe in another case");
            return Err(Error::new(ErrorKind::DuplicateTag, message).on_line(number));
        }
        tags.push(tag);
    }
    if tags.is_empty() {
        return Err(Error::new(ErrorKind::InvalidText, "there are no tags"));
    }
    Ok(tags)
}

/// Parses the bytes of `params.txt` or `updater.txt`. `role` specifies the file.
pub(crate) fn parse_lines(role: Role, bytes: &[u8], limits: &SameDiffLimits) -> Result<Vec<Line>> {
    let mut memory = Budget::of_lines(limits.get_max_list_memory());
    let mut parsed = Vec::new();
    let mut seen = HashSet::new();
    for (number, line) in lines(bytes, limits)? {
        let line = parse_line(role, line, &mut memory).map_err(|error| error.on_line(number))?;
        if !seen.insert(line.name.clone()) {
            let message = format!("{:?} has a line already", line.name);
            return Err(Error::new(ErrorKind::DuplicateLine, message).on_line(number));
        }
        parsed.push(line);
    }
    Ok(parsed)
}

fn parse_line(role: Role, line: &str, memory: &mut Budget) -> Result<Line> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidLine, message));
    let mut tokens = line.split(' ');
    let name = tokens.next().unwrap_or_default();
    if let Err(error) = check_name(name) {
        return invalid(format!("{line:?} doesn't begin with a name: {error}"));
    }
    let tokens: Vec<&str> = tokens.collect();
    if tokens.iter().any(|token| token.is_empty()) {
        return invalid(format!("{line:?} has an extra space"));
    }
    match (role, &*tokens) {
        (_, []) => return invalid(format!("{name:?} has no reference to a file")),
        (Role::Parameter, [_, kind, ..]) => {
            let message = format!("{name:?} is of type {kind:?}, which this reader doesn't know");
            return Err(Error::new(ErrorKind::UnsupportedLineType, message));
        }
        _ => {}
    }
    // Each name is stored in its line, and in two sets of names.
    keep(memory, name, 3)?;
    let mut refs = Vec::with_capacity(tokens.len());
    for token in tokens {
        keep(memory, token, 1)?;
        refs.push(token.parse()?);
    }
    Ok(Line {
        name: name.to_owned(),
        refs,
    })
}

/// Fails unless `params.txt` and `updater.txt` can contain this name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = name.chars().find(|c| c.is_whitespace() || c.is_control());
    let message = match bad {
        _ if name.is_empty() => "a name is empty".to_owned(),
        Some(c) => format!("name {name:?} has {c:?} in it, which separates names from files"),
        None => return Ok(()),
    };
    Err(Error::new(ErrorKind::NameNotRepresentable, message))
}

/// Returns the text of `tags.txt` for these tags.
pub(crate) fn print_tags<'a>(tags: impl IntoIterator<Item = &'a Tag>) -> String {
    tags.into_iter().map(|tag| format!("{tag}\n")).collect()
}

/// Returns the text of `params.txt` or `updater.txt` for these lines.
pub(crate) fn print_lines<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Result<String> {
    use fmt::Write;

    let mut text = String::new();
    for line in lines {
        check_name(&line.name)?;
        text.push_str(&line.name);
        for file in &line.refs {
            // Writing to a `String` can't fail.
            let _ = write!(text, " {file}");
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Result<Vec<Line>> {
        parse_lines(Role::Parameter, text.as_bytes(), &SameDiffLimits::new())
    }

    #[test]
    fn lines_end_as_on_any_system() {
        let expected = params("a 0\nb 1\n").unwrap();
        assert_eq!(expected.len(), 2);
        for text in [
            "a 0\nb 1",
            "a 0\r\nb 1\r\n",
            "\u{feff}a 0\nb 1\n\n",
            "a 0\r\nb 1",
        ] {
            assert_eq!(params(text).unwrap(), expected, "{text:?}");
        }
        assert_eq!(params("").unwrap(), []);
        assert_eq!(params("\n").unwrap(), []);
    }

    #[test]
    fn what_is_printed_is_parsed() {
        let text = "scope/w:0 7\nbeta 0/8\n";
        assert_eq!(print_lines(&params(text).unwrap()).unwrap(), text);
        let text = "scope/w:0 7 8\nb first/8 first/9 3\n";
        let lines =
            parse_lines(Role::UpdaterState, text.as_bytes(), &SameDiffLimits::new()).unwrap();
        assert_eq!(print_lines(&lines).unwrap(), text);
        assert_eq!(
            print_tags(&parse_tags(b"A\nb", &SameDiffLimits::new()).unwrap()),
            "A\nb\n"
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        use ErrorKind::*;
        for (text, kind, line) in [
            ("a 0\n\nb 1", InvalidText, 2),
            ("a 0\nb\0 1", InvalidText, 2),
            ("a 0\nb", InvalidLine, 2),
            ("a  0", InvalidLine, 1),
            (" a 0", InvalidLine, 1),
            ("a\t0", InvalidLine, 1),
            ("a 0 ", InvalidLine, 1),
            ("a 0 MAP", UnsupportedLineType, 1),
            ("a 0\na 1", DuplicateLine, 2),
            ("a x/y/z", InvalidReference, 1),
            ("a /7", InvalidReference, 1),
            ("a x/", InvalidReference, 1),
        ] {
            let error = params(text).unwrap_err();
            assert_eq!(
                (error.kind(), error.line()),
                (kind, Some(line)),
                "{text:?}: {error}"
            );
        }
        assert_eq!(
            params("a 0\nb \u{2028}").unwrap_err().kind(),
            InvalidReference
        );
        let error = parse_lines(Role::Parameter, b"a 0\n\xff", &SameDiffLimits::new()).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (InvalidText, Some(4)));
        let tags = |text: &[u8]| parse_tags(text, &SameDiffLimits::new()).unwrap_err().kind();
        assert_eq!(tags(b"a\nA"), DuplicateTag);
        assert_eq!(tags(b"\n"), InvalidText);
    }

    #[test]
    fn lines_are_bounded_in_their_length_and_in_what_they_take_in_memory() {
        let kind_and_line = |error: Error| (error.kind(), error.line());
        let short = SameDiffLimits::new().max_line_size(8);
        for (text, line) in [("a 0\nbeta 0/88", 2), ("abcdefghi", 1)] {
            let error = parse_lines(Role::Parameter, text.as_bytes(), &short).unwrap_err();
            assert_eq!(kind_and_line(error), (ErrorKind::LimitExceeded, Some(line)));
            let error = parse_tags(text.as_bytes(), &short).unwrap_err();
            assert_eq!(kind_and_line(error), (ErrorKind::LimitExceeded, Some(line)));
        }
        let states = format!("w{}\nv 0", " 0".repeat(10_000));
        let parse =
            |limits: &SameDiffLimits| parse_lines(Role::UpdaterState, states.as_bytes(), limits);
        assert_eq!(parse(&SameDiffLimits::new()).unwrap()[0].refs.len(), 10_000);
        let little = SameDiffLimits::new().max_list_memory(10_000 * KEPT);
        let error = parse(&little).unwrap_err();
        assert_eq!(kind_and_line(error), (ErrorKind::LimitExceeded, Some(1)));
        let error =
            parse_tags(b"a\nb", &SameDiffLimits::new().max_list_memory(5 * KEPT)).unwrap_err();
        assert_eq!(kind_and_line(error), (ErrorKind::LimitExceeded, Some(2)));
    }
}
