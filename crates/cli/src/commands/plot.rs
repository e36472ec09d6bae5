//! `ergo plot`: draws plots of saved runs and prints the paths of the image files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ergometer_analysis::plots::{self, Detail, Plot, PlotInput};
use ergometer_charts::{Chart, Theme, png, svg};
use ergometer_diagnostics::{hint, option};
use ergometer_runs::saved::Saved;
use ergometer_runs::store::{create_folder, write_file};

use crate::arguments::{PictureFormat, PlotArguments, ThemeChoice};
use crate::exit::{Exit, Failure};
use crate::screen::{self, Screen};

pub(crate) fn run(arguments: &PlotArguments, screen: Screen) -> Result<ExitCode, Failure> {
    let wanted = wanted(&arguments.plots)?;
    let shown = open(&arguments.runs, Detail::Still)?;
    let folder = arguments.output.clone().unwrap_or_else(|| beside(&arguments.runs, "plots"));
    let (mut written, mut lacking) = (Vec::new(), Vec::new());
    for plot in &wanted {
        let charts = plot.draw(&shown).map_err(Failure::failed)?;
        if charts.is_empty() {
            lacking.push(format!("the plot `{}` needs {}", plot.id(), plot.needs()));
        }
        for chart in charts {
            written.extend(write(&chart, &folder, arguments)?);
        }
    }
    if written.is_empty() {
        let message = "nothing was drawn: the runs lack the data for these plots";
        return Err(Failure::failed(message).hint(lacking.join("; ")));
    }
    for message in lacking {
        // Warns only about plots that the user named: without names, some plots never apply.
        if arguments.plots.is_empty() { screen.detail(&message) } else { screen.warning(&message) }
    }
    let line = |path: &PathBuf| format!("{}\n", screen::visible(&path.display().to_string()));
    screen::print(&written.iter().map(line).collect::<String>())?;
    Ok(Exit::Done.into())
}

/// The plots with these names; all without names.
fn wanted(names: &[String]) -> Result<Vec<&'static dyn Plot>, Failure> {
    if names.is_empty() {
        return Ok(plots::ALL.to_vec());
    }
    let find = |name: &String| {
        plots::find(name).ok_or_else(|| {
            let known: Vec<&str> = plots::ALL.iter().map(|plot| plot.id()).collect();
            Failure::usage(format!("unknown plot `{name}`")).hint(format!("the plots are {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// Reads the runs in these folders, including those of sweeps.
pub(super) fn open(folders: &[PathBuf], detail: Detail) -> Result<PlotInput, Failure> {
    let (mut runs, mut sweeps) = (Vec::new(), Vec::new());
    for folder in folders {
        match Saved::open(folder).map_err(Failure::failed)? {
            Saved::Run(run) => runs.push(*run),
            Saved::Sweep(sweep) => {
                runs.extend(sweep.runs().map_err(Failure::failed)?);
                sweeps.push(*sweep);
            }
        }
    }
    Ok(PlotInput::new(runs, sweeps, detail))
}

/// A path in the run folder; in the current folder for several runs.
pub(super) fn beside(folders: &[PathBuf], name: &str) -> PathBuf {
    match folders {
        [folder] => folder.join(name),
        _ => PathBuf::from(name),
    }
}

fn write(chart: &Chart, folder: &Path, arguments: &PlotArguments) -> Result<Vec<PathBuf>, Failure> {
    let theme = match arguments.theme {
        ThemeChoice::Light => Theme::Light,
        ThemeChoice::Dark => Theme::Dark,
    };
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
            .hint(hint!("choose another folder with ", option("output").value("DIR")))
    };
    // The default folder is inside a run folder, which may come from someone else: links are not followed there.
    match arguments.output {
        Some(_) => fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?,
        None => create_folder(folder).map_err(Failure::failed)?,
    }
    let mut written = Vec::new();
    for format in &arguments.format {
        let (ending, bytes) = match format {
            PictureFormat::Svg => ("svg", svg(chart, theme).into_bytes()),
            PictureFormat::Png => ("png", png(chart, theme, arguments.scale).map_err(Failure::failed)?),
        };
        let path = folder.join(format!("{}.{ending}", chart.id));
        write_file(&path, &bytes).map_err(Failure::failed)?;
        written.push(path);
    }
    Ok(written)
}
