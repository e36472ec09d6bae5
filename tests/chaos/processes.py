"""Starts `ergo` with changed system calls, and chooses the calls to change."""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripted_server import DEADLINE_S


@dataclass
class Tools:
    """What all trials share."""

    ergo: Path
    library: Path
    meter: Path
    events: object


@dataclass(frozen=True)
class Injection:
    """A change of a system call; inject.c explains the fields."""

    calls: str
    action: str = "nothing"
    part: str = ""
    nth: int = 0
    errno: int = 0
    repeats: bool = False

    def environment(self, library, root, log):
        return {
            "LD_PRELOAD": str(library),
            "CHAOS_ROOT": str(root),
            "CHAOS_CALLS": self.calls,
            "CHAOS_PATH": self.part,
            "CHAOS_NTH": str(self.nth),
            "CHAOS_ACTION": self.action,
            "CHAOS_ERRNO": str(self.errno),
            "CHAOS_REPEAT": str(int(self.repeats)),
            "CHAOS_LOG": str(log),
        }

    def __str__(self):
        error = f" {self.errno}" if self.errno else ""
        return f"{self.action}{error} at call {self.nth} of {self.calls} {self.part}{' and later ones' * self.repeats}"


@dataclass(frozen=True)
class Moment:
    """A moment in the life of a process: after some time, and then after some requests that the server got."""

    seconds: float = 0.0
    requests: int = 0

    def wait(self, process, server):
        wanted = len(server.requests) + self.requests
        end = time.monotonic() + DEADLINE_S
        while process.poll() is None and len(server.requests) < wanted and time.monotonic() < end:
            time.sleep(0.0005)
        end = time.monotonic() + self.seconds
        while process.poll() is None and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.01))

    def __str__(self):
        return f"after {self.requests} requests and {self.seconds:.4f} s"


@dataclass
class Ended:
    """A process that has ended."""

    arguments: list[str]
    code: int
    output: str
    errors: str
    # The calls that were counted, and the first that was changed.
    calls: list[str] = field(default_factory=list)
    hit: str | None = None

    @property
    def is_killed(self):
        return self.code == -signal.SIGKILL

    @property
    def error_lines(self):
        return [line for line in self.errors.splitlines() if line.startswith("error:")]

    def __str__(self):
        hit = f", injected at {self.hit}" if self.hit else ""
        return f"exit code {self.code} of ergo {' '.join(self.arguments)}{hit}\n{self.errors}"


class Process:
    """A process of `ergo` that is running."""

    def __init__(self, tools, arguments, folder, injection=None, root=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CHAOS_")}
        self.log = None
        if injection:
            self.log = folder / "calls.log"
            self.log.unlink(missing_ok=True)
            environment |= injection.environment(tools.library, root, self.log)
        # Without a standard input it asks nothing.
        self.process = subprocess.Popen(
            [str(tools.ergo), *map(str, arguments)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal_at(self, moment, number, server):
        moment.wait(self.process, server)
        self.process.send_signal(number)

    def wait(self):
        """Waits for the end."""
        try:
            output, errors = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
            raise AssertionError(f"ergo hangs: {self.process.args}\n{errors}") from None
        calls = self.log.read_text().splitlines() if self.log and self.log.exists() else []
        hits = [line.removeprefix("HIT ") for line in calls if line.startswith("HIT ")]
        calls = [line.removeprefix("HIT ") for line in calls]
        return Ended(self.process.args[1:], self.process.returncode, output, errors, calls, hits[0] if hits else None)


def sites(calls):
    """The calls of a process as injections that change nothing yet. Names of temporary files have a random part."""
    found, seen = [], []
    for line in calls:
        function, path = line.split(" ", 1)
        name = re.sub(r"\.[0-9a-f]{16}\.partial$", ".", path.rsplit("/", 1)[-1])
        part = "" if path == "-" else f"/{name}"
        seen.append((function, path))
        nth = sum(function == other and part in where for other, where in seen)
        found.append(Injection(function, part=part, nth=nth))
    return found


def kills(found):
    """The kills at these sites: before each call, and after half of the bytes of each write."""
    before = [replace(site, action="kill_before") for site in found]
    return before + [replace(site, action="kill_short") for site in found if site.calls in ("write", "writev")]
