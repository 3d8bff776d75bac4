#!/usr/bin/env python3
"""screen.py ROWS COLUMNS FILE COMMAND... - run a command on a terminal of that size.

FILE always holds the screen as it is now, FILE.raw every byte that was written. SIGTERM types ^C.
Knows only the sequences that Tenure uses; any other one ends it with 3."""
import fcntl, os, pty, re, signal, struct, sys, termios

rows, columns, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
pid, fd = pty.fork()
if pid == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # A shell's background jobs ignore it.
    os.execvp(sys.argv[4], sys.argv[4:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
signal.signal(signal.SIGTERM, lambda *_: os.write(fd, b"\x03"))

screen, x, y, pending = [[" "] * columns for _ in range(rows)], 0, 0, ""
TOKEN = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x1b])")


def clear(begin_y, begin_x, end_y):
    for line in range(begin_y, end_y):
        for column in range(begin_x if line == begin_y else 0, columns):
            screen[line][column] = " "


def put(text):
    """Update the screen; returns what is not complete yet."""
    global x, y
    while text:
        token = TOKEN.match(text)
        if token is None:
            if len(text) < 16:
                return text
            sys.exit(3)
        text = text[token.end():]
        argument, letter, carriage, newline, char = token.groups()
        if letter == "H":
            x = y = 0
        elif letter == "K":
            clear(y, x, y + 1)
        elif letter == "J":
            clear(y, x, rows)
        elif letter in ("h", "l", "m"):
            pass
        elif letter is not None:
            sys.exit(3)
        elif carriage:
            x = 0
        elif newline:
            if y + 1 == rows:
                screen.append([" "] * columns)
                screen.pop(0)
            else:
                y += 1
        else:
            if x < columns:
                screen[y][x] = char
            x += 1
    return ""


with open(path + ".raw", "wb", buffering=0) as raw:
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            break
        raw.write(data)
        pending = put(pending + data.decode())
        with open(path + ".new", "w") as out:
            out.write("".join("".join(line).rstrip() + "\n" for line in screen))
        os.rename(path + ".new", path)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
