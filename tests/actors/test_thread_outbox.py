"""The outbox: what was sent and not yet delivered, in order for each receiver."""

from __future__ import annotations

from clew.actors import Effect
from clew.actors.outbox import Acknowledge, Deliver, Outbox, Outgoing, deliveries, evolve_outbox, sent
from clew.actors.outbox import acknowledge as decide_acknowledgement
from clew.actors.thread import ThreadState
from clew.actors.thread.state import effects
from clew.journal.facts import ErrorFact, MessageDelivered
from tests.actors.asks import acknowledge, complete_call, start_child
from tests.actors.story import cancel, decide, evolved, given, raw, start

A, B = Outgoing("account/a", "deposit", raw(1)), Outgoing("account/b", "deposit", raw(2))


def outbox(*messages: Outgoing) -> Outbox:
    reached = Outbox()
    for event in sent("m", messages, 1):
        reached = evolve_outbox(reached, event)
    return reached


def sending(thread: ThreadState) -> list[str]:
    return [effect.key for effect in effects(thread) if effect.key.startswith("send:")]


def test_the_oldest_message_to_each_receiver_is_on_its_way() -> None:
    assert deliveries(outbox(A, A, B, A, B)) == (
        Effect("send:m:0", Deliver("m:0", A)),
        Effect("send:m:2", Deliver("m:2", B)),
    )


def test_the_next_message_to_a_receiver_goes_when_the_one_before_was_delivered() -> None:
    thread = given(start(), complete_call(approval=None, messages=(A, B, A)))
    first = "r1/tool:pay:c1:0"
    assert sending(thread) == [f"send:{first}", "send:r1/tool:pay:c1:1"]

    events = decide(thread, acknowledge(first))

    assert events == (MessageDelivered(first, None, 6),)
    assert sending(evolved(thread, events)) == ["send:r1/tool:pay:c1:1", "send:r1/tool:pay:c1:2"]


def test_a_message_is_delivered_once() -> None:
    thread = given(start(), complete_call(approval=None, messages=(A,)), acknowledge("r1/tool:pay:c1:0"))

    assert decide(thread, acknowledge("r1/tool:pay:c1:0", at=9)) == ()
    assert decide(thread, acknowledge("never-sent")) == ()
    assert thread.outbox == Outbox()


def test_a_refusal_is_recorded_and_does_not_hold_up_what_follows() -> None:
    refused = ErrorFact("Overdrawn", "no money")

    events = decide_acknowledgement(outbox(A, A), Acknowledge("m:0", refused, 4))

    assert events == (MessageDelivered("m:0", refused, 4),)
    assert [effect.key for effect in deliveries(evolve_outbox(outbox(A, A), events[0]))] == ["send:m:1"]


def test_messages_are_delivered_also_after_the_run_that_sent_them_has_ended() -> None:
    thread = given(start(), complete_call(approval=None, messages=(A,)), cancel())

    assert sending(thread) == ["send:r1/tool:pay:c1:0"]
    assert [type(event) for event in decide(thread, acknowledge("r1/tool:pay:c1:0"))] == [MessageDelivered]


def test_a_child_is_cancelled_after_it_was_started_though_its_start_is_still_on_its_way() -> None:
    thread = given(start(), start_child(), cancel())

    assert sending(thread) == ["send:r1/tool:ask:c1/start"]
    after = evolved(thread, decide(thread, acknowledge("r1/tool:ask:c1/start")))
    assert sending(after) == ["send:r1/tool:ask:c1/cancel"]


def test_no_step_can_send_a_message_under_the_name_of_another_message() -> None:
    thread = given(start(), start_child("a"), complete_call("a/start", approval=None, messages=(B,)))

    assert list(thread.outbox.waiting) == ["r1/a/start", "r1/a/start:0"]
