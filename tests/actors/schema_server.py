"""A server that gives away a JSON schema, to see that nobody fetches it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def schema_server() -> Generator[tuple[str, list[str]]]:
    """Give the address of a schema that takes anything, and the paths that were asked for."""
    asked: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/schema", asked
        finally:
            server.shutdown()
            thread.join()
