"""What an image has installed, asked of the image."""

import json
import re
from typing import Any

import pytest

from bimetal.images import sbom
from bimetal.images.errors import ImageError
from tests.images.fakes import FakeEngine

RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12"\nVERSION_CODENAME=bookworm\nID=debian\nID_LIKE=x\n'


class TalkingEngine(FakeEngine):
    """Answers by the program that is run."""

    def __init__(self, status: int = 0) -> None:
        super().__init__()
        self._status = status

    def run(self, image: str, command: list[str], **options: Any) -> tuple[int, str]:  # noqa: ARG002 - Engine has them
        said = {
            "/bin/cat": RELEASE,
            "/usr/bin/dpkg-query": "zlib1g\t1:1.2.13\tamd64\nadduser\t3.134\tall\n",
            "/usr/bin/env": "numpy\t1.26.4\ntyping_extensions\t4.16.0\n",
        }
        return self._status, said[options["entrypoint"]]


def test_debian_and_python_packages_are_listed_in_order() -> None:
    found = sbom.contents(TalkingEngine(), "x")
    assert (found.distribution, found.codename) == ("debian", "bookworm")
    assert [(package.kind, package.name, package.version) for package in found.packages] == [
        ("deb", "adduser", "3.134"),
        ("deb", "zlib1g", "1:1.2.13"),
        ("pypi", "numpy", "1.26.4"),
        ("pypi", "typing_extensions", "4.16.0"),
    ]


def test_an_image_that_does_not_answer_has_no_sbom() -> None:
    with pytest.raises(ImageError, match="x: /bin/cat ended with 1"):
        sbom.contents(TalkingEngine(status=1), "x")


def test_the_document_is_valid_and_the_same_but_for_serial_number_and_time() -> None:
    pytest.importorskip("cyclonedx", reason="the extra 'images' is not installed")
    found = sbom.contents(TalkingEngine(), "x")
    first, second = (sbom.document("bimetal/cpu", "bookworm-1", found) for _ in range(2))

    def lasting(text: str) -> str:
        return re.sub(r'"(serialNumber|timestamp)": "[^"]*"', "", text)

    assert lasting(first) == lasting(second)
    urls = [component["purl"] for component in json.loads(first)["components"]]
    assert sorted(urls) == [
        "pkg:deb/debian/adduser@3.134?arch=all&distro=bookworm",
        "pkg:deb/debian/zlib1g@1:1.2.13?arch=amd64&distro=bookworm",
        "pkg:pypi/numpy@1.26.4",
        "pkg:pypi/typing-extensions@4.16.0",
    ]
    assert sbom.count(first) == 4
