"""Envoy's gRPC access log: turns its entries, one per try, into `Try` values."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry
from envoy.service.accesslog.v3 import als_pb2_grpc
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

from router.feedback.outcome import Try
from router.fleet import Fleet
from router.xds.names import read_cluster_name


class AccessLogService(als_pb2_grpc.AccessLogServiceServicer):  # type: ignore[misc]  # generated, untyped
    """Receives the log of every gateway and hands each batch of tries to `report`."""

    def __init__(self, fleet: Fleet, report: Callable[[list[Try]], None]) -> None:
        self._backend_at = {(b.ip, port): b.name for b in fleet.backends for port in (b.grpc_port, b.http_port)}
        self._report = report

    async def StreamAccessLogs(  # noqa: N802  # the name is the protocol's
        self, messages: AsyncIterator[StreamAccessLogsMessage], _context: Any
    ) -> StreamAccessLogsResponse:
        """One gateway's log, until it hangs up."""
        async for message in messages:
            tries = (read_entry(entry, self._backend_at) for entry in message.http_logs.log_entry)
            self._report([t for t in tries if t is not None])
        return StreamAccessLogsResponse()


def read_entry(entry: HTTPAccessLogEntry, backend_at: Mapping[tuple[str, int], str]) -> Try | None:
    """The try that an entry tells of; None if it reached no backend of the fleet (control answers, refusals)."""
    common = entry.common_properties
    cluster = read_cluster_name(common.upstream_cluster)
    address = common.upstream_remote_address.socket_address
    backend = backend_at.get((address.address, address.port_value))
    if cluster is None or backend is None:
        return None
    status, message = _grpc_status(entry)
    ended = common.HasField("time_to_last_upstream_rx_byte")
    return Try(
        backend=backend,
        model=cluster[0],
        size_class=cluster[1],
        flags=_flags(common) if common.HasField("response_flags") else frozenset(),
        http_status=entry.response.response_code.value,
        grpc_status=status,
        message=message,
        seconds=common.time_to_last_upstream_rx_byte.ToNanoseconds() / 1e9 if ended else None,
    )


def _flags(common: Any) -> frozenset[str]:
    return frozenset(field.name for field, _ in common.response_flags.ListFields())


def _grpc_status(entry: HTTPAccessLogEntry) -> tuple[int | None, str]:
    """Status and message, from the trailers or, for an answer without a message, from the headers."""
    for fields in (entry.response.response_trailers, entry.response.response_headers):
        status = fields.get("grpc-status", "")
        if status.isdigit():
            return int(status), unquote(fields.get("grpc-message", ""))
    return None, ""
