"""What a call to the router's gRPC port must bring, beside a certificate of the authority.

Proxyless clients hold such certificates, but may only subscribe. Logs, ext_proc and control answers are the gateway's,
which shows the router host's own certificate.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from bimetal.security.secrets import Secrets, bearer

_FOR_ALL = ("/envoy.service.discovery.v3.AggregatedDiscoveryService/", "/grpc.health.v1.Health/")
_ADMIN = (
    "/inference.GRPCInferenceService/RepositoryModelLoad",
    "/inference.GRPCInferenceService/RepositoryModelUnload",
)

Check = Callable[[Any], Awaitable[None]]


class GrpcGuard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Interceptor of the router's gRPC server.

    Args:
        gateway: whom the gateway's certificate is made out to; None where the port takes plain text.
    """

    def __init__(self, secrets: Secrets, gateway: str | None) -> None:
        self._secrets = secrets
        self._gateway = None if gateway is None else gateway.encode()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """The service's own handler, with a check before it where one is due."""
        handler = await continuation(details)
        if handler is None or details.method.startswith(_FOR_ALL):
            return handler
        checks: list[Check] = [self._from_gateway] if self._gateway is not None else []
        if details.method in _ADMIN and self._secrets.guards_admin:
            checks.append(self._by_admin)
        return _guarded(handler, checks) if checks else handler

    async def _from_gateway(self, context: Any) -> None:
        names = context.auth_context().get("x509_subject_alternative_name", ())
        if self._gateway not in names:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "only the gateway may call this: expected the certificate of the router's host, "
                "not that of a proxyless client; send the request to the gateway",
            )

    async def _by_admin(self, context: Any) -> None:
        header = dict(context.invocation_metadata()).get("authorization", "")
        if not self._secrets.is_admin(bearer(header.encode())):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "loading models needs the admin token: expected metadata 'authorization: Bearer TOKEN', "
                "beside the API key in 'x-api-key'",
            )


def _guarded(handler: Any, checks: list[Check]) -> Any:
    """`handler` with checks before its first message; an abort in one of them ends the call."""

    async def check(context: Any) -> None:
        for each in checks:
            await each(context)

    async def stream(request: Any, context: Any) -> Any:
        await check(context)
        async for response in (handler.stream_stream or handler.unary_stream)(request, context):
            yield response

    async def single(request: Any, context: Any) -> Any:
        await check(context)
        return await (handler.stream_unary or handler.unary_unary)(request, context)

    makers = {
        (True, True): grpc.stream_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (False, False): grpc.unary_unary_rpc_method_handler,
    }
    make = makers[handler.request_streaming, handler.response_streaming]
    behaviour = stream if handler.response_streaming else single
    return make(behaviour, handler.request_deserializer, handler.response_serializer)
