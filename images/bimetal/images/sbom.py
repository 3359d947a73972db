"""A CycloneDX SBOM of a built image: its Debian and its Python packages, as the image itself lists them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bimetal.images.engine import Engine
from bimetal.images.errors import ImageError

_DPKG = ["--show", "--showformat", "${Package}\t${Version}\t${Architecture}\n"]
_PYTHON = (
    "import importlib.metadata as m;"
    "print(*sorted({d.metadata['Name'] + '\\t' + d.version for d in m.distributions()}), sep='\\n')"
)
_OS_RELEASE = re.compile(r'^(ID|VERSION_CODENAME)="?([^"\n]*)"?$', re.MULTILINE)


@dataclass(frozen=True, order=True)
class Package:
    """One installed package; `kind` is the package URL's type: deb or pypi."""

    kind: str
    name: str
    version: str
    architecture: str | None = None


@dataclass(frozen=True)
class Contents:
    """What an image has installed, and on which distribution."""

    distribution: str
    codename: str
    packages: tuple[Package, ...]


def contents(engine: Engine, image: str) -> Contents:
    """Ask the image. Raises ImageError when it cannot answer."""
    release = dict(_OS_RELEASE.findall(_said(engine, image, "/bin/cat", ["/etc/os-release"])))
    debian = _said(engine, image, "/usr/bin/dpkg-query", _DPKG)
    python = _said(engine, image, "/usr/bin/env", ["python3", "-c", _PYTHON])
    packages = [Package("deb", *line.split("\t")) for line in debian.splitlines() if line]
    packages += [Package("pypi", *line.split("\t")) for line in python.splitlines() if line]
    return Contents(
        release.get("ID", "debian"), release.get("VERSION_CODENAME", ""), tuple(sorted(packages, key=_order))
    )


def _order(package: Package) -> tuple[str, str, str, str]:
    return (package.kind, package.name, package.version, package.architecture or "")


def _said(engine: Engine, image: str, program: str, arguments: list[str]) -> str:
    status, output = engine.run(image, arguments, entrypoint=program, network_mode="none")
    if status != 0:
        raise ImageError(f"{image}: {program} ended with {status}: {output.strip()}.", "look into the image")
    return output


def document(name: str, version: str, found: Contents) -> str:
    """The SBOM as CycloneDX 1.6 JSON, checked against the standard's schema.

    The same packages give the same text but for the serial number and the time, which the standard wants.
    """
    try:
        from cyclonedx.model.bom import Bom  # noqa: PLC0415 - only this command needs the library
        from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415 - comes with the one above
        from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415 - comes with the one above
        from cyclonedx.schema import SchemaVersion  # noqa: PLC0415 - comes with the one above
        from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415 - comes with the one above
    except ImportError as error:
        raise ImageError(
            "Python has no module 'cyclonedx'.", "pip install 'cyclonedx-python-lib[json-validation]' (extra 'images')"
        ) from error
    bom = Bom()
    image = bom.metadata.component = Component(type=ComponentType.CONTAINER, name=name, version=version, bom_ref=name)
    for package, url in zip(found.packages, _urls(found), strict=True):
        kind = ComponentType.LIBRARY
        bom.components.add(Component(type=kind, name=package.name, version=package.version, purl=url, bom_ref=str(url)))
    bom.register_dependency(image, bom.components)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    invalid = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if invalid is not None:
        raise ImageError(f"The SBOM of {name} is not valid CycloneDX: {invalid}.", "report this")
    return text


def _urls(found: Contents) -> Iterable[object]:
    from packageurl import PackageURL  # noqa: PLC0415 - comes with the library

    for package in found.packages:
        if package.kind == "deb":
            qualifiers = {"arch": package.architecture or "", "distro": found.codename}
            yield PackageURL("deb", found.distribution, package.name, package.version, qualifiers)
        else:
            yield PackageURL("pypi", None, package.name.lower().replace("_", "-"), package.version)


def count(text: str) -> int:
    """How many components (packages) an SBOM in CycloneDX JSON lists."""
    return len(json.loads(text)["components"])
