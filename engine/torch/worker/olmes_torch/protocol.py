"""The engine protocol's server side, for an engine in Python.

serve() reads requests, calls an Engine and writes its answers. It needs the
standard library alone.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import sys
import threading
import traceback
from array import array
from typing import Any, BinaryIO, Callable, Protocol

VERSION = 1
MAX_HEADER = 1 << 20
MAX_BODY = 256 << 20


class InputError(Exception):
    """The request is at fault: the same request would fail again."""


class TextError(InputError):
    """A text that cannot be tokenized: its index, and what is wrong with it."""

    def __init__(self, index: int, reason: str):
        super().__init__(reason)
        self.index = index


class Cancelled(Exception):
    """The request was cancelled."""


class Unsupported(Exception):
    """The engine has no such operation."""


class Tree:
    """Token ids in depth-first order, and the tokens wanted after them.

    depth counts the nodes before a node on its path; a node's subtree are the
    nodes from it to end, exclusive.
    """

    def __init__(self, token: list[int], parent: list[int], prefix: int, want_node: list[int], want_token: list[int]):
        self.token, self.parent, self.prefix = token, parent, prefix
        self.want_node, self.want_token = want_node, want_token
        n = len(token)
        self.depth, self.end = [0] * n, [n] * n
        self._validate()

    def _validate(self) -> None:
        n = len(self.token)
        if not 0 <= self.prefix <= n:
            raise InputError(f"tree of {n} nodes has a prefix of {self.prefix}")
        path: list[int] = []
        for i, p in enumerate(self.parent):
            if self.token[i] < 0:
                raise InputError(f"tree node {i} has token {self.token[i]}")
            if i < self.prefix and p != i - 1:
                raise InputError(f"tree node {i} is in the prefix of {self.prefix} but its parent is {p}")
            while path and path[-1] != p:
                self.end[path.pop()] = i
            if not path and p != -1:
                raise InputError(f"tree node {i} has parent {p}, which is not on the path of the node before")
            self.depth[i] = len(path)
            path.append(i)
        last = (-1, -1)
        for want in zip(self.want_node, self.want_token):
            if not 0 <= want[0] < n or want[1] < 0:
                raise InputError(f"a want is of token {want[1]} at node {want[0]} of {n}")
            if want <= last:
                raise InputError("wants are not sorted by node, then token")
            last = want

    def check(self, vocab: int, context: int) -> None:
        """Raises an InputError for what a model cannot compute; a context of 0 has no bound."""
        deepest = max(self.depth, default=-1) + 1
        if context and deepest > context:
            raise InputError(f"tree is {deepest} tokens deep, the model's context takes {context}")
        for kind, tokens in ("node", self.token), ("want", self.want_token):
            if tokens and max(tokens) >= vocab:
                raise InputError(f"a {kind} has token {max(tokens)}, the vocabulary has {vocab}")

    def path(self, node: int) -> list[int]:
        """The nodes from the root to node, both included; [] for -1."""
        nodes = []
        while node >= 0:
            nodes.append(node)
            node = self.parent[node]
        return nodes[::-1]


class Engine(Protocol):
    """What serve() needs. Methods are called from one thread, one at a time."""

    def describe(self) -> dict: ...

    def tokenize(self, texts: list[str]) -> list[list[int]]: ...

    def pieces(self) -> list[bytes]: ...

    def score(self, tree: Tree, check: Callable[[], None]) -> tuple[list[float], int]:
        """Log-probabilities of the wants in nats, and tokens computed.

        check is called often and raises Cancelled.
        """

    def stats(self) -> dict: ...


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Takes the standard streams for the protocol: what anyone prints goes to the standard error."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, sink


def _read(source: BinaryIO, n: int) -> bytes:
    data = source.read(n)
    if len(data) < n:
        raise EOFError
    return data


def read_frame(source: BinaryIO) -> tuple[dict, bytearray]:
    """Returns header and body; EOFError where the stream ends."""
    (length,) = struct.unpack("<I", _read(source, 4))
    if length > MAX_HEADER:
        raise ValueError(f"header of {length} bytes")
    header = json.loads(_read(source, length))
    (size,) = struct.unpack("<Q", _read(source, 8))
    if size > MAX_BODY:
        raise ValueError(f"body of {size} bytes")
    if not isinstance(header, dict) or header.get("v") != VERSION:
        raise ValueError(f"frame is not of version {VERSION}")
    return header, bytearray(_read(source, size))


def write_frame(sink: BinaryIO, header: dict, body: bytes = b"") -> None:
    """Writes one frame."""
    head = json.dumps({"v": VERSION, **header}, separators=(",", ":")).encode()
    sink.write(struct.pack("<I", len(head)) + head + struct.pack("<Q", len(body)) + body)
    sink.flush()


def _ints(body: memoryview) -> list[int]:
    values = array("i", bytes(body))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def _bytes(values: array) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def decode_tree(args: dict, body: bytearray) -> Tree:
    """Reads the body of a score request."""
    nodes, wants = int(args["nodes"]), int(args["wants"])
    if nodes < 0 or wants < 0 or 8 * (nodes + wants) != len(body):
        raise InputError(f"tree of {nodes} nodes and {wants} wants does not fill a body of {len(body)} bytes")
    values = _ints(memoryview(body))
    pairs = values[2 * nodes :]
    return Tree(values[:nodes], values[nodes : 2 * nodes], int(args["prefix"]), pairs[::2], pairs[1::2])


def decode_texts(count: int, body: bytearray) -> list[str]:
    """Reads the body of a tokenize request."""
    if not 0 <= 4 * count <= len(body):
        raise InputError(f"{count} texts do not fit a body of {len(body)} bytes")
    at = 4 * count
    texts = []
    for index, size in enumerate(struct.unpack(f"<{count}I", bytes(body[:at]))):
        try:
            texts.append(body[at : at + size].decode("utf-8"))
        except UnicodeDecodeError as e:
            raise TextError(index, f"is not valid UTF-8 at byte {e.start}") from None
        at += size
    if at != len(body):
        raise InputError("texts do not fill their body")
    return texts


def encode_lists(lists: list, size: Callable[[Any], int], data: bytes) -> bytes:
    """All lengths, then all items."""
    return struct.pack(f"<{len(lists)}I", *map(size, lists)) + data


class _Server:
    def __init__(
        self, sink: BinaryIO, name: str, load: Callable[[dict], Engine] | None, engine: Engine | None, more: dict[str, str] | None = None
    ):
        self.sink, self.name, self.load, self.engine = sink, name, load, engine
        self.more = more or {}  # the engine's own operations: names, and its methods'
        self.lock = threading.Lock()  # guards cancelled
        self.cancelled: dict[int, bool] = {}  # of requests that wait or are in progress
        self.requests: queue.SimpleQueue = queue.SimpleQueue()

    def read(self, source: BinaryIO) -> None:
        """Takes requests in; ends the process with the stream, whatever is being computed."""
        status = 0
        try:
            self._take(source)
        except EOFError:
            pass
        except Exception as e:  # noqa: BLE001: a damaged frame ends the connection
            print(f"engine protocol: {e}", file=sys.stderr, flush=True)
            status = 1
        os._exit(status)

    def _take(self, source: BinaryIO) -> None:
        """Takes requests in until the stream ends, with EOFError, or is damaged."""
        while True:
            header, body = read_frame(source)
            number = header.get("id")
            with self.lock:
                if header.get("op") != "cancel":
                    self.cancelled[number] = False
                    self.requests.put((header, body))
                elif number in self.cancelled:
                    self.cancelled[number] = True

    def run(self) -> int:
        while True:
            header, body = self.requests.get()
            number, op = header.get("id"), header.get("op")
            answer = {"id": number, "op": op}
            out = b""
            try:
                self._check(number)
                args, out = self._do(number, op, header.get("args") or {}, body)
                if args is not None:
                    answer["args"] = args
            except Cancelled:
                answer["error"] = {"kind": "cancelled", "message": "cancelled"}
            except TextError as e:
                answer["error"] = {"kind": "input", "message": str(e), "index": e.index}
            except InputError as e:
                answer["error"] = {"kind": "input", "message": str(e)}
            except Unsupported as e:
                answer["error"] = {"kind": "unsupported", "message": str(e) or "the engine does not support this operation"}
            except Exception as e:  # noqa: BLE001: the engine stays usable
                traceback.print_exc()
                answer["error"] = {"kind": "failed", "message": f"{type(e).__name__}: {e}"[:4000]}
            with self.lock:
                self.cancelled.pop(number, None)
            write_frame(self.sink, answer, b"" if "error" in answer else out)
            if op == "close":
                return 0

    def _check(self, number: int) -> None:
        if self.cancelled.get(number):
            raise Cancelled

    def _do(self, number: int, op: str, args: dict, body: bytearray) -> tuple[dict | None, bytes]:
        if op == "hello":
            ops = ["cancel", "close", "describe", "hello", "pieces", "score", "stats", "tokenize", *self.more]
            return {"name": self.name, "ops": ops + (["load"] if self.load else [])}, b""
        if op == "close":
            return None, b""
        if op == "load":
            if self.load is None:
                raise Unsupported
            if self.engine is not None:
                raise RuntimeError("a model is loaded already")
            self.engine = self.load(args)
            return None, b""
        engine = self.engine
        if op not in ("describe", "pieces", "score", "stats", "tokenize", *self.more):
            raise Unsupported
        if engine is None:
            raise RuntimeError("no model is loaded")
        if op in self.more:
            return getattr(engine, self.more[op])(args), b""
        if op == "describe":
            return engine.describe(), b""
        if op == "stats":
            return engine.stats(), b""
        if op == "score":
            values, computed = engine.score(decode_tree(args, body), lambda: self._check(number))
            return {"computed": computed}, _bytes(array("d", values))
        if op == "tokenize":
            ids = engine.tokenize(decode_texts(int(args["count"]), body))
            flat = array("i", [i for one in ids for i in one])
            return {"count": len(ids)}, encode_lists(ids, len, _bytes(flat))
        pieces = engine.pieces()
        return {"count": len(pieces)}, encode_lists(pieces, len, b"".join(pieces))


def serve(
    source: BinaryIO,
    sink: BinaryIO,
    name: str,
    load: Callable[[dict], Engine] | None = None,
    engine: Engine | None = None,
    more: dict[str, str] | None = None,
) -> int:
    """Answers requests until a close request comes (returns 0) or source ends (ends the process).

    more names operations beyond the protocol's, and the engine's methods that answer them.
    """
    server = _Server(sink, name, load, engine, more)
    threading.Thread(target=server.read, args=(source,), daemon=True).start()
    return server.run()
