"""Which commit the inputs of the images come from."""

from __future__ import annotations

import importlib.metadata
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bimetal.images.errors import ImageError
from bimetal.resources import CHECKOUT

# What can change an image: the last commit that touched one of these is the images' revision.
INPUTS = ("images", "model_repo", "router", "requirements.lock")


@dataclass(frozen=True)
class Revision:
    """A commit's hash, with -dirty when the checkout differs from it, and the commit's time (ISO 8601).

    Of an installed wheel it is the version, and the time of its installation.
    """

    name: str
    created: str


def of_project() -> Revision:
    """The revision of this code: of its checkout, or of the wheel that was installed."""
    return _of_the_wheel() if CHECKOUT is None else of(CHECKOUT)


def _of_the_wheel() -> Revision:
    wheel = importlib.metadata.distribution("bimetal")
    metadata = Path(str(wheel.locate_file(f"bimetal-{wheel.version}.dist-info/METADATA")))
    installed = datetime.fromtimestamp(metadata.stat().st_mtime, tz=UTC)
    return Revision(f"v{wheel.version}", installed.isoformat(timespec="seconds"))


def of(project: Path) -> Revision:
    """The revision of the checkout's inputs. Raises ImageError outside of git."""
    found = _git(project, "log", "-1", "--format=%H %cI", "--", *INPUTS).split()
    if len(found) != 2:
        raise ImageError(f"{project} has no commit with {', '.join(INPUTS)}.", "build from a checkout")
    dirty = "-dirty" if _git(project, "status", "--porcelain", "--", *INPUTS) else ""
    return Revision(found[0] + dirty, found[1])


def _git(project: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"{project} is no git checkout: {done.stderr.strip()}.", "build from a checkout")
    return done.stdout.strip()
