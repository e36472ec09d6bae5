"""Writes the valid run of the target `run_folder`, and seeds for the targets except `xspace`, made of `fixtures/`.

    python3 fuzz/make_corpus.py run                  # the journal in fuzz/run
    python3 fuzz/make_corpus.py seeds FOLDER RUN...  # FOLDER/<target>/*; each RUN is a small run folder with a journal
"""

import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
START_NS = 1_800_000_000_000_000_000
MILLISECOND = 1_000_000

# The same order as in the targets.
DATASETS = (
    "table.jsonl table.json table.csv table.tsv table.parquet table.arrow table.feather table "
    "sharegpt.jsonl sharegpt.json sharegpt.parquet sharegpt.arrow "
    "replay.jsonl replay.csv replay.json replay.gz replay.parquet saved folder"
).split()
RUN_FILES = {
    "s": "summary.json",
    "t": "state.json",
    "d": "data-00000-of-00001.arrow",
    "r": "requests.parquet",
    "p": "telemetry.parquet",
    "w": "sweep.json",
    "m": "journal/run.json",
    "e": "journal/session-0.events.jsonl",
    "g": "journal/session-0.readings.jsonl",
    "a": "journal/after.jsonl",
}


def lines(entries):
    return "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries)


def at(time_ms):
    return START_NS + round(time_ms * MILLISECOND)


def request(number, start_ms, **more):
    """An entry of a request that was sent at a time and got a token every 10 ms."""
    tokens = 2 + number % 4
    query = {"index": number, "problem": f"{number} + 1?", "answer": str(number + 1), "subject": "ab"[number % 2]}
    ended = {
        "request": number,
        "session": 0,
        "attempt": 1,
        "query": query,
        "scheduled_ns": at(start_ms - 1),
        "sent_ns": at(start_ms),
        "first_byte_ns": at(start_ms + 20),
        "end_ns": at(start_ms + 20 + 10 * tokens),
        "line": ["http/1.1", None if number else 70_000],
        "chunk_gaps_ns": [20 * MILLISECOND] + [10 * MILLISECOND] * (tokens - 1),
        "text": str(number + number % 3),
        "usage": {"input": 5 + number, "output": tokens, "source": "usage"},
        "finish": "stop",
        "outcome": {"is": "completed"},
    }
    return {"ended": {**ended, **more}}


def events():
    yield {"session": {"session": 0, "started_ns": START_NS}}
    yield {"warmup": {"start_ns": at(1), "end_ns": at(50)}}
    yield {"idle": {"when": "before", "start_ns": at(100), "end_ns": at(300)}}
    failure = {"is": "failed", "kind": "disconnected", "cause": "connection reset"}
    lost = {"chunk_gaps_ns": [], "text": "", "usage": None, "finish": None, "outcome": failure}
    turn = {"index": 6, "problem": "7?", "answer": "7", "subject": "", "output_tokens": 9, "metadata": {"level": 3}}
    several = {
        "chunk_kinds": "rcts",
        "chunk_choices": [0, 0, 1, 1],
        "reasoning": "hm",
        "tool_calls": "f()",
        "server_times_ns": [None, 1000, 2000, 3000],
        "processor_ns": 5000,
        "chunk_gaps_ns": [20 * MILLISECOND, MILLISECOND, MILLISECOND, MILLISECOND],
        "query": {**turn, "turn": {"conversation": 6, "number": 0}},
    }
    special = {
        2: {**lost, "is_retried": True},
        3: {"attempt": 2, "query": request(2, 0)["ended"]["query"]},
        4: lost,
        5: {"usage": None},
        6: several,
        7: {"query": {**turn, "index": 7, "turn": {"conversation": 6, "number": 1, "think_s": 0.5}}},
        9: {"outcome": {"is": "cancelled"}},
    }
    for number in range(10):
        start_ms = 350 + 60 * number
        yield {"sent": {"request": number, "index": number, "sent_ns": at(start_ms)}}
        yield request(number, start_ms, **special.get(number, {}))
    yield {"sent": {"request": 10, "index": 10, "sent_ns": at(980)}}
    connections = {"protocol": "http/1.1", "opened": 1, "reused": 9, "most_open": 1}
    sender = {"start_ns": at(349), "end_ns": at(1000), "processor_s": 0.01, "cores": 1, "machine_utilization": 0.5}
    lag = {"count": 7, "p50": 0.1, "p99": 0.2, "max": 0.2}
    yield {"sender": {**sender, "wake_lag_ms": lag, "most_in_flight": 2, "connections": connections}}
    yield {"idle": {"when": "after", "start_ns": at(1010), "end_ns": at(1200)}}
    yield {"closed": "finished"}


def readings(has_ring=True):
    def channel(device, signal, provenance, period_s, scope="device"):
        names = {"device": device, "scope": scope, "signal": signal, "provenance": provenance}
        return {**names, "update_period": period_s}

    gpu = [
        channel("gpu:0", "energy", "counter", 0.1),
        channel("gpu:0", "power_ring", "sampled_power", 0.02),
        channel("gpu:0", "temperature", "gauge", None),
        channel("gpu:0", "utilization", "gauge", 0.2),
        channel("gpu:0", "throttle_reasons", "gauge", None),
    ]
    cpu = [channel("cpu:0", "power_modelled", "modelled", 0.1, "package")]
    server = [channel("server:0", signal, "gauge", None) for signal in ("requests_running", "kv_cache_use")]
    sensors = [("gpu", "gpu:0", gpu), ("cpu", "cpu:0", cpu), ("metrics:vllm", "server:0", server)]
    described = [
        {"id": name, "name": name, "device": device, "interval_ms": 20.0, "channels": channels}
        for name, device, channels in sensors
    ]
    yield {"format": "ergometer-recording", "version": 1, "sensors": described}
    count, joules = 0, 100.0
    for step in range(31):
        watts = 90.0 + 200.0 * (8 < step < 25) + step % 3
        joules += watts * 0.04
        values = [(1, 0, watts)] if has_ring else []
        if step % 3 == 0:
            values += [(0, 12 * MILLISECOND, round(joules, 3)), (5, 100 * MILLISECOND, 20.0 + step % 4)]
        if step % 8 == 0:
            values += [(2, 0, 40.0 + step / 9), (3, 0, 0.5), (4, 0, 0.0), (6, 0, 1.0), (7, 0, 0.25)]
        for index, early_ns, value in values:
            yield [index, at(40 * step), early_ns, value]
            count += 1
    yield {"event": {"at_ns": at(500), "kind": "samples_lost", "message": "late"}}
    yield {"end": {"readings": count}}


def after():
    usage = {"input": 9, "output": 3, "source": "tokenize"}
    yield {"counted": {"request": 5, "session": 0, "usage": usage}}
    yield {"judged": {"request": 0, "session": 0, "judge": "m", "correct": True, "reply": "yes"}}


def write_run():
    folder = HERE / "run"
    folder.mkdir(exist_ok=True)
    manifest = json.loads((FIXTURES / "runs/v0_1_0_one/journal/run.json").read_text())
    manifest["grader"] = manifest["config"]["grader"] = "exact"
    manifest["config"].update(retries={"most": 1, "backoff_s": 0.005}, slo={"ttft_s": 0.035, "tpot_s": 0.006})
    manifest["config"]["prices"] = {"input_usd_per_million": 1.0, "output_usd_per_million": 2.0}
    manifest["config"]["max_queries"] = 10
    manifest["config_hash"] = "the target computes it"
    manifest["system_info"].update(kernel_version="6", host_name="host")
    (folder / "run.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (folder / "session-0.events.jsonl").write_text(lines(events()))
    # Fitting the ring to the counter takes ten times as long as all the rest.
    (folder / "session-0.readings.jsonl").write_text(lines(readings(has_ring=False)))
    (folder / "after.jsonl").write_text(lines(after()))


def answer_seeds():
    """Recorded responses, without their headers."""
    for path in sorted((FIXTURES / "streams").glob("*/*.http")):
        head, _, body = path.read_bytes().partition(b"\r\n\r\n")
        head = head.lower()
        if b"transfer-encoding: chunked" in head:
            content = b""
            while body:
                length, _, body = body.partition(b"\r\n")
                content, body = content + body[: int(length or b"0", 16)], body[int(length or b"0", 16) + 2 :]
            body = content
        kind = 0 if b"event-stream" in head else 1 if b"application/json" in head else 3
        yield f"{path.parent.name}_{path.stem}", bytes([kind, 7]) + body[:4000]
    reply = {"model": "m", "message": {"role": "assistant", "content": "hi", "thinking": "hm"}, "done": False}
    done = {**reply, "done": True, "done_reason": "stop", "eval_count": 2, "prompt_eval_count": 3, "eval_duration": 9}
    yield "ollama", b"\4\5" + lines([reply, reply, done]).encode()


def recording_seeds(runs):
    yield "native", lines(readings()).encode()
    yield "native_gzip", gzip.compress(lines(readings()).encode(), mtime=0)
    yield "cut", lines(readings()).encode()[:-60]
    for name in ["h200_truth_a", "h200_kernels_a"]:
        raw = json.loads(gzip.decompress((FIXTURES / f"telemetry/{name}.json.gz").read_bytes()))
        raw = {key: value[:30] if isinstance(value, list) else value for key, value in raw.items()}
        yield name, json.dumps(raw, separators=(",", ":")).encode()
    text = gzip.decompress((FIXTURES / "telemetry/h200_stream_b.jsonl.gz").read_bytes()).splitlines(keepends=True)
    yield "h200_stream_b", b"".join(text[:90])
    for number, run in enumerate(runs):
        yield f"run_{number}", (run / "journal/session-0.readings.jsonl").read_bytes()


def dataset_seeds():
    def seed(name, kind, content, parameters=0):
        return name, bytes([DATASETS.index(kind), parameters]) + content

    folder = FIXTURES / "datasets"
    kinds = {".jsonl": "table.jsonl", ".json": "table.json", ".csv": "table.csv", ".tsv": "table.tsv"}
    kinds |= {".parquet": "table.parquet", ".arrow": "table.arrow", ".feather": "table.feather"}
    for number, path in enumerate(sorted(folder.iterdir())):
        if path.suffix in kinds:
            content = path.read_bytes()
            yield seed(path.name, kinds[path.suffix], content, 1 << number % 6)
            yield seed(f"detected_{path.name}", "table", content, 4)
            if path.stem in ("messages", "sharegpt"):
                yield seed(f"turns_{path.name}", f"sharegpt{path.suffix}", content, 16)
    mooncake = [
        {"timestamp": 100 * row, "input_length": 5 + row, "output_length": 3, "hash_ids": [1, row]} for row in range(5)
    ]
    yield seed("mooncake", "replay.jsonl", lines(mooncake).encode(), 32)
    yield seed("mooncake.gz", "replay.gz", gzip.compress(lines(mooncake).encode(), mtime=0), 1)
    yield seed("mooncake.json", "replay.json", json.dumps(mooncake).encode())
    turns = [{"input_tokens": 3, "output_tokens": 2, "delay": 10 * turn, "text": "hi"} for turn in range(3)]
    session = [{"timestamp_s": 2.5, "input_tokens": 4, "output_tokens": 2}, {"timestamp_ms": 7, "turns": turns}]
    yield seed("sessions", "replay.jsonl", lines(session).encode(), 2)
    burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    burst += "".join(f"{5 * row},ChatGPT,{40 + row},{row},60,Conversation log\n" for row in range(5))
    yield seed("burst", "replay.csv", burst.encode(), 1)
    saved = {"s": "saved/state.json", "a": next(p.name for p in (folder / "saved").glob("*.arrow"))}
    state = json.loads((folder / saved["s"]).read_text())
    state["_data_files"] = [{"filename": "data.arrow"}]
    arrow = (folder / "saved" / saved["a"]).read_bytes()
    yield seed("saved", "saved", b"\n@@s" + json.dumps(state).encode() + b"\n@@a" + arrow)
    splits = b'\n@@d{"splits":["test"]}\n@@t' + json.dumps(state).encode() + b"\n@@b" + arrow
    yield seed("splits", "folder", splits, 4)
    parquet = (folder / "snappy.parquet").read_bytes()
    yield seed("parquet_folder", "folder", b"\n@@p" + parquet + b"\n@@r" + parquet)


def journal_seeds(runs):
    for name, text in [("events", lines(events())), ("counts", lines(after()))]:
        yield name, {"events": b"\0", "counts": b"\2"}[name] + b"\1\1" + text.encode()
    yield "written", b"\xfc\0\0" + lines(events()).encode()
    yield "manifest", b"\3\0\0" + (HERE / "run/run.json").read_bytes()
    for number, run in enumerate(runs):
        parts = [(b"\0", "session-0.events.jsonl"), (b"\2", "after.jsonl"), (b"\3", "run.json")]
        for choice, file in parts:
            if (run / "journal" / file).exists():
                yield f"{file}_{number}", choice + b"\2\0" + (run / "journal" / file).read_bytes()


def uncompressed(run, name):
    """A Parquet file of a run whose bytes a mutation reaches."""
    from io import BytesIO

    import pyarrow.parquet

    file = BytesIO()
    table = pyarrow.parquet.read_table(run / f"{name}.parquet")
    pyarrow.parquet.write_table(table, file, compression="none", use_dictionary=["signal"], store_schema=False)
    return file.getvalue()


def run_folder_seeds(runs):
    own = {"m": "run.json", "e": "session-0.events.jsonl", "g": "session-0.readings.jsonl", "a": "after.jsonl"}
    for letter, name in own.items():
        yield f"valid_{letter}", b"\x1c\0\n@@" + letter.encode() + (HERE / "run" / name).read_bytes()
    resumed = lines(events()).replace('"session":0', '"session":1').replace('"index":1,', '"index":21,')
    yield "resumed", b"\x1d\1\n@@f" + resumed.encode() + b"\n@@h" + lines(readings(has_ring=False)).encode()
    for choice in range(29):
        yield f"choice_{choice}", bytes([choice, 7])
    sweep = json.loads((FIXTURES / "runs/h200_sweep/sweep.json").read_text())
    sweep["points"] = sweep["points"][:3]
    for point in sweep["points"]:
        point["runs"] = [{**run, "folder": "../valid"} for run in point["runs"]]
    for choice in (0, 23, 25, 26):
        yield f"sweep_{choice}", bytes([choice, 0]) + b"\n@@w" + json.dumps(sweep).encode()
    for number, run in enumerate(runs):
        journal = [(letter, file) for letter, file in RUN_FILES.items() if letter in "mega" and (run / file).exists()]
        parts = [b"\n@@" + letter.encode() + (run / file).read_bytes() for letter, file in journal]
        yield f"journal_{number}", b"\x1e\0" + b"".join(parts)
        for letter, file in RUN_FILES.items():
            if (run / file).exists() and letter not in "mega":
                choice = 10 * number + ord(letter) % 8
                yield f"{letter}_{number}", bytes([choice, 0]) + b"\n@@" + letter.encode() + (run / file).read_bytes()
    for letter, name in [("r", "requests"), ("p", "telemetry")]:
        yield f"plain_{name}", b"\x18\0\n@@" + letter.encode() + uncompressed(runs[0], name)
    for fixture in ["h200_graded", "mock_limits"]:
        yield fixture, b"\x19\0\n@@s" + (FIXTURES / "runs" / fixture / "summary.json").read_bytes()


def write_seeds(folder, runs):
    targets = {
        "answer": answer_seeds(),
        "recording": [(name, b"\1\1" + content) for name, content in recording_seeds(runs)],
        "dataset": dataset_seeds(),
        "journal": journal_seeds(runs),
        "run_folder": run_folder_seeds(runs),
    }
    for target, seeds in targets.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds:
            (folder / target / name).write_bytes(content)


if sys.argv[1:2] == ["run"]:
    write_run()
else:
    write_seeds(Path(sys.argv[2]), [Path(run) for run in sys.argv[3:]])
