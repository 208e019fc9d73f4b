"""An engine for olmes in numpy: the next token depends on the last one alone.

    olmes run --engine 'exec:python3 docs/example_engine.py' -t openbookqa --limit 10

It speaks docs/engine-protocol.md on standard input and output. For a model of
your own, put another one behind describe, tokenize, pieces and score.
"""
import hashlib
import json
import struct
import sys

import numpy as np

BOS, EOS, VOCAB, CONTEXT = 256, 257, 258, 4096  # a token a byte, and two more
SOURCE, SINK = sys.stdin.buffer, sys.stdout.buffer
computed = 0


def make_model() -> np.ndarray:
    """Return ln P(next | last) by [last, next]: P(b | a) = 0.9, P(c | b) = 0.5."""
    n = np.arange(VOCAB)
    p = 1.0 + (7 * n[:, None] + 13 * n) % 31
    for last, following, known in ((ord("a"), ord("b"), 0.9), (ord("b"), ord("c"), 0.5)):
        p[last, following] = 0
        p[last] *= (1 - known) / p[last].sum()
        p[last, following] = known
    return np.log(p / p.sum(axis=1, keepdims=True))


MODEL = make_model()


def describe(args: dict, body: bytes) -> tuple[dict, bytes]:
    digest = hashlib.sha256(MODEL.tobytes()).hexdigest()
    return {"engine": "example", "version": "1", "model": "bigram", "model_sha256": digest, "architecture": "bigram",
            "parameters": MODEL.size, "weight_type": "F64", "dtype": "float64", "vocab": VOCAB,
            "context_train": CONTEXT, "bos": BOS, "eos": EOS, "threads": 1}, b""


def tokenize(args: dict, body: bytes) -> tuple[dict, bytes]:
    lengths, text = body[:4 * args["count"]], body[4 * args["count"]:]
    return args, lengths + np.frombuffer(text, "u1").astype("<i4").tobytes()


def pieces(args: dict, body: bytes) -> tuple[dict, bytes]:
    all_pieces = [bytes([i]) for i in range(256)] + [b"<s>", b"</s>"]
    return {"count": VOCAB}, np.array([len(p) for p in all_pieces], "<u4").tobytes() + b"".join(all_pieces)


def score(args: dict, body: bytes) -> tuple[dict, bytes]:
    nodes, prefix, numbers = args["nodes"], args["prefix"], np.frombuffer(body, "<i4")
    token, parent, wants = numbers[:nodes], numbers[nodes:2 * nodes], numbers[2 * nodes:].reshape(-1, 2)
    node, wanted = wants[:, 0], wants[:, 1]
    path = []  # to the node, itself included
    for i in range(nodes):
        while path and path[-1] != parent[i]:
            path.pop()
        path.append(i)
        if len(path) > CONTEXT or len(path) == 1 and parent[i] != -1:
            raise ValueError(f"node {i} is too deep, or its parent is not on the path of the node before it")
    in_order = (np.diff(node.astype("i8") * VOCAB + wanted) > 0).all()
    if not in_order or not 0 <= prefix <= nodes or (parent[:prefix] != np.arange(prefix) - 1).any():
        raise ValueError("wants are not in order, or the prefix is no path")
    for ids, end in ((token, VOCAB), (wanted, VOCAB), (node, nodes)):
        if ((ids < 0) | (ids >= end)).any():
            raise ValueError(f"an id or a node is outside 0 to {end - 1}")
    global computed
    computed += nodes  # a real model computes each node here, seeing its path alone
    return {"computed": nodes}, MODEL[token[node], wanted].astype("<f8").tobytes()


OPS = {"describe": describe, "tokenize": tokenize, "pieces": pieces, "score": score,
       "hello": lambda args, body: ({"name": "example", "ops": sorted([*OPS, "cancel"])}, b""),
       "stats": lambda args, body: ({"computed": computed, "library": -1}, b""),
       "close": lambda args, body: ({}, b"")}


def main() -> None:
    """Answer requests until the input ends."""
    while size := SOURCE.read(4):
        header = json.loads(SOURCE.read(*struct.unpack("<I", size)))
        body = SOURCE.read(*struct.unpack("<Q", SOURCE.read(8)))
        if header["v"] != 1:
            sys.exit(f"olmes speaks version {header['v']} of the protocol, this engine version 1")
        answer, out = {"v": 1, "id": header["id"], "op": header["op"]}, b""
        if header["op"] == "cancel":
            continue  # every request is answered before the next one is read
        try:
            if header["op"] in OPS:
                answer["args"], out = OPS[header["op"]](header.get("args"), body)
            else:
                answer["error"] = {"kind": "unsupported", "message": "there is no such operation"}
        except ValueError as e:
            answer["error"] = {"kind": "input", "message": str(e)}
        head = json.dumps(answer).encode()
        SINK.write(struct.pack("<I", len(head)) + head + struct.pack("<Q", len(out)) + out)
        SINK.flush()
        if header["op"] == "close":
            return


if __name__ == "__main__":
    main()
