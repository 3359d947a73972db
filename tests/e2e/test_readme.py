"""Every command in the README works: the two main ones are CI itself, the rest run against the test cluster."""

import re
import shlex
import subprocess

import pytest

from tests.e2e.cluster import ROOT, Cluster
from tests.patience import PATIENCE_S

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line]
IN_CI = ["make up", "make test"]
"""Run by `.ci/run` itself; a test that runs `make test` would run itself."""


def test_ci_runs_the_main_commands() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert COMMANDS[:2] == IN_CI
    assert all(command in ci for command in IN_CI)


@pytest.mark.parametrize("command", COMMANDS[len(IN_CI) :], ids=lambda c: " ".join(c.split()[:3]))
def test_the_command_works_as_written(cluster: Cluster, command: str) -> None:
    here = command.replace("http://127.0.0.1:8000", f"http://{cluster.http}")
    environment = {"BIMETAL_FLEET": str(cluster.state_dir / "fleet.yaml"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        shlex.split(here), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"error"' not in done.stdout
    assert done.stdout.strip()


def test_the_links_lead_somewhere() -> None:
    links = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert links
    assert [target for target in links if not (ROOT / target).exists()] == []
