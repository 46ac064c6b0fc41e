"""What a stream is, recorded under its name once some of it is sealed; its end is read from its last segment."""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec
from msgspec import structs

from .frames import End, Unreadable

__all__ = ["KEY_NAME_BYTES_MAX", "StreamRecord", "read_record", "stream_key", "write_record"]

KEY_NAME_BYTES_MAX: Final = 448

_CHECKSUM = Struct("<I")


class StreamRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stream's number, name, the position of its first event, and what is left of it once it was deleted.

    Events at positions up to `reset` belong to what was deleted.
    """

    number: int
    name: str
    began: int
    deleted: bool = False
    reset: int = 0
    end: End | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(StreamRecord)


def stream_key(name: str) -> bytes:
    """Return the key of a stream's record: keys are in the order of names, as far as the length of a key allows."""
    encoded = name.encode()
    return (
        encoded
        if len(encoded) <= KEY_NAME_BYTES_MAX
        else encoded[:KEY_NAME_BYTES_MAX] + b"\0" + sha256(encoded).digest()
    )


def write_record(record: StreamRecord) -> bytes:
    """Return the record as bytes, without a name that its key says."""
    short = len(record.name.encode()) <= KEY_NAME_BYTES_MAX
    body = _ENCODER.encode(structs.replace(record, name="") if short else record)
    return _CHECKSUM.pack(crc32(body)) + body


def read_record(key: bytes, value: bytes) -> StreamRecord:
    """Return what `write_record` made bytes of.

    Raises:
        Unreadable: it does not match its checksum.
    """
    body = value[_CHECKSUM.size :]
    try:
        if _CHECKSUM.pack(crc32(body)) != value[: _CHECKSUM.size]:
            raise Unreadable("the record of a stream does not match its checksum")
        record = _DECODER.decode(body)
        return record if record.name else structs.replace(record, name=key.decode())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(f"the record of a stream cannot be read: {error}") from error
