#!/usr/bin/env bash
# Measures the CPU usage of `ergo monitor` with default settings, and of nvidia-smi and codecarbon if they are installed,
# one after the other. Usage: bench/sampling.sh ERGO [SECONDS]
set -euo pipefail
ergo=${1:?"usage: bench/sampling.sh ERGO [SECONDS]"}
seconds=${2:-30}
ticks=$(getconf CLK_TCK)

# Runs a command for $seconds and prints its CPU usage as a share of one core in the last two thirds of the time, which
# excludes start-up, and its peak memory.
share() {
    local name=$1
    shift
    "$@" >/dev/null 2>&1 &
    local pid=$!
    sleep $((seconds / 3))
    local before after peak
    before=$(awk '{print $14 + $15}' "/proc/$pid/stat")
    sleep $((seconds - seconds / 3 - 1))
    after=$(awk '{print $14 + $15}' "/proc/$pid/stat")
    peak=$(awk '/VmHWM/ {print $2}' "/proc/$pid/status")
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    awk -v n="$name" -v t="$ticks" -v d="$((after - before))" -v s="$((seconds - seconds / 3 - 1))" -v m="$peak" \
        'BEGIN { printf "%-58s %6.2f %% of a core  %6.1f MB\n", n, 100 * d / t / s, m / 1e3 }'
}

recording=$(mktemp -d)
trap 'rm -rf "$recording"' EXIT
share "ergo monitor" "$ergo" monitor --format jsonl
share "ergo monitor --record" "$ergo" monitor --format jsonl --record "$recording/run.jsonl.gz"
bytes=$(stat -c %s "$recording/run.jsonl.gz")
awk -v b="$bytes" -v s="$seconds" 'BEGIN { printf "%-58s %6.1f MB per hour\n", "  size of the recording", b / s * 3600 / 1e6 }'
if command -v nvidia-smi >/dev/null; then
    share "nvidia-smi, power and 4 gauges every 100 ms" \
        nvidia-smi --query-gpu=power.draw.instant,utilization.gpu,memory.used,temperature.gpu,clocks.sm --format=csv -lms 100
fi
if python3 -c 'import codecarbon' 2>/dev/null; then
    share "codecarbon, every second" python3 -c "
import time
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(country_iso_code='USA', measure_power_secs=1, save_to_file=False, log_level='error')
tracker.start()
time.sleep(10 * $seconds)"
fi
