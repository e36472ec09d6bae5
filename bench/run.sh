#!/usr/bin/env bash
# Runs every benchmark. bench/RESULTS.md has results. The tools to compare with are installed into environments under
# target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked
cargo build --release --locked -p ergometer-telemetry --example timeline_cost
peers=target/bench-peers
if [ ! -x "$peers/bin/python3" ]; then
    python3 -m venv "$peers" && "$peers/bin/pip" install --quiet codecarbon datasets jax xprof-rs || echo "warning: cannot install all peers; skipping the missing ones" >&2
fi
echo "== timeline and energy estimator"
target/release/examples/timeline_cost
echo "== CPU usage of sampling"
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
echo "== clocks"
if [ -x target/bench-load/vllm/bin/python ]; then
    bench/clocks.py target/release/ergo target/bench-load/vllm/bin/python
else
    echo "skipping clocks: vLLM could not be installed" >&2
fi
