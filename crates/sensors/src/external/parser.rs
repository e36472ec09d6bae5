//! Parses the definition of an external sensor and checks everything that needs no file or command.

use std::str::FromStr;
use std::time::Duration;

use regex::Regex;

use super::definition::{Definition, KeyValue};
use super::output;
use super::prometheus::MetricSelector;
use super::spec::{Column, SecretText, Source, Spec, SpecError};
use super::unit::{NAMES, Quantity, Unit};

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(3600);
/// Management controllers answer within tenths of a second and update about once a second.
const COMMAND_EVERY: Duration = Duration::from_secs(1);
const FILE_EVERY: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(10);
/// A longer name would not fit into tables.
const NAME_LIMIT: usize = 64;

/// The keys of every kind of sensor.
const COMMON: [&str; 4] = ["name", "every", "unit", "signal"];

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let Definition { kind, options, target } = Definition::parse(text)?;
        let (kind, own): (_, &[&str]) = match kind {
            "command" => ("command", &["timeout", "pattern"]),
            "csv" => ("csv", &["time", "value"]),
            "prometheus" => ("prometheus", &["metric"]),
            other => return Err(SpecError::UnknownKind { kind: shown_kind(other) }),
        };
        check_keys(kind, own, &options)?;
        let find = |key: &str| options.iter().find(|option| option.key == key).map(|option| option.value);
        let source = match kind {
            "command" => Source::Command {
                command: SecretText(target.to_owned()),
                timeout: find("timeout").map_or(Ok(TIMEOUT), |text| duration("timeout", text))?,
                pattern: find("pattern").map(pattern).transpose()?,
            },
            "csv" => Source::Csv {
                path: target.into(),
                time: find("time").map(|text| column("time", text)).transpose()?,
                value: find("value").map(|text| column("value", text)).transpose()?,
            },
            _ => Source::Prometheus { path: target.into(), metric: find("metric").map(selector).transpose()? },
        };
        let every = if kind == "command" { COMMAND_EVERY } else { FILE_EVERY };
        let (unit, quantity) = unit_and_quantity(find("unit"), find("signal"))?;
        Ok(Self {
            definition: SecretText(text.to_owned()),
            name: find("name").map_or_else(|| Ok(default_name(&source)), name)?,
            every: find("every").map_or(Ok(every), |text| duration("every", text))?,
            unit,
            quantity,
            source,
        })
    }
}

/// The name of a sensor without the key `name`: the name of its program or file.
fn default_name(source: &Source) -> String {
    let name = match source {
        Source::Command { command, .. } => program(&command.0),
        Source::Csv { path, .. } | Source::Prometheus { path, .. } => {
            path.file_name().map(|name| name.to_string_lossy().into_owned())
        }
    };
    name.unwrap_or_else(|| source.kind().to_owned())
}

/// The file name of the program in a command, if it is certain. `None` if the program follows a word with quotes or
/// `$`, which may be part of a password.
fn program(line: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+/".contains(c);
    let mut words = line.split_ascii_whitespace().peekable();
    loop {
        let word = words.next()?;
        if let Some((_, value)) = word.split_once('=') {
            if !value.chars().all(is_plain) {
                return None;
            }
        } else if word == "sudo" || word == "env" || word == "exec" {
            // An unknown option may have a value (`sudo -u root`), which would be mistaken for the program.
            if words.peek().is_some_and(|next| next.starts_with('-') && !["-n", "-E", "-i", "--"].contains(next)) {
                return Some(word.to_owned());
            }
            while words.next_if(|next| next.starts_with('-')).is_some() {}
        } else {
            let name = word.rsplit('/').next().unwrap_or(word);
            return (word.chars().all(is_plain) && !name.is_empty()).then(|| name.chars().take(NAME_LIMIT).collect());
        }
    }
}

fn check_keys(kind: &'static str, own: &[&str], options: &[KeyValue<'_>]) -> Result<(), SpecError> {
    for (place, option) in options.iter().enumerate() {
        let key = || option.key.chars().take(40).collect();
        if !own.contains(&option.key) && !COMMON.contains(&option.key) {
            let known = [&COMMON[..], own].concat().join(", ");
            return Err(SpecError::UnknownKey { key: key(), kind, known });
        }
        if options[..place].iter().any(|before| before.key == option.key) {
            return Err(SpecError::Twice { key: key() });
        }
    }
    Ok(())
}

/// The text before the first colon. It is only shown if it is a plain word, because it may be part of a command.
fn shown_kind(kind: &str) -> String {
    let is_word = kind.chars().count() <= 20 && kind.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_word { kind.to_owned() } else { "…".to_owned() }
}

fn wrong(key: &'static str, value: &str, why: impl Into<String>, hint: impl Into<String>) -> SpecError {
    // If the `]` is missing, the target follows after a colon. No valid value of these keys contains one.
    let is_short = matches!(key, "every" | "timeout" | "unit" | "signal");
    let value = if is_short { value.split(':').next().unwrap_or_default() } else { value };
    let value = value.chars().take(80).collect();
    SpecError::WrongValue { key, value, why: why.into(), hint: hint.into() }
}

fn name(text: &str) -> Result<String, SpecError> {
    if text.is_empty() || text.chars().any(char::is_control) || text.chars().count() > NAME_LIMIT {
        return Err(wrong("name", text, "not a valid name", format!("use 1 to {NAME_LIMIT} characters in one line")));
    }
    Ok(text.to_owned())
}

fn duration(key: &'static str, text: &str) -> Result<Duration, SpecError> {
    let no_duration =
        || wrong(key, text, "not a duration", "use a number and a unit, for example 200ms, 5s, 1.5m or 1h");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(no_duration)?;
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(no_duration()),
    };
    let seconds = number.parse::<f64>().map_err(|_| no_duration())? * factor;
    let found = Duration::try_from_secs_f64(seconds).map_err(|_| no_duration())?;
    if (SHORTEST..=LONGEST).contains(&found) {
        Ok(found)
    } else {
        Err(wrong(key, text, "out of range", "use a duration from 10ms to 1h"))
    }
}

fn pattern(text: &str) -> Result<String, SpecError> {
    let found: Regex = output::compile_pattern(text).map_err(|error| {
        let why = match error {
            regex::Error::Syntax(text) => text.lines().last().unwrap_or_default().trim().to_owned(),
            other => other.to_string(),
        };
        wrong("pattern", text, why, "use a regular expression, for example 'Power: *([0-9.]+)'")
    })?;
    // The whole match counts as a group.
    if found.captures_len() > 2 {
        let why = format!("{} groups", found.captures_len() - 1);
        return Err(wrong("pattern", text, why, "use one group, for the value, and write the others as (?:…)"));
    }
    Ok(text.to_owned())
}

fn column(key: &'static str, text: &str) -> Result<Column, SpecError> {
    match text.parse() {
        Ok(0) => Err(wrong(key, text, "columns are numbered from 1", "use a number from 1, or a name in the header")),
        Ok(number) => Ok(Column::Number(number)),
        Err(_) if text.is_empty() => {
            Err(wrong(key, text, "not a column", "use a number from 1, or a name in the header"))
        }
        Err(_) if text == "none" && key == "time" => Ok(Column::None),
        Err(_) => Ok(Column::Named(text.to_owned())),
    }
}

fn selector(text: &str) -> Result<MetricSelector, SpecError> {
    MetricSelector::parse(text).ok_or_else(|| {
        let hint = r#"use a name, or a name and labels, for example 'node_power_watts{chassis="1"}'"#;
        wrong("metric", text, "not a metric", hint)
    })
}

fn unit_and_quantity(unit: Option<&str>, signal: Option<&str>) -> Result<(Option<Unit>, Option<Quantity>), SpecError> {
    let found = unit
        .map(|text| Unit::from_symbol(text).ok_or_else(|| wrong("unit", text, "not a unit", format!("use {NAMES}"))))
        .transpose()?;
    let quantity = match signal {
        None => found.map(|unit| unit.quantity),
        Some("power") => Some(Quantity::Power),
        Some("energy") => Some(Quantity::Energy),
        Some(other) => return Err(wrong("signal", other, "not a signal", "use power or energy")),
    };
    match (found, quantity, signal) {
        (Some(unit), Some(quantity), Some(signal)) if unit.quantity != quantity => {
            let other = if unit.quantity == Quantity::Power { "power" } else { "energy" };
            let what = format!("{} is a unit of {other}, not of {signal}", unit.name);
            Err(wrong("signal", signal, what, format!("use {NAMES}")))
        }
        _ => Ok((found, quantity)),
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::{CommandLine, Diagnostic};

    use super::*;

    fn spec(text: &str) -> Spec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_examples_of_the_guide_are_valid() {
        let plain = spec("command:ipmitool dcmi power reading");
        assert_eq!((plain.to_string(), plain.every), ("command:ipmitool".to_owned(), COMMAND_EVERY));
        let ipmi = spec(
            "command[every=5s,pattern='Instantaneous power reading: *([0-9.]+) Watts']:sudo ipmitool dcmi power reading",
        );
        assert_eq!((ipmi.name.as_str(), ipmi.every.as_secs()), ("ipmitool", 5));
        let pdu = spec("command[name=pdu,unit=kWh,timeout=2s]:./read-pdu.sh");
        assert_eq!((pdu.to_string(), pdu.quantity), ("command:pdu".to_owned(), Some(Quantity::Energy)));
        assert_eq!(spec("csv:/var/log/meter.csv").to_string(), "csv:meter.csv");
        let Source::Csv { time, value, .. } = spec("csv[time=timestamp,value=2,unit=W]:/var/log/meter.csv").source
        else {
            panic!("csv")
        };
        assert_eq!((time, value), (Some(Column::Named("timestamp".to_owned())), Some(Column::Number(2))));
        let metric = spec(r#"prometheus[metric='node_power_watts{chassis="1"}']:/var/lib/node_exporter/power.prom"#);
        assert_eq!((metric.to_string(), metric.every), ("prometheus:power.prom".to_owned(), FILE_EVERY));
    }

    #[test]
    fn the_program_of_a_command_is_its_default_name() {
        assert_eq!(program("sudo -n /usr/bin/ipmitool x").as_deref(), Some("ipmitool"));
        assert_eq!(program("A=1 env B=2 ./read.sh"), Some("read.sh".to_owned()));
    }

    #[test]
    fn an_error_never_shows_the_target() {
        for text in [
            "ipmitool -P hunter2 dcmi: power",
            "hunter2=x:y",
            "command[timout=5s]:ipmitool -P hunter2",
            "command[every=5s:curl -u root:hunter2 http://[::1]:80",
            "command[timeout=5s:curl -u root:hunter2 http://[::1]:80",
            "command[unit=W:hunter2 [x]:y",
            "command[every=5s]ipmitool -P hunter2",
        ] {
            let error = text.parse::<Spec>().unwrap_err().one_line(&CommandLine);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn errors_have_the_position_and_a_hint() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err().one_line(&CommandLine);
        for (text, part) in [
            ("meter", "has no colon"),
            ("csv", "has no colon"),
            ("csv:", "no target after the colon"),
            ("csv[:x", "character 4: the `[` is not closed"),
            ("csv[time=1:x", "character 4: the `[` is not closed"),
            ("csv[time]:x", "character 5: expected KEY=VALUE"),
            ("csv[=1]:x", "character 5: expected KEY=VALUE"),
            ("csv[time=1,]:x", "character 12: expected KEY=VALUE"),
            ("csv[time='1]:x", "character 10: the value has no closing '"),
            ("csv[time='1'2]:x", "character 13: expected a comma"),
            ("csv[time=1]x", "character 12: expected a colon and the target"),
            ("command[pattern=([0-9]+) W]:x", "put values with brackets"),
            ("meter:x", "no sensor kind `meter`. hint: use command, csv or prometheus"),
            (
                "csv[pattern=x]:x",
                "a csv sensor has no key `pattern`. hint: the keys are name, every, unit, signal, time, value",
            ),
            ("csv[unit=W,unit=W]:x", "`unit` is given twice"),
            ("csv[unit=GW]:x", "unit=`GW`: not a unit. hint: use W, mW"),
            ("csv[signal=volts]:x", "hint: use power or energy"),
            ("csv[signal=energy,unit=W]:x", "signal=`energy`: W is a unit of power, not of energy"),
            ("csv[every=5]:x", "every=`5`: not a duration. hint: use a number and a unit"),
            ("csv[every=5 days]:x", "not a duration"),
            ("csv[every=1.2.3s]:x", "not a duration"),
            ("csv[every=1ms]:x", "from 10ms to 1h"),
            ("command[timeout=2h]:x", "from 10ms to 1h"),
            ("csv[name='']:x", "name=``: not a valid name"),
            ("csv[value=0]:x", "numbered from 1"),
            ("csv[value='']:x", "not a column"),
            ("command[pattern='(']:x", "pattern=`(`: error: unclosed group"),
            ("command[pattern='(a)(b)']:x", "2 groups. hint: use one group"),
            ("prometheus[metric='a{b}']:x", "metric=`a{b}`: not a metric. hint: use a name"),
            ("prometheus[metric='']:x", "not a metric"),
        ] {
            let message = error(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
