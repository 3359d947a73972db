"""Testing an image from outside."""

from typing import Any

import pytest

from bimetal.images import check
from bimetal.images.errors import SelfTestError
from tests.images.fakes import FakeEngine

LABELS = {f"org.opencontainers.image.{name}": "x" for name in check.REQUIRED_LABELS}
GOOD = {"User": "10001:10001", "Healthcheck": {"Test": ["CMD", "x"]}, "Labels": LABELS}


class RunningEngine(FakeEngine):
    """Answers what a test asks: the tools of an image and of its base, and the self-test."""

    def __init__(self, config: dict[str, Any], tools: str = "", status: int = 0, output: str = "ok") -> None:
        super().__init__()
        self.images["x"] = {"Id": "1", "Config": config}
        self.options: dict[str, Any] = {}
        self.tools = {"x": tools, "base:1": ""}
        self._answer = (status, output)

    def run(self, image: str, command: list[str], **options: Any) -> tuple[int, str]:
        self.options = options
        return self._answer if command == [check.SELFTEST] else (0, self.tools[image])


def test_a_good_image_shows_its_self_tests_output() -> None:
    assert check.self_test(RunningEngine(GOOD, output="ok   all"), "x", "triton", "base:1") == "ok   all"


def test_the_self_test_runs_without_network_rights_or_a_writable_root() -> None:
    engine = RunningEngine(GOOD)
    check.self_test(engine, "x", "triton", "base:1")
    assert engine.options["network_mode"] == "none"
    assert engine.options["read_only"] is True
    assert engine.options["cap_drop"] == ["ALL"]
    assert "user" not in engine.options


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (GOOD | {"User": ""}, "runs as '', expected 10001:10001"),
        (GOOD | {"Healthcheck": {}}, "has no HEALTHCHECK"),
        (GOOD | {"Labels": None}, "lacks the labels title, version, revision, created, licenses"),
    ],
)
def test_an_image_that_is_not_made_as_agreed_fails(config: dict[str, Any], expected: str) -> None:
    with pytest.raises(SelfTestError, match=expected):
        check.self_test(RunningEngine(config), "x", "triton", "base:1")


def test_build_tools_that_are_left_fail_an_image_that_serves() -> None:
    with pytest.raises(SelfTestError, match="still has /usr/bin/gcc, /usr/bin/make"):
        check.self_test(RunningEngine(GOOD, tools="/usr/bin/gcc\n/usr/bin/make\n"), "x", "router", "base:1")


def test_the_tools_of_a_vendors_base_are_the_vendors() -> None:
    engine = RunningEngine(GOOD, tools="/usr/bin/gcc\n/usr/bin/pip3\n")
    engine.images["base:1"] = {"Id": "2"}
    engine.tools["base:1"] = "/usr/bin/gcc\n"
    with pytest.raises(SelfTestError, match=r"still has /usr/bin/pip3\."):
        check.self_test(engine, "x", "triton", "base:1")


def test_a_failed_check_is_shown_and_the_passed_ones_are_not() -> None:
    output = "ok   libraries: 3 files\nFAIL server: ended with 1 (0.1 s)\nx: 1 failed"
    with pytest.raises(SelfTestError, match=r"x: FAIL server: ended with 1 \(0.1 s\) Next: docker run") as error:
        check.self_test(RunningEngine(GOOD, status=1, output=output), "x", "triton", "base:1")
    assert "libraries" not in str(error.value)


def test_an_image_that_is_not_there_is_said_to_be_that() -> None:
    with pytest.raises(SelfTestError, match=r"The engine has no y. Next: build it"):
        check.self_test(RunningEngine(GOOD), "y", "triton", "base:1")
