"""The engine: a transformers model, its tokenizer and a packing that is exact for it."""

from __future__ import annotations

import platform
import sys
from typing import Callable

import torch
import transformers

from . import loading, memory, packing, selfcheck
from .protocol import InputError, Tree
from .tokens import Tokens

# Names of a configuration's number of positions, in its architectures' words.
CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


class TorchEngine:
    """Scores trees with a model in memory; see protocol.Engine.

    batch is the number of tokens of a forward, rows how many of them may have
    wanted tokens after them. kind names a packing, or is empty for the first
    one that is exact. machine is how many bytes of the machine's memory can be
    taken beside the model, 0 where that is not known.
    """

    def __init__(
        self, model: torch.nn.Module, tokenizer, batch: int = 512, rows: int = 0, kind: str = "", notes: list[str] | None = None, machine: int = 0
    ):
        self.model = model
        self.batch, self.machine = batch, machine
        self.notes = list(notes or [])
        self.forward = packing.Forward(model)
        config = self.forward.config
        self.context = next((n for n in (getattr(config, name, None) for name in CONTEXTS) if isinstance(n, int) and n > 0), 0)
        self.vocab = self._vocab()
        self.tokens = Tokens(tokenizer, self.vocab)
        self.notes += self.tokens.notes
        self.library = 0
        model.get_input_embeddings().register_forward_pre_hook(self._count)
        self.packing = self._choose(kind, rows or batch)
        self.forward.tokens = self.library = 0

    @classmethod
    def load(cls, args: dict) -> TorchEngine:
        """Answers the load operation; see docs/engine-protocol.md."""
        threads = int(args.get("threads") or 0)
        if threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        transformers.utils.logging.disable_progress_bar()
        names = ("model", "device", "dtype", "adapter", "trust_remote_code", "memory")
        loaded = loading.load(**{name: args[name] for name in names if args.get(name)})
        plan = args.get("plan") or {}
        machine = max(1, args["memory"] - loaded.bytes) if args.get("memory") else 0
        engine = cls(
            loaded.model, loaded.tokenizer, int(plan.get("batch") or 512), int(plan.get("rows") or 0), args.get("packing") or "", loaded.notes, machine
        )
        engine.loaded = loaded
        return engine

    def _count(self, _module, args) -> None:
        self.library += args[0].numel()

    def _vocab(self) -> int:
        with torch.inference_mode():
            logits, _ = self.forward(self.forward.tensor([0])[None], self.forward.tensor([0]))
        return logits.shape[-1]

    def _choose(self, kind: str, rows: int):
        kinds = list(packing.PACKINGS.values())
        if kind:
            if kind not in packing.PACKINGS:
                raise InputError(f"packing {kind!r} is not one of {', '.join(packing.PACKINGS)}")
            kinds = [packing.PACKINGS[kind]]
        chosen, notes = selfcheck.check(self.forward, kinds, self.vocab, self.context, self.tokens.special, self.batch, rows, self.machine)
        self.notes += notes
        for note in notes:
            print(f"self-check: {note}", file=sys.stderr, flush=True)
        if chosen is None:
            raise InputError(notes[-1])
        return chosen

    def memory(self, args: dict) -> dict:
        """Answers the memory operation: what each of some plans takes, and what is free."""
        self.packing.forget()
        packing.free_memory()
        counts = self.forward.tokens, self.library
        costs = memory.Costs.of(self.forward)
        self.forward.tokens, self.library = counts
        window = int(args.get("window") or 2048)
        window = min(window, self.context or window)
        kind = self.packing.name
        needs = [costs.peak(kind, int(p["batch"]), int(p.get("rows") or p["batch"]), window) for p in args.get("plans") or []]
        packing.free_memory()
        devices = self.forward.devices()
        found = [(n, str(d)) for d in devices if (n := memory.free(d)) is not None]
        out = {"device": str(devices[0]), "gpu": devices[0].type != "cpu", "needs": needs}
        if found:
            out["free"], out["device"] = min(found)
        else:
            out["mapped"] = memory.mapped()
        return out

    def replan(self, args: dict) -> None:
        """Answers the plan operation: other numbers from here on."""
        batch = int(args["batch"])
        rows = int(args.get("rows") or batch)
        if not 0 < rows <= batch:
            raise InputError(f"plan: batch is {batch}, rows are {rows}")
        self.packing.forget()
        self.packing, self.batch = type(self.packing)(self.forward, batch, rows), batch

    def describe(self) -> dict:
        """The description of model, library and packing."""
        device, dtype = self.forward.device, self.forward.dtype
        loaded = getattr(self, "loaded", None)
        if device.type == "cuda":
            variant = f"CUDA {torch.version.cuda or torch.version.hip}, {torch.cuda.get_device_name(device)}"
        elif device.type == "cpu":
            variant = f"CPU {torch.backends.cpu.get_cpu_capability()}"
        else:
            variant = device.type.upper()
        tokenizer = self.tokens.tokenizer

        def token_id(name: str) -> int:
            value = getattr(tokenizer, name, None)
            value = getattr(self.forward.config, name, None) if value is None else value
            return value if isinstance(value, int) and 0 <= value < self.vocab else -1

        out = {
            "engine": "torch",
            "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "variant": f"{variant}, {getattr(self.forward.config, '_attn_implementation', '')} attention".replace(",  attention", ""),
            "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
            "threads": torch.get_num_threads(),
            "architecture": self.model.config.model_type,
            "parameters": self.model.num_parameters(),
            "weight_type": loaded.weight_type if loaded else "",
            "context_train": self.context,
            "vocab": self.vocab,
            "bos": token_id("bos_token_id"),
            "eos": token_id("eos_token_id"),
            "add_bos": self.tokens.adds_bos,
            "packing": self.packing.name,
            "dtype": str(dtype).removeprefix("torch."),
            "quantization": loaded.quantization if loaded else "",
            "adapter": loaded.adapter if loaded else "",
            "notes": self.notes,
        }
        return {k: v for k, v in out.items() if v != "" and v != []}

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text."""
        return self.tokens.encode(texts)

    def pieces(self) -> list[bytes]:
        """Bytes of every id."""
        return self.tokens.pieces()

    def stats(self) -> dict:
        """Tokens computed since the start: as counted here, and by the model's embedding."""
        return {"computed": self.forward.tokens, "library": self.library}

    def score(self, tree: Tree, check: Callable[[], None]) -> tuple[list[float], int]:
        """Log-probabilities of the wants; out of memory halves the batch for good."""
        tree.check(self.vocab, self.context)
        self.forward.check = check
        before = self.forward.tokens
        while True:
            try:
                with torch.inference_mode():
                    return self.packing.score(tree, check), self.forward.tokens - before
            except (RuntimeError, MemoryError) as e:
                if not packing.is_out_of_memory(e):
                    raise
                if self.packing.batch <= 16:
                    raise RuntimeError(f"out of memory, even with batches of {self.packing.batch} tokens: {e}") from e
                text = str(e).splitlines()[0] if str(e) else "out of memory"
            self._halve(text)

    def _halve(self, text: str) -> None:
        old = self.packing
        old.forget()
        packing.free_memory()
        batch = old.batch // 2
        self.packing = type(old)(self.forward, batch, max(1, min(old.rows // 2, batch)))
        note = f"ran out of memory with batches of {old.batch} tokens, went on with {batch} ({text[:200]})"
        self.notes.append(note)
        print(note, file=sys.stderr, flush=True)



