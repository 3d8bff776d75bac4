"""count.py - a proxy in front of DynamoDB that writes down every action: "GetItem KEY MS".

    count.py PORT LOG     prints its own port
"""
import http.client
import http.server
import json
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        action = self.headers["X-Amz-Target"].split(".")[-1]
        key = json.loads(body).get("Key", {}).get("key", {}).get("S", "-")
        with open(sys.argv[2], "a", encoding="utf-8") as log:
            log.write(f"{action} {key} {int(time.time() * 1000)}\n")
        there = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
        there.request("POST", "/", body, dict(self.headers))
        answer = there.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
