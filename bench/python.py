#!/usr/bin/env python3
"""Compares the Python package with a loop over JAX's own reader on the same traces, and measures start-up times.

usage: bench/python.py ERGO PYTHON

PYTHON is an interpreter with jax, numpy and the package `ergometer` (`pip install .`, a release build). ERGO is the
binary of the same sources. Both readers run alternately in one process, so that other load on the machine affects both.
The traces are in memory before. Times are medians. repeat_trace.py makes the traces from fixtures, under target/.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "xplane"
WORK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "bench-traces"
ROUNDS = 7
STARTS = 21

# Both readers return name, start, duration and stats of every event: one as Arrow columns, one as Python lists.
READERS = """
import gc, json, pathlib, sys, time
import ergometer
from jax.profiler import ProfileData

data = pathlib.Path(sys.argv[1]).read_bytes()

def arrow():
    return ergometer.read_trace(data).events().num_rows

def arrow_without_stats():
    return ergometer.read_trace(data).events(stats=False).num_rows

def ops():
    return ergometer.read_trace(data).ops().num_rows

def loop():
    events = []
    for plane in ProfileData.from_serialized_xspace(data).planes:
        for line in plane.lines:
            for event in line.events:
                events.append((event.name, event.start_ns, event.duration_ns, dict(event.stats)))
    return len(events)

readers = {
    "ProfileData, a loop with stats": loop,
    "read_trace().events()": arrow,
    "read_trace().events(stats=False)": arrow_without_stats,
    "read_trace().ops()": ops,
}
times = {name: [] for name in readers}
rows = {}
for round_number in range(int(sys.argv[2]) + 1):
    for name, read in readers.items():
        gc.collect()
        start = time.perf_counter()
        rows[name] = read()
        # The first round is a warm-up.
        if round_number:
            times[name].append(time.perf_counter() - start)
assert rows["read_trace().events()"] == rows["ProfileData, a loop with stats"], rows
json.dump({"times": times, "rows": rows}, sys.stdout)
"""


def trace(name, fixture, times):
    """The same trace files as in bench/traces.py."""
    path = WORK / f"{name}-{times}" / "plugins" / "profile" / "bench" / "host.xplane.pb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, HERE / "repeat_trace.py", FIXTURES / fixture, str(times), path], check=True)
    return path


def spread(seconds):
    low, middle, high = statistics.quantiles(seconds, n=4)
    return middle, f"{middle * 1e3:8.1f} ms  ({low * 1e3:.1f} to {high * 1e3:.1f})"


def compare_readers(python, path):
    run = subprocess.run([python, "-c", READERS, path, str(ROUNDS)], check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(run.stdout)
    size = path.stat().st_size / 1e6
    print(f"\n{path.parents[3].name}: {size:.1f} MB, {result['rows']['read_trace().events()']:,} events")
    peer = statistics.median(result["times"]["ProfileData, a loop with stats"])
    for name, seconds in result["times"].items():
        median, text = spread(seconds)
        print(f"  {name:34} {text:34} {peer / median:6.1f} times as fast")


def compare_starts(ergo, python):
    console_script = pathlib.Path(python).parent / "ergo"
    programs = {
        "ergo --version, the binary": [ergo, "--version"],
        "ergo --version, the console script": [console_script, "--version"],
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import ergometer'": [python, "-c", "import ergometer"],
        "python -c 'import numpy'": [python, "-c", "import numpy"],
    }
    times = {name: [] for name in programs}
    for round_number in range(STARTS + 1):
        for name, command in programs.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if round_number:
                times[name].append(time.perf_counter() - start)
    print("\nstart-up of whole processes")
    for name, seconds in times.items():
        print(f"  {name:34} {spread(seconds)[1]}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ergo, python = sys.argv[1:]
    compare_readers(python, trace("cpu", "med_cpu_26820.xplane.pb", 20))
    compare_readers(python, trace("gpu", "gpu_train_200.xplane.pb.xz", 4))
    compare_starts(ergo, python)


if __name__ == "__main__":
    main()
