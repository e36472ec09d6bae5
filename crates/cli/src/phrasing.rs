//! Formats hints for the command line. Debug builds check that every option and command in a hint exists.

use ergometer_diagnostics::{CommandLine, Phrasing};

#[cfg(debug_assertions)]
use crate::arguments::Arguments;

/// The options and commands of `ergo`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options;

impl Phrasing for Options {
    fn option(&self, name: &str, value: Option<&str>) -> String {
        #[cfg(debug_assertions)]
        assert!(is_option(name), "a hint names --{name}, which no command takes");
        CommandLine.option(name, value)
    }

    fn command(&self, arguments: &str) -> String {
        #[cfg(debug_assertions)]
        assert!(is_command(arguments), "a hint names `ergo {arguments}`, which does not exist");
        CommandLine.command(arguments)
    }
}

/// Whether some command takes this long option.
#[cfg(debug_assertions)]
fn is_option(name: &str) -> bool {
    fn takes(command: &clap::Command, name: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == Some(name))
            || command.get_subcommands().any(|subcommand| takes(subcommand, name))
    }
    takes(&<Arguments as clap::CommandFactory>::command(), name)
}

/// Whether the first words name a command, and that command takes the long options that follow.
#[cfg(debug_assertions)]
fn is_command(arguments: &str) -> bool {
    let root = <Arguments as clap::CommandFactory>::command();
    let mut words = arguments.split_whitespace().peekable();
    let mut command = &root;
    while let Some(subcommand) = words.peek().and_then(|word| command.find_subcommand(word)) {
        command = subcommand;
        words.next();
    }
    let is_known = |name: &str| {
        let options = command.get_arguments().chain(root.get_arguments());
        options.filter_map(clap::Arg::get_long).any(|long| long == name)
    };
    !std::ptr::eq(command, &raw const root) && words.filter_map(|word| word.strip_prefix("--")).all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_options_and_commands_that_exist() {
        assert_eq!(Options.option("max-tokens", Some("64")), "--max-tokens 64");
        assert_eq!(Options.command("profile --resume runs/a"), "`ergo profile --resume runs/a`");
        assert!(is_option("lenient") && is_option("verbose") && !is_option("max-token"));
        assert!(is_command("trace summary --top 3") && is_command("doctor"));
        assert!(!is_command("") && !is_command("doctors") && !is_command("doctor --resume"));
    }
}
