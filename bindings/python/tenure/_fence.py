"""Fences for Python's own writes: a check of the token that is one step with the effect.

A lease cannot stop a write that is already under way. The receiver can: it keeps the highest token
that it has seen and refuses a lower one, in the same atomic step as the write. Here the receivers
are SQLite databases and files. For PostgreSQL and Redis the check is a call within the database,
see docs/fencing.md.

SQLite: the sqlite3 module does not hand out its C handle, and it may carry another copy of SQLite
than libtenure, so the check is made in SQL, on the same table as tenure/fence_sqlite.h, in the
caller's own transaction. Programs in C and in Python can share a fence.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sqlite3
import threading
from typing import TYPE_CHECKING, Dict, Iterator, Optional, Set, Tuple, Type, Union

from . import _native
from ._errors import (
    Damaged,
    Denied,
    Invalid,
    NoMemory,
    Stale,
    TenureError,
    Timeout,
    Unavailable,
    Unsupported,
    error_of,
)

if TYPE_CHECKING:
    from ._session import Seconds

PathLike = Union[str, "os.PathLike[str]"]

TOKEN_MAX = 2**64 - 1

# The databases that libtenure opened in this process, by itself or to raise a fence.
_used_by_library: Set[str] = set()


def remember_library_use(url: Optional[str]) -> None:
    """Note the file of a URL such as sqlite:PATH or sqlite:PATH#RESOURCE."""
    if url is not None and url.startswith("sqlite:"):
        path = url[len("sqlite:") :]
        _used_by_library.add(os.path.realpath(path))
        _used_by_library.add(os.path.realpath(path.rpartition("#")[0] or path))


def check_token(token: int) -> int:
    if isinstance(token, bool) or not isinstance(token, int) or not 1 <= token <= TOKEN_MAX:
        raise Invalid(f"{token!r} is no token: a token is a whole number from 1 to 2^64 - 1")
    return token


class Fence:
    """What a leader of the past must not write to. Fence.sqlite() and Fence.file() make one.

    Name it in lead(..., fences=[fence]): then it is raised before the term begins, and nothing
    older is admitted from then on. str(fence) is its URL.
    """

    url: str

    @staticmethod
    def sqlite(path: PathLike, resource: str) -> "SQLiteFence":
        """A fence in an SQLite database of yours; the database must exist when it is raised."""
        return SQLiteFence(path, resource)

    @staticmethod
    def file(path: PathLike) -> "FileFence":
        """A file that is written through its fence, PATH.fence beside it."""
        return FileFence(path)

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"<tenure.Fence {self.url}>"


# --- Files ---------------------------------------------------------------------------------------


class FileFence(Fence):
    """tenure/fence_file.h: the check and the write are one step, under one flock."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self.url = f"file:{self.path}"

    def replace(self, data: Union[bytes, str], token: int, timeout: "Seconds" = 5.0) -> None:
        """Make `data` the whole content of the file, if the token is admitted.

        Raises Stale if a later leader exists: nothing was written, do not retry. Unavailable if
        another writer keeps the file for longer than `timeout`, or the disk fails.
        """
        self._write("tenure_fence_file_replace", data, token, timeout)

    def append(self, data: Union[bytes, str], token: int, timeout: "Seconds" = 5.0) -> None:
        """Append `data`, all of it or nothing, if the token is admitted. Raises as replace()."""
        self._write("tenure_fence_file_append", data, token, timeout)

    def raise_to(self, token: int, timeout: "Seconds" = 5.0) -> None:
        """Admit nothing older than `token` from now on. The file need not exist."""
        from ._session import bytes_of, ns_of

        library = _native.load()
        check_token(token)
        path, ns = bytes_of(self.path, "path"), ns_of(timeout, "timeout")
        self._check(library.slow.tenure_fence_file_raise(path, token, ns), token)

    def highest(self) -> int:
        """The highest token that was admitted or raised; 0: none."""
        from ._session import bytes_of

        highest = ctypes.c_uint64()
        path = bytes_of(self.path, "path")
        call = _native.load().slow.tenure_fence_file_highest
        self._check(call(path, ctypes.byref(highest)), 0)
        return int(highest.value)

    def _write(
        self, name: str, data: Union[bytes, str], token: int, timeout: "Seconds"
    ) -> None:
        from ._session import bytes_of, ns_of

        library = _native.load()
        check_token(token)
        content = data.encode() if isinstance(data, str) else bytes(data)
        path, ns = bytes_of(self.path, "path"), ns_of(timeout, "timeout")
        ctypes.set_errno(0)
        code = getattr(library.slow, name)(path, token, content, len(content), ns)
        self._check(code, token)

    def _check(self, code: int, token: int) -> None:
        if code == 0:
            return
        text = _native.load().text(code)
        if code == Stale.code:
            raise _stale(self.path, token)
        number = ctypes.get_errno()
        raise error_of(code, f"{self.path}: {os.strerror(number) if number else text}")


def _stale(what: str, token: int) -> Stale:
    return Stale(f"{what}: token {token} is stale: a later leader exists")


# --- SQLite --------------------------------------------------------------------------------------

# The same table as in src/receivers/sqlite.c. Tokens are twenty digits, whose order is that of the
# numbers: SQLite's integers end at 2^63 - 1.
_CREATE = (
    "CREATE TABLE IF NOT EXISTS main.tenure_fences (resource TEXT PRIMARY KEY NOT NULL,"
    " token TEXT NOT NULL CHECK (typeof(token) = 'text' AND length(token) = 20"
    " AND token NOT GLOB '*[^0-9]*' AND token <= '18446744073709551615')) WITHOUT ROWID"
)
# Takes SQLite's right to write also when it changes nothing, so nobody can come between this and
# the caller's own statements.
_MOVE = (
    "INSERT INTO main.tenure_fences (resource, token) VALUES (?, ?)"
    " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token"
)
# As a blob: the caller may have set a text_factory.
_FIND = "SELECT CAST(token AS BLOB) FROM main.tenure_fences WHERE resource = ?"
_IS_THERE = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'tenure_fences'"

_RESOURCE = re.compile(r"[A-Za-z0-9._~:@-]+(?:/[A-Za-z0-9._~:@-]+)*")

# Primary result codes of SQLite, as in src/receivers/sqlite.c; the others mean damage.
_CODES: Dict[int, Type[TenureError]] = {
    3: Denied,  # PERM
    5: Unavailable,  # BUSY
    6: Unavailable,  # LOCKED
    7: NoMemory,  # NOMEM
    8: Denied,  # READONLY
    9: Unavailable,  # INTERRUPT
    10: Unavailable,  # IOERR
    13: Unavailable,  # FULL
    14: Unavailable,  # CANTOPEN
    15: Unavailable,  # PROTOCOL
    23: Denied,  # AUTH
}

# What this thread is presenting: only then may the SQL function of that name be called, so that a
# trigger in somebody's schema cannot present anything.
_presenting = threading.local()


def _primary(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 1)) & 0xFF


class SQLiteFence(Fence):
    """The fence `resource` in the SQLite database at `path`.

        with fence.transaction(connection, term.token):
            connection.execute("UPDATE orders SET ...")
    """

    def __init__(self, path: PathLike, resource: str) -> None:
        segments = resource.split("/")
        good = _RESOURCE.fullmatch(resource) and len(resource) <= 255
        if not good or "." in segments or ".." in segments:
            raise Invalid(f"{resource!r} is no resource: it has the form of a lease name")
        self.path = os.fspath(path)
        self.resource = resource
        self.url = f"sqlite:{self.path}#{resource}"

    def admit(self, connection: sqlite3.Connection, token: int) -> None:
        """Check the token within the open transaction of `connection`.

        Returns: the token is the highest until the transaction ends; go on and commit. Raises Stale
        if a later leader exists, and Invalid if no transaction is open: check and effect would be
        two steps. After any exception, roll back.
        """
        check_token(token)
        if not connection.in_transaction:
            raise Invalid(
                "admit: no transaction is open; BEGIN IMMEDIATE first, or use transaction()"
            )
        self._check_file(connection)
        self._move(connection, token)
        self._present(connection, token)

    @contextlib.contextmanager
    def transaction(
        self, connection: sqlite3.Connection, token: int
    ) -> Iterator[sqlite3.Connection]:
        """BEGIN IMMEDIATE, admit(), the block, COMMIT; after any exception ROLLBACK.

        With a connection that was opened with autocommit=False (Python 3.12), the transaction that
        is always open is used and committed.
        """
        check_token(token)
        if getattr(connection, "autocommit", None) is not False:
            if connection.in_transaction:
                raise Invalid("transaction: one is open already; use admit() in it")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise self._error(error) from error
        try:
            self.admit(connection, token)
            yield connection
        except BaseException:
            connection.rollback()
            raise
        try:
            connection.commit()
        except BaseException:
            if connection.in_transaction:
                connection.rollback()
            raise

    def raise_to(self, connection: sqlite3.Connection, token: int) -> None:
        """Admit nothing older than `token` from now on; in the open transaction, else in its own.

        lead(..., fences=[fence]) does that by itself.
        """
        check_token(token)
        self._check_file(connection)
        if connection.in_transaction:
            self._move(connection, token)
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            self._move(connection, token)
        except BaseException:
            connection.rollback()
            raise
        try:
            connection.commit()
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.rollback()
            if _primary(error) == 10:  # The disk failed half-way.
                raise Timeout(f"{self.path}: {error}: the fence may have been raised") from error
            raise self._error(error) from error

    def highest(self, connection: sqlite3.Connection) -> int:
        """The highest token that was admitted or raised; 0: none."""
        try:
            cursor = self._cursor(connection)
            if cursor.execute(_IS_THERE).fetchone() is None:
                return 0
            return self._find(cursor)
        except sqlite3.Error as error:
            raise self._error(error) from error

    # --- Steps -----------------------------------------------------------------------------------

    def _error(self, error: sqlite3.Error) -> TenureError:
        return _CODES.get(_primary(error), Damaged)(f"{self.path}: {error}")

    @staticmethod
    def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        return cursor

    def _find(self, cursor: sqlite3.Cursor) -> int:
        row = cursor.execute(_FIND, (self.resource,)).fetchone()
        if row is None:
            return 0
        if not isinstance(row[0], bytes) or not re.fullmatch(rb"[0-9]{20}", row[0]):
            raise Damaged(f"{self.path}: tenure_fences holds something else than a token")
        highest = int(row[0])
        if highest > TOKEN_MAX:
            raise Damaged(f"{self.path}: tenure_fences holds something else than a token")
        return highest

    def _move(self, connection: sqlite3.Connection, token: int) -> None:
        values = (self.resource, f"{token:020d}")
        cursor = self._cursor(connection)
        try:
            try:
                cursor.execute(_MOVE, values)
            except sqlite3.OperationalError as error:
                if _primary(error) != 1:
                    raise
                cursor.execute(_CREATE)  # No such table: the first time in this database.
                cursor.execute(_MOVE, values)
            highest = self._find(cursor)
        except sqlite3.Error as error:
            raise self._error(error) from error
        if highest > token:
            raise _stale(self.resource, token)
        if highest < token:  # After the upsert: not a table of ours.
            raise Damaged(f"{self.path}: tenure_fences did not take the token")

    def _present(self, connection: sqlite3.Connection, token: int) -> None:
        """For the triggers that `tenure fence install --table` makes."""
        text = f"{token:020d}"
        cursor = self._cursor(connection)
        _presenting.now = (self.resource, text)
        try:
            try:
                cursor.execute("SELECT tenure_fence_present(?, ?)", (self.resource, text))
            except sqlite3.OperationalError as error:
                if "no such function" not in str(error):
                    raise
                self._add_functions(connection)
                cursor.execute("SELECT tenure_fence_present(?, ?)", (self.resource, text))
            cursor.fetchone()
        except sqlite3.Error as error:
            raise self._error(error) from error
        finally:
            _presenting.now = None

    @staticmethod
    def _add_functions(connection: sqlite3.Connection) -> None:
        marks: Dict[str, str] = {}

        def present(resource: str, token: str) -> None:
            if getattr(_presenting, "now", None) != (resource, token):
                raise PermissionError("tenure: only Fence.admit presents a token")
            marks[resource] = token

        def presented(resource: str) -> Optional[str]:
            return marks.get(resource)

        connection.create_function("tenure_fence_present", 2, present)
        connection.create_function("tenure_fence_presented", 1, presented)

    def _check_file(self, connection: sqlite3.Connection) -> None:
        """The connection must be one to the fence's own file, by its only name.

        Each name of a database has a journal of its own, and what a killed writer left beside the
        one is not undone through the other: then the fence itself may go back.
        """
        rows = self._cursor(connection).execute("PRAGMA database_list").fetchall()
        names = [row[2] for row in rows if row[1] in ("main", b"main")]
        path = os.fsdecode(names[0]) if names and names[0] else ""
        if path == "":
            return  # In memory, or temporary: the caller's own.
        if not _same_file(path, self.path):
            raise Invalid(f"the connection is to {path}, the fence is in {self.path}")
        if _has_other_names(path):
            raise Denied(f"{path}: the file has more than one name, and so more than one journal")
        if os.path.realpath(path) in _used_by_library and not _native.shares_sqlite():
            raise Unsupported(
                f"{path}: this Python has its own copy of SQLite, and libtenure uses the file with "
                "another: they would drop each other's locks. Do not name the fence in `fences`; "
                "call raise_to(connection, term.token) first in the block"
            )


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _mount_of(path: str, flags: int) -> Tuple[bool, str]:
    # O_PATH: closing another kind of descriptor would drop SQLite's locks on the file.
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:
            for line in info:
                if line.startswith("mnt_id:"):
                    return True, line
    finally:
        os.close(fd)
    return False, ""


def _has_other_names(path: str) -> bool:
    """A hard link, or a mount of the single file; what cannot be looked at is the caller's."""
    try:
        if os.stat(path).st_nlink > 1:
            return True
        known, mount = _mount_of(path, 0)
        folder_known, folder = _mount_of(os.path.dirname(path) or ".", os.O_DIRECTORY)
    except OSError:
        return False
    return not known or not folder_known or mount != folder
