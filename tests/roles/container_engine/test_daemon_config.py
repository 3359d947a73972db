"""daemon.json: read, merged, compared. What runs dockerd is in test_role.py."""

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import daemon_config

Json = dict[str, Any]


# nvidia-docker 542: a stray brace, found by the engine that did not start any more.
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "debug": true\n}}\n', "line 3, column 2: Extra data; the line is '}}'"),
        ('{\n  "debug": true,\n}\n', "line 3, column 1"),
        ('{\n  // logs\n  "debug": true\n}\n', "line 2, column 3"),
        ('{"debug": true', "line 1, column 15"),
        ("[]", "line 1, column 1: expected an object"),
    ],
)
def test_a_file_that_dockerd_could_not_read_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(daemon_config.ConfigError) as refused:
        daemon_config.parse(text, "/etc/docker/daemon.json")
    assert str(refused.value).startswith("/etc/docker/daemon.json, line ")
    assert place in str(refused.value)


def test_a_key_that_is_there_twice_is_refused_because_a_merge_would_lose_one() -> None:
    with pytest.raises(daemon_config.ConfigError, match="key 'dns' is there twice"):
        daemon_config.parse('{"dns": ["10.0.0.1"], "dns": ["10.0.0.2"]}', "daemon.json")


@pytest.mark.parametrize("text", ["", "\n", "{}"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert daemon_config.parse(text, "daemon.json") == {}


# ansible-role-nvidia-docker 9 and geerlingguy.docker 84: the user's own keys were overwritten.
def test_every_key_of_the_user_stays() -> None:
    present = {
        "data-root": "/srv/docker",
        "runtimes": {"kata": {"path": "kata-runtime"}},
        "insecure-registries": ["registry:5000"],
    }
    wanted = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "insecure-registries": ["mirror:5000"]}
    assert daemon_config.merge(present, wanted) == {
        "data-root": "/srv/docker",
        "runtimes": {"kata": {"path": "kata-runtime"}, "nvidia": {"path": "nvidia-container-runtime"}},
        "insecure-registries": ["registry:5000", "mirror:5000"],
    }
    assert present["runtimes"] == {"kata": {"path": "kata-runtime"}}


def test_what_the_inventory_says_replaces_a_value_of_another_kind() -> None:
    assert daemon_config.merge(
        {"log-opts": "none", "debug": True}, {"log-opts": {"max-size": "9m"}, "debug": False}
    ) == {
        "log-opts": {"max-size": "9m"},
        "debug": False,
    }


def test_a_merge_of_the_same_again_changes_nothing() -> None:
    wanted = {"dns": ["10.0.0.1"], "features": {"cdi": True}}
    once = daemon_config.merge({"dns": ["10.0.0.9"]}, wanted)
    assert daemon_config.merge(once, wanted) == once


@pytest.mark.parametrize(
    ("after", "action"),
    [
        ({"debug": True}, "none"),
        ({"debug": False}, "reload"),
        ({"debug": True, "runtimes": {"nvidia": {"path": "n"}}}, "reload"),
        # The directories of CDI are opened at the start only.
        ({"debug": True, "features": {"cdi": True}}, "restart"),
        ({"debug": False, "data-root": "/srv"}, "restart"),
        ({}, "reload"),
    ],
)
def test_the_engine_restarts_only_for_what_a_reload_does_not_take_up(after: Json, action: str) -> None:
    assert daemon_config.action({"debug": True}, after) == action


@pytest.mark.parametrize(
    ("argv", "twice"),
    [
        (["/usr/sbin/dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock"], ["hosts"]),
        (["dockerd", "--label", "a=b", "--log-level=warn"], ["log-level"]),
        (["dockerd", "--add-runtime", "nvidia=/usr/bin/nvidia-container-runtime"], []),
        (["dockerd"], []),
        ([], []),
    ],
)
def test_a_key_that_is_also_a_flag_is_found_because_dockerd_would_not_start(argv: list[str], twice: list[str]) -> None:
    config = {"hosts": ["tcp://10.0.0.1:2376"], "log-level": "info", "runtimes": {"nvidia": {}}}
    assert daemon_config.conflicts(argv, config) == twice


@pytest.mark.parametrize(
    ("argv", "file"),
    [
        (["dockerd", "--config-file", "/opt/d.json"], "/opt/d.json"),
        (["dockerd", "--config-file=/opt/d.json", "-D"], "/opt/d.json"),
        (["dockerd", "-H", "fd://"], None),
    ],
)
def test_the_file_that_the_engine_was_told_to_read_is_known(argv: list[str], file: str | None) -> None:
    assert daemon_config.config_file(argv) == file


def test_the_same_words_keep_their_order_in_the_file() -> None:
    text = '{\n  "zebra": 1,\n  "äpfel": true\n}\n'
    parse: Callable[[str, str], Json] = daemon_config.parse
    assert daemon_config.render(parse(text, "daemon.json")) == text
