"""Priority, semaphores, hold-off, and the instant up to which a term is proven."""
import json
import signal
import subprocess
import time

import pytest
from conftest import BUILD, until

import tenure
from tenure import EventKind

TTL = 3.0


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def status(url, name):
    told = subprocess.run(
        [BUILD / "tenure", "status", "-s", url, "--json", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return json.loads(told.stdout)


def waits(url, name, level):
    """The token of who shows that it waits at this level, as the store has it; 0: nobody."""
    seen = status(url, f"~tenure/priority/{level}/{name}")
    return seen["token"] if seen["state"] == "held" else 0


def test_the_higher_priority_leads_first(url):
    with tenure.open(url, ttl=TTL, id="first") as first:
        with tenure.open(url, ttl=TTL, id="low") as low, tenure.open(url, ttl=TTL) as high:
            with first.lead("job", wait=30) as term:
                slow = low.campaign("job", priority=2)
                token = until(lambda: waits(url, "job", 2))
                fast = high.campaign("job", priority=8)
                until(lambda: waits(url, "job", 8))
                until(lambda: waits(url, "job", 2) > token)  # Left the line, and is back behind it.
                assert term
            until(lambda: fast or slow)
            assert fast and not slow


def test_a_leader_that_yields_stops_for_a_higher_one(url):
    with tenure.open(url, ttl=TTL) as low, tenure.open(url, ttl=TTL) as high:
        asked = []

        def hear(_election, event):
            if event.kind == EventKind.STOP:
                asked.append((event.reason, event.detail))

        with low.campaign("job", hear, drained_on_return=True, priority=2, yields=True) as slow:
            until(lambda: slow)
            with high.campaign("job", priority=8) as fast:
                until(lambda: fast)
                assert asked == [("asked", "yield")] and not slow
        with low.lead("task", wait=30, priority=2, yields=True) as term:
            with high.campaign("task", priority=8):
                until(lambda: term.stopping)
                assert term.token and not term
        stays = low.campaign("stays", priority=2)
        until(lambda: stays)
        high.campaign("stays", priority=8)
        until(lambda: waits(url, "stays", 8))
        assert stays


def test_slots_are_led_at_the_same_time(url):
    with tenure.open(url, ttl=TTL) as one, tenure.open(url, ttl=TTL) as two:
        with tenure.open(url, ttl=TTL) as three, one.lead("pool", wait=30, slots=2) as first:
            with two.lead("pool", wait=30, slots=2) as second:
                assert first and second and first.token != second.token
                assert sorted([first.slot, second.slot]) == [1, 2]
                with pytest.raises(tenure.NotAcquired):
                    with three.lead("pool", wait=1, slots=2):
                        pass
            assert second.slot == 0
            with three.lead("pool", wait=30, slots=2) as third:
                assert third.slot == 3 - first.slot
                assert third.token > max(first.number, second.number)


def test_a_lost_term_says_up_to_when_it_was_proven(url):
    began, heard = now(), []
    with tenure.open(url, ttl=TTL) as t:
        with t.lead("job", wait=30) as term:
            assert term.proven is None
            revoke = [BUILD / "tenure", "revoke", "-s", url, "job"]
            with t.campaign("other", lambda _election, event: heard.append(event)) as other:
                until(lambda: other)
                subprocess.run([*revoke[:-1], "other"], check=True, stdout=subprocess.DEVNULL)
                until(lambda: any(event.kind == EventKind.LOST for event in heard))
            subprocess.run(revoke, check=True, stdout=subprocess.DEVNULL)
            until(lambda: not term)
        assert term.reason == "revoked"
        assert began <= term.proven <= now()
    lost = [event.proven for event in heard if event.kind == EventKind.LOST]
    assert len(lost) == 1 and began <= lost[0] <= now()
    assert all(event.proven is None for event in heard if event.kind != EventKind.LOST)


def test_a_hold_off_keeps_the_lease_for_longer(url):
    with tenure.open(url, ttl=TTL) as t, t.lead("job", wait=30):
        assert status(url, "job")["ttl_ms"] == TTL * 1000
    with tenure.open(url, ttl=TTL, hold_off=5) as t, t.lead("job", wait=30):
        assert status(url, "job")["ttl_ms"] >= TTL * 1000 + 5000


def test_a_silent_leader_gives_way_at_the_soft_limit(url, tmp_path):
    path = tmp_path / "shop.db"
    install = [BUILD / "tenure", "fence", "install", "--at", f"sqlite:{path}"]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    fence, options = f"sqlite:{path}#orders", ["--ttl", "12s", "--rho", "0.01", "--soft-limit"]
    elect = [BUILD / "tenure", "elect", "-s", url, "--fence", fence, *options, "6s", "job"]
    with subprocess.Popen(elect, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
        try:
            assert b'"won"' in next(line for line in other.stdout if b'"won"' in line)
            other.send_signal(signal.SIGSTOP)
            stopped, left = now(), status(url, "job")["remaining_ms"] / 1000
            with tenure.open(url, ttl=12, rho_ppm=10_000) as t:
                with t.lead("job", fences=[fence], wait=30, soft_limit=6) as term:
                    took = now() - stopped
                    assert term.token > 1 and took < left, f"{took:.1f} s of {left:.1f} s"
        finally:
            other.kill()


def test_a_soft_limit_needs_fences(url):
    with tenure.open(url, ttl=12, rho_ppm=10_000) as t:
        for wrong in ({"soft_limit": 6}, {"soft_limit": -1, "fences": ["file:x"]}):
            with pytest.raises(tenure.Invalid):
                t.campaign("job", **wrong)


def test_numbers_that_are_none_of_c(url):
    with tenure.open(url, ttl=TTL) as t:
        for wrong in ({"slots": -1}, {"slots": 65}, {"slots": 2**32 + 1}, {"priority": 10},
                      {"priority": -1}, {"slots": 2, "priority": 1}):  # fmt: skip
            with pytest.raises(tenure.Invalid):
                t.campaign("job", **wrong)
    with pytest.raises(tenure.Invalid):
        tenure.open(url, hold_off=-1)
    with pytest.raises(tenure.Invalid):
        tenure.open(url, ttl=TTL, rho_ppm=-1)
