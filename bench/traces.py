#!/usr/bin/env python3
"""Compares `ergo trace` with xprof-rs and JAX's `ProfileData` on the same traces.

usage: bench/traces.py ERGO PYTHON XPROF_RS [--gigabyte]

PYTHON is an interpreter with jax (for jax.profiler.ProfileData). XPROF_RS is the binary of the PyPI package xprof-rs.
The rounds of all programs alternate, so that other load on the machine affects all of them. Times are medians of whole
processes, memory is the highest peak. repeat_trace.py makes the traces from fixtures, under target/.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "xplane"
WORK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "bench-traces"
ROUNDS = 15

# A loop over all events and stats with JAX's own reader.
PROFILE_DATA = """
import sys
from jax.profiler import ProfileData
times = {}
for plane in ProfileData.from_file(sys.argv[1]).planes:
    for line in plane.lines:
        for event in line.events:
            name = event.name
            for key, value in event.stats:
                if key == "hlo_op":
                    name = value
            times[plane.name, name] = times.get((plane.name, name), 0) + event.duration_ns
print(len(times))
"""

# The algorithm of a trace profiler for autotuners: it searches the children of each event among all later events.
CHILDREN = """
import bisect, sys
from jax.profiler import ProfileData
for plane in ProfileData.from_file(sys.argv[1]).planes:
    if plane.name != sys.argv[2]:
        continue
    events = []
    for line in plane.lines:
        for event in line.events:
            stats = dict(event.stats)
            name = f"{stats.get('hlo_module', event.name)}({stats.get('program_id', stats.get('run_id'))})"
            events.append((event.start_ns, event.start_ns + event.duration_ns, name))
    events.sort()
    starts = [start for start, _, _ in events]
    times = {}
    for start, end, name in events:
        covered, last = 0, start
        for child_start, child_end, child in events[bisect.bisect_left(starts, start):]:
            if child_start > end:
                break
            if child != name and child_end <= end:
                covered += max(0, child_end - max(child_start, last))
                last = max(last, child_end)
        times[name] = end - start
    print(len(times))
"""


def trace(name, fixture, times):
    session = WORK / f"{name}-{times}" / "plugins" / "profile" / "bench"
    path = session / "host.xplane.pb"
    if not path.exists():
        session.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, HERE / "repeat_trace.py", FIXTURES / fixture, str(times), path], check=True)
    return path


def run(command):
    """Runs a process. Returns its seconds and its peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: {error.decode()}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def compare(path, programs, rounds=ROUNDS):
    size = path.stat().st_size / 1e6
    print(f"\n{path.parent.parent.parent.parent.name}: {size:.1f} MB")
    figures = {name: [] for name in programs}
    for _ in range(rounds):
        for name, command in programs.items():
            figures[name].append(run(command))
    first = None
    for name, measured in figures.items():
        seconds = statistics.median(second for second, _ in measured)
        spread = statistics.quantiles([second for second, _ in measured], n=4) if rounds > 1 else [seconds] * 3
        memory = max(megabytes for _, megabytes in measured)
        first = first or seconds
        print(
            f"  {name:28} {seconds * 1e3:9.1f} ms  ({spread[0] * 1e3:.1f} to {spread[2] * 1e3:.1f})"
            f"  {seconds / first:7.2f} x  {memory:7.1f} MB, {memory / size:5.2f} x the file  {size / seconds / 1e3:5.2f} GB/s"
        )


def main():
    ergo, python, xprof = sys.argv[1:4]
    cpu = trace("cpu", "med_cpu_26820.xplane.pb", 20)
    gpu = trace("gpu", "gpu_train_200.xplane.pb.xz", 4)
    for path in (cpu, gpu):
        programs = {
            "ergo trace ops": [ergo, "trace", "ops", path],
            "ergo trace events": [ergo, "trace", "events", path],
            "xprof-rs": [xprof, "aggregate_xplane_events", path.parent],
        }
        compare(path, programs)
        compare(path, {"ergo trace ops": programs["ergo trace ops"], "ProfileData, a loop": [python, "-c", PROFILE_DATA, path]}, 3)
    short = FIXTURES / "med_cpu_26820.xplane.pb"
    compare(
        trace("cpu", short.name, 1),
        {
            "ergo trace functions": [ergo, "trace", "functions", short],
            "pairwise search": [python, "-c", CHILDREN, short, "/host:CPU"],
        },
        3,
    )
    if "--gigabyte" in sys.argv:
        for times in (10, 30, 90):
            path = trace("gpu", "gpu_train_200.xplane.pb.xz", times)
            compare(path, {"ergo trace ops": [ergo, "trace", "ops", path], "xprof-rs": [xprof, "aggregate_xplane_events", path.parent]}, 5)
            path.unlink()


if __name__ == "__main__":
    main()
