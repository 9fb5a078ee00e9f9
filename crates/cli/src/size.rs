//! Parsing and formatting sizes in bytes.

pub(crate) use proto_splitter::ops::parse_size as parse;
pub(crate) use proto_splitter::size_tree::shown_size as show;

/// Formats a number with a noun, such as `1 chunk` or `2 chunks`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_unit_they_fill() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (2_147_483_147, "2.0 GiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(show(bytes), shown, "{bytes}");
        }
    }
}
