"""TLS: the context of the certificates and keys in the properties, and its errors in words."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from headgate.client.security.problem import SecurityProblem

_PEM = b"-----BEGIN "
_PRIVATE_KEY = b"PRIVATE KEY-----"
_BLOCK = re.compile(r"(-----BEGIN [^-]+-----)\s+([A-Za-z0-9+/=\s]+?)\s*(-----END [^-]+-----)")
_LINE_CHARACTERS = 64
_LONGEST_PASSWORD = 1023
"""Bytes of the password of a key that OpenSSL takes."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE")
"""Alerts of a node that got no certificate of the client: of TLS 1.3, and of Java and others before."""
_OTHER_NAME = (62, 64)
_ENDS = ("UNEXPECTED_EOF_WHILE_READING", "SSLV3_ALERT_CLOSE_NOTIFY", "PROTOCOL_IS_SHUTDOWN")


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: a file, or the text itself, with the property that has it."""

    name: str
    path: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings of TLS."""

    trusted: Pem | None = None
    """The certificates of the authorities; None: those of the system."""
    chain: Pem | None = None
    """The client's own certificate, with those of its issuers."""
    key: Pem | None = None
    """The key of the client's certificate; None: in the same file."""
    key_password: str | None = field(default=None, repr=False)
    checks_host: bool = True
    checks_certificate: bool = True
    versions: tuple[str, ...] = ()

    @property
    def trust_text(self) -> str:
        """Where the trusted certificates are, for messages."""
        if self.trusted is None:
            return "the certificates of the system (set ssl.ca.location or ssl.truststore.location)"
        return f"{self.trusted.name} {self.trusted.path or ''}".strip()


@lru_cache(maxsize=8)
def context_of(tls: Tls) -> ssl.SSLContext:
    """Return the context for these settings. Raises `SecurityProblem` for a file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.versions:
        context.minimum_version = min(_VERSIONS[one] for one in tls.versions)
        context.maximum_version = max(_VERSIONS[one] for one in tls.versions)
    context.check_hostname = tls.checks_host and tls.checks_certificate
    if not tls.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    if tls.trusted is None:
        context.load_default_certs()
    else:
        _trust(context, tls.trusted)
    if tls.chain is not None:
        _identify(context, tls.chain, tls.key, tls.key_password)
    return context


def _trust(context: ssl.SSLContext, trusted: Pem) -> None:
    with _file_of(trusted) as path:
        try:
            context.load_verify_locations(cafile=path)
        except (ssl.SSLError, OSError) as problem:
            raise SecurityProblem(
                f"{_named(trusted)}: no certificate can be read: {_reason(problem)}"
            ) from problem


def _identify(context: ssl.SSLContext, chain: Pem, key: Pem | None, password: str | None) -> None:
    if password is not None and len(password.encode()) > _LONGEST_PASSWORD:
        raise SecurityProblem(f"ssl.key.password: at most {_LONGEST_PASSWORD} bytes are possible")
    with _file_of(chain) as chain_path, _file_of(key or chain) as key_path:
        if key is None and _PRIVATE_KEY not in Path(key_path).read_bytes():
            raise SecurityProblem(
                f"{_named(chain)}: the key of this certificate is missing (ssl.key.location)"
            )
        try:
            context.load_cert_chain(chain_path, key_path, lambda: password or "")
        except OSError as problem:
            advice = "is the certificate the one of this key, and ssl.key.password right?"
            raise SecurityProblem(f"{_named(key or chain)}: {_reason(problem)}; {advice}") from problem


@contextmanager
def _file_of(pem: Pem) -> Iterator[str]:
    """Give the path of a file with this PEM. OpenSSL reads chains and keys from files only."""
    if pem.text is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only this user can read it
            file.write(_in_lines(pem.text))
            file.flush()
            yield file.name
        return
    assert pem.path is not None
    _check_pem(pem, Path(pem.path))
    yield pem.path


def _in_lines(text: str) -> str:
    """Return PEM in lines: in a property it can be one line, with blanks, which OpenSSL does not read."""

    def block(found: re.Match[str]) -> str:
        letters = "".join(found[2].split())
        lines = [letters[at : at + _LINE_CHARACTERS] for at in range(0, len(letters), _LINE_CHARACTERS)]
        return "\n".join(("", found[1], *lines, found[3], ""))

    return _BLOCK.sub(block, text)


def _check_pem(pem: Pem, path: Path) -> None:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise SecurityProblem(f"{_named(pem)}: {problem.strerror}") from problem
    if not data:
        raise SecurityProblem(f"{_named(pem)}: the file is empty")
    if _PEM not in data:
        raise SecurityProblem(f"{_named(pem)}: this is no PEM, {_conversion(pem, path)}")


def _conversion(pem: Pem, path: Path) -> str:
    """Return how to make PEM of a keystore."""
    if pem.name in ("ssl.truststore.location", "ssl.ca.location"):
        command = f"keytool -exportcert -rfc -alias ALIAS -keystore {path} > ca.pem"
    else:
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore key.p12 -deststoretype PKCS12; "
        command += "openssl pkcs12 -in key.p12 -out key.pem"
    return f"and JKS and PKCS12 are not read; convert it: {command}"


def _named(pem: Pem) -> str:
    return f"{pem.name} {pem.path}" if pem.path else pem.name


def _reason(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLError) and problem.reason:
        return problem.reason.lower().replace("_", " ")
    return problem.strerror or str(problem) or "the password is wrong or missing"


def tls_failure(problem: ssl.SSLError, tls: Tls, address: str) -> str:
    """Return what went wrong in a handshake or after it, with advice."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate of {address} is not accepted: {_refusal(problem, tls)}"
    reason = problem.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") or is_end(problem):
        return not_tls(address)
    if tls.chain is None and any(word in reason for word in _WANTS_CERTIFICATE):
        return (
            f"{address} demands a certificate of the client; set ssl.certificate.location and "
            "ssl.key.location, or ssl.keystore.location"
        )
    if "ALERT" in reason and tls.chain is not None:
        return f"{address} refuses the certificate in {_named(tls.chain)}: {_reason(problem)}"
    return f"TLS with {address} failed: {_reason(problem)}"


def is_end(problem: OSError) -> bool:
    """Tell whether the other side closed the connection, which is no error of TLS."""
    if isinstance(problem, ssl.SSLError):
        return isinstance(problem, ssl.SSLEOFError | ssl.SSLZeroReturnError) or problem.reason in _ENDS
    return True


def not_tls(address: str) -> str:
    """Return the message for a port that does not answer in TLS."""
    return (
        f"{address} does not answer in TLS; if this port is not encrypted, set security.protocol to "
        "PLAINTEXT or SASL_PLAINTEXT"
    )


def _refusal(problem: ssl.SSLCertVerificationError, tls: Tls) -> str:
    code, text = problem.verify_code, problem.verify_message
    if code == _EXPIRED:
        return "it has expired; renew it on the broker"
    if code == _NOT_YET_VALID:
        return "it is not valid yet; compare the clocks of both machines"
    if code in _UNKNOWN_ISSUER:
        return f"{text}; its issuer is not in {tls.trust_text}"
    if code in _OTHER_NAME:
        return (
            f"{text.rstrip('.')}; use a host name of the certificate, or set "
            "ssl.endpoint.identification.algorithm to nothing"
        )
    return text
