"""The library's error codes as exceptions, one class per code of tenure/error.h."""
from __future__ import annotations

from typing import Dict, Optional, Type


class TenureError(Exception):
    """A call of the library failed.

    code: the negative code of tenure/error.h.
    outcome_unknown: the operation may have happened all the same. Only asking again tells.
    """

    code: int = 0
    outcome_unknown: bool = True

    def __init__(self, text: str, code: Optional[int] = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code


class _Failed(TenureError):
    """The operation had no effect."""

    outcome_unknown = False


class Invalid(_Failed, ValueError):
    """An argument or an input is not valid."""

    code = -1


class Conflict(_Failed):
    """The lease record changed during the operation."""

    code = -2


class Stale(_Failed):
    """A higher token was seen: a later leader exists. Stop; do not retry."""

    code = -3


class Timeout(TenureError):
    """No reply: the write may have happened."""

    code = -4


class Unavailable(_Failed):
    """The store or the receiver cannot be reached."""

    code = -5


class Expired(_Failed):
    """The session or the term has expired."""

    code = -6


class NotHeld(_Failed):
    """The lease is not held."""

    code = -7


class NotAcquired(NotHeld):
    """The term was not won within the given time."""


class Denied(_Failed):
    """Not permitted."""

    code = -8


class Full(_Failed):
    """A limit is reached."""

    code = -9


class Damaged(_Failed):
    """Stored data is damaged."""

    code = -10


class NoMemory(_Failed, MemoryError):
    """Out of memory."""

    code = -11


class Closed(_Failed):
    """The session is closed, or this process is a forked child of the one that opened it."""

    code = -12


class Unsupported(_Failed):
    """Not supported by this build, kernel or interpreter."""

    code = -13


CLASSES: Dict[int, Type[TenureError]] = {
    kind.code: kind
    for kind in (
        Invalid, Conflict, Stale, Timeout, Unavailable, Expired, NotHeld, Denied, Full, Damaged,
        NoMemory, Closed, Unsupported,
    )
}  # fmt: skip


def error_of(code: int, text: str) -> TenureError:
    """The exception for a code. A code that this version does not know has an unknown outcome."""
    return CLASSES.get(code, TenureError)(text, code)
