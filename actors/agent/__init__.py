"""Durable agents: pydantic-ai's loop, with every step in the journal."""

from .approval import Decision
from .cancelling import CancelOutcome
from .decision import Approve, DecidedApproval, PendingApproval, Reject
from .define import AgentOptions, define_agent
from .definition import AgentDefinition, StepFinished, register
from .delegate import agent_as_tool
from .deltas import Deltas
from .durability import DurableSteps
from .handle import Thread
from .inbox import Approvals
from .kind import agent_kind
from .live_turns import Delta
from .options import DEFAULT_ATTEMPTS, tool_options
from .replay import Replayed, ReplayedRun, replay
from .run import Answer, Run
from .sealing import Seal, Unreadable
from .settlement import ApprovalSettlement
from .state_changes import StateChange, StateChanges
from .subscription import Seen, Subscription
from .tool_step import RunNow, ToolStep, this_run, tool_step

__all__ = [
    "DEFAULT_ATTEMPTS",
    "AgentDefinition",
    "AgentOptions",
    "Answer",
    "ApprovalSettlement",
    "Approvals",
    "Approve",
    "CancelOutcome",
    "DecidedApproval",
    "Decision",
    "Delta",
    "Deltas",
    "DurableSteps",
    "PendingApproval",
    "Reject",
    "Replayed",
    "ReplayedRun",
    "Run",
    "RunNow",
    "Seal",
    "Seen",
    "StateChange",
    "StateChanges",
    "StepFinished",
    "Subscription",
    "Thread",
    "ToolStep",
    "Unreadable",
    "agent_as_tool",
    "agent_kind",
    "define_agent",
    "register",
    "replay",
    "this_run",
    "tool_options",
    "tool_step",
]
