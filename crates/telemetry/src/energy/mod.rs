//! The energy of a window, with its uncertainty.
mod banded;
mod cells;
mod curve;
mod fit;
mod grid;
mod model;
mod observations;
mod response;

pub use curve::SensorModel;

#[cfg(test)]
mod scratch {
    use super::curve::*;
    use super::observations::*;
    use ergometer_units::*;
    #[test]
    fn truth() {
        let path = std::env::var("REC").unwrap_or("/work/shared/fixtures/telemetry/h200_truth_a.json.gz".into());
        let f = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
        let v: serde_json::Value = serde_json::from_reader(f).unwrap();
        let rows = |k: &str| -> Vec<Vec<f64>> {
            v[k].as_array()
                .unwrap()
                .iter()
                .map(|r| r.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect())
                .collect()
        };
        let ring = rows("power_ring");
        let edges = rows("energy_counter_edges");
        let base_us = edges[0][0];
        let base = Timestamp::from_micros_since_epoch(base_us as i64).unwrap();
        let s = |us: f64| (us - base_us) / 1e6;
        let (mut st, mut w) = (vec![], vec![]);
        let mut ring = ring;
        ring.sort_by(|a, b| a[0].total_cmp(&b[0]));
        for r in &ring {
            if st.last().is_none_or(|l| s(r[0]) - l > 0.001) {
                st.push(s(r[0]));
                w.push(r[1] / 1e3);
            }
        }
        let raw: Vec<RawStep> = edges[1..]
            .iter()
            .map(|e| RawStep { after: s(e[0]), at: s(e[1]), joules: e[2] / 1e3, follows: true })
            .collect();
        let obs = Observations { power: PowerSamples::new(st, w), counter: CounterSteps::new(&raw) };
        println!(
            "ticks {} doubt0 {}",
            obs.power.as_ref().unwrap().ticks.is_some(),
            obs.counter.as_ref().unwrap().doubt.iter().filter(|d| **d == 0.0).count()
        );
        let mut wins = vec![];
        for p in v["phases"].as_array().unwrap() {
            if let Some(ws) = p["windows"].as_array() {
                for x in ws {
                    wins.push((
                        p["kind"].as_str().unwrap().to_owned(),
                        x[0].as_f64().unwrap(),
                        x[1].as_f64().unwrap(),
                        x[2].as_str().unwrap().to_owned(),
                    ));
                }
            }
        }
        let mut ed: Vec<f64> = wins.iter().flat_map(|w| [s(w.1), s(w.2)]).collect();
        ed.sort_by(f64::total_cmp);
        let t = std::time::Instant::now();
        let curve = Curve::new(base, obs, &ed).unwrap();
        println!("{:?} {:?}", t.elapsed(), curve.parameters());
        for kind in ["isolated", "adjacent"] {
            for (lo, hi) in [(10., 50.), (50., 150.), (150., 500.), (500., 1e9)] {
                let (mut e, mut c, mut wd) = (vec![], 0, vec![]);
                for w in &wins {
                    let l = (w.2 - w.1) / 1e3;
                    if w.0 != kind || l < lo || l >= hi {
                        continue;
                    }
                    if !(w.3 == "stream" || (kind == "isolated" && l < 450.)) {
                        continue;
                    }
                    let p = if w.3 == "stream" { 643.0 } else { 764.5 };
                    let r = curve.energy(
                        Window::new(
                            Timestamp::from_micros_since_epoch(w.1 as i64).unwrap(),
                            Timestamp::from_micros_since_epoch(w.2 as i64).unwrap(),
                        )
                        .unwrap(),
                    );
                    let truth = p * l / 1e3;
                    e.push(100. * (r.joules.get() / truth - 1.));
                    if (r.joules.get() - truth).abs() <= r.margin.get() {
                        c += 1
                    }
                    wd.push(200. * r.margin.get() / r.joules.get());
                }
                if lo == 500. {
                    println!("{:?}", e.iter().map(|x| (x * 100.0).round() / 100.0).collect::<Vec<f64>>());
                }
                let bias = median(e.iter().copied());
                println!(
                    "{kind} {lo}-{hi} n {} |e| {:.2} bias {:+.2} cover {:.0} width {:.1}",
                    e.len(),
                    median(e.iter().map(|x| x.abs())).unwrap(),
                    bias.unwrap(),
                    100. * f64::from(c) / e.len() as f64,
                    median(wd).unwrap()
                );
            }
        }
    }
}
