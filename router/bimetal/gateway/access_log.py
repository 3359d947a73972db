"""Envoy's gRPC access logs: turns their entries into `Try` values.

Each try has an entry. An HTTP request that a Triton failed has one more, with what its body said: the first says
nothing about the backend, because there is no body in it. So has a request that ran into the gateway's own time-out,
which Envoy tells of the request alone.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry
from envoy.service.accesslog.v3 import als_pb2_grpc
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage, StreamAccessLogsResponse

from bimetal.breaker.outcome import Try
from bimetal.fleet.schema import Fleet
from bimetal.xds.names import METADATA, SAID, read_cluster_name

# The text of {"error": "..."}, which may have been cut off.
_ERROR = re.compile(r'"error"\s*:\s*"((?:[^"\\]|\\.)*)')


class AccessLogService(als_pb2_grpc.AccessLogServiceServicer):  # type: ignore[misc]  # generated, untyped
    """Receives the logs of every gateway and hands each batch to `report`: its tries, and how many entries it had."""

    def __init__(self, fleet: Fleet, report: Callable[[list[Try], int], None]) -> None:
        self._backend_at = {(b.ip, port): b.name for b in fleet.backends for port in (b.grpc_port, b.http_port)}
        self._report = report

    async def StreamAccessLogs(  # noqa: N802  # the name is the protocol's
        self, messages: AsyncIterator[StreamAccessLogsMessage], _context: Any
    ) -> StreamAccessLogsResponse:
        """One gateway's log, until it hangs up."""
        async for message in messages:
            entries = message.http_logs.log_entry
            tries = (read_entry(entry, self._backend_at) for entry in entries)
            self._report([t for t in tries if t is not None], len(entries))
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
    said = _said(entry)
    ended = common.HasField("time_to_last_upstream_rx_byte")
    return Try(
        backend=backend,
        model=cluster[0],
        size_class=cluster[1],
        flags=_flags(common) if common.HasField("response_flags") else frozenset(),
        http_status=entry.response.response_code.value,
        grpc_status=status,
        message=said or message,
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


def _said(entry: HTTPAccessLogEntry) -> str:
    """The error in the body of a failed HTTP request, as far as the gateway noted it; "" for any other entry."""
    noted = entry.common_properties.metadata.filter_metadata
    if METADATA not in noted or entry.response.response_code_details != "via_upstream":
        return ""
    body = noted[METADATA][SAID]
    error = _ERROR.search(body)
    if error is None:
        return str(body)
    try:
        return str(json.loads(f'"{error[1]}"'))
    except ValueError:
        return str(error[1])
