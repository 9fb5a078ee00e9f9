//! Keys for the index block of a table. They are chosen to be short, so they may differ from all
//! keys in the data blocks.

/// Returns a key that is greater than or equal to `last`, and less than `next`. As in leveldb, this
/// is `last` up to the first byte that differs from `next`, with this byte incremented. If that
/// isn't less than `next`, returns `last`.
pub(super) fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    match (last.get(common), next.get(common)) {
        (Some(&a), Some(&b)) if a < u8::MAX && a + 1 < b => {
            let mut key = last[..=common].to_vec();
            key[common] = a + 1;
            key
        }
        _ => last.to_vec(),
    }
}

/// Returns a key that is greater than or equal to `last`: the shortest prefix of `last` whose last
/// byte can be incremented, with this byte incremented. If there is none, returns `last`.
pub(super) fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != u8::MAX) {
        Some(at) => {
            let mut key = last[..=at].to_vec();
            key[at] += 1;
            key
        }
        None => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_between_two_is_as_short_as_leveldbs() {
        for (last, next, between) in [
            ("abc1", "abq", "abd"),
            ("abc1", "abd", "abc1"),
            ("ab", "abc", "ab"),
            ("b", "x", "c"),
            ("", "x", ""),
        ] {
            let key = separator(last.as_bytes(), next.as_bytes());
            assert_eq!(key, between.as_bytes(), "{last} {next}");
        }
        assert_eq!(separator(b"a\xff\xff", b"b"), b"a\xff\xff");
        assert_eq!(successor(b"layer"), b"m");
        assert_eq!(successor(b"\xff\xffa9"), b"\xff\xffb");
        assert_eq!(successor(b"\xff"), b"\xff");
    }
}
