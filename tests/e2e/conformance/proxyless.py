"""Makes every case's call as a proxyless client and prints the answers as JSON, by the cases' sentences.

A process of its own: grpcio reads `GRPC_XDS_BOOTSTRAP` once.
"""

import json
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain

import grpc

from tests.e2e.conformance.grpc_case import UNLIMITED, ask
from tests.e2e.conformance.grpc_control_cases import control_cases
from tests.e2e.conformance.grpc_infer_cases import infer_cases
from tests.e2e.conformance.grpc_stream_cases import stream_cases


def main() -> None:
    """One channel per model, as a client would keep it."""
    channels: dict[str, grpc.Channel] = {}
    with ExitStack() as stack:
        answers = {}
        for case in chain(control_cases(), infer_cases(), stream_cases()):
            if case.target not in channels:
                channel = grpc.insecure_channel(f"xds:///{case.target}", UNLIMITED)
                channels[case.target] = stack.enter_context(channel)
            answers[case.says] = asdict(ask(channels[case.target], case))
        print(json.dumps(answers))


if __name__ == "__main__":
    main()
