"""Reads run folders without any code of ergo, and checks them against the dataset, the server and the meter."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

# The power of the meter of the tests, which never changes.
METER_W = 100.0


@dataclass
class Session:
    """The events of one session of a journal."""

    sent: list[dict] = field(default_factory=list)
    ended: list[dict] = field(default_factory=list)
    closing: str | None = None

    @property
    def lost(self):
        """The requests without an end."""
        ended = {event["request"] for event in self.ended}
        return [event for event in self.sent if event["request"] not in ended]

    @property
    def settled(self):
        """The requests that are the record of their query, or would be without an earlier one."""
        return [event for event in self.ended if is_settled(event)]


def is_settled(event):
    return not event.get("is_retried") and event["outcome"]["is"] in ("completed", "failed")


def lines_of(path):
    """The complete lines of a file of JSON lines; a kill may cut the last one."""
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text.split(b"\n")[:-1]]


@dataclass
class Journal:
    """The journal of a run folder."""

    sessions: dict[int, Session] = field(default_factory=dict)
    counted: set[tuple[int, int]] = field(default_factory=set)
    judged: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def read(cls, run):
        journal = cls()
        for path in (run / "journal").glob("session-*.events.jsonl"):
            session = journal.sessions[int(path.name.split(".")[0].removeprefix("session-"))] = Session()
            for line in lines_of(path):
                ((kind, event),) = line.items()
                if kind == "sent":
                    session.sent.append(event)
                elif kind == "ended":
                    session.ended.append(event)
                elif kind == "closed":
                    session.closing = event
        for line in lines_of(run / "journal" / "after.jsonl"):
            for kind, known in (("counted", journal.counted), ("judged", journal.judged)):
                if kind in line:
                    known.add((line[kind]["session"], line[kind]["request"]))
        return journal

    def ended(self):
        """All requests that ended, by session and number."""
        return {
            (number, event["request"]): event for number, session in self.sessions.items() for event in session.ended
        }

    def records(self):
        """The record of each query: its first settled request."""
        records = {}
        for number in sorted(self.sessions):
            for event in sorted(self.sessions[number].settled, key=lambda event: event["request"]):
                records.setdefault(event["query"]["index"], (number, event))
        return records


def read_json(path):
    return json.loads(path.read_text())


def read_records(run):
    """The records, from the files that `state.json` lists."""
    (file,) = read_json(run / "state.json")["_data_files"]
    with pa.OSFile(str(run / file["filename"])) as source:
        return pa.ipc.open_stream(source).read_all().to_pylist()


def close_to(left, right):
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


def check_run(run, problems, is_complete=True):
    """Checks all files of a run with these problems; returns its summary. Without all records it is not complete."""
    summary = read_json(run / "summary.json")
    journal = Journal.read(run)
    assert summary["complete"] is is_complete, summary["closing"]
    assert summary["output_dir"] == str(run)
    records = read_records(run)
    indices = range(len(problems)) if is_complete else sorted(journal.records())
    expected = [problems[index] for index in indices]
    written = [record["problem"] for record in records]
    assert written == expected, "each query has one record, in the order of the dataset"
    check_records(records, journal, summary["model"])
    check_requests(run, journal)
    check_outcomes(summary, records, journal)
    check_load(run, summary)
    check_balance(summary, records)
    check_leftovers(run)
    return summary


def check_records(records, journal, model):
    """The records are the requests of the journal, with their texts."""
    expected = journal.records()
    assert len(records) == len(expected), "the journal and the records have different queries"
    for record, index in zip(records, sorted(expected), strict=True):
        session, event = expected[index]
        own = record["ergometer"]
        assert (own["query_index"], own["session"], own["request"]) == (index, session, event["request"])
        assert own["outcome"] == event["outcome"]["is"]
        text = event["text"] if own["outcome"] == "completed" else None
        assert record["model_answers"][model] == text, (record["model_answers"], event)
        assert (own["sent_ns"], own["end_ns"]) == (event["sent_ns"], event["end_ns"])


def check_requests(run, journal):
    """Every request of the journal is one row, and its outcome is known."""
    rows = pq.read_table(run / "requests.parquet").to_pylist()
    written = Counter((row["session"], row["request"], row["query_index"], row["outcome"]) for row in rows)
    expected = Counter(
        (number, event["request"], event["query"]["index"], event["outcome"]["is"])
        for (number, _), event in journal.ended().items()
    )
    expected += Counter(
        (number, event["request"], event["index"], "lost")
        for number, session in journal.sessions.items()
        for event in session.lost
    )
    assert written == expected
    assert max(written.values()) == 1, "no request is counted twice"


def check_outcomes(summary, records, journal):
    outcomes = summary["outcomes"]
    kinds = Counter(record["ergometer"]["outcome"] for record in records)
    assert summary["total_queries"] == len(records)
    assert (outcomes["completed"], sum(outcomes["failed"].values())) == (kinds["completed"], kinds["failed"])
    assert outcomes["completed"] + sum(outcomes["failed"].values()) == len(records)
    assert outcomes["lost"] == sum(len(session.lost) for session in journal.sessions.values())
    others = [event for event in journal.ended().values() if not is_settled(event)]
    assert sum(outcomes["retried"].values()) == sum(bool(event.get("is_retried")) for event in others)
    assert outcomes["cancelled"] == sum(event["outcome"]["is"] == "cancelled" for event in others)
    assert summary["sessions"] == len(journal.sessions)


def check_load(run, summary):
    bins = read_json(run / "analysis" / "load.json")["bins"]
    assert sum(part["completed"] for part in bins) == summary["outcomes"]["completed"]
    assert sum(part["failed"] for part in bins) == sum(summary["outcomes"]["failed"].values())


def check_balance(summary, records):
    """Every joule of the meter is used once."""
    energy = summary["energy"]
    balances = [energy[source]["balance"] for source in ("measured", "modelled") if energy[source]]
    balances += [device["balance"] for device in energy["devices"] if device["balance"]]
    for balance in balances:
        parts = balance["requests_j"] + balance["idle_j"] + balance["unattributed_j"]
        assert close_to(parts, balance["meter_j"]), balance
        assert balance["meter_j"] >= 0 and balance["unknown_s"] >= 0, balance
    if energy["measured"]:
        known = [record["ergometer"]["energy"]["measured"] for record in records]
        joules = sum(part["gross"]["joules"] for part in known if part and part["gross"]["joules"] is not None)
        balance = energy["measured"]["balance"]
        assert close_to(joules + balance["retried_j"], balance["requests_j"] - balance["unrecorded_j"]), balance
        without = sum(part is None or part["gross"]["joules"] is None for part in known)
        assert without == energy["queries_without_energy"]
        assert abs(energy["measured"]["mean_power_w"] - METER_W) < 0.01 * METER_W
        assert close_to(energy["measured"]["gross_j"]["value"], balance["meter_j"])


def check_leftovers(folder):
    """No temporary file or folder is left."""
    left = [str(path) for path in folder.rglob("*") if path.name.endswith((".partial", ".new", ".old"))]
    assert not left, f"temporary files are left: {left}"


def stage_of(run):
    """Where a run was when it was killed."""
    if not (run / "journal" / "run.json").exists():
        return "before run.json"
    if (run / "summary.json").exists() and read_json(run / "summary.json").get("complete"):
        return "after"
    sessions = Journal.read(run).sessions
    if sessions and sessions[max(sessions)].closing:
        return "while finishing"
    return "while running"
