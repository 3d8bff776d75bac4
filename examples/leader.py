#!/usr/bin/env python3
"""leader.py - a leader in Python, on libtenure through ctypes; nothing to compile.

    ./leader.py nightly-report [STORE]

The library is found as libtenure.so.0, or where TENURE_LIBRARY says. Callbacks come on a thread of
the library's; ctypes takes the interpreter's lock for them.
"""
import ctypes
import os
import signal
import sys
import threading

WON, STOP, LOST, LEADER = 1, 4, 5, 7
DRAINED_ON_RETURN = 1


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 400)]


class Event(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("reason", ctypes.c_int),
        ("token", ctypes.c_uint64),
        ("leader", ctypes.c_char_p),
        ("detail", ctypes.c_char_p),
        ("proven", ctypes.c_int64),
    ]


Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Event), ctypes.c_void_p)


class Campaign(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("callback", Callback),
        ("arg", ctypes.c_void_p),
        ("stall_after", ctypes.c_int64),
        ("grace", ctypes.c_int64),
        ("flags", ctypes.c_uint),
        ("fences", ctypes.POINTER(ctypes.c_char_p)),
        ("slots", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
        ("soft_limit", ctypes.c_int64),
    ]


def load():
    """The library, with the types of the calls that are used here."""
    library = ctypes.CDLL(os.environ.get("TENURE_LIBRARY", "libtenure.so.0"))
    handle, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    library.tenure_open.argtypes = [ctypes.c_char_p, ctypes.c_void_p, out, ctypes.POINTER(Error)]
    library.tenure_campaign_start.argtypes = [
        handle, ctypes.c_char_p, ctypes.POINTER(Campaign), out, ctypes.POINTER(Error)
    ]
    library.tenure_token.argtypes = [handle]
    library.tenure_token.restype = ctypes.c_uint64
    library.tenure_close.argtypes = [handle]
    library.tenure_reason_text.restype = ctypes.c_char_p
    return library


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: leader.py NAME [STORE]")
    tenure = load()
    working = threading.Lock()  # Held during each step: who has it knows that none is under way.
    stopping = threading.Event()
    leads = False

    def hear(_election, event, _arg):
        nonlocal leads
        kind, token = event.contents.kind, event.contents.token
        if kind in (WON, STOP, LOST):
            with working:
                leads = kind == WON
        if kind == WON:
            print(f"leading with token {token}", flush=True)
        elif kind == LOST:
            print("lost:", tenure.tenure_reason_text(event.contents.reason).decode(), flush=True)
        elif kind == LEADER:
            print(event.contents.leader.decode(), "leads", flush=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    session, election, error = ctypes.c_void_p(), ctypes.c_void_p(), Error()
    store = sys.argv[2].encode() if len(sys.argv) > 2 else None
    if tenure.tenure_open(store, None, ctypes.byref(session), ctypes.byref(error)) != 0:
        sys.exit("leader.py: " + error.text.decode())
    campaign = Campaign(ctypes.sizeof(Campaign), Callback(hear), None, 0, 0, DRAINED_ON_RETURN)
    code = tenure.tenure_campaign_start(
        session,
        sys.argv[1].encode(),
        ctypes.byref(campaign),
        ctypes.byref(election),
        ctypes.byref(error),
    )
    while code == 0 and not stopping.wait(0.1):
        with working:
            token = tenure.tenure_token(election) if leads else 0
            if token != 0:
                print(f"working, token {token}", flush=True)
    tenure.tenure_close(session)  # The work has stopped: the lease is free at once.
    if code != 0:
        sys.exit("leader.py: " + error.text.decode())


if __name__ == "__main__":
    main()
