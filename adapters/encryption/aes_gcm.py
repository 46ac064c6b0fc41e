"""Arguments sealed with AES-GCM: the key's name, a nonce and the ciphertext are stored; the place is bound to them."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...actors.agent import Unreadable

__all__ = ["AesGcmSeal"]

NONCE_BYTES = 12
KEY_BYTES = (16, 24, 32)

SCHEME = "aes-gcm"


class _Sealed(msgspec.Struct):
    sealed: str
    key: str
    nonce: str
    data: str


class AesGcmSeal:
    """Seals arguments under the current key, and opens them under whichever key they were sealed with.

    `keys` are keys of 16, 24 or 32 bytes by name, or a function that looks one up and returns None for one that is
    gone; what it raises fails the run that asked, so let it look at what is at hand.

    To rotate, add a key and make it `current`. Keep the old ones as long as runs are open that were sealed under them
    (an approval waits a week at the most), and for as long as these conversations are to be replayed. What was sealed
    under a key that is gone is unreadable: it is settled so, and nothing is called.

    AES-GCM as in NIST SP 800-38D, with random nonces of 96 bits: change the key before 2**32 seals.

    Raises:
        ValueError: the current key is missing, or a key has another length.
        TypeError: a key is not bytes.
    """

    def __init__(self, keys: Mapping[str, bytes] | Callable[[str], bytes | None], *, current: str) -> None:
        names = [current]
        if callable(keys):
            self._look_up = keys
        else:
            self._look_up = keys.get
            names += keys
        self._current = current
        for name in names:
            self._key(name)

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        """Return the arguments sealed for one place."""
        nonce = os.urandom(NONCE_BYTES)
        data = AESGCM(self._key(self._current)).encrypt(nonce, msgspec.json.encode(arguments), place.encode())
        sealed = _Sealed(SCHEME, self._current, b64encode(nonce).decode(), b64encode(data).decode())
        return msgspec.Raw(msgspec.json.encode(sealed))

    def open(self, stored: msgspec.Raw, place: str) -> object:
        """Return the arguments.

        Raises:
            Unreadable: the key is gone, they are not sealed, were changed, or were sealed for another place.
        """
        try:
            sealed = msgspec.json.decode(stored, type=_Sealed)
            nonce, data = b64decode(sealed.nonce, validate=True), b64decode(sealed.data, validate=True)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Unreadable("its arguments are not sealed, or were changed") from error
        if sealed.sealed != SCHEME:
            raise Unreadable(f"its arguments are sealed with {sealed.sealed!r}, not {SCHEME!r}")
        try:
            key = self._key(sealed.key)
        except ValueError as error:
            raise Unreadable(f"the key {sealed.key!r} of its arguments is gone") from error
        try:
            return msgspec.json.decode(AESGCM(key).decrypt(nonce, data, place.encode()))
        except (InvalidTag, ValueError) as error:
            raise Unreadable("its arguments were changed, or sealed for another call") from error

    def _key(self, name: str) -> bytes:
        key = self._look_up(name)
        if key is None:
            raise ValueError(f"there is no key {name!r}")
        if not isinstance(key, bytes):
            raise TypeError(f"the key {name!r} is bytes, not {type(key).__name__}")
        if len(key) not in KEY_BYTES:
            raise ValueError(f"the key {name!r} has {len(key)} bytes; AES takes 16, 24 or 32")
        return key
