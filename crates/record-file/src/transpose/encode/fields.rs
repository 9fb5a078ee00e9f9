//! Telling messages from other bytes, and finding their fields.

/// Messages and groups inside a record are taken apart down to here.
const MAX_DEPTH: usize = 100;

/// A field of a record, or where one ends that has others in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) what: What,
    pub(crate) tag: u32,
    /// Where its value is in the record; that of bytes begins with their length.
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
/// Bytes are a message if its serialization would be the same again, as far as that can be told without its
/// type: varints are as short as can be, groups end that begin, there is no field 0. So what is put together from
/// its fields is what was there.
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

    /// Finds the fields of a record; false if it is no message.
    pub(crate) fn find(&mut self, record: &[u8]) -> bool {
        self.found.clear();
        self.groups.clear();
        self.message(record, 0, 0).is_some()
    }

    /// The message from `at` to the end of `bytes`, inside so many others.
    fn message(&mut self, bytes: &[u8], mut at: usize, depth: usize) -> Option<()> {
        let around = self.groups.len();
        while at < bytes.len() {
            let (tag, value) = varint32(bytes, at)?;
            if tag < 8 {
                return None;
            }
            let (what, len) = match tag & 7 {
                0 => (What::Varint, varint64_len(bytes, value)?),
                1 => (What::Fixed64, 8),
                5 => (What::Fixed32, 4),
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
        }
        (self.groups.len() == around).then_some(())
    }

    /// Finds the fields of what may be a message from `at` on; nothing is left of them if it isn't one.
    fn submessage(&mut self, bytes: &[u8], at: usize, tag: u32, depth: usize) -> bool {
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
    for (index, &byte) in bytes.get(at..)?.iter().take(10).enumerate() {
        if byte < 0x80 {
            let fits = index < 9 || byte <= 1;
            return (fits && (byte != 0 || index == 0)).then_some(index + 1);
        }
    }
    None
}
