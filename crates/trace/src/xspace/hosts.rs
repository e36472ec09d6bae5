//! The machines of a trace: sessions that cannot have been on one host, though they say so, are told apart by their files.

use std::path::Path;

use foldhash::HashMap;

use super::layout::lossy;
use super::session::Facts;
use crate::source::Source;

/// Gives sessions of several files their own host where they name none, or one that another file uses at the same time.
pub(super) fn name_hosts(sources: &[Source], sessions: &mut [Facts]) {
    let mut by_host: HashMap<Option<&str>, Vec<usize>> = HashMap::default();
    for (number, facts) in sessions.iter().enumerate() {
        by_host.entry(facts.host.as_deref()).or_default().push(number);
    }
    let mut clashing: Vec<usize> = by_host.values().flat_map(|numbers| clashes(sessions, numbers)).collect();
    clashing.sort_unstable();
    // Files of one name in two folders are told apart by the whole path.
    let mut stems: HashMap<String, Option<usize>> = HashMap::default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use ergometer_units::Timestamp;
    use proptest::prelude::*;

    fn facts(source: usize, host: Option<&str>, times: Option<(i64, i64)>) -> Facts {
        Facts {
            source,
            host: host.map(str::to_owned),
            started: times.map(|(start, _)| Timestamp::from_nanos_since_epoch(start)),
            stopped: times.map(|(_, stop)| Timestamp::from_nanos_since_epoch(stop)),
            ..Facts::default()
        }
    }

    fn named(paths: &[&str], mut sessions: Vec<Facts>) -> Vec<Option<String>> {
        let sources: Vec<Source> = paths.iter().map(|path| Source::from_bytes(*path, Vec::new())).collect();
        name_hosts(&sources, &mut sessions);
        sessions.into_iter().map(|facts| facts.host).collect()
    }

    #[test]
    fn hosts_are_named_after_their_file_where_they_must() {
        let hosts = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect::<Vec<_>>();
        let paths = ["t/a.xplane.pb", "t/b.xplane.pb.gz"];
        let nameless = || vec![facts(0, None, None), facts(1, None, None)];
        assert_eq!(named(&paths, nameless()), hosts(&["a", "b"]));
        assert_eq!(named(&["x/a.xplane.pb", "y/a.xplane.pb"], nameless()), hosts(&["x/a.xplane.pb", "y/a.xplane.pb"]));
        assert_eq!(named(&paths[..1], vec![facts(0, None, None), facts(0, None, None)]), [None, None]);
        let at = |one, other| vec![facts(0, Some("vm"), Some(one)), facts(1, Some("vm"), Some(other))];
        assert_eq!(named(&paths, at((0, 5), (5, 9))), hosts(&["vm", "vm"]));
        assert_eq!(named(&paths, at((0, 6), (5, 9))), hosts(&["a", "b"]));
        // A path without a name leaves the host as it is.
        assert_eq!(named(&["..", "t/b.xplane.pb"], at((0, 6), (5, 9))), hosts(&["vm", "b"]));
    }

    proptest! {
        #[test]
        fn those_in_the_way_are_found_as_by_comparing_all(
            runs in prop::collection::vec((0_usize..4, prop::option::of((0_i64..20, 0_i64..20))), 0..12)
        ) {
            let sessions: Vec<Facts> = runs.iter().map(|&(source, times)| facts(source, Some("vm"), times)).collect();
            let meets = |one: &Facts, other: &Facts| {
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
