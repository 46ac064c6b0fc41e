"""Tools for testing your agents and actors: what our own tests use.

`agent_harness` runs an agent over the same loop as production, in memory, with a script in place of the model:

```python
with agent_harness(agent, [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3")]) as harness:
    answer = harness.run("what is 1 + 2?")
assert answer.stopped == "final"
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ..journal import Journal, MemoryJournal
from ..projections import ThreadView
from .agent import AgentDefinition, Answer, Thread
from .system import ActorSystem

__all__ = [
    "AgentHarness",
    "Script",
    "VirtualClock",
    "agent_harness",
    "final_turn",
    "invalid_for_provider",
    "scripted_model",
    "tool_call_turn",
    "tool_calls_turn",
]

D = TypeVar("D")
Out = TypeVar("Out")

Turn = ModelResponse | Exception | Callable[[list[ModelMessage], AgentInfo], ModelResponse]
"""One entry of a script: a response, an error to raise, or a function of what was asked."""

RESULT_TIMEOUT_S = 30.0


def tool_call_turn(id: str, name: str, input: dict[str, Any] | str | None = None, *, text: str = "") -> ModelResponse:  # noqa: A002  (the field's words)
    """Return a turn in which the model calls one tool."""
    said = [TextPart(text)] if text else []
    return ModelResponse([*said, ToolCallPart(name, input, tool_call_id=id)])


def tool_calls_turn(*calls: tuple[str, str, dict[str, Any] | str | None]) -> ModelResponse:
    """Return a turn in which the model calls several tools at once, each as `(id, name, input)`."""
    return ModelResponse([ToolCallPart(name, args, tool_call_id=id_) for id_, name, args in calls])


def final_turn(text: str) -> ModelResponse:
    """Return a turn in which the model answers."""
    return ModelResponse([TextPart(text)])


class Script:
    """The turns a scripted model takes, in order over all runs, and the requests it got."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = list(turns)
        self.requests: list[list[ModelMessage]] = []

    @property
    def calls(self) -> int:
        """How often the model was asked."""
        return len(self.requests)

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Take the next turn.

        Raises:
            AssertionError: the script is over.
        """
        taken = len(self.requests)
        self.requests.append(messages)
        if taken >= len(self._turns):
            raise AssertionError(f"the script has {len(self._turns)} turns, and the model was asked for one more")
        turn = self._turns[taken]
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, ModelResponse) else turn(messages, info)


def scripted_model(script: Script | Iterable[Turn], *, name: str = "script") -> FunctionModel:
    """Return a model that follows a script and is never a network."""
    return FunctionModel((script if isinstance(script, Script) else Script(script)).respond, model_name=name)


class AgentHarness(Generic[D, Out]):
    """An agent with a script for a model, over a journal in memory (or yours); a context manager."""

    def __init__(self, definition: AgentDefinition[D, Out], script: Script, journal: Journal | None) -> None:
        self.script = script
        self.journal = MemoryJournal() if journal is None else journal
        self.definition = replace(definition, model=scripted_model(script))
        self.system = ActorSystem(self.journal, agents=[self.definition])

    def run(
        self, prompt: str, *, thread: str = "test", owner: str | None = None, run_id: str | None = None
    ) -> Answer[Out]:
        """Run the agent to its end and return the answer; raises as `Run.result` does."""
        started = self.conversation(thread, owner=owner).run(prompt, run_id=run_id)
        return started.result(timeout_s=RESULT_TIMEOUT_S)

    def conversation(self, key: str = "test", *, owner: str | None = None) -> Thread[Out]:
        """Return a conversation with the agent."""
        return self.system.thread(self.definition, key, owner=owner)

    def thread(self, key: str = "test", *, owner: str | None = None) -> ThreadView:
        """Return a persisted thread at a glance."""
        return self.conversation(key, owner=owner).view()

    def messages(self, key: str = "test", *, owner: str | None = None) -> list[ModelMessage]:
        """Return what was said in a thread."""
        return self.conversation(key, owner=owner).messages()

    def restart(self) -> None:
        """Close the system and open it again over the same journal, as after a restart of the process."""
        self.system.close()
        self.system = ActorSystem(self.journal, agents=[self.definition])

    def __enter__(self) -> Self:
        """Return the harness."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the system."""
        self.system.close()


def agent_harness(
    agent: Agent[D, Out] | AgentDefinition[D, Out], script: Script | Iterable[Turn], *, journal: Journal | None = None
) -> AgentHarness[D, Out]:
    """Return a harness that runs `agent` with `script` in place of its model."""
    definition = agent if isinstance(agent, AgentDefinition) else AgentDefinition(agent=agent)
    return AgentHarness(definition, script if isinstance(script, Script) else Script(script), journal)


class VirtualClock:
    """A clock that moves only when told to, in nanoseconds; it can step back, as real ones do."""

    def __init__(self, start: int = 1_767_225_600_000_000_000) -> None:
        self.now = start

    def __call__(self) -> int:
        """Return the present time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move it on, or back."""
        self.now += round(seconds * 1e9)


def invalid_for_provider(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what a strict model provider would refuse in a request; nothing when it is fine.

    Every tool call has exactly one result, in the next request; ids are unique; no text is empty; arguments are JSON
    objects; the conversation begins and ends with a request.
    """
    wrong: list[str] = []
    if not messages or not isinstance(messages[0], ModelRequest) or not isinstance(messages[-1], ModelRequest):
        wrong.append("the conversation does not begin and end with a request")
    seen: set[str] = set()
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            wrong += [f"message {index}: {text}" for text in _wrong_request(message, open_calls)]
            open_calls = []
            continue
        if open_calls:
            wrong.append(f"message {index}: calls {open_calls} have no result before it")
        open_calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        wrong += [f"message {index}: {text}" for text in _wrong_response(message, seen)]
        seen.update(open_calls)
    return wrong + ([f"calls {open_calls} have no result"] if open_calls else [])


def _wrong_request(message: ModelRequest, open_calls: list[str]) -> list[str]:
    results = [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
    wrong = [] if results == open_calls else [f"results {results} for calls {open_calls}"]
    if any(isinstance(part, UserPromptPart) and part.content == "" for part in message.parts):
        wrong.append("an empty user prompt")
    return wrong


def _wrong_response(message: ModelResponse, seen: set[str]) -> list[str]:
    wrong = [] if message.parts else ["an empty response"]
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    ids = [part.tool_call_id for part in calls]
    if len(set(ids)) != len(ids) or seen & set(ids):
        wrong.append(f"call ids {ids} are not unique")
    if any(not id_ for id_ in ids):
        wrong.append("an empty call id")
    if any(isinstance(part, TextPart) and not part.content.strip() for part in message.parts):
        wrong.append("an empty text")
    wrong += [f"arguments of {part.tool_call_id} are not a JSON object" for part in calls if not _is_object(part.args)]
    return wrong


def _is_object(args: object) -> bool:
    if args is None or isinstance(args, dict):
        return True
    try:
        return isinstance(msgspec.json.decode(args), dict) if isinstance(args, str) else False
    except msgspec.MsgspecError:
        return False
