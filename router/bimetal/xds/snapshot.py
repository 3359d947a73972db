"""A snapshot: every resource that one kind of data plane may ask for, versioned by content."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any as AnyValue

from google.protobuf.any_pb2 import Any

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTES = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


def pack(message: AnyValue) -> Any:
    """`message` as a protobuf Any, with the same bytes for the same content."""
    packed = Any()
    packed.Pack(message, deterministic=True)
    return packed


@dataclass(frozen=True)
class Resources:
    """Resources of one type.

    Attributes:
        version: a hash of the content, so that a router that restarts and decides the same publishes the
            same version and no data plane sees a change.
    """

    version: str
    by_name: Mapping[str, Any]

    @classmethod
    def of(cls, named: Iterable[tuple[str, Any]]) -> "Resources":
        """Resources with the version that their content gives."""
        by_name = dict(named)
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(by_name):
            digest.update(name.encode())
            digest.update(by_name[name].value)
        return cls(digest.hexdigest(), by_name)

    def select(self, names: frozenset[str]) -> "Resources":
        """Those of `names` that exist, with a version of their own; no names means all (the xDS wildcard)."""
        if not names:
            return self
        return Resources.of((name, self.by_name[name]) for name in names if name in self.by_name)


Snapshot = Mapping[str, Resources]
"""Type URL → resources."""
