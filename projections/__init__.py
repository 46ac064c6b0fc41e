"""What it looks like from outside: views folded from events, and how to follow them."""

from .follow import Follow
from .messages import Conversation, Message, conversation, messages
from .projection import Projection, project
from .threads import RunView, ThreadView, Usage, thread_view, view_of

__all__ = [
    "Conversation",
    "Follow",
    "Message",
    "Projection",
    "RunView",
    "ThreadView",
    "Usage",
    "conversation",
    "messages",
    "project",
    "thread_view",
    "view_of",
]
