"""More routers and gateways in front of the cluster's Tritons, beside the cluster's own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from bimetal.fleet.file import load_fleet
from tests.e2e.cluster import ROOT, Cluster, wait_until

PORTS_APART = 400


@contextmanager
def another_gateway(cluster: Cluster, folder: Path, number: int = 1, **sections: Any) -> Iterator[Cluster]:
    """A router and a gateway with those sections in their fleet file; they end with the block.

    Args:
        sections: of the fleet file; a mapping changes its section, anything else takes the section's place.
        folder: empty; theirs alone.
        number: of the ports' range, counted from the cluster's own.
    """
    document = yaml.safe_load((cluster.state_dir / "fleet.yaml").read_text())
    document["state_dir"] = str(folder)
    for section, wanted in sections.items():
        document[section] = {**document.get(section, {}), **wanted} if isinstance(wanted, dict) else wanted
    for section in ("gateway", "router"):
        document[section] |= {
            key: value + number * PORTS_APART for key, value in document[section].items() if key.endswith("_port")
        }
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(document))
    with ExitStack() as stack:
        for program in ("run", "gateway"):
            log = stack.enter_context((folder / f"{program}.log").open("w"))
            command = [str(ROOT / ".venv/bin/bimetal"), program, "--fleet", str(file)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        made = Cluster(folder, load_fleet(file))
        wait_until(lambda: made.is_whole() and made.answers())
        yield made


def backend_documents(cluster: Cluster, *names: str) -> list[dict[str, Any]]:
    """The backends of these names as the cluster's fleet file has them."""
    document = yaml.safe_load((cluster.state_dir / "fleet.yaml").read_text())
    return [backend for backend in document["backends"] if backend["name"] in names]
