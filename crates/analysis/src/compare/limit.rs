//! What must not be: `joules_per_token > +5%` goes in; whether a comparison keeps to it comes out.
//!
//! A limit is METRIC OP BOUND. A bound with a sign is a change from the baseline, one without is a value of the candidate.
//! A change counts where its interval leaves no change out, or where no change at all would be beyond the limit too.

use std::fmt::Write as _;

use super::row::Row;
use ergometer_runs::metrics::{self, Metric, Unit};

/// A limit.
#[derive(Debug, Clone)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    /// Of what.
    pub metric: &'static Metric,
    /// What is beyond it.
    pub operator: Operator,
    /// Where it is.
    pub bound: Bound,
}

/// What is beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say it")]
pub enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Where a limit is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// A value of the candidate, in the unit of the metric.
    Value(f64),
    /// A change, in the unit of the metric.
    Change(f64),
    /// A change, as a part of the baseline.
    Relative(f64),
}

/// What came of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is kept.
    Kept,
    /// It is not.
    Broken(String),
    /// It is not, but the change cannot be told from none.
    Unsure(String),
    /// There is nothing to judge.
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
    /// Reads limits, with commas between them.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(Self::parse_one).collect()
    }

    fn parse_one(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || {
            format!("`{text}` is no limit: write METRIC, one of > >= < <=, and a LIMIT, as in `joules_per_token > +5%`")
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (operator, rest) = match (rest.strip_prefix(">="), rest.strip_prefix("<=")) {
            (Some(rest), _) => (Operator::AtLeast, rest),
            (_, Some(rest)) => (Operator::AtMost, rest),
            _ if rest.starts_with('>') => (Operator::Above, &rest[1..]),
            _ => (Operator::Below, &rest[1..]),
        };
        let metric = metrics::find(name).filter(|metric| metric.in_comparisons).ok_or_else(|| unknown(name))?;
        let bound = parse_bound(metric, rest.trim()).ok_or_else(|| {
            let (example, sign) = example(metric);
            format!(
                "`{}` is no limit of {name}: write {example} for a value, {sign} for a change from the baseline",
                rest.trim()
            )
        })?;
        Ok(Self { text: text.to_owned(), metric, operator, bound })
    }

    /// Judges a row; `None` is a metric that neither side has.
    #[must_use]
    pub fn judge(&self, row: Option<&Row>) -> Judgement {
        let Self { text, metric, operator, .. } = self;
        let Some(row) = row else {
            return Judgement::Absent(format!("{} cannot be judged by `{text}`: neither run has it", metric.name));
        };
        let absent = || {
            let why = row.reason.as_deref().unwrap_or("it has no value");
            Judgement::Absent(format!("{} cannot be judged by `{text}`: {why}", metric.name))
        };
        let shown = |value: f64| metric.unit.format(value);
        let (bound, value, told) = match self.bound {
            Bound::Value(bound) => {
                let Some(value) = row.candidate else { return absent() };
                return if operator.is_beyond(value, bound) {
                    Judgement::Broken(format!("{} is {}, beyond the limit `{text}`", metric.name, shown(value)))
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
                (bound, change, row.change.map(|change| super::shown::change(metric, &change)))
            }
        };
        let (Some(value), Some(told), Some(effect)) = (value, told, row.change) else { return absent() };
        if !operator.is_beyond(value, bound) {
            return Judgement::Kept;
        }
        let both = row.baseline.zip(row.candidate).map(|(one, two)| format!(" ({}, {})", shown(one), shown(two)));
        let what = format!("{} changed by {told}{}, beyond the limit `{text}`", metric.name, both.unwrap_or_default());
        // Where no change at all would be beyond it, an improvement is asked for, and there is none.
        if effect.is_certain() || operator.is_beyond(0.0, bound) {
            return Judgement::Broken(what);
        }
        let why = match effect.interval {
            Some(_) => String::from("its interval holds no change"),
            None => format!("there is no interval ({})", row.reason.as_deref().unwrap_or("unknown")),
        };
        Judgement::Unsure(format!("{what}, but {why}"))
    }
}

/// Reads a bound: a sign, a number, a unit.
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
        // A share without its sign could be 0.9 or 90: a check must not pass because it was read otherwise than meant.
        let factor = if metric.unit == Unit::Share { (unit == "%").then_some(0.01) } else { factor(metric.unit, unit) };
        return Some(Bound::Value(number * factor?));
    };
    if unit == "%" {
        return Some(Bound::Relative(sign * number / 100.0));
    }
    Some(Bound::Change(sign * number * factor(metric.unit, unit)?))
}

/// What a number with this unit is multiplied by; `None` where it is no unit of the metric.
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
            // Of a time without its unit nobody knows whether it is seconds or milliseconds.
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

fn unknown(name: &str) -> String {
    let mut message = format!("there is no metric `{name}`");
    let nearest = metrics::in_comparisons().map(|metric| (distance(name, metric.name), metric.name)).min();
    if let Some((_, nearest)) = nearest.filter(|(steps, _)| *steps <= 3) {
        let _ = write!(message, ": is it {nearest}?");
    }
    let names: Vec<&str> = metrics::in_comparisons().map(|metric| metric.name).collect();
    let _ = write!(message, " There are {}", names.join(", "));
    message
}

/// How many letters to change, add or leave out to make one word of another.
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
    use ergometer_statistics::Interval;

    fn bound(text: &str) -> (Operator, Bound) {
        let limits = Limit::parse(text).unwrap();
        assert_eq!(limits.len(), 1);
        (limits[0].operator, limits[0].bound)
    }

    #[test]
    fn a_sign_makes_a_change_and_a_unit_is_read() {
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
    fn what_could_be_meant_otherwise_is_no_limit() {
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
        let message = Limit::parse("acuracy < -2").unwrap_err();
        assert!(message.contains("is it accuracy?") && message.contains("ttft_p99"), "{message}");
        assert!(!Limit::parse("watts > 2").unwrap_err().contains("is it"));
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
    fn a_change_counts_where_it_is_certain() {
        let sure = row("joules_per_token", (2.0, 2.2), 1.1, Some((1.05, 1.15)));
        let broken = judged("joules_per_token > +5%", &sure);
        assert!(
            matches!(&broken, Judgement::Broken(text) if text.contains("+10.00 %") && text.contains("2.000 J, 2.200 J")),
            "{broken:?}"
        );
        assert_eq!(judged("joules_per_token > +15%", &sure), Judgement::Kept);
        assert!(matches!(judged("joules_per_token > +100mJ", &sure), Judgement::Broken(_)));
        assert_eq!(judged("joules_per_token > +300mJ", &sure), Judgement::Kept);
        let unsure = row("joules_per_token", (2.0, 2.2), 1.1, Some((0.95, 1.25)));
        assert!(matches!(judged("joules_per_token > +5%", &unsure), Judgement::Unsure(_)));
        assert!(matches!(judged("joules_per_token > 2.1J", &unsure), Judgement::Broken(_)), "a value is what it is");
        let bare = row("itl_p99", (0.1, 0.2), 0.1, None);
        assert!(matches!(judged("itl_p99 > +50ms", &bare), Judgement::Unsure(text) if text.contains("no interval")));
    }

    #[test]
    fn an_improvement_that_is_asked_for_must_be_there() {
        let unsure = row("accuracy", (0.8, 0.805), 0.005, Some((-0.01, 0.02)));
        assert!(matches!(judged("accuracy < +2", &unsure), Judgement::Broken(_)));
        assert_eq!(judged("accuracy < -2", &unsure), Judgement::Kept);
    }

    #[test]
    fn what_is_absent_is_no_pass() {
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
