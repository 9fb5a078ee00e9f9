//! Matching the elements of two lists.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;

/// A pair of matched elements, or an element without a match, given by indices in the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// Elements that correspond, whether or not they are equal.
    Both(usize, usize),
    /// Elements that correspond, but whose order relative to other elements differs.
    Moved(usize, usize),
    First(usize),
    Second(usize),
}

/// Matches elements by name. Returns `None` if a list contains a name twice. If both lists have the
/// same number of unmatched elements between two matched elements, the unmatched elements count as
/// renamed.
pub(super) fn by_key<K: Eq + Hash + Copy>(a: &[K], b: &[K]) -> Option<Vec<Match>> {
    let places: HashMap<K, usize> = b.iter().copied().zip(0..).collect();
    let of_a: HashSet<K> = a.iter().copied().collect();
    if places.len() != b.len() || of_a.len() != a.len() {
        return None;
    }
    let partner = |key: &K| places.get(key).copied();
    let partners: Vec<usize> = a.iter().filter_map(partner).collect();
    let stays = increasing(&partners);
    let mut stays = stays.iter();
    let mut matches = Vec::with_capacity(a.len());
    // Indices of the elements of `a` that follow the last in-order match and have no counterpart in
    // `b`.
    let mut alone = Vec::new();
    let mut next_of_b = 0;
    let mut end_gap = |alone: &mut Vec<usize>, end: usize, matches: &mut Vec<Match>| {
        let between = next_of_b..end;
        let is_alone = |at: &usize| b.get(*at).is_some_and(|key| !of_a.contains(key));
        let others: Vec<usize> = between.filter(is_alone).collect();
        next_of_b = next_of_b.max(end);
        // If both lists have the same number of unmatched elements here, these count as renamed.
        if others.len() == alone.len() {
            let both = alone.drain(..).zip(others);
            matches.extend(both.map(|(at, other)| Match::Both(at, other)));
        } else {
            matches.extend(alone.drain(..).map(Match::First));
            matches.extend(others.into_iter().map(Match::Second));
        }
    };
    for (at, key) in a.iter().enumerate() {
        match partner(key) {
            None => alone.push(at),
            Some(other) if *stays.next().unwrap_or(&true) => {
                end_gap(&mut alone, other, &mut matches);
                matches.push(Match::Both(at, other));
            }
            Some(other) => matches.push(Match::Moved(at, other)),
        }
    }
    end_gap(&mut alone, b.len(), &mut matches);
    Some(matches)
}

/// Matches the elements of two lists by content. Elements that occur exactly once in each list, and
/// in the same order in both, divide the lists into parts. The elements of each part are matched in
/// order. Omits the dividing elements, and equal elements at the beginning and end of a part.
pub(super) fn by_content(a: &[u64], b: &[u64]) -> Vec<Match> {
    let (once_in_a, once_in_b) = (once(a), once(b));
    let common = a.iter().enumerate().filter_map(|(at, content)| {
        once_in_a.get(content)?;
        Some((at, *once_in_b.get(content)?))
    });
    let common: Vec<(usize, usize)> = common.collect();
    let places: Vec<usize> = common.iter().map(|(_, other)| *other).collect();
    let stays = increasing(&places);
    let anchors = common.iter().zip(stays).filter(|(_, stays)| *stays);
    let mut matches = Vec::new();
    let (mut from_a, mut from_b) = (0, 0);
    for (&(at, other), _) in anchors {
        between(a, b, from_a..at, from_b..other, &mut matches);
        (from_a, from_b) = (at + 1, other + 1);
    }
    between(a, b, from_a..a.len(), from_b..b.len(), &mut matches);
    matches
}

/// Matches the elements of a range of `a` and a range of `b` in order. Omits equal elements at the
/// beginning and end of the ranges.
fn between(
    a: &[u64],
    b: &[u64],
    mut of_a: Range<usize>,
    mut of_b: Range<usize>,
    matches: &mut Vec<Match>,
) {
    while !of_a.is_empty() && !of_b.is_empty() && a.get(of_a.start) == b.get(of_b.start) {
        (of_a.start, of_b.start) = (of_a.start + 1, of_b.start + 1);
    }
    while !of_a.is_empty() && !of_b.is_empty() && a.get(of_a.end - 1) == b.get(of_b.end - 1) {
        (of_a.end, of_b.end) = (of_a.end - 1, of_b.end - 1);
    }
    let pairs = of_a.len().min(of_b.len());
    let both = of_a.clone().zip(of_b.clone());
    matches.extend(both.map(|(a, b)| Match::Both(a, b)));
    matches.extend(of_a.skip(pairs).map(Match::First));
    matches.extend(of_b.skip(pairs).map(Match::Second));
}

/// Returns the values that occur exactly once, with their indices.
fn once(list: &[u64]) -> HashMap<u64, usize> {
    let mut places: HashMap<u64, Option<usize>> = HashMap::with_capacity(list.len());
    for (at, content) in list.iter().enumerate() {
        let place = places.entry(*content);
        place.and_modify(|place| *place = None).or_insert(Some(at));
    }
    let once = places.into_iter();
    once.filter_map(|(content, place)| Some((content, place?)))
        .collect()
}

/// Returns a flag for each of these distinct numbers: true for the members of one of the longest
/// increasing subsequences.
fn increasing(numbers: &[usize]) -> Vec<bool> {
    // For each length, the index of the smallest number that ends an increasing subsequence of that
    // length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let len = ends.partition_point(|&end| numbers.get(end) < Some(number));
        before.push(len.checked_sub(1).and_then(|len| ends.get(len).copied()));
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut stays = vec![false; numbers.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        if let Some(stays) = stays.get_mut(at) {
            *stays = true;
        }
        next = before.get(at).copied().flatten();
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::Match::{Both, First, Moved, Second};
    use super::*;

    #[test]
    fn elements_are_matched_by_what_they_are_called() {
        let cases: [(&[char], &[char], &[Match]); 6] = [
            (
                &['a', 'b'],
                &['x', 'a', 'b'],
                &[Second(0), Both(0, 1), Both(1, 2)],
            ),
            (
                &['a', 'b', 'c'],
                &['a', 'c'],
                &[Both(0, 0), First(1), Both(2, 1)],
            ),
            (
                &['a', 'b', 'c'],
                &['b', 'c', 'a'],
                &[Moved(0, 2), Both(1, 0), Both(2, 1)],
            ),
            (&[], &['a'], &[Second(0)]),
            (&['a'], &['b', 'c'], &[First(0), Second(0), Second(1)]),
            (
                &['a', 'b', 'c'],
                &['a', 'x', 'c'],
                &[Both(0, 0), Both(1, 1), Both(2, 2)],
            ),
        ];
        for (a, b, expected) in cases {
            assert_eq!(by_key(a, b).as_deref(), Some(expected), "{a:?} {b:?}");
        }
        assert_eq!(by_key(&['a', 'a'], &['a']), None);
        assert_eq!(by_key(&['a'], &['b', 'b']), None);
    }

    #[test]
    fn an_insertion_or_removal_is_the_only_difference_that_contents_show() {
        let cases: [(&[u64], &[u64], &[Match]); 7] = [
            (&[1, 2, 3], &[9, 1, 2, 3], &[Second(0)]),
            (&[1, 2, 3], &[1, 3], &[First(1)]),
            (&[1, 2, 3], &[1, 9, 3], &[Both(1, 1)]),
            (&[5, 5, 5], &[5, 5, 5, 5], &[Second(3)]),
            (&[1, 2, 3, 4], &[8, 1, 2, 9, 4], &[Second(0), Both(2, 3)]),
            (&[1, 2], &[2, 1], &[First(0), Second(1)]),
            (&[], &[], &[]),
        ];
        for (a, b, expected) in cases {
            assert_eq!(by_content(a, b), expected, "{a:?} {b:?}");
        }
    }
}
