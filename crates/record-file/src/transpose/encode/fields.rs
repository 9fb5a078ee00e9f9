//! Telling messages from other bytes, and finding their fields.

/// What a value is, and its length if that doesn't depend on it: by type on the wire. A varint has
/// a byte, if its first one says so.
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

/// Messages and groups inside a record are taken apart down to here.
const MAX_DEPTH: usize = 100;

/// The most fields that a record is taken apart into: each takes 24 bytes of memory until the record
/// is encoded. A message of more is stored in one piece, as other bytes are.
const MAX_FIELDS: usize = 4 << 20;

/// A field of a record, or where one ends that has others in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) what: What,
    pub(crate) tag: u32,
    /// The place of its value in the record; that of bytes begins with their length.
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

/// The fields of a record, of the messages in it too.
///
/// Bytes are a message if its serialization would be the same again, as far as that can be told
/// without its type: varints are as short as can be, groups end that begin, there is no field 0. So
/// what is put together from its fields is what was there.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    found: Vec<Field>,
    /// The numbers of the groups we are in.
    groups: Vec<u32>,
}

impl Fields {
    pub(crate) fn as_slice(&self) -> &[Field] {
        &self.found
    }

    /// Finds the fields of a record; false if it is not a message.
    pub(crate) fn find(&mut self, record: &[u8]) -> bool {
        self.found.clear();
        self.groups.clear();
        self.message(record, 0, 0).is_some()
    }

    /// The message from `at` to the end of `bytes`, inside this many others.
    fn message(&mut self, bytes: &[u8], mut at: usize, depth: usize) -> Option<()> {
        let around = self.groups.len();
        while at < bytes.len() {
            let (tag, value) = varint32(bytes, at)?;
            if tag < 8 || self.found.len() >= MAX_FIELDS {
                return None;
            }
            // Most fields: a varint of a byte, or a value of fixed length. One way for all of them
            // leaves nothing to mispredict.
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

    /// Finds the fields of what may be a message from `at` on; nothing is left of them if it isn't
    /// one.
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

/// How far a field reaches, by its first byte: this many bytes, the next one's value more if
/// [`HAS_LEN`].
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
/// Further than most strings reach; in a longer one, what follows is as unlikely to pass.
const BEYOND: u32 = 0x8000;
const REACH_BITS: u32 = 0xffff;
/// Its next byte is a varint, if it doesn't go on.
const HAS_NEXT: u32 = 1 << 16;
const HAS_LEN: u32 = 1 << 17;
const OPENS: u32 = 1 << 18;
const CLOSES: u32 = 1 << 19;
/// It takes more to tell.
const UNKNOWN: u32 = 1 << 20;

/// Returns whether the rest of `bytes` is certainly no message. Most strings are told by hopping over what
/// would be their first fields, and in a way that is the same for all fields: each branch on what
/// they are would be mispredicted half of the time.
fn is_no_message(bytes: &[u8], mut at: usize) -> bool {
    let mut open = false;
    loop {
        let Some(&first) = bytes.get(at) else {
            // Groups that were closed would have been unknown.
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

/// A varint of at most 32 bits in as few bytes as can be, and where it ends.
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

/// The length of a varint of at most 64 bits in as few bytes as can be.
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
