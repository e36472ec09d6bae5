//! A second reader, simple and slow. It shares no code with the crate, so that an error in both is unlikely.
//!
//! `parse_sessions` parses bytes to messages, and `expect` computes the expected view of the trace from the messages.

use std::path::Path;

use ergometer_trace::{Notice, UnplacedReason};

use crate::view;
use ergometer_trace_testing::xspace::{Event, EventMetadata, Line, Plane, Space, Stat, Timing, Value};

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

/// The profiler sessions in a file. A repeated plane name begins the next session.
pub(crate) fn parse_sessions(file: &[u8]) -> Vec<Space> {
    let mut sessions = vec![Space::default()];
    let mut anything = false;
    let mut before_hosts = 0;
    for field in fields(file) {
        let last = sessions.last_mut().unwrap();
        match field {
            (1, Content::Bytes(bytes)) => {
                let plane = parse_plane(bytes);
                if last.planes.iter().any(|other| other.name == plane.name) {
                    // Planes after the hosts also belong to the next session.
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

fn parse_plane(bytes: &[u8]) -> Plane {
    let mut plane = Plane::default();
    for field in fields(bytes) {
        match field {
            (2, Content::Bytes(name)) => plane.name = name.to_vec(),
            (3, Content::Bytes(line)) => plane.lines.push(parse_line(line)),
            (4, Content::Bytes(entry)) => {
                let (id, value) = parse_entry(entry);
                let mut metadata = EventMetadata::default();
                for field in fields(value) {
                    match field {
                        (2, Content::Bytes(name)) => metadata.name = name.to_vec(),
                        (4, Content::Bytes(name)) => metadata.display_name = name.to_vec(),
                        (5, Content::Bytes(stat)) => metadata.stats.push(parse_stat(stat)),
                        _ => {}
                    }
                }
                plane.event_metadata.push((id, metadata));
            }
            (5, Content::Bytes(entry)) => {
                let (id, value) = parse_entry(entry);
                let mut name = Vec::new();
                for field in fields(value) {
                    if let (2, Content::Bytes(text)) = field {
                        name = text.to_vec();
                    }
                }
                plane.stat_metadata.push((id, name));
            }
            (6, Content::Bytes(stat)) => plane.stats.push(parse_stat(stat)),
            _ => {}
        }
    }
    plane
}

fn parse_entry(bytes: &[u8]) -> (i64, &[u8]) {
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

fn parse_line(bytes: &[u8]) -> Line {
    let mut line = Line::default();
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => line.id = id.cast_signed(),
            (2, Content::Bytes(name)) => line.name = name.to_vec(),
            (3, Content::Number(time)) => line.timestamp_ns = time.cast_signed(),
            (4, Content::Bytes(event)) => line.events.push(parse_event(event)),
            (11, Content::Bytes(name)) => line.display_name = name.to_vec(),
            _ => {}
        }
    }
    line
}

fn parse_event(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    for field in fields(bytes) {
        match field {
            (1, Content::Number(id)) => event.metadata_id = id.cast_signed(),
            (2, Content::Number(offset)) => event.timing = Timing::Offset(offset.cast_signed()),
            (3, Content::Number(duration)) => event.duration_ps = duration.cast_signed(),
            (4, Content::Bytes(stat)) => event.stats.push(parse_stat(stat)),
            (5, Content::Number(count)) => event.timing = Timing::Occurrences(count.cast_signed()),
            _ => {}
        }
    }
    event
}

fn parse_stat(bytes: &[u8]) -> Stat {
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

/// A signed or unsigned number as a signed one.
fn low_bits(number: i128) -> i64 {
    i64::try_from(number).unwrap_or_else(|_| u64::try_from(number).unwrap().cast_signed())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn last<T>(entries: &[(i64, T)], id: i64) -> Option<&T> {
    entries.iter().rev().find(|(other, _)| *other == id).map(|(_, value)| value)
}

/// Looks up names and stats of a plane.
struct Names<'a>(&'a Plane);

impl Names<'_> {
    fn stat_name(&self, stat: &Stat) -> String {
        match last(&self.0.stat_metadata, stat.id) {
            Some(name) if !name.is_empty() => lossy(name),
            _ => stat.id.to_string(),
        }
    }

    fn named(&self, stat: &Stat) -> view::NamedValue {
        let value = match &stat.value {
            None => view::Value::Absent,
            Some(Value::Double(bits)) => view::Value::Double(*bits),
            Some(Value::Unsigned(number)) => view::Value::Unsigned(*number),
            Some(Value::Signed(number)) => view::Value::Signed(*number),
            Some(Value::Text(text)) => view::Value::Text(lossy(text)),
            Some(Value::Bytes(bytes)) => view::Value::Bytes(bytes.clone()),
            Some(Value::Reference(id)) => {
                view::Value::Reference(last(&self.0.stat_metadata, *id).map(|name| lossy(name)).ok_or(*id))
            }
        };
        (self.stat_name(stat), value)
    }

    fn named_all(&self, stats: &[Stat]) -> Vec<view::NamedValue> {
        stats.iter().map(|stat| self.named(stat)).collect()
    }

    /// The last stat with this name.
    fn find<'a>(&self, stats: &'a [Stat], name: &str) -> Option<&'a Stat> {
        let is_it = |stat: &&Stat| last(&self.0.stat_metadata, stat.id).is_some_and(|bytes| bytes == name.as_bytes());
        stats.iter().rev().find(is_it)
    }

    /// The text of the stat with this name, of the event, or else of its description.
    fn text(&self, event: &[Stat], description: &[Stat], name: &str) -> Option<String> {
        for stats in [event, description] {
            match self.find(stats, name).and_then(|stat| stat.value.as_ref()) {
                Some(Value::Text(bytes) | Value::Bytes(bytes)) => return Some(lossy(bytes)),
                Some(Value::Reference(id)) => return last(&self.0.stat_metadata, *id).map(|bytes| lossy(bytes)),
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

    fn kind(&self, event: &Event) -> view::Kind {
        let metadata = last(&self.0.event_metadata, event.metadata_id);
        let (own, shared) = (&event.stats[..], metadata.map_or(&[][..], |metadata| &metadata.stats));
        let framework_op = self.text(own, shared, "tf_op").filter(|text| !text.starts_with("XlaModule"));
        view::Kind {
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

/// The largest distance of a time from the zero of the trace.
const FARTHEST_PS: i128 = (1 << 62) - 1;

/// The base of the times of a session, and its wall-clock time.
struct Clock {
    base_ns: i64,
    epoch_ns: Option<i64>,
}

/// The line of the middle event decides whether times count from the start of the session or from the Unix epoch.
fn session_clock(session: &Space, started_ns: Option<i64>) -> Clock {
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

/// The expected view of these undamaged files, each with its name.
pub(crate) fn expect(files: &[(&str, &[u8])]) -> view::TraceView {
    let mut notices = Vec::new();
    let mut sessions: Vec<(usize, Space)> = Vec::new();
    for (source, (_, bytes)) in files.iter().enumerate() {
        let parsed = parse_sessions(bytes);
        let texts = |of: fn(&Space) -> &Vec<Vec<u8>>| parsed.iter().flat_map(of).map(|text| lossy(text));
        notices.extend(texts(|space| &space.errors).map(Notice::ProfilerError));
        notices.extend(texts(|space| &space.warnings).map(Notice::ProfilerWarning));
        sessions.extend(parsed.into_iter().map(|space| (source, space)));
    }
    let mut described: Vec<view::Session> = sessions.iter().map(|(_, space)| describe_session(space)).collect();
    name_hosts(files, &sessions, &mut described);
    let clocks: Vec<Clock> =
        sessions.iter().zip(&described).map(|((_, space), view)| session_clock(space, view.started_ns)).collect();
    let zero_ns = clocks.iter().filter_map(|clock| clock.epoch_ns).min();
    let has_events =
        |space: &Space| space.planes.iter().flat_map(|plane| &plane.lines).any(|line| !line.events.is_empty());
    for (source, (name, _)) in files.iter().enumerate() {
        let mut own = sessions.iter().zip(&clocks).filter(|((other, _), _)| *other == source);
        if zero_ns.is_some() && own.any(|((_, space), clock)| clock.epoch_ns.is_none() && has_events(space)) {
            notices.push(Notice::NoEpoch { file: name.into() });
        }
    }
    let mut view = view::TraceView { zero_ns, sessions: described, planes: Vec::new(), notices };
    let mut counts = [0_u64; 4];
    for (number, (_, space)) in sessions.iter().enumerate() {
        for plane in &space.planes {
            add_plane(&mut view, plane, number, &clocks[number], &mut counts);
        }
    }
    let [negative, out_of_range, aggregated, undescribed] = counts;
    let counted = [
        (negative, Notice::NegativeDurations as fn(u64) -> Notice),
        (out_of_range, Notice::OutOfRange),
        (aggregated, Notice::Aggregated),
        (undescribed, Notice::Undescribed),
    ];
    view.notices.extend(counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, notice)| notice(count)));
    for (source, (name, _)) in files.iter().enumerate() {
        if !sessions.iter().any(|(other, space)| *other == source && has_events(space)) {
            view.notices.push(Notice::NoEvents { file: name.into() });
        }
    }
    view
}

fn describe_session(space: &Space) -> view::Session {
    let time = |name: &str| {
        // There may be several; the last one counts.
        let environments = space.planes.iter().filter(|plane| plane.name == b"Task Environment");
        let is_number = |stat: &&Stat| matches!(stat.value, Some(Value::Unsigned(_) | Value::Signed(_)));
        environments.rev().find_map(|environment| {
            let numbers: Vec<Stat> = environment.stats.iter().filter(is_number).cloned().collect();
            Names(environment).integer(&numbers, name).map(low_bits)
        })
    };
    view::Session {
        host: space.hosts.first().map(|host| lossy(host)),
        started_ns: time("profile_start_time"),
        stopped_ns: time("profile_stop_time"),
    }
}

/// Sessions of different files that claim the same host at the same time are distinguished by their file names.
fn name_hosts(files: &[(&str, &[u8])], sessions: &[(usize, Space)], described: &mut [view::Session]) {
    let before = described.to_vec();
    let overlap = |one: &view::Session, other: &view::Session| match (
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

fn add_plane(view: &mut view::TraceView, plane: &Plane, session: usize, clock: &Clock, counts: &mut [u64; 4]) {
    let (name, host) = (lossy(&plane.name), view.sessions[session].host.clone());
    let zero_ns = view.zero_ns;
    let place = view.planes.iter().position(|other| other.name == name && other.host == host).unwrap_or_else(|| {
        view.planes.push(view::Plane { name, host, lines: Vec::new(), stats: Vec::new() });
        view.planes.len() - 1
    });
    let target = &mut view.planes[place];
    target.stats.extend(Names(plane).named_all(&plane.stats));
    for line in &plane.lines {
        let place = target.lines.iter().position(|other| other.id == line.id).unwrap_or_else(|| {
            let display_name = (!line.display_name.is_empty()).then(|| lossy(&line.display_name));
            target.lines.push(view::Line { id: line.id, name: lossy(&line.name), display_name, events: Vec::new() });
            target.lines.len() - 1
        });
        let shift_ns = clock.epoch_ns.zip(zero_ns).map_or(0, |(epoch, zero)| i128::from(epoch) - i128::from(zero));
        let base_ps = (i128::from(line.timestamp_ns) - i128::from(clock.base_ns) + shift_ns) * 1000;
        for event in &line.events {
            counts[0] += u64::from(event.duration_ps < 0);
            counts[3] += u64::from(last(&plane.event_metadata, event.metadata_id).is_none());
            let duration_ps = event.duration_ps.max(0);
            let (start_ps, why_unplaced) = match event.timing {
                Timing::Occurrences(count) => (None, Some(UnplacedReason::Aggregated(count))),
                Timing::Offset(offset_ps) => {
                    let start_ps = base_ps + i128::from(offset_ps);
                    let fits = start_ps >= -FARTHEST_PS && start_ps + i128::from(duration_ps) <= FARTHEST_PS;
                    let base_fits = i64::try_from(base_ps).is_ok();
                    if fits && base_fits {
                        (i64::try_from(start_ps).ok(), None)
                    } else {
                        (None, Some(UnplacedReason::OutOfRange))
                    }
                }
            };
            counts[1] += u64::from(why_unplaced == Some(UnplacedReason::OutOfRange));
            counts[2] += u64::from(matches!(why_unplaced, Some(UnplacedReason::Aggregated(_))));
            let (kind, stats) = (Names(plane).kind(event), Names(plane).named_all(&event.stats));
            target.lines[place].events.push(view::Event { kind, start_ps, why_unplaced, duration_ps, stats });
        }
    }
}
