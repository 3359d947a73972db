"""The operator matrix of one cluster: what is documented, what its hosts verified, what its measured times taught."""

from bimetal.fleet.schema import Fleet
from bimetal.learning.memory import Memory
from bimetal.learning.operator_fold import learned_cells
from bimetal.operators import Matrix, default_matrix
from bimetal.store.store import Store
from bimetal.verify import load_verified, overlay


def cluster_matrix(fleet: Fleet) -> Matrix:
    """As the router itself judges by.

    Raises:
        ResultsError: a document of verified results cannot be used.
        StoreError: the store cannot be read.
    """
    store = Store(fleet.database_url)
    try:
        version, lessons = Memory(store).lessons()
    finally:
        store.close()
    verified = overlay(default_matrix(), load_verified(fleet.state_dir / "verified"))
    return verified.taught(learned_cells(lessons.operators, version))
