"""TLS and API keys in Envoy's words.

Certificates and keys reach Envoy through files in the state directory that `router.gateway.secret_files` writes, never
over xDS: whoever may subscribe as a proxyless client must not be able to read them there.
"""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

from bimetal.fleet.schema import Backend, Fleet
from bimetal.fleet.security import GatewaySecurity, InternalTls
from bimetal.xds.message import extension, typed

GATEWAY_CERTIFICATE, INTERNAL_CERTIFICATE, INTERNAL_CA = "gateway-certificate", "internal-certificate", "internal-ca"
CLIENT_IDENTITY = "bimetal"
"""Certificate provider in the bootstrap of a proxyless client."""
API_KEY_FILTER = "envoy.filters.http.api_key_auth"
KEY_HEADERS = ("x-api-key", "authorization")
"""Where a client may put its key; in `authorization` as `Bearer KEY`."""

_OPEN_PATHS = (
    "/v2/health/live",
    "/v2/health/ready",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/Check",
)
_API_KEY_AUTH = "extensions.filters.http.api_key_auth.v3.ApiKeyAuth"
_WITH_MATCHER = "extensions.common.matching.v3.ExtensionWithMatcher"
_TLS = "envoy.transport_sockets.tls"


def secret_file(state_dir: Path, name: str) -> Path:
    """The file that Envoy reads a certificate or the API keys from, by the name of the secret or filter."""
    return state_dir / f"envoy-{name.rpartition('.')[2]}.json"


def downstream(gateway: GatewaySecurity, state_dir: Path, alpn: list[str]) -> dict[str, Any]:
    """The `transport_socket` of a listener's filter chain; nothing without a certificate."""
    if gateway.certificate is None:
        return {}
    common = {"alpn_protocols": alpn, "tls_certificate_sds_secret_configs": [_sds(state_dir, GATEWAY_CERTIFICATE)]}
    context = "extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return {"transport_socket": extension(_TLS, context, common_tls_context=common)}


def to_router(fleet: Fleet, alpn: str) -> dict[str, Any]:
    """The `transport_socket` of Envoy's own connections to the router, whose certificate is made out to its host."""
    if fleet.security.internal is None:
        return {}
    host = fleet.router.host
    name = {"san_type": "IP_ADDRESS" if _is_ip(host) else "DNS", "matcher": {"exact": host}}
    return {"transport_socket": _upstream(fleet.state_dir, [alpn], {"match_typed_subject_alt_names": [name]})}


def to_tritons(state_dir: Path) -> dict[str, Any]:
    """One of a gRPC cluster's `transport_socket_matches`: TLS for the endpoints that are marked, and only for them.

    Each Triton must show a certificate made out to its backend's name, which the endpoint carries as host name.
    """
    socket = _upstream(state_dir, ["h2"], {}, auto_host_sni=True, auto_sni_san_validation=True)
    return {"name": "tls", "match": {"tls": True}, "transport_socket": socket}


def proxyless_to_tritons(backends: list[Backend]) -> dict[str, Any]:
    """The `transport_socket` of a proxyless cluster; the client's own bootstrap says where its certificate lies."""
    instance = {"instance_name": CLIENT_IDENTITY}
    names = [{"exact": backend.name} for backend in backends]
    validation = {"ca_certificate_provider_instance": instance, "match_subject_alt_names": names}
    common = {"tls_certificate_provider_instance": instance, "validation_context": validation}
    context = "extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return {"transport_socket": extension(_TLS, context, common_tls_context=common)}


def tls_name(backend: Backend) -> str:
    """Whom the certificate on a backend's gRPC port must be made out to; "" if it speaks plain text."""
    return backend.name if backend.tls else ""


def _upstream(state_dir: Path, alpn: list[str], validation: dict[str, Any], **fields: Any) -> dict[str, Any]:
    common = {
        "alpn_protocols": alpn,
        "tls_certificate_sds_secret_configs": [_sds(state_dir, INTERNAL_CERTIFICATE)],
        "combined_validation_context": {
            "default_validation_context": validation,
            "validation_context_sds_secret_config": _sds(state_dir, INTERNAL_CA),
        },
    }
    return extension(
        _TLS, "extensions.transport_sockets.tls.v3.UpstreamTlsContext", common_tls_context=common, **fields
    )


def _sds(state_dir: Path, name: str) -> dict[str, Any]:
    return {"name": name, "sds_config": _from_file(secret_file(state_dir, name))}


def _from_file(path: Path) -> dict[str, Any]:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def certificate_secret(name: str, certificate: Path, private_key: Path) -> dict[str, Any]:
    """A certificate's secret file. Envoy reads anew when a file is moved into the certificate's folder."""
    files = {
        "certificate_chain": {"filename": str(certificate)},
        "private_key": {"filename": str(private_key)},
        "watched_directory": {"path": str(certificate.parent)},
    }
    return _resource("extensions.transport_sockets.tls.v3.Secret", name, {"tls_certificate": files})


def ca_secret(tls: InternalTls) -> dict[str, Any]:
    """The content of the authority's secret file."""
    files = {"trusted_ca": {"filename": str(tls.ca)}, "watched_directory": {"path": str(tls.ca.parent)}}
    return _resource("extensions.transport_sockets.tls.v3.Secret", INTERNAL_CA, {"validation_context": files})


def api_key_filter(gateway: GatewaySecurity, state_dir: Path) -> list[dict[str, Any]]:
    """The HTTP filter that asks for a key, if one is configured. Until Envoy has read the keys it answers nobody."""
    if gateway.api_keys is None:
        return []
    types = [f"type.googleapis.com/envoy.{name}" for name in (_API_KEY_AUTH, _WITH_MATCHER)]
    source = _from_file(secret_file(state_dir, API_KEY_FILTER))
    return [{"name": API_KEY_FILTER, "config_discovery": {"config_source": source, "type_urls": types}}]


def api_key_config(keys: list[str], open_health: bool) -> dict[str, Any]:
    """The content of the API keys' file. Envoy shows it as `[redacted]` in its configuration dump."""
    auth = extension(
        API_KEY_FILTER,
        _API_KEY_AUTH,
        credentials=[{"key": key, "client": f"key-{number}"} for number, key in enumerate(keys, start=1)],
        # The keys stay on the request: routes to a Triton remove them, the router looks at them again.
        key_sources=[{"header": header} for header in KEY_HEADERS],
    )
    if open_health:
        config = typed(_WITH_MATCHER, xds_matcher=_skip_open_paths(), extension_config=auth)
    else:
        config = auth["typed_config"]
    return _resource("config.core.v3.TypedExtensionConfig", API_KEY_FILTER, {"typed_config": config})


def _skip_open_paths() -> dict[str, Any]:
    """Whole paths only: behind a prefix, `/v2/health/../models/…` would come in too."""
    skip = {"action": extension("skip", "extensions.filters.common.matcher.action.v3.SkipFilter")}
    path = extension("path", "type.matcher.v3.HttpRequestHeaderMatchInput", header_name=":path")
    return {"matcher_tree": {"input": path, "exact_match_map": {"map": dict.fromkeys(_OPEN_PATHS, skip)}}}


def refusal_without_key() -> dict[str, Any]:
    """What Envoy says instead of "Client authentication failed": only API keys are refused with 401."""
    equals_401 = {"op": "EQ", "value": {"default_value": 401, "runtime_key": "bimetal.unauthenticated"}}
    return {
        "filter": {"status_code_filter": {"comparison": equals_401}},
        "body": {
            "inline_string": "no valid API key: expected one in the header 'x-api-key: KEY' or "
            "'authorization: Bearer KEY'; ask whoever runs this cluster for one"
        },
    }


def _resource(type_name: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"resources": [{**typed(type_name), "name": name, **fields}]}
