"""dynamodb_fake.py - what stands between tenure and DynamoDB when something is wrong there, and the
endpoints that give out AWS credentials. No store: what it cannot do is tested on real servers.

    dynamodb_fake.py LOG     prints its port, and writes down who asked for what

A table's name says how a call to it ends: "denied", "expired", "skewed", "garbage", "huge", ...
"readable" lets nobody write. "torn" drops the first TransactWriteItems without an answer; the log
has the ClientRequestToken of each. It keeps what is written.
/container, /latest/... and /sts/ are the sources of credentials; "short" lives for 12 s.
"""
import http.server
import json
import re
import sys
import threading
import time

ERRORS = {
    "denied": (400, "AccessDeniedException",
               "User: arn:aws:iam::1:user/u is not authorized to perform: dynamodb:GetItem on "
               "resource: arn:aws:dynamodb:eu-west-1:1:table/denied"),
    "expired": (400, "ExpiredTokenException",
                "The security token included in the request is expired"),
    "skewed": (400, "InvalidSignatureException",
               "Signature expired: 20150830T123600Z is now earlier than 20150830T124600Z"),
    "unknown-key": (400, "UnrecognizedClientException",
                    "The security token included in the request is invalid."),
    "scoped": (400, "InvalidSignatureException",
               "Credential should be scoped to a valid region, not 'eu-west-1'. "),
    "missing": (400, "ResourceNotFoundException", "Requested resource not found"),
    "sorted": (400, "ValidationException",
               "The provided key element does not match the schema"),
    "throttled": (400, "ProvisionedThroughputExceededException", "Too fast"),
    "ill": (500, "InternalServerError", "Internal server error"),
    "away": (503, "ServiceUnavailable", ""),
    "lines": (400, "ValidationException", "two\nlines \x1b[31m and a \"quote\""),
}


torn = []
torn_lock = threading.Lock()
kept = {}  # The items of "torn", by their keys.


def keep(update):
    """Carry out an update, whatever its condition says, and return the item."""
    names, values = update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
    sets, _, removes = update["UpdateExpression"][len("SET "):].partition(" REMOVE ")
    item = kept.setdefault(update["Key"]["key"]["S"], {})
    for pair in sets.split(","):
        name, _, value = pair.partition("=")
        item[names[name]] = values[value]
    for name in removes.split(",") if removes else []:
        item.pop(names[name], None)
    return item


def expiry(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def keys(name, seconds=3600):
    return {"AccessKeyId": name, "SecretAccessKey": "geheim", "Token": "geheim-token",
            "Code": "Success", "Expiration": expiry(seconds)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/x-amz-json-1.0"):
        if isinstance(body, str):
            body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def note(self, line):
        with open(sys.argv[1], "a", encoding="ascii") as log:
            log.write(line + "\n")

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()

    def do_PUT(self):
        self.body()
        if self.path == "/latest/api/token":
            self.note("imds token " + self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "-"))
            self.answer(200, "imds-token")
        else:
            self.answer(404, "")

    def do_GET(self):
        role = "/latest/meta-data/iam/security-credentials/"
        if self.path.startswith(role) and \
                self.headers.get("X-aws-ec2-metadata-token") != "imds-token":
            self.answer(401, "")
        elif self.path == role:
            self.answer(200, "the-role")
        elif self.path == role + "the-role":
            self.note("imds keys")
            self.answer(200, json.dumps(keys("AKIDINSTANCE")))
        elif self.path == "/container":
            self.note("container " + self.headers.get("Authorization", "-"))
            if self.headers.get("Authorization") == "geheim-bearer":
                self.answer(200, json.dumps(keys("AKIDCONTAINER")))
            else:
                self.answer(403, "no")
        elif self.path == "/short":
            self.note("short")
            self.answer(200, json.dumps(keys("AKIDSHORT", 14)))
        elif self.path == "/past":
            self.answer(200, json.dumps(keys("AKIDPAST", -100)))
        else:
            self.answer(404, "")

    def sts(self, body):
        self.note("sts " + body.split("&")[0] + " " +
                  ("signed" if "Authorization" in self.headers else "unsigned"))
        if "WebIdentityToken=bad" in body:
            self.answer(400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code>"
                        "<Message>No such provider</Message></Error></ErrorResponse>", "text/xml")
            return
        self.answer(200, "<R><Credentials><AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>"
                    "geheim</SecretAccessKey><SessionToken>geheim-token</SessionToken>"
                    "<Expiration>" + expiry(3600) + "</Expiration></Credentials></R>", "text/xml")

    def do_POST(self):
        body = self.body()
        if self.path == "/sts/":
            self.sts(body)
            return
        table = json.loads(body).get("TableName", "")
        key = re.search("Credential=([^/]*)/", self.headers.get("Authorization", ""))
        action = self.headers.get("X-Amz-Target", "").split(".")[-1]
        self.note(f"{action} {table} {key.group(1) if key else '-'} "
                  f"{'token' if 'X-Amz-Security-Token' in self.headers else '-'}")
        if action == "TransactWriteItems":
            items = json.loads(body)["TransactItems"]
            table = next(iter(items[0].values()))["TableName"]
            asked = json.loads(body).get("ClientRequestToken", "-")
            self.note(f"ClientRequestToken {table} {asked}")
            with torn_lock:
                torn.append(table)
                if table == "torn" and torn.count(table) == 1:
                    self.close_connection = True
                    return
        if table == "torn":
            wish = json.loads(body)
            for part in wish.get("TransactItems", []):
                keep(part["Update"])
            if action == "UpdateItem":
                self.answer(200, json.dumps({"Attributes": keep(wish)}))
            elif action == "GetItem" and wish["Key"]["key"]["S"] in kept:
                self.answer(200, json.dumps({"Item": kept[wish["Key"]["key"]["S"]]}))
            else:
                self.answer(200, "{}")
        elif table == "readable" and action != "GetItem":
            self.answer(400, json.dumps({
                "__type": "com.amazon.coral.service#AccessDeniedException",
                "message": "User: u is not authorized to perform: dynamodb:UpdateItem on "
                           "resource: arn:aws:dynamodb:eu-west-1:1:table/readable"}))
        elif table in ERRORS:
            status, kind, message = ERRORS[table]
            self.answer(status, json.dumps({"__type": "com.amazon.coral.service#" + kind,
                                            "message": message}))
        elif table == "garbage":
            self.answer(200, "<html>Welcome to the hotel</html>")
        elif table == "cat":
            self.answer(200, '{"kind":"Cat"}')
        elif table == "gateway":
            self.answer(502, "<html>Bad gateway</html>")
        elif table == "huge":
            self.send_response(200)
            self.send_header("Content-Length", str(100 << 20))
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(b" " * (1 << 20))
            except OSError:
                self.close_connection = True
        else:
            self.answer(200, "{}")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
