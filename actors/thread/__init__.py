"""What a conversation is: its commands, its state and what it decides."""

from .commands import (
    CancelRun,
    CompleteStep,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    ResumeRun,
    StartRun,
    ThreadCommand,
)
from .decide import thread_decider
from .state import DriveRun, RunState, RunStatus, ThreadState

__all__ = [
    "CancelRun",
    "CompleteStep",
    "DriveRun",
    "FailRun",
    "FailStep",
    "FinishRun",
    "HaltRun",
    "ResumeRun",
    "RunState",
    "RunStatus",
    "StartRun",
    "ThreadCommand",
    "ThreadState",
    "thread_decider",
]
