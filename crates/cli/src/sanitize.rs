//! Making names and values safe to print. They may contain control characters, which a terminal
//! interprets, or characters that reverse the text around them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum length of a message on one line, in characters. A longer message, such as one that
/// contains a very long name, is shortened.
const LONGEST_MESSAGE: usize = 2000;

/// Returns true if a character changes the direction of the surrounding text.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns true if a terminal would interpret a character as a command, or would reverse text
/// because of it.
fn harms(c: char) -> bool {
    c.is_control() || turns_text(c)
}

/// Returns true for [harmful](harms) characters that JSON and protobuf's text format don't escape.
pub(crate) fn harms_quoted(c: char) -> bool {
    harms(c) && !c.is_ascii() || c == '\u{7f}'
}

/// Returns a string on one line. Harmful characters, including line breaks, are escaped.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text.trim_end(), harms).into_owned()
}

/// Returns a string of one or more lines. Harmful characters are escaped, except for line breaks.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| harms(c) && c != '\n')
}

/// Returns the value of a string field. Harmful characters are escaped, except for line breaks and
/// tabs.
pub(crate) fn value(text: &str) -> Cow<'_, str> {
    escaped(text, |c| harms(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns a message on one line. A very long message is shortened in the middle, since it starts
/// with the location and the problem, and ends with the remedy.
pub(crate) fn message(text: &str) -> String {
    shorten(&one_line(text), LONGEST_MESSAGE)
}

/// Shortens a string to `most` characters by omitting its middle, since the ends of a path or
/// message are more important.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let front = kept / 2;
    let mut short: String = text.chars().take(front).collect();
    short.push('…');
    short.extend(text.chars().skip(count - (kept - front)));
    short
}

/// A writer for JSON that escapes the harmful characters that JSON doesn't require to be escaped.
/// Each string must be written with one call, as `serde_json` does.
pub(crate) struct JsonWriter<W>(pub(crate) W);

impl<W: Write> Write for JsonWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        match json(text) {
            Cow::Borrowed(text) => self.0.write_all(text.as_bytes())?,
            Cow::Owned(text) => self.0.write_all(text.as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes the characters in JSON text that [`JsonWriter`] escapes. In JSON, these characters occur
/// only inside strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| byte < 0x7f);
    if is_plain || !text.contains(harms_quoted) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if harms_quoted(c) {
            // These characters are all in the basic multilingual plane, so one escape is enough.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_neither_repaint_the_terminal_nor_turn_its_text_around() {
        let report = "layer\u{1b}[2J\u{202e}txt.exe\n  caf\u{e9}\t2 B\n";
        assert_eq!(
            lines(report),
            "layer\\u{1b}[2J\\u{202e}txt.exe\n  caf\u{e9}\\t2 B\n"
        );
        assert_eq!(one_line("a\u{2066}b\u{9b}\n"), "a\\u{2066}b\\u{9b}");
        assert_eq!(value("a\tb\n\u{9b}31m"), "a\tb\n\\u{9b}31m");
    }

    #[test]
    fn json_says_the_same_with_what_harms_escaped() {
        let text = "caf\u{e9} \u{9b}31m \u{7f}\u{202e}gpj.exe \u{1b}";
        let mut shown = Vec::new();
        serde_json::to_writer_pretty(JsonWriter(&mut shown), &[text]).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.contains(harms_quoted), "{shown}");
        assert!(shown.contains("caf\u{e9}"), "{shown}");
        let read: Vec<String> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, [text]);
    }

    #[test]
    fn a_long_message_keeps_both_its_ends() {
        let long = format!("model.pb: {} isn't there", "n".repeat(100_000));
        let cut = message(&long);
        assert_eq!(cut.chars().count(), LONGEST_MESSAGE);
        assert!(cut.starts_with("model.pb: nnn") && cut.ends_with("nnn isn't there"));
        assert_eq!(message("short\n"), "short");
    }
}
