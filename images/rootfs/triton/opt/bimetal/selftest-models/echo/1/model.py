"""Answers its input, after the request's parameter delay_ms."""

import json
import os
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
        delay_ms = json.loads(request.parameters() or "{}").get("delay_ms", 0)
        if delay_ms:
            # The self-test waits for this file: from here on the request is in flight.
            Path(os.environ["BIMETAL_SELFTEST_IN_FLIGHT"]).touch()
            time.sleep(delay_ms / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)])
