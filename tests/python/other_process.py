"""Python in a process of its own, where nothing is imported yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python"


def run_python(script: str) -> str:
    """What the script printed. The test fails where it does."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PACKAGE)]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
