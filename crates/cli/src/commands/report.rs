//! `ergo report`: writes an HTML report of saved runs and prints its path.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use ergometer_analysis::analyses::Options;
use ergometer_analysis::plots::Detail;
use ergometer_analysis::report::report;
use ergometer_charts::Page;
use ergometer_diagnostics::{Hint, hint, option};
use ergometer_runs::store::write_file;

use super::plot::{beside, open};
use crate::arguments::ReportArguments;
use crate::exit::{Exit, Failure};
use crate::screen::{self, Screen};

pub(crate) fn run(arguments: &ReportArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let shown = open(&arguments.runs, Detail::Page)?;
    let options = Options { seed: arguments.seed, limits: arguments.slo, ..Options::default() };
    let page = report(&shown, &options).map_err(Failure::failed)?;
    match &arguments.output {
        Some(path) => write_page(&page, path)?,
        None => write_page_inside(&page, &beside(&arguments.runs, "report.html"))?,
    }
    screen.detail("the report opens in any browser, without a network");
    Ok(Exit::Done.into())
}

/// Writes a page into a run folder and prints its path. The folder may come from someone else, so links are not followed.
fn write_page_inside(page: &Page, path: &Path) -> Result<(), Failure> {
    write_file(path, page.html().as_bytes()).map_err(|error| Failure::failed(error).hint(elsewhere()))?;
    print_path(path)
}

fn print_path(path: &Path) -> Result<(), Failure> {
    Ok(screen::print(&format!("{}\n", screen::visible(&path.display().to_string())))?)
}

/// What to do when a page cannot be written.
fn elsewhere() -> Hint {
    hint!(
        "choose another file with ",
        option("output").value("FILE"),
        ", or print to stdout with ",
        option("output").value("-")
    )
}

/// Writes a page and prints its path; `-` is stdout. Creates missing folders.
pub(in crate::commands) fn write_page(page: &Page, path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(screen::print(&page.html())?);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, page.html()))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())).hint(elsewhere()))?;
    print_path(path)
}
