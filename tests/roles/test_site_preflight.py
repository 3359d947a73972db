"""Errors that `ansible-playbook site.yml` gives before it has changed anything."""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Site = Callable[..., subprocess.CompletedProcess[str]]


def test_a_busy_port_stops_the_run_with_the_holder_and_the_next_step(
    site: Site, state_dir: Path, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    result = site(router_gateway_http_port=port)
    assert result.returncode != 0
    assert f"Port {port} (gateway, HTTP) is held by pid " in result.stdout
    assert "make up PORT_OFFSET=" in result.stdout
    assert not state_dir.exists()


def test_a_state_directory_too_deep_for_a_socket_is_named_with_the_limit(site: Site, state_dir: Path) -> None:
    result = site("--limit", "gateway-0", bimetal_state_dir=f"{state_dir}/{'d' * 80}")
    assert result.returncode != 0
    assert "is too long: expected at most 99 bytes" in result.stdout
    assert "make up STATE_DIR=" in result.stdout
    assert not state_dir.exists()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"triton_compute": "quantum"}, ["triton_compute", "quantum", "gpu, cpu"]),
        (
            {"triton_runtime": "container", "container_image_engine": "/nonexistent/docker"},
            ["No container engine answers on cuda-0", "apt-get install docker.io"],
        ),
    ],
    ids=["a value that argument_specs forbids", "a runtime without an engine"],
)
def test_a_wrong_variable_of_a_triton_is_named(
    site: Site, state_dir: Path, variables: dict[str, str], words: list[str]
) -> None:
    result = site("--limit", "cuda-0", **variables)
    assert result.returncode != 0
    assert [word for word in words if word not in result.stdout + result.stderr] == []
    assert not state_dir.exists()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"router_xds_port": 20100}, ["More than one service of the fleet uses 127.0.0.1:20100"]),
        ({"triton_host": "triton.example"}, ["triton_host of cuda-0 is 'triton.example'", "expected an IP address"]),
        ({"triton_vendor": ""}, ["triton_vendor"]),
        ({"router_store_url": "postgresql://bimetal:pw@db/bimetal"}, ["router_store_url holds a password", "passfile"]),
    ],
    ids=["two services on one address", "a host name", "an empty vendor", "a password in the fleet file"],
)
def test_a_fleet_that_cannot_work_is_refused(
    site: Site, state_dir: Path, variables: dict[str, object], words: list[str]
) -> None:
    result = site(**variables)
    assert result.returncode != 0
    assert [word for word in words if word not in result.stdout + result.stderr] == []
    assert not state_dir.exists()


@pytest.mark.slow  # all of site.yml, as a check of what it would do
def test_check_and_diff_on_a_fresh_checkout_show_the_plan_and_touch_nothing(site: Site, state_dir: Path) -> None:
    result = site("--check", "--diff")
    assert result.returncode == 0, result.stdout
    assert "+[program:triton-cuda-0]" in result.stdout
    assert "+  - name: rocm-0" in result.stdout
    assert not state_dir.exists()
