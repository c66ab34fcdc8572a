"""`Security`: how connections are secured, checked from Kafka's client properties.

The names are those of the Java client (`ssl.truststore.location`, `sasl.jaas.config`) and those of librdkafka
(`ssl.ca.location`, `sasl.username`), so that a file that Kafka's tools or other Python clients use is right
here too. Properties that are not about security are ignored; an unknown one that is, or whose name is almost
one of those, is an error.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from headgate.client.security.jaas import Jaas, parse_jaas
from headgate.client.security.mechanisms import MECHANISMS, Bearer, Credentials, Password
from headgate.client.security.problem import SecurityProblem
from headgate.client.security.properties import read_properties
from headgate.client.security.tls import Pem, Tls, context_of
from headgate.client.security.tokens import ClientCredentials, FileToken, TokenSource, UnsecuredToken
from headgate.domain.wording import did_you_mean

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

USED = (
    "security.protocol",
    "ssl.truststore.location", "ssl.truststore.certificates", "ssl.truststore.type",
    "ssl.ca.location", "ssl.ca.pem",
    "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.type",
    "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification", "ssl.enabled.protocols",
    "sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.config", "enable.sasl.oauthbearer.unsecure.jwt",
)  # fmt: skip
"""The properties that have an effect."""

IGNORED = (
    "ssl.truststore.password", "ssl.keystore.password", "ssl.protocol", "ssl.provider",
    "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "sasl.oauthbearer.method", "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class",
    "sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds",
    "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
)  # fmt: skip
"""Properties of other clients that are accepted and have no effect."""

_ALMOST = 0.85
"""How similar a name is to one of `USED` that was meant. Other properties of clients are not as similar."""
_OURS = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.")
_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_NO_JAAS = Jaas("", {})


@dataclass(frozen=True, slots=True)
class Security:
    """How connections are secured. Make it with `of` or `read`; it can be pickled."""

    tls: Tls | None = None
    credentials: Credentials | None = None

    @classmethod
    def read(cls, path: Path) -> Security:
        """Return the security of a file of properties. Raises `SecurityProblem`, which names the file."""
        try:
            return cls.of(read_properties(path))
        except SecurityProblem as problem:
            if str(problem).startswith(f"{path}:"):
                raise
            raise SecurityProblem(f"{path}: {problem}") from problem

    @classmethod
    def of(cls, properties: Mapping[str, str], token: Callable[[], str] | None = None) -> Security:
        """Return the security of these properties; `token` returns a token for OAUTHBEARER.

        Raises `SecurityProblem` for an invalid property, or a file that cannot be used; `TypeError` for a
        token that is no function.
        """
        if token is not None and not callable(token):
            raise TypeError("token must be a function that returns a token, not the token itself")
        for name, value in properties.items():
            _check_name(name)
            _check_value(name, value)
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise SecurityProblem(f"security.protocol={protocol}: one of {', '.join(PROTOCOLS)} is expected")
        tls = _tls(properties) if protocol.endswith("SSL") else None
        credentials = _credentials(properties, tls, token) if protocol.startswith("SASL") else None
        security = cls(tls, credentials)
        security.context()  # so that a file that cannot be used is an error now
        return security

    def context(self) -> ssl.SSLContext | None:
        """Return the context of TLS; None without TLS. Raises `SecurityProblem`."""
        return None if self.tls is None else context_of(self.tls)


NOT_SECURED = Security()
"""Neither TLS nor SASL."""


def is_of_security(name: str) -> bool:
    """Tell whether a property of a client is about TLS or SASL."""
    return name.startswith(_OURS)


def _check_name(name: str) -> None:
    if name in USED or name in IGNORED:
        return
    is_ours = is_of_security(name)
    near = did_you_mean(name, USED, likeness=0.6 if is_ours else _ALMOST)
    if is_ours or near:
        hint = near or f"those that have an effect are {', '.join(USED)}"
        raise SecurityProblem(f"{name}: this property is unknown or not supported here; {hint}")


def _check_value(name: str, value: object) -> None:
    """Refuse what no file of properties can have. The value is not repeated: it can be a password."""
    if not is_of_security(name):
        return
    if not isinstance(value, str):
        raise SecurityProblem(f"{name}: a text is expected, not {type(value).__name__}")
    if "\0" in value or (not value.isascii() and _is_no_unicode(value)):
        raise SecurityProblem(f"{name}: the value has a zero byte, or is not Unicode")


def _is_no_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# --- TLS ---


def _tls(given: Mapping[str, str]) -> Tls:
    for kind in ("ssl.truststore.type", "ssl.keystore.type"):
        if given.get(kind, "PEM").upper() != "PEM" and kind.replace("type", "location") not in given:
            raise SecurityProblem(f"{kind}={given[kind]}: only PEM is read here")
    chain = _pem(
        given, ("ssl.keystore.location", "ssl.certificate.location"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    )  # fmt: skip
    key = _pem(given, ("ssl.key.location",), ("ssl.keystore.key", "ssl.key.pem"))
    if key is not None and chain is None:
        raise SecurityProblem(
            f"{key.name}: the certificate of this key is missing (ssl.certificate.location)"
        )
    names = given.get("ssl.enabled.protocols", "")
    return Tls(
        trusted=_pem(
            given,
            ("ssl.truststore.location", "ssl.ca.location"),
            ("ssl.truststore.certificates", "ssl.ca.pem"),
        ),
        chain=chain,
        key=key,
        key_password=given.get("ssl.key.password"),
        checks_host=_checks_host(given),
        checks_certificate=_truth(given, "enable.ssl.certificate.verification", default=True),
        versions=tuple(_version(name.strip()) for name in names.split(",") if name.strip()),
    )


def _pem(given: Mapping[str, str], paths: tuple[str, ...], texts: tuple[str, ...]) -> Pem | None:
    named = [name for name in (*paths, *texts) if given.get(name)]
    if len(named) > 1:
        raise SecurityProblem(f"{' and '.join(named)}: one of them is expected")
    if not named:
        return None
    (name,) = named
    return Pem(name, path=given[name]) if name in paths else Pem(name, text=given[name])


def _checks_host(given: Mapping[str, str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    value = given.get(name, "https").strip().lower()
    if value not in ("https", "", "none"):
        raise SecurityProblem(f"{name}={value}: https, or nothing, is expected")
    return value == "https"


def _version(name: str) -> str:
    if name not in ("TLSv1.2", "TLSv1.3"):
        raise SecurityProblem(f"ssl.enabled.protocols: {name} is not supported; TLSv1.2 and TLSv1.3 are")
    return name


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise SecurityProblem(f"{name}={value}: true or false is expected")
    return value == "true"


# --- SASL ---


def _credentials(given: Mapping[str, str], tls: Tls | None, token: Callable[[], str] | None) -> Credentials:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).strip().upper()
    if mechanism not in MECHANISMS:
        found = f"={mechanism}" if mechanism else " is missing"
        raise SecurityProblem(f"sasl.mechanism{found}: one of {', '.join(MECHANISMS)} is expected")
    text = given.get("sasl.jaas.config")
    jaas = _NO_JAAS if text is None else parse_jaas(text)
    if jaas.module not in ("", _MODULES[mechanism]):
        raise SecurityProblem(
            f"sasl.jaas.config: {mechanism} has the login module {_MODULES[mechanism]}, not {jaas.module}"
        )
    if mechanism == "OAUTHBEARER":
        return Bearer(_token_source(given, jaas, tls) if token is None else CalledToken(token))
    name = given.get("sasl.username", jaas.options.get("username", ""))
    if name != jaas.options.get("username", name):
        raise SecurityProblem("sasl.username and sasl.jaas.config name different users")
    password = given.get("sasl.password", jaas.options.get("password"))
    if not name or password is None:
        raise SecurityProblem(
            "the name or the password is missing: set sasl.username and sasl.password, or sasl.jaas.config"
        )
    return Password(mechanism, name, password)


@dataclass(frozen=True, slots=True)
class CalledToken:
    """The tokens that a function of the caller returns."""

    function: Callable[[], str]

    def token(self, timeout_s: float) -> str:
        """Return what the function returns."""
        return self.function()


def _token_source(given: Mapping[str, str], jaas: Jaas, tls: Tls | None) -> TokenSource:
    url = given.get("sasl.oauthbearer.token.endpoint.url")
    if url is None:
        return UnsecuredToken(_unsecured_principal(given, jaas))
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FileToken(Path(url2pathname(parts.path)))
    name = _first(given, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
    secret = _first(
        given, "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"
    )
    name, secret = name or jaas.options.get("clientId"), secret or jaas.options.get("clientSecret")
    if not name or secret is None:
        raise SecurityProblem(
            "the client id or secret is missing: set sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret"
        )
    scope = given.get("sasl.oauthbearer.scope", jaas.options.get("scope"))
    trusted = tls.trusted if tls is not None else None
    return ClientCredentials(url, name, secret, scope, trusted.path if trusted is not None else None)


def _unsecured_principal(given: Mapping[str, str], jaas: Jaas) -> str:
    """Return the principal of unsecured tokens, if these are wanted: by the name of either client."""
    principal = jaas.options.get("unsecuredLoginStringClaim_sub")
    if principal is None and _truth(given, "enable.sasl.oauthbearer.unsecure.jwt", default=False):
        words = dict(word.partition("=")[::2] for word in given.get("sasl.oauthbearer.config", "").split())
        principal = words.get("principal")
    if not principal:
        raise SecurityProblem(
            "sasl.oauthbearer.token.endpoint.url is missing: the https: URL of an OAuth server, or the file: "
            "URL of a token"
        )
    return principal


def _first(given: Mapping[str, str], *names: str) -> str | None:
    return next((given[name] for name in names if given.get(name)), None)
