"""What it looks like from outside: views folded from events, and how to follow them."""

from .approvals import InboxRow, PendingApproval, approvals_inbox, pending_approvals
from .asked import ApprovalView, ChildView
from .checkpoint import Parked
from .conversation_view import ThreadView
from .durable import DurableProjection
from .follow import Follow
from .messages import AWAITS_DECISION, Conversation, Message, conversation, messages
from .projection import Projection, Unknown, project
from .rebuild import RebuildReport, rebuild
from .rows import RowProjection, Rows
from .runner import ProjectionRunner
from .runs import RunView, WaitView
from .spending import ByModel, Spending, SpendingRow, spending, spending_rows
from .status import ProjectionStatus, projection_status
from .thread_list import ThreadRow, thread_list
from .threads import thread_view, view_of
from .usage import Usage
from .view import LiveRows, fold_rows

__all__ = [
    "AWAITS_DECISION",
    "ApprovalView",
    "ByModel",
    "ChildView",
    "Conversation",
    "DurableProjection",
    "Follow",
    "InboxRow",
    "LiveRows",
    "Message",
    "Parked",
    "PendingApproval",
    "Projection",
    "ProjectionRunner",
    "ProjectionStatus",
    "RebuildReport",
    "RowProjection",
    "Rows",
    "RunView",
    "Spending",
    "SpendingRow",
    "ThreadRow",
    "ThreadView",
    "Unknown",
    "Usage",
    "WaitView",
    "approvals_inbox",
    "conversation",
    "fold_rows",
    "messages",
    "pending_approvals",
    "project",
    "projection_status",
    "rebuild",
    "spending",
    "spending_rows",
    "thread_list",
    "thread_view",
    "view_of",
]
