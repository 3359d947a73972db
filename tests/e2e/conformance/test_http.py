"""HTTP through the gateway is what one Triton gives: status, headers that matter, body."""

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conformance.http_case import HttpCase, ask
from tests.e2e.conformance.http_cases import (
    control_cases,
    generate_cases,
    infer_cases,
    infer_error_cases,
    repository_cases,
)

CASES = [*control_cases(), *repository_cases(), *infer_cases(), *infer_error_cases(), *generate_cases()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_the_gateway_answers_as_a_triton(whole: Cluster, tritons_http: list[str], case: HttpCase) -> None:
    expected = [ask(address, case) for address in tritons_http]
    assert [answer.status for answer in expected] == [case.status] * len(expected)
    assert ask(whole.http, case) in expected


def test_every_case_says_something_else() -> None:
    sentences = [case.says for case in CASES]
    assert sorted(set(sentences)) == sorted(sentences)
