//! Reads lengths of time as attributes write them, so that a bad one does not compile.

/// Milliseconds of a text like `250ms`, `5s`, `2m` or `1h`; the error says what is wrong with it.
pub(crate) fn millis(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let per_unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => return Err(format!("`{text}` has no unit")),
        _ => return Err(format!("`{text}` is no whole number with a unit")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("`{text}` is no whole number with a unit"))?;
    match count.checked_mul(per_unit_ms) {
        Some(0) => Err(format!("`{text}` lets no call through")),
        Some(ms) => Ok(ms),
        None => Err(format!("`{text}` is too long")),
    }
}
