"""Where a build starts: an image of the engine by override, by bootstrap, or by digest from a registry."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bimetal.images.engine import Engine
from bimetal.images.errors import ImageError, RegistryError
from bimetal.images.matrix import Base, Row
from bimetal.images.report import Report
from bimetal.images.tool import run

# A fixed time makes the root's files, and with them the tar, the same for the same packages.
EPOCH = "1700000000"
BOOTSTRAP_REPOSITORY = "local/debian"
STAMP_LABEL = "org.bimetal.bootstrap"
# As in the distribution's own slim images: nobody reads manuals in a container, licences stay; and a layer is
# either whole or not there, so that nothing is gained by syncing every file of it to the disk.
DPKG = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "path-include=/usr/share/doc/*/copyright",
)


@dataclass(frozen=True)
class Resolved:
    """A base that the engine has: what FROM says, its id, what is in it, and how it came here, in words.

    `content` is the same on every engine; the id of an imported root is not, because it has a time in it.
    """

    reference: str
    image_id: str
    content: str
    origin: str


def _resolved(reference: str, inspected: Mapping[str, Any], origin: str) -> Resolved:
    content = hashlib.sha256("\n".join(inspected["RootFS"]["Layers"]).encode()).hexdigest()
    return Resolved(reference, str(inspected["Id"]), content, origin)


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


def check_available(
    bases: Mapping[str, Base], rows: Sequence[Row], *, offline: bool, environment: Mapping[str, str] = os.environ
) -> None:
    """Whether every base of `rows` can be had, before the first is fetched. Raises ImageError with all that cannot."""
    ours = [name for name in _names(rows) if not environment.get(override_variable(name))]
    if offline:
        if ours and shutil.which("mmdebstrap") is None:
            raise ImageError("mmdebstrap is not a command, and OFFLINE_BASE wants it.", "apt-get install mmdebstrap")
        return
    if unpinned := [name for name in ours if bases[name].digest is None]:
        images = [str(row) for row in rows if {row.variant.base, row.variant.python_suite} & set(unpinned)]
        raise ImageError(
            f"The bases of {', '.join(images)} have no digest in matrix.yml, and a tag can change under a build.",
            f"bimetal-images pin --write {' '.join(unpinned)}; without a registry: make images OFFLINE_BASE=1;"
            f" with an image that the engine has: {override_variable(unpinned[0])}=...",
        )


def _names(rows: Sequence[Row]) -> list[str]:
    """The bases of rows, each once: where an image starts, and where its Python environment was made."""
    return list(dict.fromkeys(name for row in rows for name in (row.variant.base, row.variant.python_suite) if name))


def resolve(
    name: str,
    base: Base,
    engine: Engine,
    cache: Path,
    report: Report,
    *,
    offline: bool,
    environment: Mapping[str, str] = os.environ,
) -> Resolved:
    """Have the base in the engine. Raises ImageError when it cannot be had or is not what the matrix pins."""
    if override := environment.get(override_variable(name)):
        return _present(override, override_variable(name), engine)
    if offline:
        return _bootstrapped(str(base.suite), engine, cache, report)
    return _pinned(name, base, engine, report)


def _present(reference: str, variable: str, engine: Engine) -> Resolved:
    found = engine.inspect(reference)
    if found is None:
        raise ImageError(
            f"{variable}={reference}: the engine has no such image.", f"docker pull {reference}, or unset {variable}"
        )
    return _resolved(reference, found, variable)


def _pinned(name: str, base: Base, engine: Engine, report: Report) -> Resolved:
    if base.digest is None:
        raise ImageError(f"Base '{name}' has no digest in matrix.yml.", f"bimetal-images pin --write {name}")
    pulled = reference(base)
    found = engine.inspect(pulled)
    if found is None:
        engine.pull(pulled, report)
        found = engine.inspect(pulled)
    if found is None or not any(digest.endswith(base.digest) for digest in found["RepoDigests"]):
        raise RegistryError(
            f"Base '{name}': expected {pulled}, and the engine has something else under that name.",
            "remove it (docker image rm) and find out where it came from",
        )
    return _resolved(pulled, found, "digest")


def reference(base: Base) -> str:
    """What a registry is asked for: by digest, or by tag where the matrix has none."""
    return f"{repository(base.image)}@{base.digest}" if base.digest else base.image


def repository(image: str) -> str:
    """An image's name without its tag; a colon before the last slash is a registry's port."""
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def _bootstrapped(suite: str, engine: Engine, cache: Path, report: Report) -> Resolved:
    """Debian's minimal root from the mirror; kept as a tar, so that another engine gets the same."""
    reference = f"{BOOTSTRAP_REPOSITORY}:{suite}"
    found = engine.inspect(reference)
    # One that was made in another way is another base.
    if found is None or (found["Config"].get("Labels") or {}).get(STAMP_LABEL) != _stamp(suite):
        tar = _tar(cache, suite)
        if not tar.exists():
            _bootstrap(suite, tar, report)
        found = engine.import_root(tar, BOOTSTRAP_REPOSITORY, suite, {STAMP_LABEL: _stamp(suite)})
    return _resolved(reference, found, f"mmdebstrap {suite}")


def forget(bases: Mapping[str, Base], rows: Sequence[Row], engine: Engine, cache: Path) -> None:
    """Let the next build bootstrap the bases of `rows` again, with the packages that the archive has then."""
    for name in _names(rows):
        suite = str(bases[name].suite)
        _tar(cache, suite).unlink(missing_ok=True)
        engine.untag(f"{BOOTSTRAP_REPOSITORY}:{suite}")


def _command(suite: str) -> list[str]:
    command = ["mmdebstrap", "--variant=minbase", "--include=ca-certificates", '--aptopt=Acquire::Languages "none"']
    return [*command, *(f"--dpkgopt={option}" for option in DPKG), suite]


def _stamp(suite: str) -> str:
    """Changes whenever the recipe of a root does."""
    return hashlib.sha256(f"{EPOCH}\n{_command(suite)}".encode()).hexdigest()[:12]


def _tar(cache: Path, suite: str) -> Path:
    return cache / f"{suite}-{_stamp(suite)}.tar"


def _bootstrap(suite: str, tar: Path, report: Report) -> None:
    tar.parent.mkdir(parents=True, exist_ok=True)
    # mmdebstrap chooses the format by the suffix; half a root must not pass for one.
    half = tar.with_name(f"half-{tar.name}")
    try:
        status, said = run([*_command(suite), str(half)], report, os.environ | {"SOURCE_DATE_EPOCH": EPOCH})
        if status != 0:
            last = (said.splitlines() or ["nothing"])[-1].rstrip(".")
            raise ImageError(f"mmdebstrap {suite} failed: {last}.", "check the mirror and the free space")
        half.rename(tar)
    finally:
        half.unlink(missing_ok=True)


def with_digest(text: str, name: str, digest: str) -> str:
    """A matrix file's text with a base's digest put in or replaced; its comments stay.

    Raises ImageError when the base is not one line in braces, as all are.
    """
    line = re.compile(rf'^(  {re.escape(name)}: {{image: "[^"]*")(, digest: "[^"]*")?', re.MULTILINE)
    changed, count = line.subn(rf'\g<1>, digest: "{digest}"', text)
    if count != 1:
        raise ImageError(f"The matrix has no line for base '{name}' in the usual form.", "put the digest in by hand")
    return changed
