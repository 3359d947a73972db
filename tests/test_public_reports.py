"""What went wrong for users of comparable servers and routers: each public report has a test that names it.

`public_reports.csv` says which. T is the Triton server, TC its client; a number is an issue's.
"""

import ast
import csv
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
REPORTS = {
    *("T1776", "T3103", "T3160", "T3577", "T3903", "T4865", "T5185", "T5972", "T6112", "T6177", "T6230", "T6899"),
    *("T6920", "T6939", "T7014", "T7077", "T7396", "T7512", "T7588", "PR2933", "TC537", "TC820"),
    *("SMG 25811", "SMG 31206", "SMG PR11399", "SMG PR39464", "PS 448", "PS 749", "litellm 30192", "litellm 871"),
    *("Dynamo PR1424", "Dynamo PR11646", "Ray PR40761", "KServe 3533", "dali_backend 241"),
    *("model_analyzer 472", "llm-d"),
}


class Row(NamedTuple):
    """One report and one of its tests, as `tests/FILE::FUNCTION`."""

    report: str
    symptom: str
    test: str


def rows() -> list[Row]:
    with (TESTS / "public_reports.csv").open(encoding="utf-8") as file:
        return [Row(**row) for row in csv.DictReader(file)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.report}: {row.test.partition('::')[2]}")
def test_the_test_of_a_report_exists_and_names_it(row: Row) -> None:
    file, _, name = row.test.partition("::")
    tree = ast.parse((TESTS.parent / file).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert found, f"{file} has no {name}: the report needs a test, and public_reports.csv its name"
    words = ast.get_docstring(found[0]) or ""
    assert row.report in words, f"{name} does not say that it is about {row.report}"


def test_no_report_is_without_a_test() -> None:
    assert {row.report for row in rows()} == REPORTS
