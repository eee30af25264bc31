"""An HTTP proxy that takes connections and never answers, and who goes to it.

Usage::

    with SilentProxy() as proxy:
        subprocess.run(command, env=os.environ | proxy.environment())
        assert not proxy.was_asked()
"""

from __future__ import annotations

import select
import socket
from types import TracebackType
from typing import Self

NAMES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy")
"""As they are written in a company's containers, in both cases."""


class SilentProxy:
    """Listens on loopback."""

    def __init__(self) -> None:
        """Listen; the system accepts, nobody reads."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def environment(self) -> dict[str, str]:
        """What sends the programs of an environment to it."""
        url = f"http://127.0.0.1:{self.port}"
        return {spelled: url for name in NAMES for spelled in (name, name.upper())}

    def was_asked(self) -> bool:
        """Whether anybody has connected."""
        waiting = select.poll()  # unlike select, it takes any descriptor
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def __enter__(self) -> Self:
        """For use in a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self._socket.close()
