"""TLS and SASL against Apache Kafka: each protocol and mechanism, and an error for each mistake.

The node has a listener for each way of TLS, and one for each way of SASL. Errors name the address and say
what to do next.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench.kafka.broker import BRIEF_JVM, free_ports, kafka_missing, kafka_node, with_class_archive
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.differential.certificates import Authority, new_authority
from typer.testing import CliRunner

from headgate.admin import Admin, AuthenticationFailed, ClientError, ConnectionFailed, TlsFailed
from headgate.cli import app
from headgate.client.security.tokens import UnsecuredToken

SECURITY = "org.apache.kafka.common.security"
PLAIN = f'{SECURITY}.plain.PlainLoginModule required username="admin" password="a" user_alice="p,=\\u00df w";'
SCRAM = f"{SECURITY}.scram.ScramLoginModule required;"
BEARER = f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";'
PASSWORD = "p,=ß w"
PROTOCOLS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "OTHERNAME": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}


@dataclass(frozen=True, slots=True)
class Secured:
    """The node, its addresses, and the files of its clients."""

    plaintext: str
    ports: Mapping[str, int]
    authority: Authority
    client: Path
    """Key and certificate of a client."""

    def at(self, listener: str) -> str:
        """Return `host:port` of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def trusting(self) -> dict[str, str]:
        """The properties of TLS that trust the node's authority."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.certificate)}


def password(mechanism: str, secret: str = PASSWORD) -> dict[str, str]:
    """Return the properties of SASL with a password."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": secret,
    }


def bearer(**properties: str) -> dict[str, str]:
    """Return the properties of OAUTHBEARER, with dots instead of underscores."""
    further = {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in properties.items()}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **further}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node with all listeners."""
    if problem := kafka_missing():
        pytest.skip(problem)
    directory = tmp_path_factory.mktemp("secured")
    authority = new_authority(directory / "authority")
    server = authority.issue("server", "IP:127.0.0.1")
    stores = {
        "tls": server,
        "mutual": server,
        "sasltls": server,
        "expired": authority.issue("expired", "IP:127.0.0.1", days=-1),
        "othername": authority.issue("other", "DNS:kafka.example"),
    }
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    settings = _settings(stores, authority)
    jvm = with_class_archive(BRIEF_JVM)
    with kafka_node(settings=settings, more_listeners=ports, jvm=jvm) as node:
        _add_user(node.bootstrap)
        yield Secured(node.bootstrap, ports, authority, authority.issue("client", "DNS:client.example"))


def _settings(stores: Mapping[str, Path], authority: Authority) -> dict[str, str]:
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **PROTOCOLS}
    settings = {
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(authority.certificate),
        "listener.name.brief.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brief.plain.sasl.jaas.config": PLAIN,
        "listener.name.brief.plain.connections.max.reauth.ms": "1500",
    }
    for listener, store in stores.items():
        settings[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        settings[f"listener.name.{listener}.ssl.keystore.location"] = str(store)
    mechanisms = {"plain": PLAIN, "scram-sha-256": SCRAM, "scram-sha-512": SCRAM, "oauthbearer": BEARER}
    for listener in ("sasl", "sasltls"):
        names = ",".join(name.upper() for name in mechanisms)
        settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = names
        for name, jaas in mechanisms.items():
            settings[f"listener.name.{listener}.{name}.sasl.jaas.config"] = jaas
    return settings


def _add_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(timeout=20)


def topics(address: str, properties: Mapping[str, str], timeout_s: float = 10) -> list[str]:
    """Return the topics that an admin with these properties sees."""
    with Admin(address, timeout_s, security=properties) as admin:
        return admin.topics()


def refusal(address: str, properties: Mapping[str, str], kind: type[ClientError]) -> str:
    """Return the message of the error that an admin with these properties gets."""
    with pytest.raises(kind) as raised:
        topics(address, properties, 3)
    return str(raised.value)


# --- what works ---


def test_an_encrypted_connection_works(kafka: Secured) -> None:
    """With the authority in a file by either client's name, or in the property itself."""
    pem = kafka.authority.certificate
    for trusted in (
        {"ssl.ca.location": str(pem)},
        {"ssl.truststore.location": str(pem), "ssl.truststore.type": "PEM"},
        {"ssl.truststore.certificates": pem.read_text()},
        {"ssl.ca.pem": pem.read_text(), "ssl.enabled.protocols": "TLSv1.2"},
        {"ssl.truststore.certificates": " ".join(pem.read_text().split("\n"))},
        {"enable.ssl.certificate.verification": "false"},
    ):
        assert topics(kafka.at("TLS"), {"security.protocol": "SSL", **trusted}) is not None


def test_a_certificate_of_the_client_works(kafka: Secured) -> None:
    """In one file or two, in the properties themselves, and with an encrypted key."""
    text = kafka.client.read_text()
    for own in (
        {"ssl.keystore.location": str(kafka.client), "ssl.keystore.type": "PEM"},
        {"ssl.certificate.location": str(kafka.client), "ssl.key.location": str(kafka.client)},
        {"ssl.keystore.certificate.chain": text, "ssl.keystore.key": text},
    ):
        assert topics(kafka.at("MUTUAL"), kafka.trusting | own) is not None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_works(kafka: Secured, mechanism: str) -> None:
    """With letters that SASLprep or the syntax of SCRAM would change, without TLS and with it."""
    assert topics(kafka.at("SASL"), password(mechanism)) is not None
    secured = password(mechanism) | kafka.trusting | {"security.protocol": "SASL_SSL"}
    assert topics(kafka.at("SASLTLS"), secured) is not None


def test_tokens_work(kafka: Secured, tmp_path: Path) -> None:
    """Unsecured ones, those of a file, of a function, and of an OAuth server, which is asked once."""
    token = tmp_path / "token"
    token.write_text(UnsecuredToken("alice").token(1) + "\n")
    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true"}
    assert topics(kafka.at("SASL"), bearer(config="principal=alice") | unsecured) is not None
    assert topics(kafka.at("SASL"), bearer(token_endpoint_url=token.as_uri())) is not None
    with oauth_server() as server:
        properties = bearer(
            token_endpoint_url=server.url, client_id="alice", client_secret="secret", scope="kafka"
        )
        assert topics(kafka.at("SASL"), properties) is not None
        assert topics(kafka.at("SASL"), properties) is not None
        assert server.forms == ["grant_type=client_credentials&scope=kafka"]


def test_a_session_that_ends_is_renewed_by_a_new_connection(kafka: Secured) -> None:
    """The broker closes connections whose authentication is too old (connections.max.reauth.ms)."""
    with Admin(kafka.at("BRIEF"), security=password("PLAIN")) as admin:
        admin.topics()
        first = admin.cluster.any_node()
        threading.Event().wait(1.4)
        assert not first.is_open
        assert admin.topics() is not None


def test_the_commands_take_a_file_of_properties(kafka: Secured, tmp_path: Path) -> None:
    """Each of them reads --command-config, in the format of Kafka's own tools."""
    config = tmp_path / "client.properties"
    secured = password("SCRAM-SHA-512") | kafka.trusting | {"security.protocol": "SASL_SSL"}
    config.write_text("".join(f"{name}={value}\n" for name, value in secured.items()), encoding="utf-8")
    connection = ["--bootstrap-server", kafka.at("SASLTLS"), "--command-config", str(config)]
    for words in (["consumer-groups", "--list"], ["share-groups", "--list"], ["transactions", "list"]):
        done = CliRunner().invoke(app, [*words, *connection])
        assert done.exit_code == 0, done.stderr
    audited = CliRunner().invoke(
        app, ["fleet", "audit", kafka.at("SASLTLS"), "--command-config", str(config)]
    )
    assert "__consumer_offsets" not in audited.stderr
    assert audited.exit_code == 0, audited.stderr


# --- mistakes ---


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(kafka: Secured, mechanism: str) -> None:
    """The message names the address, the user and the mechanism, and not the password."""
    message = refusal(kafka.at("SASL"), password(mechanism, "wr0ng"), AuthenticationFailed)
    assert message.startswith(f"{kafka.at('SASL')} does not accept user alice by {mechanism}: ")
    assert "wr0ng" not in message


def test_a_wrong_token_is_refused(kafka: Secured, tmp_path: Path) -> None:
    """Nonsense in a file, a file that is missing, and an OAuth server that refuses or is away."""
    token = tmp_path / "token"
    token.write_text("nonsense")
    message = refusal(kafka.at("SASL"), bearer(token_endpoint_url=token.as_uri()), AuthenticationFailed)
    assert "does not accept the bearer of the token by OAUTHBEARER" in message
    token.unlink()
    message = refusal(kafka.at("SASL"), bearer(token_endpoint_url=token.as_uri()), AuthenticationFailed)
    assert f"the token in {token} cannot be read: No such file" in message
    with oauth_server() as server:
        properties = bearer(token_endpoint_url=server.url, client_id="mallory", client_secret="x")
        message = refusal(kafka.at("SASL"), properties, AuthenticationFailed)
        assert f"{server.url} refuses client mallory: 401" in message
    message = refusal(kafka.at("SASL"), properties, AuthenticationFailed)
    assert f"no token from {server.url}: " in message


def test_a_mechanism_that_the_broker_lacks_is_named(kafka: Secured) -> None:
    """With those that it offers."""
    message = refusal(kafka.at("BRIEF"), password("SCRAM-SHA-256"), AuthenticationFailed)
    assert "does not offer SCRAM-SHA-256; set sasl.mechanism to one that it offers: PLAIN" in message


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        ("EXPIRED", "certificate of {} is not accepted: it has expired; renew it on the broker"),
        ("OTHERNAME", "certificate of {} is not accepted: IP address mismatch"),
        ("MUTUAL", "{} demands a certificate of the client; set ssl.certificate.location"),
        ("SASL", "{} does not answer in TLS; if this port is not encrypted, set security.protocol"),
    ],
)
def test_a_connection_that_cannot_be_encrypted_is_explained(
    kafka: Secured, listener: str, reason: str
) -> None:
    """The message names the address and what to do."""
    message = refusal(kafka.at(listener), kafka.trusting, TlsFailed)
    assert reason.format(kafka.at(listener)) in message


def test_an_unknown_authority_is_named(kafka: Secured, tmp_path: Path) -> None:
    """That of the node is not among those of the client: in the message is the client's file."""
    message = refusal(kafka.at("TLS"), {"security.protocol": "SSL"}, TlsFailed)
    assert "its issuer is not in the certificates of the system (set ssl.ca.location" in message
    other = new_authority(tmp_path / "other")
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(other.certificate)}
    assert f"its issuer is not in ssl.ca.location {other.certificate}" in refusal(
        kafka.at("TLS"), properties, TlsFailed
    )
    own = other.issue("client", "DNS:client.example")
    message = refusal(kafka.at("MUTUAL"), kafka.trusting | {"ssl.keystore.location": str(own)}, TlsFailed)
    assert f"{kafka.at('MUTUAL')} refuses the certificate in ssl.keystore.location {own}" in message


@pytest.mark.parametrize("listener", ["TLS", "SASL", "SASLTLS"])
def test_a_plain_connection_to_a_secured_port_is_explained(kafka: Secured, listener: str) -> None:
    """The port closes it; the message says what is probably missing."""
    message = refusal(kafka.at(listener), {}, ClientError)
    assert kafka.at(listener) in message
    assert "set security.protocol " in message
    assert "in the file of --command-config, in Python in `security`, or in Spark" in message


def test_tls_without_sasl_to_a_port_with_both_is_explained(kafka: Secured) -> None:
    """The port closes the connection after the handshake; the message says that SASL is missing."""
    message = refusal(kafka.at("SASLTLS"), kafka.trusting, ConnectionFailed)
    assert "if this port needs SASL too, set security.protocol to SASL_SSL" in message


def test_sasl_to_a_port_without_it_is_explained(kafka: Secured) -> None:
    """The message says what to set."""
    message = refusal(kafka.plaintext, password("PLAIN"), AuthenticationFailed)
    assert f"{kafka.plaintext} has no SASL on this port; set security.protocol to PLAINTEXT or SSL" in message


def test_a_file_with_a_mistake_is_named_by_the_command(kafka: Secured, tmp_path: Path) -> None:
    """Exit code 2 for the file, and 1 for what a broker refuses."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\nssl.ca.location=/nowhere/ca.pem\n")
    words = [
        "consumer-groups",
        "--list",
        "--bootstrap-server",
        kafka.at("TLS"),
        "--command-config",
        str(config),
    ]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"--command-config {config}: ssl.ca.location /nowhere/ca.pem: No such file" in done.stderr
    config.write_text("security.protocol=SSL\n")
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


# --- an OAuth server ---


class OAuthServer(ThreadingHTTPServer):
    """Gives an unsecured token to client `alice` with the secret `secret`; keeps the forms it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _TokenEndpoint)
        self.forms: list[str] = []

    @property
    def url(self) -> str:
        """The URL of its token endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class _TokenEndpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, OAuthServer)
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.headers["Authorization"] != "Basic YWxpY2U6c2VjcmV0":
            self.send_error(401)
            return
        self.server.forms.append(form)
        answer = json.dumps({"access_token": UnsecuredToken("alice").token(1), "expires_in": 600}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@contextlib.contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    """Run an OAuth server."""
    with OAuthServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
