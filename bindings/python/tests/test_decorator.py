"""@t.only_leader: the function runs in the leader alone."""
import asyncio
import threading

import pytest
from conftest import until

import tenure

TTL = 1.0


def test_only_the_leader_runs(url):
    with tenure.open(url, ttl=TTL) as one, tenure.open(url, ttl=TTL) as two:
        first = one.only_leader("report", default="skipped")

        @first
        def save(data, term):
            """Saves."""
            return data, term.token

        assert save.__name__ == "save" and save.__doc__ == "Saves."
        until(lambda: first)
        second = two.only_leader("report", default="skipped")

        @second
        def save_there(data, term):
            return data, term.token

        token = save(1)[1]
        assert save(2) == (2, token) and save_there(1) == "skipped" and not second
        one.close()
        assert save(3) == "skipped"
        until(lambda: second)
        assert save_there(4)[1] > token


def test_without_term_and_as_a_method(url):
    with tenure.open(url, ttl=TTL) as t:
        leader = t.only_leader("report")

        class Job:
            @leader
            def run(self, more):
                return self, more

            @leader
            def middle(self, term, more):
                return self, bool(term), more

            @leader
            def fails(self, **more):
                assert more["term"]
                raise KeyError

        until(lambda: leader)
        job = Job()
        assert job.run(3) == (job, 3)
        assert job.middle(more=3) == (job, True, 3)
        with pytest.raises(KeyError):
            job.fails()
        assert leader._running == 0


def test_the_term_as_the_first_argument(url):
    with tenure.open(url, ttl=TTL) as t:
        leader = t.only_leader("report")

        @leader
        def first(term, more, *rest):
            return bool(term), more, rest

        @leader
        def only_by_name(*, term):
            return bool(term)

        until(lambda: leader)
        assert first(3, 4) == (True, 3, (4,)) and first(more=3) == (True, 3, ())
        assert only_by_name()


def test_the_lease_waits_for_a_running_call(url):
    """A term that ends while a call runs: the next one begins when the call has returned."""
    begun, go_on = threading.Event(), threading.Event()
    with tenure.open(url, ttl=2 * TTL) as t:
        leader = t.only_leader("report", grace=0.2)
        terms = []

        @leader
        def work(term):
            terms.append(term)
            begun.set()
            assert go_on.wait(30)
            return bool(term)

        until(lambda: leader)
        answer = []
        thread = threading.Thread(target=lambda: answer.append(work()))
        thread.start()
        assert begun.wait(30)
        leader._election.resign()
        until(lambda: not leader)
        leader._election.stand()
        assert not leader, "the call still runs"
        assert work() is None
        go_on.set()
        thread.join()
        assert answer == [False]
        until(lambda: leader)
        assert leader._watch.term.number > terms[0].number


def test_coroutine(url):
    async def main(t):
        leader = t.only_leader("report", default="skipped")

        @leader
        async def save(data, *, term):
            await asyncio.sleep(0)
            return data, term.token

        while not leader:
            await asyncio.sleep(0.01)
        assert (await save(1))[1] > 0
        t.close()
        assert await save(1) == "skipped"

    with tenure.open(url, ttl=TTL) as t:
        asyncio.run(main(t))
