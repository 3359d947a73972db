"""The routing table in the shape that Envoy wants."""

from bimetal.fleet.schema import Fleet
from bimetal.policy.table import RoutingTable
from bimetal.xds.clusters import clusters, endpoints
from bimetal.xds.listeners import listeners
from bimetal.xds.routes import routes
from bimetal.xds.snapshot import CLUSTER, ENDPOINTS, LISTENER, ROUTES, Resources, Snapshot, pack


def snapshot(table: RoutingTable, fleet: Fleet) -> Snapshot:
    """Every resource for the gateway."""
    models = table.routes.values()
    return {
        LISTENER: Resources.of((m.name, pack(m)) for m in listeners(fleet)),
        ROUTES: Resources.of((r.name, pack(r)) for r in routes(table, fleet)),
        CLUSTER: Resources.of((c.name, pack(c)) for m in models for c in clusters(m, fleet)),
        ENDPOINTS: Resources.of((e.cluster_name, pack(e)) for m in models for e in endpoints(m, fleet)),
    }
