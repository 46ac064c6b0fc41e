"""The tool calls that wait for people: found in the threads they are in, shown, and decided."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from ...journal import encode_exact
from ...journal.facts import ApprovalRequested
from ...projections import ApprovalView, ChildView, ThreadView, view_of
from ..errors import AlreadyDecided, InvalidArguments, InvalidDecision, UnknownApproval, UnknownKind
from ..ref import ActorRef
from ..reply import Reply, translated
from ..thread import AGENT, Approval, ResolveApproval, ThreadCommand, ThreadState, approval_key
from .approval import approval_step, fingerprint_of, place_of_approval
from .decision import Approve, DecidedApproval, PendingApproval, Reject, global_id
from .edited import wrong_arguments
from .recorded_run import CATALOG
from .sealing import Unreadable

if TYPE_CHECKING:
    from ...projections import PendingApproval as InboxEntry
    from ..system import ActorSystem

__all__ = ["Place", "Questions"]

log = logging.getLogger("clew")


class Place(NamedTuple):
    """Where an approval is, and what whoever asks for it calls it."""

    id: str
    stream: str
    run: str
    step: str


class Questions:
    """The questions of the threads of a system.

    Who may decide one is up to the `approvers` of its agent; without any, it is the thread's owner, and whoever comes
    where the thread has none. An agent never decides. To those who may not, a question does not exist.
    """

    def __init__(self, system: ActorSystem) -> None:
        self._system = system

    def of_thread(self, stream: str) -> list[PendingApproval]:
        """Return what waits for a decision in a thread, and in those of its runs' children."""
        view = self._view(stream)
        found = [self._seen(Place(asked.id, stream, asked.run, asked.step), view, asked) for asked in view.pending]
        for child, under, path in self._children(view, None, (), ended=False):
            found += [
                self._seen(_elsewhere(child, asked.step), under, asked, path)
                for asked in under.pending
                if asked.run == child.child_run
            ]
        return [asked for asked in found if asked.expires_at > self._system.clock()]

    def is_under(self, stream: str, place: Place) -> bool:
        """Whether an approval is one of a run that a thread asked for, itself or through others."""
        children = self._children(self._view(stream), None, (), ended=True)
        return any((child.thread, child.child_run) == (place.stream, place.run) for child, _, _ in children)

    def of_all(self, entries: Iterator[InboxEntry], by: str | None) -> list[PendingApproval]:
        """Return those of the entries of the inbox that somebody may decide."""
        found: list[PendingApproval] = []
        for entry in entries:
            if self._system.journal.head(entry.thread).deleted:
                # Its thread was archived as it was; nobody can decide anything in it until it is back.
                continue
            place = Place(global_id(entry.thread, entry.run, entry.step), entry.thread, entry.run, entry.step)
            seen = self._show(place, entry.agent, entry, ())
            if seen.expires_at > self._system.clock() and self._may_decide(seen, entry.owner, by):
                found.append(seen)
        return found

    def decide(self, place: Place, decision: Approve | Reject, by: str | None) -> Reply[DecidedApproval]:
        """Decide; see `Thread.decide`."""
        stream, run, step = place.stream, place.run, place.step
        _check(stream, decision)
        events = list(self._system.journal.read(stream))
        view = view_of(events)
        asked = view.approval(run, step)
        if asked is None:
            raise UnknownApproval(thread=stream, approval=place.id)
        seen = self._seen(place, view, asked)
        if not self._may_decide(seen, view.owner, by):
            if seen.agent not in self._system.agents and by == view.owner:
                raise UnknownKind(name=seen.agent, known=tuple(self._system.agents))
            raise UnknownApproval(thread=stream, approval=place.id)
        command = ResolveApproval(run, step, "approved", by, "", self._system.clock())
        if isinstance(decision, Reject):
            command = msgspec.structs.replace(command, decision="rejected", reason=decision.reason)
        elif decision.arguments is not None:
            question = next(
                event
                for recorded in events
                if isinstance(event := CATALOG.decode(recorded), ApprovalRequested)
                and (event.run, event.step) == (run, step)
            )
            edited, fingerprint = self._edited(place, seen, question, decision.arguments)
            command = msgspec.structs.replace(command, arguments=edited, fingerprint=fingerprint)
        if asked.decision is not None:
            # It is final, so what is seen of it is true, also of one that its thread has long forgotten.
            return _told(_decided(place, asked), command, edited=bytes(asked.edited) != b"null")
        ref: ActorRef[ThreadCommand, ThreadState] = ActorRef(self._system, stream)

        def answer(thread: ThreadState) -> DecidedApproval:
            decided = thread.approvals[approval_key(run, step)]
            return _same(_decided(place, decided), command, edited=decided.edited)

        return translated(ref.ask(command), answer)

    def _edited(
        self, place: Place, seen: PendingApproval, asked: ApprovalRequested, arguments: Mapping[str, Any]
    ) -> tuple[msgspec.Raw, str]:
        """Return edited arguments as they are stored, and what stands for the call with them."""
        definition = self._system.agents[seen.agent]
        what = f"the arguments of {asked.tool} for approval {place.id}"
        held = cast("dict[str, Any]", msgspec.json.decode(encode_exact(dict(arguments), what=what)))
        is_call = asked.step == approval_step(asked.call)
        wrong = (
            wrong_arguments(definition.agent, asked.tool, held, call=asked.call)
            if is_call
            else ("$", "a question has none to edit")
        )
        if wrong is not None:
            raise InvalidArguments(
                thread=place.stream, approval=place.id, tool=asked.tool, path=wrong[0], reason=wrong[1]
            )
        stored = definition.terms.seal.close(held, place_of_approval(place.stream, place.run, place.step, edited=True))
        return stored, fingerprint_of(asked.tool, held, asked.principal, asked.policy)

    def _may_decide(self, seen: PendingApproval, owner: str | None, by: str | None) -> bool:
        definition = self._system.agents.get(seen.agent)
        if definition is None or (by is not None and by.startswith(AGENT)):
            return False
        if definition.approvers is None:
            return owner is None or by == owner
        try:
            return definition.approvers(seen, by) is True
        except Exception:  # it decides about people, not about the system; who is not admitted is not
            log.exception("approvers of agent %s raised about %s; nobody was admitted", seen.agent, seen.id)
            return False

    def _view(self, stream: str) -> ThreadView:
        return view_of(self._system.journal.read(stream))

    def _children(
        self, view: ThreadView, run: str | None, path: tuple[str, ...], *, ended: bool
    ) -> Iterator[tuple[ChildView, ThreadView, tuple[str, ...]]]:
        """Yield the runs that a thread (or one run of it) asked for and those that they did, with their threads.

        Those that have `ended` too, or only those that are under way.
        """
        for child in view.children:
            if run in (None, child.run) and (ended or child.status == "running"):
                way, under = (*path, f"{child.run}/{child.step}"), self._view(child.thread)
                yield child, under, way
                yield from self._children(under, child.child_run, way, ended=ended)

    def _seen(self, place: Place, view: ThreadView, asked: ApprovalView, path: tuple[str, ...] = ()) -> PendingApproval:
        return self._show(place, view.known_run(asked.run).agent, asked, path)

    def _show(
        self, place: Place, agent: str, asked: ApprovalView | InboxEntry, path: tuple[str, ...]
    ) -> PendingApproval:
        return PendingApproval(
            id=place.id,
            thread=place.stream.partition("/")[2],
            run=asked.run,
            agent=agent,
            tool=asked.tool,
            arguments=self._arguments(place, agent, asked.arguments),
            fingerprint=asked.fingerprint,
            principal=asked.principal,
            asked_at=asked.asked_at,
            expires_at=asked.expires_at,
            path=path,
        )

    def _arguments(self, place: Place, agent: str, stored: msgspec.Raw) -> object:
        definition = self._system.agents.get(agent)
        if definition is None:
            return None
        try:
            return definition.terms.seal.open(stored, place_of_approval(place.stream, place.run, place.step))
        except Unreadable:
            return None


def _elsewhere(child: ChildView, step: str) -> Place:
    return Place(global_id(child.thread, child.child_run, step), child.thread, child.child_run, step)


def _check(stream: str, decision: object) -> None:
    """Refuse whatever is not exactly a decision: what only looks like one must let nothing run."""
    if type(decision) is Reject and isinstance(cast("object", decision.reason), str):
        return
    if type(decision) is Approve and isinstance(cast("object", decision.arguments), Mapping | None):
        return
    raise InvalidDecision(thread=stream, decision=repr(decision))


def _decided(place: Place, asked: ApprovalView | Approval) -> DecidedApproval:
    return DecidedApproval(
        id=place.id,
        thread=place.stream.partition("/")[2],
        run=place.run,
        decision=asked.decision or "",
        by=asked.by,
        reason=asked.reason,
        fingerprint=asked.fingerprint,
        outcome=asked.outcome,
    )


def _told(decided: DecidedApproval, command: ResolveApproval, *, edited: bool) -> Reply[DecidedApproval]:
    reply: Reply[DecidedApproval] = Reply()
    try:
        reply.set(_same(decided, command, edited=edited))
    except AlreadyDecided as error:
        reply.fail(error)
    return reply


def _same(decided: DecidedApproval, command: ResolveApproval, *, edited: bool) -> DecidedApproval:
    """Return what was decided, if it is what was asked for; another decision, or none in time, came first otherwise."""
    same = not edited if command.fingerprint is None else command.fingerprint == decided.fingerprint
    if same and decided.decision == command.decision:
        return decided
    raise AlreadyDecided(
        thread=f"thread/{decided.thread}", approval=decided.id, decision=decided.decision, by=decided.by
    )
