"""Which commit the inputs of the images come from."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from images.errors import ImageError

# What can change an image: the last commit that touched one of these is the images' revision.
INPUTS = ("images", "model_repo", "router", "requirements.lock")


@dataclass(frozen=True)
class Revision:
    """A commit's hash, with -dirty when the checkout differs from it, and the commit's time (ISO 8601)."""

    name: str
    created: str


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
