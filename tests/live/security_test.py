#!/usr/bin/python3
"""security_test.py - who may ask tenured, how much, and what it keeps to itself."""
import contextlib
import glob
import hashlib
import http.client
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

from tenured import (BUILD, PATIENCE, Daemon, ServerError, basic, case, fixture, main, new_user,
                     same, secret, until)


def is_closed(peer):
    """Whether the daemon hangs up, in time."""
    peer.connection.settimeout(PATIENCE)
    try:
        while peer.connection.recv(4096):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


# --- Whose it is -------------------------------------------------------------------------------

@case
def an_ordinary_user_has_a_socket_of_mode_0600_in_a_folder_of_mode_0700():
    daemon = Daemon() # For its folder.
    program = shutil.copy(BUILD + "/tenured", daemon.root)
    os.chmod(daemon.root, 0o755)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    for name in ("runtime", "state"):
        os.mkdir(daemon.path(name), 0o700)
        os.chown(daemon.path(name), user, -1)
    env = {"XDG_RUNTIME_DIR": daemon.path("runtime"), "XDG_STATE_HOME": daemon.path("state")}
    options = os.environ.get("TSAN_OPTIONS", "")
    if options.startswith("suppressions="): # Where this user can read it.
        env["TSAN_OPTIONS"] = "suppressions=" + shutil.copy(options.split("=", 1)[1], daemon.root)

    def become():
        os.umask(0)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

    def start():
        process = subprocess.Popen([program], env=env, preexec_fn=become, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stdout.readline()
        if line:
            process.terminate()
        said = process.communicate(timeout=PATIENCE)[1]
        return process.returncode, line + said

    folder = daemon.path("runtime/tenured")
    process = subprocess.Popen([program], env=env, preexec_fn=become, text=True,
                               stdout=subprocess.PIPE)
    same(process.stdout.readline(), f"tenured ready on unix:{folder}/tenured.sock\n")
    same(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
    same(stat.S_IMODE(os.stat(folder + "/tenured.sock").st_mode), 0o600)
    same(stat.S_IMODE(os.stat(daemon.path("state/tenured/data")).st_mode), 0o700)
    process.terminate()
    same(process.wait(PATIENCE), 0)
    process.stdout.close()
    os.chmod(folder, 0o777) # Who can write there could put another socket in its place.
    status, said = start()
    same((status, said.count("\n")), (77, 1))
    os.chmod(folder, 0o700)
    if os.geteuid() == 0:
        os.chown(folder, 1, -1)
        same(start()[0], 77)


@case
def secrets_are_on_disk_only_as_hashes_and_in_no_line_that_is_logged():
    mine, term = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
    daemon = Daemon("--http", "127.0.0.1:0", "--snapshot-bytes", "1000")
    with daemon:
        with daemon.resp() as peer:
            peer.ask("SESSION", "OPEN", mine, 60000)
            for number in range(100):
                peer.ask("LEASE", "ACQUIRE", mine, term, f"n{number}")
        until(lambda: glob.glob(daemon.root + "/data/snapshot-*"), "a snapshot")
    found = b"".join(open(path, "rb").read() for path in glob.glob(daemon.root + "/data/*"))
    same(b"n99" in found, True)
    for text in (mine, term):
        for form in (text.encode(), text.upper().encode(), bytes.fromhex(text)):
            same(form in found, False)
        same(text in daemon.said(), False)


@case
def nothing_secret_is_asked_for_on_the_command_line():
    usage = subprocess.run([BUILD + "/tenured", "--help"], capture_output=True, text=True,
                           check=True).stdout
    options = re.findall(r"(--[a-z-]+)( [A-Za-z:|]+)?", usage)
    same([option for option, value in options
          if re.search("secret|password|key", option) and value not in (" FILE", " USER")], [])


@case
def a_path_with_control_characters_makes_one_line():
    daemon = Daemon()
    path = daemon.path("bad\n\x1b[31mname", "allow me everything *\n")
    daemon.words = ("--acl", path)
    try:
        daemon.start()
        raise AssertionError("started")
    except AssertionError:
        pass
    same(daemon.process.returncode, 64)
    same(daemon.said().count("\n"), 1)
    same("\x1b" in daemon.said(), False)


@case
def options_may_come_from_a_file_and_a_mistake_there_is_named_by_line():
    daemon = Daemon()
    config = daemon.path("config", "# All of it.\n\n  http 127.0.0.1:0\nmax-connections\t7  \n")
    daemon.words = ("--config", config)
    with daemon:
        same(daemon.ask("GET", "/v1/info")[1]["maxclients"], 7)
    for text, said in [("http 127.0.0.1:0\nnonsense 1\n", ":2: there is no option '--nonsense'"),
                       ("new-secret me\n", ":1: there is no option"),
                       ("max-leases\n", ":1: max-leases needs a value"),
                       ("max-leases x\n", ":1: 'x' is not a number")]:
        daemon = Daemon("--config", daemon.path("config", text))
        try:
            daemon.start()
            raise AssertionError("started")
        except AssertionError as error:
            same(said in str(error), True)
        same((daemon.process.returncode, daemon.said().count("\n")), (64, 1))


@case
def a_witness_of_somebody_else_is_refused_and_left_alone():
    daemon = Daemon()
    witness, other = daemon.root + "/data.witness", daemon.path("other")
    with daemon, daemon.resp() as peer:
        peer.ask("TOKEN", "RAISE", 7)

    def with_owner():
        if os.geteuid() == 0:
            os.chown(witness, 65534, 65534)
        else:
            os.symlink(other, witness + ".new")
            os.rename(witness + ".new", witness)

    def instead(make):
        def change():
            os.unlink(witness)
            make()
        return change

    changes = (with_owner, lambda: os.chmod(witness, 0o660), lambda: os.chmod(witness, 0o602),
               lambda: os.link(witness, other), lambda: os.truncate(witness, 20),
               lambda: os.truncate(witness, 8192), instead(lambda: os.symlink(other, witness)),
               instead(lambda: os.mkfifo(witness, 0o600)), instead(lambda: os.mkdir(witness)))
    for change in changes:
        shutil.copy2(witness, daemon.path("kept"))
        change()
        before = os.lstat(witness)
        try:
            daemon.start()
            raise AssertionError("started: " + str(changes.index(change)))
        except AssertionError as error:
            assert str(error).startswith("not ready") and "data.witness: " in str(error), error
        after = os.lstat(witness)
        same((after.st_size, after.st_mtime_ns), (before.st_size, before.st_mtime_ns))
        if stat.S_ISDIR(after.st_mode):
            os.rmdir(witness)
        else:
            os.unlink(witness)
        if os.path.lexists(other):
            os.unlink(other)
        shutil.copy2(daemon.path("kept"), witness)
    with daemon, daemon.resp() as peer:
        same(peer.ask("TOKEN"), 7)


@case
def a_witness_that_is_cut_short_does_not_end_the_daemon_and_is_made_good():
    daemon = Daemon()
    witness = daemon.root + "/data.witness"
    with daemon, daemon.resp() as peer:
        peer.ask("TOKEN", "RAISE", 7)
        shutil.copytree(daemon.root + "/data", daemon.root + "/older",
                        ignore=shutil.ignore_patterns("history*")) # It comes and goes.
        os.truncate(witness, 0)
        same(peer.ask("TOKEN", "RAISE", 8), 8)
        same(peer.ask("TOKEN", "RAISE", 9), 9)
    shutil.rmtree(daemon.root + "/data")
    os.rename(daemon.root + "/older", daemon.root + "/data")
    try:
        daemon.start()
        raise AssertionError("started with older data")
    except AssertionError as error:
        assert "up to token 9" in str(error), error


# --- How much ----------------------------------------------------------------------------------

@case
def what_is_too_large_is_refused():
    with Daemon("--max-sessions", "3", "--max-leases", "2", "--max-waiters", "1") as daemon:
        with daemon.resp() as peer:
            for number in (1, 2, 3):
                peer.ask("SESSION", "OPEN", secret(number), 60000)
            same(peer.refused("SESSION", "OPEN", secret(4), 60000), "FULL")
            same(peer.refused("SESSION", "OPEN", secret(1), 60000, "LABEL", "x" * 256), "ERR")
            same(peer.refused("LEASE", "GET", "x" * 256), "ERR")
            same(peer.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a")[0], "granted")
            same(peer.ask("LEASE", "ACQUIRE", secret(1), secret(9), "b")[0], "granted")
            same(peer.refused("LEASE", "ACQUIRE", secret(1), secret(9), "c"), "FULL")
            same(peer.ask("LEASE", "ACQUIRE", secret(2), secret(9), "a", "QUEUE")[0], "queued")
            same(peer.refused("LEASE", "ACQUIRE", secret(3), secret(9), "a", "QUEUE"), "FULL")
            same(peer.ask("SESSION", "RENEW", secret(1))[1], 2)
        for large in (b"*1\r\n$5000\r\n", b"*2000\r\n", b"x" * 70000):
            with daemon.resp() as peer:
                peer.connection.sendall(large)
                same(is_closed(peer), True)


@case
def one_user_cannot_use_up_what_is_everybodys():
    daemon = Daemon("--http", "127.0.0.1:0", tcp=True)
    users = {name: new_user(name) for name in ("ann", "bob")}
    lines = "".join(line + "\n" for _, line in users.values())
    rights = "allow ann acquire *\nallow bob acquire *\n"
    acl = daemon.path("acl", lines + rights + "limit * leases 2\nlimit ann sessions 2\n")
    daemon.words += ("--acl", acl)

    def peer_of(user):
        peer = daemon.resp(tcp=True)
        same(peer.ask("AUTH", user, users[user][0]), "OK")
        return peer

    with daemon:
        with peer_of("ann") as ann, peer_of("bob") as bob, daemon.resp() as root:
            for peer, number in (ann, 1), (ann, 2), (bob, 3), (root, 4):
                peer.ask("SESSION", "OPEN", secret(number), 60000)
            same(ann.refused("SESSION", "OPEN", secret(5), 60000), "FULL")
            same(bob.ask("LEASE", "ACQUIRE", secret(3), secret(9), "b")[0], "granted")
            same(ann.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a")[0], "granted")
            same(ann.ask("LEASE", "ACQUIRE", secret(2), secret(9), "b", "QUEUE")[0], "queued")
            try:
                ann.ask("LEASE", "ACQUIRE", secret(2), secret(9), "c")
                raise AssertionError("not refused")
            except ServerError as error:
                same(str(error), "FULL user ann has the 2 leases and places in line that its "
                     "limit allows")
            words = ann.ask("LEASE", "MACQUIRE", secret(1), secret(9), "a")
            same(words[0][0], "granted") # Said again, it is none more.
            same(bob.ask("LEASE", "ACQUIRE", secret(3), secret(9), "c")[0], "granted")
            for number in range(10): # The daemon's own user has no limit.
                same(root.ask("LEASE", "ACQUIRE", secret(4), secret(9), f"r{number}")[0], "granted")
            status, body = daemon.ask("POST", "/v1/leases/acquire",
                                      {"session": secret(3), "name": "d"},
                                      basic("bob", users["bob"][0]))
            same((status, body["error"]), (507, "FULL"))
            same(ann.ask("LEASE", "RELEASE", secret(1), secret(9), "a", 2), "RELEASED")
            same(ann.ask("LEASE", "ACQUIRE", secret(2), secret(9), "d")[0], "granted")
            daemon.path("acl", lines + rights + "limit ann leases 3\n")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "read again" in daemon.said(), "the new limits")
            same(ann.ask("LEASE", "ACQUIRE", secret(2), secret(9), "e")[0], "granted")
            same(ann.refused("LEASE", "ACQUIRE", secret(2), secret(9), "f"), "FULL")
            same(bob.ask("LEASE", "ACQUIRE", secret(3), secret(9), "f")[0], "granted")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        with peer_of("ann") as ann: # Whose it was is not on disk; the first word tells.
            same(ann.ask("SESSION", "RENEW", secret(2))[1], 2)
            same(ann.ask("LEASE", "ACQUIRE", secret(1), secret(9), "g")[0], "granted")
            same(ann.refused("LEASE", "ACQUIRE", secret(1), secret(9), "h"), "FULL")


@case
def one_user_cannot_use_up_the_fences_and_a_removed_one_still_refuses():
    daemon = Daemon("--snapshot-bytes", "1", tcp=True)
    users = {name: new_user(name) for name in ("ann", "bob", "ops")}
    lines = "".join(line + "\n" for _, line in users.values())
    rights = "allow ann acquire *\nallow bob acquire *\nallow ops admin a/*\n"
    daemon.words += ("--acl", daemon.path("acl", lines + rights + "limit ann fences 3\n"))

    def peer_of(user):
        peer = daemon.resp(tcp=True)
        same(peer.ask("AUTH", user, users[user][0]), "OK")
        return peer

    def restart(number):
        daemon.stop(number)
        daemon.start()
        return peer_of("ann"), peer_of("bob"), peer_of("ops")

    daemon.start()
    ann, bob, ops = peer_of("ann"), peer_of("bob"), peer_of("ops")
    for number in range(3):
        same(ann.ask("FENCE", "RAISE", f"a/{number}", 9), "OK")
    until(lambda: glob.glob(daemon.root + "/data/snapshot-*"), "a snapshot") # Some of it is there.
    for number in (signal.SIGKILL, signal.SIGTERM):
        same(ann.refused("FENCE", "ADMIT", "a/3", 1), "FULL")
        same(ann.ask("FENCE", "ADMIT", "a/0", 10), "OK") # Those that are there are not more.
        same(bob.ask("FENCE", "ADMIT", "b/" + str(number), 1), "OK")
        ann, bob, ops = restart(number)
    for peer in ann, bob:
        same(peer.refused("FENCE", "REMOVE", "a/1"), "DENIED")
    same(ops.refused("FENCE", "REMOVE", "b/9"), "DENIED")
    same(ops.refused("FENCE", "REMOVE", "a/1", "NOW"), "ERR")
    same(ops.ask("FENCE", "REMOVE", "a/1"), 9)
    for number in (signal.SIGKILL, signal.SIGTERM):
        same(ops.ask("FENCE", "REMOVE", "a/1"), 9) # Said again, it is the same.
        same(bob.refused("FENCE", "ADMIT", "a/1", 8), "STALE")
        same(bob.ask("FENCE", "SHOW", "a/1"), 9)
        ann, bob, ops = restart(number)
    same(ann.ask("FENCE", "ADMIT", "a/3", 1), "OK") # There was room again,
    same(ann.refused("FENCE", "ADMIT", "a/1", 9), "FULL") # and now there is none;
    same(bob.ask("FENCE", "ADMIT", "a/1", 9), "OK") # this is bob's from now on.
    ann, bob, ops = restart(signal.SIGKILL)
    same(ann.ask("FENCE", "SHOW", "a/1"), 9)
    same(ann.refused("FENCE", "ADMIT", "a/4", 1), "FULL")
    same(ops.ask("FENCE", "REMOVE", "a/0", "FORGET"), 10)
    ann, bob, ops = restart(signal.SIGKILL)
    same(ops.ask("FENCE", "SHOW", "a/0"), 0)
    same(ann.ask("FENCE", "ADMIT", "a/0", 1), "OK")
    same(daemon.stop(), 0)


@case
def without_a_line_a_user_has_ten_thousand_fences():
    password, line = new_user("ann")
    daemon = Daemon(tcp=True)
    daemon.words += ("--acl", daemon.path("acl", line + "\nallow ann acquire *\n"))
    with daemon, daemon.resp(tcp=True) as ann, daemon.resp() as root:
        ann.ask("AUTH", "ann", password)
        words = b"".join(b"FENCE ADMIT n%d 1\r\n" % number for number in range(10001))
        ann.connection.sendall(words)
        for _ in range(10000):
            same(ann.read(), "OK")
        try:
            ann.read()
            raise AssertionError("not refused")
        except ServerError as error:
            same(str(error), "FULL user ann has the 10000 fences that its limit allows")
        same(root.ask("FENCE", "ADMIT", "n10000", 1), "OK")
        # Removed in any order, the others are found.
        gone = [number for number in range(10000) if number % 7 == 3]
        root.connection.sendall(b"".join(b"FENCE REMOVE n%d FORGET\r\n" % one for one in gone))
        same([root.read() for _ in gone], [1] * len(gone))
        root.connection.sendall(b"".join(b"FENCE SHOW n%d\r\n" % one for one in range(10001)))
        same([root.read() for one in range(10001)],
             [0 if one % 7 == 3 and one < 10000 else 1 for one in range(10001)])


class Rules:
    """Users of an ACL, whose rights may be changed."""

    def __init__(self, daemon, *names):
        self.daemon = daemon
        self.users = {name: new_user(name) for name in names}
        self.times = 0
        self.write("")
        daemon.words += ("--acl", daemon.path("acl"))

    def write(self, rights):
        lines = "".join(line + "\n" for _, line in self.users.values())
        self.daemon.path("acl", lines + rights)

    def change(self, rights):
        self.write(rights)
        self.times += 1
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: self.daemon.said().count("read again") == self.times, "the new rules")

    def peer(self, user):
        peer = self.daemon.resp(tcp=True)
        same(peer.ask("AUTH", user, self.users[user][0]), "OK")
        return peer


@case
def who_knows_the_secret_of_a_session_needs_the_right_to_what_it_holds_to_end_it():
    daemon = Daemon(tcp=True)
    rules = Rules(daemon, "ann", "bob")
    rules.write("allow ann admin a/*\nallow bob acquire b/*\n")
    # As `tenure stand-down` makes it: the secrets of a note follow from its name.
    note = "~tenure/ask/a/job"
    digest = hashlib.sha256(note.encode()).hexdigest()
    session, term = digest[:32], digest[32:]
    with daemon, rules.peer("ann") as ann, rules.peer("bob") as bob:
        for name in (note, "a/job"):
            ann.ask("SESSION", "OPEN", session, 60000, "LABEL", "stand-down")
            same(ann.ask("LEASE", "ACQUIRE", session, term, name)[0], "granted")
            same(bob.refused("SESSION", "CLOSE", session), "DENIED")
            same(ann.ask("LEASE", "GET", name)[3], "held")
            same(ann.ask("SESSION", "CLOSE", session), "OK")
            until(lambda held=name: ann.ask("LEASE", "GET", held)[3] == "free", "its end")
        bob.ask("SESSION", "OPEN", session, 60000) # What it may have, it may give up.
        same(bob.ask("LEASE", "ACQUIRE", session, term, "b/job")[0], "granted")
        same(bob.ask("SESSION", "CLOSE", session), "OK")


@case
def an_operators_wish_needs_admin_and_that_of_a_node_admin_on_everything():
    daemon = Daemon(tcp=True)
    rules = Rules(daemon, "ann", "bob", "root")
    rules.write("allow ann admin a/*\nallow bob acquire *\nallow root admin *\n")
    with daemon, rules.peer("ann") as ann, rules.peer("bob") as bob, rules.peer("root") as root:
        for command in ("STAND-DOWN", "RESUME"):
            same(bob.refused(command, "a/job"), "DENIED")
            same(ann.refused(command, "b/job"), "DENIED")
        for command in ("DRAIN", "UNDRAIN"):
            same(bob.refused(command, "HOST", "web1"), "DENIED")
            same(ann.refused(command, "ID", "web1-1"), "DENIED")
        for name in ("~tenure/ask/a/job", "~tenure/ask/b/job", "~tenure/drain/host/web1"):
            same(root.ask("LEASE", "GET", name)[3], "free")
        same(ann.ask("STAND-DOWN", "a/job"), 0)
        same(root.ask("DRAIN", "HOST", "web1"), 0)
        same(bob.refused("RESUME", "a/job"), "DENIED")
        same(ann.refused("UNDRAIN", "HOST", "web1"), "DENIED")
        same(root.ask("LEASE", "GET", "~tenure/drain/host/web1")[3], "held")
        same(ann.ask("RESUME", "a/job"), 1)
        same(root.ask("UNDRAIN", "HOST", "web1"), 1)


@case
def a_stand_down_does_not_end_the_leases_of_a_session_that_has_others():
    digest = hashlib.sha256(b"~tenure/ask/job").hexdigest()
    with Daemon() as daemon, daemon.resp() as peer:
        # Whoever opens the known session under another label keeps nobody out.
        peer.ask("SESSION", "OPEN", digest[:32], 60000, "LABEL", "x")
        same(peer.refused("STAND-DOWN", "job"), "DENIED")
        same(peer.ask("STAND-DOWN", "job"), 0)
        same(peer.ask("RESUME", "job"), 1)
        # A note in a session that has more is taken away alone.
        peer.ask("SESSION", "OPEN", secret(1), 60000, "LABEL", "stand-down")
        for name in ("other", "~tenure/ask/job"):
            same(peer.ask("LEASE", "ACQUIRE", secret(1), secret(9), name)[0], "granted")
        same(peer.refused("STAND-DOWN", "job"), "BUSY")
        same(peer.ask("RESUME", "job"), 1)
        same(peer.ask("LEASE", "GET", "other")[3], "held")
        same(peer.ask("LEASE", "GET", "~tenure/ask/job")[3], "revoked")
        same(peer.ask("RESUME", "job"), 0)


@case
def a_note_whose_session_somebody_else_has_opened_is_not_taken_for_left():
    digest = hashlib.sha256(b"~tenure/ask/job").hexdigest()
    with Daemon() as daemon, daemon.resp() as peer:
        peer.ask("SESSION", "OPEN", digest[:32], 60000, "LABEL", "x")
        words = [BUILD + "/tenure", "stand-down", "-s", "unix:" + daemon.socket, "job"]
        told = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        same(told.returncode, 77)
        same("under another label" in told.stderr, True)
        told = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        same(told.returncode, 0)
        same(peer.ask("LEASE", "GET", "~tenure/ask/job")[3], "held")


@case
def a_right_that_is_taken_away_ends_watches_places_and_leases():
    daemon = Daemon("--http", "127.0.0.1:0", tcp=True)
    rules = Rules(daemon, "ann", "bob")
    both = "allow ann acquire a/*\nallow bob acquire *\n"
    rules.write(both + "allow ann acquire b/*\n")
    with daemon, rules.peer("bob") as bob, daemon.resp() as root:
        held, watcher, waiter, other = (rules.peer("ann") for _ in range(4))
        held.ask("SESSION", "OPEN", secret(1), 60000)
        bob.ask("SESSION", "OPEN", secret(2), 60000)
        same(bob.ask("LEASE", "ACQUIRE", secret(2), secret(9), "b/bob")[0], "granted")
        same(held.ask("LEASE", "ACQUIRE", secret(1), secret(9), "b/ann")[0], "granted")
        same(held.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a/ann")[0], "granted")
        same(held.ask("LEASE", "ACQUIRE", secret(1), secret(8), "b/bob", "QUEUE")[0], "queued")
        watcher.ask("WATCH", "a/*", "b/x")
        watcher.read()
        other.ask("WATCH", "a/*")
        waiter.send("LEASE", "ACQUIRE", secret(1), secret(7), "b/bob", "WAIT", 0)
        events = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
        events.request("GET", "/v1/events?prefix=b", None, basic("ann", rules.users["ann"][0]))
        stream = events.getresponse()
        until(lambda: "watches:4" in root.ask("INFO").split(), "all watch")
        until(lambda: "waiters:2" in root.ask("INFO").split(), "both wait")
        rules.change(both)
        same(is_closed(watcher), True)
        try:
            waiter.read()
            raise AssertionError("not refused")
        except ServerError as error:
            same(str(error), "DENIED the right to acquire this name was taken away")
        stream.read() # It ends.
        until(lambda: "watches:1" in root.ask("INFO").split(), "one watches")
        same("waiters:0" in root.ask("INFO").split(), True)
        same(root.ask("LEASE", "GET", "b/ann")[3], "revoked")
        same(root.ask("LEASE", "GET", "a/ann")[3], "held")
        same(held.ask("SESSION", "RENEW", secret(1), "SEEN", 0)[4], ["b/ann", 2])
        same(bob.ask("LEASE", "RELEASE", secret(2), secret(9), "b/bob", 1), "RELEASED")
        same(root.ask("LEASE", "GET", "b/bob")[3], "free")
        same(waiter.ask("PING"), "PONG") # It may do other things.
        for peer in held, watcher, waiter, other:
            peer.close()
        events.close()


@case
def a_user_that_is_gone_or_has_another_secret_is_cut_off():
    daemon = Daemon(tcp=True)
    rules = Rules(daemon, "ann", "bob", "eve")
    rights = "allow ann acquire *\nallow bob acquire *\nallow eve acquire *\n"
    rules.write(rights)
    with daemon, rules.peer("ann") as ann, rules.peer("bob") as bob, rules.peer("eve") as eve:
        rules.users.pop("ann")
        rules.users["eve"] = new_user("eve")
        rules.change(rights)
        for peer in ann, eve:
            same(is_closed(peer), True)
        same(bob.ask("SESSION", "OPEN", secret(1), 60000)[3], 60000)
        with rules.peer("eve") as again:
            same(again.ask("SESSION", "OPEN", secret(2), 60000)[3], 60000)


@case
def a_lease_without_a_right_does_not_outlive_a_restart():
    daemon = Daemon(tcp=True)
    rules = Rules(daemon, "ann")
    rules.write("allow ann acquire *\n")
    daemon.start()
    with rules.peer("ann") as ann:
        ann.ask("SESSION", "OPEN", secret(1), 60000)
        for name in "a", "b":
            same(ann.ask("LEASE", "ACQUIRE", secret(1), secret(9), name)[0], "granted")
    daemon.stop(signal.SIGKILL)
    rules.write("allow ann acquire a\n")
    with daemon, rules.peer("ann") as ann, daemon.resp() as root:
        same(ann.ask("SESSION", "RENEW", secret(1))[0], 60000)
        same([root.ask("LEASE", "GET", name)[3] for name in ("a", "b")], ["held", "revoked"])


CONNECT = """
import socket, sys
peers = []
for _ in range(int(sys.argv[2])):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    peer.connect(sys.argv[1])
    try:
        peer.sendall(b"PING\\r\\n")
    except BrokenPipeError:
        pass # Refused, and told why.
    peers.append(peer)
print(*[peer.recv(100).decode().split()[0] for peer in peers])
sys.stdin.read()
"""


@case
def one_process_may_have_so_many_connections_and_another_has_its_own():
    with Daemon("--max-connections", "30", "--max-connections-per-peer", "10") as daemon:
        fds = f"/proc/{daemon.process.pid}/fd"
        before = len(os.listdir(fds))
        processes = []
        for _ in range(2):
            processes.append(subprocess.Popen(
                [sys.executable, "-c", CONNECT, daemon.socket, "12"], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            words = processes[-1].stdout.readline().split()
            same((words.count("+PONG"), words.count("-FULL")), (10, 2))
        with daemon.resp() as peer:
            same(peer.ask("PING"), "PONG")
        for process in processes:
            process.communicate("", timeout=PATIENCE)
        until(lambda: len(os.listdir(fds)) <= before, "all are let go")


@case
def who_does_not_finish_a_command_or_says_nothing_is_cut_off_and_who_waits_is_not():
    with Daemon("--slow-seconds", "1", "--idle-seconds", "3") as daemon:
        holder, waiter, watcher = daemon.resp(), daemon.resp(), daemon.resp()
        holder.ask("SESSION", "OPEN", secret(1), 60000)
        holder.ask("SESSION", "OPEN", secret(2), 60000)
        holder.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a")
        watcher.ask("WATCH", "a")
        waiter.send("LEASE", "ACQUIRE", secret(2), secret(9), "a", "WAIT", 60000)
        silent, slow, idle = daemon.resp(), daemon.resp(), daemon.resp()
        idle.ask("PING")
        begun = time.monotonic()
        closed = set()
        slow.connection.setblocking(False)
        for byte in b"PING me, but slowly, and never to the end of it" * 100:
            try:
                slow.connection.send(bytes([byte]))
            except OSError:
                pass
            holder.ask("SESSION", "RENEW", secret(1))
            for name, peer in (("silent", silent), ("slow", slow), ("idle", idle)):
                if name not in closed and select.select([peer.connection], [], [], 0)[0]:
                    closed.add(name)
                    if name == "idle":
                        same(time.monotonic() - begun > 2, True)
            if len(closed) == 3:
                break
            time.sleep(0.05)
        same(closed, {"silent", "slow", "idle"})
        holder.ask("LEASE", "RELEASE", secret(1), secret(9), "a", 1)
        same(waiter.read()[0], "granted")
        same(watcher.read()[0], "message")
        for peer in (holder, waiter, watcher, silent, slow, idle):
            peer.close()


@case
def with_64_descriptors_and_silent_peers_on_all_of_them_holders_are_served():
    with Daemon("--http", "127.0.0.1:0", fds=64) as daemon:
        holder = daemon.resp()
        holder.ask("SESSION", "OPEN", secret(1), 60000)
        same(holder.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a")[0], "granted")
        silent = []
        for _ in range(100):
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(daemon.socket) # Without a timeout it waits when many come.
            peer.settimeout(PATIENCE)
            silent.append(peer)
        for _ in range(30):
            silent.append(socket.create_connection(("127.0.0.1", daemon.http_port), PATIENCE))
        holder.ask("SESSION", "RENEW", secret(1))
        served = []

        def another_is_served():
            with subprocess.Popen([sys.executable, "-c", CONNECT, daemon.socket, "1"], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                served.append(process.stdout.readline().strip())
                process.communicate("", timeout=PATIENCE)
            return served[-1] == "+PONG"

        until(another_is_served, "one that has just come")
        same(holder.ask("SESSION", "RENEW", secret(1))[1], 1)
        holder.close()
        for peer in silent:
            peer.close()
    with Daemon(fds=64) as daemon: # And again, with what is on disk.
        with daemon.resp() as peer:
            same(peer.ask("PING"), "PONG")


def hang_with(count):
    daemon = Daemon()
    stall = daemon.path("stall")
    daemon.env = {**fixture("failing_disk"), "TENURE_TEST_FLUSHES": "1000000",
                  "TENURE_TEST_STALL": stall}
    with daemon:
        holder = daemon.resp()
        holder.ask("SESSION", "OPEN", secret(1), 60000)
        takers = [daemon.resp() for _ in range(count)]
        for number, taker in enumerate(takers):
            taker.ask("SESSION", "OPEN", secret(100 + number), 60000)
        daemon.process.send_signal(signal.SIGSTOP) # So that all are read at once.
        os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED | os.WNOWAIT)
        daemon.path("stall", "")
        for number, taker in enumerate(takers):
            taker.send("LEASE", "ACQUIRE", secret(100 + number), secret(9), f"n{number}")
        holder.send("SESSION", "RENEW", secret(1))
        daemon.process.send_signal(signal.SIGCONT)
        same(holder.read()[0], 60000)
        for _ in range(100):
            same(holder.ask("SESSION", "RENEW", secret(1))[0], 60000)
        same(select.select([taker.connection for taker in takers], [], [], 0.2)[0], [])
        os.unlink(stall)
        for taker in takers:
            same(taker.read()[0], "granted")
        # The thread that serves now is as good as the one before.
        for number, taker in enumerate(takers):
            same(taker.ask("LEASE", "ACQUIRE", secret(100 + number), secret(8), f"m{number}")[0],
                 "granted")
            taker.close()
        holder.close()


@case
def renewals_are_answered_while_the_disk_hangs_and_grants_are_not():
    hang_with(1)
    hang_with(40)


@case
def the_disk_may_hang_again_and_again():
    daemon = Daemon()
    stall = daemon.path("stall")
    daemon.env = {**fixture("failing_disk"), "TENURE_TEST_FLUSHES": "1000000",
                  "TENURE_TEST_STALL": stall}
    with daemon, daemon.resp() as holder, daemon.resp() as taker:
        holder.ask("SESSION", "OPEN", secret(1), 60000)
        taker.ask("SESSION", "OPEN", secret(2), 60000)
        for number in range(10): # Each time the other of the two threads serves on.
            daemon.path("stall", "")
            taker.send("LEASE", "ACQUIRE", secret(2), secret(9), f"n{number}")
            same(holder.ask("SESSION", "RENEW", secret(1))[0], 60000)
            os.unlink(stall)
            same(taker.read()[0], "granted")


@case
def a_renewal_tells_of_no_grant_release_or_revocation_that_is_not_on_disk():
    daemon = Daemon()
    stall = daemon.path("stall")
    daemon.env = {**fixture("failing_disk"), "TENURE_TEST_FLUSHES": "1000000",
                  "TENURE_TEST_STALL": stall}
    renew = ("SESSION", "RENEW", secret(1), "SEEN", "0")

    def hangs(*words):
        """What RENEW says before @words are on disk, while the disk hangs, and after."""
        daemon.path("stall", "")
        taker.send(*words)
        said = [holder.ask(*renew)[1:] for _ in range(50)]
        same(all(one == said[0] for one in said), True)
        # One more: its flush waits for the first, and is as little told.
        last.send("LEASE", "ACQUIRE", secret(1), secret(9), "b" + words[-1])
        same(holder.ask(*renew)[1:], said[0])
        os.unlink(stall)
        taker.read()
        last.read()
        return said[0], holder.ask(*renew)[1:]

    with daemon, daemon.resp() as holder, daemon.resp() as taker, daemon.resp() as last:
        holder.ask("SESSION", "OPEN", secret(1), 60000)
        same(hangs("LEASE", "ACQUIRE", secret(1), secret(9), "n"), ([0, 0, 0, []], [2, 0, 0, []]))
        same(hangs("LEASE", "RELEASE", secret(1), secret(9), "n", "1"),
             ([2, 0, 0, []], [2, 0, 0, []]))
        same(hangs("REVOKE", "bn"), ([2, 0, 0, []], [3, 1, 0, ["bn", 2]]))


@case
def bytes_that_are_no_digits_are_no_secret():
    with Daemon() as daemon, daemon.resp() as peer:
        for word in (b"\0" * 32, b"0" * 32, b"\0" * 31, b"1" * 31 + b"\0", b"g" * 32):
            for command in (("SESSION", "OPEN", word, 60000), ("SESSION", "RENEW", word),
                            ("SESSION", "BIND", word), ("SESSION", "CLOSE", word),
                            ("LEASE", "ACQUIRE", word, secret(9), "x"),
                            ("LEASE", "ACQUIRE", secret(1), word, "x")):
                same(peer.refused(*command), "ERR")


@case
def peers_cannot_flood_the_log():
    start = time.monotonic()
    with Daemon() as daemon, daemon.resp() as peer:
        for _ in range(20):
            for _ in range(200):
                peer.send("SESSION", "OPEN", "*", 60000, "SAW", 10**18)
            for _ in range(200):
                try:
                    peer.read()
                except ServerError as error:
                    same(str(error).split()[0], "OLDER")
        until(lambda: "seen token" in daemon.said(), "a line")
        lines = daemon.said().count("seen token")
        same(1 <= lines <= 1 + time.monotonic() - start, True)


@case
def a_long_word_is_refused_and_the_connection_goes_on():
    with Daemon() as daemon, daemon.resp() as peer:
        for word in ("x" * 600, "x" * 1500, "x" * 4096, "y" * 300 + "/*", "a*", "", "/*"):
            for command in ("UNWATCH", "WATCH", "UNSUBSCRIBE", "PUNSUBSCRIBE"):
                same(peer.refused(command, word), "ERR")
        same(peer.ask("UNWATCH", "x" * 255)[0], "unsubscribe")
        same(peer.ask("PING"), "PONG")
        same(daemon.said(), "")


@case
def a_log_that_nobody_reads_keeps_nobody_waiting():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(writer, "wb", buffering=0, closefd=False) as pipe:
        while pipe.write(b"." * 4096) is not None: # None: the pipe is full.
            pass
    os.set_blocking(writer, True)
    daemon = Daemon(stderr=writer)
    daemon.words = ("--acl", daemon.path("acl", "# " + "x" * 200))
    with daemon, daemon.resp() as peer:
        for number in range(1500):
            daemon.process.send_signal(signal.SIGHUP) # A line each.
            same(peer.ask("PING", number), str(number))
        os.set_blocking(reader, False)
        said = b""

        def has_said():
            nonlocal said
            try:
                said += os.read(reader, 1 << 20)
            except BlockingIOError:
                daemon.process.send_signal(signal.SIGHUP)
            return re.search(rb"tenured: \d+ lines dropped", said)

        until(has_said, "how many lines were dropped is not said")
        line = rb" info tenured: " + re.escape(daemon.path("acl").encode()) + rb": read again$"
        same(re.search(line, said, re.MULTILINE) is not None, True)
    os.close(reader)
    os.close(writer)


@case
def messages_come_between_replies_and_never_inside_of_one():
    with Daemon() as daemon, daemon.resp() as peer:
        same(peer.ask("WATCH", "*")[0], "psubscribe")
        peer.ask("SESSION", "OPEN", secret(1), 60000)
        names = [f"n{number}" for number in range(20)]
        for term, tag in ((8, []), (9, ["TAG", 7])):
            reply = peer.ask(*tag, "LEASE", "MACQUIRE", secret(1), secret(term), *names)
            granted = reply[1] if tag else reply
            same([one[0] for one in granted], ["granted"] * 20)
            same([peer.read()[2] for _ in names], names)
            pairs = [word for name, one in zip(names, granted) for word in (name, one[1])]
            reply = peer.ask(*tag, "LEASE", "MRELEASE", secret(1), secret(term), *pairs)
            same(reply, [7, ["RELEASED"] * 20] if tag else ["RELEASED"] * 20)
            same([peer.read()[3].split()[0] for _ in names], ["free"] * 20)


@case
def a_million_hostile_bytes_get_an_error_and_the_end_and_others_are_served():
    with Daemon(tcp=True) as daemon, daemon.resp() as holder:
        holder.ask("SESSION", "OPEN", secret(1), 5000)
        for tcp in (False, True):
            for noise in (b"*x", b"*3\r\n:", b"*9999999\r\n", b"*1\r\n$9999999\r\n", b"\xff"):
                peer = daemon.resp(tcp)
                peer.connection.sendall(noise + b"a" * 1000000 + b"\r\n")
                same(peer.file.readline()[:14], b"-ERR protocol:")
                same(peer.file.read(), b"")
                same(holder.ask("SESSION", "RENEW", secret(1))[0], 5000)
                peer.close()


@case
def a_cursor_that_no_reply_gave_ends_nothing():
    with Daemon() as daemon, daemon.resp() as peer:
        peer.ask("SESSION", "OPEN", secret(1), 60000)
        peer.ask("LEASE", "ACQUIRE", secret(1), secret(2), "a")
        peer.ask("FENCE", "RAISE", "a", 1)
        for command in ("LEASE", "SESSION", "FENCE"):
            for cursor in (2**32 - 2, 2**32 - 1, 2**32, 2**64 - 1):
                peer.send(command, "LIST", cursor)
                with contextlib.suppress(ServerError):
                    same(peer.read()[1], [])
        same(peer.ask("LEASE", "GET", "a")[3], "held")


# --- Names below "~tenure/" --------------------------------------------------------------------

@case
def rights_to_reserved_names_follow_from_the_names_they_are_about():
    ada, ada_line = new_user("ada")
    root, root_line = new_user("root")
    daemon = Daemon(tcp=True)
    daemon.words = ("--acl", daemon.path("acl", f"{ada_line}\n{root_line}\n"
                                         "allow ada acquire app/*\nallow root admin *\n"))
    with daemon, daemon.resp(tcp=True) as user, daemon.resp(tcp=True) as operator:
        user.ask("AUTH", "ada", ada)
        operator.ask("AUTH", "root", root)
        user.ask("SESSION", "OPEN", secret(1), 60000)
        operator.ask("SESSION", "OPEN", secret(2), 60000)

        def acquire(session, name):
            return ("LEASE", "ACQUIRE", secret(session), secret(session + 10), name)

        # The mark of `run --every`: as the name itself.
        same(user.ask(*acquire(1, "~tenure/every/app/job"))[0], "granted")
        user.refused(*acquire(1, "~tenure/every/other/job"))
        # An operator's note: admin; of a node: admin on everything.
        for name in ("~tenure/ask/app/job", "~tenure/drain/id/x", "~tenure/drain/host/x",
                     "~tenure/other", "~tenure/every"):
            user.refused(*acquire(1, name))
            same(operator.ask(*acquire(2, name))[0], "granted")
        # Candidates read what is about them, and nothing that is about names of others.
        for name in ("~tenure/ask/app/job", "~tenure/drain/id/x", "~tenure/every/app/job"):
            user.ask("WATCH", name)
        for name in ("~tenure/ask/other/job", "~tenure/every/other/job", "~tenure/ask/*",
                     "~tenure/every/*", "~tenure/*", "~tenure/other"):
            user.refused("WATCH", name)
        same(operator.ask("LEASE", "ACQUIRE", secret(2), secret(20), "~tenure/ask/other/job")[0],
             "granted")
        same(sorted(lease[1] for lease in user.ask("LEASE", "LIST", 0)[1]),
             ["~tenure/ask/app/job", "~tenure/drain/host/x", "~tenure/drain/id/x",
              "~tenure/every/app/job"])


@case
def a_hand_over_replaces_an_old_note_and_ends_nothing_else():
    with Daemon() as daemon, daemon.resp() as peer:
        for session, label in ((1, "holder"), (2, "handover token=1"), (3, "handover token=1")):
            peer.ask("SESSION", "OPEN", secret(session), 60000, "LABEL", label)

        def acquire(session, name):
            return peer.ask("LEASE", "ACQUIRE", secret(session), secret(session + 10), name)[0]

        same([acquire(1, "first"), acquire(1, "a"), acquire(1, "b")], ["granted"] * 3)
        same([acquire(2, "~tenure/ask/a"), acquire(3, "~tenure/ask/b")], ["granted"] * 2)
        same(acquire(3, "database"), "granted")
        same(peer.ask("HANDOVER", "a"), 2)
        same(peer.refused("HANDOVER", "b"), "BUSY")
        same(peer.ask("LEASE", "GET", "database")[3], "held")


# --- The wall clock ----------------------------------------------------------------------------

@case
def the_wall_clock_may_be_set_by_an_hour_either_way():
    daemon = Daemon("--http", "127.0.0.1:0")
    step = daemon.path("step", "0")
    daemon.env = {**fixture("stepped_clock"), "TENURE_TEST_STEP": step}
    with daemon, daemon.resp() as holder, daemon.resp() as waiter:
        holder.ask("SESSION", "OPEN", secret(1), 3000)
        holder.ask("LEASE", "ACQUIRE", secret(1), secret(9), "a")
        waiter.ask("SESSION", "OPEN", secret(2), 60000)
        for seconds in ("3600", "-3600", "0"):
            daemon.path("step", seconds)
            begun = time.monotonic()
            waiter.send("LEASE", "ACQUIRE", secret(2), secret(8), "a", "WAIT", 1500)
            while not select.select([waiter.connection], [], [], 0.1)[0]:
                holder.ask("SESSION", "RENEW", secret(1))
            same(waiter.read(), None)
            same(1.4 < time.monotonic() - begun < PATIENCE, True)
        same(holder.ask("LEASE", "GET", "a")[5], 1)
        for seconds in ("3600", "-3600"): # Who does not renew is gone after its TTL, not before.
            daemon.path("step", seconds)
            begun = time.monotonic()
            holder.ask("SESSION", "OPEN", secret(3), 1500)
            holder.ask("LEASE", "ACQUIRE", secret(3), secret(7), "b" + seconds)
            until(lambda: holder.ask("LEASE", "GET", "b" + seconds)[3] == "free", "its end")
            same(1.4 < time.monotonic() - begun < PATIENCE, True)


@case
def the_wall_clock_of_a_client_may_be_set_too():
    with Daemon() as daemon:
        step = daemon.path("step", "0")
        env = {**os.environ, **fixture("stepped_clock"), "TENURE_TEST_STEP": step}
        said = daemon.path("said")
        with open(said, "w") as file:
            process = subprocess.Popen([BUILD + "/tenure", "elect", "-s", "unix:" + daemon.socket,
                                        "--ttl", "6s", "a"], env=env, stdout=file)
        try:
            until(lambda: '"won"' in open(said).read(), "a leader")
            for seconds in ("3600", "-3600", "0"):
                daemon.path("step", seconds)
                time.sleep(2.5) # A renewal falls into it.
                same('"lost"' in open(said).read(), False)
        finally:
            process.terminate()
            same(process.wait(PATIENCE), 0)


main()
