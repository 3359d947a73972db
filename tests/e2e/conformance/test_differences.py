"""Where the cluster differs from one Triton on purpose, and what it says instead."""

import json
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.cluster import Cluster
from tests.e2e.conformance.grpc_case import GrpcAnswer, GrpcCase
from tests.e2e.conformance.grpc_case import ask as ask_grpc
from tests.e2e.conformance.grpc_infer_cases import identity
from tests.e2e.conformance.http_case import HttpCase
from tests.e2e.conformance.http_case import ask as ask_http

SHARED = "/v2/systemsharedmemory"
CUDA = "/v2/cudasharedmemory"

SEND_TENSORS = "send the tensors in the request"
ASK_THERE = "set them there, on its own port"

# What one Triton gives the status of the case, and the words in which the cluster refuses with 501.
REFUSED_HTTP = [
    (HttpCase("status of shared memory", 200, "GET", f"{SHARED}/status", None), SEND_TENSORS),
    (HttpCase("status of a region", 404, "GET", f"{SHARED}/region/r/status", None), SEND_TENSORS),
    (HttpCase("registering a region", 400, "POST", f"{SHARED}/region/r/register", b"{}"), SEND_TENSORS),
    (HttpCase("unregistering a region", 200, "POST", f"{SHARED}/region/r/unregister", b""), SEND_TENSORS),
    (HttpCase("unregistering all regions", 200, "POST", f"{SHARED}/unregister", b""), SEND_TENSORS),
    (HttpCase("status of CUDA memory", 200, "GET", f"{CUDA}/status", None), SEND_TENSORS),
    (HttpCase("registering CUDA memory", 400, "POST", f"{CUDA}/region/r/register", b"{}"), SEND_TENSORS),
    (HttpCase("unregistering CUDA memory", 200, "POST", f"{CUDA}/unregister", b""), SEND_TENSORS),
    (HttpCase("trace settings", 200, "GET", "/v2/trace/setting", None), ASK_THERE),
    (HttpCase("new trace settings", 200, "POST", "/v2/trace/setting", b"{}"), ASK_THERE),
    (HttpCase("trace settings of a model", 200, "GET", "/v2/models/identity/trace/setting", None), ASK_THERE),
    (HttpCase("log settings", 200, "GET", "/v2/logging", None), ASK_THERE),
    (HttpCase("new log settings", 200, "POST", "/v2/logging", b"{}"), ASK_THERE),
]


@pytest.mark.parametrize(("case", "words"), REFUSED_HTTP, ids=[case.says for case, _ in REFUSED_HTTP])
def test_what_belongs_to_one_server_is_refused_over_http(
    whole: Cluster, tritons_http: list[str], case: HttpCase, words: str
) -> None:
    assert ask_http(tritons_http[0], case).status == case.status
    refusal = ask_http(whole.http, case)
    assert (refusal.status, refusal.headers) == (501, (("content-type", "application/json"),))
    assert words in json.loads(refusal.body)["error"]


def _call(says: str, status: str, request: Any) -> GrpcCase:
    return GrpcCase(says, status, type(request).__name__.removesuffix("Request"), (request.SerializeToString(),))


# The same over gRPC, where the cluster says UNIMPLEMENTED.
REFUSED_GRPC = [
    (_call("status of shared memory", "OK", pb.SystemSharedMemoryStatusRequest()), SEND_TENSORS),
    (_call("registering a region", "INTERNAL", pb.SystemSharedMemoryRegisterRequest(name="r", key="/n")), SEND_TENSORS),
    (_call("unregistering a region", "OK", pb.SystemSharedMemoryUnregisterRequest(name="r")), SEND_TENSORS),
    (_call("status of CUDA memory", "OK", pb.CudaSharedMemoryStatusRequest()), SEND_TENSORS),
    (_call("registering CUDA memory", "INVALID_ARGUMENT", pb.CudaSharedMemoryRegisterRequest(name="r")), SEND_TENSORS),
    (_call("unregistering CUDA memory", "OK", pb.CudaSharedMemoryUnregisterRequest(name="r")), SEND_TENSORS),
    (_call("trace settings", "OK", pb.TraceSettingRequest()), ASK_THERE),
    (_call("log settings", "OK", pb.LogSettingsRequest()), ASK_THERE),
]


@pytest.mark.parametrize(("case", "words"), REFUSED_GRPC, ids=[case.says for case, _ in REFUSED_GRPC])
def test_what_belongs_to_one_server_is_refused_over_grpc(
    triton_channels: list[grpc.Channel], gateway_channel: grpc.Channel, case: GrpcCase, words: str
) -> None:
    assert ask_grpc(triton_channels[0], case).status == case.status
    refusal = ask_grpc(gateway_channel, case)
    assert refusal.status == "UNIMPLEMENTED"
    assert words in refusal.details


def test_extensions_leave_out_what_is_refused(
    whole: Cluster, tritons_http: list[str], triton_channels: list[grpc.Channel], gateway_channel: grpc.Channel
) -> None:
    over_http = HttpCase("server metadata", 200, "GET", "/v2")
    over_grpc = GrpcCase("server metadata", "OK", "ServerMetadata", (b"",))
    direct = json.loads(ask_http(tritons_http[0], over_http).body)
    expected = [
        e for e in direct["extensions"] if e not in {"system_shared_memory", "cuda_shared_memory", "trace", "logging"}
    ]
    found = json.loads(ask_http(whole.http, over_http).body)
    assert found["extensions"] == expected
    assert found["version"] == direct["version"]
    assert found["name"] == min(backend.name for backend in whole.fleet.backends)
    assert ask_grpc(gateway_channel, over_grpc).messages == (found,)
    assert set(ask_grpc(triton_channels[0], over_grpc).messages[0]) == set(found)


@pytest.mark.parametrize(
    "path", ["/v2/models/identity/stats", "/v2/models/identity/versions/1/stats", "/v2/models/stats"]
)
def test_statistics_have_tritons_shape(whole: Cluster, tritons_http: list[str], path: str) -> None:
    case = HttpCase("statistics", 200, "GET", path)
    found, *direct = (json.loads(ask_http(address, case).body) for address in (whole.http, *tritons_http))
    assert [m["name"] for m in found["model_stats"]] == [m["name"] for m in direct[0]["model_stats"]]
    assert [set(m) for m in found["model_stats"]] == [set(m) for m in direct[0]["model_stats"]]
    counts = [sum(m["inference_count"] for m in one["model_stats"]) for one in (found, *direct)]
    assert counts[0] == sum(counts[1:])


def test_statistics_over_grpc_have_tritons_shape(
    triton_channels: list[grpc.Channel], gateway_channel: grpc.Channel
) -> None:
    infer = GrpcCase("an inference", "OK", "ModelInfer", (identity().SerializeToString(),))
    for channel in triton_channels:
        ask_grpc(channel, infer)
    request = pb.ModelStatisticsRequest(name="identity", version="1").SerializeToString()
    case = GrpcCase("statistics", "OK", "ModelStatistics", (request,))
    found, *direct = (_statistics(ask_grpc(channel, case)) for channel in (gateway_channel, *triton_channels))
    assert set(found) == set(direct[0])
    assert int(found["inference_count"]) == sum(int(one["inference_count"]) for one in direct)
    assert int(found["last_inference"]) == max(int(one["last_inference"]) for one in direct)


def _statistics(answer: GrpcAnswer) -> dict[str, Any]:
    (statistics,) = answer.messages[0]["model_stats"]
    found: dict[str, Any] = statistics
    return found
