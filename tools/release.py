"""Build what is released, from a clean clone of the last commit, and check it: `python -m tools.release`.

    build/release/headgate-VERSION.tar.gz                       the source distribution
    build/release/headgate-VERSION-py3-none-any.whl             for all platforms, not compiled
    build/release/headgate-VERSION-cpXY-cpXY-PLATFORM.whl       compiled for this Python and this machine
    build/release/SHA256SUMS

The wheels are built from the source distribution, so that it is known to be complete. Each is installed into
an environment of its own, where `check_installation.py` starts a broker. PyPI accepts compiled wheels of
manylinux only, which `cibuildwheel` builds (`[tool.cibuildwheel]` in pyproject.toml); the one here is for
machines like this one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
OUT = PROJECT / "build" / "release"
CHECK = Path(__file__).with_name("check_installation.py")
EXPECTED_IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tools/build_hook.py")
NEVER_IN_WHEEL = ("tests/", "bench/", "tools/", "demo/")


class ReleaseRefused(SystemExit):
    """What is to be released is not as it should be."""


def main() -> None:
    """Build and check everything; leave the files in `OUT`."""
    version = project_version()
    with tempfile.TemporaryDirectory(prefix="headgate-release-") as directory:
        home = Path(directory)
        clone = clean_clone(home / "clone")
        new = home / "new"
        sdist = built(clone, new, "sdist", compile_modules=False)
        check_sdist(sdist, version)
        source = unpacked(sdist, home / "source")
        pure = built(source, new, "wheel", compile_modules=False)
        compiled = built(source, new, "wheel", compile_modules=True)
        for wheel, kind in ((pure, "pure"), (compiled, "compiled")):
            check_wheel(wheel, kind, version)
            check_installed(wheel, kind, home / kind)
        publish([sdist, pure, compiled])


def project_version() -> str:
    """Return the version, which pyproject.toml, the package and the changelog must agree on."""
    version: str = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    said = (PROJECT / "src/headgate/__init__.py").read_text()
    if f'__version__ = "{version}"' not in said:
        raise ReleaseRefused(f"pyproject.toml has version {version}, src/headgate/__init__.py another one")
    return version


def clean_clone(target: Path) -> Path:
    """Clone the last commit: files that were never committed must not be in a release."""
    if run("git", "-C", str(PROJECT), "status", "--porcelain"):
        print("note: there are uncommitted changes; the last commit is released without them")
    run("git", "clone", "--quiet", "--local", "--no-hardlinks", str(PROJECT), str(target))
    return target


def built(source: Path, target: Path, kind: str, *, compile_modules: bool) -> Path:
    """Build a distribution into `target` and return its path."""
    target.mkdir(exist_ok=True)
    before = set(target.iterdir())
    print(f"building {'a compiled ' if compile_modules else 'a pure ' if kind == 'wheel' else 'an '}{kind}")
    environment = os.environ | {"HEADGATE_COMPILE": "yes" if compile_modules else "no"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    run(*command, cwd=source, environment=environment)
    (new,) = set(target.iterdir()) - before
    return new


def unpacked(sdist: Path, target: Path) -> Path:
    """Unpack a source distribution and return its only directory."""
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (source,) = target.iterdir()
    return source


def check_sdist(sdist: Path, version: str) -> None:
    """Check that the source distribution has what a build needs."""
    with tarfile.open(sdist) as archive:
        names = set(archive.getnames())
    missing = [name for name in EXPECTED_IN_SDIST if f"headgate-{version}/{name}" not in names]
    if missing:
        raise ReleaseRefused(f"{sdist.name} lacks {', '.join(missing)}")


def check_wheel(wheel: Path, kind: str, version: str) -> None:
    """Check the name and the contents of a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    is_pure = wheel.name == f"headgate-{version}-py3-none-any.whl"
    has_modules = any(name.endswith(".so") for name in names)
    if is_pure != (kind == "pure") or has_modules == is_pure:
        raise ReleaseRefused(f"{wheel.name} is not a {kind} wheel")
    if "headgate/py.typed" not in names:
        raise ReleaseRefused(f"{wheel.name} lacks headgate/py.typed")
    if strange := [name for name in names if name.startswith(NEVER_IN_WHEEL)]:
        raise ReleaseRefused(f"{wheel.name} has {strange[0]}")


def check_installed(wheel: Path, kind: str, environment: Path) -> None:
    """Install a wheel with what it needs, and use it."""
    run(sys.executable, "-m", "venv", str(environment))
    python = str(environment / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    print(run(python, "-I", str(CHECK), kind, cwd=environment).strip())


def publish(files: list[Path]) -> None:
    """Move the files to `OUT`, with their checksums."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    sums = ""
    for file in files:
        sums += f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        shutil.move(file, OUT / file.name)
        print(f"{OUT / file.name}: {(OUT / file.name).stat().st_size:,} bytes")
    (OUT / "SHA256SUMS").write_text(sums)


def run(*command: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output; stop with what it said if it fails."""
    clean = {name: value for name, value in (environment or os.environ).items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
