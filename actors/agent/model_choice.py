"""Which models an agent may use: one, several where the next takes over for one that fails, and others by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.fallback import FallbackModel

__all__ = ["ModelChoice", "model_of", "named_models"]

ModelChoice = Model | str | Sequence[Model | str]
"""A model, the name of one, or several in order: where one fails to answer, the next is asked, in the same step."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def model_of(agent: str, choice: ModelChoice) -> Model | str:
    """Return a chosen model: of several, one that asks the next where one fails.

    Raises:
        ValueError: there is none, or a name is that of no model.
        TypeError: it is no model and no name.
    """
    if isinstance(choice, Model | str):
        return choice
    if isinstance(cast("object", choice), Sequence):
        if not choice:
            raise ValueError(f"agent {agent!r}: the list of its models is empty")
        models = [_known(agent, one) for one in choice]
        return models[0] if len(models) == 1 else FallbackModel(models[0], *models[1:])
    raise TypeError(f"agent {agent!r}: a model is a model, the name of one, or a list of them, not {choice!r}")


def named_models(agent: str, models: Mapping[str, ModelChoice] | None) -> dict[str, Model]:
    """Return the models that a turn of the agent may be taken with, by the names it knows them by.

    Raises:
        ValueError, TypeError: a name or a model is wrong; says which.
    """
    if not isinstance(cast("object", models), Mapping | None):
        raise TypeError(f"agent {agent!r}: models is a mapping of names to models, not {models!r}")
    named: dict[str, Model] = {}
    for name, choice in (models or {}).items():
        if not _NAME.fullmatch(name) or name == "default":
            raise ValueError(
                f"agent {agent!r}: a model is named with letters, digits, '_', '.' and '-', and not 'default'; "
                f"not {name!r}"
            )
        named[name] = _known(agent, model_of(agent, choice))
    return named


def _known(agent: str, choice: Model | str) -> Model:
    if isinstance(choice, Model):
        return choice
    if not isinstance(cast("object", choice), str):
        raise TypeError(f"agent {agent!r}: a model is a model or the name of one, not {choice!r}")
    try:
        return infer_model(choice)
    except Exception as error:
        raise ValueError(f"agent {agent!r}: model {choice!r} cannot be used: {error}") from error
