"""Results of tools that were too long for a model, kept whole.

Names, versions and fields are stored for ever. Times are nanoseconds since the epoch, UTC.
"""

from __future__ import annotations

import msgspec

from ..event import event

__all__ = ["ARTIFACT_EVENTS", "ArtifactEvent", "ArtifactStored"]


@event("artifact.stored", version=1)
class ArtifactStored(msgspec.Struct, frozen=True):
    """A step's result was too long for the model, which got its beginning; `content` is the whole of it.

    Recorded in one append with the step's result, which names the `id`: one of its own within the thread.
    """

    run: str
    step: str
    id: str
    content: msgspec.Raw
    at: int


ArtifactEvent = ArtifactStored

ARTIFACT_EVENTS = (ArtifactStored,)
