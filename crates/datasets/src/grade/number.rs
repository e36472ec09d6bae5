//! Finds the numbers in a text, in order, as people and models write them.
//!
//! Supported: signs (also the Unicode minus), thousands separators (`1,234`, `12,34,567`, thin spaces), decimals,
//! exponents (`6.02e23`, `6.02 × 10^23`), fractions (`3/4`, `1 1/2`, `\frac{3}{4}`), per cent, and amounts of money.
//! Not supported: words (`five`, `3 million`), roots, other powers and multiples of π, and the decimal comma, which
//! looks the same as a thousands separator.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::statement::compile;

/// A number found in a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    /// The value; the value of `50%` is 50.
    pub(super) value: f64,
    /// The exact value of a whole number.
    pub(super) integer: Option<i128>,
    /// Whether it is followed by `%`.
    pub(super) is_percent: bool,
    /// The text of the number, without separators and currency.
    pub(super) text: String,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?x) (?P<sign>[-+]?) (?:[$€£¥₹]\s?)? (?P<inner>-?)
        (?: (?:(?P<mixed>\d+)\s{1,3})? (?P<numerator>\d+(?:,\d{3})*) \s?/\s? (?P<denominator>\d+(?:,\d{3})*)
          | (?: (?P<whole>\d+(?:,\d+)*) (?P<decimals>\.\d+)? | (?P<bare>\.\d+) )
            (?P<exponent>[eE][-+]?\d+)? (?P<percent>\s?%)? )",
    )
});

/// All numbers in the output of [`tidy`].
pub(super) fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    for number in NUMBER.captures_iter(text) {
        let place = number.get_match().range();
        let (before, after) = (&text[..place.start], text[place.end..].trim_start_matches(' '));
        let last = before.chars().next_back();
        // Exponents, indices and digits of a name are not numbers: m^2, x_1, H2O.
        let is_index = before.ends_with(['^', '_']) || before.ends_with("^{") || before.ends_with("_{");
        // 3√2 is neither 3 nor 2.
        let is_factor = before.ends_with(r"\sqrt{") || before.ends_with('√') || after.starts_with(['^', '√', 'π']);
        if is_factor || after.starts_with(r"\sqrt") || after.starts_with(r"\pi") {
            continue;
        }
        let has_sign = !number["sign"].is_empty();
        if is_index || (!has_sign && last.is_some_and(|last| last.is_ascii_alphabetic())) {
            continue;
        }
        // After a number or a name, a minus is an operator or a hyphen: 10-3, GPT-4.
        let is_operator = last.is_some_and(|last| last.is_alphanumeric() || last == ')');
        let is_negative = (&number["sign"] == "-" && !is_operator) || &number["inner"] == "-";
        read(&number, if is_negative { "-" } else { "" }, &mut found);
    }
    found.retain(|number| number.value.is_finite());
    found
}

/// Adds the numbers of one match: several if commas separate them.
fn read(number: &Captures<'_>, sign: &str, found: &mut Vec<Number>) {
    let part = |name: &str| number.name(name).map_or("", |part| part.as_str());
    if let (Some(numerator), Some(denominator)) = (number.name("numerator"), number.name("denominator")) {
        let digits = |text: &str| text.replace(',', "");
        let (numerator, denominator) = (digits(numerator.as_str()), digits(denominator.as_str()));
        let share = parse(&numerator) / parse(&denominator);
        let factor = if sign == "-" { -1.0 } else { 1.0 };
        let mixed = part("mixed");
        if mixed.is_empty() {
            found.push(Number::new(factor * share, format!("{sign}{numerator}/{denominator}")));
        } else if share < 1.0 {
            let value = factor * (parse(mixed) + share);
            found.push(Number::new(value, format!("{sign}{mixed} {numerator}/{denominator}")));
        } else {
            found.push(Number::plain(format!("{sign}{mixed}")));
            found.push(Number::new(share, format!("{numerator}/{denominator}")));
        }
        return;
    }
    let ending = format!("{}{}{}", part("decimals"), part("bare"), part("exponent"));
    let whole = part("whole");
    let pieces: Vec<&str> = whole.split(',').collect();
    let (last, listed) = if is_grouped(&pieces) {
        (format!("{sign}{}", pieces.concat()), &[][..])
    } else {
        (pieces.last().copied().unwrap_or_default().to_owned(), &pieces[..pieces.len().saturating_sub(1)])
    };
    let signs = std::iter::once(sign).chain(std::iter::repeat(""));
    found.extend(listed.iter().zip(signs).map(|(piece, sign)| Number::plain(format!("{sign}{piece}"))));
    let is_percent = number.name("percent").is_some();
    let written = format!("{last}{ending}");
    found.push(Number { is_percent, ..Number::plain(written) });
}

/// Whether commas are thousands separators: groups of three digits, or of two before a last group of three (1,00,000).
fn is_grouped(pieces: &[&str]) -> bool {
    let [first, middle @ .., last] = pieces else { return true };
    let lengths = |length: usize| middle.iter().all(|piece| piece.len() == length);
    last.len() == 3 && first.len() <= 3 && (lengths(3) || (first.len() <= 2 && lengths(2)))
}

fn parse(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

impl Number {
    fn new(value: f64, text: String) -> Self {
        Self { value, integer: None, is_percent: false, text }
    }

    fn plain(text: String) -> Self {
        Self { integer: text.parse().ok(), ..Self::new(parse(&text), text) }
    }
}

/// Rewrites different notations as one: minus signs, LaTeX, powers of ten, thin spaces between thousands.
pub(super) fn tidy(text: &str) -> String {
    static FRACTION: LazyLock<Regex> =
        LazyLock::new(|| compile(r"(\d?)\s*\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}"));
    static POWER: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"(\d)\s*(?:×|\\times|\\cdot|·|\*|x)\s*10\s*\^\s*(?:\{\s*([-+]?\d+)\s*\}|([-+]?\d+))")
    });
    static TEN: LazyLock<Regex> =
        LazyLock::new(|| compile(r"(^|[^\w.,^])10\s*\^\s*(?:\{\s*([-+]?\d+)\s*\}|([-+]?\d+))"));
    let plain = text
        .replace(['\u{2212}', '\u{ff0d}', '\u{fe63}'], "-")
        .replace("{,}", ",")
        .replace(r"\$", "$")
        .replace(r"\%", "%")
        .replace(r"\,", "")
        .replace(r"\!", "");
    let fractions = FRACTION.replace_all(&plain, |found: &Captures<'_>| {
        let gap = if found[1].is_empty() { "" } else { " " };
        format!("{}{gap}{}/{}", &found[1], &found[2], &found[3])
    });
    let powers = POWER.replace_all(&fractions, "${1}e${2}${3}");
    join_thousands(&TEN.replace_all(&powers, "${1}1e${2}${3}"))
}

/// Removes no-break and thin spaces between a digit and a group of three digits.
fn join_thousands(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for (place, character) in text.char_indices() {
        let is_space = matches!(character, '\u{a0}' | '\u{202f}' | '\u{2009}');
        let follows_digit = || joined.ends_with(|last: char| last.is_ascii_digit());
        let after = &text[place + character.len_utf8()..];
        let precedes_three = || after.bytes().take_while(u8::is_ascii_digit).count() == 3;
        if !(is_space && follows_digit() && precedes_three()) {
            joined.push(character);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        numbers(&tidy(text)).into_iter().map(|number| number.text).collect()
    }

    #[test]
    fn numbers_are_found_in_every_notation() {
        for (text, expected) in [
            ("42", "42"),
            ("-7.50", "-7.50"),
            ("\u{2212}7", "-7"),
            ("$1,234.50", "1234.50"),
            ("-$5 and $-6", "-5 -6"),
            ("1,234,567 or 12,34,567", "1234567 1234567"),
            ("-1,2,3 and 1,2345", "-1 2 3 1 2345"),
            ("1\u{202f}234\u{a0}567", "1234567"),
            (".5 and 5.", ".5 5"),
            ("6.02e23", "6.02e23"),
            (r"6.02 \times 10^{23} and 3 × 10^-4", "6.02e23 3e-4"),
            ("10^6 and 10^{-2}, 2^{10}", "1e6 1e-2"),
            (r"3\sqrt{2}, 2π, \sqrt{5}, 4 \pi", ""),
            ("50% and 12.5 %", "50 12.5"),
            ("3/4, 1 1/2, 3 5/2", "3/4 1 1/2 3 5/2"),
            (r"\frac{3}{4} -\dfrac{1}{2} 2\frac{1}{3}", "3/4 -1/2 2 1/3"),
            ("10-3=7", "10 3 7"),
            ("GPT-4 has H2O, x_1, m^2, x^{10}", "4"),
            (r"1{,}000\,m", "1000"),
            ("1/0", ""),
            ("5km, 3rd", "5 3"),
            ("none", ""),
        ] {
            assert_eq!(found(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn values_match_the_text() {
        let value = |text: &str| numbers(&tidy(text)).last().map(|number| number.value);
        for (text, expected) in
            [("-1 1/2", -1.5), ("3 × 10^-4", 3e-4), ("12,34,567", 1_234_567.0), ("-3/4", -0.75), ("50%", 50.0)]
        {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        assert_eq!(numbers("9007199254740993")[0].integer, Some(9_007_199_254_740_993));
        assert!(numbers("50%")[0].is_percent);
        assert_eq!(value("1e999"), None);
    }
}
