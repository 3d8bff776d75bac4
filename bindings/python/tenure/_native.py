"""libtenure by ctypes: the structures of the public headers, and the calls that the package uses.

ctypes rather than cffi: it belongs to the interpreter, so the package has no dependency, and the
few structures here do not need a parser of headers. tests/test_native.py compares every number and
size below with the headers.

The library is loaded twice, which gives the same library. `fast` keeps the interpreter's lock
during a call. It is for calls that never block, where giving up the lock would cost more than the
call, and where getting it back could take longer than the answer stays true. `slow` gives up the
lock, so that a call that waits for the disk or for another thread stops nobody.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, List, Optional

from ._errors import Unsupported, error_of

ERROR_TEXT = 400

OWN_LOOP = 1

NOT_READY = 2
TELL_RENEWED = 4
TELL_HEALTH = 8
YIELD = 32

CLOSED = -12

Handle = ctypes.c_void_p
Ns = ctypes.c_int64


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * ERROR_TEXT)]

    def message(self) -> str:
        return bytes(self.text).decode(errors="replace")


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("id", ctypes.c_char_p),
        ("ttl", Ns),
        ("grace", Ns),
        ("rho_ppm", ctypes.c_uint32),
        ("flags", ctypes.c_uint),
        ("hold_off", Ns),
    ]


class EventRecord(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("reason", ctypes.c_int),
        ("token", ctypes.c_uint64),
        ("leader", ctypes.c_char_p),
        ("detail", ctypes.c_char_p),
        ("proven", Ns),
    ]


Callback = ctypes.CFUNCTYPE(None, Handle, ctypes.POINTER(EventRecord), ctypes.c_void_p)


class Campaign(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("callback", Callback),
        ("arg", ctypes.c_void_p),
        ("stall_after", Ns),
        ("grace", Ns),
        ("flags", ctypes.c_uint),
        ("fences", ctypes.POINTER(ctypes.c_char_p)),
        ("slots", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
        ("soft_limit", Ns),
    ]


# Name: result, arguments.
_OUT = ctypes.POINTER(Handle)
_BYTES = ctypes.c_char_p
_FAST = {
    "tenure_token": (ctypes.c_uint64, [Handle]),
    "tenure_deadline": (Ns, [Handle]),
    "tenure_slot": (ctypes.c_uint32, [Handle]),
    "tenure_strerror": (_BYTES, [ctypes.c_int]),
    "tenure_reason_text": (_BYTES, [ctypes.c_int]),
    "tenure_version": (_BYTES, []),
    "tenure_fd": (ctypes.c_int, [Handle]),
}
_SLOW = {
    "tenure_open": (
        ctypes.c_int, [_BYTES, ctypes.POINTER(Options), _OUT, ctypes.POINTER(Error)]
    ),
    "tenure_close": (ctypes.c_int, [Handle]),
    "tenure_dispatch": (ctypes.c_int, [Handle]),
    "tenure_health": (ctypes.c_int, [Handle, ctypes.POINTER(Error)]),
    "tenure_warning": (ctypes.c_bool, [Handle, ctypes.POINTER(Error)]),
    "tenure_campaign_start": (
        ctypes.c_int, [Handle, _BYTES, ctypes.POINTER(Campaign), _OUT, ctypes.POINTER(Error)]
    ),
    "tenure_observe_start": (
        ctypes.c_int, [Handle, _BYTES, Callback, ctypes.c_void_p, _OUT, ctypes.POINTER(Error)]
    ),
    "tenure_resign": (ctypes.c_int, [Handle]),
    "tenure_stand": (ctypes.c_int, [Handle]),
    "tenure_drained": (ctypes.c_int, [Handle]),
    "tenure_ready": (ctypes.c_int, [Handle, ctypes.c_bool]),
    "tenure_check_in": (ctypes.c_int, [Handle]),
    "tenure_leave": (None, [Handle]),
    "tenure_fence_file_replace": (
        ctypes.c_int, [_BYTES, ctypes.c_uint64, _BYTES, ctypes.c_size_t, Ns]
    ),
    "tenure_fence_file_append": (
        ctypes.c_int, [_BYTES, ctypes.c_uint64, _BYTES, ctypes.c_size_t, Ns]
    ),
    "tenure_fence_file_raise": (ctypes.c_int, [_BYTES, ctypes.c_uint64, Ns]),
    "tenure_fence_file_highest": (ctypes.c_int, [_BYTES, ctypes.POINTER(ctypes.c_uint64)]),
}  # fmt: skip


class Library:
    """Both views of the loaded library, with the types of its calls."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.slow: Any = ctypes.CDLL(path, use_errno=True)
        self.fast: Any = ctypes.PyDLL(path)
        for view, calls in ((self.slow, _SLOW), (self.fast, _FAST)):
            for name, (result, arguments) in calls.items():
                function = getattr(view, name)
                function.restype = result
                function.argtypes = arguments

    def text(self, code: int) -> str:
        return str(self.fast.tenure_strerror(code).decode())

    def check(self, code: int, what: str) -> None:
        """Raise what the code stands for, unless it is 0."""
        if code != 0:
            raise error_of(code, f"{what}: {self.text(code)}")


_library: Optional[Library] = None
_loading = threading.Lock()


def _candidates() -> List[str]:
    named = os.environ.get("TENURE_LIBRARY")
    if named:
        return [named]
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtenure.so")
    return ([inside] if os.path.exists(inside) else []) + ["libtenure.so.0"]


def load() -> Library:
    """The library that TENURE_LIBRARY names; else the one in the wheel; else the system's."""
    global _library
    if _library is not None:
        return _library
    with _loading:
        if _library is None:
            said = []
            for path in _candidates():
                try:
                    _library = Library(path)
                    break
                except (OSError, AttributeError) as error:
                    said.append(str(error))
            else:
                raise Unsupported(
                    "libtenure cannot be loaded; install it, or set TENURE_LIBRARY to its path: "
                    + "; ".join(said)
                )
    return _library


def shares_sqlite() -> bool:
    """Whether the interpreter's sqlite3 module and libtenure use one copy of SQLite.

    Two copies in a process do not know of each other's locks: when one closes a file, the kernel
    drops the locks of both (https://sqlite.org/howtocorrupt.html, section 2.2.1).
    """
    import _sqlite3

    try:
        path = getattr(_sqlite3, "__file__", None)
        theirs = ctypes.CDLL(path).sqlite3_libversion
        ours = ctypes.CDLL(load().path).sqlite3_libversion
    except (OSError, AttributeError):
        return False
    address = ctypes.c_void_p
    return ctypes.cast(theirs, address).value == ctypes.cast(ours, address).value
