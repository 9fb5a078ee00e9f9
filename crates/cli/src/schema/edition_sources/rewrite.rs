//! Rewriting a source to proto2 if it uses an edition.
//!
//! Features stay in the text, as options that the compiler accepts because its `descriptor.proto`
//! declares them. Line numbers don't change.

use std::ops::Range;

use super::draft::{Draft, Insertions};
use super::tokens::{Token, tokens};

/// Features to remove, since the compiler's `descriptor.proto` doesn't declare them. They don't
/// affect the wire format.
const DROPPED: [&str; 2] = ["default_symbol_visibility", "enforce_naming_style"];

/// A source with an edition, rewritten to proto2 so that the compiler can read it.
#[derive(Debug)]
pub(super) struct Rewritten {
    /// Number of the source's edition in `google.protobuf.Edition`.
    pub(super) edition: i32,
    pub(super) text: String,
    pub(super) insertions: Insertions,
}

/// The kind of definition that encloses a statement, which determines the statement's meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    File,
    Message,
    Extend,
    Oneof,
    Enum,
    /// Any other block, such as a service or method.
    Other,
}

struct Rewriter<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    edition: i32,
    scopes: Vec<Scope>,
    draft: Draft,
}

/// Rewrites a source to proto2. Returns `None` if the source doesn't use an edition.
///
/// # Errors
///
/// Fails with the line, the column and a message if the edition is unknown or doesn't allow a
/// statement. Other errors in the source are reported by the compiler.
pub(super) fn rewrite(source: &str) -> Result<Option<Rewritten>, String> {
    if tokens(source)
        .next()
        .is_none_or(|first| first.text != "edition")
    {
        return Ok(None);
    }
    let mut rewriter = Rewriter {
        source,
        tokens: tokens(source).collect(),
        edition: 0,
        scopes: vec![Scope::File],
        draft: Draft::new(source),
    };
    let mut at = rewriter.edition()?;
    while at < rewriter.tokens.len() {
        at = match rewriter.text_at(at) {
            "}" => {
                rewriter.scopes.pop();
                at + 1
            }
            ";" => at + 1,
            _ => rewriter.statement(at)?,
        };
    }
    let edition = rewriter.edition;
    let finished = rewriter.draft.finish();
    Ok(finished.map(|(text, insertions)| Rewritten {
        edition,
        text,
        insertions,
    }))
}

impl Rewriter<'_> {
    /// Rewrites the statement `edition = "..."`. Returns the index of the token after the string.
    fn edition(&mut self) -> Result<usize, String> {
        let strings = self.tokens.get(2..).unwrap_or_default().iter();
        let strings = strings.take_while(|token| token.is_string());
        let end = 2 + strings.clone().count();
        let edition: String = strings.map(Token::unquoted).collect();
        if self.text_at(1) != "=" || end == 2 {
            return Err(self.error(0, "expected edition = \"2023\" or edition = \"2024\""));
        }
        self.edition = match edition.as_str() {
            "2023" => 1000,
            "2024" => 1001,
            other => {
                let message = format!("edition {other:?} is not known: only 2023 and 2024 are");
                return Err(self.error(2, &message));
            }
        };
        self.draft.insert(self.start_of(0), "syntax=\"proto2\"");
        self.blank(0..end);
        Ok(end)
    }

    /// Rewrites the statement that begins at the token `at`. Returns the index of the token after
    /// it.
    fn statement(&mut self, mut at: usize) -> Result<usize, String> {
        use Scope::{Enum, Extend, File, Message, Oneof, Other};
        let scope = self.scopes.last().copied().unwrap_or(File);
        if matches!(scope, File | Message) && self.is_visibility(at) {
            self.blank(at..at + 1);
            at += 1;
        }
        let first = self.text_at(at);
        let is_option = first == "option" && scope != Extend;
        let end = self.statement_end(at, is_option);
        let inner = match (scope, first) {
            (File | Message, "message") => Message,
            (File | Message, "extend") => Extend,
            (File | Message, "enum") => Enum,
            (Message, "oneof") => Oneof,
            (Message | Enum, "reserved") => {
                self.quote_names(at + 1..end);
                Other
            }
            (Message, "extensions") => {
                self.option_list(at..end);
                Other
            }
            (File, "import") => {
                self.import(at..end);
                Other
            }
            _ if is_option => {
                if self.drops_option(at + 1..end) {
                    self.blank(at..end);
                }
                Other
            }
            (Message | Extend | Oneof, _) => {
                self.field(scope, at)?;
                self.refuse_packed(at..end)?;
                self.option_list(at..end);
                Other
            }
            (Enum, _) => {
                self.option_list(at..end);
                Other
            }
            (File | Other, _) => Other,
        };
        Ok(match self.text_at(end) {
            "{" => {
                self.scopes.push(inner);
                end + 1
            }
            ";" => end + 1,
            _ => end,
        })
    }

    /// Returns true if the token at index `at` is the modifier `export` or `local` of a definition,
    /// rather than the name of a type.
    fn is_visibility(&self, at: usize) -> bool {
        self.edition >= 1001
            && matches!(self.text_at(at), "export" | "local")
            && matches!(self.text_at(at + 1), "message" | "enum")
            && self.tokens.get(at + 2).is_some_and(Token::is_name)
    }

    /// Returns the index of the token that ends the statement at `at`: a `;`, the `{` that opens
    /// the statement's block, or the `}` that closes the enclosing block. Braces in an option are
    /// part of the option's value.
    fn statement_end(&self, at: usize, is_option: bool) -> usize {
        let mut depth = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(at) {
            match token.text {
                ";" | "}" if depth == 0 => return index,
                "{" if depth == 0 && !is_option => return index,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Inserts the label that proto2 requires, if the field at the token `at` has none.
    fn field(&mut self, scope: Scope, at: usize) -> Result<(), String> {
        let first = self.text_at(at);
        if first == "optional" {
            let message = "an edition has no label `optional`: a field without a label is optional";
            return Err(self.error(at, message));
        }
        if first == "required" {
            let message = "an edition has no label `required`: use [features.field_presence = LEGACY_REQUIRED]";
            return Err(self.error(at, message));
        }
        let kind = at + usize::from(first == "repeated");
        if self.text_at(kind) == "group" {
            let message = "an edition has no groups: use a message field with [features.message_encoding = DELIMITED]";
            return Err(self.error(kind, message));
        }
        let is_map = first == "map" && self.text_at(at + 1) == "<";
        let is_type = first == "." || self.tokens.get(at).is_some_and(Token::is_name);
        if scope != Scope::Oneof && is_type && kind == at && !is_map {
            // The label is inserted directly after the previous token. If that token is on an
            // earlier line, the columns of the field's line don't change.
            let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
            self.draft.insert(before.map_or(0, Token::end), "optional ");
        }
        Ok(())
    }

    fn refuse_packed(&self, field: Range<usize>) -> Result<(), String> {
        for option in self.options(field) {
            if self.text_at(option.start) == "packed" {
                let message =
                    "an edition has no option `packed`: use features.repeated_field_encoding";
                return Err(self.error(option.start, message));
            }
        }
        Ok(())
    }

    /// Inserts quotes around reserved names, which are strings in proto2.
    fn quote_names(&mut self, reserved: Range<usize>) {
        if !self.tokens.get(reserved.start).is_some_and(Token::is_name) {
            return;
        }
        // A name that doesn't follow a comma is an error, and isn't quoted, since adjacent strings
        // would be joined into one.
        for at in reserved.clone() {
            let is_next = at == reserved.start || self.text_at(at - 1) == ",";
            let name = self.tokens.get(at).copied().filter(Token::is_name);
            if let Some(name) = name.filter(|_| is_next) {
                self.draft.insert(name.start, "\"");
                self.draft.insert(name.end(), "\"");
            }
        }
    }

    /// Changes an `import option` statement into an ordinary import. Removes an import of
    /// language-specific features, since these features are removed, too.
    fn import(&mut self, import: Range<usize>) {
        let word = self.text_at(import.start + 1);
        let is_of_options = self.edition >= 1001 && word == "option";
        let file = import.start + 1 + usize::from(is_of_options || word == "public");
        let file = self.tokens.get(file).filter(|_| file + 1 == import.end);
        let file = file.map(Token::unquoted).unwrap_or_default();
        if file.starts_with("google/protobuf/") && file.ends_with("_features.proto") {
            self.blank(import);
        } else if is_of_options {
            self.blank(import.start + 1..import.start + 2);
        }
    }

    /// Returns the options in a statement's brackets, as ranges of tokens.
    fn options(&self, statement: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let Some((open, close)) = self.brackets(statement) else {
            return found;
        };
        let mut start = open + 1;
        let mut at = start;
        while at < close {
            if self.text_at(at) == "," {
                found.push(start..at);
                start = at + 1;
            }
            at = self.after_value(at, close);
        }
        found.push(start..close);
        found
    }

    fn brackets(&self, statement: Range<usize>) -> Option<(usize, usize)> {
        let open = statement.clone().find(|at| self.text_at(*at) == "[")?;
        let close = self.after_value(open, statement.end).checked_sub(1)?;
        (self.text_at(close) == "]").then_some((open, close))
    }

    /// Removes each option in a statement's brackets that is a language-specific feature or a
    /// feature in [`DROPPED`].
    fn option_list(&mut self, statement: Range<usize>) {
        let Some((open, close)) = self.brackets(statement.clone()) else {
            return;
        };
        let mut has_kept = false;
        for option in self.options(statement) {
            let is_dropped = self.drops_option(option.clone());
            if (is_dropped || !has_kept) && option.start > open + 1 {
                self.blank(option.start - 1..option.start);
            }
            if is_dropped {
                self.blank(option);
            } else {
                has_kept = true;
            }
        }
        if !has_kept {
            self.blank(open..close + 1);
        }
    }

    /// Returns true if an option is a language-specific feature or a feature in [`DROPPED`]. For an
    /// option `features = { ... }`, removes such features from the braces, and returns false.
    fn drops_option(&mut self, option: Range<usize>) -> bool {
        if self.text_at(option.start) != "features" {
            return false;
        }
        let name = self.text_at(option.start + 2);
        match self.text_at(option.start + 1) {
            // A name in parentheses means that the feature is specific to a programming language.
            "." if name == "(" || DROPPED.contains(&name) => self.is_assignment(&option),
            "=" if name == "{" => {
                self.drop_in_message(option.start + 3..option.end);
                false
            }
            _ => false,
        }
    }

    /// Returns true if an option consists only of a feature and its value, so that removing the
    /// option removes nothing else.
    fn is_assignment(&self, option: &Range<usize>) -> bool {
        let mut at = option.start + 1;
        while self.text_at(at) == "." {
            at = self.after_value(at + 1, option.end);
        }
        self.text_at(at) == "="
            && self.is_feature_value(at + 1)
            && self.after_value(at + 1, option.end) == option.end
    }

    /// Returns true if the value of a feature, which is an enum value, a bool or a message, begins
    /// at the token `at`.
    fn is_feature_value(&self, at: usize) -> bool {
        let value = self.tokens.get(at);
        value.is_some_and(|value| value.is_name() || matches!(value.text, "{" | "<"))
    }

    fn drop_in_message(&mut self, features: Range<usize>) {
        let mut at = features.start;
        while at < features.end && self.text_at(at) != "}" {
            let name = self.text_at(at);
            let is_dropped = name == "[" || DROPPED.contains(&name);
            let mut end = self.after_value(at, features.end);
            end += usize::from(self.text_at(end) == ":");
            let has_value = self.is_feature_value(end);
            end = self.after_value(end, features.end);
            end += usize::from(matches!(self.text_at(end), "," | ";"));
            if is_dropped && has_value {
                self.blank(at..end.min(features.end));
            }
            at = end;
        }
    }

    /// Returns the index of the token after the value at `at`. A value is a single token, or a pair
    /// of brackets with its contents. If `at` is before `end`, the result is at most `end`.
    fn after_value(&self, at: usize, end: usize) -> usize {
        let mut depth = 0_usize;
        for index in at..end {
            match self.text_at(index) {
                "(" | "[" | "{" | "<" => depth += 1,
                ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        end.max(at + 1)
    }

    fn text_at(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn start_of(&self, at: usize) -> usize {
        let token = self.tokens.get(at);
        token.map_or(self.source.len(), |token| token.start)
    }

    /// Replaces a range of tokens, including the text between them, with spaces.
    fn blank(&mut self, tokens: Range<usize>) {
        let end = tokens.end.checked_sub(1);
        let end = end.and_then(|last| self.tokens.get(last)).map(Token::end);
        let bytes = self.start_of(tokens.start)..end.unwrap_or_default();
        self.draft.blank(bytes);
    }

    /// Returns an error message with the line and column of the token `at`.
    fn error(&self, at: usize, message: &str) -> String {
        let before = self.source.get(..self.start_of(at)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before.len() - start + 1;
        format!("{line}:{column}: {message}")
    }
}
