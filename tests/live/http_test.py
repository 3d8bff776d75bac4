#!/usr/bin/python3
"""http_test.py - tenured over HTTP: everything docs/openapi.yaml says, who is let in, what browsers
may not do, hostile input, waiting in line, and events."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import yaml_subset
from tenured import (BUILD, PATIENCE, ROOT, Daemon, Skip, ask_over, basic, case, fixture, main,
                     new_user, same, secret, until)

HTTP = ("--http", "127.0.0.1:0")


# --- The OpenAPI file --------------------------------------------------------------------------

class Spec:
    def __init__(self):
        self.all = yaml_subset.load(ROOT + "/docs/openapi.yaml")

    def see(self, value):
        """Follow $ref."""
        while isinstance(value, dict) and "$ref" in value:
            path, value = value["$ref"], self.all
            for part in path[2:].split("/"):
                value = value[part]
        return value

    def check(self, schema, value, where):
        schema = self.see(schema)
        if "oneOf" in schema:
            wrong = []
            for one in schema["oneOf"]:
                try:
                    return self.check(one, value, where)
                except AssertionError as error:
                    wrong.append(str(error))
            raise AssertionError(f"{where}: none of: {wrong}")
        if value is None and "null" in schema["type"]:
            return None
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
        if not isinstance(value, kinds[kind]) or (kind == "integer" and isinstance(value, bool)):
            raise AssertionError(f"{where}: {value!r} is no {kind}")
        if "enum" in schema and value not in schema["enum"]:
            raise AssertionError(f"{where}: {value!r} is not in {schema['enum']}")
        if kind == "array":
            for item in value:
                self.check(schema["items"], item, where + "[]")
        if kind == "object" and "properties" in schema:
            for key in schema.get("required", []):
                if key not in value:
                    raise AssertionError(f"{where}: no {key}")
            for key, inner in value.items():
                if key not in schema["properties"]:
                    raise AssertionError(f"{where}: {key} is not in the file")
                self.check(schema["properties"][key], inner, where + "." + key)
        return None

    def requests(self, path, method):
        """Each example of an operation: path with its query, and body."""
        operation = self.all["paths"][path][method]
        query = []
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", parameter["example"])
            elif "example" in parameter and parameter["in"] == "query":
                query.append(f"{parameter['name']}={parameter['example']}")
        if query:
            path += "?" + "&".join(query)
        body = self.see(operation.get("requestBody", {}))
        if not body:
            return [(path, None)]
        content = body["content"]["application/json"]
        values = [one["value"] for one in content.get("examples", {}).values()]
        values = values or [content["example"]]
        for value in values:
            self.check(content["schema"], value, path)
        return [(path, value) for value in values]


@case
def every_operation_of_the_openapi_file_answers_as_it_says():
    spec = Spec()
    seen = set()
    with Daemon(*HTTP) as daemon:
        for path, methods in spec.all["paths"].items():
            for method, operation in methods.items():
                for url, body in spec.requests(path, method):
                    if path == "/v1/events":
                        continue # It does not end; there are cases below.
                    status, answer = daemon.ask(method.upper(), url, body)
                    if str(status) not in operation["responses"]:
                        raise AssertionError(f"{method} {url}: {status} {answer}")
                    content = spec.see(operation["responses"][str(status)])["content"]
                    for kind in content.values():
                        spec.check(kind["schema"], answer, f"{method} {url}")
                    seen.add((path, status))
    for expected in [("/v1/sessions/renew", 200), ("/v1/leases/acquire", 409),
                     ("/v1/leases/revoke", 412), ("/v1/fences/admit", 412)]:
        same(expected in seen, True)


def validator():
    """The command of a validator of others' making. It is installed below the build directory."""
    if shutil.which("openapi-spec-validator"):
        return ["openapi-spec-validator"], {}
    # One for the builds of all presets.
    build = ROOT + "/build" if os.path.isdir(ROOT + "/build") else BUILD
    place = build + "/tests/openapi-spec-validator"
    fresh = f"{place}.{os.getpid()}"
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"
    env = {"PYTHONPATH": place}
    words = [python, "-m", "openapi_spec_validator"]
    if not os.path.isdir(place):
        made = subprocess.run([python, "-m", "pip", "install", "-q", "--target", fresh,
                               "openapi-spec-validator==0.7.1"], capture_output=True, text=True)
        if made.returncode != 0:
            shutil.rmtree(fresh, True)
            raise Skip("openapi-spec-validator cannot be installed from PyPI: "
                       + (made.stderr.strip().splitlines() or ["?"])[-1])
        try:
            os.rename(fresh, place)
        except OSError: # Another one was faster.
            shutil.rmtree(fresh)
    return words, env


@case
def a_validator_takes_the_openapi_file_and_refuses_a_mistake():
    words, env = validator()

    def judge(path):
        return subprocess.run([*words, path], capture_output=True, text=True,
                              env={**os.environ, **env})

    done = judge(ROOT + "/docs/openapi.yaml")
    same((done.returncode, done.stdout[-500:] if done.returncode else ""), (0, ""))
    with open(ROOT + "/docs/openapi.yaml") as file:
        text = file.read()
    daemon = Daemon() # For its folder.
    for right, wrong in (("in: header", "in: hader"), ("responses:", "respnses:"),
                         ("type: mutualTLS", "type: mutual")):
        same(right in text, True)
        same(judge(daemon.path("wrong.yaml", text.replace(right, wrong, 1))).returncode != 0, True)


def mistakes(spec, value, where="openapi"):
    """What the rules of OpenAPI forbid and its own schema, which validators use, lets pass."""
    found = []
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        if "example" in value and "examples" in value:
            found.append(where + ": example and examples exclude each other")
        try:
            spec.see(value)
        except KeyError as error:
            found.append(f"{where}: points nowhere: {error}")
        for key, inner in value.items():
            found += mistakes(spec, inner, f"{where}.{key}")
    return found


@case
def nothing_in_the_openapi_file_points_nowhere_or_has_examples_twice():
    spec = Spec()
    same(mistakes(spec, spec.all), [])
    media = spec.see(spec.all["components"]["requestBodies"]["Fence"])["content"]
    media["application/json"]["example"] = {}
    same(len(mistakes(spec, spec.all)), 1)
    spec.all["components"]["schemas"].pop("Released")
    same(len(mistakes(spec, spec.all)) > 1, True)


@case
def another_method_is_refused_with_those_that_there_are():
    with Daemon(*HTTP) as daemon:
        for method, path, allowed in (("GET", "/v1/sessions/renew", "POST"),
                                      ("PUT", "/v1/leases/a", "GET, HEAD"),
                                      ("DELETE", "/v1/leases/acquire", "GET, HEAD, POST"),
                                      ("POST", "/metrics", "GET, HEAD"),
                                      ("OPTIONS", "/healthz", "GET, HEAD")):
            connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
            connection.request(method, path)
            answer = connection.getresponse()
            same((answer.status, answer.getheader("Allow")), (405, allowed))
            connection.close()


@case
def the_openapi_file_has_every_route_of_the_daemon_and_no_other():
    with open(ROOT + "/src/daemon/http_api.c") as file:
        code = re.findall(r'\{ "(GET|POST)",\s*"(/[^"]*)"', file.read())
    routes = {(method.lower(), path) for method, path in code}
    said = {(method, re.sub(r"\{.*", "", path))
            for path, methods in Spec().all["paths"].items() for method in methods}
    same(said, routes)


# --- Who is let in -----------------------------------------------------------------------------

@case
def with_an_acl_http_gives_no_right_without_user_and_secret():
    password, line = new_user("mailer")
    watcher, watcher_line = new_user("watcher")
    daemon = Daemon(*HTTP, "--acl", "acl")
    daemon.words = (*HTTP, "--acl", daemon.path("acl", f"{line}\nallow mailer acquire jobs/*\n"
                                                f"{watcher_line}\nallow watcher observe jobs/a\n"))
    with daemon:
        for method, path, body in [("GET", "/v1/leases", None), ("GET", "/metrics", None),
                                   ("GET", "/v1/events", None), ("GET", "/v1/info", None),
                                   ("POST", "/v1/sessions", {"ttl_ms": 5000})]:
            same(daemon.ask(method, path, body)[0], 401)
            same(daemon.ask(method, path, body, basic("mailer", "guess"))[0], 401)
            same(daemon.ask(method, path, body, basic("nobody", password))[0], 401)
        same(daemon.ask("GET", "/healthz")[0], 200)
        mailer = basic("mailer", password)
        status, session = daemon.ask("POST", "/v1/sessions", {"ttl_ms": 60000}, mailer)
        same(status, 200)

        def take(name, headers):
            body = {"session": session["session"], "name": name}
            return daemon.ask("POST", "/v1/leases/acquire", body, headers)[0]

        same(take("jobs/a", mailer), 200)
        same(take("jobs", mailer), 403)
        same(take("other", mailer), 403)
        same(take("jobs/b", basic("watcher", watcher)), 403)
        same(daemon.ask("POST", "/v1/leases/revoke", {"name": "jobs/a"}, mailer)[0], 403)
        same(daemon.ask("GET", "/v1/leases/jobs/a", None, basic("watcher", watcher))[0], 200)
        same(daemon.ask("GET", "/v1/leases/jobs/b", None, basic("watcher", watcher))[0], 403)
        same(daemon.ask("GET", "/v1/events", None, basic("watcher", watcher))[0], 403)
        listed = daemon.ask("GET", "/v1/leases", None, basic("watcher", watcher))[1]["leases"]
        same([lease["name"] for lease in listed], ["jobs/a"])
        same(password in daemon.said(), False)
        daemon.path("acl", f"{line}\nallow mailer observe *\n")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "read again" in daemon.said(), "the new rules")
        same(take("jobs/c", mailer), 403)
        same(daemon.ask("GET", "/v1/leases/other", None, mailer)[0], 200)


@case
def history_line_and_sessions_show_no_more_than_the_acl_allows():
    password, line = new_user("mailer")
    watcher_password, watcher_line = new_user("watcher")
    stranger_password, stranger_line = new_user("stranger")
    daemon = Daemon(*HTTP, "--acl", "acl")
    daemon.words = (*HTTP, "--acl", daemon.path(
        "acl", f"{line}\nallow mailer admin *\n{watcher_line}\nallow watcher observe jobs/a\n"
        f"{stranger_line}\nallow stranger observe other\n"))
    with daemon:
        mailer = basic("mailer", password)
        watcher = basic("watcher", watcher_password)
        stranger = basic("stranger", stranger_password)
        session = daemon.ask("POST", "/v1/sessions", {"ttl_ms": 60000}, mailer)[1]["session"]
        for name in ("jobs/a", "jobs/b"):
            taken = {"session": session, "name": name}
            same(daemon.ask("POST", "/v1/leases/acquire", taken, mailer)[0], 200)
        for path in ("/v1/history/", "/v1/line/", "/v1/leases/"):
            same(daemon.ask("GET", path + "jobs/a", None, watcher)[0], 200)
            same(daemon.ask("GET", path + "jobs/b", None, watcher)[0], 403)
            same(daemon.ask("GET", path + "jobs/a", None, stranger)[0], 403)
        same(daemon.ask("GET", "/v1/history?names=jobs/a", None, watcher)[0], 200)
        same(daemon.ask("GET", "/v1/history?names=jobs/a,jobs/b", None, watcher)[0], 403)
        for headers, holds in ((mailer, [2]), (watcher, [1]), (stranger, [])):
            listed = daemon.ask("GET", "/v1/sessions", None, headers)[1]["sessions"]
            same([each["leases"] for each in listed], holds)
        same(daemon.ask("GET", "/v1/whoami", None, watcher)[1]["rights"],
             [{"right": "observe", "pattern": "jobs/a"}])


@case
def a_hand_over_is_a_note_about_the_present_term():
    with Daemon(*HTTP) as daemon, daemon.resp() as peer:
        peer.ask("SESSION", "OPEN", secret(1), 60000, "LABEL", "holder")
        same(daemon.post("/v1/leases/handover", name="a")[0], 412)
        peer.ask("LEASE", "ACQUIRE", secret(1), secret(11), "a")
        same(daemon.post("/v1/leases/handover", name="a", token=9)[0], 412)
        for bad in ({"for_ms": 999}, {"for_ms": 86400001}, {"to": ""}, {"to": "x" * 255}):
            same(daemon.post("/v1/leases/handover", name="a", **bad)[0], 400)
        same(daemon.post("/v1/leases/handover", name="a", token=1, to="web 2", for_ms=60000),
             (200, {"token": 1}))
        note = daemon.ask("GET", "/v1/leases/~tenure/ask/a")[1]
        same((note["holder"], note["ttl_ms"]), ("handover token=1 to=web 2", 60000))
        same(daemon.post("/v1/leases/handover", name="a")[0], 409)
        peer.ask("LEASE", "RELEASE", secret(1), secret(11), "a", 1)
        peer.ask("LEASE", "ACQUIRE", secret(1), secret(12), "a")
        status, answer = daemon.post("/v1/leases/handover", name="a")
        same(status, 200)
        same(daemon.ask("GET", "/v1/leases/~tenure/ask/a")[1]["holder"],
             f"handover token={answer['token']}")


def tenure(daemon, verb, *words):
    """What `tenure VERB` says of the daemon's store."""
    told = subprocess.run([BUILD + "/tenure", verb, "-s", "unix:" + daemon.socket, *words],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    return told.returncode, told.stdout


@case
def a_stand_down_lasts_until_it_is_ended_by_whichever_way():
    with Daemon(*HTTP) as daemon, daemon.resp() as peer:
        def note():
            return daemon.ask("GET", "/v1/leases/~tenure/ask/a")[1]

        peer.ask("SESSION", "OPEN", secret(1), 60000, "LABEL", "holder")
        token = peer.ask("LEASE", "ACQUIRE", secret(1), secret(11), "a")[1]
        for bad in ({"for_ms": 999}, {"for_ms": 86400001}, {"to": "x"}, {"token": token}):
            same(daemon.post("/v1/leases/stand-down", name="a", **bad)[0], 400)
        same(note()["state"], "free")
        same(daemon.post("/v1/leases/stand-down", name="a", for_ms=60000), (200, {"held": 1}))
        same((note()["holder"], note()["ttl_ms"]), ("stand-down", 60000))
        peer.ask("LEASE", "RELEASE", secret(1), secret(11), "a", token)
        number = note()["token"]
        same(daemon.post("/v1/leases/stand-down", name="a"), (200, {"held": 0})) # It is prolonged.
        same((note()["token"], note()["ttl_ms"]), (number, 60000))
        same(daemon.post("/v1/leases/stand-down", name="a", for_ms=60000)[0], 200)
        status, answer = daemon.post("/v1/leases/stand-down", name="a", for_ms=70000)
        same((status, "lasts 60000 ms" in answer["message"]), (409, True))
        peer.ask("LEASE", "ACQUIRE", secret(1), secret(12), "a")
        same(daemon.post("/v1/leases/handover", name="a")[0], 409)
        same(daemon.post("/v1/leases/resume", name="a"), (200, {"ended": True}))
        same(daemon.post("/v1/leases/resume", name="a"), (200, {"ended": False}))
        same(note()["state"], "free")
        daemon.post("/v1/leases/handover", name="a")
        same(daemon.post("/v1/leases/stand-down", name="a")[0], 409)
        same(daemon.post("/v1/leases/resume", name="a"), (200, {"ended": True}))
        peer.ask("LEASE", "RELEASE", secret(1), secret(12), "a", peer.ask("LEASE", "GET", "a")[5])
        # The command ends what HTTP has left, and the other way round, again and again.
        for _ in range(2):
            same(daemon.post("/v1/leases/stand-down", name="a"), (200, {"held": 0}))
            same(tenure(daemon, "stand-down", "a")[0], 0)
            same(tenure(daemon, "resume", "a"), (0, "a: may lead again\n"))
            same(tenure(daemon, "stand-down", "a")[0], 0)
            same(daemon.post("/v1/leases/resume", name="a"), (200, {"ended": True}))
            same(tenure(daemon, "resume", "a"), (0, "a: did not stand down\n"))


@case
def a_drain_counts_what_the_node_still_holds():
    with Daemon(*HTTP) as daemon, daemon.resp() as peer:
        for number, label in enumerate(["web1-4711", "web1", "web1-x", "web10-1", "web2"], 1):
            peer.ask("SESSION", "OPEN", secret(number), 60000, "LABEL", label)
            peer.ask("LEASE", "ACQUIRE", secret(number), secret(11), f"job/{number}")
        peer.ask("LEASE", "ACQUIRE", secret(1), secret(12), "~tenure/priority/3/a") # Not work.
        for bad in ({}, {"id": "a", "host": "b"}, {"id": ""}, {"id": "x" * 256}, {"node": "a"},
                    {"id": "a", "for_ms": 5}, {"id": "a\0b"}):
            same(daemon.post("/v1/nodes/drain", **bad)[0], 400)
        same(daemon.post("/v1/nodes/drain", host="web1", for_ms=60000), (200, {"held": 2}))
        note = daemon.ask("GET", "/v1/leases/~tenure/drain/host/web1")[1]
        same((note["holder"], note["ttl_ms"]), ("drain", 60000))
        peer.ask("SESSION", "CLOSE", secret(1))
        same(daemon.post("/v1/nodes/drain", host="web1"), (200, {"held": 1}))
        same(daemon.post("/v1/nodes/drain", id="web1-x"), (200, {"held": 1}))
        same(daemon.post("/v1/nodes/drain", id="web"), (200, {"held": 0}))
        same(tenure(daemon, "undrain", "--host", "web1"), (0, "'web1': may lead again\n"))
        same(daemon.post("/v1/nodes/undrain", host="web1"), (200, {"ended": False}))
        same(daemon.post("/v1/nodes/undrain", id="web1-x"), (200, {"ended": True}))
        same(tenure(daemon, "undrain", "--id", "web"), (0, "'web': may lead again\n"))
        same(tenure(daemon, "drain", "--host", "web3", "--for", "1h")[0], 0)
        # It says how long it really lasts.
        same(tenure(daemon, "drain", "--host", "web3", "--for", "2h"),
             (0, "'web3': drained for 1h; 0 given back\n"))
        same(daemon.post("/v1/nodes/undrain", host="web3"), (200, {"ended": True}))


@case
def a_process_that_is_drained_over_http_gives_back_and_stays_out():
    with Daemon(*HTTP) as daemon:
        words = [BUILD + "/tenure", "elect", "-s", "unix:" + daemon.socket, "--ttl", "6s", "job"]
        first = subprocess.Popen([*words, "--id", "web1-1"], stdout=subprocess.DEVNULL)
        second = None
        try:
            def holder():
                return daemon.ask("GET", "/v1/leases/job")[1].get("holder")

            def drained():
                return daemon.post("/v1/nodes/drain", id="web1-1")[1]["held"] == 0

            until(lambda: holder() == "web1-1", "the first leads")
            second = subprocess.Popen([*words, "--id", "web2-1"], stdout=subprocess.DEVNULL)
            until(drained, "nothing is held there")
            until(lambda: holder() == "web2-1", "the other leads")
            same(daemon.post("/v1/leases/stand-down", name="job")[0], 200)
            until(lambda: holder() in (None, ""), "nobody leads")
            same(daemon.post("/v1/nodes/undrain", id="web1-1")[0], 200)
            same(daemon.post("/v1/leases/resume", name="job")[0], 200)
            until(lambda: holder() in ("web1-1", "web2-1"), "one leads")
        finally:
            for process in filter(None, (first, second)):
                process.terminate()
                process.wait(PATIENCE)


def ask_page(daemon, headers):
    """The status of the console's page, which a build without it has not."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/", None, headers)
        return connection.getresponse().status


@case
def the_sandbox_is_served_below_the_console():
    with Daemon(*HTTP) as daemon:
        if "sandbox" not in daemon.ask("GET", "/v1/whoami")[1]["shows"]:
            raise Skip("this build has no sandbox")
        for path, status, policy in [("/sandbox/", 200, "'self' 'wasm-unsafe-eval'"),
                                     ("/sandbox/sandbox.bin", 200, "'self' 'wasm-unsafe-eval'"),
                                     ("/sandbox", 301, "'self' 'wasm-unsafe-eval'"),
                                     ("/", 200, "'self'"), ("/sandboxes", 404, None),
                                     ("/sandbox/console.js", 404, None)]:
            connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", path)
                got = connection.getresponse()
                same((path, got.status), (path, status))
                if policy:
                    allows = got.headers["Content-Security-Policy"]
                    same(f"script-src {policy};" in allows, True)
                if status == 301:
                    same(got.headers["Location"], "/sandbox/")


@case
def a_page_of_another_site_can_neither_write_nor_read():
    body = json.dumps({"ttl_ms": 5000})
    with Daemon(*HTTP) as daemon:
        own = f"127.0.0.1:{daemon.http_port}"
        plain = {"Content-Type": "text/plain"}
        asked = {"Content-Type": "application/json"}
        for headers, status in [
                (plain, 415), ({}, 415), ({"Content-Type": "application/jsonx"}, 415),
                ({**asked, "Origin": "http://evil.example"}, 403),
                ({**asked, "Origin": "null"}, 403),
                ({**asked, "Origin": "https://" + own}, 403),
                ({**asked, "Sec-Fetch-Site": "cross-site"}, 403),
                ({**asked, "Host": "evil.example"}, 403),
                ({**asked, "Host": f"evil.example:{daemon.http_port}"}, 403),
                ({**asked, "Host": "127.0.0.1.evil.example"}, 403),
                ({**asked, "Origin": "http://" + own}, 200),
                ({**asked, "Host": "localhost", "Content-Type": "application/json; charset=utf-8"},
                 200)]:
            got = daemon.ask("POST", "/v1/sessions", body, headers)
            if got[0] != status:
                raise AssertionError(f"{headers}: {got}")
        same(daemon.ask("GET", "/v1/leases", None, {"Host": "evil.example"})[0], 403)
        # A link may lead to the console's page, and to nothing else.
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document"}
        frame = {**link, "Sec-Fetch-Dest": "iframe"}
        page = ask_page(daemon, {})
        same((ask_page(daemon, link), ask_page(daemon, frame)),
             (page, 403 if page == 200 else page))
        same(daemon.ask("GET", "/v1/leases", None, link)[0], 403)
        same(daemon.ask("OPTIONS", "/v1/sessions", None, {"Origin": "http://evil.example"})[0],
             405)
        same(daemon.ask("GET", "/v1/info")[1]["sessions"], 2)


# --- Hostile input -----------------------------------------------------------------------------

@case
def what_is_no_request_changes_nothing_and_is_refused():
    with Daemon(*HTTP) as daemon:
        for body in ["", "{", "[]", "null", '{"ttl_ms":"5000"}', '{"ttl_ms":5000.5}',
                     '{"ttl_ms":-1}', '{"ttl_ms":5000,"more":1}', '{"ttl_ms":5000,"ttl_ms":5001}',
                     '{"ttl_ms":5000,"label":"' + "x" * 300 + '"}', '{"ttl_ms":5000}{}',
                     '{"session":"*","ttl_ms":5000,"label":1}', "[" * 100]:
            status, answer = daemon.ask("POST", "/v1/sessions", body,
                                        {"Content-Type": "application/json"})
            if status != 400 or answer["error"] != "ERR":
                raise AssertionError(f"{body}: {status} {answer}")
        big = json.dumps({"ttl_ms": 5000, "label": "x" * 70000})
        same(daemon.ask("POST", "/v1/sessions", big, {"Content-Type": "application/json"})[0], 413)
        same(daemon.ask("GET", "/v1/leases/" + "x" * 300)[0], 400)
        same(daemon.ask("GET", "/v1/leases/a//b")[0], 400)
        same(daemon.ask("GET", "/v1/nothing")[0], 404)
        same(daemon.ask("PUT", "/v1/sessions", "{}")[0], 405)
        same(daemon.ask("GET", "/v1/info")[1]["sessions"], 0)


@case
def a_million_hostile_bytes_over_http_end_that_connection_only():
    noise = bytes((i * 7919 + i // 251) % 256 for i in range(1 << 20))
    shapes = [noise, b"GET /" + b"a" * (1 << 20), b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200000,
              b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Content-Length: 99999999999999999999\r\n\r\n" + b"1" * (1 << 20),
              b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n" + b"zz\r\n" * (1 << 18)]
    with Daemon(*HTTP) as daemon:
        with daemon.resp() as holder:
            holder.ask("SESSION", "OPEN", secret(1), 2000)
            for shape in shapes:
                with socket.create_connection(("127.0.0.1", daemon.http_port), PATIENCE) as peer:
                    try:
                        peer.sendall(shape)
                        while peer.recv(65536):
                            pass
                    except (ConnectionError, BrokenPipeError):
                        pass
                holder.ask("SESSION", "RENEW", secret(1))
                same(daemon.ask("GET", "/healthz")[0], 200)
        same(daemon.ask("GET", "/v1/info")[1]["sessions"], 1)


# --- Waiting, and what is on disk --------------------------------------------------------------

@case
def who_waits_in_line_over_http_is_granted_in_its_turn():
    with Daemon(*HTTP) as daemon:
        for number in (1, 2):
            daemon.post("/v1/sessions", session=secret(number), ttl_ms=60000, label=f"h{number}")
        _, first = daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            daemon.post("/v1/leases/acquire", session=secret(2), name="a", wait_ms=60000)))
        thread.start()
        until(lambda: daemon.ask("GET", "/v1/info")[1]["waiters"] == 1, "a waiter")
        same(answers, [])
        same(daemon.post("/v1/leases/release", session=secret(1), term=first["term"], name="a",
                         token=first["token"])[0], 200)
        thread.join(PATIENCE)
        same(answers[0][0], 200)
        same(answers[0][1]["token"], 2)
        same(daemon.ask("GET", "/v1/leases/a")[1]["holder"], "h2")


@case
def who_hangs_up_while_it_waits_gives_up_its_place():
    with Daemon(*HTTP) as daemon:
        for number in (1, 2):
            daemon.post("/v1/sessions", session=secret(number), ttl_ms=60000)
        _, first = daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        waiter = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
        waiter.request("POST", "/v1/leases/acquire", json.dumps(
            {"session": secret(2), "name": "a", "wait_ms": 60000}),
            {"Content-Type": "application/json"})
        until(lambda: daemon.ask("GET", "/v1/info")[1]["waiters"] == 1, "a waiter")
        waiter.close()
        until(lambda: daemon.ask("GET", "/v1/info")[1]["waiters"] == 0, "no waiter")
        daemon.post("/v1/leases/release", session=secret(1), term=first["term"], name="a",
                    token=first["token"])
        same(daemon.ask("GET", "/v1/leases/a")[1]["state"], "free")


@case
def who_waits_when_the_daemon_ends_is_told_to_ask_again():
    with Daemon(*HTTP) as daemon:
        for number in (1, 2):
            daemon.post("/v1/sessions", session=secret(number), ttl_ms=60000)
        daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            daemon.post("/v1/leases/acquire", session=secret(2), name="a", wait_ms=60000)))
        thread.start()
        until(lambda: daemon.ask("GET", "/v1/info")[1]["waiters"] == 1, "a waiter")
        same(daemon.stop(), 0)
        thread.join(PATIENCE)
        same((answers[0][0], answers[0][1]["error"]), (503, "UNAVAILABLE"))


@case
def what_http_answered_is_there_after_kill_9():
    daemon = Daemon(*HTTP).start()
    daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000, label="me")
    tokens = []
    for number in range(20):
        status, answer = daemon.post("/v1/leases/acquire", session=secret(1), name=f"n{number}")
        same(status, 200)
        tokens.append(answer["token"])
    daemon.stop(signal.SIGKILL)
    with daemon:
        for number, token in enumerate(tokens):
            lease = daemon.ask("GET", f"/v1/leases/n{number}")[1]
            same((lease["state"], lease["token"]), ("held", token))


@case
def a_flush_that_fails_is_not_answered_over_http_either():
    with Daemon(*HTTP) as daemon: # So that nothing is flushed to begin with.
        pass
    daemon.env = {**fixture("failing_disk"), "TENURE_TEST_FLUSHES": "1"}
    daemon.start()
    same(daemon.post("/v1/sessions", ttl_ms=5000)[0], 200)
    try:
        answer = daemon.post("/v1/sessions", ttl_ms=5000)
    except (ConnectionError, http.client.HTTPException):
        answer = None
    same(answer, None)
    same(daemon.stop(), 74)


# --- Events ------------------------------------------------------------------------------------

class Events:
    def __init__(self, daemon, query="", headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port,
                                                     timeout=PATIENCE)
        self.connection.request("GET", "/v1/events" + query, headers=headers or {})
        self.answer = self.connection.getresponse()
        same(self.answer.status, 200)
        same(self.answer.getheader("Content-Type"), "text/event-stream")

    def next(self):
        """("lease", {...}), or None at the end."""
        kind = data = None
        while True:
            line = self.answer.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line == "" and kind is not None:
                return kind, data

    def close(self):
        self.connection.close()


@case
def events_begin_with_what_is_there_and_go_on_with_what_changes():
    with Daemon(*HTTP) as daemon:
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000, label="me")
        names = [f"jobs/{number}" for number in range(600)]
        daemon.post("/v1/leases/acquire", session=secret(1), term=secret(9), names=names)
        daemon.post("/v1/leases/acquire", session=secret(1), term=secret(9), name="jobs2/x")
        events = Events(daemon, "?prefix=jobs")
        seen = []
        while (event := events.next())[0] == "lease":
            same((event[1]["state"], event[1]["holder"]), ("held", "me"))
            seen.append(event[1]["name"])
        same(event[0], "synced")
        same(sorted(seen), sorted(names))
        token = daemon.ask("GET", "/v1/leases/jobs/7")[1]["token"]
        daemon.post("/v1/leases/release", session=secret(1), term=secret(9), name="jobs/7",
                    token=token)
        same(events.next(), ("lease", {"name": "jobs/7", "state": "free", "holder": None,
                                       "token": token, "ttl_ms": 0, "remaining_ms": 0}))
        daemon.post("/v1/leases/acquire", session=secret(1), name="other")
        daemon.post("/v1/leases/acquire", session=secret(1), name="jobs/7")
        kind, lease = events.next()
        same((kind, lease["name"], lease["state"], lease["token"] > token),
             ("lease", "jobs/7", "held", True))
        events.close()
        same(daemon.ask("HEAD", "/v1/events"), (200, ""))
        until(lambda: daemon.ask("GET", "/v1/info")[1]["watches"] == 0, "no watch is left")


@case
def an_event_has_all_that_a_look_at_the_lease_has_and_a_revocation_is_one():
    spec = Spec()
    schema = {"$ref": "#/components/schemas/Lease"}
    with Daemon(*HTTP) as daemon:
        events = Events(daemon, "?name=job")
        events.next()
        same(events.next()[0], "synced")
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000, label="me")
        token = daemon.post("/v1/leases/acquire", session=secret(1), term=secret(9),
                            name="job")[1]["token"]

        def agrees(revoked):
            kind, told = events.next()
            _, looked = daemon.ask("GET", "/v1/leases/job")
            spec.check(schema, told, "event")
            left = told.pop("remaining_ms") - looked.pop("remaining_ms")
            same((kind, told, 0 <= left <= 60000), ("lease", looked, True))
            same(told.get("revoked", False), revoked)

        agrees(False)
        daemon.post("/v1/leases/revoke", name="job")
        agrees(True)
        daemon.post("/v1/leases/release", session=secret(1), term=secret(9), name="job",
                    token=token)
        agrees(False)
        events.close()


@case
def a_token_of_zero_ends_no_term():
    # It is what a name has that nobody has led; somebody may lead it by now.
    with Daemon(*HTTP) as daemon:
        seen = daemon.ask("GET", "/v1/leases/job")[1]["token"]
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000, label="me")
        daemon.post("/v1/leases/acquire", session=secret(1), term=secret(9), name="job")
        same(seen, 0)
        for what in ["revoke", "handover"]:
            body = {"name": "job", "token": seen}
            status, answer = daemon.ask("POST", f"/v1/leases/{what}", body)
            same((status, answer["message"]), (400, "TOKEN must be at least 1"))
        status, lease = daemon.ask("GET", "/v1/leases/job")
        same((lease["state"], lease.get("revoked", False)), ("held", False))
        same(daemon.ask("GET", "/v1/leases/~tenure/ask/job")[1]["state"], "free")


@case
def events_of_one_name_are_of_that_name_and_end_with_the_daemon():
    with Daemon(*HTTP) as daemon:
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000, label="me")
        events = Events(daemon, "?name=a/b")
        same(events.next()[1]["state"], "free")
        same(events.next()[0], "synced")
        daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        daemon.post("/v1/leases/acquire", session=secret(1), name="a/b")
        same(events.next()[1]["name"], "a/b")
        same(daemon.stop(), 0)
        same(events.next(), None)


@case
def a_reader_of_events_that_does_not_read_is_cut_off_and_nobody_waits_for_it():
    with Daemon(*HTTP) as daemon:
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=600000, label="m" * 255)
        names = [f"{number:03}" + "n" * 240 for number in range(200)]
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", daemon.http_port))
        slow.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: daemon.ask("GET", "/v1/info")[1]["watches"] == 1, "a watch")
        for number in range(9, 1000):
            if "too slowly" in daemon.said():
                break
            term = secret(number)
            _, many = daemon.post("/v1/leases/acquire", session=secret(1), term=term, names=names)
            daemon.post("/v1/leases/release", session=secret(1), term=term, leases=[
                {"name": name, "token": one["token"]}
                for name, one in zip(names, many["results"])])
        until(lambda: "too slowly" in daemon.said(), "a line")
        until(lambda: daemon.ask("GET", "/v1/info")[1]["watches"] == 0, "no watch is left")
        slow.close()


# --- Metrics -----------------------------------------------------------------------------------

@case
def metrics_tell_gaps_terms_renewals_validity_commits_queue_and_refusals():
    with Daemon(*HTTP) as daemon:
        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000)
        _, first = daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        daemon.post("/v1/leases/release", session=secret(1), term=first["term"], name="a",
                    token=first["token"])
        same(daemon.metric("term_seconds_count"), 1)
        same(daemon.metric("leader_gap_seconds_count"), 0)
        time.sleep(0.05)
        daemon.post("/v1/leases/acquire", session=secret(1), name="a")
        same(daemon.metric("leader_gap_seconds_count"), 1)
        same(0.03 < daemon.metric("leader_gap_seconds_sum") < PATIENCE, True)
        with daemon.resp() as waiter:
            waiter.ask("SESSION", "OPEN", secret(2), 60000)
            waiter.ask("LEASE", "ACQUIRE", secret(2), secret(3), "a", "QUEUE")
            same(daemon.metric("waiters"), 1)
            waiter.ask("SESSION", "RENEW", secret(2))
        same(daemon.metric("renewal_seconds_count"), 1)
        same(daemon.metric("journal_flush_seconds_count") > 2, True)
        same(daemon.metric('sessions_by_remaining{le="1"}'), 2)
        same(daemon.metric('sessions_by_remaining{le="0.1"}'), 0)
        same(30 < daemon.metric("remaining_validity_seconds_min") <= 60, True)
        before = daemon.metric('refusals_total{reason="GONE"}')
        daemon.post("/v1/sessions/renew", session=secret(7))
        same(daemon.metric('refusals_total{reason="GONE"}'), before + 1)
        lines = daemon.ask("GET", "/metrics")[1].splitlines()
        for line in lines:
            if not re.fullmatch(r'# (HELP|TYPE) (tenured|process)_.*|'
                                r'(tenured|process)_[a-z_]+(\{([a-z]+="[^"]*",?)+\})? '
                                r'[0-9.e+-]+', line):
                raise AssertionError("not Prometheus: " + line)
        daemon.post("/v1/leases/acquire", session=secret(1), term=secret(8),
                    names=[f"n{number}" for number in range(500)])
        same(len(daemon.ask("GET", "/metrics")[1].splitlines()), len(lines))


@case
def series_by_name_are_those_of_the_pattern_and_at_most_500():
    with Daemon(*HTTP, "--metrics-names", "jobs/*") as daemon:
        def series(kind):
            return dict(re.findall(r'^tenured_lease_%s\{name="(.*)"\} (\d+)$' % kind,
                                   daemon.ask("GET", "/metrics")[1], re.MULTILINE))

        daemon.post("/v1/sessions", session=secret(1), ttl_ms=60000)
        names = ["jobs/a", "jobs/b", "jobs", "other"]
        _, many = daemon.post("/v1/leases/acquire", session=secret(1), term=secret(2), names=names)
        tokens = {name: str(one["token"]) for name, one in zip(names, many["results"])}
        daemon.post("/v1/leases/release", session=secret(1), term=secret(2), name="jobs/b",
                    token=int(tokens["jobs/b"]))
        same(series("held"), {"jobs/a": "1", "jobs/b": "0"})
        same(series("token"), {name: tokens[name] for name in ("jobs/a", "jobs/b")})
        same(daemon.metric("names_left_out"), 0)
        for first in 0, 300:
            daemon.post("/v1/leases/acquire", session=secret(1), term=secret(2),
                        names=[f"jobs/n{first + number}" for number in range(300)])
        for kind in "held", "token":
            same(len(series(kind)), 500)
        same(daemon.metric("names_left_out"), 102)


@case
def one_connection_carries_many_requests():
    with Daemon(*HTTP) as daemon:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE)
        same(ask_over(connection, "POST", "/v1/sessions",
                      {"session": secret(1), "ttl_ms": 60000})[0], 200)
        socket_before = connection.sock
        for number in range(200):
            same(ask_over(connection, "POST", "/v1/sessions/renew", {"session": secret(1)})[0],
                 200)
        same(connection.sock is socket_before, True)
        connection.close()


main()
