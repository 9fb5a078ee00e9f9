//! Dividing a `.proto` source into tokens.

use std::iter;

/// A token of a `.proto` source. Comments and white space aren't tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Text of the token: an identifier, a number, a string with its quotes, or any other single
    /// character.
    pub(super) text: &'a str,
    /// Offset of the token in the source, in bytes.
    pub(super) start: usize,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start.saturating_add(self.text.len())
    }

    pub(super) fn is_name(&self) -> bool {
        self.text
            .starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }

    pub(super) fn is_string(&self) -> bool {
        self.text.starts_with(['"', '\''])
    }

    /// Returns a string token without its quotes. Escapes stay unchanged.
    pub(super) fn unquoted(&self) -> &str {
        let content = self.text.get(1..).unwrap_or_default();
        content.strip_suffix(['"', '\'']).unwrap_or(content)
    }
}

/// Returns the tokens of a source. Outside of strings and comments, characters that aren't ASCII
/// are skipped, since they aren't allowed there.
pub(super) fn tokens(source: &str) -> impl Iterator<Item = Token<'_>> {
    let mut start = 0_usize;
    iter::from_fn(move || {
        loop {
            let rest = source.as_bytes().get(start..)?;
            let (length, is_token) = first_length(rest)?;
            let token = start;
            start = start.saturating_add(length);
            if is_token && let Some(text) = source.get(token..start) {
                return Some(Token { text, start: token });
            }
        }
    })
}

/// Returns the length of the first token, comment or character, and a flag that is true for a
/// token.
fn first_length(rest: &[u8]) -> Option<(usize, bool)> {
    let until = |is_end: fn(&u8) -> bool| rest.iter().position(is_end).unwrap_or(rest.len());
    Some(match rest {
        [b'/', b'/', ..] | [b'#', ..] => (until(|byte| *byte == b'\n'), false),
        [b'/', b'*', comment @ ..] => {
            let end = comment.windows(2).position(|pair| pair == b"*/");
            (end.map_or(rest.len(), |end| end + 4), false)
        }
        [quote @ (b'"' | b'\''), content @ ..] => (string_length(*quote, content), true),
        [first, ..] if is_word(first) => (until(|byte| !is_word(byte)), true),
        // The compiler treats a vertical tab as white space, unlike `is_ascii_whitespace`.
        [b'\x0b', ..] => (1, false),
        [first, ..] => (1, first.is_ascii() && !first.is_ascii_whitespace()),
        [] => return None,
    })
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Returns the length of a string token with its quotes. An unterminated string ends at the end of
/// its line.
fn string_length(quote: u8, content: &[u8]) -> usize {
    let mut is_escaped = false;
    for (at, byte) in content.iter().enumerate() {
        match *byte {
            b'\n' => return at + 1,
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            byte if byte == quote => return at + 2,
            _ => {}
        }
    }
    content.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_skipped_and_strings_keep_what_looks_like_one() {
        let source = "a/* \" */.\x0bb2 = '//\\'{' // x\n# y\n\"é\" é <1.5> 'open\nc /* end";
        let texts: Vec<&str> = tokens(source).map(|token| token.text).collect();
        let expected = [
            "a", ".", "b2", "=", "'//\\'{'", "\"é\"", "<", "1", ".", "5", ">", "'open", "c",
        ];
        assert_eq!(texts, expected);
    }
}
