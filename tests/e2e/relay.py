"""A TCP relay in front of one port of a server, which can be made to hang: that port alone then seems to be stuck."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Passes bytes on while it flows.

    Attributes:
        port: on which it listens, on loopback.
        flows: cleared, nothing passes; set again, everything that was held back does.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.flows = threading.Event()
        self.flows.set()
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pump, args=ends, daemon=True))
                    self._threads[-1].start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # one of the two ends went away
            while data := source.recv(2**16):
                self.flows.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End all connections."""
        self.flows.set()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def relay_to(host: str, port: int) -> Iterator[Relay]:
    """A relay to that address, closed at the end."""
    relay = Relay((host, port))
    try:
        yield relay
    finally:
        relay.close()
