"""What a schedule does: start a run of an agent, or send a command to an actor. Stored for ever: only add fields."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from ..errors import InvalidSchedule

__all__ = ["TICK_ID_LENGTH_MAX", "Action", "RunAction", "SendAction", "action_of", "tick_id"]

TICK_ID_LENGTH_MAX: Final = 128
"""Characters of a tick's id, which is a run id, and what of them stands behind the name: a digest and a time."""

_BEHIND: Final = len("~01234567@") + 19


class RunAction(msgspec.Struct, frozen=True, tag_field="kind", tag="run"):
    """Start a run of an agent.

    In `thread` (a key), or in a new thread for each tick; as `owner`. The rest is as for `StartRun`, times in ns.
    """

    agent: str
    prompt: msgspec.Raw
    thread: str | None = None
    owner: str | None = None
    title: str | None = None
    queue_max: int = 5
    queue_for: int = 43_200_000_000_000
    timeout: int | None = None
    state: msgspec.Raw = msgspec.Raw(b"null")


class SendAction(msgspec.Struct, frozen=True, tag_field="kind", tag="send"):
    """Send a command to an actor: its stream, the name its kind knows the command by, and the command's fields."""

    to: str
    command: str
    payload: msgspec.Raw


Action = RunAction | SendAction

_ACTIONS: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)


def action_of(name: str, action: msgspec.Raw) -> Action:
    """Return the action of a schedule.

    Raises:
        InvalidSchedule: it is none.
    """
    try:
        return _ACTIONS.decode(action)
    except msgspec.MsgspecError as error:
        reason = f"its action cannot be read: {error}. Set it with a prompt or a command."
        raise InvalidSchedule(schedule=f"schedule {name!r}", reason=reason) from error


def tick_id(name: str, due: int, *, of: str | None = None) -> str:
    """Return the id of the run that a tick starts: the same one, however often the tick is handled.

    It is `NAME@DUE`, and `AGENT:NAME@DUE` for a schedule `of` an agent, so that two agents can share a name and a
    thread. A name that does not fit into a run id is shortened, and told from others by its digest.

    >>> tick_id("tick", 30)
    'tick@30'
    >>> tick_id("eu/daily", 30, of="reporter")
    'reporter:eu:daily~cba12f89@30'
    """
    before = "" if of is None else f"{of}:"
    shown = name.replace("/", ":")[: TICK_ID_LENGTH_MAX - len(before) - _BEHIND]
    if shown != name:
        shown = f"{shown}~{sha256(name.encode()).hexdigest()[:8]}"
    return f"{before}{shown}@{due}"
