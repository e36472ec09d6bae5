//! How a sweep begins: with a new folder, or with one that is gone on with.

use std::path::Path;

use ergometer::config::RunConfig;
use ergometer::run::{Prepared, Sensing, Target};
use ergometer::sweep::{Identity, RunState, Sweep, SweepFolder, SweepSpec};

use super::super::{config, failure, put_back, target};
use super::told;
use crate::arguments::ProfileArguments;
use crate::exit::Failure;
use crate::screen::Screen;

/// A sweep that is ready to go.
pub(super) struct Begun {
    pub(super) sweep: Sweep,
    pub(super) folder: SweepFolder,
    /// What all runs have in common, with its secrets.
    pub(super) config: RunConfig,
    /// How far each run is, in the order in which they are made.
    pub(super) states: Vec<((usize, usize), RunState)>,
    /// The first run of a new sweep: what it is called after is only known of a run that is ready.
    pub(super) first: Option<Prepared>,
}

/// A new sweep; `None` where the user wants to keep what is there.
pub(super) async fn new(arguments: &ProfileArguments, screen: Screen) -> Result<Option<Begun>, Failure> {
    let load = &arguments.load;
    let mut spec = SweepSpec {
        config: config::config(arguments)?,
        schedules: config::schedules(load),
        repeats: load.repeat,
        cooldown_s: load.cooldown.as_secs_f64(),
    };
    spec.check().map_err(told)?;
    let sensing = Sensing::of(&spec.config).await.map_err(failure)?;
    let prepared = Prepared::new(spec.config.clone(), sensing).await.map_err(failure)?;
    // With the server's only model, where none was named.
    spec.config = prepared.config().clone();
    let identity = Identity::of(&prepared);
    let path = identity.folder_in(&arguments.place.output_dir, arguments.place.name.as_deref());
    let made = target(path, arguments, screen).and_then(|target| {
        let Some(target) = target else { return Ok(None) };
        let mut sweep = Sweep::new(&spec, identity).map_err(told)?;
        let folder = SweepFolder::prepare(&target).map_err(told)?;
        let states = sweep.look(folder.now());
        Ok(Some((sweep, folder, states)))
    });
    match made {
        Ok(Some((sweep, folder, states))) => {
            Ok(Some(Begun { sweep, folder, config: spec.config, states, first: Some(prepared) }))
        }
        refused => {
            prepared.close().await;
            refused.map(|_| None)
        }
    }
}

/// Goes on with one.
pub(super) fn resumed(folder: &Path, arguments: &ProfileArguments) -> Result<Begun, Failure> {
    let locked = SweepFolder::prepare(&Target::Resume(folder.to_path_buf())).map_err(told)?;
    let mut sweep = Sweep::read(folder).map_err(told)?;
    let config = sweep.config_with(folder, |config| put_back(config, arguments)).map_err(told)?;
    let states = sweep.look(folder);
    Ok(Begun { sweep, folder: locked, config, states, first: None })
}
