//! How each front end names options and commands.

/// How a front end formats options and commands.
pub trait Phrasing {
    /// An option, by its long name on the command line, and the suggested value.
    fn option(&self, name: &str, value: Option<&str>) -> String;

    /// An option without a value, by its long name on the command line.
    fn flag(&self, name: &str) -> String {
        self.option(name, None)
    }

    /// A command of `ergo`.
    fn command(&self, arguments: &str) -> String {
        format!("`ergo {arguments}`")
    }
}

/// `--max-tokens 64`.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine;

impl Phrasing for CommandLine {
    fn option(&self, name: &str, value: Option<&str>) -> String {
        match value {
            Some(value) => format!("--{name} {value}"),
            None => format!("--{name}"),
        }
    }
}

/// Python's keyword arguments: `max_tokens=64`.
#[derive(Debug, Clone, Copy)]
pub struct Keywords;

impl Phrasing for Keywords {
    fn option(&self, name: &str, value: Option<&str>) -> String {
        let name = name.replace('-', "_");
        match value {
            Some(value) if value.parse::<f64>().is_ok() => format!("{name}={value}"),
            Some(value) => format!("{name}='{value}'"),
            None => name,
        }
    }

    fn flag(&self, name: &str) -> String {
        format!("{}=True", name.replace('-', "_"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_quotes_values_that_are_not_numbers() {
        assert_eq!(Keywords.option("max-tokens", Some("64")), "max_tokens=64");
        assert_eq!(Keywords.option("duration", Some("60s")), "duration='60s'");
        assert_eq!(Keywords.option("duration", None), "duration");
    }

    #[test]
    fn a_flag_is_set_to_true_in_python() {
        assert_eq!(CommandLine.flag("lenient"), "--lenient");
        assert_eq!(Keywords.flag("ignore-eos"), "ignore_eos=True");
    }
}
