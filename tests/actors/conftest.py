"""What tests of actors ask for."""

import pytest

from tests.actors.support import Workers


@pytest.fixture
def workers() -> Workers:
    return Workers()
