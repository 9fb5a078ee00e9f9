//! Parsing sizes in bytes.

/// Maximum number of significant digits after the decimal point.
const MOST_DECIMALS: usize = 18;

/// Parses a size such as `67108864`, `64MiB`, `64M`, `1.5GiB` or `64MB`, and returns it in bytes.
/// Units that end in `B` without an `i`, such as `MB`, are decimal; all others are binary. Fractions
/// of a byte are dropped.
///
/// ```
/// use proto_splitter_ops::parse_size;
///
/// assert_eq!(parse_size("1.5KiB"), Ok(1536));
/// assert_eq!(parse_size("1KB"), Ok(1000));
/// assert!(parse_size("many").is_err());
/// ```
///
/// # Errors
///
/// A description of the problem, if the text isn't a size or doesn't fit in 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let digits = text.bytes().take_while(is_number).count();
    let (number, unit) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let not_a_size = "must be a number of bytes, or a number with a unit, e.g. 64MiB";
    if whole.is_empty() || fraction.contains('.') || (fraction.is_empty() && number.contains('.')) {
        return Err(not_a_size.into());
    }
    let unit = unit.trim_start();
    let Some(scale) = scale(unit) else {
        return Err(format!(
            "`{unit}` is not a unit: use KiB, MiB, GiB or TiB, or K, M, G or T for the same units; KB, MB, GB and TB are decimal"
        ));
    };
    if fraction.len() > MOST_DECIMALS {
        return Err(format!("at most {MOST_DECIMALS} digits after the point"));
    }
    let too_large = || format!("{text} doesn't fit in 64 bits");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let whole = whole.checked_mul(scale).ok_or_else(too_large)?;
    let part = match fraction {
        "" => 0,
        _ if scale == 1 => return Err("there are no parts of a byte".into()),
        digits => {
            let divisor = digits.bytes().fold(1_u128, |by, _| by * 10);
            let digits: u64 = digits.parse().map_err(|_| not_a_size)?;
            // The digits are less than the divisor, so the quotient is less than `scale`, which
            // fits in a `u64`.
            u64::try_from(u128::from(digits) * u128::from(scale) / divisor).unwrap_or(0)
        }
    };
    whole.checked_add(part).ok_or_else(too_large)
}

/// Returns the number of bytes in a unit.
fn scale(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (letter, kind) = match unit.as_str() {
        "" | "b" => return Some(1),
        unit => unit.split_at_checked(1)?,
    };
    let power = ["k", "m", "g", "t"].iter().position(|of| *of == letter)?;
    let base: u64 = match kind {
        "" | "ib" | "i" => 1024,
        "b" => 1000,
        _ => return None,
    };
    (0..=power).try_fold(1_u64, |scale, _| scale.checked_mul(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them() {
        for (text, bytes) in [
            ("0", 0),
            ("2147483147", 2_147_483_147),
            ("512B", 512),
            ("10KiB", 10 << 10),
            ("10 KiB", 10 << 10),
            ("64mib", 64 << 20),
            ("512M", 512 << 20),
            ("4g", 4 << 30),
            ("1k", 1 << 10),
            ("1.5GiB", 3 << 29),
            ("0.5T", 1 << 39),
            ("1.001KiB", 1025),
            ("64MB", 64_000_000),
            ("1GB", 1_000_000_000),
            ("1.5 kb", 1500),
            ("1GiB", 1 << 30),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_what_to_write_instead() {
        for (text, hint) in [
            ("3 parsecs", "`parsecs` is not a unit"),
            ("64MX", "`MX` is not a unit"),
            ("64µB", "`µB` is not a unit"),
            ("64М", "`М` is not a unit"),
            ("64\u{200b}MiB", "is not a unit"),
            ("1.5", "no parts of a byte"),
            ("1.5B", "no parts of a byte"),
            ("1.2.3GiB", "a number of bytes"),
            ("1.GiB", "a number of bytes"),
            (".5GiB", "a number of bytes"),
            ("1.0000000000000000001GiB", "at most 18 digits"),
            ("", "a number of bytes"),
            ("MiB", "a number of bytes"),
            ("-1", "a number of bytes"),
            ("99999999999999999999", "64 bits"),
            ("16777216TiB", "64 bits"),
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
