"""Makes small models of the paper's architectures and their reference log-probabilities. See README.md."""

import argparse
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedModel
from transformers.models.mpt import modeling_mpt

from families import FAMILIES, make
from tokens import sentence, texts, word


def requests(tokenizer) -> Iterator[dict]:
    """Requests as the program cuts them: context and continuation as one text, the continuation what exceeds the context's own count."""
    rng = random.Random(3)

    def choices() -> list[str]:
        return [f" {word(rng)} {word(rng)}", f" {word(rng)}", f" {word(rng)} {word(rng)} {word(rng)}"]

    def question() -> str:
        return f"Question: {sentence(rng)}\nAnswer:"

    shots = "".join(f"{question()}{choices()[0]}\n\n" for _ in range(4))
    labels = [" A", " B", " C"]
    groups = [("short", "Answer:", choices()), ("short", question(), choices())]
    groups += [("long", shots + question(), choices()) for _ in range(3)]
    groups += [("long", shots + question()[:-7] + " A. ba\n B. ke\n C. li\nAnswer:", labels)]
    groups += [("bos", "Answer:", choices()), ("bos", question(), choices())]
    for number, (kind, context, continuations) in enumerate(groups):
        for continuation in continuations:
            ids = tokenizer(context + continuation, add_special_tokens=False).input_ids
            start = len(tokenizer(context, add_special_tokens=False).input_ids)
            bos = [tokenizer.bos_token_id] if kind == "bos" else []
            yield dict(group=number, kind=kind, context=context, continuation=continuation, ids=bos + ids, start=len(bos) + start)


@torch.no_grad()
def logprobs(model: PreTrainedModel, ids: list[int], start: int, **how) -> list[float]:
    """ln P of each of ids[start:], by one plain forward of the whole request."""
    rows = torch.log_softmax(model(input_ids=torch.tensor([ids]), use_cache=False, **how).logits[0].double(), dim=-1)
    return [rows[i - 1, ids[i]].item() for i in range(start, len(ids))]


@contextmanager
def shifted_alibi(at: int, count: int):
    """ALiBi as if the positions from `at` on, of `count`, were one higher: MPT takes no positions."""
    plain = modeling_mpt.build_mpt_alibi_tensor

    def shifted(heads, length, *args, **kwargs):
        alibi = plain(heads, length, *args, **kwargs)  # its end is for the last token
        alibi[..., : length - count + at] += alibi[..., -2:-1]  # one step further away
        return alibi

    modeling_mpt.build_mpt_alibi_tensor = shifted
    try:
        yield
    finally:
        modeling_mpt.build_mpt_alibi_tensor = plain


def faults(model: PreTrainedModel, r: dict, bos: int) -> Iterator[tuple[str, list[float]]]:
    """The request's log-probabilities under each fault that the comparison must see."""
    ids, start = r["ids"], r["start"]
    middle = max(start // 2, start - 6)  # ALiBi sees little further back
    here = torch.arange(len(ids))[None]
    alibi = model.config.model_type == "mpt"
    positions = {} if alibi else dict(position_ids=here)
    if r["kind"] == "bos":
        yield "bos", logprobs(model, ids[1:], start - 1)
        return
    if alibi:
        for at in (middle, start - 2, start - 1):
            with shifted_alibi(at, len(ids)):
                yield "shift", logprobs(model, ids, start)
    else:
        yield "shift", logprobs(model, ids, start, position_ids=here + (here >= middle))
    if middle > 0:
        yield "drop", logprobs(model, ids[:middle] + ids[middle + 1 :], start - 1)
        mask = torch.ones_like(here)
        mask[0, middle] = 0
        yield "mask", logprobs(model, ids, start, attention_mask=mask, **positions)
    if r["kind"] == "long" and getattr(model.config, "sliding_window", None):
        window, model.config.sliding_window = model.config.sliding_window, 1 << 20
        yield "window", logprobs(model, ids, start)
        model.config.sliding_window = window


def reference(name: str, folder: Path) -> dict:
    """Makes the model in folder; returns requests, log-probabilities and what each fault does to them."""
    model, tokenizer = make(name, folder)
    family = FAMILIES[name]
    rows, moved = list(requests(tokenizer)), {}
    for r in rows:
        r["logprobs"] = logprobs(model, r["ids"], r["start"])
        for fault, got in faults(model, r, tokenizer.bos_token_id):
            moved[fault] = max(moved.get(fault, 0.0), abs(sum(got) - sum(r["logprobs"])))
    return dict(
        name=name, model_type=family.model_type, models=family.models, tokenizer=family.tokenizer, gelu=family.gelu, bos=tokenizer.bos_token_id, rows=model.config.vocab_size,
        moved=moved, texts=[dict(text=t, ids=tokenizer(t, add_special_tokens=False, split_special_tokens=True).input_ids) for t in texts()], requests=rows,
        versions=dict(torch=torch.__version__, transformers=transformers.__version__))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder to fill: NAME/ and NAME.json for each architecture")
    parser.add_argument("names", nargs="*", help="architectures; all if none is given")
    parser.add_argument("--faults", action="store_true", help="show what each fault moves, in nats")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or FAMILIES:
        result = reference(name, args.out / name)
        (args.out / f"{name}.json").write_text(json.dumps(result))
        if args.faults:
            print(name, {k: round(v, 3) for k, v in result["moved"].items()}, flush=True)


if __name__ == "__main__":
    main()
