"""Runs several trials at the same time."""

from concurrent.futures import ThreadPoolExecutor, as_completed

# Most of the time a trial waits for timers of ergo.
TRIALS_TOGETHER = 8

# No trial is started after this many failures.
MOST_FAILURES = 5


def run_together(next_trial, take):
    """Runs the functions that `next_trial` returns, until it returns None. `take` gets their results.

    Returns the messages of the trials that failed.
    """
    failures, running = [], set()
    with ThreadPoolExecutor(TRIALS_TOGETHER) as pool:
        while True:
            while len(running) < TRIALS_TOGETHER and len(failures) < MOST_FAILURES and (trial := next_trial()):
                running.add(pool.submit(trial))
            if not running:
                return failures
            done = next(as_completed(running))
            running.remove(done)
            try:
                take(done.result())
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
