"""Targets for :class:`rdmawire.fuzz.MessageSession`: wires and sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from rdmawire._core import Frame
from rdmawire.wires import Wire

__all__ = ["TcpTarget", "UdpTarget", "WireTarget"]


class WireTarget:
    """A device that is reachable through a wire.

    ``reset`` is a function that restores the initial state of the device. Without one, the device keeps its state.
    ``accept`` is a function that selects the frames of the device, for a wire that receives other frames too.
    """

    def __init__(
        self,
        wire: Wire,
        reset: Callable[[], object] | None = None,
        accept: Callable[[Frame], bool] | None = None,
    ) -> None:
        self._wire, self._reset, self._accept = wire, reset, accept

    def send(self, data: bytes) -> None:
        """Send a frame."""
        self._wire.send(data)

    def receive(self, timeout: float) -> Frame | None:
        """Return the next frame of the device."""
        until = self._wire.now() + int(timeout * 1e9)
        while True:
            frame = self._wire.receive(max(0, until - self._wire.now()) / 1e9)
            if frame is None or self._accept is None or self._accept(frame):
                return frame

    def reset(self) -> None:
        """Discard received frames, and call the function."""
        while self._wire.receive(0) is not None:
            pass
        if self._reset is not None:
            self._reset()


class _SocketTarget:
    def __init__(self, host: str, port: int, kind: int, timeout: float, max_bytes: int) -> None:
        self._address, self._kind = (host, port), kind
        self._timeout, self._max_bytes = timeout, max_bytes
        self._socket: socket.socket | None = None

    def _open(self) -> socket.socket:
        raise NotImplementedError

    def reset(self) -> None:
        """Close the socket and open a new one."""
        self.close()
        self._socket = self._open()

    def send(self, data: bytes) -> None:
        """Send the bytes."""
        assert self._socket is not None, "reset() opens the socket"
        self._socket.settimeout(self._timeout)
        self._socket.sendall(data)

    def receive(self, timeout: float) -> bytes | None:
        """Return received bytes, or None after ``timeout`` seconds. Also returns None after the peer closed the
        connection."""
        assert self._socket is not None, "reset() opens the socket"
        self._socket.settimeout(timeout)
        try:
            return self._socket.recv(self._max_bytes) or None
        except (TimeoutError, BlockingIOError):
            return None

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TcpTarget(_SocketTarget):
    """A TCP server, for example an iWARP endpoint. Each execution has its own connection.

    ``timeout``: seconds to wait for the connection, and until data can be sent. A connection that the server resets is
    normal for invalid input, so it ends the execution without a finding if ``resets`` is True.
    """

    def __init__(
        self, host: str, port: int, *, timeout: float = 2.0, max_bytes: int = 65536, resets: bool = True
    ) -> None:
        super().__init__(host, port, socket.SOCK_STREAM, timeout, max_bytes)
        self._resets = resets
        self._ended = False

    def _open(self) -> socket.socket:
        self._ended = False
        return socket.create_connection(self._address, self._timeout)

    def send(self, data: bytes) -> None:
        """Send the bytes."""
        if self._ended:
            return
        try:
            super().send(data)
        except (ConnectionResetError, BrokenPipeError):
            self._end()

    def receive(self, timeout: float) -> bytes | None:
        """Return received bytes, or None after ``timeout`` seconds or the end of the connection."""
        if self._ended:
            return None
        try:
            return super().receive(timeout)
        except ConnectionResetError:
            self._end()
            return None

    def _end(self) -> None:
        if not self._resets:
            raise ConnectionResetError("the target reset the connection")
        self._ended = True

    @property
    def ended(self) -> bool:
        """Whether the target reset the connection."""
        return self._ended


class UdpTarget(_SocketTarget):
    """A UDP server. RoCEv2 without IP and UDP headers is sent this way: frames with the link type ``bth``."""

    def __init__(self, host: str, port: int = 4791, *, timeout: float = 2.0, max_bytes: int = 65536) -> None:
        super().__init__(host, port, socket.SOCK_DGRAM, timeout, max_bytes)

    def _open(self) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=self._kind)[0]
        opened = socket.socket(family, kind, protocol)
        opened.connect(address)
        return opened
