"""One run or sweep that is killed, or gets errors, and is continued until it is complete.

After every process, the journal is compared with what the server has counted.
"""

import json
import shutil
import signal
from collections import Counter
from pathlib import Path

from processes import Process
from run_folder import Journal, check_leftovers, check_run, read_json, stage_of
from scripted_server import Answers, Server

SOME_FAILED = 3


class Trial:
    """A run with its own folder, dataset and server."""

    def __init__(self, tools, folder, queries=12, concurrency=2, answers=None, arguments=(), turns=1, has_judge=False):
        self.tools, self.folder = tools, Path(folder)
        self.folder.mkdir(parents=True)
        self.problems = [f"query {number}" for number in range(queries)]
        self.server = Server(tools.events, answers or Answers())
        self.runs = self.folder / "runs"
        self.has_judge = has_judge
        # The files of the run that this one has to replace.
        self.old = None
        # Where the run was at each kill.
        self.stages = []
        self.arguments = [
            *("profile", "--dataset", self.write_dataset(turns), "--base-url", self.server.url, "--model", "m"),
            *("--warmup", "0", "--idle", "0s", "--server-metrics", "off", "--output-dir", self.runs, "--no-color"),
            *("--sensor", f"csv[time=time,value=power_w,unit=W,every=40ms]:{tools.meter}", "--device", "meter"),
            *("--no-model", "--concurrency", concurrency, *arguments),
            *(("--dataset-param", "turns=all") if turns > 1 else ()),
            *(("--judge", self.server.url, "--judge-model", "judge") if has_judge else ()),
        ]

    def write_dataset(self, turns):
        path = self.folder / "questions.jsonl"
        rows = [{"problem": problem, "answer": "known"} for problem in self.problems]
        if turns > 1:
            answer = {"from": "gpt", "value": "known"}
            said = [({"from": "human", "value": problem}, answer) for problem in self.problems]
            parts = [said[start : start + turns] for start in range(0, len(said), turns)]
            rows = [{"conversations": [message for turn in part for message in turn]} for part in parts]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def close(self):
        """Ends the server and removes the folder. It stays if a check fails."""
        self.server.close()
        shutil.rmtree(self.folder)

    def replace_copy_of(self, old):
        """Puts a copy of a run or sweep where that of this trial will be, which then has to replace it."""
        self.old = contents(Path(shutil.copytree(old, self.runs / old.name)))
        self.arguments.append("--overwrite")

    @property
    def run(self):
        """The folder of the run or sweep, if it exists and is not the one to replace."""
        folders = [path for path in self.runs.iterdir() if path.name[0] != "."] if self.runs.exists() else []
        assert len(folders) <= 1, folders
        for folder in folders:
            if not self.is_old(folder):
                return folder
        # Killed after the old run was moved aside, and before this one had its name.
        hidden = [] if folders else self.runs.glob(".*.old")
        return next((path.with_name(path.stem[1:]) for path in hidden if path.with_suffix(".new").exists()), None)

    @property
    def files(self):
        """The folder with the files of the run, which is hidden until the run has its name."""
        return self.run if self.run.exists() else self.run.with_name(f".{self.run.name}.new")

    def is_old(self, folder):
        """Whether this is the run to replace, which must not change before it is replaced."""
        manifest = self.manifest(folder)
        name = str(manifest.relative_to(folder))
        if self.old is None or not manifest.exists() or manifest.read_bytes() != self.old[name]:
            return False
        assert contents(folder) == self.old, "the old run was changed before it was replaced"
        return True

    def manifest(self, folder):
        """The file that makes a folder a run."""
        return folder / "journal" / "run.json"

    def is_started(self):
        """Whether there is a run to resume."""
        return self.run is not None and self.manifest(self.files).exists()

    def parts(self):
        """The run folders."""
        return [self.files] if self.run else []

    def journals(self):
        return {part.name.removeprefix(".").removesuffix(".new"): Journal.read(part) for part in self.parts()}

    def stage(self):
        runs = self.parts() or list(self.runs.glob(".*.new"))
        return stage_of(runs[0]) if runs else "before run.json"

    def next_arguments(self):
        """The arguments to continue with: `--resume`, or the first arguments again if there is no run yet."""
        return ["profile", "--no-color", "--resume", self.run] if self.is_started() else self.arguments

    def attempt(self, injection=None, kill=None, interrupt=None):
        """Runs the next command and checks what it sent. Returns how it ended."""
        before, first = self.journals(), len(self.server.requests)
        process = Process(self.tools, self.next_arguments(), self.folder, injection, self.runs)
        if kill:
            process.signal_at(kill, signal.SIGKILL, self.server)
        if interrupt:
            process.signal_at(interrupt, signal.SIGINT, self.server)
        ended = process.wait()
        self.server.settle()
        if ended.is_killed:
            self.stages.append(self.stage())
        assert ended.code != 101 and "panicked" not in ended.errors, ended
        try:
            self.check_step(before, self.server.requests[first:], ended)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{ended}") from error
        return ended

    def check_step(self, before, requests, ended):
        """Checks that nothing in the journal was lost, and that nothing that was recorded was sent again."""
        after = self.journals()
        sent, completed, unseen = Counter(), set(), Counter()
        for name, earlier in before.items():
            later = after.get(name, Journal()).ended()
            assert all(later.get(key) == event for key, event in earlier.ended().items()), "a request was lost"
        for name, journal in after.items():
            earlier = before.get(name, Journal())
            assert earlier.counted <= journal.counted and earlier.judged <= journal.judged, "a result was lost"
            new = [journal.sessions[number] for number in journal.sessions.keys() - earlier.sessions.keys()]
            assert len(new) <= 1, "a process has one session"
            again = {event["index"] for session in new for event in session.sent} & earlier.records().keys()
            assert not again, f"queries {again} have a record, and the journal says that they were sent again"
            sent.update(event["index"] for session in new for event in session.sent)
            completed |= {event["query"]["index"] for session in new for event in session.ended if is_completed(event)}
            unseen.update(event["query"]["index"] for session in new for event in session.ended if is_unseen(event))
            self.check_answers(requests, new, journal)
        chats = Counter(request.query for request in requests if request.kind == "chat")
        assert completed <= chats.keys(), "an answer without a request"
        if ended.is_killed or ended.hit or self.run is None:
            # The last requests may be at the server and not in the journal, or the other way round.
            most = 3 if "--retries" in self.arguments else len(self.parts()) + 1
            surplus = {query: chats[query] - sent[query] for query in chats | sent}
            assert all(abs(number) <= most for number in surplus.values()), surplus
        else:
            assert chats <= sent and sent - unseen <= chats, f"counted by the server: {chats}, by the journal: {sent}"
        if len(after) == 1:
            self.check_repetitions(next(iter(before.values()), Journal()), requests)

    def check_repetitions(self, before, requests):
        """What has a record, was counted or was judged is not asked again."""
        queries = {(number, event["request"]): index for index, (number, event) in before.records().items()}
        for kind, done in (("chat", queries), ("tokenize", before.counted), ("judge", before.judged)):
            again = {queries[key] for key in done} & {request.query for request in requests if request.kind == kind}
            assert not again, f"{kind} of queries {again} was repeated"

    def check_answers(self, requests, sessions, journal):
        """The journal has answers that the server gave, and a further turn was sent with the answers before it."""
        given = {request.answer for request in requests if request.answer}
        texts = {event["text"] for session in sessions for event in session.ended if is_completed(event)}
        assert texts <= given, f"the server did not give these answers: {texts - given}"
        records = journal.records()
        for request in requests:
            if request.kind == "chat" and request.history:
                turns = range(request.query - len(request.history), request.query)
                known = [records[turn][1]["text"] for turn in turns if turn in records]
                assert len(known) < len(request.history) or known == request.history, "other earlier answers were sent"

    def complete(self):
        """Continues without a change, which must complete the run, and checks all of its files."""
        ended = self.attempt()
        assert ended.code == 0 and not ended.error_lines, ended
        try:
            self.check_files()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{ended}") from error

    def check_files(self):
        for part in self.parts():
            summary = check_run(part, self.problems)
            if self.has_judge:
                assert summary["judge"]["judged"] == len(self.problems), summary["judge"]
                judged = Journal.read(part).judged
                assert judged >= {(number, event["request"]) for number, event in Journal.read(part).records().values()}
            completed = {index for index, (_, event) in Journal.read(part).records().items() if is_completed(event)}
            seen = {request.query for request in self.server.requests if request.kind == "chat"}
            assert completed <= seen, f"queries {completed - seen} were never sent"
        check_leftovers(self.runs)

    def finalize(self):
        """Writes the files from the journal and checks them. Those of a complete run must not change."""
        path, records = self.files / "summary.json", Journal.read(self.files).records()
        before = read_json(path) if path.exists() else {}
        ended = Process(self.tools, ["finalize", "--no-color", self.run], self.folder).wait()
        if not records:
            assert ended.code == 1 and len(ended.error_lines) == 1, ended
            return
        summary = check_run(self.run, self.problems, len(records) == len(self.problems))
        has_failures = summary["outcomes"]["failed"] or (self.has_judge and summary["judge"]["unjudged"] > 0)
        assert ended.code == (SOME_FAILED if has_failures else 0), ended
        if before.get("complete"):
            changed = {name for name in before | summary if before.get(name) != summary.get(name)}
            assert changed <= {"generated_at"}, f"finalize changed {changed}"


class SweepTrial(Trial):
    """A sweep of two loads, each of which is a run."""

    def __init__(self, tools, folder, **options):
        super().__init__(tools, folder, concurrency="1,3", **options)

    def parts(self):
        folders = sorted(self.files.glob("concurrency_*")) if self.run else []
        return [folder for folder in folders if super(SweepTrial, self).manifest(folder).exists()]

    def manifest(self, folder):
        return folder / "sweep.json"

    def stage(self):
        stages = [stage_of(part) for part in self.parts()]
        if not stages:
            return "before run.json"
        return "while running" if len(stages) == 1 and stages == ["after"] else stages[-1]

    def check_files(self):
        super().check_files()
        sweep = read_json(self.run / "sweep.json")
        runs = [run for point in sweep["points"] for run in point["runs"]]
        assert len(self.parts()) == len(runs) == 2
        assert sweep["complete"] and all(run["complete"] for run in runs), runs


def contents(folder):
    """The content of every file of a folder, except its locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def is_completed(event):
    return event["outcome"]["is"] == "completed"


def is_unseen(event):
    """Whether the server may not have got the request, because it had closed the connection."""
    return event["outcome"].get("kind") in ("disconnected", "connect")
