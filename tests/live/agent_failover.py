#!/usr/bin/env python3
"""Kill the leading process again and again; print how long until the other host's process leads.

usage: agent_failover.py RUNS TTL NAME SOCKET SOCKET     (TENURE_BUILD is the build)

Each socket is an agent's. The leader is killed with SIGKILL; the other one's "won" is timed as it
arrives; then the killed one is started again. The last line is the largest, in ms."""
import json
import os
import subprocess
import sys
import time

runs, ttl, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
stores = ["unix:" + path for path in sys.argv[4:6]]
tenure = os.environ["TENURE_BUILD"] + "/tenure"


def start(store):
    return subprocess.Popen([tenure, "elect", "--store", store, "--ttl", ttl, name],
                            stdout=subprocess.PIPE, text=True)


def until(process, event):
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == event:
            return told
    sys.exit("a candidate ended without " + event)


leader, other = start(stores[0]), None
token = until(leader, "won")["token"]
at, took = 1, []
for run in range(runs):
    other = start(stores[at])
    until(other, "leader")
    began = time.monotonic()
    leader.kill()
    won = until(other, "won")
    took.append((time.monotonic() - began) * 1000)
    leader.wait()
    if won["token"] <= token:
        sys.exit("token %d behind %d" % (won["token"], token))
    token, leader, at = won["token"], other, 1 - at
leader.terminate()
leader.wait()
took.sort()
most = took[-(-len(took) * 99 // 100) - 1]
print("%d kills, TTL %s: the other host leads after %.1f ms (median), %.1f ms (p99), %.1f ms"
      " (largest)" % (runs, ttl, took[len(took) // 2], most, took[-1]))
print(int(took[-1]))
