"""Command lines, of options by name."""

from typing import Any

from ansible_collections.bimetal.cluster.plugins.filter import command_line


def command(**program: Any) -> list[str]:
    return command_line.container_command(
        program, engine="docker", name="triton-1a2b", label="cluster=/var/lib/bimetal", log_max_size="10m", log_files=3
    )


def test_options_keep_their_order_and_one_without_a_value_is_left_out() -> None:
    options = {"id": "cuda-0", "http-port": 8000, "load-model": None, "memory": "3g"}
    assert command_line.command_options(options) == ["--id=cuda-0", "--http-port=8000", "--memory=3g"]


def test_a_switch_is_there_or_not_and_a_word_is_a_value() -> None:
    options = {"rm": True, "privileged": False, "exit-on-error": "false"}
    assert command_line.command_options(options) == ["--rm", "--exit-on-error=false"]


def test_a_container_replaces_one_of_its_name_and_has_as_long_to_end_as_its_program() -> None:
    words = command(stop_wait_seconds=32, container={"image": "sha256:cpu"})
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[3:7] == ["triton-1a2b", "32", "docker", "run"]
    assert words[words.index("--stop-timeout") + 1] == "32"


def test_the_image_stands_between_the_containers_options_and_the_programs_arguments() -> None:
    container = {"image": "sha256:cpu", "options": ["--memory=3g"], "arguments": ["--id=cpu-0"]}
    words = command(container=container, environment={"B": 2, "A": "1"})
    assert words[-5:] == ["--env=A=1", "--env=B=2", "--memory=3g", "sha256:cpu", "--id=cpu-0"]
