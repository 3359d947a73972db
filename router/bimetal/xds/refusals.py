"""What Envoy itself answers when it refuses a request: in Triton's shape, and with the reason and the way out."""

from typing import Any

from bimetal.fleet.schema import Gateway
from bimetal.xds.message import extension
from bimetal.xds.tls import refusal_without_key

_DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED = "4", "8"


def _equals(status: int) -> dict[str, Any]:
    return {"op": "EQ", "value": {"default_value": status, "runtime_key": f"bimetal.status_{status}"}}


# Of a path that no Triton has, byte for byte as Triton says it: JSON that is called plain text.
_NOT_FOUND: dict[str, Any] = {
    "filter": {"status_code_filter": {"comparison": _equals(404)}},
    "body_format_override": {
        "text_format_source": {"inline_string": '{"error":"%LOCAL_REPLY_BODY%"}'},
        "content_type": "text/plain",
    },
}


def local_replies(listener: str, gateway: Gateway) -> dict[str, Any]:
    """The `local_reply_config` of a listener: tritonclient reads `["error"]`; gRPC has plain text."""
    body: dict[str, Any] = {"json_format": {"error": "%LOCAL_REPLY_BODY%"}}
    if listener == "grpc":
        body = {"text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"}}
    return {
        "body_format": body,
        "mappers": [
            _NOT_FOUND,
            _no_host(),
            refusal_without_key(),
            _too_large(listener, gateway),
            _too_late(listener, gateway),
            *_too_many(gateway),
        ],
    }


def _too_large(listener: str, gateway: Gateway) -> dict[str, Any]:
    limit = f"the request is larger than {gateway.max_request_bytes} bytes, the gateway's max_request_bytes"
    mapper: dict[str, Any] = {
        "filter": {"status_code_filter": {"comparison": _equals(413)}},
        "body": {"inline_string": f"{limit}: split it, or raise the limit in the fleet file"},
    }
    # Envoy would say UNKNOWN for 413; gRPC servers say RESOURCE_EXHAUSTED for a message that is too large.
    return mapper | _grpc_status(listener, _RESOURCE_EXHAUSTED)


def _too_late(listener: str, gateway: Gateway) -> dict[str, Any]:
    words = f"no answer within {gateway.request_timeout_s:g} s, the gateway's request_timeout_s"
    mapper = {"filter": {"response_flag_filter": {"flags": ["UT"]}}, "body": {"inline_string": words}}
    # Envoy would say UNAVAILABLE for 504, and a client would ask again at once.
    return mapper | _grpc_status(listener, _DEADLINE_EXCEEDED)


def _grpc_status(listener: str, status: str) -> dict[str, Any]:
    """What a mapper of the gRPC listener says instead of the status that Envoy makes of HTTP's; nothing for HTTP's."""
    if listener != "grpc":
        return {}
    header = {"header": {"key": "grpc-status", "value": status}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {"headers_to_add": [header]}


def _too_many(gateway: Gateway) -> list[dict[str, Any]]:
    # Envoy has one flag for both.
    requests = (
        f"too much at once for this model: more than {gateway.max_requests} requests (max_requests) or, after a "
        "backend failed, more retries than the retry budget allows: send fewer, or try again"
    )
    memory = f"the gateway holds close to {gateway.max_memory_bytes} bytes, its max_memory_bytes: try again later"
    return [
        {"filter": {"response_flag_filter": {"flags": ["UO"]}}, "body": {"inline_string": requests}},
        {"filter": _details("overload"), "body": {"inline_string": memory}},
    ]


def _details(details: str) -> dict[str, Any]:
    """Whether these are Envoy's details of a refusal; for one as the request arrives there is no response flag."""
    expression = extension(
        "envoy.access_loggers.extension_filters.cel",
        "extensions.access_loggers.filters.cel.v3.ExpressionFilter",
        expression=f"response.code_details == '{details}'",
    )
    return {"extension_filter": expression}


def _no_host() -> dict[str, Any]:
    words = "the request has no Host header: expected one, as HTTP/1.1 demands it"
    return {"filter": _details("missing_host_header"), "body": {"inline_string": words}}
