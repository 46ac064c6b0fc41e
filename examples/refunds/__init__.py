"""A refund desk: money goes out only when a manager has approved it, and once, whatever dies in between.

    ledger = open_ledger("ledger.sqlite")
    agent = build_refunds(ledger)
    with ActorSystem("./data", agents=[agent]) as system:
        system.thread(agent, "order-7").run(prompt_of("refund", "order-7", 1250), run_id="order-7").started()
        [asked] = system.approvals(by=MANAGER).pending()
        system.approvals(by=MANAGER).approve(asked.id).get()

Two tools move money. `refund` passes its idempotency key on to the ledger, so it may run again after a crash.
`pay_cash` has nowhere to put a key, so it runs once at the most; where nobody knows whether it did, somebody looks and
settles it.
"""

from .agent import MANAGER, Way, build_refunds, prompt_of, rules
from .ledger import Ledger, Movement, open_ledger

__all__ = ["MANAGER", "Ledger", "Movement", "Way", "build_refunds", "open_ledger", "prompt_of", "rules"]
