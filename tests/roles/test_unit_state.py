"""The modules that ask systemd: whether a service runs as it is defined, and what its states mean."""

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import program_ready, unit_state


def test_what_a_process_was_started_with_is_in_its_environment() -> None:
    assert unit_state.started_with(b"PATH=/bin\0BIMETAL_DEFINITION=abc\0HOME=/\0") == "abc"
    assert unit_state.started_with(b"PATH=/bin\0") is None


@pytest.mark.parametrize(
    ("shown", "state", "pid"),
    [
        ("ActiveState=active\nMainPID=4711\n", "RUNNING", 4711),
        ("MainPID=0\nActiveState=activating\n", "BACKOFF", None),
        ("ActiveState=failed\nMainPID=0\n", "FATAL", None),
        ("", "UNKNOWN", None),
    ],
)
def test_systemds_states_are_told_in_supervisords_words(shown: str, state: str, pid: int | None) -> None:
    assert program_ready.parse_unit(shown) == program_ready.Program(state, pid)
