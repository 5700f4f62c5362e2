"""Who does the sums over documents."""

from momentopic.engine.base import Engine, OrderedSum, get_engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import ThreadEngine, available_cores

__all__ = ["Engine", "OrderedSum", "ThreadEngine", "available_cores", "get_engine", "single_threaded_blas"]
