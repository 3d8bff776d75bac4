#!/usr/bin/env python3
"""notified.py SOCKET FILE - take systemd's place: each datagram is written to FILE."""
import socket, sys

sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.bind(sys.argv[1])
with open(sys.argv[2], "w", buffering=1) as out:
    while True:
        out.write(sock.recv(65536).decode() + "\n")
