"""An analyst over a small shop's books: its model composes queries into scripts, and people approve what is published.

    books = open_books("books.sqlite")
    agent = build_analyst(books)
    with ActorSystem("./data", agents=[agent]) as system:
        thread = system.thread(agent, "turnover", owner="ann")
        run = thread.run("What did our customers in Graz buy, and is it worth a report?")
        ...
        thread.approve(asked.id).get()
        print(run.result().output)

One turn of the model finds a customer, reads the orders, adds them up and publishes the sum; each call is a step of its
own, and the script waits at the one that needs approval.
"""

from .agent import build_analyst, rules
from .books import Books, open_books

__all__ = ["Books", "build_analyst", "open_books", "rules"]
