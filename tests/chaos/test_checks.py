"""The checks of these tests object to damaged runs, to repeated requests and to kills that hit nothing."""

import errno
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import Ended, Injection, Moment
from run_folder import Journal, check_run, read_json
from scripted_server import Request
from trial import Trial

EVENTS = "journal/session-0.events.jsonl"
RECORDS = "data-00000-of-00001.arrow"


@pytest.fixture(scope="module")
def trial(tools, tmp_path_factory):
    """A trial whose run is complete."""
    trial = Trial(tools, tmp_path_factory.mktemp("checks") / "trial")
    trial.complete()
    return trial


@pytest.fixture
def run(trial, tmp_path):
    """A copy of its run, which names its new path."""
    folder = Path(shutil.copytree(trial.run, tmp_path / trial.run.name))
    change_summary(folder, lambda summary: summary.update(output_dir=str(folder)))
    check_run(folder, trial.problems)
    return folder


def change_summary(run, change):
    summary = read_json(run / "summary.json")
    change(summary)
    (run / "summary.json").write_text(json.dumps(summary))


def change_lines(path, change):
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def last_ended(lines):
    """The place of the last request that ended."""
    return max(place for place, line in enumerate(lines) if line.startswith('{"ended"'))


def delete_request(lines):
    return [line for place, line in enumerate(lines) if place != last_ended(lines)]


def repeat_request(lines):
    """The last request once more, with another number."""
    line = json.loads(lines[last_ended(lines)])
    line["ended"]["request"] = 99
    return [*lines, json.dumps(line) + "\n"]


def change_text(lines):
    place = last_ended(lines)
    return [line.replace("answer", "other") if place == at else line for at, line in enumerate(lines)]


def first_twice(table):
    return pa.concat_tables([table, table.slice(0, 1)])


def change_records(run, change):
    with pa.OSFile(str(run / RECORDS)) as source:
        table = change(pa.ipc.open_stream(source).read_all())
    with pa.OSFile(str(run / RECORDS), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def add_joule(summary):
    summary["energy"]["measured"]["balance"]["idle_j"] += 1


def change_requests(run, change):
    table = pq.read_table(run / "requests.parquet")
    pq.write_table(change(table), run / "requests.parquet")


DAMAGES = {
    "a request is missing in the journal": lambda run: change_lines(run / EVENTS, delete_request),
    "a request is twice in the journal": lambda run: change_lines(run / EVENTS, repeat_request),
    "a request has another text in the journal": lambda run: change_lines(run / EVENTS, change_text),
    "a record is missing": lambda run: change_records(run, lambda table: table.slice(1)),
    "a record is there twice": lambda run: change_records(run, first_twice),
    "the records have another order": lambda run: change_records(run, lambda table: table.take([1, 0, *range(2, 12)])),
    "a row is missing": lambda run: change_requests(run, lambda table: table.slice(1)),
    "a row is there twice": lambda run: change_requests(run, first_twice),
    "the run is not complete": lambda run: change_summary(run, lambda summary: summary.update(complete=False)),
    "the balance has a joule more": lambda run: change_summary(run, add_joule),
    "an outcome is not counted": lambda run: change_summary(
        run, lambda summary: summary["outcomes"].update(completed=11)
    ),
    "a temporary file is left": lambda run: (run / ".summary.json.0123456789abcdef.partial").touch(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_noticed(run, trial, damage):
    DAMAGES[damage](run)
    with pytest.raises(AssertionError):
        check_run(run, trial.problems)


def test_a_request_that_disappears_from_the_journal_is_noticed(tools, tmp_path):
    trial = Trial(tools, tmp_path / "trial")
    assert trial.attempt(Injection("rename", "kill_before", "/summary.json", nth=1)).is_killed
    before = trial.journals()
    change_lines(trial.run / EVENTS, delete_request)
    with pytest.raises(AssertionError, match="a request was lost"):
        trial.check_step(before, [], Ended([], 0, "", ""))
    # ergo notices it too: it sends the query again, which completes the run.
    trial.complete()
    chats = [request.query for request in trial.server.requests if request.kind == "chat"]
    assert len(chats) == len(trial.problems) + 1


def test_a_request_that_is_sent_again_is_noticed(trial):
    repeated = Request("/v1/chat/completions", "ergometer-0", {}, query=0)
    with pytest.raises(AssertionError):
        trial.check_step(trial.journals(), [repeated], Ended([], 0, "", ""))


def test_a_request_that_the_server_never_got_is_noticed(trial):
    seen = [request for request in trial.server.requests if request.query != 0]
    with pytest.raises(AssertionError):
        trial.check_step({}, seen, Ended([], 0, "", ""))


def test_a_kill_after_the_end_does_not_count(tools, tmp_path):
    trial = Trial(tools, tmp_path / "trial")
    ended = trial.attempt(kill=Moment(seconds=30))
    assert ended.code == 0 and not trial.stages
    assert trial.attempt(kill=Moment()).is_killed and len(trial.stages) == 1


def test_injections_hit_what_they_should(tools, tmp_path):
    trial = Trial(tools, tmp_path / "trial")
    ended = trial.attempt(Injection("write", "kill_short", f"/{Path(EVENTS).name}", nth=1))
    assert ended.is_killed and ended.hit.startswith("write ") and len(ended.calls) == 1
    text = (trial.run / EVENTS).read_text()
    assert text.startswith('{"session"') and not text.endswith("\n"), "half of the first line was written"
    ended = trial.attempt(Injection("open", "error", "/session-1.events.jsonl", 1, errno.EACCES))
    assert ended.code == 1 and "Permission denied" in ended.errors and ended.hit.startswith("open ")
    trial.complete()
    assert list(Journal.read(trial.run).sessions) in ([0, 1], [1, 0])
