#!/usr/bin/env python3
"""The Python package against a loop over JAX's own reader, side by side on the same traces; and what starting costs.

usage: bench/python.py ERGO PYTHON

PYTHON has jax, numpy and the package `ergometer` (`pip install .`, a release build), ERGO is the binary of the same
sources. Both readers run in one process and take turns, so that the load of the machine falls on both; the bytes are in
memory before. Times are medians. Traces are made from fixtures by repeat_trace.py, under target/.
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

# Both end with every event's name, start, duration and stats: one in Arrow columns, one in Python's own lists.
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
for turn in range(int(sys.argv[2]) + 1):
    for name, read in readers.items():
        gc.collect()
        start = time.perf_counter()
        rows[name] = read()
        # The first turn warms up.
        if turn:
            times[name].append(time.perf_counter() - start)
assert rows["read_trace().events()"] == rows["ProfileData, a loop with stats"], rows
json.dump({"times": times, "rows": rows}, sys.stdout)
"""


def trace(name, fixture, times):
    """The same files as bench/traces.py has them."""
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
    found = json.loads(run.stdout)
    size = path.stat().st_size / 1e6
    print(f"\n{path.parents[3].name}: {size:.1f} MB, {found['rows']['read_trace().events()']:,} events")
    peer = statistics.median(found["times"]["ProfileData, a loop with stats"])
    for name, seconds in found["times"].items():
        median, told = spread(seconds)
        print(f"  {name:34} {told:34} {peer / median:6.1f} times as fast")


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
    for turn in range(STARTS + 1):
        for name, command in programs.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if turn:
                times[name].append(time.perf_counter() - start)
    print("\nstarting, whole processes")
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
