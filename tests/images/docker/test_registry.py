"""A real registry (Debian's build of CNCF's) on this machine: pin, pull by digest, push; and what goes wrong there."""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bimetal.images import check, cli, matrix
from bimetal.images.context import File, as_tar
from bimetal.images.engine import Engine
from bimetal.images.errors import RegistryError
from bimetal.images.report import Report
from tests.images.docker.containers import Running, wait
from tests.patience import PATIENCE_S

SERVER = "bimetal-images-test/registry:1"
STORAGE = "/var/lib/docker-registry/docker/registry/v2"


# Debian's own asks for a password.
CONFIGURATION = b"""\
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/docker-registry}}
http: {addr: ":5000"}
"""


def build(engine: Engine, recipe: str, **files: bytes) -> str:
    context = {name: File(content) for name, content in files.items()}
    with as_tar({"Dockerfile": File(recipe.encode()), **context}) as tar:
        return engine.build(tar, {}, Report())


class Registry:
    """A running registry, as this machine's engine reaches it."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.address = running.address(5000)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def read(self, digest: str) -> str:
        """A blob's bytes as text, from its storage."""
        status, output = self._running.container.exec_run(["cat", self._file(digest)])
        assert status == 0, output
        text: str = output.decode()
        return text

    def overwrite(self, digest: str, content: str) -> None:
        """Put something else where a blob lies, as a broken disk or an intruder would."""
        script = f"printf '%s' \"$0\" {'| gzip ' if not content.startswith('{') else ''}> {self._file(digest)}"
        status, output = self._running.container.exec_run(["sh", "-c", script, content])
        assert status == 0, output

    def _file(self, digest: str) -> str:
        name = digest.removeprefix("sha256:")
        return f"{STORAGE}/blobs/sha256/{name[:2]}/{name}/data"


@pytest.fixture(scope="module")
def registry(engine: Engine, client: Any, bookworm: str) -> Iterator[Registry]:
    """A registry in a container, for all tests of this file."""
    packages = "apt-get update && apt-get install --yes --no-install-recommends docker-registry"
    recipe = f"FROM {bookworm}\nRUN {packages}\nCOPY configuration /\n"
    engine.tag(build(engine, recipe, configuration=CONFIGURATION), *SERVER.split(":"))
    command = ["docker-registry", "serve", "/configuration"]
    container = client.containers.run(SERVER, command, detach=True, ports={"5000/tcp": ("127.0.0.1", 0)})
    try:
        served = Registry(Running(container))
        wait(served.answers, PATIENCE_S, "the registry does not answer")
        yield served
    finally:
        container.remove(force=True)
        client.images.remove(SERVER, force=True)


class Pushed:
    """An image of the vendor's that only the registry has; a matrix whose only row starts at it."""

    def __init__(self, registry: Registry, engine: Engine, client: Any, bookworm: str, folder: Path) -> None:
        self.registry = registry
        self.name = f"{registry.address}/vendor-{uuid.uuid4().hex[:8]}"
        image_id = build(engine, f"FROM {bookworm}\nRUN echo {self.name} > /etc/vendor\n")
        engine.tag(image_id, self.name, "1")
        self.digest = engine.push(self.name, "1", Report())
        client.images.remove(image_id, force=True)
        self.matrix = folder / "matrix.yml"
        self.matrix.write_text(
            f'schema: 1\npython: "3.11"\nbases:\n  vendor: {{image: "{self.name}:1"}}\nimages:\n'
            "  tool: {kind: train, vendor: cpu, title: x, default: '1', offline: null, variants: {'1':\n"
            "    {base: vendor, server: base, versions: {}, budget_mb: 400, proven: in tests}}}\n"
        )
        self.lock = folder / "lock.json"
        self.repository = f"{self.name}-built"

    def command(self, *words: str) -> Result:
        environment = {"IMAGES_MATRIX": str(self.matrix), "IMAGES_LOCK": str(self.lock)}
        environment |= {"IMAGE_REPOSITORY": self.repository, "OFFLINE_BASE": ""}
        return CliRunner().invoke(cli.app, list(words), env=environment)


@pytest.fixture
def vendor(registry: Registry, engine: Engine, client: Any, bookworm: str, tmp_path: Path) -> Iterator[Pushed]:
    """A vendor's image in the registry."""
    pushed = Pushed(registry, engine, client, bookworm, tmp_path)
    before = names(client)
    yield pushed
    for name in names(client) - before:
        if engine.image_id(name):  # the last tag of an image takes its digests along
            client.images.remove(name, force=True)


def names(client: Any) -> set[str]:
    """Every name that the engine has, digests too."""
    kinds = ("RepoTags", "RepoDigests")
    return {name for image in client.images.list() for kind in kinds for name in image.attrs[kind] or ()}


def test_a_base_is_pinned_pulled_by_its_digest_and_built_on(vendor: Pushed, engine: Engine) -> None:
    refused = vendor.command("build")
    assert "The bases of tool:1 have no digest in matrix.yml" in str(refused.exception)
    assert vendor.command("pin", "--write").stdout == f"vendor: {vendor.digest}\n"
    assert vendor.command("build", "--json").exit_code == 0
    entry = json.loads(vendor.lock.read_text())["images"]["tool:1"]
    assert entry["base"] == f"{vendor.name}@{vendor.digest}"
    status, output = engine.run(entry["image_id"], ["cat", "/etc/vendor"], entrypoint="")
    assert (status, output.strip()) == (0, vendor.name)


def test_what_is_pushed_gets_the_registrys_digest_into_the_lock(
    vendor: Pushed, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its self-test wants torch; the transfer is what this is about.
    monkeypatch.setattr(check, "self_test", lambda *_: "ok")
    vendor.command("pin", "--write")
    vendor.command("build")
    pushed = vendor.command("push")
    entry = json.loads(vendor.lock.read_text())["images"]["tool:1"]
    assert pushed.stdout == f"{entry['repository']}@{entry['digest']}\n"
    assert engine.registry_digest(f"{entry['repository']}:{entry['tag']}") == entry["digest"]


def refusal(vendor: Pushed, client: Any) -> str:
    """The one line of a build that fails; nothing has a name that had none."""
    before = names(client)
    done = vendor.command("build")
    assert isinstance(done.exception, RegistryError)
    assert names(client) == before
    assert not vendor.lock.exists()
    [line] = str(done.exception).splitlines()
    return line


def pin(vendor: Pushed, digest: str) -> None:
    text = vendor.matrix.read_text()
    vendor.matrix.write_text(text.replace('vendor: {image: "', f'vendor: {{digest: "{digest}", image: "'))
    assert matrix.load(vendor.matrix).bases["vendor"].digest == digest


def test_a_digest_that_the_registry_lacks_is_refused(vendor: Pushed, client: Any) -> None:
    pin(vendor, f"sha256:{'b' * 64}")
    assert "the registry has no such image for you" in refusal(vendor, client)


def test_another_manifest_under_the_digest_is_refused(vendor: Pushed, client: Any) -> None:
    pin(vendor, vendor.digest)
    vendor.registry.overwrite(vendor.digest, vendor.registry.read(vendor.digest) + " ")
    assert "what came is not what the digest says" in refusal(vendor, client)


def test_another_layer_under_its_digest_is_refused(vendor: Pushed, client: Any) -> None:
    pin(vendor, vendor.digest)
    layer = json.loads(vendor.registry.read(vendor.digest))["layers"][-1]["digest"]
    vendor.registry.overwrite(layer, "something else")
    assert "what came is not what the digest says" in refusal(vendor, client)


def test_a_registry_that_is_down_is_said_to_be_that_with_the_way_round(vendor: Pushed, client: Any) -> None:
    text = vendor.matrix.read_text()
    vendor.matrix.write_text(text.replace(vendor.registry.address, "127.0.0.1:1"))
    pin(vendor, vendor.digest)
    line = refusal(vendor, client)
    assert "the registry cannot be reached" in line
    assert line.endswith("Next: check the network, or build offline: make images OFFLINE_BASE=1")
