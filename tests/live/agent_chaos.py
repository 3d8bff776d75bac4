#!/usr/bin/env python3
"""Two hosts with an agent each above one etcd, hurt at random, two faults at a time.

usage: agent_chaos.py RUNS SEED DIR PORT... (6 ports)     (TENURE_BUILD is the build)

Each host has two processes that want the same name: one on its agent's Unix socket, one by way of
TCP, which can be cut. The agent of host a has --data, so that it goes on when it is started again,
that of host b has not; AGENT_DATA=yes or no is for both. The first 120 runs are all pairs of
FAULTS, a fault with itself too, in random order; what comes behind is at random. A run picks when
its two faults begin and how long they last, heals both and waits until somebody leads again.
Nothing is started anew between runs.

Fails, with the seed and the run, when
  P1  a token acts after a later one has, or a token is won that is not higher than all before
  P9  a process acts for longer than its own TTL after its agent was stopped or killed, or for
      longer than the agent's TTL after the way to the store was cut or the store was stopped
  P7  nobody leads within BACK seconds of a healed run
"""
import itertools
import os
import random
import signal
import subprocess
import sys
import time

BUILD = os.environ["TENURE_BUILD"]
PROCESS_TTL, AGENT_TTL, BACK = 2.0, 4.0, 40
NAME = "chaos"
LEVELS = ("process", "agent", "store")
KINDS = ("stop", "kill", "restart", "cut", "slow")
FAULTS = [(level, kind) for level in LEVELS for kind in KINDS]
# From then on nobody of the host can have its term renewed; the longest that it may act on.
SILENT = {("agent", "stop"): PROCESS_TTL, ("agent", "kill"): PROCESS_TTL,
          ("agent", "cut"): AGENT_TTL, ("store", "stop"): AGENT_TTL,
          ("store", "kill"): AGENT_TTL, ("store", "cut"): AGENT_TTL}

runs, seed, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ports = [int(port) for port in sys.argv[4:10]]
chance = random.Random(seed)


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Program:
    """A command that is started again and again; its output is appended to files."""

    def __init__(self, name, words, ready=None):
        self.name, self.words, self.ready, self.child = name, words, ready, None
        self.out = os.path.join(folder, name + ".out")
        self.err = os.path.join(folder, name + ".err")

    def start(self):
        if self.child is not None and self.child.poll() is None:
            return
        size = os.path.getsize(self.out) if os.path.exists(self.out) else 0
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            self.child = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=err, start_new_session=True)
        by = now() + 30
        while self.ready is not None and not self.says(size):
            if now() > by or self.child.poll() is not None:
                return  # The wait for a leader tells.
            time.sleep(0.01)

    def says(self, since):
        with open(self.out, encoding="utf-8", errors="replace") as out:
            out.seek(since)
            return self.ready in out.read()

    def signal(self, number):
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        if self.child is not None:
            self.child.wait()

    def restart(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.child.wait(3)
        except subprocess.TimeoutExpired:
            self.kill()
        self.start()


class Proxy:
    """tests/live/proxy.c in front of a port."""

    def __init__(self, port):
        self.child = subprocess.Popen([BUILD + "/tests/fixtures/proxy", str(port)], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      start_new_session=True)
        self.port = int(self.child.stdout.readline())

    def say(self, words):
        self.child.stdin.write(words + "\n")
        self.child.stdin.flush()
        self.child.stdout.readline()


class Host:
    def __init__(self, letter, store_port, tcp_port):
        self.to_store, self.to_agent = Proxy(store_port), Proxy(tcp_port)
        socket = "unix:" + os.path.join(folder, letter + ".sock")
        words = [BUILD + "/tenured", "--upstream", "etcd://127.0.0.1:%d/up" % self.to_store.port,
                 "--upstream-ttl", "%ds" % AGENT_TTL, "--listen", socket, "--listen",
                 "tcp:127.0.0.1:%d" % tcp_port]
        if os.environ.get("AGENT_DATA", "yes" if letter == "a" else "no") == "yes":
            words += ["--data", os.path.join(folder, letter + ".data")]
        self.agent = Program("agent-" + letter, words, ready="tenured ready")
        self.processes = [self.process(letter + "1", socket),
                          self.process(letter + "2", "tenured://127.0.0.1:%d" % self.to_agent.port)]

    @staticmethod
    def process(name, url):
        return Program(name, [BUILD + "/tests/fixtures/shift", url, NAME, name,
                              str(int(PROCESS_TTL * 1000)), "50"])


store = Program("etcd", ["etcd", "--name", "one", "--data-dir", os.path.join(folder, "etcd"),
                         "--listen-client-urls", "http://127.0.0.1:%d" % ports[0],
                         "--advertise-client-urls", "http://127.0.0.1:%d" % ports[0],
                         "--listen-peer-urls", "http://127.0.0.1:%d" % ports[1],
                         "--initial-advertise-peer-urls", "http://127.0.0.1:%d" % ports[1],
                         "--initial-cluster", "one=http://127.0.0.1:%d" % ports[1]])
hosts = [Host("a", ports[0], ports[2]), Host("b", ports[0], ports[3])]
processes = [process for host in hosts for process in host.processes]
places = {process.name: 0 for process in processes}  # How far its lines were read.
acts, wins = [], []  # (ns, token, process)


def read_lines():
    for process in processes:
        with open(process.out, "rb") as lines:
            lines.seek(places[process.name])
            text = lines.read()
        text = text[:text.rfind(b"\n") + 1]
        places[process.name] += len(text)
        for line in text.decode().splitlines():
            words = line.split()
            if len(words) >= 3 and words[0] in ("won", "acts"):
                (wins if words[0] == "won" else acts).append(
                    (int(words[2]), int(words[1]), process.name))


def fail(promise, text):
    sys.exit("%s: %s (seed %d, run %d: %s)" % (promise, text, seed, run, plan))


def check_order():
    highest = (0, 0, "")
    for act in sorted(acts):
        if act[1] < highest[1]:
            fail("P1", "%s acts with token %d, %.1f ms after %s with token %d"
                 % (act[2], act[1], (act[0] - highest[0]) / 1e6, highest[2], highest[1]))
        highest = act
    del acts[:-100]
    last = 0
    for _, token, name in sorted(wins):
        if token <= last:
            fail("P2", "%s won token %d behind %d" % (name, token, last))
        last = token
    del wins[:-1]


def until_led(after):
    """Somebody acts later than that; returns how long it took."""
    by = now() + BACK
    while now() < by:
        read_lines()
        late = [act for act in acts if act[0] > after * 1e9]
        if late:
            return min(late)[0] / 1e9 - after
        time.sleep(0.02)
    for host in hosts:
        with open(host.agent.err, encoding="utf-8", errors="replace") as said:
            sys.stderr.write("".join(said.readlines()[-3:]))
    return fail("P7", "nobody leads %d s after the faults" % BACK)


class Fault:
    def __init__(self, what):
        self.level, self.kind = what
        self.host = chance.choice(hosts)
        self.process = chance.choice(self.host.processes)
        if self.level == "process" and self.kind in ("cut", "slow"):
            self.process = self.host.processes[1]
        self.begins = chance.uniform(0, 1.5)
        self.lasts = 0.05 * 120 ** chance.random()  # 50 ms to 6 s, each order as likely.
        self.from_, self.until = None, None

    def __str__(self):
        return "%s %s%s %.2f s from %.2f s on" % (
            self.kind, self.level, "" if self.level == "store" else
            " " + (self.process.name if self.level == "process" else self.host.agent.name),
            self.lasts, self.begins)

    def program(self):
        return {"process": self.process, "agent": self.host.agent, "store": store}[self.level]

    def proxies(self):
        if self.level == "process":
            return [self.host.to_agent]
        return [self.host.to_store] if self.level == "agent" else [h.to_store for h in hosts]

    def begin(self):
        if self.kind == "stop":
            self.program().signal(signal.SIGSTOP)
        elif self.kind == "kill":
            self.program().kill()
        elif self.kind == "restart":
            self.program().restart()
        else:
            word = chance.choice(("stall", "refuse", "up", "down")) if self.kind == "cut" else \
                "trickle 300"
            for proxy in self.proxies():
                proxy.say(word)
        self.from_ = now()

    def end(self):
        self.until = now()
        if self.kind == "stop":
            self.program().signal(signal.SIGCONT)
        elif self.kind == "kill":
            self.program().start()
        elif self.kind in ("cut", "slow"):
            for proxy in self.proxies():
                proxy.say("pass")

    def check_silence(self):
        bound = SILENT.get((self.level, self.kind))
        if bound is None:
            return
        names = [process.name for host in (hosts if self.level == "store" else [self.host])
                 for process in host.processes]
        for at, token, name in acts:
            if name in names and self.from_ + bound < at / 1e9 < self.until:
                fail("P9", "%s acts with token %d %.2f s after the fault: %s"
                     % (name, token, at / 1e9 - self.from_, self))


def do_run():
    global plan
    pair = pairs[run - 1] if run <= len(pairs) else (chance.choice(FAULTS), chance.choice(FAULTS))
    first, second = Fault(pair[0]), Fault(pair[1])
    plan = "%s; %s" % (first, second)
    zero = now()
    steps = sorted([(fault.begins, 0, fault.begin) for fault in (first, second)] +
                   [(fault.begins + fault.lasts, 1, fault.end) for fault in (first, second)],
                   key=lambda step: step[:2])
    for at, _, step in steps:
        time.sleep(max(0, zero + at - now()))
        step()
    healed = now()
    for proxy in [host.to_store for host in hosts] + [host.to_agent for host in hosts]:
        proxy.say("pass")
    for program in [store] + [host.agent for host in hosts] + processes:
        program.signal(signal.SIGCONT)
        program.start()
    took = until_led(healed)
    if first.program() is not second.program() and \
            not set(first.proxies()) & set(second.proxies()):
        first.check_silence()
        second.check_silence()
    check_order()
    return took


run, plan, took = 0, "the start", []
pairs = list(itertools.combinations_with_replacement(FAULTS, 2))
chance.shuffle(pairs)
try:
    store.start()
    for host in hosts:
        host.agent.start()
    for process in processes:
        process.start()
    until_led(now())
    for run in range(1, runs + 1):
        took.append(do_run())
        if os.environ.get("AGENT_CHAOS_TELLS"):
            print("run %d: %s: led %.2f s later" % (run, plan, took[-1]), flush=True)
    took.sort()
    print("%d of %d pairs of faults" % (min(runs, len(pairs)), len(pairs)))
    print("%d runs, seed %d: a leader %.2f s after healing (median), %.2f s (largest)"
          % (runs, seed, took[len(took) // 2], took[-1]))
finally:
    for program in processes + [host.agent for host in hosts] + [store]:
        program.signal(signal.SIGCONT)
        program.kill()
    for host in hosts:
        host.to_store.child.kill()
        host.to_agent.child.kill()
