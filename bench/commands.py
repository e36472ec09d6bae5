"""Runs commands and measures them."""

import os
import subprocess
import time


def run(*command):
    """Runs a command. Returns its seconds, its peak memory in MB and its output."""
    started = time.time()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.time() - started, usage.ru_maxrss / 1e3, out
