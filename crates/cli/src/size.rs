//! Numbers of bytes, as they are typed and as they are shown.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Reads `67108864`, `64MiB`, `10KiB` or `1GiB`. Units are binary and say so.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("a size is a number of bytes, or one with a unit, as in 64MiB".into());
    }
    let unit = unit.trim_start();
    let known = UNITS
        .iter()
        .position(|known| known.eq_ignore_ascii_case(unit));
    let Some(power) = known.or(unit.is_empty().then_some(0)) else {
        return Err(unknown_unit(number, unit));
    };
    let too_large = || format!("{text} is more than 64 bits hold");
    let number: u64 = number.parse().map_err(|_| too_large())?;
    let scale = 1 << (10 * power);
    number.checked_mul(scale).ok_or_else(too_large)
}

fn unknown_unit(number: &str, unit: &str) -> String {
    let letter = unit.trim_end_matches(['b', 'B']).to_ascii_uppercase();
    let meant = UNITS[1..].iter().find(|known| known[..1] == letter);
    match meant {
        Some(meant) => {
            format!("`{unit}` can mean two things: write {number}{meant}, or a number of bytes")
        }
        None if unit.starts_with('.') => "no fractions: use the next smaller unit".into(),
        None => format!("`{unit}` is no unit: KiB, MiB, GiB and TiB are, bytes have none"),
    }
}

/// Shows a size in the largest unit that it fills, to a tenth.
pub(crate) fn show(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut power, mut scale) = (1, 1024);
    loop {
        // What would be rounded to 1024.0 is shown in the next unit.
        let tenths = (u128::from(bytes) * 10 + scale / 2) / scale;
        if tenths < 10_240 || power + 1 == UNITS.len() {
            return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power]);
        }
        (power, scale) = (power + 1, scale * 1024);
    }
}

/// How many of what, with a plural.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_binary_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("2147483147", 2_147_483_147),
            ("512B", 512),
            ("10KiB", 10 << 10),
            ("10 KiB", 10 << 10),
            ("64mib", 64 << 20),
            ("1GiB", 1 << 30),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_to_write_instead() {
        for (text, hint) in [
            ("64MB", "write 64MiB"),
            ("64M", "write 64MiB"),
            ("1k", "write 1KiB"),
            ("1.5GiB", "no fractions"),
            ("3 parsecs", "`parsecs` is no unit"),
            ("", "a number of bytes"),
            ("MiB", "a number of bytes"),
            ("-1", "a number of bytes"),
            ("99999999999999999999", "64 bits"),
            ("16777216TiB", "64 bits"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

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
