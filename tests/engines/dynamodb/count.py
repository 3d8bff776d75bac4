"""count.py - a proxy in front of DynamoDB that writes down every action: "GetItem KEY MS".

    count.py PORT LOG [lose]     prints its own port

In the place of the key of a transaction is its ClientRequestToken. With "lose" the table carries
out the first transaction, and its reply is lost with the connection.
"""
import http.client
import http.server
import json
import sys
import time


lost = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        action = self.headers["X-Amz-Target"].split(".")[-1]
        wish = json.loads(body)
        key = wish.get("Key", {}).get("key", {}).get("S", wish.get("ClientRequestToken", "-"))
        with open(sys.argv[2], "a", encoding="utf-8") as log:
            log.write(f"{action} {key} {int(time.time() * 1000)}\n")
        there = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
        there.request("POST", "/", body, dict(self.headers))
        answer = there.getresponse()
        data = answer.read()
        if sys.argv[3:] == ["lose"] and action == "TransactWriteItems" and not lost:
            lost.append(answer.status)
            self.close_connection = True
            return
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
