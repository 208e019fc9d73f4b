"""lm-eval's local-completions client on given requests and a server that runs."""

import argparse
import json
import logging
import time

import work
from lm_eval.models.openai_completions import LocalCompletionsAPI


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ["url", "name", "model", "requests", "line", "out", "concurrent"]:
        p.add_argument("--" + name, required=True)
    p.add_argument("--instances", type=int, required=True)
    p.add_argument("--probe", type=int, required=True, help="instances on which numbers of concurrent requests are tried")
    args = p.parse_args()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    ids, groups = work.instances(args.requests, args.line, args.instances)

    def timed(groups, concurrent):
        lm = LocalCompletionsAPI(
            base_url=args.url + "/v1/completions", model=args.name, tokenizer=args.model, tokenizer_backend="huggingface",
            num_concurrent=concurrent, max_length=2049, timeout=600,
        )  # fmt: skip
        encoded = [((c, t), *lm._encode_pair(c, t)) for group in groups for c, t in group]
        started = time.perf_counter()
        answers = lm._loglikelihood_tokens(encoded, disable_tqdm=True)
        return time.perf_counter() - started, [value for value, _ in answers]

    tried = {}
    sizes = [int(n) for n in args.concurrent.split(",")]
    if len(sizes) > 1:
        tried = {n: timed(groups[: args.probe], n)[0] for n in sizes}
    best = min(tried, key=tried.get, default=sizes[0])
    # Nothing of a prompt whose log-probabilities are asked for is taken from
    # vLLM's cache, so that the trial makes what follows no faster.
    seconds, values = timed(groups, best)
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump({"seconds": seconds, "concurrent": best, "tried": tried, "logprobs": work.regroup(groups, values)}, f)


if __name__ == "__main__":
    main()
