#!/usr/bin/python3
"""tls_test.py - tenured with mutual TLS, over RESP and HTTP: whom a certificate names, who is kept
out, and certificates that change while it serves."""
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import warnings

from tenured import PATIENCE, Daemon, Resp, ask_over, case, main, same, secret, until

FOLDER = tempfile.TemporaryDirectory(prefix="tenured-test-")


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def make_ca(name):
    path = f"{FOLDER.name}/{name}"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", path + ".key", "-out",
        path + ".pem")
    return path


def make_cert(ca, name, host=None):
    """PATH.pem and PATH.key, signed by @ca."""
    path = f"{FOLDER.name}/{name}"
    with open(path + ".ext", "w") as file:
        file.write(f"subjectAltName={host}\n" if host else "basicConstraints=CA:false\n")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", f"/CN={name}", "-keyout", path + ".key", "-out", path + ".csr")
    run("openssl", "x509", "-req", "-in", path + ".csr", "-CA", ca + ".pem", "-CAkey", ca + ".key",
        "-CAcreateserial", "-days", "2", "-extfile", path + ".ext", "-out", path + ".pem")
    return path


CA = make_ca("our-ca")
SERVER = make_cert(CA, "server", "IP:127.0.0.1")
MAILER = make_cert(CA, "mailer")
OTHER_CA = make_ca("other-ca")
STRANGER = make_cert(OTHER_CA, "stranger")
TLS = ("--tls-cert", SERVER + ".pem", "--tls-key", SERVER + ".key", "--tls-ca", CA + ".pem")


def context(cert=MAILER):
    made = ssl.create_default_context(cafile=CA + ".pem")
    if cert:
        made.load_cert_chain(cert + ".pem", cert + ".key")
    return made


def connect(port, how):
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return how.wrap_socket(plain, server_hostname="127.0.0.1")


def secure_resp(daemon, cert=MAILER):
    return Resp(connect(daemon.tcp_port, context(cert)))


def secure_ask(daemon, method, path, body=None, headers=None, cert=MAILER):
    with contextlib.closing(http.client.HTTPSConnection(
            "127.0.0.1", daemon.http_port, timeout=PATIENCE, context=context(cert))) as connection:
        return ask_over(connection, method, path, body, headers)


@case
def the_name_in_a_certificate_is_the_user_of_the_acl():
    daemon = Daemon(tcp=True)
    acl = daemon.path("acl", "allow mailer acquire jobs/*\nallow other admin *\n")
    daemon.words = (*TLS, "--acl", acl, "--http", "127.0.0.1:0")
    with daemon:
        with secure_resp(daemon) as mailer:
            mailer.ask("SESSION", "OPEN", secret(1), 60000)
            same(mailer.ask("LEASE", "ACQUIRE", secret(1), secret(2), "jobs/a")[0], "granted")
            same(mailer.refused("LEASE", "ACQUIRE", secret(1), secret(2), "other"), "DENIED")
            same(mailer.refused("REVOKE", "jobs/a"), "DENIED")
        same(secure_ask(daemon, "GET", "/v1/leases/jobs/a")[1]["state"], "held")
        same(secure_ask(daemon, "GET", "/v1/leases/other")[0], 403)
        me = secure_ask(daemon, "GET", "/v1/whoami")[1]
        same((me["user"], me["rights"]), ("mailer", [{"right": "acquire", "pattern": "jobs/*"}]))
        with contextlib.closing(http.client.HTTPSConnection(
                "127.0.0.1", daemon.http_port, timeout=PATIENCE,
                context=context(MAILER))) as connection:
            connection.request("GET", "/")
            answer = connection.getresponse()
            same((answer.status, answer.getheader("Content-Type").split(";")[0]),
                 (200, "text/html"))
        same(secure_ask(daemon, "POST", "/v1/leases/revoke", {"name": "jobs/a"})[0], 403)
        same(secure_ask(daemon, "GET", "/v1/leases/jobs/a", None,
                        {"Authorization": "Basic bWFpbGVyOng="})[0], 401)
        long = make_cert(CA, "a-name-that-is-too-long-to-be-a-user-of-ours")
        with secure_resp(daemon, long) as nobody:
            same(nobody.refused("LEASE", "GET", "jobs/a"), "NOAUTH")


@case
def who_has_no_certificate_of_the_ca_is_kept_out_and_others_are_served():
    with Daemon(*TLS, "--http", "127.0.0.1:0", tcp=True) as daemon:
        with secure_resp(daemon) as served:
            served.ask("SESSION", "OPEN", secret(1), 2000)
            for port in (daemon.tcp_port, daemon.http_port):
                for cert in (None, STRANGER):
                    try:
                        with connect(port, context(cert)) as peer:
                            peer.sendall(b"PING\r\n")
                            same(peer.recv(100), "never")
                    except (ssl.SSLError, ConnectionError):
                        pass
                old = context()
                old.set_ciphers("DEFAULT@SECLEVEL=0")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    old.minimum_version = ssl.TLSVersion.TLSv1
                    old.maximum_version = ssl.TLSVersion.TLSv1_1
                try:
                    connect(port, old)
                    raise AssertionError("TLS 1.1 was taken")
                except (ssl.SSLError, ConnectionError):
                    pass
                for noise in (b"PING\r\n", b"GET /healthz HTTP/1.0\r\n\r\n", b"\x16\x03" * 500000):
                    with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
                        try:
                            peer.sendall(noise)
                            got = b""
                            while more := peer.recv(1000):
                                got += more
                            same(got[:1] in (b"", b"\x15"), True) # An alert at most.
                        except ConnectionError:
                            pass
                served.ask("SESSION", "RENEW", secret(1))
        until(lambda: "no TLS" in daemon.said(), "a line")


@case
def beyond_loopback_there_is_only_tls():
    for words in (["--listen", "tcp:0.0.0.0:0"], ["--http", "0.0.0.0:0"]):
        daemon = Daemon(*words)
        try:
            daemon.start()
            raise AssertionError("started")
        except AssertionError as error:
            same("mutual TLS is needed" in str(error), True)
        same(daemon.process.returncode, 77)
    with Daemon("--listen", "tcp:0.0.0.0:0", "--http", "0.0.0.0:0", *TLS) as daemon:
        until(lambda: "everybody with a certificate" in daemon.said(), "a line")
        with secure_resp(daemon) as peer:
            same(peer.ask("PING"), "PONG")
        same(secure_ask(daemon, "GET", "/healthz")[0], 200)


@case
def files_that_are_missing_or_no_good_are_named_and_nothing_is_created():
    for words, said in [(TLS[:4], "go together"), (TLS[2:], "go together"),
                        ((*TLS[:1], "/nowhere.pem", *TLS[2:]), "/nowhere.pem"),
                        ((*TLS[:3], MAILER + ".key", *TLS[4:]), "mailer.key")]:
        daemon = Daemon(*words, tcp=True)
        try:
            daemon.start()
            raise AssertionError("started")
        except AssertionError as error:
            same(said in str(error), True)
        same(daemon.process.returncode, 64)
        same(os.path.exists(daemon.root + "/data"), False)


def serial_of(daemon):
    """Of the certificate that the daemon shows now."""
    with connect(daemon.tcp_port, context()) as peer:
        return peer.getpeercert()["serialNumber"]


@case
def certificates_are_read_again_on_sighup_and_bad_ones_are_not_taken():
    daemon = Daemon(tcp=True)
    paths = [daemon.path(name) for name in ("cert", "key", "ca")]

    def put(cert, key, ca=CA + ".pem"):
        for source, target in zip((cert, key, ca), paths):
            with open(source) as file:
                daemon.path(os.path.basename(target), file.read())

    put(SERVER + ".pem", SERVER + ".key")
    daemon.words = ("--tls-cert", paths[0], "--tls-key", paths[1], "--tls-ca", paths[2])
    with daemon:
        before = serial_of(daemon)
        with secure_resp(daemon) as held:
            held.ask("SESSION", "OPEN", secret(1), 60000)
            fresh = make_cert(CA, "fresh", "IP:127.0.0.1")
            put(fresh + ".pem", fresh + ".key")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "read again" in daemon.said(), "the new certificate")
            after = serial_of(daemon)
            same(after != before, True)
            put(SERVER + ".pem", fresh + ".key")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "the certificates stay as they were" in daemon.said(), "a line")
            same(serial_of(daemon), after)
            same(held.ask("SESSION", "RENEW", secret(1))[0], 60000)
            put(fresh + ".pem", fresh + ".key", OTHER_CA + ".pem")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: daemon.said().count("read again") == 2, "the other CA")
            with secure_resp(daemon, STRANGER) as stranger:
                same(stranger.ask("PING"), "PONG")
            same(held.ask("SESSION", "RENEW", secret(1))[0], 60000)
        try:
            with secure_resp(daemon) as peer:
                peer.ask("PING")
            raise AssertionError("the old CA is still trusted")
        except (ssl.SSLError, ConnectionError, EOFError):
            pass


@case
def much_at_once_waiting_and_events_work_through_tls():
    with Daemon(*TLS, "--http", "127.0.0.1:0", tcp=True) as daemon:
        with secure_resp(daemon) as peer, secure_resp(daemon) as waiter:
            peer.ask("SESSION", "OPEN", secret(1), 60000, "LABEL", "x" * 200)
            for _ in range(2000):
                peer.send("SESSION", "RENEW", secret(1))
            for _ in range(2000):
                same(peer.read()[0], 60000)
            names = [f"{number:03}" + "n" * 200 for number in range(200)]
            peer.ask("LEASE", "MACQUIRE", secret(1), secret(2), *names)
            for _ in range(20):
                peer.send("LEASE", "LIST", 0, "COUNT", 1000) # Replies of many records each.
            for _ in range(20):
                same(len(peer.read()[1]), 200)
            waiter.ask("SESSION", "OPEN", secret(3), 60000)
            waiter.send("LEASE", "ACQUIRE", secret(3), secret(4), names[0], "WAIT", 60000)
            token = peer.ask("LEASE", "GET", names[0])[5]
            peer.ask("LEASE", "RELEASE", secret(1), secret(2), names[0], token)
            same(waiter.read()[0], "granted")
        status, page = secure_ask(daemon, "GET", "/v1/leases?count=1000")
        same((status, len(page["leases"])), (200, 200))
        connection = http.client.HTTPSConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE,
                                                 context=context())
        connection.request("GET", "/v1/events?name=a")
        answer = connection.getresponse()
        same(answer.readline(), b"event: lease\n")
        with secure_resp(daemon) as peer:
            peer.ask("LEASE", "ACQUIRE", secret(1), secret(5), "a")
        while b'"held"' not in answer.readline():
            pass
        connection.close()
        until(lambda: secure_ask(daemon, "GET", "/v1/info")[1]["watches"] == 0, "no watch is left")


@case
def in_a_browser_a_page_of_another_site_cannot_write_through_tls():
    with Daemon(*TLS, "--http", "127.0.0.1:0") as daemon:
        own = f"https://127.0.0.1:{daemon.http_port}"
        for origin, status in (("https://evil.example", 403), (own, 200)):
            same(secure_ask(daemon, "POST", "/v1/sessions", json.dumps({"ttl_ms": 5000}),
                            {"Content-Type": "application/json", "Origin": origin})[0], status)


main()
