//! Journals that Ergometer 0.1.0 wrote.

use std::fs;
use std::path::Path;

use ergometer::close::close;
use ergometer_runs::Summary;
use ergometer_runs::saved::Run;

#[test]
fn a_journal_of_0_1_0_is_finalized_to_the_same_results() {
    for name in ["v0_1_0_one", "v0_1_0_four"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        fs::create_dir(&journal).unwrap();
        for entry in fs::read_dir(fixture.join("journal")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, journal.join(path.file_name().unwrap())).unwrap();
        }
        let closed = close(folder.path()).unwrap();
        let written = Summary::read(&fixture).unwrap();
        assert_eq!(closed.summary.outcomes, written.outcomes, "{name}");
        assert_eq!(closed.summary.latency, written.latency, "{name}");
        assert_eq!(closed.summary.tokens, written.tokens, "{name}");
        assert_eq!(closed.summary.energy, written.energy, "{name}");
        assert_eq!(closed.summary.profiler_config, written.profiler_config, "{name}");
        let (now, then) = (Run::open(folder.path()).unwrap(), Run::open(&fixture).unwrap());
        assert_eq!(now.queries, then.queries, "{name}");
    }
}
