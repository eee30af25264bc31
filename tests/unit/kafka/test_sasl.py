"""The messages of a login: the RFCs' own examples, and servers that don't know the password."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.kafka import sasl

NONCE = "rOprNGfwEbeRWgbNEkqO"
WHOLE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={WHOLE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SIGNED = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def said(digest: str, nonce: str, *server: str, user: str = "user") -> list[str]:
    """What the client says to a server that says this."""
    login = sasl.scram(digest, user, "pencil", nonce)
    messages = [next(login)]
    try:
        for message in server:
            messages.append(login.send(message.encode()))  # noqa: PERF401  the end would be lost in a generator
    except StopIteration:
        return [message.decode() for message in messages]
    raise AssertionError("the login goes on")


def test_the_examples_of_the_standards() -> None:
    """RFC 5802 (SHA-1) and RFC 7677 (SHA-256), character for character."""
    nonce, whole = "fyko+d2lbbFgONRv9qkxdawL", "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    assert said("sha1", nonce, f"r={whole},s=QSXCR+Q6sek8bf92,i=4096", "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") == [
        f"n,,n=user,r={nonce}",
        f"c=biws,r={whole},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    ]
    assert said("sha256", NONCE, FIRST, SIGNED) == [
        f"n,,n=user,r={NONCE}",
        f"c=biws,r={WHOLE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ]


@pytest.mark.parametrize(
    ("first", "final", "reason"),
    [
        (FIRST, "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "signature"),
        (FIRST, "v=", "signature"),
        (FIRST, "", "signature"),
        (FIRST, "v=not base 64", "signature"),
        (FIRST, "e=invalid-proof", "invalid-proof"),
        (FIRST.replace("r=rO", "r=sO"), SIGNED, "does not belong"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", SIGNED, "does not belong"),
        (f"m=unheard-of,{FIRST}", SIGNED, "does not belong"),
        (FIRST.replace("s=W22", "s=!"), SIGNED, "does not belong"),
        ("", SIGNED, "does not belong"),
        (FIRST.replace("4096", "4095"), SIGNED, "4095 iterations"),
        (FIRST.replace("4096", "999999999"), SIGNED, "999999999 iterations"),
        (FIRST.replace("4096", "x"), SIGNED, "0 iterations"),
        ("e=unknown-user", SIGNED, "unknown-user"),
    ],
)
def test_a_server_that_can_not_prove_itself(first: str, final: str, reason: str) -> None:
    """Whoever has not the password, or wants it cheap to guess, is refused."""
    with pytest.raises(sasl.LoginRefused, match=reason):
        said("sha256", NONCE, first, final)


def test_names_are_escaped() -> None:
    """A comma or an equals sign in a name does not end it (RFC 5802, 5.1)."""
    login = sasl.scram("sha256", "a=b,c", "pencil", NONCE)
    assert next(login) == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_no_nonce_comes_twice() -> None:
    """Two logins begin differently; PLAIN is one message."""
    first, second = (next(sasl.new_exchange("SCRAM-SHA-512", "user", "pencil")) for _ in range(2))
    assert first != second
    login = sasl.new_exchange("PLAIN", "üser", "pencil")
    assert next(login) == "\0üser\0pencil".encode()
    with pytest.raises(StopIteration):
        login.send(b"")


def test_a_token_in_one_message() -> None:
    """RFC 7628's own example without its host and port, and KIP-342's extensions in the form that brokers take."""
    login = sasl.bearer("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", {})
    assert next(login) == b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
    with pytest.raises(StopIteration):
        login.send(b"")
    more = sasl.bearer("abc", {"logicalCluster": "lkc-1", "pool": "p 2"})
    assert next(more) == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01pool=p 2\x01\x01"


def test_a_token_that_is_refused() -> None:
    """The server says why, waits for one byte, and only then ends the login; one that lets us in all the same is not believed."""
    login = sasl.bearer("abc", {})
    next(login)
    assert login.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(sasl.LoginRefused, match="invalid_token"):
        login.send(b"")
