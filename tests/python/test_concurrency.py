"""Threads, forks and Ctrl-C during native calls. Each test runs in a separate process with a timeout."""

from __future__ import annotations

import os
import textwrap

import ergometer
import pytest
from subprocess_python import run_python

# Disables thread switching: other threads run only while a native call releases Python's global lock.
UNDISTURBED = "sys.setswitchinterval(3600)"


@pytest.fixture
def pipe(tmp_path):
    """A named pipe: reading it blocks until a writer has written and closed it."""
    path = tmp_path / "pipe.xplane.pb"
    os.mkfifo(path)
    return path


def test_a_python_thread_can_write_to_a_pipe_that_is_being_read(pipe, autotune_trace):
    """This would hang if the reader kept Python's global lock while it waits."""
    script = """
        import sys, threading
        import ergometer

        source, pipe = sys.argv[1:]
        data = open(source, "rb").read()

        def write():
            with open(pipe, "wb") as file:
                for start in range(0, len(data), 1000):
                    file.write(data[start : start + 1000])

        threading.Thread(target=write).start()
        print(ergometer.read_trace(pipe).ops().to_pylist() == ergometer.read_trace(source).ops().to_pylist())
    """
    assert run_python(script, autotune_trace, pipe) == "True\n"


def test_other_threads_run_during_long_calls(long_trace):
    script = f"""
        import sys, threading, time
        import ergometer

        turns = 0
        is_over = False

        def turn():
            global turns
            while not is_over:
                turns += 1
                time.sleep(0)  # releases the lock, because thread switching is disabled

        other = threading.Thread(target=turn)
        other.start()
        data = open(sys.argv[1], "rb").read()
        {UNDISTURBED}

        def does_let_others_run(call):
            # On a busy machine the other thread may run only after the end of a call.
            before = turns
            return any(call() and turns > before for _ in range(50))

        trace = ergometer.read_trace(data)
        print("reading", does_let_others_run(lambda: ergometer.read_trace(data)))
        print("events", does_let_others_run(trace.events))
        print("ops", does_let_others_run(trace.ops))
        is_over = True
        other.join()
    """
    assert run_python(script, long_trace) == "reading True\nevents True\nops True\n"


# Sends Ctrl-C to itself as soon as the main thread releases Python's global lock, in the next native call.
INTERRUPT = f"""
import os, signal, sys, threading
import ergometer

is_about_to_read = threading.Event()

def interrupt():
    is_about_to_read.wait()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
{UNDISTURBED}
"""


def test_ctrl_c_interrupts_a_blocked_read(pipe):
    """Nothing writes to the pipe, so only the signal can end the call."""
    script = """
        is_about_to_read.set()
        try:
            ergometer.read_trace(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        # The thread that still waits for the pipe does not keep the process alive.
        os._exit(0)
    """
    assert run_python(INTERRUPT + textwrap.dedent(script), pipe) == "interrupted\n"


def test_the_next_read_after_ctrl_c_is_complete(long_trace, autotune_trace):
    script = """
        is_about_to_read.set()
        try:
            # The signal arrives in one of these calls; on a busy machine not always in the first.
            for _ in range(50):
                ergometer.read_trace(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted")
        print(ergometer.read_trace(sys.argv[2]).functions()["id"])
    """
    assert run_python(INTERRUPT + textwrap.dedent(script), long_trace, autotune_trace) == "interrupted\n[0, 1, 2, 3]\n"


def test_a_custom_signal_handler_can_let_the_call_continue(long_trace):
    script = """
        received = []
        signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
        is_about_to_read.set()
        lengths = []
        while not received and len(lengths) < 50:
            lengths.append(len(ergometer.read_trace(sys.argv[1])))
        print(received == [signal.SIGINT], set(lengths) == {int(sys.argv[2])})
    """
    events = len(ergometer.read_trace(long_trace))
    assert run_python(INTERRUPT + textwrap.dedent(script), long_trace, events) == "True True\n"


def test_reading_in_another_thread(autotune_trace):
    script = """
        import sys, threading
        import ergometer

        found = []
        thread = threading.Thread(target=lambda: found.append(len(ergometer.read_trace(sys.argv[1]))))
        thread.start()
        thread.join()
        print(found[0] > 0)
    """
    assert run_python(script, autotune_trace) == "True\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes_read_after_their_parent(autotune_trace, method):
    """A forked child does not have the threads of its parent: it needs its own."""
    script = """
        import multiprocessing, sys
        import ergometer

        def read(path):
            trace = ergometer.read_trace(path)
            return len(trace), trace.ops().to_pylist()

        if __name__ == "__main__":
            path, method = sys.argv[1:]
            here = read(path)
            with multiprocessing.get_context(method).Pool(2) as pool:
                print(pool.map(read, [path] * 4, chunksize=1) == [here] * 4)
    """
    assert run_python(script, autotune_trace, method) == "True\n"


def test_a_forked_child_uses_a_trace_of_its_parent(autotune_trace):
    script = """
        import os, sys
        import ergometer

        trace = ergometer.read_trace(sys.argv[1])
        expected = trace.ops().to_pylist()
        child = os.fork()
        if child == 0:
            same = trace.ops().to_pylist() == expected and trace.events().num_rows == len(trace)
            os._exit(0 if same else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_python(script, autotune_trace) == "0\n"


def test_a_process_exits_cleanly_with_objects_in_use(autotune_trace):
    script = """
        import sys
        import ergometer

        trace = ergometer.read_trace(sys.argv[1])
        events = iter(trace.planes[0].lines)
        capsule = trace.events().__arrow_c_stream__()
        everything = [trace, events, capsule]
        everything.append(everything)
    """
    assert run_python(script, autotune_trace) == ""
