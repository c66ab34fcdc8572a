"""`python tests/compat/check_tools.py`: is everything here that the compatibility tests drive?

Prints one line for each program that is missing, with how to install it, and ends with status 1 if any is.
Apache Kafka's own tools are welcome but not needed: without them their tests are skipped, and say so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

NEEDED = {
    "node": "Node 18 or later runs kafkajs (Debian: apt-get install nodejs; or https://nodejs.org)",
    "npm": "npm installs kafkajs (Debian: apt-get install npm)",
    "kcat": "kcat is one of the clients (Debian: apt-get install kcat; macOS: brew install kcat)",
}
OLDEST_NODE = 18


def missing() -> list[str]:
    """What has to be installed, one line each."""
    lines = [f"{program} is missing: {why}" for program, why in NEEDED.items() if not shutil.which(program)]
    if shutil.which("node"):
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=20, check=False)
        version = said.stdout.strip()
        if not version.startswith("v") or int(version[1:].partition(".")[0]) < OLDEST_NODE:
            lines.append(f"node is {version or 'broken'}: {NEEDED['node']}")
    return lines


if __name__ == "__main__":
    found = missing()
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)
