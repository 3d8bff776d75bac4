"""servers.py - the servers of bench/compare, one class each."""

import glob
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVERS = os.environ.get("TENURE_SERVERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "tenure-servers")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(true, seconds, what):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError("not in %d s: %s" % (seconds, what))
        time.sleep(0.01)


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Server:
    """One server on loopback; requests() is its own count of what it was asked."""

    least_ttl = 1
    environment = {}  # Of the workers, and of itself.

    def __init__(self, folder):
        self.port = free_port()
        self.folder = folder
        self.log = open(os.path.join(folder, self.name + ".log"), "wb")
        self.process = subprocess.Popen(self.command(), stdout=self.log, stderr=self.log,
                                        cwd=folder, env=dict(os.environ, **self.environment))
        wait_until(self.ready, 120, self.name + " answers")
        self.counted = self.port  # The port whose requests are counted.

    def ready(self):
        return answers(self.port)

    def address(self, port):
        """What the other client is told."""
        return "127.0.0.1:%d" % port

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Etcd(Server):
    name = "etcd"

    def command(self):
        url = "http://127.0.0.1:%d" % self.port
        peer = "http://127.0.0.1:%d" % free_port()
        return ["etcd", "--data-dir", os.path.join(self.folder, "etcd"), "--listen-client-urls",
                url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer]

    def metrics(self):
        return urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=5).read()

    def ready(self):
        try:
            return b"etcd_server_has_leader 1" in self.metrics()
        except OSError:
            return False

    def requests(self):
        found = re.findall(rb"^grpc_server_msg_received_total\{.*\} (\S+)$", self.metrics(), re.M)
        return sum(float(number) for number in found)

    def url(self, port):
        return "etcd://127.0.0.1:%d/c" % port

    @staticmethod
    def version():
        return "etcd " + subprocess.check_output(["etcd", "--version"], text=True).split()[2]


class Redis(Server):
    name = "redis"

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "yes", "--appendfsync", "always"]

    def requests(self):
        info = subprocess.check_output(["redis-cli", "-p", str(self.port), "INFO", "stats"],
                                       text=True)
        return int(re.search(r"total_reads_processed:(\d+)", info).group(1))

    def url(self, port):
        return "redis://127.0.0.1:%d/0" % port

    @staticmethod
    def version():
        said = subprocess.check_output(["redis-server", "--version"], text=True)
        return "Redis " + re.search(r"v=(\S+)", said).group(1)


class ZooKeeper(Server):
    name = "zookeeper"

    def command(self):
        with open(os.path.join(self.folder, "zoo.cfg"), "w") as config:
            config.write("tickTime=200\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
                         "maxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
                         "4lw.commands.whitelist=ruok,mntr\n"
                         % (os.path.join(self.folder, "zookeeper"), self.port))
        return ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", config.name]

    def word(self, word):
        with socket.create_connection(("127.0.0.1", self.port), 5) as link:
            link.sendall(word)
            return link.makefile("rb").read()

    def ready(self):
        try:
            return self.word(b"ruok") == b"imok"
        except OSError:
            return False

    def requests(self):
        return int(re.search(rb"zk_packets_received\s+(\d+)", self.word(b"mntr")).group(1))

    def url(self, port):
        return "zookeeper://127.0.0.1:%d/c" % port

    @staticmethod
    def version():
        jars = glob.glob("/usr/share/java/zookeeper-[0-9]*.jar")
        return "ZooKeeper " + re.search(r"-([\d.]+)\.jar", jars[0]).group(1)


class Consul(Server):
    name = "consul"
    program = os.path.join(SERVERS, "consul", "consul")

    def command(self):
        return [self.program, "agent", "-server", "-bootstrap-expect=1", "-node=one",
                "-data-dir=" + os.path.join(self.folder, "consul"), "-bind=127.0.0.1",
                "-client=127.0.0.1", "-log-level=debug", "-http-port=%d" % self.port,
                "-server-port=%d" % free_port(), "-serf-lan-port=%d" % free_port(),
                "-serf-wan-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-dns-port=-1",
                "-hcl", 'session_ttl_min="1s" performance { raft_multiplier = 1 }']

    def ready(self):
        url = "http://127.0.0.1:%d/v1/status/leader" % self.port
        try:
            return b":" in urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            return False

    def requests(self):
        with open(self.log.name, "rb") as log:
            return sum(b"Request finished" in line for line in log)

    def url(self, port):
        return "consul://127.0.0.1:%d/c" % port

    @classmethod
    def version(cls):
        said = subprocess.check_output([cls.program, "version"], text=True)
        return re.search(r"Consul v\S+", said).group(0).replace(" v", " ")


class Kubernetes(Server):
    """An API server on an etcd; requests are counted by its audit log."""

    name = "kubernetes"
    program = os.path.join(SERVERS, "kubernetes", "kube-apiserver")
    least_ttl = 5

    def __init__(self, folder):
        self.etcd = Etcd(folder)
        try:
            super().__init__(folder)
        except BaseException:
            self.etcd.end()
            raise

    def end(self):
        super().end()
        self.etcd.end()

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def command(self):
        key = self.path("account.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        # One line for each request, when it arrives; the server's own Leases are elsewhere.
        audit = self.path("audit.yaml", """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
- level: Metadata
  resources: [{group: coordination.k8s.io, resources: [leases]}]
  namespaces: [default]
- level: None
""")
        return [self.program, "--etcd-servers=http://127.0.0.1:%d" % self.etcd.port,
                "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                "--secure-port=%d" % self.port,
                "--cert-dir=" + self.folder, "--service-account-issuer=https://tenure.test",
                "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
                "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                "--token-auth-file=" + self.path("tokens.csv", "geheim,me,1,system:masters\n"),
                "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
                "--audit-policy-file=" + audit, "--audit-log-path=" + self.path("audit.log")]

    def ready(self):
        said = subprocess.run(["curl", "-sfk", "-m", "5", "-H", "Authorization: Bearer geheim",
                               "https://127.0.0.1:%d/api/v1/namespaces/default" % self.port],
                              capture_output=True)
        return said.returncode == 0

    def requests(self):
        with open(self.path("audit.log"), "rb") as log:
            return sum(1 for line in log)

    def address(self, port):
        return self.path("port-%d.yaml" % port, """apiVersion: v1
kind: Config
current-context: test
clusters:
- name: here
  cluster: {server: "https://127.0.0.1:%d", certificate-authority: apiserver.crt}
contexts:
- name: test
  context: {cluster: here, user: me}
users:
- name: me
  user: {token: geheim}
""" % port)

    def url(self, port):
        return "kubernetes://default?kubeconfig=" + self.address(port)

    @staticmethod
    def version():
        """As it was built; the program itself was not told."""
        with open(os.path.join(ROOT, "tests", "engines", "kubernetes", "go.mod")) as mod:
            return "Kubernetes " + re.search(r"k8s.io/kubernetes v(\S+)", mod.read()).group(1)


class DynamoDB(Server):
    """DynamoDB Local counts nothing: a proxy in front of it does, and only where it is asked."""

    name = "dynamodb"
    program = os.path.join(SERVERS, "dynamodb", "classes", "Dynamo.class")
    least_ttl = 3
    environment = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret",
                   "AWS_REGION": "us-east-1", "DDB_LOCAL_TELEMETRY": "0"}

    def __init__(self, folder):
        super().__init__(folder)
        self.count = os.path.join(folder, "counted")
        open(self.count, "w").close()
        self.proxy = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "tests", "engines", "dynamodb", "count.py"),
             str(self.port), self.count], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.counted = int(self.proxy.stdout.readline())
        self.ask("CreateTable", {
            "TableName": "locks", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}]})

    def end(self):
        self.proxy.kill()
        self.proxy.wait()
        super().end()

    def command(self):
        jars = os.path.join(SERVERS, "dynamodb", "jars")
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dsqlite4java.library.path=" + jars, "-cp",
                os.path.dirname(self.program) + ":" + jars + "/*", "Dynamo", "serve",
                str(self.port)]

    def ask(self, action, body):
        """DynamoDB Local looks at the key id of a signature, and at nothing else of it."""
        request = urllib.request.Request(
            "http://127.0.0.1:%d/" % self.port, json.dumps(body).encode(),
            {"X-Amz-Target": "DynamoDB_20120810." + action, "X-Amz-Date": "20260101T000000Z",
             "Content-Type": "application/x-amz-json-1.0",
             "Authorization": "AWS4-HMAC-SHA256 Credential=AKIDTEST/20260101/us-east-1/dynamodb/"
                              "aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, "
                              "Signature=" + 64 * "0"})
        return urllib.request.urlopen(request, timeout=20).read()

    def ready(self):
        try:
            return bool(self.ask("ListTables", {}))
        except OSError:
            return False

    def requests(self):
        with open(self.count, "rb") as log:
            return sum(1 for line in log)

    def url(self, port):
        return "dynamodb://locks?endpoint=http://127.0.0.1:%d" % port

    @staticmethod
    def version():
        return "DynamoDB Local " + dynamodb_module("DynamoDBLocal")


def dynamodb_module(name):
    """The version in the tests' pom.xml."""
    with open(os.path.join(ROOT, "tests", "engines", "dynamodb", "pom.xml")) as pom:
        return re.search(name + r"</artifactId>\s*<version>([^<]*)", pom.read()).group(1)
