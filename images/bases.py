"""Where a build starts: an image of the engine by override, by bootstrap, or by digest from a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from images.engine import Engine
from images.errors import ImageError, RegistryError
from images.matrix import Base

# A fixed time makes the root's files, and with them the tar, the same for the same packages.
EPOCH = "1700000000"
BOOTSTRAP_REPOSITORY = "local/debian"
# As in the distribution's own slim images: nobody reads manuals in a container; licences stay.
SLIM = (
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "path-include=/usr/share/doc/*/copyright",
)


@dataclass(frozen=True)
class Resolved:
    """A base that the engine has: what FROM says, the image's id, and how it came here, in words."""

    reference: str
    image_id: str
    origin: str


def override_variable(name: str) -> str:
    """The environment's name for replacing a base: BASE_NGC_22_12 for ngc-22.12."""
    return f"BASE_{name.upper().replace('-', '_').replace('.', '_')}"


def origin(name: str, base: Base, environment: Mapping[str, str], *, offline: bool) -> str:
    """How the base would come, without asking anyone."""
    if override := environment.get(override_variable(name)):
        return f"{override} ({override_variable(name)})"
    if offline:
        return f"mmdebstrap {base.suite}"
    return f"{base.image}@{base.digest[:19]}" if base.digest else f"{base.image} (not pinned)"


def resolve(
    name: str, base: Base, engine: Engine, cache: Path, *, offline: bool, environment: Mapping[str, str] = os.environ
) -> Resolved:
    """Have the base in the engine. Raises ImageError when it cannot be had or is not what the matrix pins."""
    if override := environment.get(override_variable(name)):
        return _present(override, override_variable(name), engine)
    if offline:
        return _bootstrapped(str(base.suite), engine, cache)
    return _pinned(name, base, engine)


def _present(reference: str, variable: str, engine: Engine) -> Resolved:
    image_id = engine.image_id(reference)
    if image_id is None:
        raise ImageError(
            f"{variable}={reference}: the engine has no such image.", f"docker pull {reference}, or unset {variable}"
        )
    return Resolved(reference, image_id, variable)


def _pinned(name: str, base: Base, engine: Engine) -> Resolved:
    if base.digest is None:
        raise ImageError(
            f"Base '{name}' ({base.image}) has no digest in matrix.yml, and a tag can change under a build.",
            f"bimetal-images pin {name}, or name an image that the engine has: {override_variable(name)}=...",
        )
    reference = f"{repository(base.image)}@{base.digest}"
    found = engine.inspect(reference)
    if found is None:
        engine.pull(reference)
        found = engine.inspect(reference)
    if found is None or not any(digest.endswith(base.digest) for digest in found["RepoDigests"]):
        raise RegistryError(
            f"Base '{name}': expected {reference}, and the engine has something else under that name.",
            "remove it (docker image rm) and find out where it came from",
        )
    return Resolved(reference, str(found["Id"]), "digest")


def repository(image: str) -> str:
    """An image's name without its tag; a colon before the last slash is a registry's port."""
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def _bootstrapped(suite: str, engine: Engine, cache: Path) -> Resolved:
    """Debian's minimal root from the mirror; kept as a tar, so that another engine gets the same."""
    reference = f"{BOOTSTRAP_REPOSITORY}:{suite}"
    image_id = engine.image_id(reference)
    if image_id is None:
        tar = cache / f"{suite}.tar"
        if not tar.exists():
            _bootstrap(suite, tar)
        image_id = engine.import_root(tar, BOOTSTRAP_REPOSITORY, suite)
    return Resolved(reference, image_id, f"mmdebstrap {suite}")


def _bootstrap(suite: str, tar: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is not a command.", "apt-get install mmdebstrap")
    tar.parent.mkdir(parents=True, exist_ok=True)
    # mmdebstrap chooses the format by the suffix; half a root must not pass for one.
    half = tar.with_name(f"half-{tar.name}")
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates"]
    command += [*(f"--dpkgopt={option}" for option in SLIM), suite, str(half)]
    made = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    )
    if made.returncode != 0:
        half.unlink(missing_ok=True)
        said = (made.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ImageError(f"mmdebstrap {suite} failed: {said}.", "check the mirror and the free space")
    half.rename(tar)
