"""The list that every binding passes, against SQLite, tenured and etcd: win, lose by pause, resign,
drain, fence refused, store gone."""
import json
import os
import signal
import sqlite3
import threading
import time

import pytest
from conftest import start_python, until

import tenure


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def rows(database):
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT token, who FROM work ORDER BY id").fetchall()
    finally:
        connection.close()


def test_win(store, name):
    """One leads, the other waits and follows with a higher token."""
    with tenure.open(store.url, ttl=store.ttl) as one, tenure.open(store.url, ttl=store.ttl) as two:
        with one.lead(name, wait=30) as term:
            assert term and term.token == term.number > 0
            assert 0 < term.remaining <= store.ttl
            assert term.reason is None and not term.stopping
            with pytest.raises(tenure.NotAcquired, match="leads"):
                with two.lead(name, wait=store.ttl * 1.2):
                    pytest.fail("there are two leaders")
            assert term, "it was renewed meanwhile"
        assert not term and term.token == 0 and term.reason == "released"
        began = time.monotonic()
        with two.lead(name, wait=30) as later:
            assert later.token > term.number
            assert not term, "an old term stays over"
        # The lease was given back, and did not have to run out.
        assert time.monotonic() - began < store.ttl


def test_lose_by_pause(store, name, database, tmp_path):
    """Stopped for three TTLs between check and write: the term is over, both writes are refused."""
    fence, file = tenure.Fence.sqlite(database, "orders"), tenure.Fence.file(tmp_path / "journal")
    (tmp_path / "journal").touch()
    worker = start_python("pause", store.url, store.ttl, name, database, file.path)
    try:
        old = json.loads(worker.stdout.readline())["won"]
        until(lambda: is_stopped(worker.pid))
        end = time.monotonic() + 3 * store.ttl
        with tenure.open(store.url, ttl=store.ttl) as t:
            with t.lead(name, fences=[fence, file], wait=60) as term:
                assert term.token > old
                connection = sqlite3.connect(database)
                with fence.transaction(connection, term.token):
                    connection.execute("INSERT INTO work (who) VALUES ('second')")
                connection.close()
                file.append("second\n", term.token)
                until(lambda: time.monotonic() >= end)
                os.kill(worker.pid, signal.SIGCONT)
                told = json.loads(worker.stdout.readline())
                assert worker.wait(30) == 0
                assert term, "the new leader is not disturbed"
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    assert told["leads"] is False and told["token"] == 0
    assert told["refused"] == ["sqlite", "file"]
    assert told["reason"] == "expired"
    assert [who for _, who in rows(database)] == ["first", "second"]
    assert (tmp_path / "journal").read_text() == "first\nsecond\n"


def test_stopped_anywhere(url, database):
    """Stopped at any instant, also within a transaction: no write after a later leader's."""
    fence, ttl = tenure.Fence.sqlite(database, "orders"), 1.0
    worker = start_python("write", url, ttl, "report", database)
    try:
        old = json.loads(worker.stdout.readline())["won"]
        until(lambda: len(rows(database)) > 20)
        os.kill(worker.pid, signal.SIGSTOP)
        end = time.monotonic() + 3 * ttl
        threading.Timer(3 * ttl, os.kill, (worker.pid, signal.SIGCONT)).start()
        connection = sqlite3.connect(database, timeout=30)
        with tenure.open(url, ttl=ttl) as t, t.lead("report", fences=[fence], wait=60) as term:
            written = 0
            while written == 0 or time.monotonic() < end + ttl / 2:
                with fence.transaction(connection, term.number):
                    connection.execute("INSERT INTO work (token) VALUES (?)", (term.number,))
                written += 1
            assert term.number > old
        connection.close()
        told = json.loads(worker.stdout.readline())
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
    assert told["reason"] == "expired"
    tokens = [token for token, _ in rows(database)]
    assert set(tokens) == {old, term.number} and tokens == sorted(tokens)


def test_resign(store, name):
    """resign() ends the loop at once, the write under way keeps its token, the next one leads."""
    with tenure.open(store.url, ttl=store.ttl) as one, tenure.open(store.url, ttl=store.ttl) as two:
        with one.lead(name, grace=store.ttl / 10, wait=30) as term:
            threading.Thread(target=term.resign).start()
            while term:
                time.sleep(0.001)
            assert term.stopping and term.token == term.number
        assert term.reason == "released"
        with two.lead(name, wait=30) as later:
            assert later.token > term.number


def test_drain(store, name):
    """The lease is given back when the work has stopped, and not before."""
    stopped, events = threading.Event(), []

    def hear(election, event):
        events.append(event.kind)
        if event.kind == tenure.EventKind.STOP:
            assert stopped.wait(30)

    with tenure.open(store.url, ttl=store.ttl * 4) as one, tenure.open(
        store.url, ttl=store.ttl
    ) as two:
        with one.campaign(name, hear, drained_on_return=True) as election:
            # Not as soon as it has a token: what resigns before WON was told hears of no term.
            until(lambda: tenure.EventKind.WON in events)
            won = election.token
            election.resign()
            until(lambda: tenure.EventKind.STOP in events)
            with pytest.raises(tenure.NotAcquired):
                with two.lead(name, wait=0.3):
                    pytest.fail("the work has not stopped")
            assert election.token == won, "the term is valid while the work stops"
            stopped.set()
            with two.lead(name, wait=30) as term:
                assert term.token > won
            until(lambda: tenure.EventKind.LOST in events)
    told = [kind for kind in events if kind in (1, 4, 5)]
    assert told == [tenure.EventKind.WON, tenure.EventKind.STOP, tenure.EventKind.LOST]


def test_fence_refused(store, name, database):
    """A later leader's fence refuses an older token; without its fence there is no term."""
    fence = tenure.Fence.sqlite(database, "orders")
    connection = sqlite3.connect(database)
    with tenure.open(store.url, ttl=store.ttl) as t:
        with t.lead(name, fences=[fence], wait=30) as term:
            old = term.token
        with t.lead(name, fences=[str(fence)], wait=30) as term:
            assert fence.highest(connection) == term.token > old
            with pytest.raises(tenure.Stale) as caught:
                with fence.transaction(connection, old):
                    connection.execute("INSERT INTO work (who) VALUES ('late')")
            assert caught.value.code == -3 and not caught.value.outcome_unknown
            assert not connection.in_transaction
        missing = tenure.Fence.sqlite(database.parent / "misspelt.db", "orders")
        with pytest.raises(tenure.NotAcquired, match="misspelt.db"):
            with t.lead(name, fences=[missing], wait=store.ttl):
                pytest.fail("there is no fence")
    assert rows(database) == []
    connection.close()


def test_store_gone(store, name):
    """The term ends at its deadline and not later; it can be won again when the store is back."""
    with tenure.open(store.url, ttl=store.ttl) as t:
        with t.lead(name, wait=30) as term:
            first = term.token
            store.kill()
            try:
                began = time.monotonic()
                while term:
                    time.sleep(0.001)
                assert time.monotonic() - began < store.ttl
                assert term.token == 0 and term.reason == "expired"
                until(lambda: t.health() is not None)
                with pytest.raises(tenure.NotAcquired):
                    with t.lead(name + "-other", wait=0.2):
                        pytest.fail("won without a store")
            finally:
                store.again()
        with t.lead(name, wait=60) as term:
            assert term.token > first
        assert t.health() is None
