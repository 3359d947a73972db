"""A second router and gateway in front of the cluster's own Tritons, with settings of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from router.fleet import load_fleet
from tests.e2e.cluster import ROOT, Cluster, wait_until

PORTS_UP = 400
"""How far its ports lie above the cluster's."""


@contextmanager
def second_gateway(cluster: Cluster, folder: Path, **settings: Any) -> Iterator[Cluster]:
    """It, once it answers; ended afterwards.

    Args:
        settings: sections of the fleet file; a mapping changes its section, anything else takes the section's place.
    """
    document = yaml.safe_load((cluster.state_dir / "fleet.yaml").read_text())
    document["state_dir"] = str(folder)
    for section in ("gateway", "router"):
        ports = {key: value + PORTS_UP for key, value in document[section].items() if key.endswith("_port")}
        document[section] |= ports
    for section, wanted in settings.items():
        document[section] = {**document.get(section, {}), **wanted} if isinstance(wanted, dict) else wanted
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(document))
    with ExitStack() as stack:
        for program in ("run", "gateway"):
            log = stack.enter_context((folder / f"{program}.log").open("w"))
            command = [str(ROOT / ".venv/bin/bimetal"), program, "--fleet", str(file)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        second = Cluster(folder, load_fleet(file))
        wait_until(lambda: second.is_whole() and second.answers())
        yield second


def backend_documents(cluster: Cluster, *names: str) -> list[dict[str, Any]]:
    """The backends of these names as the cluster's fleet file has them."""
    document = yaml.safe_load((cluster.state_dir / "fleet.yaml").read_text())
    return [backend for backend in document["backends"] if backend["name"] in names]
