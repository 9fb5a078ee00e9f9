//! Distinguishing messages from other bytes, and finding their fields.

/// For each wire type, the kind of the value, and the length of the value in bytes, or 0 if it
/// varies. The length of a varint is given as 1, which is true if its first byte has no
/// continuation bit.
const SHORT: [(What, usize); 8] = [
    (What::Varint, 1),
    (What::Fixed64, 8),
    (What::Bytes, 0),
    (What::StartGroup, 0),
    (What::EndGroup, 0),
    (What::Fixed32, 4),
    (What::Bytes, 0),
    (What::Bytes, 0),
];

/// Maximum nesting depth at which messages and groups inside a record are split into fields.
const MAX_DEPTH: usize = 100;

/// Maximum number of fields that a record is split into. Each field takes up 24 bytes of memory
/// until the record is encoded. A message with more fields is stored whole, like bytes that aren't
/// a message.
const MAX_FIELDS: usize = 4 << 20;

/// A field of a record, or the end of a field that contains other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) what: What,
    pub(crate) tag: u32,
    /// Offset of the field's value in the record; a length-delimited value begins with its length.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Varint,
    Fixed32,
    Fixed64,
    Bytes,
    Submessage,
    EndOfSubmessage,
    StartGroup,
    EndGroup,
}

/// The fields of a record, including those of nested messages.
///
/// Bytes are considered a message if parsing and serializing them would restore the bytes, as far
/// as this can be determined without the message's type: varints have the shortest form, every
/// start of a group has a matching end, and field numbers aren't 0. Thus, assembling the fields
/// restores the original bytes.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    found: Vec<Field>,
    /// Field numbers of the enclosing groups.
    groups: Vec<u32>,
}

impl Fields {
    pub(crate) fn as_slice(&self) -> &[Field] {
        &self.found
    }

    /// Finds the fields of a record. Returns false if the record is not a message.
    pub(crate) fn find(&mut self, record: &[u8]) -> bool {
        self.found.clear();
        self.groups.clear();
        self.message(record, 0, 0).is_some()
    }

    /// Finds the fields of a message of nesting depth `depth`, from `at` to the end of `bytes`.
    /// Returns `None` if these bytes aren't a message.
    fn message(&mut self, bytes: &[u8], mut at: usize, depth: usize) -> Option<()> {
        let around = self.groups.len();
        while at < bytes.len() {
            let (tag, value) = varint32(bytes, at)?;
            if tag < 8 || self.found.len() >= MAX_FIELDS {
                return None;
            }
            // The common fields are varints of one byte and values of fixed length. Handling them
            // in the same way leaves no branch to mispredict.
            let wire = (tag & 7) as usize;
            let next = bytes.get(value).copied().unwrap_or(0xff);
            let (what, len) = SHORT[wire];
            if len > 0 && (next < 0x80 || wire != 0) {
                if bytes.len() - value < len {
                    return None;
                }
                self.found.push(Field {
                    what,
                    tag,
                    at: value,
                    len,
                });
                at = value + len;
                continue;
            }
            let (what, len) = match tag & 7 {
                0 => (What::Varint, varint64_len(bytes, value)?),
                2 => {
                    let (len, content) = varint32(bytes, value)?;
                    let end = content.checked_add(usize::try_from(len).ok()?)?;
                    let within = bytes.get(..end)?;
                    if len > 0
                        && depth + self.groups.len() < MAX_DEPTH
                        && self.submessage(within, content, tag, depth)
                    {
                        at = end;
                        continue;
                    }
                    (What::Bytes, end - value)
                }
                3 => {
                    self.groups.push(tag >> 3);
                    (What::StartGroup, 0)
                }
                4 => {
                    let begun = self.groups.len() > around && self.groups.pop() == Some(tag >> 3);
                    if !begun {
                        return None;
                    }
                    (What::EndGroup, 0)
                }
                _ => return None,
            };
            self.found.push(Field {
                what,
                tag,
                at: value,
                len,
            });
            at = value + len;
        }
        (self.groups.len() == around).then_some(())
    }

    /// Finds the fields of a possible message that begins at `at`. Returns false, and keeps no
    /// fields, if the bytes aren't a message.
    fn submessage(&mut self, bytes: &[u8], at: usize, tag: u32, depth: usize) -> bool {
        if is_no_message(bytes, at) {
            return false;
        }
        let (fields, groups) = (self.found.len(), self.groups.len());
        let mut bracket = Field {
            what: What::Submessage,
            tag,
            at,
            len: 0,
        };
        self.found.push(bracket);
        if self.message(bytes, at, depth + 1).is_none() {
            self.found.truncate(fields);
            self.groups.truncate(groups);
            return false;
        }
        bracket.what = What::EndOfSubmessage;
        self.found.push(bracket);
        true
    }
}

/// Size of a field in bytes, and flags, indexed by the first byte of the field. If [`HAS_LEN`] is
/// set, the value of the next byte must be added to the size.
const REACH: [u32; 256] = {
    let mut reach = [UNKNOWN; 256];
    let mut tag = 0;
    while tag < 0x80 {
        reach[tag] = match tag & 7 {
            _ if tag < 8 => BEYOND,
            0 => 2 | HAS_NEXT,
            1 => 9,
            2 => 2 | HAS_NEXT | HAS_LEN,
            3 => 1 | OPENS,
            4 => BEYOND | CLOSES,
            5 => 5,
            _ => BEYOND,
        };
        tag += 1;
    }
    reach
};
/// Size assigned to a byte that can't be the first byte of a field. This size extends beyond the
/// end of most strings, which are thus rejected. In a longer string, the bytes after this size are
/// no more likely to be a valid message than the skipped bytes.
const BEYOND: u32 = 0x8000;
const REACH_BITS: u32 = 0xffff;
/// Flag: the second byte of the field begins a varint, and ends it unless the byte has a
/// continuation bit.
const HAS_NEXT: u32 = 1 << 16;
const HAS_LEN: u32 = 1 << 17;
const OPENS: u32 = 1 << 18;
const CLOSES: u32 = 1 << 19;
/// Flag: the size of the field can't be determined from its first byte.
const UNKNOWN: u32 = 1 << 20;

/// Returns true if the bytes from `at` to the end of `bytes` are certainly not a message. For most
/// strings, this can be determined by skipping the bytes that would be the first fields. The code
/// doesn't branch on the type of a field, since such a branch would be mispredicted half the time.
fn is_no_message(bytes: &[u8], mut at: usize) -> bool {
    let mut open = false;
    loop {
        let Some(&first) = bytes.get(at) else {
            // The bytes end here. If a group is open, its end is missing.
            return open || at > bytes.len();
        };
        let reach = REACH[usize::from(first)];
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let unknown = reach & UNKNOWN != 0
            || reach & HAS_NEXT != 0 && next >= 0x80
            || reach & CLOSES != 0 && open;
        if unknown {
            return false;
        }
        open |= reach & OPENS != 0;
        let len = if reach & HAS_LEN == 0 { 0 } else { next };
        at = at.saturating_add((reach & REACH_BITS) as usize + usize::from(len));
    }
}

/// Reads a varint of at most 32 bits, and returns its value and end. Returns `None` if the varint
/// is invalid or doesn't have the shortest form.
#[inline]
fn varint32(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u32::from(first), at + 1));
    }
    let mut value = u64::from(first & 0x7f);
    for (index, &byte) in bytes.get(at + 1..)?.iter().take(4).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * (index + 1));
        if byte < 0x80 {
            let value = u32::try_from(value).ok()?;
            return (byte != 0).then_some((value, at + index + 2));
        }
    }
    None
}

/// Returns the length of a varint of at most 64 bits, or `None` if the varint is invalid or doesn't
/// have the shortest form.
#[inline]
fn varint64_len(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if let Some(&word) = rest.first_chunk() {
        let ends = !u64::from_le_bytes(word) & 0x8080_8080_8080_8080;
        if ends != 0 {
            let last = (ends.trailing_zeros() / 8) as usize;
            return (rest[last] != 0 || last == 0).then_some(last + 1);
        }
    }
    for (index, &byte) in rest.iter().take(10).enumerate() {
        if byte < 0x80 {
            let fits = index < 9 || byte <= 1;
            return (fits && (byte != 0 || index == 0)).then_some(index + 1);
        }
    }
    None
}
