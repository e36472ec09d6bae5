//! Tests of the sampler with scripted sensors: failures, panics, draining and stopping.

use std::collections::VecDeque;
use std::sync::mpsc;

use super::*;
use crate::timeline::example::{gauge, sensor};
use crate::{Channel, DeviceId, SensorError, Signal};

/// The action of a scripted sensor for one sample.
enum Step {
    Read(f64),
    Fail,
    Lose,
    Panic,
    /// Blocks until the test drops the channel.
    Block(mpsc::Receiver<()>),
}

/// A sensor that performs its steps and then ends, or if `endless` continues with readings of 0.
struct Scripted {
    info: SensorInfo,
    channels: Vec<Channel>,
    steps: VecDeque<Step>,
    endless: bool,
}

impl Scripted {
    fn boxed(id: &str, steps: impl IntoIterator<Item = Step>) -> Box<dyn Sensor> {
        Box::new(Self::new(id, Duration::ZERO, steps))
    }

    fn endless(id: &str, interval: Duration) -> Box<dyn Sensor> {
        Box::new(Self { endless: true, ..Self::new(id, interval, []) })
    }

    fn new(id: &str, interval: Duration, steps: impl IntoIterator<Item = Step>) -> Self {
        let info = SensorInfo { interval, ..sensor(id) };
        let steps = steps.into_iter().collect();
        Self { info, channels: vec![gauge(Signal::Temperature)], steps, endless: false }
    }
}

impl Sensor for Scripted {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        let device = DeviceId::gpu(0);
        match self.steps.pop_front() {
            Some(Step::Read(value)) => batch.push(0, clock.now(), value),
            Some(Step::Fail) => return Err(SensorError::Read { device, what: "heat", reason: "busy".to_owned() }),
            Some(Step::Lose) => return Err(SensorError::Lost { device, reason: "it fell off the bus".into() }),
            Some(Step::Panic) => panic!("a bug in a sensor"),
            Some(Step::Block(until)) => drop(until.recv()),
            None if self.endless => batch.push(0, clock.now(), 0.0),
            None => return Err(SensorError::Ended),
        }
        Ok(())
    }
}

const LONG: Duration = Duration::from_secs(600);

fn start(sensors: Vec<Box<dyn Sensor>>) -> Sampler {
    Sampler::start(sensors, Arc::new(Clock::start()), None)
}

fn run_to_the_end(sensors: Vec<Box<dyn Sensor>>) -> Timeline {
    let sampler = start(sensors);
    assert!(sampler.wait(LONG));
    sampler.stop()
}

fn values(timeline: &Timeline) -> Vec<Vec<f64>> {
    timeline.channels().map(|(id, _)| timeline.column(id).readings().values.to_vec()).collect()
}

fn messages(timeline: &Timeline) -> Vec<(EventKind, &str)> {
    timeline.events().iter().map(|event| (event.kind, event.message.as_str())).collect()
}

#[test]
fn readings_arrive_in_order_and_the_sensor_ends() {
    let timeline = run_to_the_end(vec![Scripted::boxed("a", (0..20).map(|value| Step::Read(f64::from(value))))]);
    assert_eq!(values(&timeline), [(0..20).map(f64::from).collect::<Vec<_>>()]);
    assert_eq!(timeline.events(), []);
}

#[test]
fn a_series_of_failures_leaves_two_events() {
    let steps =
        [Step::Fail, Step::Fail, Step::Fail, Step::Read(1.0), Step::Fail, Step::Read(2.0), Step::Fail, Step::Fail];
    let timeline = run_to_the_end(vec![Scripted::boxed("a", steps)]);
    assert_eq!(values(&timeline), [[1.0, 2.0]]);
    let first = (EventKind::ReadFailed, "a: cannot read heat of gpu:0: busy");
    let expected = [
        first,
        (EventKind::ReadFailed, "a: 3 reads in a row failed, then a read succeeded"),
        first,
        first,
        (EventKind::ReadFailed, "a: 2 reads in a row failed, until the end"),
    ];
    assert_eq!(messages(&timeline), expected);
}

#[test]
fn a_lost_device_or_a_panic_does_not_affect_other_sensors() {
    let timeline = run_to_the_end(vec![
        Scripted::boxed("lost", [Step::Read(1.0), Step::Lose, Step::Read(9.0)]),
        Scripted::boxed("bug", [Step::Read(2.0), Step::Panic, Step::Read(9.0)]),
        Scripted::boxed("good", (0..30).map(|_| Step::Read(3.0))),
    ]);
    assert_eq!(values(&timeline), [vec![1.0], vec![2.0], vec![3.0; 30]]);
    let mut messages = messages(&timeline);
    messages.sort_by_key(|&(_, text)| text);
    let expected = [
        (EventKind::DeviceLost, "bug panicked and is no longer read: a bug in a sensor"),
        (EventKind::DeviceLost, "lost: gpu:0 is lost: it fell off the bus; the other sensors continue"),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn stopping_wakes_a_sleeping_sensor_and_samples_it_once_more() {
    let sampler = start(vec![Scripted::endless("a", LONG), Scripted::endless("b", LONG)]);
    while sampler.with_timeline(Timeline::len) < 2 {
        thread::yield_now();
    }
    assert_eq!(sampler.running(), 2);
    assert_eq!(values(&sampler.stop()), [[0.0, 0.0], [0.0, 0.0]]);
}

#[test]
fn a_blocked_sensor_is_abandoned() {
    let (hang_up, blocked) = mpsc::channel();
    let mut sampler = start(vec![Scripted::boxed("stuck", [Step::Block(blocked)]), Scripted::endless("good", LONG)]);
    sampler.patience = Duration::from_millis(5);
    let timeline = sampler.stop();
    let stuck: Vec<_> = timeline.events().iter().filter(|event| event.message.contains("stuck did not")).collect();
    assert_eq!(stuck.len(), 1);
    drop(hang_up);
}

#[test]
fn the_tap_gets_every_batch_and_may_panic() {
    let (sender, receiver) = mpsc::channel();
    let tap: Tap = Box::new(move |info, key, batch| {
        sender.send((info.id.clone(), key.index(), batch.readings.len(), batch.events.len())).unwrap();
        assert!(batch.events.is_empty(), "a bug in a tap");
    });
    let steps = [Step::Read(1.0), Step::Fail, Step::Read(2.0)];
    let sampler = Sampler::start(vec![Scripted::boxed("a", steps)], Arc::new(Clock::start()), Some(tap));
    assert!(sampler.wait(LONG));
    let timeline = sampler.stop();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [("a".to_owned(), 0, 1, 0), ("a".to_owned(), 0, 0, 1)]);
    assert_eq!(values(&timeline), [[1.0, 2.0]]);
    assert_eq!(timeline.events().len(), 2, "the failure, and the panic of the tap");
}

/// A sensor with a reading that only a drain returns.
struct Holding {
    info: SensorInfo,
    channels: Vec<Channel>,
    held: Vec<f64>,
}

impl Sensor for Holding {
    fn info(&self) -> &SensorInfo {
        &self.info
    }

    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn sample(&mut self, _: &Clock, _: &mut Batch) -> Result<(), SensorError> {
        Ok(())
    }

    fn drain(&mut self, clock: &Clock, batch: &mut Batch) -> Result<(), SensorError> {
        self.held.drain(..).for_each(|value| batch.push(0, clock.now(), value));
        Ok(())
    }
}

#[test]
fn draining_returns_buffered_readings() {
    let info = SensorInfo { interval: LONG, ..sensor("ring") };
    let holding = Holding { info, channels: vec![gauge(Signal::Temperature)], held: vec![1.0, 2.0] };
    let sampler = start(vec![Box::new(holding), Scripted::endless("other", LONG), Scripted::boxed("over", [])]);
    assert!(sampler.drain(LONG), "sensors without a buffer and ended sensors count as drained");
    let found = sampler.with_timeline(|timeline| {
        let (id, _) = timeline.channels().next().unwrap();
        timeline.column(id).readings().values.to_vec()
    });
    assert_eq!(found, [1.0, 2.0]);
    assert!(sampler.drain(LONG), "again");
}

#[test]
fn draining_a_blocked_sensor_times_out() {
    let (hang_up, blocked) = mpsc::channel();
    let sampler = start(vec![Scripted::boxed("stuck", [Step::Block(blocked)])]);
    assert!(!sampler.drain(Duration::from_millis(20)));
    drop(hang_up);
}
