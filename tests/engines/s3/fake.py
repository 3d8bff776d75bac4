"""fake.py MODE - a server that answers S3 requests wrongly, and prints its port.

careless  keeps objects, and ignores all conditions
half      honours If-None-Match, and ignores If-Match
taken     honours both; a lease that is given back has its next holder before anybody looks
huge      answers with 100 MB
garbage   answers with what is no record, under an ETag
CODE[:WORD]  answers with that status, and WORD as S3's code for the error
"""
import hashlib
import http.server
import sys

mode = sys.argv[1]
objects = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", etag=None):
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status, code):
        body = f"<Error><Code>{code}</Code><Region>eu-west-9</Region></Error>"
        self.answer(status, body.encode())

    def wrong(self):
        if mode == "huge":
            self.send_response(200)
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", str(100 << 20))
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(bytes(1 << 20))
            except OSError:
                self.close_connection = True
            return True
        if mode == "garbage":
            self.answer(200, b"\x00<html>{", '"x"')
            return True
        if mode[0].isdigit():
            status, _, code = mode.partition(":")
            self.fail(int(status), code)
            return True
        return False

    def do_GET(self):
        if self.wrong():
            return
        found = objects.get(self.path)
        if found is None:
            self.fail(404, "NoSuchKey")
        else:
            self.answer(200, found, self.etag(found))

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.wrong():
            return
        if mode in ("half", "taken") and "If-None-Match" in self.headers and self.path in objects:
            self.fail(412, "PreconditionFailed")
            return
        if (mode == "taken" and "If-Match" in self.headers and
                self.headers["If-Match"] != self.etag(objects.get(self.path, b""))):
            self.fail(412, "PreconditionFailed")
            return
        objects[self.path] = body
        self.answer(200, b"", self.etag(body))
        if mode == "taken" and b'"held":false' in body:
            objects[self.path] = (b'{"tenure":1,"held":true,"token":99,"floor":0,"ttl_ms":9000,'
                                  b'"holder":"next","nonce":"0000000000000001"}')

    def etag(self, body):
        return '"' + hashlib.md5(body).hexdigest() + '"'

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
