//! `ergo report`: saved runs go in; one HTML file comes out, and its name on stdout.

use std::fs;
use std::process::ExitCode;

use ergometer_analysis::analyses::Options;
use ergometer_analysis::plots::Detail;
use ergometer_analysis::report::report;

use super::plot::{beside, open};
use crate::arguments::ReportArguments;
use crate::exit::{Exit, Failure};
use crate::screen::{self, Screen};

pub(crate) fn run(arguments: &ReportArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let shown = open(&arguments.runs, Detail::Page)?;
    let options = Options { seed: arguments.seed, ..Options::default() };
    let page = report(&shown, &options).map_err(Failure::failed)?;
    let path = arguments.output.clone().unwrap_or_else(|| beside(&arguments.runs, "report.html"));
    fs::write(&path, page.html()).map_err(|error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
            .hint("--output FILE puts the report elsewhere")
    })?;
    // Nobody reads a closed stdout; the file is there.
    let _ = screen::print(&format!("{}\n", screen::visible(&path.display().to_string())));
    screen.detail("it opens in any browser, and needs no network");
    Ok(Exit::Done.into())
}
