"""What it looks like from outside: views folded from events, and how to follow them."""

from .checkpoint import Parked
from .durable import DurableProjection
from .follow import Follow
from .messages import Conversation, Message, conversation, messages
from .projection import Projection, Unknown, project
from .rebuild import RebuildReport, rebuild
from .rows import RowProjection, Rows
from .runner import ProjectionRunner
from .status import ProjectionStatus, projection_status
from .thread_list import ThreadRow, thread_list
from .threads import RunView, ThreadView, Usage, thread_view, view_of
from .view import LiveRows, fold_rows

__all__ = [
    "Conversation",
    "DurableProjection",
    "Follow",
    "LiveRows",
    "Message",
    "Parked",
    "Projection",
    "ProjectionRunner",
    "ProjectionStatus",
    "RebuildReport",
    "RowProjection",
    "Rows",
    "RunView",
    "ThreadRow",
    "ThreadView",
    "Unknown",
    "Usage",
    "conversation",
    "fold_rows",
    "messages",
    "project",
    "projection_status",
    "rebuild",
    "thread_list",
    "thread_view",
    "view_of",
]
