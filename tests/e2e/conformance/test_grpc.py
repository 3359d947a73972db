"""gRPC through the gateway and proxyless is what one Triton gives: status, words, trailing metadata, messages."""

import json
from dataclasses import asdict
from typing import Any

import grpc
import pytest

from tests.e2e.conformance.grpc_case import GrpcCase, ask
from tests.e2e.conformance.grpc_control_cases import control_cases
from tests.e2e.conformance.grpc_infer_cases import infer_cases
from tests.e2e.conformance.grpc_stream_cases import stream_cases

CASES = [*control_cases(), *infer_cases(), *stream_cases()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_gateway_and_proxyless_client_are_answered_as_by_a_triton(
    triton_channels: list[grpc.Channel],
    gateway_channel: grpc.Channel,
    proxyless_answers: dict[str, Any],
    case: GrpcCase,
) -> None:
    expected = [asdict(ask(channel, case)) for channel in triton_channels]
    assert [answer["status"] for answer in expected] == [case.status] * len(expected)
    assert asdict(ask(gateway_channel, case)) in expected
    assert proxyless_answers[case.says] in json.loads(json.dumps(expected))


def test_every_case_says_something_else() -> None:
    sentences = [case.says for case in CASES]
    assert sorted(set(sentences)) == sorted(sentences)
