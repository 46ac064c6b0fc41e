"""Durable agents: pydantic-ai's loop, with every step in the journal."""

from .definition import AgentDefinition, StepFinished, define_agent, register
from .drive import agent_kind
from .durability import DurableSteps
from .handle import Answer, Run, Thread
from .options import DEFAULT_ATTEMPTS, tool_options
from .replay import Replayed, ReplayedRun, replay
from .tool_step import RunNow, ToolStep, this_run, tool_step

__all__ = [
    "DEFAULT_ATTEMPTS",
    "AgentDefinition",
    "Answer",
    "DurableSteps",
    "Replayed",
    "ReplayedRun",
    "Run",
    "RunNow",
    "StepFinished",
    "Thread",
    "ToolStep",
    "agent_kind",
    "define_agent",
    "register",
    "replay",
    "this_run",
    "tool_options",
    "tool_step",
]
