#!/usr/bin/python3
"""tenured_namespace_test.py - tenured and its clients in different pid namespaces, as containers
that share a socket are. SO_PEERCRED names a process that the daemon cannot see "0"; a lease must
still pass on early only when every process bound to its session is gone."""
import contextlib
import os
import signal
import subprocess
import sys
import time

from tenured import PATIENCE, BUILD, Daemon, Skip, case, main, same, secret, until

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child"]

# Binds its own process to a session, once per connection, says so and waits to be killed.
ACTOR = """
import socket, sys, time
conns = []
for _ in range(int(sys.argv[3])):
    conn = socket.socket(socket.AF_UNIX)
    conns.append(conn)
    conn.connect(sys.argv[1])
    conn.sendall(b"SESSION BIND " + sys.argv[2].encode() + b"\\r\\n")
    print(conn.recv(200).decode().strip(), flush=True)
time.sleep(600)
"""


def namespaces():
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        raise Skip("no pid namespace can be made here")


class Actor:
    """A process that is bound to the session."""

    def __init__(self, daemon, session, inside=(), times=1):
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-c", ACTOR, daemon.socket, session, str(times)],
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.said = [self.process.stdout.readline().strip() for _ in range(times)]

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Contained(Daemon):
    """A daemon in a pid namespace of its own."""

    def __init__(self, *words):
        super().__init__(*words, before=UNSHARE)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None: # unshare itself ignores the signal.
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
                os.kill(int(file.read().split()[0]), number)
        return super().stop(0)


def state(peer):
    return peer.ask("LEASE", "GET", "job")[3]


def hold(peer, number=1):
    peer.ask("SESSION", "OPEN", secret(number), 600000)
    same(peer.ask("LEASE", "ACQUIRE", secret(number), secret(99), "job")[0], "granted")


def stays_held(peer):
    """What passes on early does so within milliseconds; a round trip each is enough to see it."""
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        same(state(peer), "held")


def ends_with_the_last(daemon, first, second):
    """@first and @second make an actor each."""
    with daemon, daemon.resp() as peer:
        hold(peer)
        actors = [first(daemon), second(daemon)]
        try:
            same([actor.said for actor in actors], [["+OK"], ["+OK"]])
            actors[0].kill()
            stays_held(peer)
            actors[1].kill()
            until(lambda: state(peer) == "free", "the last process is gone, the lease is not")
        finally:
            for actor in actors:
                actor.kill()


def outside(daemon):
    return Actor(daemon, secret(1))


def beside(daemon):
    return Actor(daemon, secret(1), UNSHARE)


def beneath(daemon):
    """In a namespace below that of the daemon."""
    with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children") as file:
        child = file.read().split()[0]
    return Actor(daemon, secret(1), ["nsenter", "--pid", "--target", child, *UNSHARE])


@case
def two_processes_that_the_daemon_cannot_see_are_two():
    namespaces()
    ends_with_the_last(Contained(), outside, outside)


@case
def two_containers_beside_the_daemons_are_two():
    namespaces()
    ends_with_the_last(Contained(), beside, beside)
    ends_with_the_last(Daemon(), beside, beside)


@case
def a_nested_container_and_the_host_are_two():
    namespaces()
    ends_with_the_last(Contained(), beneath, outside)
    ends_with_the_last(Contained(), outside, beneath)


@case
def a_process_that_comes_back_is_one():
    namespaces()
    with Contained() as daemon, daemon.resp() as peer:
        hold(peer)
        actor = Actor(daemon, secret(1), times=200)
        same(set(actor.said), {"+OK"})
        with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children") as file:
            child = file.read().split()[0]
        fds = os.listdir(f"/proc/{child}/fd")
        same(sum("pidfd" in link(child, fd) for fd in fds), 1)
        actor.kill()
        until(lambda: state(peer) == "free", "the process is gone, the lease is not")


def link(pid, fd):
    with contextlib.suppress(FileNotFoundError):
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    return ""


@case
def a_process_that_cannot_be_watched_leaves_the_session_its_ttl():
    with Daemon(tcp=True) as daemon, daemon.resp() as peer, daemon.resp(tcp=True) as far:
        hold(peer)
        same(far.refused("SESSION", "BIND", secret(1)), "ERR")
        actor = Actor(daemon, secret(1))
        same(actor.said, ["+OK"])
        actor.kill()
        stays_held(peer)
        same(far.ask("SESSION", "CLOSE", secret(1)), "OK")
        same(state(peer), "free")


@case
def the_connections_of_unseen_processes_are_counted_apart():
    namespaces()
    with Contained("--max-connections-per-peer", "4") as daemon:
        first = Actor(daemon, secret(1), times=4)
        second = Actor(daemon, secret(1), times=1)
        try:
            same({line.split()[0] for line in first.said + second.said}, {"-GONE"})
        finally:
            first.kill()
            second.kill()


@case
def the_command_of_a_killed_supervisor_is_gone_before_the_next_one_leads():
    namespaces()
    with Contained() as daemon:
        acts, wins = daemon.path("acts"), daemon.path("wins")
        # The command ignores SIGTERM: it acts until its guardian kills it.
        work = f"trap '' TERM; while :; do date +%s%N >> {acts}; done"
        words = [BUILD + "/tenure", "run", "--store", "unix:" + daemon.socket, "--ttl", "30s",
                 "--grace", "1s", "job", "--"]
        holder = subprocess.Popen([*words, "sh", "-c", work], stderr=subprocess.DEVNULL)
        until(lambda: os.path.exists(acts), "the first one leads")
        work = f"date +%s%N > {wins}.new; mv {wins}.new {wins}"
        second = subprocess.Popen([*words, "sh", "-c", work], stderr=subprocess.DEVNULL)
        with daemon.resp() as peer:
            until(lambda: "waiters:1" in peer.ask("INFO").split(), "the second one waits")
        holder.kill()
        holder.wait(PATIENCE)
        same(second.wait(PATIENCE), 0)
        with open(acts) as file, open(wins) as win:
            assert int(file.read().splitlines()[-1]) < int(win.read())


if __name__ == "__main__":
    main()
