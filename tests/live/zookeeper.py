#!/usr/bin/python3
"""zookeeper.py - what the live tests of the ZooKeeper store need beside the server.

    ports COUNT                    that many free ports
    ask PORT WORD                  a four-letter word
    turns PORT PATH ID TERMS MS    a candidate in the layout of Curator's LeaderLatch, on kazoo
    guard PORT PATH USER:PASSWORD  a znode that only this user may use
    delete PORT PATH               every candidate's node below it
    proxy PORT TARGET              a relay; reads: cut, cut-up, cut-down, trickle, drop, heal
    beats FOLDER                   of files ID.TOKEN with a line for each beat: the same checks
    check FILE...                  logs of `won` and `end`: no overlap, tokens rise; the changes
"""
import os
import socket
import sys
import threading
import time
import uuid


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def client(port, auth=None):
    from kazoo.client import KazooClient

    kazoo = KazooClient("127.0.0.1:" + port, timeout=10)
    kazoo.start(20)
    if auth:
        kazoo.add_auth("digest", auth)
    return kazoo


def ports(count):
    held = [socket.socket() for _ in range(int(count))]
    for one in held:
        one.bind(("127.0.0.1", 0))
    print(" ".join(str(one.getsockname()[1]) for one in held))


def ask(port, word):
    with socket.create_connection(("127.0.0.1", int(port)), 5) as link:
        link.sendall(word.encode())
        said = b""
        while True:
            more = link.recv(65536)
            if not more:
                break
            said += more
    sys.stdout.write(said.decode())


def place(node):
    return node.rsplit("latch-", 1)[1]


def take_turn(kazoo, path, name, hold):
    """As Curator does it: the first leads, the others watch the one before them."""
    prefix = "%s/_c_%s-latch-" % (path, uuid.uuid4())
    made, stat = kazoo.create(
        prefix, name.encode(), ephemeral=True, sequence=True, makepath=True, include_data=True
    )
    mine = made.rsplit("/", 1)[1]
    while True:
        nodes = sorted((n for n in kazoo.get_children(path) if "latch-" in n), key=place)
        at = nodes.index(mine)
        if at == 0:
            break
        gone = threading.Event()
        if kazoo.exists(path + "/" + nodes[at - 1], watch=lambda event: gone.set()):
            gone.wait(60)
    stat = kazoo.exists(made)
    assert stat.owner_session_id == kazoo.client_id[0]
    print("won", stat.czxid, now_ns())
    time.sleep(hold)
    print("end", stat.czxid, now_ns(), flush=True)
    kazoo.delete(made)


def turns(port, path, name, terms, hold_ms):
    kazoo = client(port)
    for _ in range(int(terms)):
        take_turn(kazoo, path, name, int(hold_ms) / 1000)
    kazoo.stop()


def guard(port, path, auth):
    from kazoo.security import make_digest_acl

    user, password = auth.split(":")
    kazoo = client(port)
    kazoo.create(path, b"", acl=[make_digest_acl(user, password, all=True)], makepath=True)
    kazoo.stop()


def delete(port, path):
    kazoo = client(port)
    for node in kazoo.get_children(path):
        if "latch-" in node:
            kazoo.delete(path + "/" + node)
    kazoo.stop()


class Proxy:
    """One relay; the mode says what becomes of the bytes."""

    def __init__(self, port, target):
        self.target = int(target)
        self.mode = "heal"
        self.links = []
        self.door = socket.socket()
        self.door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.door.bind(("127.0.0.1", int(port)))
        self.door.listen(64)

    def relay(self, source, sink, up):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if self.mode == "cut" or self.mode == ("cut-up" if up else "cut-down"):
                    continue
                if self.mode == "trickle" and not up:
                    for i in range(len(data)):
                        sink.sendall(data[i : i + 1])
                        time.sleep(1)
                    continue
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(self):
        while True:
            near, _ = self.door.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            if self.mode == "drop":
                near.close()
                far.close()
                continue
            self.links += [near, far]
            for pair in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.relay, args=pair, daemon=True).start()

    def run(self):
        threading.Thread(target=self.accept, daemon=True).start()
        print("ready", flush=True)
        for line in sys.stdin:
            self.mode = line.strip()
            if self.mode == "drop":
                for one in self.links:
                    try:
                        one.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
                self.links = []
            print(self.mode, now_ns(), flush=True)


def read_terms(name):
    won = {}
    with open(name) as lines:
        for line in lines:
            words = line.split()
            if words[0] == "won":
                won[int(words[1])] = int(words[2])
            elif words[0] == "end":
                token = int(words[1])
                yield (won.pop(token), int(words[2]), token, name)
            else:
                sys.exit("%s: %s" % (name, line))
    if won:
        sys.exit("%s: a term without an end" % name)


def check(*names):
    terms = sorted(term for name in names for term in read_terms(name))
    changes = {}
    for before, after in zip(terms, terms[1:]):
        if after[0] < before[1]:
            sys.exit("two lead at once: %s %s" % (before, after))
        if after[2] <= before[2]:
            sys.exit("somebody was skipped, or a token fell: %s %s" % (before, after))
        kinds = (before[3].rsplit(".", 1)[1], after[3].rsplit(".", 1)[1])
        changes[kinds] = changes.get(kinds, 0) + 1
    for kinds in sorted(changes):
        print("%s-%s %d" % (kinds + (changes[kinds],)))
    print("terms", len(terms))


def beats(folder):
    terms = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as lines:
            stamps = [line.split() for line in lines if line.endswith("\n")]
        if stamps:
            terms.append((int(stamps[0][1]), int(stamps[-1][1]), int(stamps[0][0]), name))
    terms.sort()
    for before, after in zip(terms, terms[1:]):
        if after[0] < before[1]:
            sys.exit("two run at once: %s %s" % (before, after))
        if after[2] <= before[2]:
            sys.exit("a token fell: %s %s" % (before, after))
    print("terms", len(terms))


def main():
    verbs = {f.__name__: f for f in (ports, ask, turns, guard, delete, check, beats)}
    if sys.argv[1] == "proxy":
        Proxy(*sys.argv[2:]).run()
    else:
        verbs[sys.argv[1]](*sys.argv[2:])


main()
