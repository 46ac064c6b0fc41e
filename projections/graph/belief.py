"""What is believed of a fact, given all that was said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from .rows import FactRow, SayingRow, Span

__all__ = ["SPANS_MAX", "believed", "hear"]

SPANS_MAX = 100
"""How many times in which a fact was believed are kept; what was said is kept whole."""


def hear(fact: FactRow, saying: SayingRow) -> FactRow:
    """Return what is believed after one more saying: said again it weighs no less, ended it is kept as what was."""
    spans = list(fact.spans)
    if saying.kind == "said":
        if fact.holds:
            last = spans[-1]
            # What is known of its time is not made less by somebody who does not know it.
            valid_from = last.valid_from if saying.valid_from is None else saying.valid_from
            valid_to = last.valid_to if saying.valid_to is None else saying.valid_to
            spans[-1] = Span(last.learned_at, last.learned_from, valid_from, valid_to)
        else:
            spans.append(Span(saying.at, saying.source, saying.valid_from, saying.valid_to))
        predicate = fact.predicate if fact.said else saying.predicate
        weight = max(fact.weight, saying.weight)
        kept = spans[-SPANS_MAX:]
        return FactRow(fact.subject, predicate, fact.object, fact.scope, weight, fact.said + 1, saying.at, kept)
    if not fact.holds:
        return fact
    last = spans[-1]
    ends = saying.valid_to if last.valid_to is None or saying.valid_to is None else min(last.valid_to, saying.valid_to)
    spans[-1] = Span(last.learned_at, last.learned_from, last.valid_from, ends, saying.at, saying.source)
    return FactRow(fact.subject, fact.predicate, fact.object, fact.scope, fact.weight, fact.said, fact.said_at, spans)


def believed(fact: FactRow, sayings: Iterable[SayingRow]) -> FactRow:
    """Return what is believed when just these things were said, in their order."""
    heard = FactRow(fact.subject, fact.predicate, fact.object, fact.scope)
    for saying in sayings:
        heard = hear(heard, saying)
    return heard
