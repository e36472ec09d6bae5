"""The `ergo` command: `python -m ergometer` is the same."""

from __future__ import annotations

import signal
import sys

from ergometer._native import run_command


def main() -> int:
    """Runs `ergo` with the arguments of this process and returns its exit code."""
    # The command has handlers of its own: Python's would raise KeyboardInterrupt after it ended in good order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["ergo", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
