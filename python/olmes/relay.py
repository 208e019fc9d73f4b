"""Connects standard input and output with the process that has the model.

The program starts this as its engine (``exec:python -m olmes.relay``). It passes
the engine protocol on, byte for byte, to the loopback port of the process that
called ``olmes.evaluate``. Port and token are in ``OLMES_RELAY``, and not in the
command line, which every user of the machine can read and the record keeps.
"""

import os
import socket
import sys
import threading

VARIABLE = "OLMES_RELAY"
_CHUNK = 1 << 16


def _forward(connection: socket.socket) -> None:
    """Standard input to the socket."""
    try:
        while data := sys.stdin.buffer.raw.read(_CHUNK):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side is gone; main sees that too


def main() -> int:
    port, _, token = os.environ.get(VARIABLE, "").partition(":")
    if not port.isdigit() or not token:
        print(f"olmes.relay is started by olmes.evaluate, which sets {VARIABLE}; it does nothing by itself", file=sys.stderr)
        return 64
    try:
        connection = socket.create_connection(("127.0.0.1", int(port)), timeout=10)
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(token.encode())
    except OSError as error:
        print(f"the process that called olmes.evaluate cannot be reached: {error}", file=sys.stderr)
        return 1
    threading.Thread(target=_forward, args=(connection,), daemon=True).start()
    out = sys.stdout.buffer.raw
    try:
        while data := connection.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[out.write(view):]
    except OSError:
        pass  # whichever side went first, both streams end here
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the thread may sit in a read that nothing ends
