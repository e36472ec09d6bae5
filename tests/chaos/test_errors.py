"""Makes system calls of `ergo profile` fail: no panic, a clear error, no loss, and a resumption completes the run."""

import errno
from collections import Counter
from dataclasses import replace

import pytest
from processes import Injection, sites
from run_folder import lines_of
from scripted_server import Answers
from together import run_together
from trial import SOME_FAILED, Trial

# Errors that each call can return. A full disk has its own test.
ERRORS = {
    "open": [errno.EMFILE, errno.EACCES],
    "open_read": [errno.EMFILE],
    "read": [errno.EIO],
    "write": [errno.EIO],
    "rename": [errno.EIO],
    "fsync": [errno.EIO],
    "fdatasync": [errno.EIO],
    "ftruncate": [errno.EIO],
    "mkdir": [errno.EACCES],
    "unlink": [errno.EIO],
    "rmdir": [errno.EIO],
    "flock": [errno.ENOLCK],
}

# Errors of calls without a path.
RESOURCES = {
    "socket": errno.EMFILE,
    "connect": errno.ECONNREFUSED,
    "pipe2": errno.EMFILE,
    "socketpair": errno.EMFILE,
    "epoll_create1": errno.EMFILE,
    "eventfd": errno.EMFILE,
    "pthread_create": errno.EAGAIN,
}


# Calls that need space on the disk.
FULL_DISK = "open,write,mkdir,rename"

# Ends the first session of a run that is resumed.
FIRST_KILL = Injection("write", "kill_before", "/session-0.events.jsonl", nth=3)


def few(found):
    """The first and one of the last calls with the same function and file. How many there are depends on timers."""
    groups = {}
    for site in found:
        groups.setdefault((site.calls, site.part), []).append(site)
    return [group[index] for group in groups.values() for index in sorted({0, 2 * len(group) // 3})]


def new_trial(tools, folder, options):
    """A trial that takes long enough for several writes."""
    return Trial(tools, folder, answers=Answers(pause_s=0.004, has_usage=not options.get("has_judge")), **options)


def calls_of(tools, folder, calls, is_resumed=False, **options):
    """The calls of a run that is not disturbed."""
    trial = new_trial(tools, folder, options)
    if is_resumed:
        assert trial.attempt(FIRST_KILL).is_killed
    ended = trial.attempt(Injection(calls))
    assert ended.code == 0, ended
    trial.check_files()
    return ended.calls


def check_journal(trial, ended):
    """Each write before the error added at least one line to the journal, and these lines are still there."""
    for path in trial.run.glob("journal/session-*.events.jsonl") if trial.run else ():
        written = ended.calls[: ended.calls.index(ended.hit)].count(f"write {path}")
        assert len(lines_of(path)) >= written, f"{path} has lost lines\n{ended}"


def check_error(trial, injection, is_resumed):
    """Injects an error, checks how the run ends, and completes it. Returns the call that failed."""
    if is_resumed:
        assert trial.attempt(FIRST_KILL).is_killed
    first = trial.attempt(injection)
    assert first.code in (0, 1, SOME_FAILED), first
    assert len(first.error_lines) == (first.code == 1), f"an error is one line that says what failed\n{first}"
    if first.hit:
        check_journal(trial, first)
    if first.code != 1:
        trial.check_files()
    # A request that failed is not sent again, so the run still has a failure.
    last = trial.attempt()
    assert last.code == 0 or (last.code == SOME_FAILED and first.hit), last
    assert not last.error_lines, last
    trial.check_files()
    trial.close()
    return first.hit


def check_all(tools, folder, cases):
    """Checks the cases: an injection and the options of a trial. Returns how many errors were injected."""
    hits, left = Counter(), list(enumerate(cases))

    def next_trial():
        if not left:
            return None
        number, (injection, is_resumed, options) = left.pop()

        def check():
            trial = new_trial(tools, folder / str(number), options)
            try:
                return check_error(trial, injection, is_resumed)
            except Exception as error:
                raise AssertionError(f"{injection} in {trial.folder}\n{error!r}\n{error}") from error

        return check

    failures = run_together(next_trial, lambda hit: hits.update([hit is not None]))
    assert not failures, "\n\n".join(failures)
    return hits[True]


def file_errors(found):
    """The errors of these calls."""
    return [replace(site, action="error", errno=number) for site in few(found) for number in ERRORS[site.calls]]


# Parts of the names of the files in which the kinds of runs differ.
FILES = {"new": "", "resumed": "session-1", "judged": "after.jsonl"}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_written_is_an_error(tools, tmp_path, kind):
    is_resumed, options = kind == "resumed", {"has_judge": kind == "judged"}
    found = sites(calls_of(tools, tmp_path / "example", "files", is_resumed, **options))
    cases = [(injection, is_resumed, options) for injection in file_errors(found) if FILES[kind] in injection.part]
    assert check_all(tools, tmp_path, cases) > 0.8 * len(cases)


def test_a_file_that_cannot_be_read_is_an_error(tools, tmp_path):
    found = sites(calls_of(tools, tmp_path / "example", "read,open_read", is_resumed=True))
    cases = [(injection, True, {}) for injection in file_errors(found)]
    assert check_all(tools, tmp_path, cases) > 0.8 * len(cases)


def test_a_full_disk_is_an_error_at_any_time(tools, tmp_path):
    calls = calls_of(tools, tmp_path / "example", FULL_DISK)
    injections = [Injection(FULL_DISK, "error", "", nth, errno.ENOSPC, True) for nth in range(1, len(calls) - 12, 3)]
    assert check_all(tools, tmp_path, [(injection, False, {}) for injection in injections]) == len(injections)


def test_a_lack_of_resources_is_an_error(tools, tmp_path):
    cases = []
    for function, number in RESOURCES.items():
        calls = calls_of(tools, tmp_path / function, function)
        cases += [(Injection(function, "error", "", nth + 1, number), False, {}) for nth in range(len(calls))]
        # From the first, a middle or the last call on, all fail.
        later = {1, len(calls) // 2, len(calls)} - {0}
        cases += [(Injection(function, "error", "", nth, number, True), False, {}) for nth in sorted(later) if calls]
    assert check_all(tools, tmp_path, cases) > 0.8 * len(cases)


def check_repeated(tools, folder, injections):
    """Checks that a run is complete though these calls did less than they were asked to."""
    left = list(enumerate(injections))

    def next_trial():
        if not left:
            return None
        number, injection = left.pop()

        def check():
            trial = Trial(tools, folder / str(number))
            ended = trial.attempt(injection)
            assert ended.code == 0 and not ended.error_lines, f"{injection}\n{ended}"
            trial.check_files()
            trial.close()

        return check

    failures = run_together(next_trial, lambda _: None)
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("change", [{"action": "short"}, {"action": "error", "errno": errno.EINTR}])
def test_short_and_interrupted_calls_are_repeated(tools, tmp_path, change):
    found = few(sites(calls_of(tools, tmp_path / "example", "write,read")))
    check_repeated(tools, tmp_path, [replace(site, **change) for site in found])
