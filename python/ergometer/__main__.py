"""The `ergo` command, also available as `python -m ergometer`."""

from __future__ import annotations

import signal
import sys

from ergometer._native import run_command


def main() -> int:
    """Runs `ergo` with the arguments of this process and returns its exit code."""
    # `ergo` handles Ctrl-C itself; Python's handler would raise KeyboardInterrupt after `ergo` has finished.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["ergo", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
