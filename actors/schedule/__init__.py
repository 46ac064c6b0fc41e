"""What an actor does at a time, or again and again: when it is due, what is asked of it, what it decides."""

from .commands import CancelSchedule, Missed, Overlap, PauseSchedule, ResumeSchedule, SetSchedule
from .decide import SCHEDULES_MAX, cancel, pause, resume, set_schedule
from .firing import fire
from .spec import After, At, Cron, Every, Spec, after, at, cron, daily, every, hourly, monthly, weekly
from .state import Ended, Schedule, Schedules, due, evolve
from .view import ScheduleView, list_schedules

__all__ = [
    "SCHEDULES_MAX",
    "After",
    "At",
    "CancelSchedule",
    "Cron",
    "Ended",
    "Every",
    "Missed",
    "Overlap",
    "PauseSchedule",
    "ResumeSchedule",
    "Schedule",
    "ScheduleView",
    "Schedules",
    "SetSchedule",
    "Spec",
    "after",
    "at",
    "cancel",
    "cron",
    "daily",
    "due",
    "every",
    "evolve",
    "fire",
    "hourly",
    "list_schedules",
    "monthly",
    "pause",
    "resume",
    "set_schedule",
    "weekly",
]
