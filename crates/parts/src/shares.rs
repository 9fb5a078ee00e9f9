//! Dividing work into shares of consecutive items, so that the largest share is as small as
//! possible.

use std::num::NonZeroUsize;

use proto_splitter_core::{Error, ErrorKind, Result};

/// Divides items of the given sizes into at most `count` non-empty shares, and returns the end
/// index of each share. `has_room` returns true if a range of items fits into one share. If some
/// shares have to end early because `has_room` returns false, there may be more than `count`
/// shares.
pub(super) fn shares(
    sizes: &[u64],
    count: NonZeroUsize,
    has_room: impl Fn(std::ops::Range<usize>) -> bool,
) -> Vec<u64> {
    let total = sizes
        .iter()
        .fold(0u64, |sum, size| sum.saturating_add(*size));
    let (mut least, mut most) = (sizes.iter().copied().max().unwrap_or(0), total);
    while least < most {
        let middle = least + (most - least) / 2;
        if filled(sizes, middle, &has_room).len() <= count.get() {
            most = middle
        } else {
            least = middle + 1
        }
    }
    filled(sizes, most, &has_room)
}

/// Divides items into shares, and returns the end index of each share. An item is added to the
/// current share if the share's total size remains at most `most` and `has_room` returns true.
/// Otherwise, the item begins a new share.
fn filled(
    sizes: &[u64],
    most: u64,
    has_room: &impl Fn(std::ops::Range<usize>) -> bool,
) -> Vec<u64> {
    let mut ends = Vec::new();
    let (mut begin, mut used) = (0, 0u64);
    for (at, &size) in sizes.iter().enumerate() {
        match used.checked_add(size).filter(|&next| next <= most) {
            Some(next) if at == begin || has_room(begin..at + 1) => used = next,
            _ if at == begin => used = size,
            _ => {
                ends.push(at as u64);
                (begin, used) = (at, size);
            }
        }
    }
    if !sizes.is_empty() {
        ends.push(sizes.len() as u64);
    }
    ends
}

/// Fails unless `ends` are the ends of non-empty shares that together are exactly `0..all`.
pub(super) fn check_ends(ends: &[u64], all: u64) -> Result<()> {
    let ascend = ends.windows(2).all(|pair| pair[0] < pair[1]);
    if ascend && ends.first() != Some(&0) && ends.last().copied().unwrap_or(0) == all {
        return Ok(());
    }
    let message = format!("the plan's parts don't add up to {all}");
    Err(Error::new(ErrorKind::InvalidMessage, message))
}

/// Returns the share of the part with index `part`: a range of bytes or items. Fails if there is no
/// such part.
pub(super) fn share(ends: &[u64], part: usize) -> Result<std::ops::Range<u64>> {
    let Some(&end) = ends.get(part) else {
        let message = format!(
            "part {part}: the plan has {} parts, counted from 0",
            ends.len()
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    };
    let begin = part.checked_sub(1).map_or(0, |before| ends[before]);
    Ok(begin..end)
}

/// Returns the share of the part with index `part`, as a range of item indices.
pub(super) fn share_of_items(ends: &[u64], part: usize) -> Result<std::ops::Range<usize>> {
    let items = share(ends, part)?;
    let within = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
    Ok(within(items.start)..within(items.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    #[test]
    fn shares_cover_everything_and_the_largest_is_as_small_as_can_be() {
        for (sizes, n, expected) in [
            (&[][..], 3, &[][..]),
            (&[5], 3, &[1]),
            (&[1, 1, 1, 1], 2, &[2, 4]),
            (&[9, 1, 1, 1, 9], 3, &[1, 4, 5]),
            (&[1, 2, 3, 4, 5, 6], 3, &[3, 5, 6]),
            (&[0, 0, 7], 2, &[3]),
            (&[u64::MAX, u64::MAX], 2, &[1, 2]),
        ] {
            let ends = shares(sizes, count(n), |_| true);
            assert_eq!(ends, expected, "{sizes:?} to {n}");
            check_ends(&ends, sizes.len() as u64).unwrap();
        }
    }

    #[test]
    fn what_has_no_room_together_makes_more_shares() {
        let ends = shares(&[1; 10], count(2), |range| range.len() <= 3);
        assert_eq!(ends, [3, 6, 9, 10]);
    }

    #[test]
    fn ends_that_go_back_or_leave_something_out_are_refused() {
        for ends in [&[0, 3][..], &[2, 2, 3], &[2, 1, 3], &[2], &[4], &[]] {
            assert!(check_ends(ends, 3).is_err(), "{ends:?}");
        }
        check_ends(&[], 0).unwrap();
        assert_eq!(share(&[2, 3], 1).unwrap(), 2..3);
        assert!(share(&[2, 3], 2).is_err());
    }
}
