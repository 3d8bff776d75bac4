"""A process that the tests stop, kill or compete with; it prints one JSON object per line.

    worker.py pause URL TTL NAME DATABASE FILE   wins, and stops itself between check and write
    worker.py write URL TTL NAME DATABASE        wins, and writes until the term is over
    worker.py compete URL TTL NAME WAIT          tries to win within WAIT seconds
    worker.py elections URL TTL COUNT LEAK       leads COUNT times, loses LEAK bytes each time
"""
import ctypes
import gc
import json
import os
import signal
import sqlite3
import sys

import tenure


def say(**what):
    print(json.dumps(what), flush=True)


def pause(t, name, database, path):
    fence, file = tenure.Fence.sqlite(database, "orders"), tenure.Fence.file(path)
    connection = sqlite3.connect(database, timeout=10)
    with t.lead(name, fences=[fence, file], wait=60) as term:
        token = term.token
        with fence.transaction(connection, token):
            connection.execute("INSERT INTO work (token, who) VALUES (?, 'first')", (token,))
        file.append("first\n", token)
        say(won=token)
        os.kill(os.getpid(), signal.SIGSTOP)
        # The first statements after the pause.
        leads, now = bool(term), term.token
        refused = []
        try:
            with fence.transaction(connection, token):
                connection.execute("INSERT INTO work (token, who) VALUES (?, 'late')", (token,))
        except tenure.Stale:
            refused.append("sqlite")
        try:
            file.append("late\n", token)
        except tenure.Stale:
            refused.append("file")
        say(leads=leads, token=now, reason=term.reason, refused=refused)


def write(t, name, database):
    fence = tenure.Fence.sqlite(database, "orders")
    connection = sqlite3.connect(database, timeout=10)
    refused = 0
    with t.lead(name, fences=[fence], wait=60) as term:
        say(won=term.token)
        while term:
            token = term.token
            if token == 0:
                break
            try:
                with fence.transaction(connection, token):
                    connection.execute("INSERT INTO work (token) VALUES (?)", (token,))
            except tenure.Stale:
                refused += 1
        say(reason=term.reason, refused=refused)


def compete(t, name, wait):
    say(ready=True)
    try:
        with t.lead(name, wait=float(wait)) as term:
            say(won=term.token)
    except tenure.NotAcquired as error:
        say(won=0, why=str(error))


class Mallinfo2(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def allocated(libc):
    """What this process has allocated and not freed: bytes in C, and objects of Python's."""
    gc.collect()
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd, sys.getallocatedblocks()


def elections(t, count, leak):
    """Term after term; what has grown between the first third and the end."""
    count, leak = int(count), int(leak)
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    last = 0
    for number in range(count):
        with t.lead(f"name-{number % 7}", wait=60) as term:
            assert term.token > last
            last = term.number
        if leak:
            libc.malloc(leak)
        if number == count // 3:
            heap, objects = allocated(libc)
    heap_end, objects_end = allocated(libc)
    say(
        terms=count,
        heap=heap_end - heap,
        objects=objects_end - objects,
        left=len(t._elections) + len(tenure._session._elections),
    )


if __name__ == "__main__":
    mode, url, ttl, *rest = sys.argv[1:]
    with tenure.open(url, ttl=float(ttl)) as session:
        modes = {"pause": pause, "write": write, "compete": compete, "elections": elections}
        modes[mode](session, *rest)
