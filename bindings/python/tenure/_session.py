"""A session in a store, its elections, and the thread or loop that runs their callbacks.

The C library has a thread of its own that renews the session and never enters the interpreter, so
nothing that Python does can delay a renewal: not a callback, not a collection of garbage, not an
extension that keeps the interpreter's lock. Callbacks run where the package watches the library's
descriptor (TENURE_OWN_LOOP): on a Python thread, or in the caller's asyncio loop.

Locks: an election's lock is held for one call of the library, so that no thread uses an election
that another thread frees. It is reentrant, because a signal handler may ask for the token at any
point of the main thread. No lock is held while a callback runs.
"""
from __future__ import annotations

import ctypes
import datetime
import enum
import itertools
import logging
import os
import select
import threading
import time
import warnings
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Set,
    TypeVar,
    Union,
    overload,
)

from . import _native
from ._errors import Closed, Invalid, TenureError, error_of
from ._fence import Fence, remember_library_use

if TYPE_CHECKING:
    import asyncio

    from ._term import AsyncLead, Lead, OnlyLeader

log = logging.getLogger("tenure")

Seconds = Union[float, datetime.timedelta]
Default = TypeVar("Default")

DEFAULT_TTL = 15.0


def seconds_of(value: Optional[Seconds]) -> float:
    """A span of time in seconds; None is 0, which the library takes for its default."""
    if value is None:
        return 0.0
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return float(value)


def bytes_of(text: Union[str, "os.PathLike[str]"], what: str) -> bytes:
    """For C, which would take a NUL for the end."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise Invalid(f"{what}: {text!r} has a NUL in it")
    return encoded


def ns_of(value: Optional[Seconds], what: str) -> int:
    seconds = seconds_of(value)
    if not 0 <= seconds < 2**33:
        raise Invalid(f"{what}: {value!r} is not a span of time in seconds")
    return round(seconds * 1_000_000_000)


def number_of(value: int, what: str) -> int:
    if not 0 <= value < 2**32:  # C would take the rest of it.
        raise Invalid(f"{what}: {value!r} is out of range")
    return int(value)


class EventKind(enum.IntEnum):
    """What happened to an election; the numbers are those of enum tenure_event_kind."""

    WON = 1
    JEOPARDY = 2
    SAFE = 3
    STOP = 4
    LOST = 5
    REFUSED = 6
    LEADER = 7
    VACANT = 8
    RENEWED = 9
    HEALTH = 10


class Event:
    """One event: kind, token, and what belongs to the kind.

    reason: of LOST, REFUSED and STOP, one word such as "expired" or "asked"; otherwise "none".
    leader: of LEADER, the label of the process that leads; otherwise "".
    detail: of LOST and REFUSED, what the store or the fence said last, for people; of STOP what was
    asked for: "handover", "stand-down", "drain" or "yield".
    proven: of LOST, the instant up to which the term is proven, in seconds as
    time.clock_gettime(time.CLOCK_BOOTTIME) has it; otherwise None.
    """

    __slots__ = ("kind", "reason", "token", "leader", "detail", "proven")

    def __init__(
        self,
        kind: EventKind,
        reason: str,
        token: int,
        leader: str,
        detail: str,
        proven: Optional[float] = None,
    ) -> None:
        self.kind = kind
        self.reason = reason
        self.token = token
        self.leader = leader
        self.detail = detail
        self.proven = proven

    def __repr__(self) -> str:
        return f"<tenure.Event {self.kind.name.lower()} token={self.token} reason={self.reason}>"


Handler = Callable[["Election", Event], None]

# One C function for all elections: its argument is a key of this table. A callback that comes after
# the election has left finds nothing.
_elections: Dict[int, "Election"] = {}
_keys = itertools.count(1)
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
# The children of a fork count on: a session of another generation is not this process's.
_generation = 0


def _receive_event(pointer: int, record: Any, key: Optional[int]) -> None:
    election = _elections.get(key or 0)
    if election is None:
        return
    try:
        election._receive(pointer, record.contents)
    except Exception:  # A callback has no caller who could catch it.
        log.exception("%s: the callback failed", election.name)


_receive = _native.Callback(_receive_event)


class Election:
    """A name that this process campaigns for, or observes. See Session.campaign.

    bool(election) and election.token are the library's tenure_token: true this very instant.
    """

    def __init__(self, session: "Session", name: str, handler: Handler) -> None:
        self.session = session
        self.name = name
        self._handler = handler
        self._drained_on_return = False
        self._lock = threading.RLock()
        self._pointer: Optional[int] = None
        self._key = next(_keys)

    # --- Asked at any time -----------------------------------------------------------------------

    @property
    def token(self) -> int:
        """The token while the term is valid this very instant, otherwise 0."""
        with self._lock:
            return int(self.session._library.fast.tenure_token(self._pointer))

    def __bool__(self) -> bool:
        return self.token != 0

    @property
    def remaining(self) -> float:
        """Seconds until the term ends unless it is renewed; 0.0 when not leading."""
        with self._lock:
            deadline = int(self.session._library.fast.tenure_deadline(self._pointer))
        left = deadline - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return max(0.0, left / 1e9)

    @property
    def slot(self) -> int:
        """Of a semaphore (`slots`): the number of the term's slot, from 1; otherwise 0."""
        with self._lock:
            return int(self.session._library.fast.tenure_slot(self._pointer))

    # --- What the holder says --------------------------------------------------------------------

    def _say(self, name: str, *arguments: Any) -> int:
        """Call the library; TENURE_E_CLOSED once the election has left."""
        with self._lock:
            if self._pointer is None:
                return _native.CLOSED
            return int(getattr(self.session._library.slow, name)(self._pointer, *arguments))

    def _must(self, name: str, *arguments: Any) -> None:
        self.session._library.check(self._say(name, *arguments), self.name)

    def resign(self) -> None:
        """Step down: STOP is told, and LOST (released) once drained() is called."""
        self._must("tenure_resign")

    def stand(self) -> None:
        """Campaign again after resign()."""
        self._must("tenure_stand")

    def drained(self) -> None:
        """The work of the last term has stopped: only now is its lease given back."""
        self._must("tenure_drained")

    def ready(self, ready: bool = True) -> None:
        """Whether the process could lead at once. While it is not, it does not acquire."""
        self._must("tenure_ready", ready)

    def check_in(self) -> None:
        """The work loop is alive; needed at least every `stall_after` seconds if that was set."""
        self._must("tenure_check_in")

    def leave(self) -> None:
        """End the election; the work must have stopped. A lease that it has is given back.

        No callback of it runs any more once this returns, unless this is called from within one.
        """
        _elections.pop(self._key, None)
        pointer = self._detach()
        if pointer is not None:
            self.session._elections.discard(self)
            self.session._library.slow.tenure_leave(pointer)

    def __enter__(self) -> "Election":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"<tenure.Election {self.name} token={self.token}>"

    # --- For the session -------------------------------------------------------------------------

    def _detach(self) -> Optional[int]:
        """Take the pointer away: whoever had it before has finished its call."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
            return pointer

    def _receive(self, pointer: int, record: Any) -> None:
        with self._lock:
            if self._pointer is None and self._key in _elections:
                self._pointer = pointer  # The first callback may come before the call returns.
        try:
            kind = EventKind(record.kind)
        except ValueError:
            return  # Of a later version.
        event = Event(
            kind,
            self.session._library.fast.tenure_reason_text(record.reason).decode(),
            record.token,
            (record.leader or b"").decode(errors="replace"),
            (record.detail or b"").decode(errors="replace"),
            record.proven / 1e9 if kind == EventKind.LOST else None,
        )
        self._handler(self, event)
        # Not reached when the handler raised: then nobody knows whether the work has stopped.
        if self._drained_on_return and kind in (EventKind.STOP, EventKind.LOST):
            if self.token in (0, event.token):
                self._say("tenure_drained")


def _ignore(_election: Election, _event: Event) -> None:
    pass


class Session:
    """One session in a store, for any number of names. tenure.open() makes one."""

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        ttl: Optional[Seconds] = None,
        grace: Optional[Seconds] = None,
        id: Optional[str] = None,
        rho_ppm: int = 0,
        hold_off: Optional[Seconds] = None,
    ) -> None:
        self._closed = True  # Until it is open.
        self._library = _native.load()
        self.ttl = seconds_of(ttl) or DEFAULT_TTL
        options = _native.Options(
            ctypes.sizeof(_native.Options),
            None if id is None else bytes_of(id, "id"),
            ns_of(ttl, "ttl"),
            ns_of(grace, "grace"),
            number_of(rho_ppm, "rho_ppm"),
            _native.OWN_LOOP,
            ns_of(hold_off, "hold_off"),
        )
        handle, error = _native.Handle(), _native.Error()
        code = self._library.slow.tenure_open(
            None if url is None else bytes_of(url, "url"),
            ctypes.byref(options),
            ctypes.byref(handle),
            ctypes.byref(error),
        )
        if code != 0:
            raise error_of(code, error.message())
        remember_library_use(url)
        self._handle: Optional[int] = handle.value
        self._fd = int(self._library.fast.tenure_fd(handle))
        self._generation = _generation
        self._lock = threading.RLock()
        self._elections: Set[Election] = set()
        self._thread: Optional[threading.Thread] = None
        self._wake: Optional[int] = None
        self._served: Optional[threading.Event] = None  # The thread has begun; set at its end.
        self._loop: Optional["asyncio.AbstractEventLoop"] = None
        self._loop_users = 0
        self._closed = False
        _sessions.add(self)

    # --- Leading ---------------------------------------------------------------------------------

    def lead(
        self,
        name: str,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        wait: Optional[Seconds] = None,
        grace: Optional[Seconds] = None,
        stall_after: Optional[Seconds] = None,
        slots: int = 0,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> "Lead":
        """`with t.lead("report") as term: while term: ...`

        Entering the block waits until this process leads, at most `wait` seconds, and then raises
        NotAcquired. `fences` (URL#RESOURCE, or Fence) are raised before the block begins. Leaving
        the block says that the work has stopped, and gives the lease back.

        slots: up to so many candidates lead at once, each with a token of its own; without fences.
        priority: 1 to 9; of those who wait, the higher leads first. yields: the term is asked to
        stop (term.stopping) when a candidate with a higher priority waits.
        soft_limit: when the store has not heard of the leader for so long, a candidate with a soft
        limit and the same fences leads before the TTL is over. Only with fences, and for work that
        does harm only through them.
        """
        from ._term import Lead

        flags = _native.YIELD if yields else 0
        return Lead(
            self, name, fences, wait, grace, stall_after, flags, slots, priority, soft_limit
        )

    def alead(
        self,
        name: str,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        wait: Optional[Seconds] = None,
        grace: Optional[Seconds] = None,
        stall_after: Optional[Seconds] = None,
        slots: int = 0,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> "AsyncLead":
        """`async with t.alead("report") as term: while term: ...`, as lead() in asyncio."""
        from ._term import AsyncLead

        flags = _native.YIELD if yields else 0
        return AsyncLead(
            self, name, fences, wait, grace, stall_after, flags, slots, priority, soft_limit
        )

    @overload
    def only_leader(
        self,
        name: str,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        grace: Optional[Seconds] = None,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> "OnlyLeader[None]": ...

    @overload
    def only_leader(
        self,
        name: str,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        default: Default,
        grace: Optional[Seconds] = None,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> "OnlyLeader[Default]": ...

    def only_leader(
        self,
        name: str,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        default: Any = None,
        grace: Optional[Seconds] = None,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> "OnlyLeader[Any]":
        """A decorator: the function runs only in the process that leads `name`.

        The campaign begins with the decoration and goes on until the session is closed. In a
        process that does not lead, a call returns `default` at once and runs nothing. A function
        with a parameter `term` gets the term: as its first argument if it is the first parameter,
        otherwise by that name. The lease is not given back while a call runs. Works for plain and
        for async functions.
        """
        from ._term import OnlyLeader

        flags = _native.YIELD if yields else 0
        return OnlyLeader(self, name, fences, default, grace, flags, priority, soft_limit)

    def campaign(
        self,
        name: str,
        callback: Optional[Handler] = None,
        *,
        fences: Iterable[Union[str, Fence]] = (),
        grace: Optional[Seconds] = None,
        stall_after: Optional[Seconds] = None,
        drained_on_return: bool = False,
        not_ready: bool = False,
        tell_renewed: bool = False,
        tell_health: bool = False,
        slots: int = 0,
        priority: int = 0,
        yields: bool = False,
        soft_limit: Optional[Seconds] = None,
    ) -> Election:
        """Campaign for `name`, term after term, and hear what happens.

        callback(election, event) runs on a Python thread, one at a time per session. One that
        blocks delays the callbacks behind it and no renewal. After STOP and LOST, call
        election.drained() when the work has stopped; with drained_on_return, the callback's return
        from STOP and LOST says so, but not if it raises. An exception goes to the log "tenure".
        """
        self._use_thread()
        flags = (
            (_native.NOT_READY if not_ready else 0)
            | (_native.TELL_RENEWED if tell_renewed else 0)
            | (_native.TELL_HEALTH if tell_health else 0)
            | (_native.YIELD if yields else 0)
        )
        return self._campaign(
            name,
            callback or _ignore,
            fences,
            grace,
            stall_after,
            flags,
            drained_on_return or callback is None,
            slots,
            priority,
            soft_limit,
        )

    def observe(self, name: str, callback: Handler) -> Election:
        """Only hear who leads `name`: LEADER and VACANT."""
        self._use_thread()
        election = Election(self, name, callback)
        pointer, encoded = _native.Handle(), bytes_of(name, "name")

        def begin(error: object) -> int:
            start, out = self._library.slow.tenure_observe_start, ctypes.byref(pointer)
            return int(start(self._handle, encoded, _receive, election._key, out, error))

        self._begin(election, begin, pointer)
        return election

    def _campaign(
        self,
        name: str,
        handler: Handler,
        fences: Iterable[Union[str, Fence]],
        grace: Optional[Seconds],
        stall_after: Optional[Seconds],
        flags: int = 0,
        drained_on_return: bool = False,
        slots: int = 0,
        priority: int = 0,
        soft_limit: Optional[Seconds] = None,
    ) -> Election:
        if isinstance(fences, (str, Fence)):
            raise Invalid("fences: a list of fences is needed, such as [fence]")
        urls = [str(fence) for fence in fences]
        election = Election(self, name, handler)
        election._drained_on_return = drained_on_return
        array = (ctypes.c_char_p * (len(urls) + 1))(*[bytes_of(url, "fence") for url in urls], None)
        campaign = _native.Campaign(
            ctypes.sizeof(_native.Campaign),
            _receive,
            election._key,
            ns_of(stall_after, "stall_after"),
            ns_of(grace, "grace"),
            flags,
            array if urls else None,
            number_of(slots, "slots"),
            number_of(priority, "priority"),
            ns_of(soft_limit, "soft_limit"),
        )
        pointer, encoded = _native.Handle(), bytes_of(name, "name")
        for url in urls:
            remember_library_use(url)

        def begin(error: object) -> int:
            start, out = self._library.slow.tenure_campaign_start, ctypes.byref(pointer)
            return int(start(self._handle, encoded, ctypes.byref(campaign), out, error))

        self._begin(election, begin, pointer)
        return election

    def _begin(
        self, election: Election, begin: Callable[[object], int], pointer: ctypes.c_void_p
    ) -> None:
        error = _native.Error()
        with self._lock:  # No close in between.
            self._check_open()
            _elections[election._key] = election
            self._elections.add(election)
            code = begin(ctypes.byref(error))
            if code == 0:
                with election._lock:
                    # A callback may have ended the election already; then it stays so.
                    if election._key in _elections:
                        election._pointer = pointer.value
            else:
                _elections.pop(election._key, None)
                self._elections.discard(election)
        if code != 0:
            raise error_of(code, error.message() or self._library.text(code))

    # --- How the store is ------------------------------------------------------------------------

    def health(self) -> Optional[TenureError]:
        """None while the store answers; otherwise the error of the last operation."""
        error = _native.Error()
        with self._lock:
            self._check_open()
            code = self._library.slow.tenure_health(self._handle, ctypes.byref(error))
        return None if code == 0 else error_of(code, error.message() or self._library.text(code))

    def warning(self) -> Optional[str]:
        """What people should know of the store, such as a server version with known faults."""
        error = _native.Error()
        with self._lock:
            self._check_open()
            warns = self._library.slow.tenure_warning(self._handle, ctypes.byref(error))
        return error.message() if warns else None

    # --- The thread, or the loop -----------------------------------------------------------------

    @property
    def _inert(self) -> bool:
        return self._generation != _generation

    def _check_open(self) -> None:
        if self._inert:
            raise Closed("the session belongs to the parent of this process: open one here")
        if self._closed:
            raise Closed("the session is closed")

    def _dispatch(self) -> int:
        """Run the callbacks that are due, on this thread."""
        handle = self._handle
        if handle is None or self._inert:
            return _native.CLOSED
        return int(self._library.slow.tenure_dispatch(handle))

    def _use_thread(self) -> None:
        """Let a thread run the callbacks, if none does yet."""
        with self._lock:
            self._check_open()
            if self._thread is not None:
                return
            loop = self._take_loop()
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._thread = threading.Thread(
                target=self._run, args=(self._wake,), name="tenure-callbacks", daemon=True
            )
            self._thread.start()
        self._remove_reader(loop)

    def _run(self, wake: int) -> None:
        with self._lock:
            if self._closed:  # A signal came between, and its exception closed the session.
                return
            served = self._served = threading.Event()
        try:
            self._serve(wake)
        finally:
            served.set()

    def _serve(self, wake: int) -> None:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.register(wake, select.POLLIN)
        while True:
            ready = poller.poll()
            if any(fd == wake for fd, _ in ready):
                return
            if self._dispatch() == _native.CLOSED:  # By one of the callbacks.
                os.close(wake)
                return

    def _use_loop(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Let the caller's loop run the callbacks, unless a thread does already."""
        with self._lock:
            self._check_open()
            if self._thread is not None:
                return
            if self._loop is None:
                self._loop = loop
                loop.add_reader(self._fd, self._dispatch)
            if self._loop is loop:
                self._loop_users += 1
                return
        self._use_thread()  # Two loops: neither may depend on the other.

    def _leave_loop(self, loop: "asyncio.AbstractEventLoop") -> None:
        with self._lock:
            if self._loop is not loop:
                return
            self._loop_users -= 1
            unused = self._take_loop() if self._loop_users == 0 else None
        self._remove_reader(unused)

    def _take_loop(self) -> Optional["asyncio.AbstractEventLoop"]:
        loop, self._loop, self._loop_users = self._loop, None, 0
        return loop

    def _remove_reader(self, loop: Optional["asyncio.AbstractEventLoop"]) -> None:
        """Returns when the loop no longer calls _dispatch. Needs a running loop's own thread."""
        import asyncio

        if loop is None or loop.is_closed() or self._inert:
            return
        try:
            running: Optional[asyncio.AbstractEventLoop] = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is loop or not loop.is_running():
            loop.remove_reader(self._fd)
            return
        removed = threading.Event()

        def remove() -> None:
            loop.remove_reader(self._fd)
            removed.set()

        try:
            loop.call_soon_threadsafe(remove)
        except RuntimeError:
            return  # Closed in between, with all that it watched.
        while not removed.wait(0.1) and loop.is_running():
            pass

    # --- The end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back every lease and end the session; all work must have stopped.

        Waits for a callback that is running, unless it is called from within one, and for the
        store's answer, at most a third of the TTL. Raises Timeout or Unavailable if the store did
        not take the leases back: they are free when the TTL is over. The session is closed anyway.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread, wake, loop = self._thread, self._wake, self._take_loop()
            served = self._served
            for election in list(self._elections):
                _elections.pop(election._key, None)
                election._detach()
            self._elections.clear()
        _sessions.discard(self)
        if self._inert:
            return
        self._remove_reader(loop)
        if wake is not None and thread is not threading.current_thread():
            if served is not None:  # Not join(): a signal may have interrupted start().
                os.eventfd_write(wake, 1)
                served.wait()
            os.close(wake)
        # Nobody dispatches any more, but for the thread that this runs on.
        handle, self._handle = self._handle, None
        self._library.check(self._library.slow.tenure_close(handle), "close")

    async def aclose(self) -> None:
        """close() in asyncio; the loop goes on meanwhile."""
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except TenureError as error:
            if kind is None:
                raise
            log.warning("%s; the leases are free when the TTL is over", error)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            await self.aclose()
        except TenureError as error:
            if kind is None:
                raise
            log.warning("%s; the leases are free when the TTL is over", error)

    def __del__(self) -> None:
        # Not closed here: nobody knows whether the work has stopped. The lease ends with its TTL.
        if not self._closed and not self._inert:
            warnings.warn("a tenure session was not closed", ResourceWarning, source=self)


def _after_fork() -> None:
    """In the child every session is inert. Other threads' locks would never be released here."""
    global _generation
    _generation += 1
    sessions: List[Session] = list(_sessions)
    for session in sessions:
        session._lock = threading.RLock()
        session._thread = None
        for election in session._elections:
            election._lock = threading.RLock()
    _elections.clear()


os.register_at_fork(after_in_child=_after_fork)
