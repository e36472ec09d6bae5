//! `ergo trace report`: a trace as one HTML file, and its name on stdout.

use std::path::PathBuf;
use std::process::ExitCode;

use ergometer_analysis::trace_report::{Told, trace_report};
use ergometer_trace::accounting::summary;

use super::open::{Needs, open};
use super::summary::notes;
use crate::arguments::PageArguments;
use crate::commands::report::write_page;
use crate::exit::{Exit, Failure};
use crate::screen::Screen;

pub(super) fn run(arguments: &PageArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let opened = open(&arguments.files, Needs::Everything, screen)?;
    let told = Told {
        files: opened.files.iter().map(|file| file.display().to_string()).collect(),
        notes: notes(&opened.trace, &summary(&opened.trace, 0)),
        warnings: opened.warnings.clone(),
    };
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from("trace_report.html"));
    write_page(&trace_report(&opened.trace, &told), &path)?;
    Ok(Exit::Done.into())
}
