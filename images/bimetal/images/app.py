"""The project's own code as the router's image has it: what the wheel would install, without the image builder."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

from bimetal.images.context import File
from bimetal.images.errors import ImageError
from bimetal.resources import CHECKOUT

PARTS = ("router/bimetal", "model_repo/bimetal", "model_repo/models", "model_repo/runner", "model_repo/templates")


def app_files(site: str, checkout: Path | None = CHECKOUT) -> dict[str, File]:
    """The router's code below the folder `site` of an image.

    Of a checkout it is what git has or would have, nothing else. Raises ImageError when git does not answer.
    """
    found = _of_the_wheel() if checkout is None else _of_a_checkout(checkout)
    return {f"rootfs{site}/{name}": File(path) for name, path in found.items()}


def _of_a_checkout(checkout: Path) -> dict[str, Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *PARTS]
    listed = subprocess.run(command, cwd=checkout, capture_output=True, check=False)
    if listed.returncode != 0:
        raise ImageError(f"{checkout} is no git checkout: {listed.stderr.decode().strip()}.", "build from a checkout")
    names = [name for name in listed.stdout.decode().split("\0") if name and (checkout / name).is_file()]
    return {_installed(name): checkout / name for name in names}


def _installed(name: str) -> str:
    part, root, rest = name.partition("/bimetal/")
    return f"bimetal/{rest}" if root and part in ("router", "model_repo") else f"bimetal/shipped/{name}"


def _of_the_wheel() -> dict[str, Path]:
    installed = importlib.metadata.files("bimetal") or []
    return {
        str(file): Path(str(file.locate()))
        for file in installed
        if file.parts[0] == "bimetal" and file.parts[1] != "images" and file.suffix != ".pyc"
    }
