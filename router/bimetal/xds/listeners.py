"""The two listeners of the gateway: Triton's HTTP port and Triton's gRPC port."""

from importlib.resources import files
from typing import Any

from envoy.config.listener.v3.listener_pb2 import Listener

from bimetal.fleet.schema import Fleet
from bimetal.xds.message import extension, grpc_service, parse, socket_address, typed
from bimetal.xds.names import METADATA, ROUTE_HEADER, ROUTER_GRPC, SAID, SEQUENCE_HEADER
from bimetal.xds.refusals import local_replies
from bimetal.xds.tls import api_key_filter, downstream

LUA = "envoy.filters.http.lua"
EXT_PROC = "envoy.filters.http.ext_proc"
_ALPN = {"http": ["h2", "http/1.1"], "grpc": ["h2"]}

_OVERRIDE = {
    EXT_PROC: typed("extensions.filters.http.ext_proc.v3.ExtProcPerRoute", overrides={}),
}


def listeners(fleet: Fleet) -> list[Listener]:
    """The HTTP and the gRPC listener."""
    return [
        _listener("http", fleet, fleet.gateway.http_port, [_lua("route.lua", "answer.lua"), _router()]),
        _listener("grpc", fleet, fleet.gateway.grpc_port, [_lua("route.lua"), _ext_proc(), _router()]),
    ]


def _listener(name: str, fleet: Fleet, port: int, filters: list[dict[str, Any]]) -> Listener:
    security = fleet.security.gateway
    manager = extension(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=name,
        codec_type="AUTO" if name == "http" else "HTTP2",
        rds={"route_config_name": name, "config_source": {"ads": {}, "resource_api_version": "V3"}},
        access_log=[_failures()],
        http_filters=[*api_key_filter(security, fleet.state_dir), *filters],
        early_header_mutation_extensions=[_drop_our_header()],
        # A client must not be able to tell the gateway from one Triton.
        server_header_transformation="PASS_THROUGH",
        # HTTP/1.0, without a Host, is what old load balancers check health with.
        http_protocol_options={
            "accept_http_10": True,
            "default_host_for_http_10": "triton",
            "allow_custom_methods": True,
        },
        generate_request_id=False,
        skip_xff_append=True,
        # An inference may be silent for long; its own deadline bounds it.
        stream_idle_timeout="0s",
        local_reply_config=local_replies(name, fleet.gateway),
    )
    return parse(
        {
            "name": name,
            # What a client may send ahead of being read: ten thousand connections times this is all that it can cost.
            "per_connection_buffer_limit_bytes": 2**16,
            "address": socket_address(fleet.gateway.host, port),
            "filter_chains": [
                {
                    "filters": [manager],
                    **downstream(security, fleet.state_dir, _ALPN[name]),
                }
            ],
        },
        Listener(),
    )


def _drop_our_header() -> dict[str, Any]:
    return extension(
        "envoy.http.early_header_mutation.header_mutation",
        "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=[{"remove": ROUTE_HEADER}, {"remove": SEQUENCE_HEADER}],
    )


def _lua(*names: str) -> dict[str, Any]:
    source = "\n".join(files("bimetal.xds").joinpath(name).read_text(encoding="utf-8") for name in names)
    return extension(
        LUA,
        "extensions.filters.http.lua.v3.Lua",
        default_source_code={"inline_string": source},
    )


def _ext_proc() -> dict[str, Any]:
    """Streams and compressed messages: the router reads the first message; only their routes enable it."""
    return {
        "disabled": True,
        **extension(
            EXT_PROC,
            "extensions.filters.http.ext_proc.v3.ExternalProcessor",
            grpc_service=grpc_service(ROUTER_GRPC),
            processing_mode={
                "request_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_header_mode": "SKIP",
                "response_body_mode": "NONE",
                "response_trailer_mode": "SKIP",
            },
            # The answer to the headers waits for the client's first message, which may be long in coming.
            message_timeout="3600s",
            max_message_timeout="3600s",
            mutation_rules={"allow_all_routing": True},
        ),
    }


def _router() -> dict[str, Any]:
    """The router filter; its log has one entry per *try*, so that the first of two tries is seen too."""
    log = _grpc_log(
        "tries",
        additional_response_headers_to_log=["grpc-status", "grpc-message"],
        additional_response_trailers_to_log=["grpc-status", "grpc-message"],
    )
    return extension(
        "envoy.filters.http.router",
        "extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
        upstream_log=[log],
    )


def _failures() -> dict[str, Any]:
    """A second log, of whole requests, for what that of tries has not: our time-outs, and the notes of `answer.lua`."""
    said = {"filter": METADATA, "path": [{"key": SAID}], "value": {"present_match": True}}
    noted = {"metadata_filter": {"matcher": said, "match_if_key_not_found": False}}
    timed_out = {"response_flag_filter": {"flags": ["UT"]}}
    return {**_grpc_log("failures"), "filter": {"or_filter": {"filters": [noted, timed_out]}}}


def _grpc_log(name: str, **more: Any) -> dict[str, Any]:
    """An access log that the router reads."""
    return extension(
        "envoy.access_loggers.http_grpc",
        "extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
        common_config={
            "log_name": name,
            "grpc_service": grpc_service(ROUTER_GRPC),
            "transport_api_version": "V3",
            "buffer_flush_interval": "0.1s",
            "buffer_size_bytes": 2**18,
        },
        **more,
    )


def filter_override(name: str, enabled: bool) -> dict[str, Any]:
    """A route's own word on one HTTP filter: off, or on with the listener's configuration."""
    if not enabled:
        return {name: typed("config.route.v3.FilterConfig", disabled=True)}
    return {name: typed("config.route.v3.FilterConfig", config=_OVERRIDE[name])}
