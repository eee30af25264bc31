"""The broker's side of a login by PLAIN or SCRAM, as a test wants it: for ``ScriptedBroker``.

Usage::

    logins = Logins({"bob": "secret"}, iterations=1)      # what it asks for
    with ScriptedBroker(script, logins=logins) as broker:
        logins.refuses = "not now"                        # SASL_AUTHENTICATION_FAILED with these words, until it is ""
        logins.told                                       # the messages of clients, in order
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from base64 import b64encode
from collections.abc import Mapping

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
REFUSED = 58
SALT = b"salt"


class Logins:
    """Users with their passwords; one exchange at a time."""

    def __init__(
        self, users: Mapping[str, str], *, iterations: int = 4096, holds_ms: int = 0, forged: bool = False
    ) -> None:
        """``holds_ms``: for how long a login is good, 0 for ever; ``forged``: it doesn't know any password."""
        self.refuses = ""
        self.told: list[bytes] = []
        self._users, self._iterations, self._holds_ms, self._forged = dict(users), iterations, holds_ms, forged
        self._first = self._challenge = b""

    def answer(self, api: int, body: bytes) -> tuple[bytes, bool]:
        """What follows the number of the request, and whether the connection ends with it."""
        if api == SASL_HANDSHAKE:
            return struct.pack(">hi", 0, 0), False
        message = body[4:]
        self.told.append(message)
        said = self._said(message)
        if self.refuses or said is None:
            words = (self.refuses or "no such user, or a wrong password").encode()
            return struct.pack(">hh", REFUSED, len(words)) + words + struct.pack(">iq", 0, 0), True
        return struct.pack(">hhi", 0, -1, len(said)) + said + struct.pack(">q", self._holds_ms), False

    def _said(self, message: bytes) -> bytes | None:
        if message.startswith(b"\0"):
            user, password = message[1:].decode().split("\0")
            return b"" if self._users.get(user) == password else None
        if message.startswith(b"n,,"):
            self._first = message[3:]
            nonce = self._first.rpartition(b"r=")[2] + b"theirs"
            self._challenge = b"r=%s,s=%s,i=%d" % (nonce, b64encode(SALT), self._iterations)
            return self._challenge
        return b"v=" + b64encode(self._signature(message))

    def _signature(self, message: bytes) -> bytes:
        user = self._first.partition(b",")[0][2:].decode()
        password = "forged" if self._forged else self._users[user]
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, self._iterations)
        signed = b",".join((self._first, self._challenge, message.rpartition(b",p=")[0]))
        return hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
