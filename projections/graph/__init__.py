"""The graph that the memory of an owner is: entities, what is said of them, by whom, and for which time."""

from .projection import graph
from .read import Counts, EntityView, FactView, Graph, Saying, Subgraph, Triple
from .rows import Span

__all__ = ["Counts", "EntityView", "FactView", "Graph", "Saying", "Span", "Subgraph", "Triple", "graph"]
