"""fake.py LOG - an API server with one Lease "x", which misbehaves, to see what a watch does.

The first list of the collection is answered 429 with Retry-After: 2. The watch after the second
list ends with an event 410; the one after the third list ends in the middle of a line; all later
ones stay open. Each list shows the next holder. Every request is a line in LOG:
"MILLISECONDS list|watch|get".
"""
import http.server
import json
import sys
import threading
import time

log = open(sys.argv[1], "a", buffering=1)
lock = threading.Lock()
counts = {"list": 0, "watch": 0, "get": 0}


def lease():
    holder = "holder-%d" % counts["list"]
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "x", "namespace": "jobs", "uid": "u-1",
                         "resourceVersion": str(100 + counts["list"])},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 600,
                     "leaseTransitions": counts["list"],
                     "acquireTime": "2026-01-01T00:00:00.000000Z",
                     "renewTime": "2026-01-01T00:00:00.000000Z"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, code, body, headers=()):
        bytes_ = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(bytes_)))
        self.end_headers()
        self.wfile.write(bytes_)

    def do_GET(self):
        kind = "watch" if "watch=1" in self.path else "get" if "/leases/" in self.path else "list"
        with lock:
            counts[kind] += 1
            number = counts[kind]
            log.write("%d %s\n" % (time.monotonic() * 1000, kind))
        if kind == "get":
            self.send(200, lease())
        elif kind == "list" and number == 1:
            self.send(429, b"slow down", [("Retry-After", "2")])
        elif kind == "list":
            self.send(200, {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
                            "metadata": {"resourceVersion": str(100 + number)},
                            "items": [lease()]})
        elif number == 1:
            self.send(200, json.dumps({"type": "ERROR", "object": {
                "kind": "Status", "code": 410, "reason": "Expired"}}).encode() + b"\n")
        elif number == 2:
            self.send(200, b'{"type":"MODIFIED","obj')
        else:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            threading.Event().wait(60)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
