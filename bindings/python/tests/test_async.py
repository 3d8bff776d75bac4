"""asyncio: the library's descriptor in the caller's own loop."""
import asyncio
import threading

import pytest

import tenure

TTL = 1.0


def test_lead(store, name):
    async def main():
        async with tenure.open(store.url, ttl=store.ttl) as t:
            async with t.alead(name, wait=30) as term:
                assert term and term.token == term.number
                assert t._thread is None, "the loop runs the callbacks"
                await asyncio.sleep(store.ttl * 1.2)
                assert term, "renewed"
            assert not term and term.reason == "released"
            assert t._loop is None

    asyncio.run(main())


def test_not_acquired_and_cancelled(url):
    async def main():
        with tenure.open(url, ttl=TTL) as one, tenure.open(url, ttl=TTL) as two:
            async with one.alead("report", wait=30) as term:
                with pytest.raises(tenure.NotAcquired):
                    async with two.alead("report", wait=0.2):
                        pytest.fail("there are two leaders")
                waiting = asyncio.ensure_future(two.alead("report").__aenter__())
                await asyncio.sleep(0.1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert not two._elections and two._loop is None
                assert term

    asyncio.run(main())


def test_cancelled_block_releases(url):
    async def main():
        async def work(t, began):
            async with t.alead("report", wait=30):
                began.set()
                await asyncio.sleep(600)

        with tenure.open(url, ttl=10) as one, tenure.open(url, ttl=TTL) as two:
            began = asyncio.Event()
            task = asyncio.ensure_future(work(one, began))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with two.alead("report", wait=5) as term:
                assert term

    asyncio.run(main())


def test_lost(url, tmp_path):
    """The term that the store no longer renews ends the loop, and lost() says why."""
    from conftest import SQLiteStore

    async def main():
        store = SQLiteStore(tmp_path)
        async with tenure.open(store.url, ttl=TTL) as t:
            async with t.alead("report", wait=30) as term:
                await asyncio.to_thread(store.kill)
                assert await asyncio.wait_for(term.lost(), 30) == "expired"
                assert not term and term.reason == "expired"
                store.again()

    asyncio.run(main())


def test_resign(url):
    async def main():
        async with tenure.open(url, ttl=TTL) as t:
            async with t.alead("report", wait=30) as term:
                asyncio.get_running_loop().call_later(0.05, term.resign)
                while term:
                    await asyncio.sleep(0.001)
                assert term.token, "valid for what is under way"
            assert term.reason == "released"

    asyncio.run(main())


def test_many_at_once(tmp_path):
    async def one(t, number):
        async with t.alead(f"name-{number}", wait=30) as term:
            await asyncio.sleep(0)
            return term.token

    async def main():
        async with tenure.open(f"memory:{tmp_path.name}", ttl=10) as t:
            tokens = await asyncio.gather(*[one(t, number) for number in range(50)])
            assert len(set(tokens)) == 50 and all(tokens)

    asyncio.run(main())


def test_loop_and_thread(url):
    """A session that a loop serves is taken over by the thread when a thread waits, too."""
    async def main(t):
        async with t.alead("one", wait=30) as one:
            def lead():
                with t.lead("two", wait=30) as two:
                    return two.token

            assert await asyncio.to_thread(lead)
            assert t._thread is not None and t._loop is None
            async with t.alead("three", wait=30) as three:
                assert one and three

    with tenure.open(url, ttl=TTL) as t:
        asyncio.run(main(t))


def test_two_loops(url):
    with tenure.open(url, ttl=TTL) as t:
        failed = []

        async def work(name, both):
            async with t.alead(name, wait=30) as term:
                await asyncio.to_thread(both.wait, 30)
                assert term

        def run(name, both):
            try:
                asyncio.run(work(name, both))
            except BaseException as error:
                failed.append(error)

        both = threading.Barrier(2)
        threads = [threading.Thread(target=run, args=(name, both)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
