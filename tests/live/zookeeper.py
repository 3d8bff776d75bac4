#!/usr/bin/python3
"""zookeeper.py - what the live tests of the ZooKeeper store need beside the server.

    ask PORT WORD                  a four-letter word
    turns PORT PATH ID TERMS MS    a candidate in the layout of Curator's LeaderLatch, on kazoo
    guard PORT PATH USER:PASSWORD  a znode that only this user may use
    usurp PORT PATH                leads until a line is read; then it takes the node of who waits
                                   for its own, and gives up the one that led
    delete PORT PATH               the node of the candidate that leads
    check FILE...                  logs of `won` and `end`: no overlap, tokens rise; the changes
"""
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


def until_nodes(kazoo, path, count):
    nodes = []
    while len(nodes) < count:
        time.sleep(0.05)
        nodes = sorted((n for n in kazoo.get_children(path) if "latch-" in n), key=place)
    return nodes


def usurp(port, path):
    kazoo = client(port)
    kazoo.ensure_path(path)
    first = kazoo.create(path + "/_c_x-latch-", b"boss", ephemeral=True, sequence=True)
    print("leads", flush=True)
    nodes = until_nodes(kazoo, path, 2)
    print("ready", flush=True)
    sys.stdin.readline()
    both = kazoo.transaction()
    both.delete(path + "/" + nodes[1])
    both.create(path + "/" + nodes[1], b"thief", ephemeral=True)
    both.delete(first)
    print("done", all(not isinstance(one, Exception) for one in both.commit()), flush=True)
    until_nodes(kazoo, path, 2)
    print("behind", flush=True)
    sys.stdin.readline()
    kazoo.stop()


def delete(port, path):
    """The node of who leads."""
    kazoo = client(port)
    nodes = [node for node in kazoo.get_children(path) if "latch-" in node]
    kazoo.delete(path + "/" + min(nodes, key=lambda node: node.rpartition("-")[2]))
    kazoo.stop()


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


def main():
    verbs = {f.__name__: f for f in (ask, turns, guard, usurp, delete, check)}
    verbs[sys.argv[1]](*sys.argv[2:])


main()
