"""What a client says to log in: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677), OAUTHBEARER (RFC 7628), without any input or output.

An exchange is a generator of our messages that is sent the server's.  It raises ``LoginRefused`` when the server is not
the one that knows the password (``Unproven``); it is told our user and password once, and no error quotes them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator, Mapping
from typing import TypeAlias

Exchange: TypeAlias = Generator[bytes, bytes, None]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 1 << 20  # RFC 7677's least; the most costs about a second


class LoginRefused(Exception):
    """The server refused; the message has no secret."""


class Unproven(LoginRefused):
    """We refuse: the server did not prove that it knows the password, or asks for too few iterations, as a thief of it would."""


def new_exchange(mechanism: str, username: str, password: str) -> Exchange:
    """The messages of this login; ``mechanism`` is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    if mechanism == "PLAIN":
        return plain(username, password)
    return scram(_HASHES[mechanism], username, password, secrets.token_urlsafe(24))


def plain(username: str, password: str) -> Exchange:
    """One message; the server says nothing but yes."""
    yield f"\0{username}\0{password}".encode()


def bearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """One message (KIP-255, with the extensions of KIP-342); where the server says why not, we have to say that we heard it."""
    pairs = "".join(f"\x01{name}={value}" for name, value in extensions.items())
    refusal = yield f"n,,\x01auth=Bearer {token}{pairs}\x01\x01".encode()
    if refusal:
        yield b"\x01"  # RFC 7628, 3.2.3: the server fails the login only now
        raise LoginRefused(f"the server said {bytes(refusal).decode(errors='replace')}")


def scram(digest: str, username: str, password: str, nonce: str) -> Exchange:
    """Prove that we know the password, and have the server prove it; ``digest`` is hashlib's name of a hash."""
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
    first = yield b"n,," + bare
    challenge = _attributes(first)
    whole_nonce, salt, iterations = _challenge(challenge, nonce)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    unproven = b"c=biws,r=" + whole_nonce  # "biws" is "n,,", the head of our first message, in base 64
    signed = b",".join((bare, first, unproven))
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(key ^ mask for key, mask in zip(client_key, signature, strict=True))
    final = _attributes((yield unproven + b",p=" + b64encode(proof)))
    if b"e" in final:
        raise LoginRefused(f"the server said {final[b'e'].decode(errors='replace')}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(expected, _binary(final.get(b"v", b""))):
        raise Unproven("the server's signature is wrong: it does not know this user's password")


def _challenge(challenge: dict[bytes, bytes], nonce: str) -> tuple[bytes, bytes, int]:
    """The whole nonce, the salt and the iterations of the server's first message."""
    if b"e" in challenge:
        raise LoginRefused(f"the server said {challenge[b'e'].decode(errors='replace')}")
    whole = challenge.get(b"r", b"")
    salt = _binary(challenge.get(b"s", b""))
    if b"m" in challenge or not salt or len(whole) <= len(nonce) or not whole.startswith(nonce.encode()):
        raise Unproven("the server's challenge does not belong to this login")
    count = challenge.get(b"i", b"")
    iterations = int(count) if count.isdigit() and len(count) < 10 else 0
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise Unproven(
            f"the server asks for {iterations} iterations of the hash, not {LEAST_ITERATIONS} to {MOST_ITERATIONS} (they "
            "are set with the user's password, by kafka-configs)"
        )
    return whole, salt, iterations


def _attributes(message: bytes) -> dict[bytes, bytes]:
    """``a=1,b=2``."""
    pairs = (part.split(b"=", 1) for part in bytes(message).split(b","))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _binary(text: bytes) -> bytes:
    """What is in base 64, and nothing for what is not."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
