//! Snapshot tests of whole frames, from a recording of an H200.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ergometer_sensors::processes::{GpuUse, Process, ProcessTable};
use ergometer_sensors::replay::Pace;
use ergometer_telemetry::{
    Batch, Channel, DeviceId, DeviceKind, Event, EventKind, Provenance, Reading, Scope, SensorInfo, Signal, Timeline,
    recording,
};
use ergometer_units::{Bytes, Seconds, Timestamp, Watts};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::draw::{Colors, Frame, Signs, Theme, draw};
use crate::keys::Action;
use crate::latest::Now;
use crate::ledger::Ledger;
use crate::picture::{Facts, Picture};
use crate::source::Playback;
use crate::ui::{Detail, Lengths, Motion, Order, Overlay, Processes, Sort, Ui};
use crate::watcher::Shares;

const THEME: Theme = Theme { colors: Colors::Off, signs: Signs::Unicode };

/// The recording up to a time under load: one GPU, a modelled CPU, the host.
fn one() -> Timeline {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/telemetry/h200_stream_b.jsonl.gz");
    let whole = recording::read_file(path).unwrap();
    let start = whole.span().unwrap().start();
    copied(&whole, 1, &|_| Some(start + Seconds::new(75.0)))
}

/// Copies of the GPU: each starts a little later, has less power and ends earlier.
fn copied(from: &Timeline, count: u32, until: &dyn Fn(u32) -> Option<Timestamp>) -> Timeline {
    let mut many = Timeline::default();
    for (key, info) in from.sensors() {
        let copies = if info.device.kind == DeviceKind::Gpu { count } else { 1 };
        for copy in 0..copies {
            let moved = |device: DeviceId| DeviceId { index: device.index + copy, ..device };
            let channels: Vec<Channel> =
                from.channels_of(key).map(|(_, it)| Channel { device: moved(it.device), ..it.clone() }).collect();
            let new = many.add_sensor(&SensorInfo { device: moved(info.device), ..info.clone() }, &channels);
            let mut batch = Batch::default();
            for (channel, (id, it)) in from.channels_of(key).enumerate() {
                let is_gauge = it.provenance == Provenance::Gauge;
                let factor = if is_gauge { 1.0 } else { 1.0 - 0.06 * f64::from(copy) };
                for point in from.column(id).readings().points() {
                    let at = point.at + Seconds::new(if is_gauge { 0.0 } else { 0.9 * f64::from(copy) });
                    if until(copy).is_none_or(|until| at <= until) {
                        batch.readings.push(Reading { channel, after: at, at, value: point.value * factor });
                    }
                }
            }
            many.append(new, &batch);
        }
    }
    many
}

fn eight() -> Timeline {
    let one = one();
    let end = one.span().map(ergometer_units::Window::end);
    let mut many = copied(&one, 8, &|_| end);
    let device = DeviceId::gpu(2);
    let channel = Channel {
        device,
        scope: Scope::Device,
        signal: Signal::ThrottleReasons,
        provenance: Provenance::Gauge,
        update_period: None,
    };
    let interval = Duration::from_millis(250);
    let info = SensorInfo { id: String::from("throttle:2"), name: String::from("NVIDIA H200"), device, interval };
    let key = many.add_sensor(&info, &[channel]);
    let mut batch = Batch::default();
    batch.push(0, one.span().unwrap().end(), 5.0);
    many.append(key, &batch);
    many
}

fn processes() -> ProcessTable {
    let process = |id, user: &str, command: &str, gpu: Option<u32>, cpu: f64| Process {
        id,
        name: None,
        command: Some(command.to_owned()),
        user: Some(user.to_owned()),
        cpu: Some(Seconds::new(cpu)),
        cpu_total: Some(Seconds::new(cpu * 100.0)),
        memory: Some(Bytes::new(u64::from(id) << 20)),
        gpus: gpu
            .map(|index| GpuUse {
                device: DeviceId::gpu(index),
                memory: Some(Bytes::new(1_831_665_664)),
                utilization_pct: Some(97.0),
                memory_utilization_pct: Some(41.0),
            })
            .into_iter()
            .collect(),
    };
    ProcessTable {
        since_last: Seconds::new(1.5),
        processors: Some(16),
        processes: vec![
            process(1, "root", "/sbin/init", None, 0.0),
            process(812, "ada", "python record_truth.py windows.json 12 110", Some(0), 1.49),
            process(4711, "ada", "ergo monitor", None, 0.03),
        ],
        notes: Vec::new(),
    }
}

fn picture(timeline: &Timeline) -> Picture {
    let mut ledger = Ledger::default();
    ledger.update(timeline);
    let now = timeline.span().map_or(Timestamp::from_nanos_since_epoch(0), ergometer_units::Window::end);
    let facts = Facts {
        host: "vm",
        now: Now { at: now, speed: 1.0 },
        elapsed: Duration::from_secs(75),
        span: Duration::from_secs(60),
        cells: 400,
        power_limits: &BTreeMap::from([(DeviceId::gpu(0), Watts::new(700.0))]),
        ledger: &ledger,
    };
    let mut picture = Picture::new(timeline, &facts);
    picture.processes = Some(processes());
    picture
}

fn ui() -> Ui {
    Ui::new(Duration::from_secs(60))
}

fn frame(picture: &Picture, ui: &Ui, (width, height): (u16, u16), theme: Theme) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame.buffer_mut(), picture, ui, theme, Frame::Live)).unwrap();
    crate::frame::buffer_text(terminal.backend().buffer())
}

#[test]
fn no_devices() {
    let picture = picture(&Timeline::default());
    insta::assert_snapshot!("none_80x24", frame(&picture, &ui(), (80, 24), THEME));
    insta::assert_snapshot!("none_200x50", frame(&picture, &ui(), (200, 50), THEME));
}

#[test]
fn one_device() {
    let picture = picture(&one());
    insta::assert_snapshot!("one_80x24", frame(&picture, &ui(), (80, 24), THEME));
    insta::assert_snapshot!("one_200x50", frame(&picture, &ui(), (200, 50), THEME));
    let hidden = Ui { processes: Processes::Hidden, ..ui() };
    insta::assert_snapshot!("one_alone_200x50", frame(&picture, &hidden, (200, 50), THEME));
    let ascii = Theme { signs: Signs::Ascii, ..THEME };
    let text = frame(&picture, &ui(), (80, 24), ascii);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!("one_ascii_80x24", text);
}

#[test]
fn eight_devices() {
    let picture = picture(&eight());
    insta::assert_snapshot!("eight_80x24", frame(&picture, &ui(), (80, 24), THEME));
    insta::assert_snapshot!("eight_200x50", frame(&picture, &ui(), (200, 50), THEME));
    let third = Ui { device: 4, detail: Detail::One, ..ui() };
    insta::assert_snapshot!("eight_detail_80x24", frame(&picture, &third, (80, 24), THEME));
}

#[test]
fn states_are_shown() {
    let mut picture = picture(&one());
    let recording = Some(String::from("run.jsonl.gz"));
    let paused = Ui { motion: Motion::Paused, recording, ..ui() };
    insta::assert_snapshot!("paused_recording_80x24", frame(&picture, &paused, (80, 24), THEME));
    let help = Ui { overlay: Overlay::Help, ..ui() };
    insta::assert_snapshot!("help_80x24", frame(&picture, &help, (80, 24), THEME));
    insta::assert_snapshot!("tiny_30x8", frame(&picture, &ui(), (30, 8), THEME));
    insta::assert_snapshot!("smallest_40x10", frame(&picture, &ui(), (40, 10), THEME));
    let message = String::from("the energy counter of gpu:0 went back: the driver was reloaded");
    let at_ns = picture.now.at.nanos_since_epoch() - 12_000_000_000;
    picture.events.push(Event { at_ns, kind: EventKind::CounterReset, message, hint: None });
    picture.split = Some(Shares { all_j: 989.6, by_process: BTreeMap::from([(812, 123.4), (4711, 0.21)]) });
    insta::assert_snapshot!("warned_split_80x24", frame(&picture, &ui(), (80, 24), THEME));
    let mut seen = ui();
    let lengths = Lengths { devices: 3, processes: 3, events: 1, has_gpus: true };
    seen.apply(Action::Events, lengths);
    insta::assert_snapshot!("events_80x24", frame(&picture, &seen, (80, 24), THEME));
    seen.apply(Action::Back, lengths);
    assert!(!frame(&picture, &seen, (80, 24), THEME).contains("warning"), "the user has seen it");
}

#[test]
fn a_silent_device_is_shown_and_not_summed() {
    let one = one();
    let end = one.span().unwrap().end();
    let many = copied(&one, 8, &|copy| Some(end - Seconds::new(if copy < 4 { 0.0 } else { 20.0 })));
    let picture = picture(&many);
    let text = frame(&picture, &ui(), (80, 24), THEME);
    assert!(text.contains(" W measured, 4 of 8 no data"), "{text}");
    insta::assert_snapshot!("silent_80x24", text);
    let fifth = Ui { device: 4, detail: Detail::One, ..ui() };
    assert!(frame(&picture, &fifth, (80, 24), THEME).contains("no reading for "));
}

#[test]
fn a_replay_and_an_energy_reset_are_shown() {
    let mut picture = picture(&one());
    picture.playback = Some(Playback { pace: Pace::Speed(10.0), length: Duration::from_secs(99) });
    let first = |picture: &Picture| frame(picture, &ui(), (80, 24), THEME).lines().next().unwrap().to_owned();
    assert!(first(&picture).contains("  replay ×10  1:15 of 1:39   127.0 W measured"), "{}", first(&picture));
    picture.playback = None;
    picture.counted = Some(Duration::from_secs(3));
    assert!(first(&picture).contains("   21.17 kJ in 0:03"), "{}", first(&picture));
}

#[test]
fn processes_leave_room_for_their_commands() {
    let mut picture = picture(&one());
    picture.split = Some(Shares { all_j: 989.6, by_process: BTreeMap::from([(812, 123.4), (4711, 0.21)]) });
    insta::assert_snapshot!("processes_60x24", frame(&picture, &ui(), (60, 24), THEME));
    // A machine without a GPU.
    picture.devices.retain(|device| device.id.kind != DeviceKind::Gpu);
    for process in picture.processes.iter_mut().flat_map(|table| &mut table.processes) {
        process.gpus.clear();
    }
    insta::assert_snapshot!("no_gpu_60x24", frame(&picture, &ui(), (60, 24), THEME));
}

#[test]
fn devices_without_room_are_counted() {
    let text = frame(&picture(&eight()), &ui(), (80, 10), THEME);
    assert!(text.contains("gpu:2") && !text.contains("gpu:3") && text.contains(" 7 more"), "{text}");
    insta::assert_snapshot!("eight_80x10", text);
}

/// Keys keep their places when labels change.
#[test]
fn keys_have_fixed_places() {
    let picture = picture(&one());
    let last = |ui: &Ui, width| frame(&picture, ui, (width, 24), THEME).lines().last().unwrap().to_owned();
    for width in [80, 120, 160] {
        let place = |ui: &Ui| [" p processes", " s sort"].map(|key| last(ui, width).find(key).unwrap());
        let usual = place(&ui());
        for sort in [Sort::Gpu, Sort::Cpu, Sort::Memory, Sort::Pid] {
            assert_eq!(place(&Ui { sort, order: Order::Reversed, ..ui() }), usual);
        }
        let recording = Some(String::from("run.jsonl"));
        assert_eq!(place(&Ui { recording, span: Duration::from_secs(1800), ..ui() }), usual);
    }
}

/// Drawing works at every size.
#[test]
fn every_size_is_drawn() {
    let pictures = [Timeline::default(), one(), eight()].map(|timeline| picture(&timeline));
    for picture in &pictures {
        for (width, height) in [(1, 1), (0, 0), (40, 10), (41, 11), (63, 10), (79, 12), (300, 10), (40, 90), (500, 100)]
        {
            for detail in [Detail::All, Detail::One] {
                for overlay in [Overlay::Nothing, Overlay::Help, Overlay::Events] {
                    let ui = Ui { detail, overlay, device: 99, process: 99, ..ui() };
                    frame(picture, &ui, (width, height), THEME);
                }
            }
        }
    }
}
