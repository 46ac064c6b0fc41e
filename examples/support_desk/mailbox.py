"""Reads customer mails from an mbox file, however oddly they were written."""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from html.parser import HTMLParser
from mailbox import mbox
from pathlib import Path
from typing import Final

_ADDRESS: Final = r"[^\s<>()\"',;:@]+@[^\s<>()\"',;:@]+"


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail as a person would read it, decoded.

    `id` is fit to name a conversation: the Message-ID if it is a plain one, else a digest of the mail. The
    same mail has the same id at every reading. `sent_at` is `None` when the mail has no readable date.
    """

    id: str
    sender: str
    subject: str
    text: str
    sent_at: datetime | None


def default_mailbox() -> Path:
    """Give the mailbox that comes with this example."""
    return Path(__file__).with_name("mailbox.mbox")


def read_mailbox(path: Path | str, *, mails_max: int = 10_000) -> list[Mail]:
    """Read all mails of an mbox file, in its order.

    A malformed mail is read as far as it goes; it never stops the others.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds more than `mails_max` mails; split it, or allow more.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such mailbox. Give the path of a file in mbox form.")
    box = mbox(path, create=False)
    try:
        if len(box) > mails_max:
            raise ValueError(f"{path}: {len(box)} mails, but at most {mails_max}. Split it, or raise mails_max.")
        return [_parse(box.get_bytes(key)) for key in box.iterkeys()]
    finally:
        box.close()


def prompt_of(mail: Mail, *, chars_max: int = 20_000) -> str:
    """Write a mail as the user prompt of a run: its headers, an empty line, its text.

    Longer than `chars_max` it is cut there, and a last line says so.
    """
    sent = mail.sent_at.isoformat(sep=" ") if mail.sent_at else "unknown"
    prompt = f"From: {mail.sender}\nSubject: {mail.subject}\nDate: {sent}\n\n{mail.text}"
    if len(prompt) <= chars_max:
        return prompt
    return f"{prompt[:chars_max]}\n[cut here: the mail goes on for {len(prompt) - chars_max} characters]"


def _parse(raw: bytes) -> Mail:
    message = message_from_bytes(raw)
    # The first of each counts. `raw_items` gives them undecoded, where `message[...]` may fail on a bad one.
    headers = {name.lower(): _characters(value) for name, value in reversed(list(message.raw_items()))}
    return Mail(
        id=_id(headers.get("message-id", ""), raw),
        sender=_sender(headers.get("from", "")),
        subject=_decoded(headers.get("subject", "")),
        text=_text(message),
        sent_at=_date(headers.get("date", "")),
    )


def _id(message_id: str, raw: bytes) -> str:
    plain = re.fullmatch(r"\s*<([A-Za-z0-9._@+=-]{3,120})>\s*", message_id)
    return plain[1] if plain else f"mail-{hashlib.sha256(raw).hexdigest()[:32]}"


def _sender(header: str) -> str:
    # Split before decoding, so that an encoded name cannot smuggle in another address.
    name, address = parseaddr(header)
    if not re.fullmatch(_ADDRESS, address):
        found = re.search(_ADDRESS, header)
        name, address = (header[: found.start()], found[0]) if found else (header, "")
    shown = re.sub(r"[<>\"]", "", _decoded(name)).strip()
    return f"{shown} <{_decoded(address).lower()}>".strip() if address else shown or "unknown"


def _date(header: str) -> datetime | None:
    try:
        sent_at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return sent_at if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)


def _decoded(header: str) -> str:
    # A broken encoded word is shown as it was written.
    with suppress(ValueError, LookupError, MessageError):
        header = str(make_header(decode_header(header)))
    # One line, whatever was encoded in it: a line of a prompt must not be forged by a header.
    return " ".join(_storable(header).split())


def _characters(header: str) -> str:
    # The parser keeps bytes beyond ASCII as surrogates.
    return _guessed(header.encode("ascii", "surrogateescape"))


def _guessed(raw: bytes) -> str:
    # Of no known charset: mostly it is UTF-8, and Latin-1 can always be read.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _storable(text: str) -> str:
    # A few odd charsets decode to lone surrogates, which no file and no database would take.
    return text.encode("utf-8", "replace").decode()


def _text(message: Message) -> str:
    plain: list[str] = []
    html: list[str] = []
    files: list[str] = []
    for part in message.walk():
        if part.is_multipart():
            continue
        kind, name = part.get_content_type(), part.get_filename()
        attached = name or part.get_content_disposition() == "attachment"
        # A multipart mail without its boundary is read as plain text.
        if attached or not kind.startswith(("text/", "multipart/")):
            files.append(f"[attachment: {_decoded(name or 'unnamed')}, {kind}]")
        elif kind == "text/html":
            html.append(_without_tags(_content(part)))
        else:
            plain.append(_content(part))
    # An HTML part beside a plain one says the same again.
    texts = plain if any(text.strip() for text in plain) else html
    return "\n\n".join(text.strip() for text in (*texts, *files) if text.strip())


def _content(part: Message) -> str:
    payload: object = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    try:
        text = raw.decode(part.get_content_charset() or "", "replace")
    except (LookupError, ValueError):
        text = _guessed(raw)
    # The mbox form writes ">From " for a line of the mail that starts with "From ".
    return re.sub(r"^>From ", "From ", _storable(text).replace("\r\n", "\n"), flags=re.MULTILINE)


class _Words(HTMLParser):
    """Collects what a reader of a page would see."""

    HIDDEN: Final = frozenset({"script", "style", "title"})
    BREAKS: Final = frozenset({"p", "br", "div", "li", "tr", "h1", "h2", "h3", "blockquote"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self._hidden += tag in self.HIDDEN
        if tag in self.BREAKS:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self.HIDDEN))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(re.sub(r"\s+", " ", data))


def _without_tags(html: str) -> str:
    page = _Words()
    # Some Pythons give up at a malformed declaration; what came before it was read.
    with suppress(AssertionError):
        page.feed(html)
        page.close()
    lines = (line.strip() for line in "".join(page.words).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
