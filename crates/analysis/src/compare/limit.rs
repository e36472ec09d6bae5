//! Parses limits such as `joules_per_token > +5%` and checks comparisons against them.
//!
//! A limit is METRIC OP BOUND. A bound with a sign is a change from the baseline; a bound without a sign is a value of the
//! candidate. A change counts if its interval excludes "no change", or if even no change would exceed the limit.

use ergometer_diagnostics::{Diagnostic, Hint, hint};

use super::row::Row;
use ergometer_runs::metrics::{self, Metric, Unit};

/// A limit on a metric: a comparison fails if the metric is beyond it.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The limit as the user wrote it.
    pub text: String,
    /// The limited metric.
    pub metric: &'static Metric,
    /// Which values are beyond the bound.
    pub operator: Operator,
    /// The bound.
    pub bound: Bound,
}

/// Why a text is not a condition on a metric.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LimitError {
    /// The text is not METRIC OP LIMIT.
    #[error("`{text}` is not a condition")]
    Syntax {
        /// The text.
        text: String,
    },
    /// No metric has this name.
    #[error("unknown metric `{name}`")]
    UnknownMetric {
        /// The name.
        name: String,
    },
    /// The bound cannot be read, or its unit is ambiguous or wrong for the metric.
    #[error("`{text}` is not a limit of {}", metric.name)]
    Bound {
        /// The bound as the user wrote it.
        text: String,
        /// The metric.
        metric: &'static Metric,
    },
}

impl Diagnostic for LimitError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Syntax { .. } => {
                hint!("write METRIC OPERATOR LIMIT, as in `joules_per_token > +5%`; the operators are > >= < <=")
            }
            Self::UnknownMetric { name } => {
                let names: Vec<&str> = metrics::in_comparisons().map(|metric| metric.name).collect();
                let names = names.join(", ");
                match nearest(name) {
                    Some(nearest) => hint!(format!("did you mean {nearest}? The metrics are {names}")),
                    None => hint!(format!("use one of {names}")),
                }
            }
            Self::Bound { metric, .. } => {
                let (value, change) = example(metric);
                hint!(format!("write {value} for a value, or {change} for a change from the baseline"))
            }
        })
    }
}

/// Which values are beyond a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// The bound of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// A value of the candidate, in the unit of the metric.
    Value(f64),
    /// A change, in the unit of the metric.
    Change(f64),
    /// A change, as a share of the baseline.
    Relative(f64),
}

/// The result of checking a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The limit is met.
    Kept,
    /// The limit is exceeded.
    Broken(String),
    /// The limit is exceeded, but the change is not significant.
    Unsure(String),
    /// The metric has no value.
    Absent(String),
}

impl Operator {
    fn is_beyond(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
        }
    }
}

impl Limit {
    /// Parses limits separated by commas.
    pub fn parse(text: &str) -> Result<Vec<Self>, LimitError> {
        text.split(',').map(Self::parse_one).collect()
    }

    fn parse_one(text: &str) -> Result<Self, LimitError> {
        let text = text.trim();
        let at = text.find(['<', '>']).ok_or_else(|| LimitError::Syntax { text: text.to_owned() })?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (operator, rest) = match (rest.strip_prefix(">="), rest.strip_prefix("<=")) {
            (Some(rest), _) => (Operator::AtLeast, rest),
            (_, Some(rest)) => (Operator::AtMost, rest),
            _ if rest.starts_with('>') => (Operator::Above, &rest[1..]),
            _ => (Operator::Below, &rest[1..]),
        };
        let metric = metrics::find(name).filter(|metric| metric.in_comparisons());
        let metric = metric.ok_or_else(|| LimitError::UnknownMetric { name: name.to_owned() })?;
        let bound = parse_bound(metric, rest.trim());
        let bound = bound.ok_or_else(|| LimitError::Bound { text: rest.trim().to_owned(), metric })?;
        Ok(Self { text: text.to_owned(), metric, operator, bound })
    }

    /// Checks a row of a comparison; `None` if neither side has the metric.
    #[must_use]
    pub fn judge(&self, row: Option<&Row>) -> Judgement {
        let Self { text, metric, operator, .. } = self;
        let Some(row) = row else {
            return Judgement::Absent(format!(
                "cannot check {} against `{text}`: neither run has a value",
                metric.name
            ));
        };
        let absent = || {
            let why = row.reason.as_deref().unwrap_or("there is no value");
            Judgement::Absent(format!("cannot check {} against `{text}`: {why}", metric.name))
        };
        let shown = |value: f64| metric.unit.format(value);
        let (bound, value, change_text) = match self.bound {
            Bound::Value(bound) => {
                let Some(value) = row.candidate else { return absent() };
                return if operator.is_beyond(value, bound) {
                    Judgement::Broken(format!("{} is {}: the condition `{text}` is true", metric.name, shown(value)))
                } else {
                    Judgement::Kept
                };
            }
            Bound::Relative(bound) => {
                let change = row.change.zip(row.baseline).and_then(|(change, baseline)| change.relative(baseline));
                (bound, change, change.map(|change| format!("{:+.2} %", change * 100.0)))
            }
            Bound::Change(bound) => {
                let change = row.change.zip(row.baseline).map(|(change, baseline)| match change.kind {
                    ergometer_statistics::Change::Difference => change.value,
                    ergometer_statistics::Change::Ratio => (change.value - 1.0) * baseline,
                });
                (bound, change, row.change.map(|change| super::table::format_change(metric, &change)))
            }
        };
        let (Some(value), Some(change_text), Some(effect)) = (value, change_text, row.change) else { return absent() };
        if !operator.is_beyond(value, bound) {
            return Judgement::Kept;
        }
        let both = row.baseline.zip(row.candidate).map(|(one, two)| format!(" ({} → {})", shown(one), shown(two)));
        let what = format!(
            "{} changed by {change_text}{}: the condition `{text}` is true",
            metric.name,
            both.unwrap_or_default()
        );
        // If even no change would exceed the limit, the limit requires an improvement.
        if effect.is_certain() || operator.is_beyond(0.0, bound) {
            return Judgement::Broken(what);
        }
        let why = match effect.interval {
            Some(_) => String::from("its interval includes a change of zero"),
            None => format!("there is no interval ({})", row.reason.as_deref().unwrap_or("unknown")),
        };
        Judgement::Unsure(format!("{what}, but {why}"))
    }
}

/// Parses a bound: an optional sign, a number, a unit.
fn parse_bound(metric: &Metric, text: &str) -> Option<Bound> {
    let (sign, rest) = match text.chars().next()? {
        '+' => (Some(1.0), &text[1..]),
        '-' => (Some(-1.0), &text[1..]),
        '−' => (Some(-1.0), &text['−'.len_utf8()..]),
        _ => (None, text),
    };
    let rest = rest.trim_start();
    let split = rest.find(|character: char| !(character.is_ascii_digit() || character == '.')).unwrap_or(rest.len());
    let number: f64 = rest[..split].parse().ok().filter(|number: &f64| number.is_finite())?;
    let unit = rest[split..].trim();
    let Some(sign) = sign else {
        // A share without a percent sign is ambiguous (0.9 or 90), and a check must not pass because it was misread.
        let factor = if metric.unit == Unit::Share { (unit == "%").then_some(0.01) } else { factor(metric.unit, unit) };
        return Some(Bound::Value(number * factor?));
    };
    if unit == "%" {
        return Some(Bound::Relative(sign * number / 100.0));
    }
    Some(Bound::Change(sign * number * factor(metric.unit, unit)?))
}

/// The factor that converts a number with this unit to the unit of the metric; `None` if the unit does not fit.
fn factor(unit: Unit, text: &str) -> Option<f64> {
    let prefixed = |name: &str| {
        let prefix = text.strip_suffix(name)?;
        [("", 1.0), ("n", 1e-9), ("u", 1e-6), ("µ", 1e-6), ("m", 1e-3), ("k", 1e3), ("M", 1e6)]
            .iter()
            .find_map(|(known, factor)| (*known == prefix).then_some(*factor))
    };
    match unit {
        Unit::Share => matches!(text, "" | "points" | "point").then_some(0.01),
        Unit::Seconds => match text {
            "min" | "m" => Some(60.0),
            "h" => Some(3600.0),
            // A time without a unit is ambiguous: seconds or milliseconds.
            "ks" | "Ms" => None,
            _ => prefixed("s"),
        },
        Unit::Joules | Unit::Watts if text.is_empty() => Some(1.0),
        Unit::Joules => prefixed("J"),
        Unit::Watts => prefixed("W"),
        Unit::Dollars => matches!(text, "" | "USD" | "$").then_some(1.0),
        Unit::Count(name) => (text.is_empty() || text == name).then_some(1.0),
    }
}

fn example(metric: &Metric) -> (&'static str, &'static str) {
    match metric.unit {
        Unit::Share => ("90%", "-2 (percentage points) or -2%"),
        Unit::Seconds => ("200ms", "+20ms or +5%"),
        Unit::Joules => ("0.5J", "+0.1J or +5%"),
        Unit::Watts => ("300W", "+20W or +5%"),
        Unit::Dollars | Unit::Count(_) => ("12.5", "+2 or +5%"),
    }
}

/// The metric with the most similar name, if it is a likely misspelling.
fn nearest(name: &str) -> Option<&'static str> {
    let nearest = metrics::in_comparisons().map(|metric| (distance(name, metric.name), metric.name)).min();
    nearest.filter(|(steps, _)| *steps <= 3).map(|(_, nearest)| nearest)
}

/// The Levenshtein distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place + 1);
        for (column, same) in other.iter().enumerate() {
            let changed = diagonal + usize::from(*same != letter);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::super::metric;
    use super::*;
    use crate::compare::{Effect, Method, Verdict};
    use ergometer_diagnostics::CommandLine;
    use ergometer_statistics::Interval;

    fn bound(text: &str) -> (Operator, Bound) {
        let limits = Limit::parse(text).unwrap();
        assert_eq!(limits.len(), 1);
        (limits[0].operator, limits[0].bound)
    }

    #[test]
    fn a_bound_with_a_sign_is_a_change() {
        assert_eq!(bound("joules_per_token > +5%"), (Operator::Above, Bound::Relative(0.05)));
        assert_eq!(bound("accuracy<-2"), (Operator::Below, Bound::Change(-0.02)));
        assert_eq!(bound("accuracy < −2 points"), (Operator::Below, Bound::Change(-0.02)));
        assert_eq!(bound("accuracy <= -2%"), (Operator::AtMost, Bound::Relative(-0.02)));
        assert_eq!(bound("accuracy < 90%"), (Operator::Below, Bound::Value(0.9)));
        assert_eq!(bound("ttft_p99>=200ms"), (Operator::AtLeast, Bound::Value(0.2)));
        assert_eq!(bound(" ttft_p99 > +1.5s "), (Operator::Above, Bound::Change(1.5)));
        assert_eq!(bound("duration > 2min"), (Operator::Above, Bound::Value(120.0)));
        assert_eq!(bound("joules_per_query > 20mJ"), (Operator::Above, Bound::Value(0.02)));
        assert_eq!(bound("mean_power_w > 300"), (Operator::Above, Bound::Value(300.0)));
        assert_eq!(bound("output_tokens_per_second < 12.5tok/s"), (Operator::Below, Bound::Value(12.5)));
        assert_eq!(Limit::parse("accuracy < -1, e2e_p50 > +10%").unwrap().len(), 2);
    }

    #[test]
    fn ambiguous_limits_are_rejected() {
        for wrong in [
            "",
            "accuracy",
            "accuracy =< 3",
            "accuracy < 0.9",
            "accuracy < 90",
            "ttft_p99 > 200",
            "ttft_p99 > 200J",
            "ttft_p99 > +5",
            "accuracy < -2ms",
            "joules_per_query > +",
            "joules_per_query > 1e3",
            "accuracy < nan%",
            "accuracy < --2",
            "accuracy < -2,",
            "> 3",
            "mean_power_w > 5 %",
        ] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
        let message = Limit::parse("acuracy < -2").unwrap_err().one_line(&CommandLine);
        assert!(message.contains("did you mean accuracy?") && message.contains("ttft_p99"), "{message}");
        assert!(!Limit::parse("watts > 2").unwrap_err().one_line(&CommandLine).contains("did you mean"));
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("a", "a")), (3, 3, 0));
    }

    fn row(name: &str, values: (f64, f64), change: f64, interval: Option<(f64, f64)>) -> Row {
        let metric = metrics::find(name).unwrap();
        let interval = interval.map(|(low, high)| Interval { low, high });
        let change = Effect {
            kind: metric::change(metric),
            value: change,
            interval,
            method: Some(Method::Paired),
            is_constant: false,
        };
        Row {
            metric,
            unit: metric.unit,
            baseline: Some(values.0),
            candidate: Some(values.1),
            change: Some(change),
            verdict: Verdict::Worse,
            reason: None,
        }
    }

    fn judged(limit: &str, row: &Row) -> Judgement {
        Limit::parse(limit).unwrap()[0].judge(Some(row))
    }

    #[test]
    fn only_significant_changes_break_a_limit() {
        let sure = row("joules_per_token", (2.0, 2.2), 1.1, Some((1.05, 1.15)));
        let broken = judged("joules_per_token > +5%", &sure);
        assert!(
            matches!(&broken, Judgement::Broken(text) if text.contains("+10.00 % (2.000 J → 2.200 J):")),
            "{broken:?}"
        );
        assert_eq!(judged("joules_per_token > +15%", &sure), Judgement::Kept);
        assert!(matches!(judged("joules_per_token > +100mJ", &sure), Judgement::Broken(_)));
        assert_eq!(judged("joules_per_token > +300mJ", &sure), Judgement::Kept);
        let is_true = String::from("joules_per_token is 2.200 J: the condition `joules_per_token < 3J` is true");
        assert_eq!(judged("joules_per_token < 3J", &sure), Judgement::Broken(is_true));
        let unsure = row("joules_per_token", (2.0, 2.2), 1.1, Some((0.95, 1.25)));
        let text = "is true, but its interval includes a change of zero";
        assert!(matches!(judged("joules_per_token > +5%", &unsure), Judgement::Unsure(found) if found.ends_with(text)));
        assert!(
            matches!(judged("joules_per_token > 2.1J", &unsure), Judgement::Broken(_)),
            "a limit on the value needs no interval"
        );
        let bare = row("itl_p99", (0.1, 0.2), 0.1, None);
        assert!(matches!(judged("itl_p99 > +50ms", &bare), Judgement::Unsure(text) if text.contains("no interval")));
    }

    #[test]
    fn a_required_improvement_must_be_present() {
        let unsure = row("accuracy", (0.8, 0.805), 0.005, Some((-0.01, 0.02)));
        assert!(matches!(judged("accuracy < +2", &unsure), Judgement::Broken(_)));
        assert_eq!(judged("accuracy < -2", &unsure), Judgement::Kept);
    }

    #[test]
    fn a_missing_value_does_not_pass() {
        assert!(matches!(Limit::parse("goodput < 3").unwrap()[0].judge(None), Judgement::Absent(_)));
        let mut absent = row("joules_per_query", (2.0, 2.2), 1.1, None);
        (absent.change, absent.reason) = (None, Some(String::from("energy is modelled in one")));
        assert!(
            matches!(judged("joules_per_query > +5%", &absent), Judgement::Absent(text) if text.contains("modelled"))
        );
        absent.candidate = None;
        assert!(matches!(judged("joules_per_query > 5", &absent), Judgement::Absent(_)));
    }
}
