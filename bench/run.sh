#!/usr/bin/env bash
# Every benchmark there is. Results and their machines: bench/RESULTS.md. codecarbon, the peer, goes into an environment
# of its own under target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked
cargo build --release --locked -p ergometer-telemetry --example timeline_cost
peers=target/bench-peers
if [ ! -x "$peers/bin/python3" ]; then
    python3 -m venv "$peers" && "$peers/bin/pip" install --quiet codecarbon datasets jax xprof-rs || echo "some peers cannot be installed: measured without" >&2
fi
echo "== timeline and meter"
target/release/examples/timeline_cost
echo "== CPU of sampling"
PATH="$PWD/$peers/bin:$PATH" bench/sampling.sh target/release/ergo 30
echo "== records"
bench/records.py target/release/ergo "$peers/bin/python3"
echo "== analysis"
bench/analysis.py target/release/ergo "$peers/bin/python3"
echo "== traces"
bench/traces.py target/release/ergo "$peers/bin/python3" "$peers/bin/xprof-rs" --gigabyte
echo "== python"
"$peers/bin/pip" install --quiet . && bench/python.py target/release/ergo "$peers/bin/python3"
echo "== load"
bench/load.py target/release/ergo python3 --peers target/bench-load
