#!/usr/bin/env python3
"""Runs `ergo profile` against a mock server with all faults, and checks that nothing hangs, is lost or leaks memory.

usage: bench/soak.py ERGO [SECONDS, 600] [--concurrency N, 64 | --rate R]

Each of sixteen faults has a probability of 2 %; failed requests are retried up to twice. The script reads the resident
memory of client and server every second. At the end it compares the number of attempts with the number of requests that
the server counted, and the memory in the last quarter with the second. It exits with 1 if a check fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

FAULTS = (
    "refuse hang hang-stream reset reset-stream slow 429 500 503 bad-sse error-stream truncated no-usage empty no-done compressed"
).split()
SHARE = 0.02


def resident_mb(process):
    try:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), None)
    return int(line.split()[1]) / 1024 if line else None


def quarter(values, number):
    part = values[len(values) * (number - 1) // 4 : len(values) * number // 4]
    return sum(part) / len(part) if part else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ergo")
    parser.add_argument("seconds", type=int, nargs="?", default=600)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rate", type=float)
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="soak")
    faults = [argument for fault in FAULTS for argument in ("--fault", f"{fault}={SHARE}")]
    server = subprocess.Popen(
        [options.ergo, "mock-server", "--port", "0", "--format", "json", "--ttft", "20ms", "--gap", "5ms", "--tokens",
         "uniform:1..60", "--slots", "100000", *faults],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = json.loads(server.stdout.readline())
    url = address["listening"]
    load = ["--rate", str(options.rate)] if options.rate else ["--concurrency", str(options.concurrency)]
    client = subprocess.Popen(
        [options.ergo, "profile", "--base-url", url, "--model", "m", "--dataset", "synthetic", "--dataset-param",
         "prompt_tokens=16", "--duration", f"{options.seconds}s", *load, "--retries", "2", "--retry-backoff", "20ms",
         "--first-token-timeout", "2s", "--token-timeout", "2s", "--idle", "0s", "--warmup", "0", "--output-dir",
         folder.name, "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    memory = {"client": [], "server": []}
    started = time.monotonic()
    while client.poll() is None:
        for name, process in (("client", client), ("server", server)):
            value = resident_mb(process)
            # Ignores the memory of writing the files at the end.
            if value is not None and time.monotonic() - started < options.seconds:
                memory[name].append(value)
        if time.monotonic() - started > options.seconds + 300:
            client.kill()
            sys.exit("the client hangs: it did not end within five minutes after the run")
        time.sleep(1)
    summary = json.loads(client.stdout.read())
    seconds = time.monotonic() - started
    stats = json.load(urllib.request.urlopen(f"{url}/stats"))["totals"]
    server.terminate()
    outcomes = summary["outcomes"]
    failed, retried = sum(outcomes["failed"].values()), sum(outcomes["retried"].values())
    attempts = outcomes["completed"] + failed + retried + outcomes["cancelled"] + outcomes["lost"]
    connect = sum(outcomes[kind].get("connect", 0) for kind in ("failed", "retried"))
    print(f"{seconds:.0f} s, exit code {client.returncode}")
    print(f"records {summary['total_queries']}: {outcomes['completed']} completed, {failed} failed; {retried} retries")
    print(f"failed by kind: {json.dumps(outcomes['failed'])}")
    print(f"attempts {attempts}, of which {connect} could not connect; the server received {stats['requests']}")
    growth = {}
    for name, values in memory.items():
        growth[name] = quarter(values, 4) - quarter(values, 2)
        print(f"memory of the {name}: {quarter(values, 2):.1f} MB in the second quarter, {quarter(values, 4):.1f} MB in the last, peak {max(values):.1f} MB")
    wrong = []
    if client.returncode not in (0, 3):
        wrong.append(f"exit code {client.returncode}: {client.stderr.read()[-500:]}")
    if outcomes["cancelled"] or outcomes["lost"] or summary["total_queries"] != outcomes["completed"] + failed:
        wrong.append("requests are missing")
    # Only one side may have counted a request on a connection that the server refused or was closing.
    if abs(attempts - connect - stats["requests"]) > 0.001 * attempts + 5:
        wrong.append("client and server counted different numbers of requests")
    if growth["client"] > 20:
        wrong.append("the memory of the client grows")
    sys.exit("; ".join(wrong) or None)


if __name__ == "__main__":
    main()
