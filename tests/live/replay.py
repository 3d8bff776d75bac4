"""replay.py - Kubernetes Leases, S3 or DynamoDB, and a network in front of it that repeats answers.

    replay.py kubernetes|s3|dynamodb FILE    prints its port

As much of a store as one name needs, with conditional writes. Once FILE exists, nothing is written
any more, and each request is answered with an old answer to one like it, another one each time. The
requests so answered are counted in FILE.
"""
import hashlib
import http.server
import itertools
import json
import os
import sys
import threading

kind, switch = sys.argv[1:3]
lock = threading.Lock()
objects = {}
versions = itertools.count(100)
said = {}  # what was asked: all good answers
again = itertools.count()
LEASES = "/apis/coordination.k8s.io/v1/namespaces/jobs/leases"


def kubernetes(method, path, headers, body):
    path = path.split("?")[0]
    name = path[len(LEASES) + 1:]
    if method == "GET" and name == "":
        return 200, {"kind": "LeaseList", "metadata": {"resourceVersion": "100"},
                     "items": list(objects.values())}, {}
    if method == "POST":
        name = json.loads(body)["metadata"]["name"]
    old = objects.get(name)
    failed = {"kind": "Status", "status": "Failure", "details": {"kind": "leases", "name": name}}
    if (old is None) != (method == "POST"):
        code, failed["reason"] = (404, "NotFound") if old is None else (409, "AlreadyExists")
        return code, failed, {}
    if method == "GET":
        return 200, old, {}
    new = json.loads(body)
    meta = new["metadata"]
    if old is not None and meta["resourceVersion"] != old["metadata"]["resourceVersion"]:
        failed["reason"] = "Conflict"
        return 409, failed, {}
    meta["uid"] = "u-1"
    meta["resourceVersion"] = str(next(versions))
    objects[name] = new
    return (201 if method == "POST" else 200), new, {}


def s3(method, path, headers, body):
    old = objects.get(path)
    etag = old and '"' + hashlib.md5(old).hexdigest() + '"'
    if method == "GET":
        return (404, b"<Error><Code>NoSuchKey</Code></Error>", {}) if old is None else \
            (200, old, {"ETag": etag})
    if (old is not None and "If-None-Match" in headers) or headers.get("If-Match", etag) != etag:
        return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
    objects[path] = body
    return 200, b"", {"ETag": '"' + hashlib.md5(body).hexdigest() + '"'}


def update(wish):
    """What is to be written, or None: the condition does not hold."""
    key = wish["Key"]["key"]["S"]
    old = objects.get(key, {})
    values, names = wish["ExpressionAttributeValues"], wish["ExpressionAttributeNames"]
    seen = old.get("recordVersionNumber")
    if "#n" in names:
        allowed = "tenureToken" not in old or \
            int(old["tenureToken"]["N"]) < int(values[":n"]["N"])
    else:
        allowed = seen == values.get(":v")
    sets, _, removes = wish["UpdateExpression"][len("SET "):].partition(" REMOVE ")
    new = {names[pair.split("=")[0]]: values[pair.split("=")[1]] for pair in sets.split(",")}
    kept = {name: value for name, value in old.items()
            if name not in [names[word] for word in removes.split(",") if word]}
    return (key, {**kept, **new}, new) if allowed else None


def dynamodb(method, path, headers, body):
    action = headers["X-Amz-Target"].split(".")[-1]
    wish = json.loads(body)
    if action == "GetItem":
        item = objects.get(wish["Key"]["key"]["S"])
        return 200, {} if item is None else {"Item": item}, {}
    parts = [update(part["Update"]) for part in wish.get("TransactItems", [{"Update": wish}])]
    if None in parts:
        refused = {"__type": "com.amazonaws.dynamodb#ConditionalCheckFailedException"}
        if action == "TransactWriteItems":
            refused = {"__type": "com.amazonaws.dynamodb#TransactionCanceledException",
                       "CancellationReasons": [
                           {"Code": "None" if part else "ConditionalCheckFailed"}
                           for part in parts]}
        return 400, refused, {}
    for key, item, _ in parts:
        objects[key] = item
    returns = wish.get("ReturnValues") == "UPDATED_NEW"
    return 200, {"Attributes": parts[0][2]} if returns else {}, {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, code, body, headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        threading.Event().wait(60)

    def answer(self, method):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "watch=1" in self.path:
            self.watch()
            return
        asked = (method, self.path, self.headers.get("X-Amz-Target"))
        if kind == "dynamodb" and b"TransactItems" not in body:
            asked += (json.dumps(json.loads(body)["Key"]),)
        with lock:
            if os.path.exists(switch) and said.get(asked):
                with open(switch, "a", encoding="ascii") as log:
                    log.write(method + "\n")
                answer = said[asked][next(again) % len(said[asked])]
            elif os.path.exists(switch) and method != "GET":
                answer = 503, b"", {}
            else:
                answer = globals()[kind](method, self.path, self.headers, body)
                if answer[0] < 300:
                    said.setdefault(asked, []).append(answer)
                    # Without the very last one, some stores would see only what they know.
                    del said[asked][:-4]
        self.send(*answer)

    def do_GET(self):
        self.answer("GET")

    def do_PUT(self):
        self.answer("PUT")

    def do_POST(self):
        self.answer("POST")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
