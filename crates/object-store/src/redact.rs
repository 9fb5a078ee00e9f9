//! Hiding secrets in URLs.

use std::borrow::Cow;

/// Text that replaces a secret.
const HIDDEN: &str = "***";

/// Endings of the names of query parameters that grant access.
const SECRET_ENDS: &[&str] = &[
    "signature",
    "token",
    "credential",
    "password",
    "secret",
    "apikey",
    "api_key",
    "api-key",
];

/// Names of query parameters that grant access, in addition to names with [`SECRET_ENDS`].
const SECRETS: &[&str] = &["sig", "key", "pwd"];

/// Returns a string with all secrets replaced by `***`: passwords in URLs, and the values of query
/// parameters that sign or authorize a request.
///
/// ```
/// use proto_splitter_object_store::redact;
///
/// let shown = redact("http://me:secret@host/m.cpb?part=1&X-Amz-Signature=0a1b: 403 Forbidden");
/// assert_eq!(shown, "http://me:***@host/m.cpb?part=1&X-Amz-Signature=***: 403 Forbidden");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut secrets = Vec::new();
    secrets.extend(text.match_indices("://").filter_map(|(at, mark)| {
        let begin = at + mark.len();
        password(&text[begin..]).map(|(from, to)| (begin + from, begin + to))
    }));
    let assigned = text.match_indices('=');
    secrets.extend(assigned.filter_map(|(at, _)| {
        let begin = at + 1;
        let len = value_len(&text[begin..]);
        (len > 0 && is_secret(&text[..at])).then_some((begin, begin + len))
    }));
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    secrets.sort_unstable();
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for (from, to) in secrets {
        if from >= end {
            shown.push_str(&text[end..from]);
            shown.push_str(HIDDEN);
        }
        end = end.max(to);
    }
    shown.push_str(&text[end..]);
    Cow::Owned(shown)
}

/// Returns true if a string contains a URL with a password, or a query parameter that grants
/// access.
pub(crate) fn has_secret(text: &str) -> bool {
    matches!(redact(text), Cow::Owned(_))
}

/// Returns the start and the end of the password in `rest`, the text after the `://` of a URL;
/// `None` if there is no password.
fn password(rest: &str) -> Option<(usize, usize)> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '?' | '#');
    let rest = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let authority = rest.find('/').unwrap_or(rest.len());
    let from = rest[..authority].find(':')? + 1;
    let to = match rest[..authority].rfind('@') {
        Some(at) => at,
        None => {
            // An apostrophe may be part of a password, but without a password it ends a quoted URL.
            let rest = &rest[..rest.find('\'').unwrap_or(rest.len())];
            let authority = authority.min(rest.len());
            // A user may have typed a slash in a password, although parsers end the host name at a
            // slash.
            if is_port(rest.get(from..authority)?) {
                return None;
            }
            rest.rfind('@')?
        }
    };
    (from < to).then_some((from, to))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a string ends with the name of a query parameter that grants access.
fn is_secret(before: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '%');
    let stem = before.trim_end_matches(is_name);
    // The semicolon may be the end of `&amp;`.
    if !stem.ends_with(['?', '&', ';']) {
        return false;
    }
    let name = before[stem.len()..].to_ascii_lowercase();
    SECRETS.contains(&name.as_str()) || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

fn value_len(rest: &str) -> usize {
    let ends = |c: char| {
        c.is_whitespace() || matches!(c, '&' | '"' | '\'' | '<' | '>' | '#' | ',' | ':' | ')')
    };
    rest.find(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_are_hidden_and_nothing_else() {
        for (text, shown) in [
            ("https://me:pass@host/m", "https://me:***@host/m"),
            (
                "no http://a:b@c/d, or x://e:f@g",
                "no http://a:***@c/d, or x://e:***@g",
            ),
            ("http://a:p/q@host/m", "http://a:***@host/m"),
            ("http://a:p@q@host/m", "http://a:***@host/m"),
            ("http://a:p'q@host/m", "http://a:***@host/m"),
            ("'http://a:p@host', 'b'", "'http://a:***@host', 'b'"),
            (
                "http://h/m?X-Amz-Signature=ab&b=c",
                "http://h/m?X-Amz-Signature=***&b=c",
            ),
            ("http://h/m?sv=1&sig=a%2Bb%3D", "http://h/m?sv=1&sig=***"),
            ("http://h/m?TOKEN=1 failed", "http://h/m?TOKEN=*** failed"),
            (
                "<a>/m?a=1&amp;access_token=x</a>",
                "<a>/m?a=1&amp;access_token=***</a>",
            ),
        ] {
            assert_eq!(redact(text), shown);
            assert_eq!(redact(shown), shown);
            assert!(has_secret(text));
        }
        for plain in [
            "http://host:8080/models@v1/m.cpb",
            "az://container@account.blob.core.windows.net/m",
            "s3://bucket/a:b@c",
            "'http://host:80/m' and 'b@c'",
            "no token=1 here",
            "http://h/m?design=1&sig=",
            "",
        ] {
            assert_eq!(redact(plain), plain);
        }
    }
}
