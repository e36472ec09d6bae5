//! `ergo completions` and `ergo man`: print files that packagers install with the binary.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsArguments};
use crate::exit::{Exit, Failure};
use crate::screen::print;

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "ergo", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done.into())
}

pub(crate) fn man() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done.into())
}
