"""What a model's forwards take of memory beside its weights, and what is free.

The bounds are from above. They follow from how transformers and torch compute:
what is held at the same time, in parts that grow with the batch, with what it
sees, and with the logits that are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .packing import COPIES, Forward, sum_bytes

# Names of a configuration's numbers that a token's experts are told by: how
# many of them compute it, and how wide each is.
EXPERTS = ("num_experts_per_tok", "moe_topk", "moe_k")
EXPERT_WIDTHS = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", "ffn_dim")
STATES = ("state_size", "mamba_d_state", "ssm_state_size")


@dataclass
class Costs:
    """Bytes that computing takes; of() says what each is of. whole: a model gives
    the logits of all tokens."""

    whole: bool
    cache: int
    token: int
    pair: int
    seen: int
    row: int
    logits: int
    sums: int
    step: int
    rest: int

    @classmethod
    @torch.inference_mode()
    def of(cls, forward: Forward) -> Costs:
        """Asks a model, by its configuration and two tokens."""
        config, size = forward.config, forward.dtype.itemsize
        ask = forward.tensor([[0, 0]]), forward.tensor([0])
        try:
            logits, out = forward(*ask, use_cache=True)
        except (TypeError, ValueError):  # a model that keeps nothing
            logits, out = forward(*ask)
        layers = getattr(getattr(out, forward.cache_name, None), "layers", None) or []
        tensors = [(layer.keys, layer.values) for layer in layers if isinstance(getattr(layer, "keys", None), torch.Tensor)]
        embedding = forward.model.get_input_embeddings().weight.shape[-1]
        heads = _number(config, "num_attention_heads") or (tensors[0][0].shape[1] if tensors else 0)
        sizes = {(k.shape[-1], v.shape[-1]) for k, v in tensors}
        head = max((max(pair) for pair in sizes), default=0)
        attention = heads * head
        masks = max(1, len(set(getattr(config, "layer_types", None) or ())))
        fused = bool(tensors) and all(_fused(forward, heads, *pair) for pair in sizes)
        windowed = bool(getattr(config, "sliding_window", None))
        capped = any(getattr(config, name, None) for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"))
        wide = logits.dtype.itemsize
        state = _number(config, *STATES) * max(_number(config, "intermediate_size", "mamba_expand"), 2 * embedding)
        rest = 64 << 20
        if forward.device.type == "cpu" and size < 4:
            rest += size * max(p.numel() for p in forward.model.parameters())
        if getattr(forward.model, "hf_quantizer", None) is not None:
            rest += size * max((m.in_features * m.out_features for m in forward.model.modules() if hasattr(m, "in_features") and hasattr(m, "out_features")), default=0)
        return cls(
            whole=not forward.keeps_logits,
            # Keys and values of a token, in all layers.
            cache=sum(k.nbytes + v.nbytes for k, v in tensors) // 2,
            # Of a token of the batch: the residual stream and what is made of it
            # in 32 bits, queries with their rotation, and a block's widest layer.
            token=size * (4 * embedding + 6 * attention + 4 * _width(forward)) + 12 * embedding + 16 * state,
            # Of a token of the batch and one that it sees: the masks and what
            # they are made of, and the scores of each head.
            pair=2 + size * (1 + masks) + (8 if windowed else 0) + (0 if fused else 12 * heads),
            # Of a token that is seen: a layer's keys and values, and their copies
            # for all heads that share them.
            seen=4 * size * attention,
            # Of a token after which others are wanted: its logits.
            row=logits.shape[-1] * (size * (2 if capped else 1) + (wide if wide != size else 0)),
            # Its logits in 32 bits, how many of those there are at once when they
            # are summed, and how many bytes of them are summed together.
            logits=4 * logits.shape[-1],
            sums=1 if wide == 4 else 2,
            step=sum_bytes(logits.device),
            # The process's own growth; on processors a matrix of 16 bits in the
            # order of the kernels; a matrix that was quantized.
            rest=rest,
        )

    def peak(self, kind: str, batch: int, rows: int, window: int) -> dict[str, int]:
        """What a packing takes at most for a tree that is nowhere deeper than window."""
        # Beside what is kept of the prefix there are the path to the batch, and
        # the batch's own cache, which grows layer by layer out of the path's.
        cached, seen, pairs = 3 * window + batch, window + batch, batch * (window + batch)
        if kind == "copy":
            cached, seen = 4 * window + (1 + COPIES) * batch, max(seen, (1 + COPIES) * batch)
        elif kind == "plain":
            cached, batch, seen, pairs = 0, window, window, window * window
        if self.whole:
            rows = batch
        return {
            "cache": cached * self.cache,
            "logits": rows * self.row + self.sums * min(rows * self.logits, max(self.step, self.logits)),
            "other": batch * self.token + pairs * self.pair + seen * self.seen + self.rest,
        }


def _number(config, *names: str) -> int:
    return next((n for n in (getattr(config, name, None) for name in names) if isinstance(n, int) and n > 0), 0)


def _width(forward: Forward) -> int:
    """Numbers that a block's widest layer makes of a token."""
    last = forward.model.get_output_embeddings()
    # Conv1D of transformers has its width as nf.
    layers = (getattr(m, "out_features", 0) or getattr(m, "nf", 0) for m in forward.model.modules() if m is not last)
    width = max((n for n in layers if isinstance(n, int)), default=0)
    chosen = _number(forward.config, *EXPERTS)
    return max(width, 2 * chosen * _number(forward.config, *EXPERT_WIDTHS))


def _fused(forward: Forward, heads: int, keys: int, values: int) -> bool:
    """Tells whether attention under a mask of ours never has all its scores in memory."""
    if getattr(forward.config, "_attn_implementation", "eager") != "sdpa":
        return False
    try:
        query, value = (torch.zeros(1, heads, 16, n, dtype=forward.dtype, device=forward.device) for n in (keys, values))
        mask = torch.zeros(1, 1, 16, 16, dtype=forward.dtype, device=forward.device)
        return torch._fused_sdp_choice(query, query, value, mask) != 0  # 0 is the plain one
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False


def free(device: torch.device) -> int | None:
    """Bytes that can be taken on a device; None where that is the machine's own memory,
    or not known."""
    if device.type == "cuda":
        return max(1, torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return max(1, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    if device.type == "xpu":
        return max(1, torch.xpu.mem_get_info(device)[0])
    return None


def mapped() -> int:
    """Bytes of files that this process has in memory, weights among them: the system
    counts them as free. 0 where that is not known."""
    try:
        with open("/proc/self/status", encoding="ascii") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssFile"))
    except (OSError, StopIteration, ValueError):
        return 0
