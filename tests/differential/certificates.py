"""Certificates for a test, made by openssl: an authority, and files signed by it in PEM."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "rsa:2048", "-nodes")


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority in a directory of its own: `certificate` is what clients trust."""

    directory: Path

    @property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        return self.directory / "ca.pem"

    def issue(self, name: str, alternative: str, days: int = 2) -> Path:
        """Return a file with a key and its certificate for `IP:...` or `DNS:...`, which is valid for days."""
        key, request, signed = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request
        )
        authority = ("-CA", self.certificate, "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        validity = ("-days", str(days))
        openssl("x509", "-req", "-in", request, "-out", signed, "-extfile", extensions, *authority, *validity)
        both = self.directory / f"{name}.pem"
        both.write_text(key.read_text() + signed.read_text())
        return both


def new_authority(directory: Path) -> Authority:
    """Make an authority in this directory."""
    directory.mkdir()
    key, certificate = directory / "ca.key", directory / "ca.pem"
    subject = ("-subj", "/CN=authority of a test")
    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        *subject,
        "-keyout",
        key,
        "-out",
        certificate,
    )
    return Authority(directory)


def openssl(*words: str | Path) -> bytes:
    """Run openssl; return what it prints."""
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
