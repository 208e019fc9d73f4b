"""Ways to give a tree of tokens to a transformers model.

Tree: several paths in one forward, each token seeing its own path through a
mask. Copy: path after path, each on a copy of what was computed for the
tokens before it. Plain: each path by itself, from its first token.

A packing's results depend on the tree and its own numbers, never on the tree
before: what is kept between calls is the cache of the last prefix, which was
computed by itself, as it would be again.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import ctypes
import gc
import inspect
from typing import Callable

import torch
from transformers import DynamicCache

from .protocol import Tree

Check = Callable[[], None]

# How many times as many tokens as a batch has the copies of a cache may hold
# together.
COPIES = 8


def sum_bytes(device: torch.device) -> int:
    """How much of the logits, in 32 bits, is summed at once."""
    return (64 << 20) if device.type == "cpu" else (1 << 30)


def is_out_of_memory(e: BaseException) -> bool:
    """Tells whether a device or the machine lacked memory."""
    if isinstance(e, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(e)
    return isinstance(e, RuntimeError) and ("not enough memory" in text or "can't allocate memory" in text or "out of memory" in text)


class Forward:
    """A causal language model as packings call it.

    device takes the inputs; dtype is what attention computes in.
    """

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.config = model.config.get_text_config()
        self.device = model.get_input_embeddings().weight.device
        self.dtype = model.dtype
        self.spread = len(set(getattr(model, "hf_device_map", {}).values())) > 1
        names = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in names else "past_key_values"
        self.keeps_logits = "logits_to_keep" in names
        self.check: Check = lambda: None
        self.tokens = 0  # computed since the start
        # A layer is computed in less than the time a cancelled call may take.
        blocks = max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len, default=[])
        for block in blocks:
            block.register_forward_pre_hook(lambda *_: self.check())

    def __call__(self, ids: torch.Tensor, rows: torch.Tensor | None, cache=None, **kwargs):
        """Logits after the rows (all rows of a batch of several), and the output.

        ids is [batch, tokens]; the logits are [rows, vocabulary] of a batch of
        one, else [batch, tokens, vocabulary].
        """
        self.tokens += ids.numel()
        if cache is not None:
            kwargs[self.cache_name] = cache
            kwargs["use_cache"] = True
        else:
            kwargs.setdefault("use_cache", False)
        if self.keeps_logits and rows is not None:
            # Where the model is spread over devices, only the model knows the rows' device.
            keep = rows.tolist() if self.spread else rows
            out = self.model(input_ids=ids, logits_to_keep=keep, **kwargs)
            return out.logits[0], out
        out = self.model(input_ids=ids, **kwargs)
        return (out.logits if rows is None else out.logits[0, rows.to(out.logits.device)]), out

    def devices(self) -> list[torch.device]:
        """Those that compute, the inputs' own first."""
        others = {torch.device("cuda", d) if isinstance(d, int) else torch.device(d) for d in getattr(self.model, "hf_device_map", {}).values() if d != "disk"}
        gpus = {d for d in others if d.type != "cpu"} - {self.device}
        return [self.device, *sorted(gpus, key=str)]

    def tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.device)

    def log_probs(self, logits: torch.Tensor, row: list[int], token: list[int]) -> torch.Tensor:
        """ln softmax(logits[row])[token], computed in 32 bits, some rows at a time."""
        step = max(1, sum_bytes(logits.device) // (4 * logits.shape[-1]))
        out = []
        a = 0
        for start in range(0, logits.shape[0], step):
            b = bisect.bisect_left(row, start + step, a)
            part = logits[start : start + step].float()
            total = torch.logsumexp(part, -1)
            at = torch.tensor(row[a:b], dtype=torch.long, device=part.device) - start
            wanted = torch.tensor(token[a:b], dtype=torch.long, device=part.device)
            out.append(part[at, wanted] - total[at])
            a = b
        return torch.cat(out) if out else logits.new_zeros(0, dtype=torch.float32)


def _kinds(config) -> list[str]:
    return sorted(set(getattr(config, "layer_types", None) or []))


class TreePacking:
    """Many paths in one forward.

    The nodes of a tree are computed in their order, at most batch at a time,
    of which at most rows have wanted tokens after them, and whole subtrees of
    the prefix where they fit. A token's position is its depth. Each sees the
    nodes of the batch and of the cache that lie on its path.
    """

    name = "tree"

    def __init__(self, forward: Forward, batch: int, rows: int):
        self.forward, self.batch, self.rows = forward, batch, rows
        self.kept: list[int] = []  # tokens of the prefix in layers
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        config = forward.config
        self.kinds = _kinds(config)
        self.window = getattr(config, "sliding_window", None) or 0
        if self.kinds:
            unknown = set(self.kinds) - {"full_attention", "sliding_attention"}
            if unknown:
                raise RuntimeError(f"layers of the kind {min(unknown)} take no mask of ours")
            if "sliding_attention" not in self.kinds:
                self.window = 0

    def forget(self) -> None:
        """Gives the kept prefix up."""
        self.kept, self.layers = [], []

    def score(self, tree: Tree, check: Check) -> list[float]:
        n = len(tree.token)
        # Nothing can be wanted inside the prefix that is kept.
        prefix = min([tree.prefix, *tree.want_node[:1]])
        if tree.token[:prefix] != self.kept:
            self.forget()
            layers = self._prefix(tree.token[:prefix], check)
            self.kept, self.layers = tree.token[:prefix], layers
        columns = list(range(prefix))  # nodes in the cache
        layers = self.layers
        end = torch.tensor(tree.end, device=self.forward.device)
        depth = torch.tensor(tree.depth, device=self.forward.device)
        out = []
        a, want = prefix, 0
        while a < n:
            check()
            b = self._cut(tree, prefix, a)
            to = bisect.bisect_left(tree.want_node, b, want)
            cache = self._cache(layers)
            out.append(self._batch(tree, columns, a, b, want, to, cache, end, depth))
            if b < n:
                del layers  # the cache has it all
                columns, layers = self._base(tree, prefix, columns, a, b, cache)
            del cache
            a, want = b, to
        return torch.cat([x.cpu() for x in out]).double().tolist() if out else []

    def _cut(self, tree: Tree, prefix: int, a: int) -> int:
        """Where the batch from node a ends."""
        nodes, rows, last = 0, 0, -1
        whole = a  # end of the last subtree that fits
        limit = len(tree.token)
        at = bisect.bisect_left(tree.want_node, a)
        b = a
        while b < limit and nodes < self.batch:
            wanted = at < len(tree.want_node) and tree.want_node[at] == b
            if wanted:
                rows += 1
                if rows > self.rows:
                    break
                while at < len(tree.want_node) and tree.want_node[at] == b:
                    at += 1
            nodes += 1
            b += 1
            if b == limit or tree.parent[b] < prefix:
                whole = b
        return whole if whole > a else b

    def _cache(self, layers):
        cache = DynamicCache()
        for i, (keys, values) in enumerate(layers):
            cache.update(keys[:, :, :0], values[:, :, :0], i)
            cache.layers[i].keys, cache.layers[i].values = keys, values  # not copied
        return cache

    def _prefix(self, tokens: list[int], check: Check):
        cache = DynamicCache()
        for start in range(0, len(tokens), self.batch):
            check()
            part = tokens[start : start + self.batch]
            at = torch.arange(start, start + len(part), device=self.forward.device)
            whole = torch.arange(start + len(part), device=self.forward.device)
            seen = whole[None, :] <= at[:, None]
            self.forward(
                self.forward.tensor(part)[None],
                self.forward.tensor([]),
                cache,
                attention_mask=self._mask(seen, at, whole),
                position_ids=at[None],
            )
        return [(layer.keys, layer.values) for layer in cache.layers] if tokens else []

    def _batch(self, tree: Tree, columns, a, b, want, to, cache, end, depth) -> torch.Tensor:
        f = self.forward
        nodes = torch.arange(a, b, device=f.device)
        whole = torch.cat([f.tensor(columns), nodes])
        seen = (whole[None, :] <= nodes[:, None]) & (nodes[:, None] < end[whole][None, :])
        mask = self._mask(seen, depth[a:b], depth[whole])
        rows = sorted(set(tree.want_node[want:to]))
        place = {node: i for i, node in enumerate(rows)}
        logits, _ = f(
            f.tensor(tree.token[a:b])[None],
            f.tensor([node - a for node in rows]),
            cache,
            attention_mask=mask,
            position_ids=depth[a:b][None],
        )
        return f.log_probs(logits, [place[node] for node in tree.want_node[want:to]], tree.want_token[want:to])

    def _mask(self, seen: torch.Tensor, depth: torch.Tensor, depths: torch.Tensor):
        """Numbers added to the scores, one mask for each kind of layer where a model has several."""
        near = seen
        if self.window:
            near = seen & (depth[:, None] - depths[None, :] < self.window)
        if len(self.kinds) > 1:
            return {"full_attention": self._added(seen), "sliding_attention": self._added(near)}
        return self._added(near)

    def _added(self, seen: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(seen.shape, dtype=self.forward.dtype, device=seen.device)
        return mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)[None, None]

    def _base(self, tree: Tree, prefix: int, columns, a: int, b: int, cache):
        """The cache for the batch from node b on: the prefix, and what else is on b's path."""
        beyond = [node for node in tree.path(tree.parent[b]) if node >= prefix]
        if not beyond:
            return list(range(prefix)), self.layers
        place = {node: i for i, node in enumerate(columns)}
        keep = list(range(prefix)) + [place[node] if node < a else len(columns) + node - a for node in beyond]
        layers = []
        for layer in cache.layers:
            index = torch.tensor(keep, device=layer.keys.device)
            layers.append((layer.keys.index_select(2, index), layer.values.index_select(2, index)))
        return list(range(prefix)) + beyond, layers


class CopyPacking:
    """Path after path: each part of a path that no other shares in one forward,
    on a copy of the cache of the tokens before it. The model makes its own
    masks, positions and cache. Parts that end a path and begin at the same
    node are computed as one batch, filled up on the right, as long as their
    copies of the cache hold no more than COPIES batches.
    """

    name = "copy"

    def __init__(self, forward: Forward, batch: int, rows: int):
        self.forward, self.batch, self.rows = forward, batch, rows
        self.kept: list[int] = []
        self.cache = None

    def forget(self) -> None:
        """Gives the kept prefix up."""
        self.kept, self.cache = [], None

    def score(self, tree: Tree, check: Check) -> list[float]:
        prefix = min([tree.prefix, *tree.want_node[:1]])
        out: list[tuple[int, torch.Tensor]] = []  # number of the first want, values
        if tree.token[:prefix] != self.kept or self.cache is None:
            self.forget()
            cache = self._run(tree, 0, prefix, None, out, check)
            self.kept, self.cache = tree.token[:prefix], cache
        children: dict[int, list[int]] = {}
        for i, p in enumerate(tree.parent):
            children.setdefault(p, []).append(i)
        # Caches of the kept prefix at less than its whole length cannot be had
        # from a model that keeps a state, so what leaves it earlier starts anew.
        roots = [i for i in range(prefix, len(tree.token)) if tree.parent[i] < prefix]
        tops: dict[int, list[int]] = {}
        for i in roots:
            tops.setdefault(tree.parent[i], []).append(i)
        for parent, nodes in tops.items():
            cache = self.cache
            if parent != prefix - 1:
                cache = self._run(tree, 0, parent + 1, None, [], check)
            self._below(tree, children, nodes, cache, out, check)
        out.sort(key=lambda x: x[0])
        return [v for _, part in out for v in part.cpu().double().tolist()]

    def _below(self, tree: Tree, children, nodes: list[int], cache, out, check: Check) -> None:
        """Computes the subtrees of nodes, which are children of one node."""
        # Only the caches of the nodes above one are kept at a time.
        stack = [(nodes, cache, 0)]
        while stack:
            nodes, cache, at = stack.pop()
            if at == 0:
                self._ends(tree, children, nodes, cache, out, check)
            for at in range(at, len(nodes)):
                b = self._end(tree, children, nodes[at])
                if b - 1 in children:
                    if at + 1 < len(nodes):
                        stack.append((nodes, cache, at + 1))
                    stack.append((children[b - 1], self._run(tree, nodes[at], b, cache, out, check), 0))
                    break

    @staticmethod
    def _end(tree: Tree, children, i: int) -> int:
        """Where the part from node i on ends, that no path leaves."""
        b = i + 1
        while b < len(tree.token) and tree.parent[b] == b - 1 and len(children.get(b - 1, ())) == 1:
            b += 1
        return b

    def _ends(self, tree: Tree, children, nodes: list[int], cache, out, check: Check) -> None:
        """Computes the parts from nodes on that end their path."""
        layers = getattr(cache, "layers", [])
        copied = all(hasattr(layer, "batch_repeat_interleave") for layer in layers)
        before = tree.depth[nodes[0]] if nodes else 0
        groups: list[list[tuple[int, int]]] = []
        longest = 0
        for i in nodes:
            b = self._end(tree, children, i)
            if b - 1 in children:
                continue
            longest = max(longest, b - i)
            n = len(groups[-1]) + 1 if groups else 0
            if not n or not copied or n * longest > min(self.batch, self.rows) or n * (before + longest) > COPIES * self.batch:
                groups.append([])
                longest = b - i
            groups[-1].append((i, b))
        for group in groups:
            if len(group) == 1:
                self._run(tree, *group[0], cache, out, check)
            else:
                self._leaves(tree, group, cache, out, check)

    def _run(self, tree: Tree, a: int, b: int, cache, out, check: Check):
        """Computes nodes a to b, a path, on a copy of cache, and returns that."""
        f = self.forward
        cache = copy.deepcopy(cache)
        stop = a
        while stop < b:
            check()
            start, stop = stop, min(b, stop + self.batch)
            want = bisect.bisect_left(tree.want_node, start)
            to = bisect.bisect_left(tree.want_node, stop, want)
            rows = sorted(set(tree.want_node[want:to]))
            if len(rows) > self.rows:
                stop = rows[self.rows]
                to, rows = bisect.bisect_left(tree.want_node, stop, want), rows[: self.rows]
            place = {node: i for i, node in enumerate(rows)}
            logits, result = f(f.tensor(tree.token[start:stop])[None], f.tensor([n - start for n in rows]), cache, use_cache=True)
            cache = getattr(result, f.cache_name, None)
            if cache is None:
                raise RuntimeError("the model returns no cache")
            if to > want:
                row = [place[node] for node in tree.want_node[want:to]]
                out.append((want, f.log_probs(logits, row, tree.want_token[want:to])))
        return cache

    def _leaves(self, tree: Tree, group, cache, out, check: Check) -> None:
        check()
        f = self.forward
        longest = max(b - a for a, b in group)
        ids = [tree.token[a:b] + [tree.token[a]] * (longest - (b - a)) for a, b in group]
        if cache is not None:
            cache = copy.deepcopy(cache)
            cache.batch_repeat_interleave(len(group))
        logits, _ = f(torch.tensor(ids, device=f.device), None, cache, use_cache=True)
        for i, (a, b) in enumerate(group):
            want = bisect.bisect_left(tree.want_node, a)
            to = bisect.bisect_left(tree.want_node, b, want)
            row = [node - a for node in tree.want_node[want:to]]
            if to > want:
                out.append((want, f.log_probs(logits[i, : b - a], row, tree.want_token[want:to])))


class PlainPacking:
    """Each path from its first token, by itself and with nothing kept, once for
    every so many rows that are wanted of it."""

    name = "plain"

    def __init__(self, forward: Forward, batch: int, rows: int):
        self.forward, self.batch, self.rows = forward, batch, rows

    def forget(self) -> None:
        """Nothing is kept."""

    def score(self, tree: Tree, check: Check) -> list[float]:
        f = self.forward
        out: list[torch.Tensor] = []
        places: list[int] = []
        first: dict[int, int] = {}  # wanted node to the number of its first want
        for i, node in enumerate(tree.want_node):
            first.setdefault(node, i)
        done: set[int] = set()
        for node in sorted(first, reverse=True):
            if node in done:
                continue
            check()
            path = tree.path(node)
            rows = [at for at, n in enumerate(path) if n in first and n not in done][-self.rows :]
            logits, _ = f(f.tensor([tree.token[n] for n in path])[None], f.tensor(rows))
            row, token = [], []
            for i, at in enumerate(rows):
                want = first[path[at]]
                while want < len(tree.want_node) and tree.want_node[want] == path[at]:
                    row.append(i)
                    token.append(tree.want_token[want])
                    places.append(want)
                    want += 1
            done.update(path[at] for at in rows)
            out.append(f.log_probs(logits, row, token))
        values = [0.0] * len(tree.want_node)
        for place, value in zip(places, torch.cat(out).double().tolist() if out else []):
            values[place] = value
        return values


PACKINGS = {p.name: p for p in (TreePacking, CopyPacking, PlainPacking)}


def free_memory() -> None:
    """Gives back what a failed forward, or the self-check, has left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed
