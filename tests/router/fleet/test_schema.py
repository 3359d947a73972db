"""The fleet file: what is accepted, and what an error tells."""

from pathlib import Path

import pytest

from bimetal.errors import FleetFileError
from bimetal.fleet.file import load_fleet

GOOD = """\
version: 1
state_dir: /var/lib/bimetal
pools:
  cuda: {vendor: nvidia, provider: CUDAExecutionProvider, repository: /srv/cuda}
backends:
  - name: cuda-0
    pool: cuda
    host: 10.0.0.1
    http_port: 8000
    grpc_port: 8001
    metrics_port: 8002
"""


def _error(tmp_path: Path, text: str) -> str:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    with pytest.raises(FleetFileError) as caught:
        load_fleet(file)
    return str(caught.value)


def test_a_minimal_file_gets_the_documented_defaults(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(GOOD)
    fleet = load_fleet(tmp_path / "fleet.yaml")
    assert (fleet.gateway.http_port, fleet.gateway.grpc_port, fleet.router.http_port) == (8000, 8001, 8002)
    assert (fleet.breaker.transient_cooldown_s, fleet.breaker.persistent_cooldown_s) == (300, 1800)
    assert (fleet.breaker.degrade_after, fleet.breaker.isolate_after, fleet.breaker.recover_after) == (1, 3, 10)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("pool: cuda\n", "pool: rcom\n"), 1, "'rcom', which is not under pools (cuda)"),
        (("grpc_port: 8001", "grpc_port: 99999"), 10, "backends.0.grpc_port"),
        (("host: 10.0.0.1", "host: gpu-node-1"), 8, "backends.0.host"),
        (("vendor: nvidia", "vendor: nvida"), 4, "pools.cuda.vendor"),
        (("    pool: cuda\n", "    pol: cuda\n"), 7, "backends.0.pol"),
        (("version: 1", "version: 2"), 1, "version"),
        (("grpc_port: 8001", "grpc_port: eight"), 10, "not 'eight'"),
        (("state_dir", "breaker: {isolate_after: 1}\nstate_dir"), 2, "isolate_after must be above degrade_after"),
        (("backends:\n", "backends: []\nx:\n"), 5, "backends"),
        (("pools:", "gateway: {max_request_bytes: 2147483648}\npools:"), 3, "less than or equal to 2147483647"),
        (("pools:", "models: {m: {large_from: 8, large: {rocm: 1}}}\npools:"), 1, "models.m.large names pool 'rocm'"),
        (("pools:", "models: {m: {large_from: 8, large: {cuda: 2}}}\npools:"), 3, "at most 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    error = _error(tmp_path, GOOD.replace(*change))
    assert f"fleet.yaml:{line}:" in error
    assert words in error
    assert "make up" in error


def test_broken_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    assert "fleet.yaml:5: not valid YAML" in _error(tmp_path, GOOD.replace("{vendor: nvidia", "{{vendor: nvidia"))


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert "expected a mapping" in _error(tmp_path, text)


def test_a_missing_file_says_which(tmp_path: Path) -> None:
    with pytest.raises(FleetFileError, match=r"nowhere\.yaml: the fleet file cannot be read"):
        load_fleet(tmp_path / "nowhere.yaml")


def test_two_backends_may_not_share_a_name_or_a_port(tmp_path: Path) -> None:
    second = GOOD.split("backends:\n")[1]
    assert "two backends are named 'cuda-0'" in _error(tmp_path, GOOD + second)
    assert "share 10.0.0.1:8000" in _error(tmp_path, GOOD + second.replace("cuda-0", "cuda-1"))
