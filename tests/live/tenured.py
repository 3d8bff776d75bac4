"""tenured.py - a real tenured for the tests in Python: started in a folder of its own, asked over
RESP and HTTP, stopped and removed. Every wait has a bound.

A suite imports this, marks its cases with @case and ends with main(), which prints the summary
that tests/run reads.
"""
import atexit
import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.environ.get("TENURE_BUILD", os.path.join(os.path.dirname(__file__), "../../build"))
ROOT = os.environ.get("TENURE_ROOT", os.path.join(os.path.dirname(__file__), "../.."))
PATIENCE = 60
CASES = []


class Skip(Exception):
    """The case cannot run here; says why."""


def case(function):
    CASES.append(function)
    return function


def main():
    passed = failed = skipped = 0
    suite = os.path.basename(sys.argv[0]).removesuffix(".py")
    for function in CASES:
        if len(sys.argv) > 1 and sys.argv[1] not in function.__name__:
            continue
        try:
            function()
            passed += 1
        except Skip as why:
            print(f"SKIP {suite}/{function.__name__}: {why}")
            skipped += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            caller = traceback.extract_tb(error.__traceback__)[1:2] or [where]
            print(f"FAIL {suite}/{function.__name__}: {os.path.basename(caller[0].filename)}:"
                  f"{caller[0].lineno}: {type(error).__name__} {error} ({where.line})")
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def same(got, expected):
    if got != expected:
        raise AssertionError(f"{got!r} instead of {expected!r}")


def until(holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("not in time: " + what)
        time.sleep(0.01)


def fixture(name):
    """The environment with one of our libraries for LD_PRELOAD."""
    return {"LD_PRELOAD": f"{BUILD}/tests/fixtures/lib{name}.so",
            "ASAN_OPTIONS": "verify_asan_link_order=0"}


def secret(number):
    return f"{number:032x}"


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def new_user(user):
    """The secret, and the line for the ACL."""
    lines = subprocess.run([BUILD + "/tenured", "--new-secret", user], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    return lines[0].rpartition(" ")[2], lines[1].partition(": ")[2]


class Daemon:
    """with Daemon("--http", "127.0.0.1:0") as daemon: ..."""

    def __init__(self, *words, tcp=False, env=None, fds=None, before=(), stderr=None):
        self.root = tempfile.mkdtemp(prefix="tenured-test-")
        self.socket = self.root + "/run/socket"
        self.words, self.tcp, self.env, self.fds = words, tcp, env, fds
        self.before = before # The program is started by these words.
        self.stderr = stderr # None: a file, for said().
        os.mkdir(self.root + "/run", 0o700)
        atexit.register(shutil.rmtree, self.root, True)

    def path(self, name, text=None):
        path = self.root + "/" + name
        if text is not None:
            with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(text)
        return path

    def start(self):
        def limit():
            if self.fds:
                import resource
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.fds, self.fds))

        words = [BUILD + "/tenured", "--data", self.root + "/data",
                 "--listen", "unix:" + self.socket]
        if self.tcp:
            words += ["--listen", "tcp:127.0.0.1:0"]
        self.errors = open(self.root + "/stderr", "wb")
        self.process = subprocess.Popen(
            [*self.before, *words, *self.words], stdout=subprocess.PIPE,
            stderr=self.errors if self.stderr is None else self.stderr, text=True,
            preexec_fn=limit, env={**os.environ, **(self.env or {})})
        self.ready = self.process.stdout.readline().strip()
        if not self.ready.startswith("tenured ready"):
            self.process.wait(PATIENCE)
            raise AssertionError("not ready: " + self.said())
        for word in self.ready.split(" on ")[1].split(", "):
            kind, _, rest = word.partition(":")
            if kind == "http":
                self.http_port = int(rest.rpartition(":")[2])
            elif kind == "tcp":
                self.tcp_port = int(rest.rpartition(":")[2])
        return self

    __enter__ = start

    def __exit__(self, *what):
        status = self.stop()
        if what[0] is None and status != 0:
            raise AssertionError(f"tenured ended with {status}: " + self.said())

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        return status

    def said(self):
        with open(self.root + "/stderr", errors="replace") as file:
            return file.read()

    def resp(self, tcp=False):
        if tcp:
            return Resp(socket.create_connection(("127.0.0.1", self.tcp_port), PATIENCE))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.socket) # Without a timeout it waits when many come.
        connection.settimeout(PATIENCE)
        return Resp(connection)

    def ask(self, method, path, body=None, headers=None, port=None):
        """Status, and the body: of JSON, its value."""
        with contextlib.closing(http.client.HTTPConnection(
                "127.0.0.1", port or self.http_port, timeout=PATIENCE)) as connection:
            return ask_over(connection, method, path, body, headers)

    def post(self, path, **fields):
        return self.ask("POST", path, fields)

    def metric(self, name):
        _, text = self.ask("GET", "/metrics")
        for line in text.splitlines():
            if line.startswith("tenured_" + name + " "):
                return float(line.split()[1])
        raise AssertionError("no metric " + name)


def ask_over(connection, method, path, body=None, headers=None):
    headers = dict(headers or {})
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.getheader("Content-Type") == "application/json":
        return answer.status, json.loads(text)
    return answer.status, text


class ServerError(Exception):
    pass


class Resp:
    """A client of RESP2, as small as it can be."""

    def __init__(self, connection):
        self.connection = connection
        self.file = connection.makefile("rb")

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.connection.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def read(self):
        line = self.file.readline()
        if not line:
            raise EOFError("closed by the daemon")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            raise ServerError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode() if rest != "-1" else None
        if kind == b"*":
            return [self.read() for _ in range(int(rest))] if rest != "-1" else None
        raise AssertionError(f"not RESP2: {line!r}")

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def refused(self, *words):
        """The first word of the error."""
        try:
            reply = self.ask(*words)
        except ServerError as error:
            return str(error).split()[0]
        raise AssertionError(f"not refused: {reply!r}")

    def close(self):
        self.file.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()
