"""The agents of a system by name and as attributes: declared as a class, or listed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent

from clew.actors import ActorSystem, UnknownKind
from clew.actors.agent import AgentDefinition, AgentSet, define_agent, tool_step
from clew.actors.testing import agent_harness, final_turn, following_model, tool_call_turn
from clew.journal import MemoryJournal
from tests.actors.support import WAIT_S

ROOT = Path(__file__).parents[2]


class Plan(BaseModel):
    steps: list[str]


class Team(AgentSet):
    support = define_agent("support", model="test")
    desk = Agent("test", name="help-desk")
    _draft = define_agent("draft", model="test")
    motto = "be kind"


def make_seller(name: str = "seller") -> AgentDefinition[Any, str]:
    return define_agent(name, model="test")


@pytest.mark.requirement("L-DEF-12")
def test_a_class_of_agents_gives_them_as_attributes_and_by_the_names_they_are_recorded_under() -> None:
    with ActorSystem("memory:", agents=Team()) as system:
        answer = system.thread(system.agents.support, "t").run("Hello").result(timeout_s=WAIT_S)
        own = system.thread(system.agents.desk, "u").run("Hello").result(timeout_s=WAIT_S)

    assert (answer.stopped, own.stopped) == ("final", "final")
    assert system.agents.support is Team.support
    assert system.agents["support"] is Team.support
    assert system.agents["help-desk"].agent is Team.desk
    assert list(system.agents) == ["support", "help-desk"]
    assert system.agents.motto == "be kind"


@pytest.mark.requirement("L-DEF-12")
def test_types_of_agents_sets_threads_and_states_are_known_to_a_type_checker() -> None:
    command = [sys.executable, "-m", "pyright", "tests/typing"]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("L-DEF-12")
def test_a_list_of_agents_has_them_by_name_too() -> None:
    support, desk = define_agent("support", model="test"), Agent("test", name="help-desk")
    with ActorSystem("memory:", agents=[support, desk]) as system:
        agents: Any = system.agents

        assert agents["support"] is agents.support is support
        assert agents["help-desk"].agent is desk
        assert (len(agents), "support" in agents, "sales" in agents, agents.get("sales")) == (2, True, False, None)


@pytest.mark.parametrize("agents", [Team(), [Team.support, Team.desk]], ids=["set", "list"])
def test_an_unknown_name_is_answered_with_the_known_ones(agents: Any) -> None:
    with ActorSystem("memory:", agents=agents) as system:
        found: Any = system.agents
        with pytest.raises(UnknownKind, match=r"^'sales' is not registered \(registered: support, help-desk\)"):
            found["sales"]
        with pytest.raises(AttributeError, match="'sales' is not registered"):
            _ = found.sales
        assert not hasattr(found, "__deepcopy__")


def test_an_unknown_name_pickles_with_its_text() -> None:
    unknown = UnknownKind(name="a", known=("b",))

    error: Any = pickle.loads(pickle.dumps(unknown))  # noqa: S301  (our own bytes)

    assert str(error) == str(unknown)
    assert (type(error), error.name, error.known) == (UnknownKind, "a", ("b",))


def test_agents_that_need_something_are_made_when_the_set_is() -> None:
    class Shop(Team):
        def __init__(self, name: str) -> None:
            self.seller = make_seller(name)

    class Closed(Shop):
        support = None

    assert list(Shop("ann")) == ["support", "help-desk", "ann"]
    assert list(Closed("ann")) == ["help-desk", "ann"]
    assert repr(Shop("ann")) == "Shop(support, help-desk, ann)"


def test_one_set_serves_several_systems() -> None:
    team = Team()
    journal = MemoryJournal()
    for key in ("a", "b"):
        with ActorSystem(journal, agents=team) as system:
            system.thread(system.agents.support, key).run("Hello").result(timeout_s=WAIT_S)

    with ActorSystem(journal, agents=team) as system:
        assert system.thread(team.support, "a").view().runs[0].status == "done"


def test_two_agents_of_one_name_are_refused_in_a_set_as_in_a_list() -> None:
    class Twins(AgentSet):
        one = make_seller()
        two = make_seller()

    for agents in (Twins(), [make_seller(), make_seller()]):
        with pytest.raises(ValueError, match="two agents are named 'seller'"):
            ActorSystem("memory:", agents=agents)


def test_an_agent_that_would_hide_a_method_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match=r"Odd\.items hides a method of AgentSet"):

        class Odd(AgentSet):  # pyright: ignore[reportUnusedClass]
            items = make_seller()  # type: ignore[assignment]  # it is the mistake

    class Late(AgentSet):
        def __init__(self) -> None:
            self.values = make_seller()  # type: ignore[method-assign]  # it is the mistake

    with pytest.raises(TypeError, match=r"Late\.values hides a method of AgentSet"):
        ActorSystem("memory:", agents=Late())


@pytest.mark.parametrize(
    ("agents", "what"),
    [
        (Team, r"not a class: write Team\(\)"),
        (Team.support, "not AgentDefinition"),
        ("support", "not str"),
        (["support"], "not of str"),
    ],
)
def test_what_is_no_set_of_agents_is_refused(agents: Any, what: str) -> None:
    with pytest.raises(TypeError, match=what):
        ActorSystem("memory:", agents=agents)


def test_a_system_without_agents_does_not_import_pydantic_ai() -> None:
    program = (
        "import sys; from clew.actors import ActorSystem\n"
        "with ActorSystem('memory:') as system: assert len(system.agents) == 0 and not hasattr(system.agents, 'x')\n"
        "print('pydantic_ai' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


@pytest.mark.requirement("L-DEF-12")
def test_the_state_of_a_thread_is_what_its_agent_says() -> None:
    def begin() -> None:
        tool_step().set_state({"steps": ["pack"]})

    turns = [tool_call_turn("c1", "begin"), final_turn("done")]
    agent = define_agent("planner", model=following_model(turns), tools=[begin], state_type=Plan)
    with agent_harness(agent, turns) as harness:
        thread = harness.conversation()
        harness.run("Pack.")
        changes = iter(thread.watch_state(after=0))

        assert thread.state() == Plan(steps=["pack"])
        assert thread.state_json() == {"steps": ["pack"]}
        assert next(changes).value == Plan(steps=["pack"])


def test_where_the_state_is_a_schema_or_nothing_it_is_json() -> None:
    for type_ in (None, {"type": "object"}):
        agent = define_agent("planner", model="test", state_type=type_, initial_state={"steps": []})
        with ActorSystem("memory:", agents=[agent]) as system:
            thread = system.thread(agent, "t")
            thread.run("Hello").result(timeout_s=WAIT_S)

            assert thread.state() == thread.state_json() == {"steps": []}
