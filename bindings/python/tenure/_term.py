"""Terms: what `with t.lead(...)`, `async with t.alead(...)` and @t.only_leader hand out."""
from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from typing import (
    Any,
    Callable,
    Concatenate,
    Coroutine,
    Generic,
    Iterable,
    Optional,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    overload,
)

from ._errors import NotAcquired, TenureError
from ._fence import Fence
from ._session import Election, Event, EventKind, Seconds, Session, log, seconds_of

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Default = TypeVar("Default")

# How long `reason` waits for the event of a term that is over: it is on its way to this process.
_REASON_WAIT = 1.0


class Term:
    """One term of leadership.

    bool(term): may another step of the work begin? False from the very instant at which the term is
    over, whoever is stopped or busy at that time, and once resign() was called. Never true again.

    The answer can be outdated the moment after: a process can be stopped between the question and
    its write. So send `term.token` with each write, and let the receiver refuse an older one.
    """

    def __init__(self, election: Election, token: int) -> None:
        self._election = election
        self._number = token
        self._stopping = False
        self._reason: Optional[str] = None
        self._detail = ""
        self._proven: Optional[float] = None
        self._over = threading.Event()

    @property
    def name(self) -> str:
        return self._election.name

    @property
    def token(self) -> int:
        """The token while the term is valid this very instant, otherwise 0."""
        token = self._election.token
        return token if token == self._number else 0

    def __bool__(self) -> bool:
        return not self._stopping and self.token != 0

    @property
    def number(self) -> int:
        """The token that the term began with, also when it is over; for logs, not for writes."""
        return self._number

    @property
    def stopping(self) -> bool:
        """resign() was called: finish what is under way, and leave the block."""
        return self._stopping

    @property
    def remaining(self) -> float:
        """Seconds until the term ends unless it is renewed; 0.0 when it is over."""
        return self._election.remaining if self.token else 0.0

    @property
    def reason(self) -> Optional[str]:
        """None while the term is valid; then why it ended, in one word.

        "expired": no renewal came through in time. "revoked": an operator took the lease away.
        "released": it was given back. "stalled": no check_in() in time, or the work did not stop in
        time. "token-regressed": the store went back. "closed": the session was closed.
        """
        if self._reason is None and self.token == 0:
            session = self._election.session
            if session._inert or session._closed:
                return "closed"
            self._await_reason()
            return self._reason or "unknown"
        return self._reason

    def _await_reason(self) -> None:
        self._over.wait(_REASON_WAIT)

    @property
    def detail(self) -> str:
        """What the store said last when the term was lost, for people."""
        return self._detail

    @property
    def proven(self) -> Optional[float]:
        """None while the term is valid; then the instant up to which it is proven, in seconds as
        time.clock_gettime(time.CLOCK_BOOTTIME) has it. Look at the work since then, or undo it.

        It is when the last renewal that the store confirmed was sent, and may lie before the term's
        begin. None as well where the reason is "closed" or "unknown".
        """
        return self._proven if self.reason is not None else None

    @property
    def slot(self) -> int:
        """Of a semaphore (`slots`): the number of this term's slot, from 1; otherwise 0."""
        return self._election.slot if self.token else 0

    def resign(self) -> None:
        """Step down from any thread or signal handler: bool(term) is False from here on.

        The term stays valid for the write that is under way; leaving the block gives it back.
        """
        self._stopping = True
        self._election._say("tenure_resign")

    def check_in(self) -> None:
        """The work is alive; see `stall_after`."""
        self._election._say("tenure_check_in")

    def __repr__(self) -> str:
        return f"<tenure.Term {self.name} token={self.token}>"

    def _end(self, reason: str, detail: str, proven: Optional[float] = None) -> None:
        self._reason, self._detail, self._proven = reason, detail, proven
        self._over.set()

    def _close(self) -> None:
        """The block is over. Without an answer of the store, the lease ends with its TTL."""
        self._stopping = True
        if not self._over.is_set():
            self._end("unknown", "the store did not confirm the release in time")


class AsyncTerm(Term):
    """A Term in asyncio."""

    _ended: "asyncio.Event"

    async def lost(self) -> str:
        """Wait until the term is over; the reason."""
        await self._ended.wait()
        return self._reason or "unknown"

    def _await_reason(self) -> None:
        # Not to block the loop: run what the loop itself would run next.
        session = self._election.session
        if session._loop is not None:
            session._dispatch()


class _Watch:
    """Follows the events of one election, and tells whoever waits for them."""

    def __init__(self, changed: Callable[[], None], term_class: Callable[..., Term]) -> None:
        self.term: Optional[Term] = None
        self.refusal = ""
        self.leader = ""
        self._changed = changed
        self._term_class = term_class

    def __call__(self, election: Election, event: Event) -> None:
        term = self.term
        if event.kind == EventKind.WON:
            self.term = self._term_class(election, event.token)
        elif event.kind == EventKind.STOP and term is not None:
            term._stopping = True
        elif event.kind == EventKind.LOST and term is not None:
            term._end(event.reason, event.detail, event.proven)
        elif event.kind == EventKind.REFUSED:
            refusal, self.refusal = self.refusal, event.detail or event.reason
            if refusal != self.refusal:  # Once, however often it is tried again.
                log.warning("%s: the lease was not taken: %s", election.name, self.refusal)
        elif event.kind == EventKind.LEADER:
            self.leader = event.leader
        elif event.kind == EventKind.VACANT:
            self.leader = ""
        self._changed()

    def not_acquired(self, name: str, session: Session, wait: float) -> NotAcquired:
        health = None
        try:
            health = session.health()
        except TenureError as error:
            health = error
        why = self.refusal
        if not why and health is not None:
            why = str(health)
        if not why:
            why = f"{self.leader} leads" if self.leader else "no answer in time"
        return NotAcquired(f"{name}: not won within {wait:g} s: {why}")


class _Request:
    """What lead() and alead() were asked for."""

    def __init__(
        self,
        session: Session,
        name: str,
        fences: Iterable[Union[str, Fence]],
        wait: Optional[Seconds],
        grace: Optional[Seconds],
        stall_after: Optional[Seconds],
        flags: int,
        slots: int,
        priority: int,
        soft_limit: Optional[Seconds],
    ) -> None:
        self._session = session
        self._name = name
        self._fences = fences
        self._wait = None if wait is None else seconds_of(wait)
        self._grace = grace
        self._stall_after = stall_after
        self._flags, self._slots, self._priority = flags, slots, priority
        self._soft_limit = soft_limit
        self._election: Optional[Election] = None

    def _campaign(self, watch: _Watch) -> None:
        if self._election is not None:
            raise RuntimeError("a block is entered once; call lead() or alead() again")
        self._election = self._session._campaign(
            self._name,
            watch,
            self._fences,
            self._grace,
            self._stall_after,
            self._flags,
            slots=self._slots,
            priority=self._priority,
            soft_limit=self._soft_limit,
        )


def _step_down(election: Election) -> bool:
    """The work has stopped: give the lease back. False: there is nobody to tell."""
    return election._say("tenure_resign") == 0 and election._say("tenure_drained") == 0


class Lead(_Request):
    """The context manager of Session.lead()."""

    def __enter__(self) -> Term:
        changed = threading.Condition()

        def notify() -> None:
            with changed:
                changed.notify_all()

        self._session._use_thread()
        watch = _Watch(notify, Term)
        self._campaign(watch)
        end = None if self._wait is None else time.monotonic() + self._wait
        try:
            with changed:
                while watch.term is None:
                    left = None if end is None else end - time.monotonic()
                    if left is not None and left <= 0:
                        raise watch.not_acquired(self._name, self._session, self._wait or 0.0)
                    self._session._check_open()
                    # Not for ever: the session may be closed by another thread.
                    changed.wait(1.0 if left is None else min(left, 1.0))
                self._term = watch.term
        except BaseException:
            if self._election is not None:
                self._election.leave()
            raise
        return self._term

    def __exit__(self, *_: object) -> None:
        assert self._election is not None
        try:
            if not self._term._over.is_set() and _step_down(self._election):
                self._term._over.wait(self._session.ttl / 3)
        finally:
            self._election.leave()
            self._term._close()


class AsyncLead(_Request):
    """The context manager of Session.alead()."""

    async def __aenter__(self) -> AsyncTerm:
        loop = asyncio.get_running_loop()
        changed, ended = asyncio.Event(), asyncio.Event()

        def note() -> None:
            changed.set()
            if watch.term is not None and watch.term._over.is_set():
                ended.set()

        def notify() -> None:  # On the loop's thread, or on the session's.
            try:
                loop.call_soon_threadsafe(note)
            except RuntimeError:
                pass  # The loop is closed: nobody waits.

        def make(election: Election, token: int) -> AsyncTerm:
            term = AsyncTerm(election, token)
            term._ended = ended
            return term

        watch = _Watch(notify, make)
        self._loop, self._ended = loop, ended
        self._session._use_loop(loop)
        try:
            self._campaign(watch)
            await asyncio.wait_for(self._won(watch, changed), self._wait)
        except BaseException as error:
            self._leave()
            if isinstance(error, asyncio.TimeoutError):
                raise watch.not_acquired(self._name, self._session, self._wait or 0.0) from None
            raise
        self._term = cast(AsyncTerm, watch.term)
        return self._term

    @staticmethod
    async def _won(watch: _Watch, changed: asyncio.Event) -> None:
        while watch.term is None:
            changed.clear()
            await changed.wait()

    def _leave(self) -> None:
        if self._election is not None:
            self._election.leave()
        self._session._leave_loop(self._loop)

    async def __aexit__(self, *_: object) -> None:
        assert self._election is not None
        try:
            if not self._term._over.is_set() and _step_down(self._election):
                try:
                    await asyncio.wait_for(self._ended.wait(), self._session.ttl / 3)
                except asyncio.TimeoutError:
                    pass
        finally:
            self._leave()
            self._term._close()


class OnlyLeader(Generic[Default]):
    """The decorator of Session.only_leader(): one standing campaign, for any number of functions.

    bool(decorator) is whether this process leads this very instant.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        fences: Iterable[Union[str, Fence]],
        default: Default,
        grace: Optional[Seconds],
        flags: int,
        priority: int,
        soft_limit: Optional[Seconds],
    ) -> None:
        self._default = default
        self._session = session
        self._lock = threading.RLock()  # A signal handler may call the function.
        self._running = 0
        self._draining = False
        self._watch = _Watch(lambda: None, Term)
        session._use_thread()
        self._election = session._campaign(
            name, self._hear, fences, grace, None, flags, priority=priority, soft_limit=soft_limit
        )

    def __bool__(self) -> bool:
        term = self._watch.term
        return term is not None and bool(term)

    def _hear(self, election: Election, event: Event) -> None:
        with self._lock:
            self._watch(election, event)
            if event.kind == EventKind.WON:
                self._draining = False
            elif event.kind in (EventKind.STOP, EventKind.LOST):
                self._draining = True
                self._drain()

    def _drain(self) -> None:
        """The lease is given back, and another term can begin, when the last call has returned."""
        if self._draining and self._running == 0:
            self._draining = False
            self._election_of()._say("tenure_drained")

    def _election_of(self) -> Election:
        term = self._watch.term
        return term._election if term is not None else self._election

    def _enter(self) -> Optional[Term]:
        if self._session._inert:
            return None
        with self._lock:
            term = self._watch.term
            if term is None or not term:
                return None
            self._running += 1
            return term

    def _leave(self) -> None:
        if self._session._inert:
            return  # The function forked, and this is the child.
        with self._lock:
            self._running -= 1
            self._drain()

    # The type of a function says what its first argument is, and no argument's name: the callers of
    # a function that takes the term elsewhere are not checked.
    @overload
    def __call__(
        self, function: Callable[Concatenate[Term, Arguments], Coroutine[Any, Any, Result]]
    ) -> Callable[Arguments, Coroutine[Any, Any, Union[Result, Default]]]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Term, Arguments], Result]
    ) -> Callable[Arguments, Union[Result, Default]]: ...

    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, Result]]
    ) -> Callable[..., Coroutine[Any, Any, Union[Result, Default]]]: ...

    @overload
    def __call__(
        self, function: Callable[..., Result]
    ) -> Callable[..., Union[Result, Default]]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        call = _pass_term(function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                term = self._enter()
                if term is None:
                    return self._default
                try:
                    return await call(term, args, kwargs)
                finally:
                    self._leave()

            return run_async

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            term = self._enter()
            if term is None:
                return self._default
            try:
                return call(term, args, kwargs)
            finally:
                self._leave()

        return run


def _pass_term(function: Callable[..., Any]) -> Callable[[Term, Any, Any], Any]:
    """How to call `function` with the term, if it wants it: as its first argument, or by name."""
    takes = inspect.signature(function).parameters
    first = next(iter(takes.values()), None)
    if first is not None and first.name == "term" and first.kind != first.KEYWORD_ONLY:
        return lambda term, args, kwargs: function(term, *args, **kwargs)
    if "term" in takes or any(p.kind == p.VAR_KEYWORD for p in takes.values()):
        return lambda term, args, kwargs: function(*args, **kwargs, term=term)
    return lambda term, args, kwargs: function(*args, **kwargs)
