"""Tenure: exactly one process at a time leads, and knows at every instant whether it still does.

    import tenure

    with tenure.open("sqlite:/var/lib/app/tenure.db", ttl=15) as t:
        with t.lead("report", wait=30) as term:
            while term:
                save(next_piece(), token=term.token)

`term` is true while this process leads, asked of the library's clock each time. Send `term.token`
with every write and let the receiver refuse an older one: tenure.Fence does that for SQLite and for
files. See README.md of this package and docs/python.md.
"""
from __future__ import annotations

from typing import Optional

from . import _native
from ._errors import (
    Closed,
    Conflict,
    Damaged,
    Denied,
    Expired,
    Full,
    Invalid,
    NoMemory,
    NotAcquired,
    NotHeld,
    Stale,
    TenureError,
    Timeout,
    Unavailable,
    Unsupported,
)
from ._fence import Fence, FileFence, SQLiteFence
from ._session import Election, Event, EventKind, Seconds, Session
from ._term import AsyncTerm, Term

__all__ = [
    "AsyncTerm",
    "Closed",
    "Conflict",
    "Damaged",
    "Denied",
    "Election",
    "Event",
    "EventKind",
    "Expired",
    "Fence",
    "FileFence",
    "Full",
    "Invalid",
    "NoMemory",
    "NotAcquired",
    "NotHeld",
    "SQLiteFence",
    "Session",
    "Stale",
    "TenureError",
    "Term",
    "Timeout",
    "Unavailable",
    "Unsupported",
    "library_version",
    "open",
]


def open(
    url: Optional[str] = None,
    *,
    ttl: Optional[Seconds] = None,
    grace: Optional[Seconds] = None,
    id: Optional[str] = None,
    rho_ppm: int = 0,
    hold_off: Optional[Seconds] = None,
) -> Session:
    """Open the store at `url` and a session in it; use it with `with` or close() it.

    url: sqlite:PATH, unix:PATH, etcd://HOST/PREFIX and so on; None: the environment's TENURE_STORE,
        else a file in the user's state directory.
    ttl: how many seconds a lease outlives its last renewal, 1 to 86400; 15 by default.
    grace: how many seconds the work takes to stop; a fifth of the TTL by default.
    id: a label that tells people who leads; host-pid by default.
    rho_ppm: how wrong the rate of a clock may be, in millionths; 100000 by default.
    hold_off: for receivers without a fence: for so many seconds behind the deadline of a term that
        was lost, nobody leads. A term that is given back passes on at once.

    A store that does not answer is no error: the session begins when it does. Raises Invalid,
    Denied, Damaged, Unsupported, Unavailable.
    """
    return Session(url, ttl=ttl, grace=grace, id=id, rho_ppm=rho_ppm, hold_off=hold_off)


def library_version() -> str:
    """The version of libtenure."""
    return str(_native.load().fast.tenure_version().decode())
