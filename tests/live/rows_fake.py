"""rows_fake.py - a server of an engine on rows that works, until it is told to do something else.

    rows_fake.py consul|kubernetes|dynamodb|s3 LOG [CERT KEY CA]    prints its port

It keeps what such a server keeps of one election: keys and sessions, Leases, items, objects, with
their versions and conditions, in memory. Nothing expires. With CERT it speaks TLS, and wants a
client's certificate that CA has signed.

POST /!say with one of these words says what all later requests get:
    well                 what they ask for
    throttle [SECONDS]   the engine's own words for too many requests, with Retry-After if given
    status CODE [WORD]   that status, WORD as the engine's code for the error
    denied, expired      the engine's own words for a missing right, and for old credentials
    garbage              200, and what is no answer
    cat                  200, and JSON that is none
    huge                 200, and 100 MB
    drop                 nothing: the connection is closed
    lose N               what they ask for, but the replies to N writes are lost with the connection

Each request is a line in LOG: "MILLISECONDS METHOD PATH ACTION". /!item?NAME shows what is kept.
"""
import hashlib
import http.server
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse
import uuid

log = open(sys.argv[2], "a", encoding="utf-8", buffering=1)
lock = threading.Condition()
state = {"mode": ["well"], "index": 100, "lost": 0}
rows = {}  # By key: what the engine keeps.
sessions = {}  # Consul's.
tokens = {}  # DynamoDB's transactions, by their ClientRequestToken.
XML = "<?xml version='1.0'?>\n"


class Answer(Exception):
    """Ends a request."""

    def __init__(self, status, body=b"", headers=()):
        super().__init__(status)
        self.status, self.headers = status, list(headers)
        self.body = body if isinstance(body, bytes) else (
            body if isinstance(body, str) else json.dumps(body)).encode()


def bump():
    state["index"] += 1
    lock.notify_all()
    return state["index"]


class Consul:
    throttle, denied = (429, "rate limit exceeded, try again later"), (403, "Permission denied")
    expired = (403, "ACL not found")

    @staticmethod
    def error(_status, word):
        return word or "something is wrong"

    @staticmethod
    def entry(key, row):
        shown = {"Key": key, "Flags": row["flags"], "LockIndex": 1, "CreateIndex": row["index"],
                 "ModifyIndex": row["index"], "Value": row["value"]}
        return {**shown, "Session": row["session"]} if row["session"] else shown

    def txn(self, body):
        results = []
        for op in (each["KV"] for each in json.loads(body)):
            row, verb = rows.get(op["Key"]), op["Verb"]
            if verb == "check-index" and (row is None or row["index"] != op["Index"]):
                raise Answer(409, {"Errors": [{"What": "current modify index does not match"}]})
            if verb == "check-not-exists" and row is not None:
                raise Answer(409, {"Errors": [{"What": "key exists"}]})
            if verb == "lock":
                if op["Session"] not in sessions:
                    raise Answer(409, {"Errors": [{"What": "invalid session"}]})
                if row is not None and row["session"] not in ("", op["Session"]):
                    raise Answer(409, {"Errors": [{"What": "lock is already held"}]})
            if verb in ("lock", "unlock"):
                rows[op["Key"]] = {"flags": op["Flags"], "value": op["Value"], "index": bump(),
                                   "session": op["Session"] if verb == "lock" else ""}
            if verb == "get":
                results.append({"KV": self.entry(op["Key"], row)})
        raise Answer(200, {"Results": results})

    def find(self, path, query):
        key = urllib.parse.unquote(path[len("/v1/kv/"):])
        if "recurse" in query:
            return [self.entry(each, row) for each, row in sorted(rows.items())
                    if each.startswith(key)]
        return [self.entry(key, rows[key])] if key in rows else []

    def serve(self, method, path, query, body, _headers):
        if path == "/v1/agent/self":
            raise Answer(200, {"Config": {"Version": "1.22.7"}})
        if path == "/v1/txn":
            self.txn(body)
        verb, _, name = path[len("/v1/session/"):].partition("/")
        if path.startswith("/v1/session/") and verb == "create":
            name = str(uuid.uuid4())
            sessions[name] = json.loads(body)
            raise Answer(200, {"ID": name})
        if path.startswith("/v1/session/") and verb == "renew":
            if name not in sessions:
                raise Answer(404, f"Session id '{name}' not found")
            raise Answer(200, [{"ID": name}])
        if path.startswith("/v1/session/"):
            sessions.pop(name, None)
            for row in rows.values():
                if row["session"] == name:
                    row.update(session="", index=bump())
            raise Answer(200, "true")
        since = int(query.get("index", ["0"])[0])
        until = time.monotonic() + min(15, float(query.get("wait", ["0s"])[0][:-1]))
        while since >= state["index"] and time.monotonic() < until and state["mode"][0] == "well":
            lock.wait(until - time.monotonic())
        found = self.find(path, query)
        raise Answer(200 if found else 404, found if found else b"",
                     [("X-Consul-Index", str(state["index"]))])

    @staticmethod
    def writes(_method, path, _action):
        return path == "/v1/txn"


class Kubernetes:
    throttle = (429, '{"kind":"Status","reason":"TooManyRequests","message":"too many requests"}')
    denied = (403, '{"kind":"Status","reason":"Forbidden","message":"user cannot get resource '
              '\\"leases\\""}')
    expired = (401, '{"kind":"Status","reason":"Unauthorized","message":"Unauthorized"}')
    root = re.compile("^/apis/coordination.k8s.io/v1/namespaces/([^/]*)/leases(?:/(.*))?$")

    @staticmethod
    def error(status, word):
        return json.dumps({"kind": "Status", "code": status, "reason": word or "Internal",
                           "message": "something is wrong"})

    def refuse(self, status, reason, kind="leases"):
        raise Answer(status, {"kind": "Status", "code": status, "reason": reason,
                              "message": reason, "details": {"kind": kind}})

    def keep(self, name, lease):
        lease["metadata"].update(name=name, resourceVersion=str(bump()))
        lease.update(apiVersion="coordination.k8s.io/v1", kind="Lease")
        lease["metadata"].setdefault("uid", str(uuid.uuid4()))
        rows[name] = lease

    def merge(self, into, patch):
        for key, value in patch.items():
            if isinstance(value, dict):
                self.merge(into.setdefault(key, {}), value)
            elif value is None:
                into.pop(key, None)
            else:
                into[key] = value

    def serve(self, method, path, query, body, _headers):
        if path == "/version":
            raise Answer(200, {"gitVersion": "v1.37.1"})
        if path.startswith("/apis/authorization.k8s.io/"):
            raise Answer(201, {"status": {"allowed": True}})
        name = self.root.match(path).group(2)
        if method == "GET" and not name:
            only = query.get("fieldSelector", ["=*"])[0].split("=")[-1]
            items = [row for each, row in sorted(rows.items()) if only in ("*", each)]
            raise Answer(200, {"kind": "LeaseList", "items": items,
                               "metadata": {"resourceVersion": str(state["index"])}})
        if method == "POST":
            lease = json.loads(body)
            name = lease["metadata"]["name"]
            if name in rows:
                self.refuse(409, "AlreadyExists")
            self.keep(name, lease)
            raise Answer(201, lease)
        if name not in rows:
            self.refuse(404, "NotFound")
        if method == "PATCH":
            self.merge(rows[name], json.loads(body))
            self.keep(name, rows[name])
        elif method == "PUT":
            lease, old = json.loads(body), rows[name]
            if any(lease["metadata"].get(key) != old["metadata"][key]
                   for key in ("uid", "resourceVersion")):
                self.refuse(409, "Conflict")
            self.keep(name, lease)
        raise Answer(200, rows[name])

    @staticmethod
    def watch(handler, query):
        """Events from the version on, for as long as the client stays and all is well."""
        since = int(query.get("resourceVersion", ["0"])[0])
        only = query.get("fieldSelector", ["=*"])[0].split("=")[-1]
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while state["mode"][0] == "well":
            with lock:
                news = [row for name, row in rows.items() if only in ("*", name) and
                        int(row["metadata"]["resourceVersion"]) > since]
                news = [json.dumps({"type": "MODIFIED", "object": row}) + "\n" for row in news]
                since = state["index"]
                if not news:
                    lock.wait(0.5)
            for line in news:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line.encode()), line.encode()))
        handler.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def writes(method, _path, _action):
        return method == "PUT"


class Dynamodb:
    coral = "com.amazonaws.dynamodb.v20120810#"
    keys = {"locks": "key", "named": "LockID"}  # The tables, and their partition keys.

    def error(self, _status, word):
        return json.dumps({"__type": self.coral + (word or "InternalServerError"),
                           "message": "something is wrong"})

    @property
    def throttle(self):
        return 400, self.error(400, "ProvisionedThroughputExceededException")

    @property
    def denied(self):
        return 400, json.dumps({
            "__type": self.coral + "AccessDeniedException",
            "message": "User: u is not authorized to perform: dynamodb:GetItem on resource: r"})

    @property
    def expired(self):
        return 400, self.error(400, "ExpiredTokenException")

    def refuse(self, kind, message="", **more):
        raise Answer(400, {"__type": self.coral + kind, "message": message, **more})

    def item_key(self, wish):
        table = wish["TableName"]
        if table not in self.keys:
            self.refuse("ResourceNotFoundException", "Requested resource not found")
        if list(wish["Key"]) != [self.keys[table]]:
            self.refuse("ValidationException", "The provided key element does not match the schema")
        return table, wish["Key"][self.keys[table]]["S"]

    @staticmethod
    def holds(condition, item, names, values):
        def value(word):
            found = values[word] if word[0] == ":" else item.get(names[word])
            return None if found is None else \
                int(found["N"]) if "N" in found else found["S"]
        for part in condition.split(" OR "):
            absent = re.match(r"attribute_not_exists\((.*)\)$", part)
            left, sign, right = re.match("([^<=]*)(<=|<|=)?(.*)", part).groups()
            if absent and names[absent.group(1)] not in item:
                return True
            if absent or value(left) is None:
                continue
            if sign == "=" and value(left) == value(right) or \
                    sign == "<" and value(left) < value(right) or \
                    sign == "<=" and value(left) <= value(right):
                return True
        return False

    def check(self, wish):
        key = self.item_key(wish)
        return self.holds(wish["ConditionExpression"], rows.get(key, {}),
                          wish["ExpressionAttributeNames"], wish["ExpressionAttributeValues"])

    def update(self, wish):
        key = self.item_key(wish)
        names, values = wish["ExpressionAttributeNames"], wish["ExpressionAttributeValues"]
        item = dict(rows.get(key, {self.keys[key[0]]: {"S": key[1]}}))
        sets, _, removes = wish["UpdateExpression"].removeprefix("SET ").partition(" REMOVE ")
        for pair in sets.split(","):
            name, _, value = pair.partition("=")
            item[names[name]] = values[value]
        for name in removes.split(",") if removes else []:
            item.pop(names[name], None)
        rows[key] = item
        return item

    def transact(self, wish):
        parts = [part["Update"] for part in wish["TransactItems"]]
        if tokens.setdefault(wish["ClientRequestToken"], parts) != parts:
            self.refuse("IdempotentParameterMismatchException")
        if (wish["ClientRequestToken"], "done") in tokens:
            raise Answer(200, {})
        failed = [not self.check(part) for part in parts]
        if any(failed):
            self.refuse("TransactionCanceledException", CancellationReasons=[
                {"Code": "ConditionalCheckFailed" if bad else "None"} for bad in failed])
        for part in parts:
            self.update(part)
        tokens[(wish["ClientRequestToken"], "done")] = True
        raise Answer(200, {})

    def serve(self, _method, _path, _query, body, headers):
        wish, action = json.loads(body), headers["X-Amz-Target"].split(".")[-1]
        if action == "TransactWriteItems":
            self.transact(wish)
        if action == "Scan":
            found = [item for (table, _), item in sorted(rows.items())
                     if table == wish["TableName"]]
            raise Answer(200, {"Items": found, "Count": len(found)})
        if action == "GetItem":
            item = rows.get(self.item_key(wish))
            raise Answer(200, {"Item": item} if item else {})
        if not self.check(wish):
            self.refuse("ConditionalCheckFailedException", "The conditional request failed")
        raise Answer(200, {"Attributes": self.update(wish)})

    @staticmethod
    def writes(_method, _path, action):
        return action in ("UpdateItem", "TransactWriteItems")


class S3:
    def error(self, _status, word):
        return f"{XML}<Error><Code>{word or 'InternalError'}</Code>" \
               "<Region>eu-west-9</Region></Error>"

    @property
    def throttle(self):
        return 503, self.error(503, "SlowDown")

    @property
    def denied(self):
        return 403, self.error(403, "AccessDenied")

    @property
    def expired(self):
        return 400, self.error(400, "ExpiredToken")

    def serve(self, method, path, query, body, headers):
        if not path.startswith("/leases/"):
            raise Answer(404, self.error(404, "NoSuchBucket"))
        if "list-type" in query:
            found = "".join(f"<Contents><Key>{urllib.parse.quote(key[8:])}</Key></Contents>"
                            for key in sorted(rows) if key[8:].startswith(query["prefix"][0]))
            raise Answer(200, f"{XML}<ListBucketResult>{found}</ListBucketResult>")
        key = urllib.parse.unquote(path)
        tag = '"' + hashlib.md5(rows[key]).hexdigest() + '"' if key in rows else None
        if method == "GET":
            if tag is None:
                raise Answer(404, self.error(404, "NoSuchKey"))
            raise Answer(200, rows[key], [("ETag", tag)])
        if tag is not None and headers["If-None-Match"] == "*" or \
                headers["If-Match"] is not None and headers["If-Match"] != tag:
            raise Answer(412, self.error(412, "PreconditionFailed"))
        rows[key] = body
        raise Answer(200, b"", [("ETag", '"' + hashlib.md5(body).hexdigest() + '"')])

    @staticmethod
    def writes(method, path, _action):
        return method == "PUT" and path.endswith("lease")


engine = {"consul": Consul, "kubernetes": Kubernetes, "dynamodb": Dynamodb, "s3": S3}[sys.argv[1]]()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, answer):
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def huge(self):
        self.send_response(200)
        self.send_header("Content-Length", str(100 << 20))
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" " * (1 << 20))

    def wrong(self, words):
        """What a server that is not well answers."""
        if words[0] == "throttle":
            status, body = engine.throttle
            raise Answer(status, body, [("Retry-After", words[1])] if len(words) > 1 else [])
        if words[0] == "status":
            raise Answer(int(words[1]), engine.error(int(words[1]), "".join(words[2:])))
        if words[0] in ("denied", "expired"):
            raise Answer(*getattr(engine, words[0]))
        if words[0] == "garbage":
            raise Answer(200, b"<html>\x1b[31mWelcome to the hotel\n", [("ETag", '"x"')])
        if words[0] == "cat":
            raise Answer(200, {"kind": "Cat"}, [("ETag", '"x"')])
        self.close_connection = True
        if words[0] == "huge":
            self.huge()
        raise OSError

    def serve(self):
        parts = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if parts.path == "/!say":
            with lock:
                state["mode"] = body.decode().split()
                state["lost"] = int(state["mode"][1]) if state["mode"][0] == "lose" else 0
                if state["mode"][0] == "lose":
                    state["mode"] = ["well"]
                lock.notify_all()
            raise Answer(200, "ok\n")
        if parts.path == "/!item":
            raise Answer(200, {str(key): row if not isinstance(row, bytes) else row.decode()
                               for key, row in rows.items() if parts.query in str(key)})
        action = self.headers.get("X-Amz-Target", "-").split(".")[-1]
        if engine.__class__ is Dynamodb:
            key = json.loads(body).get("Key", {})
            token = json.loads(body).get("ClientRequestToken", "")
            action += " " + token + "".join(each["S"] for each in key.values())
        log.write(f"{time.time_ns() // 1000000} {self.command} {self.path} {action}\n")
        if state["mode"][0] != "well":
            self.wrong(state["mode"])
        if engine.__class__ is Kubernetes and "watch" in query:
            engine.watch(self, query)
            return
        with lock:
            try:
                engine.serve(self.command, parts.path, query, body, self.headers)
            except Answer as answer:
                if state["lost"] > 0 and \
                        engine.writes(self.command, parts.path, action.split(" ")[0]):
                    state["lost"] -= 1
                    self.close_connection = True
                    raise OSError from answer
                raise

    def answer(self):
        try:
            self.serve()
        except Answer as answer:
            try:
                self.send(answer)
            except OSError:
                self.close_connection = True
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_PATCH = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    context.load_verify_locations(sys.argv[5])
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
