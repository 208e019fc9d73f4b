"""llama.cpp, one request at a time: the cache is cleared, the request decoded, its rows read.

Uses the shared library that olmes uses, through llama-cpp-python's bindings of
the same version, with the settings that llama.cpp has by itself.
"""

import ctypes
import time

import llama_cpp as ll
import numpy as np

import work

WINDOW = 2048


class Model:
    def __init__(self, path, threads):
        ll.llama_backend_init()
        self.model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        params = ll.llama_context_default_params()
        params.n_ctx = params.n_batch = WINDOW
        params.n_threads = params.n_threads_batch = threads
        self.ctx = ll.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise SystemExit("llama.cpp cannot make a context")
        self.memory = ll.llama_get_memory(self.ctx)
        self.vocab = ll.llama_model_get_vocab(self.model)
        self.size = ll.llama_vocab_n_tokens(self.vocab)
        self.batch = ll.llama_batch_init(WINDOW, 0, 1)
        self.computed = 0

    def tokenize(self, text):
        data = text.encode()
        ids = (ll.llama_token * (len(data) + 8))()
        n = ll.llama_tokenize(self.vocab, data, len(data), ids, len(ids), False, False)
        if n < 0:
            raise SystemExit("llama.cpp cannot tokenize a text")
        return ids[:n]

    def encode(self, context, continuation):
        """Ids cut to the window, and how many of them are the continuation's."""
        context, continuation = work.boundary(context, continuation)
        ids = self.tokenize(context + continuation)
        n = len(ids) - len(self.tokenize(context))
        return ids[-(WINDOW + 1) :], n

    def score(self, ids, n):
        """Log-probability (nats) of the last n ids, each after all before it."""
        ll.llama_memory_clear(self.memory, False)
        fed, batch = ids[:-1], self.batch
        batch.n_tokens = len(fed)
        for i, token in enumerate(fed):
            batch.token[i] = token
            batch.pos[i] = i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= len(fed) - n
        code = ll.llama_decode(self.ctx, batch)
        if code:
            raise SystemExit(f"llama_decode failed with code {code}")
        self.computed += len(fed)
        total = 0.0
        for i, token in enumerate(ids[-n:], len(fed) - n):
            row = np.ctypeslib.as_array(ll.llama_get_logits_ith(self.ctx, i), (self.size,))
            top = row.max()
            total += float(row[token] - top) - float(np.log(np.exp(row - top).sum(dtype=np.float64)))
        return total


def main():
    args = work.arguments(__doc__.splitlines()[0]).parse_args()
    # llama.cpp's log holds nothing that is wanted here.
    quiet = ll.llama_log_callback(lambda level, text, data: None)
    ll.llama_log_set(quiet, ctypes.c_void_p(0))
    started = time.perf_counter()
    model = Model(args.model, args.threads)
    loaded = time.perf_counter() - started
    for line in args.lines.split(","):
        ids, groups = work.instances(args.requests, line, args.instances)
        model.score(*model.encode(*groups[0][0]))  # first use of pages and threads
        model.computed = 0
        started = time.perf_counter()
        encoded = [model.encode(*request) for group in groups for request in group]
        cpu, middle = work.cpu_seconds(), time.perf_counter()
        values = [model.score(*e) for e in encoded]
        ended = time.perf_counter()
        work.emit(
            args, line, ids, groups, [i for i, _ in encoded], values,
            peer="llama.cpp",
            versions={"llama-cpp-python (bindings)": ll.__version__},
            load_seconds=loaded,
            encode_seconds=middle - started,
            seconds=ended - middle,
            cpu_seconds=work.spent(cpu),
            tokens_naive=sum(len(e[0]) - 1 for e in encoded),
            tokens_computed=model.computed,
        )  # fmt: skip


if __name__ == "__main__":
    main()
