"""Dockerfiles and contexts of a row, rendered from the templates: pure, the same inputs give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bimetal.images import lockfile
from bimetal.images.app import app_files
from bimetal.images.context import Context, File, tree
from bimetal.images.matrix import Row
from bimetal.resources import resource

LOCK = resource("requirements.lock")
UID = 10001
SITE = "/opt/bimetal/venv/lib/python{python}/site-packages"
BASE_TRITON = "/opt/tritonserver"

_environment = Environment(
    loader=FileSystemLoader(resource("images/templates")),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Dockerfiles are no HTML
)


def requirements(row: Row, lock: Path = LOCK) -> str:
    """What pip installs into the row's environment: a part of the lock and the row's own file, all with hashes."""
    text = lockfile.subset(lockfile.read(lock), row.variant.roots)
    if row.variant.requirements:
        text += (resource("images/requirements") / row.variant.requirements).read_text()
    return text


def python_dockerfile(row: Row, base: str, python: str) -> str:
    """The recipe of the row's Python environment."""
    return _rendered(
        "python.j2",
        row="the image" if not row.variant.provided else row.name,
        base=base,
        python=python,
        kind=row.image.kind,
        provided=row.variant.provided,
        prune=row.variant.prune,
    )


def python_context(dockerfile: str, listed: str, wheels: Path) -> Context:
    """The context of a Python environment."""
    return {
        "Dockerfile": File(dockerfile.encode()),
        "requirements.txt": File(listed.encode()),
        **tree(wheels, "wheels"),
    }


def dockerfile(row: Row, base: str, python_image: str | None, python: str) -> str:
    """The recipe of the row's image."""
    wheel = row.variant.server == "wheel"
    site = SITE.format(python=python)
    return _rendered(
        "Dockerfile.j2",
        row=row,
        title=row.image.title,
        base=base,
        python_image=python_image,
        suite=row.base.suite,
        components=row.variant.components,
        python_suite=row.variant.python_suite,
        packages=row.variant.packages,
        uid=UID,
        path=f"/opt/bimetal/venv/bin:{_SYSTEM_PATH}" if wheel else f"$PATH:{_SYSTEM_PATH}",
        vendor=row.image.vendor,
        kind=row.image.kind,
        server=f"{site}/pytriton/tritonserver/bin/tritonserver" if wheel else f"{BASE_TRITON}/bin/tritonserver",
        backends="/opt/bimetal/backends" if wheel else f"{BASE_TRITON}/backends",
    )


_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def context(row: Row, recipe: str, python: str) -> Context:
    """All that the row's Dockerfile copies."""
    files = {"Dockerfile": File(recipe.encode()), **_loader_files(row, python)}
    for level in row.levels:
        files |= tree(resource("images/rootfs") / level, "rootfs")
    files["rootfs/opt/bimetal/image.json"] = File(facts(row, python).encode())
    if row.image.kind == "router":
        files |= app_files(SITE.format(python=python))
    return files


def facts(row: Row, python: str) -> str:
    """What the self-test holds the image against."""
    site = SITE.format(python=python)
    triton = row.image.kind == "triton"
    code_dirs = ["/opt/bimetal"] if row.variant.server == "wheel" else [f"{BASE_TRITON}/backends"] if triton else []
    return json.dumps(
        {
            "name": str(row),
            "kind": row.image.kind,
            "vendor": row.image.vendor,
            "server": row.variant.server,
            "provider": row.variant.provider,
            "versions": row.variant.versions,
            "libraries": row.variant.libraries,
            "library_dirs": [*row.variant.library_dirs, *(f"{site}/{name}" for name in row.variant.site_library_dirs)],
            "code_dirs": code_dirs,
        },
        indent=2,
    )


def _loader_files(row: Row, python: str) -> dict[str, File]:
    """ld.so.conf.d in the order of names: the vendor's folders first, what Triton's wheel brings last."""
    site = SITE.format(python=python)
    first = [*row.variant.library_dirs, *(f"{site}/{name}" for name in row.variant.site_library_dirs)]
    files = {"ldconfig/00-bimetal-vendor.conf": "".join(f"{folder}\n" for folder in first)}
    if row.image.kind == "triton" and row.variant.server == "wheel":
        files["ldconfig/zz-bimetal-triton.conf"] = f"{site}/nvidia_pytriton.libs\n"
    return {name: File(text.encode()) for name, text in files.items()}


def _rendered(template: str, **values: object) -> str:
    text = _environment.get_template(template).render(values)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def labels(row: Row, revision: str, created: str) -> Mapping[str, str]:
    """OCI annotations and one label per version; `created` is the commit's time, so that a rebuild says the same."""
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": f"bimetal {row}",
        f"{prefix}.description": row.image.title,
        f"{prefix}.version": row.variant_name,
        f"{prefix}.revision": revision,
        f"{prefix}.created": created,
        f"{prefix}.licenses": "Apache-2.0",
        "org.bimetal.vendor": row.image.vendor,
        **{f"org.bimetal.version.{name}": version for name, version in row.variant.versions.items()},
    }
