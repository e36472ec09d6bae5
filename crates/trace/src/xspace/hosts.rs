//! The machines of a trace: sessions that cannot have been on one host, though they say so, are told apart by their files.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::layout::lossy;
use super::session::Facts;
use crate::source::Source;

/// Gives sessions of several files their own host where they name none, or one that another file uses at the same time.
pub(super) fn name_hosts(sources: &[Source], sessions: &mut [Facts]) {
    let mut by_host: FxHashMap<Option<&str>, Vec<usize>> = FxHashMap::default();
    for (number, facts) in sessions.iter().enumerate() {
        by_host.entry(facts.host.as_deref()).or_default().push(number);
    }
    let mut clashing: Vec<usize> = by_host.values().flat_map(|numbers| clashes(sessions, numbers)).collect();
    clashing.sort_unstable();
    // Files of one name in two folders are told apart by the whole path.
    let mut stems: FxHashMap<String, Option<usize>> = FxHashMap::default();
    for &number in &clashing {
        let source = sessions[number].source;
        if let Some(stem) = sources.get(source).and_then(|file| host_of(file.path())) {
            let owner = stems.entry(stem).or_insert(Some(source));
            *owner = owner.filter(|&owner| owner == source);
        }
    }
    for number in clashing {
        let facts = &mut sessions[number];
        let Some(path) = sources.get(facts.source).map(Source::path) else { continue };
        if let Some(stem) = host_of(path) {
            let is_shared = stems.get(&stem) == Some(&None);
            facts.host = Some(if is_shared { path.display().to_string() } else { stem });
        }
    }
}

/// Those of one host's sessions that another file's has in its way.
fn clashes(sessions: &[Facts], numbers: &[usize]) -> Vec<usize> {
    let sources = || numbers.iter().map(|&number| sessions[number].source);
    let is_one_file = sources().min() == sources().max();
    if is_one_file {
        return Vec::new();
    }
    if numbers.iter().any(|&number| sessions[number].host.is_none()) {
        return numbers.to_vec();
    }
    let time = |&number: &usize| Some((sessions[number].started?, sessions[number].stopped?));
    let mut runs: Vec<_> =
        numbers.iter().filter_map(|number| Some((time(number)?, sessions[*number].source, *number))).collect();
    runs.sort_unstable_by_key(|&((start, _), ..)| start);
    // Of those that start no later than each: the last stop, and the last stop of another file.
    let mut latest = Vec::with_capacity(runs.len());
    let (mut first, mut second) = (None, None);
    for &((_, stop), source, _) in &runs {
        match first {
            Some((latest, owner)) if owner == source => first = Some((stop.max(latest), owner)),
            Some((latest, _)) if latest >= stop => second = second.max(Some((stop, source))),
            before => (first, second) = (Some((stop, source)), before),
        }
        latest.push([first, second]);
    }
    let is_in_the_way = |&&((start, stop), source, _): &&_| {
        let before = runs.partition_point(|&((other, _), ..)| other < stop);
        let latest = before.checked_sub(1).map(|place| latest[place]).unwrap_or_default();
        latest.into_iter().flatten().find(|&(_, owner)| owner != source).is_some_and(|(other, _)| other > start)
    };
    runs.iter().filter(is_in_the_way).map(|&(.., number)| number).collect()
}

/// The host a file is named after: `plugins/profile/TIME/HOST.xplane.pb`.
fn host_of(path: &Path) -> Option<String> {
    let name = lossy(path.file_name()?.as_encoded_bytes()).into_owned();
    let stem = name.split(".xplane.pb").next().filter(|stem| !stem.is_empty())?;
    Some(stem.to_owned())
}
