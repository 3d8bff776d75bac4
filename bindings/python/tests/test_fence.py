"""Fences: the check and the effect are one step."""
import os
import shutil
import sqlite3
import subprocess
import threading

import pytest
from conftest import BUILD

import tenure
from tenure import _fence, _native

MAX = 2**64 - 1


@pytest.fixture
def connection(database):
    connection = sqlite3.connect(database, timeout=0.2)
    yield connection
    connection.close()


@pytest.fixture
def fence(database):
    return tenure.Fence.sqlite(database, "orders")


def command(*arguments):
    if not (BUILD / "tenure").exists():
        pytest.skip(f"no tenure in {BUILD}")
    return subprocess.run(
        [BUILD / "tenure", "fence", *map(str, arguments)], capture_output=True, text=True
    )


def work(connection):
    return [row[0] for row in connection.execute("SELECT who FROM work ORDER BY id")]


def test_sqlite(fence, connection):
    with fence.transaction(connection, 5):
        connection.execute("INSERT INTO work (who) VALUES ('five')")
    with fence.transaction(connection, 5):
        connection.execute("INSERT INTO work (who) VALUES ('again')")
    with pytest.raises(tenure.Stale, match="token 4"):
        with fence.transaction(connection, 4):
            pytest.fail("admitted")
    with fence.transaction(connection, MAX):
        pass
    assert fence.highest(connection) == MAX
    with pytest.raises(tenure.Stale):
        fence.raise_to(connection, 2**63)
    assert work(connection) == ["five", "again"]
    assert not connection.in_transaction


def test_admit_in_the_callers_transaction(fence, connection):
    with pytest.raises(tenure.Invalid, match="no transaction"):
        fence.admit(connection, 5)
    connection.execute("INSERT INTO work (who) VALUES ('before')")  # Begins one.
    fence.admit(connection, 5)
    connection.execute("INSERT INTO work (who) VALUES ('after')")
    connection.rollback()
    assert work(connection) == [] and fence.highest(connection) == 0
    with pytest.raises(tenure.Invalid, match="open already"):
        connection.execute("BEGIN")
        with fence.transaction(connection, 5):
            pytest.fail("two transactions")


def test_nobody_comes_between(fence, connection, database):
    """What was admitted stays the highest until the transaction ends."""
    other = sqlite3.connect(database, timeout=0.05)
    with fence.transaction(connection, 5):
        with pytest.raises(tenure.Unavailable, match="locked"):
            fence.raise_to(other, 6)
        connection.execute("INSERT INTO work (who) VALUES ('five')")
    fence.raise_to(other, 6)
    with pytest.raises(tenure.Stale):
        with fence.transaction(connection, 5):
            pytest.fail("admitted")
    other.close()


def test_a_block_that_raises_rolls_back(fence, connection):
    with pytest.raises(KeyError):
        with fence.transaction(connection, 5):
            connection.execute("INSERT INTO work (who) VALUES ('half')")
            raise KeyError
    assert work(connection) == [] and fence.highest(connection) == 0


def test_factories_of_the_caller(fence, connection):
    connection.row_factory = lambda cursor, row: {"row": row}
    connection.text_factory = bytes
    with fence.transaction(connection, 7):
        pass
    assert fence.highest(connection) == 7


@pytest.mark.parametrize("token", [0, -1, MAX + 1, "5", 5.0, True, None])
def test_bad_tokens(fence, connection, token):
    with pytest.raises(tenure.Invalid):
        with fence.transaction(connection, token):
            pytest.fail("admitted")
    with pytest.raises(tenure.Invalid):
        fence.raise_to(connection, token)
    assert not connection.in_transaction and fence.highest(connection) == 0


@pytest.mark.parametrize(
    "resource", ["", "/a", "a//b", "..", "a/./b", "a b", "x" * 256, "\u00e4", "a\n"]
)
def test_bad_resources(database, resource):
    with pytest.raises(tenure.Invalid):
        tenure.Fence.sqlite(database, resource)


def test_damaged(fence, connection):
    connection.execute("CREATE TABLE tenure_fences (resource TEXT PRIMARY KEY, token)")
    connection.execute("INSERT INTO tenure_fences VALUES ('orders', 'zzz')")
    connection.commit()
    with pytest.raises(tenure.Damaged):
        fence.raise_to(connection, 5)
    with pytest.raises(tenure.Damaged):
        fence.highest(connection)
    assert not connection.in_transaction


def test_another_file_and_other_names(fence, connection, database, tmp_path):
    other = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(tenure.Invalid, match="other.db"):
        fence.raise_to(other, 5)
    other.close()
    os.link(database, tmp_path / "link.db")
    with pytest.raises(tenure.Denied, match="more than one name"):
        fence.raise_to(connection, 5)
    os.unlink(tmp_path / "link.db")
    fence.raise_to(connection, 5)


def test_two_copies_of_sqlite(fence, connection, database, url, monkeypatch):
    """An interpreter with its own SQLite must not use a file that libtenure has opened."""
    with tenure.open(url, ttl=1) as t, t.lead("report", fences=[fence], wait=30) as term:
        with fence.transaction(connection, term.token):
            pass
        monkeypatch.setattr(_native, "shares_sqlite", lambda: False)
        with pytest.raises(tenure.Unsupported, match="its own copy"):
            with fence.transaction(connection, term.token):
                pytest.fail("admitted")
    monkeypatch.setattr(_fence, "_used_by_library", set())
    with fence.transaction(connection, term.number):
        pass


def test_the_same_fence_as_in_c(fence, connection, database):
    """The command and the package read and move one another's fence."""
    with fence.transaction(connection, 5):
        pass
    assert command("raise", "--at", f"sqlite:{database}", "orders", 4).returncode == 80
    assert command("raise", "--at", f"sqlite:{database}", "orders", 6).returncode == 0
    assert fence.highest(connection) == 6
    with pytest.raises(tenure.Stale):
        with fence.transaction(connection, 5):
            pytest.fail("admitted")


def test_protected_table(fence, connection, database):
    """Triggers that the command installs: a connection that presented nothing cannot write."""
    at = f"sqlite:{database}"
    said = command("install", "--at", at, "--table", "work", "--resource", "orders")
    assert said.returncode == 0, said.stderr
    with pytest.raises(sqlite3.OperationalError, match="tenure_fence_presented"):
        connection.execute("INSERT INTO work (who) VALUES ('none')")
    connection.rollback()
    with fence.transaction(connection, 5):
        connection.execute("INSERT INTO work (who) VALUES ('five')")
    assert command("raise", "--at", at, "orders", 6).returncode == 0
    with pytest.raises(sqlite3.IntegrityError, match="stale"):
        connection.execute("INSERT INTO work (who) VALUES ('late')")
    connection.rollback()
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("SELECT tenure_fence_present('orders', '00000000000000000006')")
    assert work(connection) == ["five"]


def test_two_writers(fence, database):
    """Two threads with two tokens: once the higher one was admitted, the lower one is refused."""
    admitted, refused = [], threading.Event()

    def write(token):
        connection = sqlite3.connect(database, timeout=10)
        try:
            for _ in range(40):
                with fence.transaction(connection, token):
                    connection.execute("INSERT INTO work (token) VALUES (?)", (token,))
        except tenure.Stale:
            refused.set()
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(token,)) for token in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection = sqlite3.connect(database)
    admitted = [row[0] for row in connection.execute("SELECT token FROM work ORDER BY id")]
    connection.close()
    assert admitted == sorted(admitted) and admitted.count(2) == 40
    assert refused.is_set() == (admitted.count(1) < 40)


def test_file(tmp_path):
    file = tenure.Fence.file(tmp_path / "report.txt")
    file.replace(b"five", 5)
    file.append(" and more", 5)
    with pytest.raises(tenure.Stale, match="token 4"):
        file.append("late", 4)
    file.raise_to(MAX)
    with pytest.raises(tenure.Stale):
        file.replace("late", 5)
    assert file.highest() == MAX
    assert (tmp_path / "report.txt").read_text() == "five and more"
    assert str(file) == f"file:{tmp_path / 'report.txt'}"
    for bad in (0, -1, MAX + 1, "5"):
        with pytest.raises(tenure.Invalid):
            file.append("x", bad)
    with pytest.raises(tenure.Invalid):
        tenure.Fence.file(str(tmp_path / "a\0b")).append("x", 5)


def test_file_errors(tmp_path):
    (tmp_path / "report.txt.fence").write_text("no token")
    with pytest.raises(tenure.Damaged):
        tenure.Fence.file(tmp_path / "report.txt").append("x", 5)
    os.symlink("report.txt", tmp_path / "link")
    with pytest.raises(tenure.Denied):
        tenure.Fence.file(tmp_path / "link").append("x", 5)
    shutil.rmtree(tmp_path)
    with pytest.raises(tenure.Unavailable, match="No such file"):
        tenure.Fence.file(tmp_path / "report.txt").append("x", 5)
