"""What a person sees while it lasts."""

import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bimetal.images import report, tool
from bimetal.images.report import Interrupted
from tests.images.fakes import Recorder


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120)
    with report.display(console) as display:
        telling = display.report("cuda:11.8-debian")
        telling.step("Step 2/9 : RUN apt-get install")
        telling.line("Unpacking libcublas11")
    return out.getvalue()


def test_a_log_gets_a_line_per_step_with_its_time_and_not_the_rest() -> None:
    [line] = shown(terminal=False).splitlines()
    assert line.split(maxsplit=2) == ["0", "s", "cuda:11.8-debian  Step 2/9 : RUN apt-get install"]


def test_a_terminal_shows_the_step_and_what_goes_on_in_it() -> None:
    text = shown(terminal=True)
    assert "cuda:11.8-debian  Step 2/9 : RUN apt-get install · Unpacking libcublas11" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_after_a_stop_every_report_ends_its_work(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with report.display(console) as display:
        telling = display.report("cpu:bookworm")
        display.stop()
        with pytest.raises(Interrupted):
            telling.line("anything")
        with pytest.raises(Interrupted):
            telling.step("anything")


def test_a_commands_lines_are_reported_and_its_status_and_last_words_come_back() -> None:
    recorder = Recorder()
    script = "import sys; print('one', flush=True); print('E: two', file=sys.stderr); sys.exit(3)"
    assert tool.run([sys.executable, "-c", script], recorder, os.environ) == (3, "one\nE: two")
    assert recorder.lines == ["one", "E: two"]


def test_an_interruption_ends_the_command(tmp_path: Path) -> None:
    class Impatient(Recorder):
        def line(self, text: str) -> None:  # noqa: ARG002 - Report has it
            raise Interrupted

    pid = tmp_path / "pid"
    script = f"echo $$ > {pid}; echo begun; exec sleep 600"
    with pytest.raises(Interrupted):
        tool.run(["/bin/sh", "-c", script], Impatient(), os.environ)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
