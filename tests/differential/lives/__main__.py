"""Play random lives to both brokers: `python -m tests.differential.lives --of wide --seeds 1..100`.

What differs is printed with the seed. Kafka is started, or the one that `python -m tests.differential` named.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.progress import track
from tests.differential.conftest import both_brokers
from tests.differential.lives import LIVES
from tests.differential.lives.playing import differences_of
from tests.simulation.__main__ import seeds_of


def main(
    of: Annotated[str, typer.Option(help=f"What the lives are about: {', '.join(LIVES)} or all.")] = "all",
    seeds: Annotated[str, typer.Option(help="Which seeds to play: A..B, both included, or one.")] = "1..20",
) -> None:
    """Play lives, print what differs, and end with 1 if anything does."""
    if of not in (*LIVES, "all"):
        raise typer.BadParameter(f"there are lives of {', '.join(LIVES)}, and all", param_hint="--of")
    kinds = list(LIVES) if of == "all" else [of]
    lives = [(kind, seed) for kind in kinds for seed in seeds_of(seeds)]
    differing = 0
    with TemporaryDirectory() as directory, both_brokers(Path(directory) / "data") as run:
        for kind, seed in track(lives, "playing lives"):
            if found := differences_of(run, kind, seed):
                differing += 1
                print(f"{kind} {seed}:", *found, sep="\n  ")
    print(f"{len(lives)} lives, {differing} with differences")
    sys.exit(differing > 0)


if __name__ == "__main__":
    typer.run(main)
