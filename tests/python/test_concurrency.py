"""Threads, forks and Ctrl-C around a native call. Each case is a process of its own, ended if it hangs."""

from __future__ import annotations

import os
import textwrap

import ergometer
import pytest
from other_process import run_python

# No thread is made to give way for so long: others run when a native call lets go of Python's lock, or not at all.
UNDISTURBED = "sys.setswitchinterval(3600)"


@pytest.fixture
def pipe(tmp_path):
    """A named pipe: to read it takes until somebody has written all of it."""
    path = tmp_path / "pipe.xplane.pb"
    os.mkfifo(path)
    return path


def test_a_thread_of_python_can_write_what_is_being_read(pipe, autotune_trace):
    """It could not if the reader kept Python's lock while it waits."""
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


def test_other_threads_run_while_a_long_trace_is_read_and_made_into_a_table(long_trace):
    script = f"""
        import sys, threading, time
        import ergometer

        turns = 0
        is_over = False

        def turn():
            global turns
            while not is_over:
                turns += 1
                time.sleep(0)  # lets go of the lock, as nobody may take it away

        other = threading.Thread(target=turn)
        other.start()
        data = open(sys.argv[1], "rb").read()
        {UNDISTURBED}

        def does_let_others_run(call):
            # On a busy machine a turn may come later than the end of one call.
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


# Sends Ctrl-C to itself as soon as the main thread lets go of Python's lock, which it does in the next native call.
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


def test_ctrl_c_ends_a_read_that_would_never_end(pipe):
    """Nobody writes into the pipe, so only the signal can have ended the call."""
    script = """
        is_about_to_read.set()
        try:
            ergometer.read_trace(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        # What still waits for the pipe does not keep the process.
        os._exit(0)
    """
    assert run_python(INTERRUPT + textwrap.dedent(script), pipe) == "interrupted\n"


def test_after_ctrl_c_the_next_read_is_whole(long_trace, autotune_trace):
    script = """
        is_about_to_read.set()
        try:
            # The signal comes in one of these; on a busy machine not always in the first.
            for _ in range(50):
                ergometer.read_trace(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted")
        print(ergometer.read_trace(sys.argv[2]).functions()["id"])
    """
    assert run_python(INTERRUPT + textwrap.dedent(script), long_trace, autotune_trace) == "interrupted\n[0, 1, 2, 3]\n"


def test_a_handler_of_ones_own_is_called_and_may_let_the_call_go_on(long_trace):
    script = """
        heard = []
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        is_about_to_read.set()
        lengths = []
        while not heard and len(lengths) < 50:
            lengths.append(len(ergometer.read_trace(sys.argv[1])))
        print(heard == [signal.SIGINT], set(lengths) == {int(sys.argv[2])})
    """
    events = len(ergometer.read_trace(long_trace))
    assert run_python(INTERRUPT + textwrap.dedent(script), long_trace, events) == "True True\n"


def test_reading_in_a_thread_that_is_not_the_main_one(autotune_trace):
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
def test_children_read_after_their_parent_did(autotune_trace, method):
    """The parent's threads are not in a child that was forked: it needs some of its own."""
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


def test_a_child_uses_a_trace_of_its_parent(autotune_trace):
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


def test_a_process_ends_in_good_order_with_everything_still_in_use(autotune_trace):
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
