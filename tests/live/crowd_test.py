#!/usr/bin/python3
"""crowd_test.py - very many peers of one tenured: in line for one name, silent, or slow."""
import glob
import resource
import selectors
import socket
import statistics
import time

from tenured import PATIENCE, Daemon, Resp, Skip, case, main, same, secret

LIMITS = ("--max-connections", "15000", "--max-connections-per-peer", "15000")


def need_descriptors(count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Skip(f"needs {count} descriptors, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else hard,
                                                hard))


def connect_many(daemon, count):
    peers = []
    for _ in range(count):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(daemon.socket) # Without a timeout it waits when many come.
        peer.settimeout(PATIENCE)
        peers.append(peer)
    return peers


def cpu_us(daemon):
    """What the daemon has used of a processor; unlike time, not what others leave of it."""
    used = 0
    for path in glob.glob(f"/proc/{daemon.process.pid}/task/*/schedstat"): # Either may serve.
        with open(path) as file:
            used += int(file.read().split()[0])
    return used / 1000


def line(*words):
    return (" ".join(str(word) for word in words) + "\r\n").encode()


@case
def of_10000_in_line_each_vacancy_wakes_one_and_the_last_as_fast_as_the_first():
    count, sample = 10000, 300
    need_descriptors(count + 500)
    with Daemon(*LIMITS) as daemon, daemon.resp() as boss:
        boss.ask("SESSION", "OPEN", secret(1), 3600000)
        boss.ask("LEASE", "ACQUIRE", secret(1), secret(1), "a")
        for begin in range(0, count, 500):
            for number in range(begin, begin + 500):
                boss.send("SESSION", "OPEN", secret(10 + number), 3600000)
            for _ in range(500):
                boss.read()
        peers = connect_many(daemon, count)
        for number, peer in enumerate(peers): # First come, first served: one after the other.
            peer.sendall(line("LEASE ACQUIRE", secret(10 + number), secret(9), "a WAIT 0"))
            if number % 100 == 99:
                while boss.ask("INFO").split("waiters:")[1].split("\r")[0] != str(number + 1):
                    pass
        heard = selectors.DefaultSelector()
        for number, peer in enumerate(peers):
            heard.register(peer, selectors.EVENT_READ, number)
        session, token = secret(1), 1
        term = secret(1)
        times = []
        used = cpu_us(daemon)
        for number in range(count):
            begun = time.monotonic()
            same(boss.ask("LEASE", "RELEASE", session, term, "a", token), "RELEASED")
            woken = heard.select(PATIENCE)
            times.append(time.monotonic() - begun)
            same([key.data for key, _ in woken], [number])
            reply = peers[number].recv(4096).split(b"\r\n")
            same(reply[2], b"granted")
            token = int(reply[3][1:])
            same(token, number + 2)
            session, term = secret(10 + number), secret(9)
            heard.unregister(peers[number])
            if number == sample:
                first_used = (cpu_us(daemon) - used) / (sample + 1)
                # Those in between would only take time: they leave the line.
                for other in range(number + 1, count - sample):
                    heard.unregister(peers[other])
                    peers[other].close()
                while boss.ask("INFO").split("waiters:")[1].split("\r")[0] != str(sample):
                    pass
                break
        first = statistics.median(times)
        times = []
        used = cpu_us(daemon)
        for number in range(count - sample, count):
            begun = time.monotonic()
            boss.ask("LEASE", "RELEASE", session, term, "a", token)
            woken = heard.select(PATIENCE)
            times.append(time.monotonic() - begun)
            same([key.data for key, _ in woken], [number])
            token = int(peers[number].recv(4096).split(b"\r\n")[3][1:])
            session = secret(10 + number)
            heard.unregister(peers[number])
        last = statistics.median(times)
        last_used = (cpu_us(daemon) - used) / sample
        print(f"hand-over with 10,000 in line {first * 1e3:.2f} ms and {first_used:.0f} us of a "
              f"processor, with 300 {last * 1e3:.2f} ms and {last_used:.0f} us")
        same(first_used < 5 * last_used, True)
        for peer in peers:
            peer.close()


@case
def with_4500_silent_or_slow_peers_500_holders_lose_nothing():
    need_descriptors(5500)
    with Daemon(*LIMITS, tcp=True) as daemon:
        silent = connect_many(daemon, 2500)
        slow = connect_many(daemon, 2000)
        holders = [Resp(peer) for peer in connect_many(daemon, 500)]
        for number, holder in enumerate(holders):
            holder.send("SESSION", "OPEN", secret(10 + number), 5000)
        for holder in holders:
            holder.read()
        for number, holder in enumerate(holders):
            holder.send("LEASE", "ACQUIRE", secret(10 + number), secret(9), f"n{number}")
        for holder in holders:
            same(holder.read()[0], "granted")
        end = time.monotonic() + 12
        turns = 0
        while time.monotonic() < end:
            turn = time.monotonic() + 1
            for peer in slow:
                peer.send(b"*")
            for number, holder in enumerate(holders):
                holder.send("SESSION", "RENEW", secret(10 + number))
            for holder in holders:
                same(holder.read()[:2], [5000, 1]) # Its TTL, and still one lease.
            turns += 1
            time.sleep(max(0, turn - time.monotonic()))
        same(turns >= 3, True)
        for number, holder in enumerate(holders):
            same(holder.ask("LEASE", "GET", f"n{number}")[5], number + 1)
        for peer in silent + slow + holders:
            peer.close()


main()
