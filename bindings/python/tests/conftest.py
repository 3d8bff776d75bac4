"""The stores that the conformance list runs against, and helpers."""
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("TENURE_ROOT", HERE.parents[2]))
BUILD = Path(os.environ.get("TENURE_BUILD", ROOT / "build"))


def until(condition, seconds=30.0):
    """Wait until the condition holds; what it returned."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.01)


def start_python(*arguments, **more):
    """A Python process of its own that runs worker.py."""
    command = [sys.executable, str(HERE / "worker.py"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)


class SQLiteStore:
    """The file; it is gone while somebody else keeps it to himself."""

    ttl = 1.0

    def __init__(self, folder):
        self.path = folder / "store.db"
        self.url = f"sqlite:{self.path}"
        self.keeper = None

    def kill(self):
        self.keeper = sqlite3.connect(
            self.path, isolation_level=None, timeout=10, check_same_thread=False
        )
        self.keeper.execute("BEGIN EXCLUSIVE")

    def again(self):
        self.keeper.close()
        self.keeper = None

    def end(self):
        pass


class Server:
    """A process that can be killed and started again on the same data."""

    process = None

    def start(self, command, ready):
        log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()

        def is_ready():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            return ready()

        until(is_ready)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()


class TenuredStore(Server):
    ttl = 1.0

    def __init__(self, folder):
        if not (BUILD / "tenured").exists():
            pytest.skip(f"no tenured in {BUILD}")
        self.folder = folder
        self.socket = folder / "s"
        self.url = f"unix:{self.socket}"
        self.again()

    def connects(self):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def again(self):
        command = [BUILD / "tenured", "--data", self.folder / "data"]
        self.start(command + ["--listen", f"unix:{self.socket}"], self.connects)


class EtcdStore(Server):
    ttl = 2.0

    def __init__(self, folder):
        if shutil.which("etcd") is None:
            pytest.skip("no etcd: install etcd-server")
        self.folder = folder
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            self.port, self.peer = one.getsockname()[1], two.getsockname()[1]
        self.url = f"etcd://127.0.0.1:{self.port}/python"
        self.again()

    def connects(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def again(self):
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        command = ["etcd", "--name", "one", "--data-dir", self.folder / "data"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self.start(command + ["--initial-cluster", f"one={peer}"], self.connects)


KINDS = {"sqlite": SQLiteStore, "tenured": TenuredStore, "etcd": EtcdStore}


@pytest.fixture(scope="session", params=list(KINDS))
def store(request):
    # A short path, in a folder that is this user's alone: it has a Unix socket in it.
    folder = Path(tempfile.mkdtemp(prefix="tnpy"))
    store = None
    try:
        store = KINDS[request.param](folder)
        yield store
    finally:
        if store is not None:
            store.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(tmp_path):
    """A store for what does not depend on the store."""
    return f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def name(request):
    word = re.sub("[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    return f"{word}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def database(tmp_path):
    """A database of the application's: a path, with a table `work` in it."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE work (id INTEGER PRIMARY KEY, token INTEGER, who TEXT)")
    connection.commit()
    connection.close()
    return path
