//! A second reader: plain, slow and by the letter. It shares no code with the crate, so that what both say is probably so.
//!
//! Bytes become messages (`sessions_of`), messages what should be seen (`expect`), intervals the times of METRICS.md.

use std::path::Path;

use ergometer_trace::{Notice, Why};

use ergometer_trace_testing::xspace::{Event, EventMetadata, Line, Plane, Space, Stat, Timing, Value};
use crate::seen;

/// A field of a message: its number and its value.
#[derive(Debug, Clone, Copy)]
enum Content<'a> {
    Number(u64),
    Eight(u64),
    Bytes(&'a [u8]),
    Four,
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut value: u128 = 0;
    for place in 0.. {
        let (&first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value += u128::from(first & 127) << (7 * place);
        if first < 128 {
            break;
        }
    }
    u64::try_from(value % (1 << 64)).unwrap()
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Content<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let content = match tag & 7 {
            0 => Content::Number(number(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_at(8);
                bytes = rest;
                Content::Eight(u64::from_le_bytes(eight.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(number(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Content::Bytes(content)
            }
            5 => {
                bytes = &bytes[4..];
                Content::Four
            }
            other => panic!("type {other}"),
        };
        fields.push((tag >> 3, content));
    }
    fields
}

/// The runs of a profiler in a file: a plane's name that comes again begins the next.
pub(crate) fn sessions_of(file: &[u8]) -> Vec<Space> {
    let mut sessions = vec![Space::default()];
    let mut anything = false;
    let mut before_hosts = 0;
    for field in fields(file) {
        let last = sessions.last_mut().unwrap();
        match field {
            (1, Content::Bytes(bytes)) => {
                let plane = plane_of(bytes);
                if last.planes.iter().any(|other| other.name == plane.name) {
                    // What stands behind the hosts is of the next session too.
                    let mut planes = if before_hosts > 0 { last.planes.split_off(before_hosts) } else { Vec::new() };
                    planes.push(plane);
                    sessions.push(Space { planes, ..Space::default() });
                    before_hosts = 0;
                } else {
                    last.planes.push(plane);
                }
                anything = true;
            }
            (2, Content::Bytes(text)) => last.errors.push(text.to_vec()),
            (3, Content::Bytes(text)) => last.warnings.push(text.to_vec()),
            (4, Content::Bytes(text)) => {
                last.hosts.push(text.to_vec());
                before_hosts = last.planes.len();
                anything = true;
            }
            _ => {}
        }
    }
    assert!(anything, "the file has planes");
    sessions
}

fn plane_of(bytes: &[u8]) -> Plane {
    let mut plane = Plane::default();
    for field in fields(bytes) {
        match field {
            (2, Content::Bytes(name)) => plane.name = name.to_vec(),
            (3, Content::Bytes(line)) => plane.lines.push(line_of(line)),
            (4, Content::Bytes(entry)) => {
                let (id, value) = entry_of(entry);
                let mut metadata = EventMetadata::default();
                for field in fields(value) {
                    match field {
                        (2, Content::Bytes(name)) => metadata.name = name.to_vec(),
                        (4, Content::Bytes(name)) => metadata.display_name = name.to_vec(),
                        (5, Content::Bytes(stat)) => metadata.stats.push(stat_of(stat)),
                        _ => {}
                    }
                }
                plane.event_metadata.push((id, metadata));
            }
            (5, Content::Bytes(entry)) => {
                let (id, value) = entry_of(entry);
                let mut name = Vec::new();
                for field in fields(value) {
                    if let (2, Content::Bytes(text)) = field {
                        name = text.to_vec();
                    }
                }
                plane.stat_metadata.push((id, name));
            }
            (6, Content::Bytes(stat)) => plane.stats.push(stat_of(stat)),
            _ => {}
        }
    }
    plane
}

fn entry_of(bytes: &[u8]) -> (i64, &[u8]) {
    let mut entry = (0, &[][..]);
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => entry.0 = id.cast_signed(),
            (2, Content::Bytes(value)) => entry.1 = value,
            _ => {}
        }
    }
    entry
}

fn line_of(bytes: &[u8]) -> Line {
    let mut line = Line::default();
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => line.id = id.cast_signed(),
            (2, Content::Bytes(name)) => line.name = name.to_vec(),
            (3, Content::Number(time)) => line.timestamp_ns = time.cast_signed(),
            (4, Content::Bytes(event)) => line.events.push(event_of(event)),
            (11, Content::Bytes(name)) => line.display_name = name.to_vec(),
            _ => {}
        }
    }
    line
}

fn event_of(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => event.metadata_id = id.cast_signed(),
            (2, Content::Number(offset)) => event.timing = Timing::Offset(offset.cast_signed()),
            (3, Content::Number(duration)) => event.duration_ps = duration.cast_signed(),
            (4, Content::Bytes(stat)) => event.stats.push(stat_of(stat)),
            (5, Content::Number(count)) => event.timing = Timing::Occurrences(count.cast_signed()),
            _ => {}
        }
    }
    event
}

fn stat_of(bytes: &[u8]) -> Stat {
    let mut stat = Stat::default();
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => stat.id = id.cast_signed(),
            (2, Content::Eight(bits)) => stat.value = Some(Value::Double(bits)),
            (3, Content::Number(value)) => stat.value = Some(Value::Unsigned(value)),
            (4, Content::Number(value)) => stat.value = Some(Value::Signed(value.cast_signed())),
            (5, Content::Bytes(text)) => stat.value = Some(Value::Text(text.to_vec())),
            (6, Content::Bytes(bytes)) => stat.value = Some(Value::Bytes(bytes.to_vec())),
            (7, Content::Number(id)) => stat.value = Some(Value::Reference(id.cast_signed())),
            _ => {}
        }
    }
    stat
}

/// A number with or without a sign, as one with.
fn low_bits(number: i128) -> i64 {
    i64::try_from(number).unwrap_or_else(|_| u64::try_from(number).unwrap().cast_signed())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn last<T>(entries: &[(i64, T)], id: i64) -> Option<&T> {
    entries.iter().rev().find(|(other, _)| *other == id).map(|(_, value)| value)
}

impl Plane {
    fn stat_name(&self, stat: &Stat) -> String {
        match last(&self.stat_metadata, stat.id) {
            Some(name) if !name.is_empty() => lossy(name),
            _ => stat.id.to_string(),
        }
    }

    fn named(&self, stat: &Stat) -> seen::Named {
        let value = match &stat.value {
            None => seen::Value::Absent,
            Some(Value::Double(bits)) => seen::Value::Double(*bits),
            Some(Value::Unsigned(number)) => seen::Value::Unsigned(*number),
            Some(Value::Signed(number)) => seen::Value::Signed(*number),
            Some(Value::Text(text)) => seen::Value::Text(lossy(text)),
            Some(Value::Bytes(bytes)) => seen::Value::Bytes(bytes.clone()),
            Some(Value::Reference(id)) => {
                seen::Value::Reference(last(&self.stat_metadata, *id).map(|name| lossy(name)).ok_or(*id))
            }
        };
        (self.stat_name(stat), value)
    }

    fn named_all(&self, stats: &[Stat]) -> Vec<seen::Named> {
        stats.iter().map(|stat| self.named(stat)).collect()
    }

    /// The last stat of this name.
    fn find<'a>(&self, stats: &'a [Stat], name: &str) -> Option<&'a Stat> {
        let is_it = |stat: &&Stat| last(&self.stat_metadata, stat.id).is_some_and(|bytes| bytes == name.as_bytes());
        stats.iter().rev().find(is_it)
    }

    /// The text of this name: the event's, or where that has none the description's.
    fn text(&self, event: &[Stat], description: &[Stat], name: &str) -> Option<String> {
        for stats in [event, description] {
            match self.find(stats, name).and_then(|stat| stat.value.as_ref()) {
                Some(Value::Text(bytes) | Value::Bytes(bytes)) => return Some(lossy(bytes)),
                Some(Value::Reference(id)) => return last(&self.stat_metadata, *id).map(|bytes| lossy(bytes)),
                _ => {}
            }
        }
        None
    }

    fn integer(&self, stats: &[Stat], name: &str) -> Option<i128> {
        match self.find(stats, name)?.value.as_ref()? {
            Value::Unsigned(number) => Some((*number).into()),
            Value::Signed(number) => Some((*number).into()),
            _ => None,
        }
    }

    fn kind(&self, event: &Event) -> seen::Kind {
        let metadata = last(&self.event_metadata, event.metadata_id);
        let (own, shared) = (&event.stats[..], metadata.map_or(&[][..], |metadata| &metadata.stats));
        let framework_op = self.text(own, shared, "tf_op").filter(|text| !text.starts_with("XlaModule"));
        seen::Kind {
            name: metadata.map_or(format!("metadata {}", event.metadata_id), |metadata| lossy(&metadata.name)),
            display_name: metadata.filter(|other| !other.display_name.is_empty()).map(|it| lossy(&it.display_name)),
            module: self.text(own, shared, "hlo_module"),
            program: self.integer(own, "program_id").or_else(|| self.integer(shared, "program_id")),
            op: self.text(own, shared, "hlo_op"),
            path: self.text(own, shared, "name").or(framework_op),
            category: self.text(&[], shared, "hlo_category"),
            device_ordinal: self.integer(own, "device_ordinal").map(low_bits),
            stats: self.named_all(shared),
        }
    }
}

/// Times are kept this far from the trace's zero.
const FARTHEST_PS: i128 = (1 << 62) - 1;

/// What a session's times count from, in its own numbers and as a wall time.
struct Clock {
    base_ns: i64,
    epoch_ns: Option<i64>,
}

/// The line with the session's middle event says whether times count from the session's start or from the Unix epoch.
fn clock_of(session: &Space, started_ns: Option<i64>) -> Clock {
    let lines = session.planes.iter().flat_map(|plane| &plane.lines);
    let mut times: Vec<i64> = lines.flat_map(|line| line.events.iter().map(|_| line.timestamp_ns)).collect();
    times.sort_unstable();
    let farthest_ns = FARTHEST_PS / 1000;
    let middle = times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    if i128::from(middle).abs() <= farthest_ns {
        return Clock { base_ns: 0, epoch_ns: started_ns };
    }
    let is_near = |time: &i64| i128::from(*time) >= i128::from(middle) - farthest_ns;
    let first = times.into_iter().find(is_near).unwrap_or(middle);
    Clock { base_ns: first, epoch_ns: Some(first) }
}

/// What should be seen of these whole files, each with its name.
pub(crate) fn expect(files: &[(&str, &[u8])]) -> seen::Seen {
    let mut notices = Vec::new();
    let mut sessions: Vec<(usize, Space)> = Vec::new();
    for (source, (_, bytes)) in files.iter().enumerate() {
        let parsed = sessions_of(bytes);
        let texts = |of: fn(&Space) -> &Vec<Vec<u8>>| parsed.iter().flat_map(of).map(|text| lossy(text));
        notices.extend(texts(|space| &space.errors).map(Notice::ProfilerError));
        notices.extend(texts(|space| &space.warnings).map(Notice::ProfilerWarning));
        sessions.extend(parsed.into_iter().map(|space| (source, space)));
    }
    let mut described: Vec<seen::Session> = sessions.iter().map(|(_, space)| session_of(space)).collect();
    name_hosts(files, &sessions, &mut described);
    let clocks: Vec<Clock> =
        sessions.iter().zip(&described).map(|((_, space), seen)| clock_of(space, seen.started_ns)).collect();
    let zero_ns = clocks.iter().filter_map(|clock| clock.epoch_ns).min();
    let has_events =
        |space: &Space| space.planes.iter().flat_map(|plane| &plane.lines).any(|line| !line.events.is_empty());
    for (source, (name, _)) in files.iter().enumerate() {
        let mut own = sessions.iter().zip(&clocks).filter(|((other, _), _)| *other == source);
        if zero_ns.is_some() && own.any(|((_, space), clock)| clock.epoch_ns.is_none() && has_events(space)) {
            notices.push(Notice::NoEpoch { file: name.into() });
        }
    }
    let mut seen = seen::Seen { zero_ns, sessions: described, planes: Vec::new(), notices };
    let mut counts = [0_u64; 4];
    for (number, (_, space)) in sessions.iter().enumerate() {
        for plane in &space.planes {
            add_plane(&mut seen, plane, number, &clocks[number], &mut counts);
        }
    }
    let [negative, out_of_range, aggregated, undescribed] = counts;
    let counted = [
        (negative, Notice::NegativeDurations as fn(u64) -> Notice),
        (out_of_range, Notice::OutOfRange),
        (aggregated, Notice::Aggregated),
        (undescribed, Notice::Undescribed),
    ];
    seen.notices.extend(counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, notice)| notice(count)));
    for (source, (name, _)) in files.iter().enumerate() {
        if !sessions.iter().any(|(other, space)| *other == source && has_events(space)) {
            seen.notices.push(Notice::NoEvents { file: name.into() });
        }
    }
    seen
}

fn session_of(space: &Space) -> seen::Session {
    let time = |name: &str| {
        // There may be several; the last that says it counts.
        let environments = space.planes.iter().filter(|plane| plane.name == b"Task Environment");
        let is_number = |stat: &&Stat| matches!(stat.value, Some(Value::Unsigned(_) | Value::Signed(_)));
        environments.rev().find_map(|environment| {
            let numbers: Vec<Stat> = environment.stats.iter().filter(is_number).cloned().collect();
            environment.integer(&numbers, name).map(low_bits)
        })
    };
    seen::Session {
        host: space.hosts.first().map(|host| lossy(host)),
        started_ns: time("profile_start_time"),
        stopped_ns: time("profile_stop_time"),
    }
}

/// Sessions of several files that ran on one host at one time did not run on one host: the file's name tells them apart.
fn name_hosts(files: &[(&str, &[u8])], sessions: &[(usize, Space)], described: &mut [seen::Session]) {
    let before = described.to_vec();
    let overlap = |one: &seen::Session, other: &seen::Session| match (
        one.started_ns.zip(one.stopped_ns),
        other.started_ns.zip(other.stopped_ns),
    ) {
        (Some((start, stop)), Some((other_start, other_stop))) => start < other_stop && other_start < stop,
        _ => false,
    };
    let mut clashing = Vec::new();
    for (number, one) in before.iter().enumerate() {
        let clashes = before.iter().enumerate().any(|(place, other)| {
            sessions[place].0 != sessions[number].0
                && one.host == other.host
                && (one.host.is_none() || overlap(one, other))
        });
        if clashes {
            clashing.push(number);
        }
    }
    let stem = |source: usize| {
        lossy(Path::new(files[source].0).file_name().unwrap().as_encoded_bytes()).replace(".xplane.pb", "")
    };
    for &number in &clashing {
        let source = sessions[number].0;
        let is_shared =
            clashing.iter().any(|&other| sessions[other].0 != source && stem(sessions[other].0) == stem(source));
        described[number].host = Some(if is_shared { files[source].0.to_owned() } else { stem(source) });
    }
}

fn add_plane(seen: &mut seen::Seen, plane: &Plane, session: usize, clock: &Clock, counts: &mut [u64; 4]) {
    let (name, host) = (lossy(&plane.name), seen.sessions[session].host.clone());
    let zero_ns = seen.zero_ns;
    let place = seen.planes.iter().position(|other| other.name == name && other.host == host).unwrap_or_else(|| {
        seen.planes.push(seen::Plane { name, host, lines: Vec::new(), stats: Vec::new() });
        seen.planes.len() - 1
    });
    let target = &mut seen.planes[place];
    target.stats.extend(plane.named_all(&plane.stats));
    for line in &plane.lines {
        let place = target.lines.iter().position(|other| other.id == line.id).unwrap_or_else(|| {
            let display_name = (!line.display_name.is_empty()).then(|| lossy(&line.display_name));
            target.lines.push(seen::Line { id: line.id, name: lossy(&line.name), display_name, events: Vec::new() });
            target.lines.len() - 1
        });
        let shift_ns = clock.epoch_ns.zip(zero_ns).map_or(0, |(epoch, zero)| i128::from(epoch) - i128::from(zero));
        let base_ps = (i128::from(line.timestamp_ns) - i128::from(clock.base_ns) + shift_ns) * 1000;
        for event in &line.events {
            counts[0] += u64::from(event.duration_ps < 0);
            counts[3] += u64::from(last(&plane.event_metadata, event.metadata_id).is_none());
            let duration_ps = event.duration_ps.max(0);
            let (start_ps, why_unplaced) = match event.timing {
                Timing::Occurrences(count) => (None, Some(Why::Aggregated(count))),
                Timing::Offset(offset_ps) => {
                    let start_ps = base_ps + i128::from(offset_ps);
                    let fits = start_ps >= -FARTHEST_PS && start_ps + i128::from(duration_ps) <= FARTHEST_PS;
                    let base_fits = i64::try_from(base_ps).is_ok();
                    if fits && base_fits { (i64::try_from(start_ps).ok(), None) } else { (None, Some(Why::OutOfRange)) }
                }
            };
            counts[1] += u64::from(why_unplaced == Some(Why::OutOfRange));
            counts[2] += u64::from(matches!(why_unplaced, Some(Why::Aggregated(_))));
            let (kind, stats) = (plane.kind(event), plane.named_all(&event.stats));
            target.lines[place].events.push(seen::Event { kind, start_ps, why_unplaced, duration_ps, stats });
        }
    }
}
