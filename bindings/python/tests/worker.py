"""A process that the tests stop, kill or compete with; it prints one JSON object per line.

    worker.py pause URL TTL NAME DATABASE FILE   wins, and stops itself between check and write
    worker.py write URL TTL NAME DATABASE        wins, and writes until the term is over
    worker.py compete URL TTL NAME WAIT          tries to win within WAIT seconds
"""
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


if __name__ == "__main__":
    mode, url, ttl, *rest = sys.argv[1:]
    with tenure.open(url, ttl=float(ttl)) as session:
        {"pause": pause, "write": write, "compete": compete}[mode](session, *rest)
