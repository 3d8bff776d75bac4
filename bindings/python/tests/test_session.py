"""Callbacks, threads, forks, signals, and many elections in one process."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import HERE, start_python, until

import tenure
from tenure import EventKind

TTL = 1.0
ELECTIONS = int(os.environ.get("TENURE_PYTHON_ELECTIONS", "10000"))
GROWTH = 64 << 10  # What the C heap may grow by, in bytes: caches and queues.


def hold_interpreter(url):
    """A callback keeps the interpreter's lock for ten TTLs. Whether the term went on throughout.

    A rival that leads while the term goes on fails the test at once.
    """
    libc = ctypes.PyDLL(None)
    held = threading.Event()
    rival = None

    def hold(_election, event):
        if event.kind == EventKind.WON and not held.is_set():
            libc.usleep(int(10 * TTL * 1e6))
            held.set()

    try:
        with tenure.open(url, ttl=TTL) as t, t.lead("report", wait=30) as term:
            rival = start_python("compete", url, TTL, "report", 10 * TTL)
            assert json.loads(rival.stdout.readline())["ready"]
            number, began = term.number, time.monotonic()
            with t.campaign("other", hold, drained_on_return=True):
                until(held.is_set, 60)
            went_on = term.token == number
            assert time.monotonic() - began >= 10 * TTL, "nothing was held"
            rival_won = json.loads(rival.stdout.readline())["won"]
            assert rival.wait(30) == 0
            assert rival_won == 0 or not went_on, "two leaders"
            return went_on
    finally:
        if rival is not None:
            rival.kill()
            rival.wait()
            rival.stdout.close()


def test_interpreter_held_for_ten_ttls(url):
    """Renewals do not need the interpreter, and no rival wins.

    A machine that gives the library's thread no time for a whole TTL costs a term as well. That
    passes; renewals that need the interpreter would fail every time.
    """
    assert any(hold_interpreter(url) for _ in range(3))


def test_callback_blocks(url):
    """A callback that waits for three TTLs delays the events behind it, and no term."""
    free = threading.Event()

    def wait(_election, event):
        if event.kind == EventKind.WON:
            assert free.wait(30)

    with tenure.open(url, ttl=TTL) as t, t.campaign("slow", wait, drained_on_return=True) as slow:
        until(lambda: slow)
        with t.campaign("quiet") as quiet:
            until(lambda: quiet)
            tokens, end = (slow.token, quiet.token), time.monotonic() + 3 * TTL
            until(lambda: time.monotonic() > end)
            assert (slow.token, quiet.token) == tokens
            free.set()


def test_callback_on_a_python_thread(url):
    seen = []
    with tenure.open(url, ttl=TTL, id="me") as t:
        with t.campaign("report", lambda _, e: seen.append((threading.current_thread(), e))):
            until(lambda: any(event.kind == EventKind.LEADER for _, event in seen))
    assert {thread.name for thread, _ in seen} == {"tenure-callbacks"}
    assert {event.leader for _, event in seen if event.kind == EventKind.LEADER} == {"me"}
    assert "won" in repr(seen[0][1]) or "leader" in repr(seen[0][1])


def test_callback_raises(url, caplog):
    """The exception is logged; STOP does not count as drained, so the lease is kept."""

    def fail(_election, event):
        if event.kind == EventKind.STOP:
            raise ZeroDivisionError("on purpose")

    with tenure.open(url, ttl=4 * TTL) as t, tenure.open(url, ttl=TTL) as other:
        with t.campaign("report", fail, drained_on_return=True) as election:
            until(lambda: election)
            election.resign()
            until(lambda: "on purpose" in caplog.text)
            with pytest.raises(tenure.NotAcquired):
                with other.lead("report", wait=0.3):
                    pytest.fail("the work may still run")
            election.drained()
            with other.lead("report", wait=30) as term:
                assert term


def test_close_within_a_callback(url):
    closed = threading.Event()

    def close(election, event):
        if event.kind == EventKind.WON:
            election.session.close()
            closed.set()

    t = tenure.open(url, ttl=TTL)
    t.campaign("report", close)
    assert closed.wait(30)
    with pytest.raises(tenure.Closed):
        t.lead("report").__enter__()
    t.close()
    with tenure.open(url, ttl=TTL) as t, t.lead("report", wait=30) as term:
        assert term


def test_leave_within_a_callback(url):
    left = threading.Event()

    def leave(election, event):
        if event.kind == EventKind.WON:
            election.leave()
            left.set()

    with tenure.open(url, ttl=TTL) as t:
        election = t.campaign("report", leave)
        assert left.wait(30)
        assert election.token == 0
        with pytest.raises(tenure.Closed):
            election.resign()
        with t.lead("report", wait=30) as term:
            assert term


def test_observe(url):
    heard = []
    with tenure.open(url, ttl=TTL, id="me") as t:
        with t.observe("report", lambda _, event: heard.append((event.kind, event.leader))):
            with t.lead("report", wait=30):
                until(lambda: (EventKind.LEADER, "me") in heard)
            until(lambda: heard[-1][0] == EventKind.VACANT)


def test_stalled(url):
    """Without check_in() the term ends, although renewals go on."""
    with tenure.open(url, ttl=TTL) as t:
        with t.lead("report", wait=30, stall_after=0.3) as term:
            for _ in range(8):
                time.sleep(0.1)
                term.check_in()
                assert term
            until(lambda: not term)
            assert term.reason == "stalled"


def test_ready(url):
    with tenure.open(url, ttl=TTL) as t, t.campaign("report", not_ready=True) as election:
        with t.lead("other", wait=30):
            assert not election
        election.ready()
        until(lambda: election)


def test_close_within_the_block(url):
    with tenure.open(url, ttl=TTL) as t:
        with t.lead("report", wait=30) as term:
            t.close()
            assert not term and term.token == 0 and term.reason == "closed"


def test_exception_in_the_block(url):
    with tenure.open(url, ttl=10) as t, tenure.open(url, ttl=TTL) as other:
        with pytest.raises(KeyError):
            with t.lead("report", wait=30) as term:
                raise KeyError("work")
        assert term.reason == "released"
        with other.lead("report", wait=5):
            pass


def test_signal_while_waiting(url):
    """Ctrl-C ends the wait, and the campaign with it."""
    # A shell's background job ignores the signal.
    code = f"""
import signal, tenure
signal.signal(signal.SIGINT, signal.default_int_handler)
with tenure.open({url!r}, ttl={TTL}) as t:
    print("waiting", flush=True)
    try:
        with t.lead("report"):
            print("won", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    with tenure.open(url, ttl=TTL) as t, t.lead("report", wait=30) as term:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "waiting\n"
        # Its own, the library's, and the one for callbacks, which begins with the wait.
        until(lambda: len(os.listdir(f"/proc/{child.pid}/task")) >= 3)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[0] == "interrupted\n"
        assert term


def test_signal_handler_resigns(url):
    with tenure.open(url, ttl=TTL) as t, t.lead("report", wait=30) as term:
        before = signal.signal(signal.SIGUSR1, lambda *_: term.resign())
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            while term:
                pass
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert term.reason == "released"


def test_fork(url):
    """A forked child is inert, leaves the parent alone, and may open a session of its own."""
    with tenure.open(url, ttl=TTL) as t:

        @t.only_leader("decorated", default="not leading")
        def run():
            return "leading"

        until(lambda: run() == "leading")
        with t.lead("report", wait=30) as term:

            def child():
                if term or term.token or term.remaining or term.reason != "closed":
                    return 1
                if run() != "not leading":
                    return 2
                try:
                    t.health()
                    return 3
                except tenure.Closed:
                    pass
                term.resign()
                t.close()
                with tenure.open(url, ttl=TTL) as own, own.lead("own", wait=30) as mine:
                    return 0 if mine else 4

            pid = os.fork()
            if pid == 0:
                status = 99
                try:
                    with term_block(term):
                        status = child()
                finally:
                    os._exit(status)
            status = until(lambda: wait_for(pid))
            assert os.waitstatus_to_exitcode(status[0]) == 0
            number, end = term.token, time.monotonic() + 1.5 * TTL
            until(lambda: time.monotonic() > end)
            assert number and term.token == number and run() == "leading"


class term_block:
    """In the child: leaves the parent's block as an exception through it would."""

    def __init__(self, term):
        self.term = term

    def __enter__(self):
        return self.term

    def __exit__(self, *_):
        self.term._election.leave()


def wait_for(pid):
    ended, status = os.waitpid(pid, os.WNOHANG)
    return (status,) if ended else None


def test_threads_and_leave(url):
    """Threads ask for the token while other threads end the election."""
    with tenure.open(url, ttl=TTL) as t:
        for _ in range(20):
            with t.lead("report", wait=30) as term:
                stop = threading.Event()

                def ask():
                    while not stop.is_set():
                        bool(term), term.remaining

                askers = [threading.Thread(target=ask) for _ in range(3)]
                for asker in askers:
                    asker.start()
            stop.set()
            for asker in askers:
                asker.join()


def hold_elections(count, leak=0):
    """Term after term in a process of its own: what it told of them."""
    # One arena: mallinfo2 counts no other.
    environment = dict(os.environ, MALLOC_ARENA_MAX="1")
    worker = start_python("elections", "memory:many", 20, count, leak, env=environment)
    try:
        told = json.loads(worker.communicate(timeout=300)[0])
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0 and told["terms"] == count
    return told


def has_grown(told):
    return told["heap"] > GROWTH or told["objects"] > 1000 or told["left"] != 0


def test_many_elections():
    """Term after term in one process: tokens rise, nothing is left behind."""
    told = hold_elections(ELECTIONS)
    assert not has_grown(told), told


def test_a_leak_is_found():
    """The same with a few bytes lost in each term."""
    count = ELECTIONS // 10
    assert has_grown(hold_elections(count, 3 * GROWTH // count))


def test_many_at_once(tmp_path):
    """Many names in one session, all led at the same time by one thread."""
    with tenure.open(f"memory:{tmp_path.name}", ttl=10) as t:
        elections = [t.campaign(f"name-{number}") for number in range(ELECTIONS)]
        until(lambda: all(elections), 120)
        assert len({election.token for election in elections}) == ELECTIONS
    assert not any(elections)


def test_bad_input(url):
    with pytest.raises(tenure.Invalid, match="nowhere"):
        tenure.open("nowhere:x")
    with pytest.raises(ValueError):
        tenure.open(url, ttl=-1)
    with pytest.raises(tenure.Invalid):
        tenure.open(url + "\0x")
    with pytest.raises(tenure.Invalid, match="from 1s to 24h"):
        tenure.open(url, ttl=0.01)
    with tenure.open(url, ttl=TTL) as t:
        for bad, why in (("a//b", "empty segment"), ("", "at least 1 byte"), ("a\0b", "NUL")):
            with pytest.raises(tenure.Invalid, match=why):
                t.campaign(bad)
            with pytest.raises(tenure.Invalid, match=why):
                t.observe(bad, lambda *_: None)
        with pytest.raises(tenure.Invalid, match="list"):
            t.campaign("report", fences="sqlite:x#y")
        assert t.warning() is None
        lead = t.lead("report", wait=30)
        with lead:
            pass
        with pytest.raises(RuntimeError):
            lead.__enter__()
        assert not t._elections
    with pytest.raises(tenure.Closed):
        t.campaign("report")


def test_library_not_found():
    environment = dict(os.environ, TENURE_LIBRARY="/nowhere/libtenure.so")
    code = "import tenure\ntry:\n    tenure.open()\nexcept tenure.Unsupported as e:\n    print(e)"
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=HERE
    )
    assert said.returncode == 0 and "/nowhere/libtenure.so" in said.stdout


def test_exit_without_close(url):
    """A process that ends without closing ends at once, and its lease with its TTL."""
    code = f"import tenure\nt = tenure.open({url!r}, ttl={TTL})\nt.lead('report').__enter__()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    with tenure.open(url, ttl=TTL) as t, t.lead("report", wait=30) as term:
        assert term
