"""What mypy --strict sees of the package; not run. `assert_type` and unneeded `ignore`s are errors
of mypy, so each line here fails if the types change."""
import asyncio
import datetime
import sqlite3
from typing import Optional, Union, assert_type

import tenure


def lead(shop: sqlite3.Connection) -> None:
    fence = tenure.Fence.sqlite("shop.db", "orders")
    report = tenure.Fence.file("report.txt")
    with tenure.open("sqlite:tenure.db", ttl=datetime.timedelta(seconds=5)) as t:
        with t.lead("orders", fences=[fence, report, "redis://r#orders"], wait=30) as term:
            while term:
                with fence.transaction(shop, term.token):
                    shop.execute("INSERT INTO orders (state) VALUES ('done')")
                report.append("one line\n", term.token)
        assert_type(term.token, int)
        assert_type(term.reason, Optional[str])
        assert_type(term.remaining, float)
        assert_type(t.health(), Optional[tenure.TenureError])
        assert_type(term.proven, Optional[float])
        with t.lead("pool", slots=3) as one, t.lead("job", priority=8, yields=True):
            assert_type(one.slot, int)
        t.lead("orders", priority="8")  # type: ignore[arg-type]
        t.lead("orders", wait="30")  # type: ignore[arg-type]
        report.append("one line\n", "7")  # type: ignore[arg-type]


def decorate(t: tenure.Session) -> None:
    @t.only_leader("report", default="skipped")
    def first(term: tenure.Term, day: int) -> bytes:
        return bytes(day)

    @t.only_leader("report")
    def last(day: int, term: tenure.Term) -> bytes:
        return bytes(day)

    @t.only_leader("report")
    async def later(term: tenure.Term, day: int) -> bytes:
        return bytes(day)

    assert_type(first(1), Union[bytes, str])
    assert_type(last(1), Optional[bytes])
    first("monday")  # type: ignore[arg-type]

    async def main() -> None:
        assert_type(await later(1), Optional[bytes])

    asyncio.run(main())


def hear(election: tenure.Election, event: tenure.Event) -> None:
    if event.kind == tenure.EventKind.LOST:
        election.drained()
    assert_type(event.token, int)
    assert_type(event.proven, Optional[float])


async def lead_async(t: tenure.Session) -> None:
    t.campaign("report", hear, drained_on_return=True)
    t.observe("report", hear)
    async with t.alead("report", wait=30) as term:
        assert_type(await term.lost(), str)
