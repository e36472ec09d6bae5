//! How long reading takes: `cargo run --release -p ergometer-trace --example read_cost -- FILE…`

fn main() {
    for path in std::env::args_os().skip(1) {
        for ids in [ergometer_trace::KeepIds::No, ergometer_trace::KeepIds::Yes] {
            let bytes = std::fs::read(&path).unwrap();
            let size = bytes.len();
            let start = std::time::Instant::now();
            let trace = ergometer_trace::read(
                vec![ergometer_trace::Source::from_bytes("x", bytes)],
                &ergometer_trace::ReadOptions { ids, ..Default::default() },
            )
            .unwrap();
            let took = start.elapsed().as_secs_f64();
            println!(
                "{} bytes, {} events, {} kinds: {:.2} ms, {:.2} GB/s {:?} {:?}",
                size,
                trace.event_count(),
                trace.kinds().len(),
                took * 1e3,
                size as f64 / took / 1e9,
                trace.notices(),
                trace.zero()
            );
        }
    }
}
