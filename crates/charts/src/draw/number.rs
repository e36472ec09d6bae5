//! Formats tick labels. They have as many digits as the step between ticks, so that no two labels are equal.

/// Whether a value can be drawn. Beyond 1e300, differences and ratios of two values overflow.
pub(super) fn drawable(value: f64) -> bool {
    value.is_finite() && value.abs() <= 1e300
}

/// Converts a float to a count between 0 and a million.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first; NaN becomes 0")]
pub(super) fn whole(value: f64) -> usize {
    value.clamp(0.0, 1e6) as usize
}

/// The decimal exponent of a value: 3 for 1,500, and 0 for zero.
#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a float is below 400")]
pub(super) fn exponent(value: f64) -> i32 {
    let exponent = value.abs().log10().floor();
    // 999.9999999999999 counts as 1,000.
    let power = 10f64.powf(exponent + 1.0);
    let exponent = if value.abs() >= power * (1.0 - 1e-12) { exponent + 1.0 } else { exponent };
    if exponent.is_finite() { exponent as i32 } else { 0 }
}

/// The number format of all ticks of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Style {
    /// `1,234.50`, with this many decimals.
    Fixed(usize),
    /// `1.2×10¹²`, with this many decimals.
    Powers(usize),
}

impl Style {
    /// The format for ticks with this step and this largest absolute value.
    pub(super) fn new(step: f64, largest: f64) -> Self {
        let (largest, step) = (largest.abs(), step.abs());
        let digits = |from: i32| usize::try_from((from - exponent(step)).max(0)).unwrap_or(0).min(17);
        if largest != 0.0 && !(1e-4..1e10).contains(&largest) {
            Self::Powers(digits(exponent(largest)))
        } else {
            Self::Fixed(digits(0))
        }
    }

    /// The text of a value.
    pub(super) fn write(self, value: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Self::Fixed(digits) => fixed(value, digits),
            Self::Powers(digits) => {
                let mut power = exponent(value);
                let mut mantissa = value / 10f64.powi(power);
                if !mantissa.is_finite() {
                    power -= 1;
                    mantissa = value / 10f64.powi(power);
                }
                let sign = if power < 0 { "⁻" } else { "" };
                let power: String = power.unsigned_abs().to_string().chars().map(superscript).collect();
                let mantissa = fixed(mantissa, digits);
                format!("{mantissa}×10{sign}{power}")
            }
        }
    }
}

fn superscript(digit: char) -> char {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    digit.to_digit(10).and_then(|digit| SUPERSCRIPTS.get(digit as usize)).copied().unwrap_or(digit)
}

/// Formats a number with commas between thousands and a minus sign (−).
fn fixed(value: f64, digits: usize) -> String {
    let plain = format!("{:.digits$}", value.abs());
    let (before, after) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut out = String::new();
    if value < 0.0 && plain.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        out.push('−');
    }
    for (position, digit) in before.chars().enumerate() {
        if position > 0 && (before.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !after.is_empty() {
        out.push('.');
        out.push_str(after);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_as_many_digits_as_the_step() {
        assert_eq!(Style::new(0.5, 2.0).write(1.5), "1.5");
        assert_eq!(Style::new(500.0, 12_000.0).write(12_000.0), "12,000");
        assert_eq!(Style::new(0.01, 0.05).write(-0.03), "−0.03");
        assert_eq!(Style::new(2e11, 1e12).write(1e12), "1.0×10¹²");
        assert_eq!(Style::new(1e-9, 5e-9).write(5e-9), "5×10⁻⁹");
        assert_eq!(Style::new(0.001, 1_700_000_000.0).write(1_699_999_999.999), "1,699,999,999.999");
        assert_eq!(Style::new(1e299, 1e300).write(0.0), "0");
    }

    #[test]
    fn zero_has_no_minus_sign() {
        assert_eq!(Style::Fixed(1).write(-0.001), "0.0");
    }
}
