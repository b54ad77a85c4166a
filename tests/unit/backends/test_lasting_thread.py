"""What starts others is done by one thread, which lasts as long as the process."""

from __future__ import annotations

import os
import threading

import pytest

from fastness.backends.lasting_thread import spawn_in_lasting_thread


def test_it_is_one_thread_for_all_callers() -> None:
    """Whoever asks, and after the thread that asked has ended."""
    found: list[threading.Thread] = []

    def ask() -> None:
        found.append(spawn_in_lasting_thread(threading.current_thread))

    for _ in range(2):
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join()
    ask()
    assert len(set(found)) == 1
    assert found[0].is_alive()
    assert found[0] is not threading.current_thread()


def test_what_it_raises_is_raised_where_it_was_asked_for() -> None:
    """And the thread goes on."""
    thread = spawn_in_lasting_thread(threading.current_thread)

    def fail() -> None:
        raise BlockingIOError(11, "no more processes")

    with pytest.raises(BlockingIOError, match="no more processes"):
        spawn_in_lasting_thread(fail)
    assert spawn_in_lasting_thread(threading.current_thread) is thread


def test_a_forked_child_has_its_own() -> None:
    """The parent's does not exist there."""
    spawn_in_lasting_thread(threading.current_thread)
    pid = os.fork()
    if not pid:
        os._exit(0 if spawn_in_lasting_thread(os.getpid) == os.getpid() else 1)
    assert os.waitpid(pid, 0)[1] == 0
