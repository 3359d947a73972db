"""What a person and a program see of a run."""

import json
from pathlib import Path

from tests.testbed import report
from tests.testbed.report import Result

RESULTS = [Result("microcode/default", True, 50.24, Path("a.log")), Result("b/default", False, 9.9, Path("b.log"))]


def test_a_check_is_one_line_and_only_a_failure_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nTASK [Install] fatal\n")
    assert report.line(Result("a/default", True, 61.4, log)) == "a/default ... passed in 61 s\n"
    assert report.line(Result("a/default", False, 61.4, log)).splitlines() == [
        "a/default ... FAILED in 61 s",
        "    first",
        "    TASK [Install] fatal",
        f"    Whole log: {log}",
    ]


def test_what_is_shown_of_a_failure_ends_where_molecule_began_to_clean_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    failure = "fatal: [trixie]: FAILED!\nWARNING  An error occurred during the test sequence action: 'check'.\n"
    log.write_text("before\n" * 50 + failure + "TASK [Destroy]\n" * 50)
    shown = report.line(Result("a/default", False, 1.0, log)).splitlines()
    assert len(shown) == 42
    assert shown[-2:] == ["    fatal: [trixie]: FAILED!", f"    Whole log: {log}"]


def test_the_table_has_a_line_for_each_check_and_closes_with_the_counts() -> None:
    assert report.table(RESULTS, 52.0) == (
        "microcode/default  passed     50 s\nb/default          FAILED     10 s\n1 passed, 1 failed in 52 s\n"
    )


def test_a_program_reads_the_same_as_json() -> None:
    assert json.loads(report.document(RESULTS, 52.04)) == {
        "passed": False,
        "seconds": 52.0,
        "checks": [
            {"name": "microcode/default", "passed": True, "seconds": 50.2, "log": "a.log"},
            {"name": "b/default", "passed": False, "seconds": 9.9, "log": "b.log"},
        ],
    }
