"""Properties of TLS and SASL: both clients' names, and an error for each mistake that names the culprit."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from headgate.client.security import NOT_SECURED, Security, SecurityProblem, read_properties
from headgate.client.security.jaas import parse_jaas
from headgate.client.security.mechanisms import Bearer, Password
from headgate.client.security.properties import parse_properties
from headgate.client.security.scram import BadChallenge, scram
from headgate.client.security.tokens import ClientCredentials, FileToken, UnsecuredToken

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
MODULE = "org.apache.kafka.common.security"


def test_properties_are_read_as_java_reads_them() -> None:
    """Comments, separators, continuations and escapes."""
    text = "\n".join(
        [
            "# a comment", "  ! another \\", "security.protocol=SASL_SSL", "sasl.mechanism : PLAIN",
            "spaces in.value", "empty", "with\\ space = x=y\\", "    z", "unicode=\\u00e9\\t|", "p=C:\\\\x",
        ]
    )  # fmt: skip
    assert parse_properties(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "spaces": "in.value",
        "empty": "",
        "with space": "x=yz",
        "unicode": "é\t|",
        "p": "C:\\x",
    }


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that does not exist, one of other bytes, and one with a wrong property."""
    missing, binary, wrong = tmp_path / "no.properties", tmp_path / "binary", tmp_path / "wrong"
    binary.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    wrong.write_text("security.protcol=SSL\n")
    with pytest.raises(SecurityProblem, match=f"{missing}: No such file"):
        Security.read(missing)
    with pytest.raises(SecurityProblem, match=f"{binary}: this is no file of properties"):
        read_properties(binary)
    with pytest.raises(SecurityProblem, match=f"{wrong}: security.protcol: .*did you mean security.protocol"):
        Security.read(wrong)


def test_letters_beyond_four_digits_are_escaped_as_two_halves() -> None:
    """As Java writes them; one half alone, or an escape that is cut off, is an error without the value."""
    assert parse_properties("sasl.password=\\ud83d\\ude00 \\u00e9") == {"sasl.password": "\U0001f600 é"}
    for text in ("secret\\ud83d", "\\ude00secret", "secret\\u12", "secret\\uzzzz"):
        with pytest.raises(SecurityProblem, match=r"^sasl\.password: ") as raised:
            parse_properties(f"sasl.password={text}")
        assert "secret" not in str(raised.value)


def test_a_mark_at_the_start_of_a_file_is_no_letter_of_a_name(tmp_path: Path) -> None:
    """Some editors write it; the first property would not count, and the connection not be secured."""
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xef\xbb\xbfsecurity.protocol=SSL\n")
    assert Security.read(file).tls is not None


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_a_file_is_read_in_both_encodings(tmp_path: Path, encoding: str) -> None:
    """That of today, and that in which Java reads such files."""
    file = tmp_path / "client.properties"
    file.write_bytes("sasl.password=straße".encode(encoding))
    assert read_properties(file) == {"sasl.password": "straße"}


def test_jaas_has_a_module_and_options() -> None:
    """In double quotes, single quotes or none, with escapes."""
    found = parse_jaas(
        f'{MODULE}.plain.PlainLoginModule required username="al\\"ice" password=\'p=; w\' debug=true;'
    )
    assert found.module == "PlainLoginModule"
    assert found.options == {"username": 'al"ice', "password": "p=; w", "debug": "true"}


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'"a\tb\\c\"d"', 'a\tb\\c"d'),
        (r"'\101\60\7771\n\v\q'", "A0?71\n\vq"),
        ('"/* no // comment"', "/* no // comment"),
        (r"back\slash", r"back\slash"),
    ],
)
def test_jaas_has_the_escapes_of_java(written: str, password: str) -> None:
    """In quotes only: letters and octal numbers. Comments are outside of quotes."""
    text = (
        f"{MODULE}.plain.PlainLoginModule /* the\nflag */ required\n// a name=\n password={written} ; // end"
    )
    assert parse_jaas(text).options == {"password": password}


@pytest.mark.parametrize(
    "text",
    ["", "PlainLoginModule", "X required username=secret", "X required secret;", 'X required a="secret;'],
)
def test_an_invalid_jaas_is_not_repeated(text: str) -> None:
    """It may have the password."""
    with pytest.raises(SecurityProblem, match="expected is a value such as") as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.username": "alice", "sasl.password": "pw"},
        {"sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required username="alice" password="pw";'},
    ],
)
def test_a_name_and_a_password_come_from_either_client(given: dict[str, str]) -> None:
    """Those of Java and those of librdkafka. The password is not shown, and processes can exchange it."""
    security = Security.of(SASL | given)
    assert security.credentials == Password("PLAIN", "alice", "pw")
    assert "pw" not in repr(security)
    assert pickle.loads(pickle.dumps(security)) == security


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "file:///tmp/a%20token"}, FileToken(Path("/tmp/a token"))),
        (
            {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"},
            UnsecuredToken("alice"),
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
                "sasl.jaas.config": f'{MODULE}.oauthbearer.OAuthBearerLoginModule required clientId="a" '
                'clientSecret="b" scope="c";',
            },
            ClientCredentials("https://login.example/token", "a", "b", "c", None),
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
                "sasl.oauthbearer.client.id": "a",
                "sasl.oauthbearer.client.secret": "b",
            },
            ClientCredentials("https://login.example/token", "a", "b", None, None),
        ),
    ],
)
def test_tokens_come_from_where_either_client_has_them(given: dict[str, str], source: object) -> None:
    """A file, an OAuth server, or nowhere in tests."""
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **given}
    security = Security.of(properties)
    assert security.credentials == Bearer(source)  # type: ignore[arg-type]
    assert "client_secret" not in repr(security)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing: one of PLAIN"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: one of PLAIN"),
        (
            {**SASL, "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
            "sasl.mechanism=GSSAPI: one of PLAIN",
        ),
        ({"securty.protocol": "SASL_SSL"}, r"^securty.protocol: .*did you mean security.protocol\?"),
        ({"ssl_ca_location": "ca.pem"}, r"^ssl_ca_location: .*did you mean ssl.ca.location\?"),
        (
            {
                **SASL,
                "sasl.username": "bob",
                "sasl.jaas.config": "x.PlainLoginModule required username=alice password=hunter;",
            },
            "sasl.username and sasl.jaas.config name different users",
        ),
        ({**SASL, "sasl.username": "alice"}, "name or the password is missing"),
        (
            {**SASL, "sasl.jaas.config": "x.ScramLoginModule required a=b;"},
            "PLAIN has the login module Plain",
        ),
        ({"ssl.cipher.suites": "X"}, "ssl.cipher.suites: this property is unknown or not supported"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"},
            "ssl.ca.location /no/ca.pem: No such",
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            "ssl.truststore.location and ssl.ca.location: one of them",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "a"}, "certificate of this key is missing"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "TLSv1 is not supported"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.token.endpoint.url is missing",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://x",
            },
            "client id or secret is missing",
        ),
        ({**SASL, "sasl.username": "alice", "sasl.password": "hunter\0"}, "sasl.password: .*zero byte"),
        ({**SASL, "sasl.username": "alice", "sasl.password": "hunter\ud800"}, "sasl.password: .*not Unicode"),
        (
            {**SASL, "sasl.username": "alice", "sasl.password": 1234},
            "sasl.password: a text is expected, not int",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "a\0b"}, "ssl.ca.location: .*zero byte"),
        (
            {"security.protocol": "SSL", "ssl.key.password": "x" * 1024, "ssl.keystore.location": "a"},
            "1023 bytes",
        ),
    ],
)
def test_a_mistake_is_named(given: dict[str, str], message: str) -> None:
    """The property, what is expected, and its value, unless that is a password."""
    with pytest.raises(SecurityProblem, match=message) as raised:
        Security.of(given)
    assert "hunter" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["https://a:secret@x/token", "http://x/a token", "https:/token", "ftp://x/token", "http://x:99999/t"],
)
def test_a_url_that_is_no_endpoint_is_not_repeated(url: str) -> None:
    """It may have a password."""
    with pytest.raises(SecurityProblem, match=r"token\.endpoint\.url: an https: URL") as raised:
        ClientCredentials(url, "a", "b", None, None)
    assert "secret" not in str(raised.value)


def test_a_keystore_of_java_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    """JKS and PKCS12 are not read."""
    store = tmp_path / "truststore.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(50))
    for name in ("ssl.truststore.location", "ssl.ca.location"):
        with pytest.raises(SecurityProblem, match=f"keytool -exportcert -rfc -alias ALIAS -keystore {store}"):
            Security.of({"security.protocol": "SSL", name: str(store)})


def test_a_file_without_what_is_expected_is_named(tmp_path: Path) -> None:
    """One that is empty, and a certificate without its key."""
    empty, certificate = tmp_path / "empty.pem", tmp_path / "client.crt"
    empty.touch()
    certificate.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    for name, file, problem in (
        ("ssl.ca.location", empty, "the file is empty"),
        ("ssl.certificate.location", certificate, "the key of this certificate is missing"),
    ):
        with pytest.raises(SecurityProblem, match=f"{name} {file}: {problem}"):
            Security.of({"security.protocol": "SSL", name: str(file)})


def test_other_properties_of_a_client_are_ignored() -> None:
    """A file of a consumer has more than security."""
    assert (
        Security.of({"bootstrap.servers": "x:1", "group.id": "g", "request.timeout.ms": "1"}) == NOT_SECURED
    )


# The example of RFC 7677. With SHA-512 the real Kafka tests it.
FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
VERIFIER = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_is_that_of_the_rfc() -> None:
    """The exchange of RFC 7677, section 3, to the letter."""
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(FIRST.encode()).decode() == PROOF
    with pytest.raises(StopIteration):
        exchange.send(VERIFIER.encode())


def test_names_are_escaped() -> None:
    """Commas and equals signs separate attributes."""
    assert next(scram("SCRAM-SHA-512", "a=b,c", "", "nonce")) == b"n,,n=a=3Db=2Cc,r=nonce"


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"\xff", "not UTF-8"),
        (b"hello", "not SCRAM"),
        (b"r=other,s=W22Z,i=4096", "does not continue the client's nonce"),
        (b"r=nonce,s=W22Z,i=4096", "does not continue the client's nonce"),
        (b"r=nonce2,s=W22Z,i=1", "demands 1 iterations"),
        (b"r=nonce2,s=W22Z,i=2000000", "demands 2000000 iterations"),
        (b"r=nonce2,s=W22Z,i=-5", "no number"),
        (b"r=nonce2,s=***,i=4096", "invalid base64"),
        (b"r=nonce2,i=4096", "lacks what SCRAM needs"),
        (b"m=x,r=nonce2,s=W22Z,i=4096", "demands an extension"),
    ],
)
def test_a_bad_challenge_is_refused(challenge: bytes, reason: str) -> None:
    """A server must not make the client compute for minutes, nor skip its part of the proof."""
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "nonce")
    next(exchange)
    with pytest.raises(BadChallenge, match=reason):
        exchange.send(challenge)


@pytest.mark.parametrize("last", [b"e=invalid-proof", b"v=" + b64encode(bytes(32)), b"v="])
def test_a_server_that_does_not_know_the_password_is_refused(last: bytes) -> None:
    """Its proof is checked too, so that nobody can pretend to be the broker."""
    exchange = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    exchange.send(FIRST.encode())
    with pytest.raises(BadChallenge):
        exchange.send(last)


def test_unsecured_tokens_have_the_principal() -> None:
    """Three parts, the last of which, the signature, is empty."""
    header, claims, signature = UnsecuredToken("alice").token(1).split(".")
    assert b'"none"' in b64decode(header + "==")
    assert b'"alice"' in b64decode(claims + "==")
    assert signature == ""
