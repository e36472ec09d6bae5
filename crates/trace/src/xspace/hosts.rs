//! Assigns hosts to sessions. Sessions of different files that claim the same host at the same time are distinguished
//! by their file names.

use std::path::Path;

use foldhash::HashMap;

use super::layout::lossy;
use super::session::SessionInfo;
use crate::source::Source;

/// Sets the host of sessions that do not name it, or that name a host of another file at the same time.
pub(super) fn name_hosts(sources: &[Source], sessions: &mut [SessionInfo]) {
    let mut by_host: HashMap<Option<&str>, Vec<usize>> = HashMap::default();
    for (number, info) in sessions.iter().enumerate() {
        by_host.entry(info.host.as_deref()).or_default().push(number);
    }
    let mut clashing: Vec<usize> = by_host.values().flat_map(|numbers| clashes(sessions, numbers)).collect();
    clashing.sort_unstable();
    // Files with the same name in different folders are distinguished by their path.
    let mut stems: HashMap<String, Option<usize>> = HashMap::default();
    for &number in &clashing {
        let source = sessions[number].source;
        if let Some(stem) = sources.get(source).and_then(|file| host_from_path(file.path())) {
            let owner = stems.entry(stem).or_insert(Some(source));
            *owner = owner.filter(|&owner| owner == source);
        }
    }
    for number in clashing {
        let info = &mut sessions[number];
        let Some(path) = sources.get(info.source).map(Source::path) else { continue };
        if let Some(stem) = host_from_path(path) {
            let is_shared = stems.get(&stem) == Some(&None);
            info.host = Some(if is_shared { path.display().to_string() } else { stem });
        }
    }
}

/// The sessions of one host that overlap with a session of another file.
fn clashes(sessions: &[SessionInfo], numbers: &[usize]) -> Vec<usize> {
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
    // For each session, among those that start no later: the last stop, and the last stop of another file.
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
    let overlaps = |&&((start, stop), source, _): &&_| {
        let before = runs.partition_point(|&((other, _), ..)| other < stop);
        let latest = before.checked_sub(1).map(|place| latest[place]).unwrap_or_default();
        latest.into_iter().flatten().find(|&(_, owner)| owner != source).is_some_and(|(other, _)| other > start)
    };
    runs.iter().filter(overlaps).map(|&(.., number)| number).collect()
}

/// The host in a file name: `plugins/profile/TIME/HOST.xplane.pb`.
fn host_from_path(path: &Path) -> Option<String> {
    let name = lossy(path.file_name()?.as_encoded_bytes()).into_owned();
    let stem = name.split(".xplane.pb").next().filter(|stem| !stem.is_empty())?;
    Some(stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_units::Timestamp;
    use proptest::prelude::*;

    fn info(source: usize, host: Option<&str>, times: Option<(i64, i64)>) -> SessionInfo {
        SessionInfo {
            source,
            host: host.map(str::to_owned),
            started: times.map(|(start, _)| Timestamp::from_nanos_since_epoch(start)),
            stopped: times.map(|(_, stop)| Timestamp::from_nanos_since_epoch(stop)),
            ..SessionInfo::default()
        }
    }

    fn named(paths: &[&str], mut sessions: Vec<SessionInfo>) -> Vec<Option<String>> {
        let sources: Vec<Source> = paths.iter().map(|path| Source::from_bytes(*path, Vec::new())).collect();
        name_hosts(&sources, &mut sessions);
        sessions.into_iter().map(|info| info.host).collect()
    }

    #[test]
    fn clashing_hosts_are_named_after_their_files() {
        let hosts = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect::<Vec<_>>();
        let paths = ["t/a.xplane.pb", "t/b.xplane.pb.gz"];
        let nameless = || vec![info(0, None, None), info(1, None, None)];
        assert_eq!(named(&paths, nameless()), hosts(&["a", "b"]));
        assert_eq!(named(&["x/a.xplane.pb", "y/a.xplane.pb"], nameless()), hosts(&["x/a.xplane.pb", "y/a.xplane.pb"]));
        assert_eq!(named(&paths[..1], vec![info(0, None, None), info(0, None, None)]), [None, None]);
        let at = |one, other| vec![info(0, Some("vm"), Some(one)), info(1, Some("vm"), Some(other))];
        assert_eq!(named(&paths, at((0, 5), (5, 9))), hosts(&["vm", "vm"]));
        assert_eq!(named(&paths, at((0, 6), (5, 9))), hosts(&["a", "b"]));
        // A path without a file name does not change the host.
        assert_eq!(named(&["..", "t/b.xplane.pb"], at((0, 6), (5, 9))), hosts(&["vm", "b"]));
    }

    proptest! {
        #[test]
        fn overlapping_sessions_match_a_comparison_of_all_pairs(
            runs in prop::collection::vec((0_usize..4, prop::option::of((0_i64..20, 0_i64..20))), 0..12)
        ) {
            let sessions: Vec<SessionInfo> = runs.iter().map(|&(source, times)| info(source, Some("vm"), times)).collect();
            let meets = |one: &SessionInfo, other: &SessionInfo| {
                let times = one.started.zip(one.stopped).zip(other.started.zip(other.stopped));
                times.is_some_and(|((start, stop), (other_start, other_stop))| start < other_stop && other_start < stop)
            };
            let expected: Vec<usize> = (0..sessions.len())
                .filter(|&one| sessions.iter().any(|other| {
                    other.source != sessions[one].source && meets(&sessions[one], other)
                }))
                .collect();
            let numbers: Vec<usize> = (0..sessions.len()).collect();
            let mut found = clashes(&sessions, &numbers);
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
