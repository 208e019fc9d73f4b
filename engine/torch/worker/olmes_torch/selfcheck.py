"""A packing compared with plain forwards of whole paths, on random tokens.

Whether a packing is exact for a model is a matter of the model's structure, so
that it is tried in 32 bits, where faults stand out, if memory allows; and then
once more in the model's own precision, with a bound that its rounding needs.
"""

from __future__ import annotations

import contextlib
import os
import random
from typing import Iterator

import torch

from . import memory
from .packing import Forward, PlainPacking, is_out_of_memory
from .protocol import Tree

# By how much log-probabilities, in nats, may differ: the largest, and the mean
# of all. In a real model a shifted position, a lost token or a wrong mask moves
# the mean by 0.1 and more.
BOUNDS = {torch.float32: (2e-3, 2e-4), torch.float16: (0.1, 0.02), torch.bfloat16: (0.6, 0.1)}


def random_tree(rng: random.Random, ids: list[int], lead: int, stem: int, choices: list[int]) -> Tree:
    """A lead, an instance for each of choices that goes on from it, and so many continuations after each."""
    token: list[int] = []
    parent: list[int] = []
    wants: set[tuple[int, int]] = set()

    def add(node: int) -> int:
        token.append(rng.choice(ids))
        parent.append(node)
        return len(token) - 1

    root = -1
    for _ in range(lead):
        root = add(root)
    for n in choices:
        node = root
        for _ in range(rng.randint(1, stem)):
            node = add(node)
        for _ in range(n):
            last = node
            for _ in range(rng.randint(1, 4)):
                here = last
                last = add(here)
                wants.add((here, token[last]))
            wants.add((last, rng.choice(ids)))
    order = sorted(wants)
    return Tree(token, parent, lead, [n for n, _ in order], [t for _, t in order])


def trees(vocab: int, context: int, window: int, special: set[int]) -> list[Tree]:
    """The trees of the check: two of one prefix, one without, and one beyond a sliding window."""
    rng = random.Random(1234)
    ids = [i for i in (rng.randrange(vocab) for _ in range(4000)) if i not in special] or [0]
    most = context or 1 << 20
    lead = max(1, min(24, most - 12))
    out = [random_tree(rng, ids, lead, 6, choices) for choices in ([3, 1, 2], [2, 2])]
    # The same prefix twice, so that what is kept is used.
    out[1] = Tree(out[0].token[:lead] + out[1].token[lead:], out[1].parent, lead, out[1].want_node, out[1].want_token)
    out.append(random_tree(rng, ids, 0, 6, [2, 2]))
    if 0 < window < min(2048, most - 16):
        out.append(random_tree(rng, ids, window + 2, 6, [2]))
    return out


def differences(packing, reference: list[list[float]], cases: list[Tree]) -> list[float]:
    """Absolute differences of all wanted log-probabilities; infinite where one alone is not a number."""
    packing.forget()
    out = []
    for tree, want in zip(cases, reference):
        for a, b in zip(packing.score(tree, lambda: None), want):
            out.append(abs(a - b) if a == a and b == b else 0.0 if a != a and b != b else float("inf"))
    packing.forget()
    return out


def _free(device: torch.device, machine: int) -> int:
    free = memory.free(device)
    if free is not None:
        return free
    if machine:
        return machine
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if hasattr(os, "sysconf") else 0


@contextlib.contextmanager
def widened(forward: Forward, machine: int = 0) -> Iterator[bool]:
    """The model in 32 bits, if it can be and memory allows; each value becomes what it was again."""
    params = list(forward.model.parameters())
    narrow = [p for p in params if p.dtype in (torch.float16, torch.bfloat16)]
    plain = all(p.device == forward.device and p.is_floating_point() for p in params)
    quantized = getattr(forward.model, "hf_quantizer", None) is not None
    if not narrow or not plain or quantized or 5 * sum(p.numel() for p in narrow) > _free(forward.device, machine):
        yield False
        return
    before, kinds = forward.dtype, [p.dtype for p in narrow]
    try:
        for p in narrow:
            p.data = p.data.float()
        forward.dtype = torch.float32
        yield True
    finally:
        for p, kind in zip(narrow, kinds):
            p.data = p.data.to(kind)
        forward.dtype = before


class _Check:
    def __init__(self, forward: Forward, cases: list[Tree], batch: int, rows: int):
        self.forward, self.cases, self.batch, self.rows = forward, cases, batch, rows
        plain = PlainPacking(forward, batch, rows)
        self.reference = [plain.score(tree, lambda: None) for tree in cases]

    def fault(self, kind: type, batches: list[int]) -> tuple[str, str]:
        """What is wrong with a packing, or "", and what was found."""
        most, mean = BOUNDS.get(self.forward.dtype, BOUNDS[torch.bfloat16])
        try:
            packings = [kind(self.forward, b, min(self.rows, b)) for b in batches]
            found = [d for p in packings for d in differences(p, self.reference, self.cases)]
        except Exception as e:  # noqa: BLE001: the model does not take what this packing gives
            if is_out_of_memory(e):
                raise
            return f"fails for this model: {type(e).__name__}: {str(e)[:200]}", ""
        worst, average = max(found), sum(found) / len(found)
        dtype = str(self.forward.dtype).removeprefix("torch.")
        text = f"in {dtype} at most {worst:.2g} nats from plain forwards, {average:.2g} on average"
        if worst <= most and average <= mean:
            return "", text
        return f"is not exact for this model: {text} (allowed {most:g} and {mean:g})", text


@torch.inference_mode()
def check(forward: Forward, kinds: list[type], vocab: int, context: int, special: set[int], batch: int, rows: int, machine: int = 0):
    """Tries packings in order; returns the first that is exact for the model (or None), and what was found of each.

    machine is how many bytes of the machine's memory can be taken, 0 where that is not known.
    """
    cases = trees(vocab, context, getattr(forward.config, "sliding_window", None) or 0, special)
    notes, good = [], []
    # Small batches too, so that trees are cut where they need not be.
    batches = sorted({batch, min(batch, 16)})
    with widened(forward, machine) as wide:
        if wide:
            comparison = _Check(forward, cases, batch, rows)
            for kind in kinds:
                fault, text = ("", "") if kind is PlainPacking else comparison.fault(kind, batches)
                if not fault:
                    good.append((kind, text))
                    break
                notes.append(f"packing {kind.name} {fault}")
            batches = [batch]
    comparison = _Check(forward, cases, batch, rows)
    for kind, text in good if wide else [(kind, "") for kind in kinds]:
        if kind is PlainPacking:
            return kind(forward, batch, rows), notes
        fault, found = comparison.fault(kind, batches)
        if not fault:
            notes.append(f"packing {kind.name}: " + ", ".join(t for t in (text, found) if t))
            return kind(forward, batch, rows), notes
        notes.append(f"packing {kind.name} {fault}")
    if wide and good and PlainPacking in kinds:  # exact in structure, but not in its own precision
        return PlainPacking(forward, batch, rows), notes
    return None, notes
