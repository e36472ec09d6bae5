//! A simulated load of known energy: isolated windows between idle times, then back-to-back windows.
//!
//! As in a real load, power drifts by 2 % over 20 s and fluctuates by 1 % within a window.

use ergometer_units::Window;

use crate::random::Random;
use crate::simulator::{Curve, window};

/// The classes of window lengths: minimum and maximum in milliseconds, and the number of isolated and of back-to-back
/// windows.
pub(crate) const CLASSES: [(f64, f64, u32); 4] =
    [(10.0, 50.0, 32), (50.0, 150.0, 32), (150.0, 500.0, 28), (500.0, 1200.0, 16)];

const IDLE: f64 = 120.0;

/// The difficulty of a load, compared with constant power between known edges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The standard deviation of the known edges from the true ones, in seconds.
    pub(crate) edge_error: f64,
    /// The first quarter of a window, at most 0.1 s, draws up to this share more power, like a prefill.
    pub(crate) surge: f64,
}

impl Load {
    /// Constant power between known edges.
    pub(crate) const PLAIN: Self = Self { edge_error: 0.0, surge: 0.0 };

    /// Edges with the error of a client's clock and a kernel launch, and a prefill in every window.
    pub(crate) const HARD: Self = Self { edge_error: 0.001, surge: 0.4 };
}

/// A window and its true energy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownWindow {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) isolated: bool,
    pub(crate) joules: f64,
}

impl KnownWindow {
    pub(crate) fn window(&self) -> Window {
        window(self.from, self.to)
    }
}

/// The true power curve and its windows.
#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) curve: Curve,
    pub(crate) known: Vec<KnownWindow>,
}

impl Truth {
    pub(crate) fn new(seed: u64, load: Load) -> Self {
        let mut random = Random::new(seed);
        let mut truth = Self { curve: Curve::default(), known: Vec::new() };
        truth.run(3.0, IDLE, &mut random);
        for isolated in [true, false] {
            for length in shuffled_lengths(&mut random) {
                let from = truth.curve.end();
                let watts = random.between(250.0, 700.0);
                let higher = 1.0 + random.between(0.0, load.surge);
                let surge = (length / 4.0).min(0.1);
                truth.run(surge, watts * higher, &mut random);
                truth.run(length - surge, watts, &mut random);
                truth.known.push(KnownWindow { from, to: truth.curve.end(), isolated, joules: 0.0 });
                if isolated {
                    let pause = random.between(0.25, 0.5);
                    truth.run(pause, IDLE, &mut random);
                }
            }
        }
        truth.run(3.0, IDLE, &mut random);
        for known in &mut truth.known {
            known.from += load.edge_error * random.normal();
            known.to += load.edge_error * random.normal();
            known.joules = truth.curve.joules(known.from, known.to);
        }
        truth
    }

    pub(crate) fn windows(&self) -> Vec<Window> {
        self.known.iter().map(KnownWindow::window).collect()
    }

    /// Adds pieces of at most 5 ms with about this power, which drifts and fluctuates.
    fn run(&mut self, seconds: f64, watts: f64, random: &mut Random) {
        let pieces = (seconds / 0.005).ceil();
        let (mut wander, mut piece) = (0.0, 0.0);
        while piece < pieces {
            let drift = 0.02 * (self.curve.end() / 20.0 * std::f64::consts::TAU).sin();
            // Correlated over 0.1 s, with a standard deviation of 0.0031 / sqrt(1 - 0.95²) = 1 %.
            wander = 0.95 * wander + 0.0031 * random.normal();
            self.curve.push(seconds / pieces, watts * (1.0 + drift + wander));
            piece += 1.0;
        }
    }
}

/// The lengths of all classes in seconds, in random order.
fn shuffled_lengths(random: &mut Random) -> Vec<f64> {
    let mut keyed: Vec<(f64, f64)> = Vec::new();
    for (shortest, longest, count) in CLASSES {
        for _ in 0..count {
            let length = random.log_between(shortest, longest) / 1e3;
            keyed.push((random.between(0.0, 1.0), length));
        }
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, length)| length).collect()
}
