"""Durable agents: pydantic-ai's loop, with every step in the journal."""

from ..agent_set import AgentSet
from ..functions import Function, define_function, function
from .approval import Decision
from .artifacts import ResultCap
from .budget import Budget
from .cancelling import CancelOutcome
from .code_tool import code_tool
from .compaction import Compaction
from .decision import Approve, DecidedApproval, PendingApproval, Reject
from .define import AgentOptions, define_agent
from .definition import AgentDefinition, StepFinished, register
from .delegate import agent_as_tool
from .deltas import Deltas
from .durability import DurableSteps
from .function_tool import function_tool
from .handle import Thread
from .inbox import Approvals
from .json_output import json_output
from .kind import agent_kind
from .knowledge import Knowledge, Passage
from .live_turns import Delta
from .options import DEFAULT_ATTEMPTS, tool_options
from .preparing import TurnChange, TurnStart
from .repairing import BrokenCall
from .replay import Replayed, ReplayedRun, replay
from .run import Answer, Run
from .schema_tool import ToolOptions, define_agent_tool
from .sealing import Seal, Unreadable
from .settlement import ApprovalSettlement
from .skill_markdown import skill_from_markdown
from .skills import Skill, define_skill
from .state_changes import StateChange, StateChanges
from .stopping import (
    CallMade,
    LoopState,
    TurnTaken,
    all_of,
    any_of,
    cost_budget,
    has_tool_call,
    token_budget,
    turn_count,
)
from .subscription import Seen, Subscription
from .tool_step import RunNow, ToolStep, this_run, tool_step

__all__ = [
    "DEFAULT_ATTEMPTS",
    "AgentDefinition",
    "AgentOptions",
    "AgentSet",
    "Answer",
    "ApprovalSettlement",
    "Approvals",
    "Approve",
    "BrokenCall",
    "Budget",
    "CallMade",
    "CancelOutcome",
    "Compaction",
    "DecidedApproval",
    "Decision",
    "Delta",
    "Deltas",
    "DurableSteps",
    "Function",
    "Knowledge",
    "LoopState",
    "Passage",
    "PendingApproval",
    "Reject",
    "Replayed",
    "ReplayedRun",
    "ResultCap",
    "Run",
    "RunNow",
    "Seal",
    "Seen",
    "Skill",
    "StateChange",
    "StateChanges",
    "StepFinished",
    "Subscription",
    "Thread",
    "ToolOptions",
    "ToolStep",
    "TurnChange",
    "TurnStart",
    "TurnTaken",
    "Unreadable",
    "agent_as_tool",
    "agent_kind",
    "all_of",
    "any_of",
    "code_tool",
    "cost_budget",
    "define_agent",
    "define_agent_tool",
    "define_function",
    "define_skill",
    "function",
    "function_tool",
    "has_tool_call",
    "json_output",
    "register",
    "replay",
    "skill_from_markdown",
    "this_run",
    "token_budget",
    "tool_options",
    "tool_step",
    "turn_count",
]
