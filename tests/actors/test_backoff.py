"""Who is to rest does so, longer each time, and no longer than that."""

from __future__ import annotations

from clew.actors.backoff import FIRST, LONGEST, Backoff


def test_a_rest_is_twice_as_long_as_the_last_for_the_same_due_up_to_the_longest() -> None:
    backoff, at, lengths = Backoff(), 0, list[int]()
    for _ in range(12):
        backoff.begin("a/1", 7, at)
        end = backoff.next_end()
        assert end is not None
        lengths.append(end - at)
        assert (backoff.holds("a/1", 7, end - 1), backoff.holds("a/1", 7, end)) == (True, False)
        assert (backoff.ended(end - 1), backoff.ended(end), backoff.ended(end)) == (None, ("a/1", 7), None)
        at = end

    assert lengths == [min(FIRST * 2**n, LONGEST) for n in range(12)]


def test_another_due_or_another_actor_does_not_rest_and_begins_anew() -> None:
    backoff = Backoff()
    backoff.begin("a/1", 7, 0)
    backoff.begin("a/1", 7, FIRST)

    assert not backoff.holds("a/1", 8, FIRST)
    assert not backoff.holds("a/2", 7, FIRST)
    backoff.begin("a/1", 8, FIRST)
    assert backoff.next_end() == 2 * FIRST


def test_who_is_forgotten_rests_no_more() -> None:
    backoff = Backoff()
    backoff.begin("a/1", 7, 0)
    backoff.begin("a/2", 7, 5)

    backoff.forget("a/1")
    backoff.forget("a/3")

    assert not backoff.holds("a/1", 7, 0)
    assert backoff.next_end() == FIRST + 5
    assert (backoff.ended(LONGEST), backoff.ended(LONGEST)) == (("a/2", 7), None)


def test_a_clock_that_is_put_back_makes_no_rest_longer() -> None:
    backoff = Backoff()
    for _ in range(3):
        backoff.begin("a/1", 7, 1000 * FIRST)
    backoff.begin("a/2", 7, 2000 * FIRST)

    backoff.step_back(10)

    assert backoff.next_end() == 10 + FIRST
    assert backoff.ended(10 + FIRST) == ("a/2", 7)
    assert backoff.next_end() == 10 + 4 * FIRST
