"""Measures olmes on a vLLM server beside lm-eval's local-completions client on the same server.

Both score the requests that `olmes requests` prints. The server's prefix cache is emptied before each measurement. What is
measured starts when the client has everything it needs and ends with the last log-probability; the tokens computed are the
server's own count.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import main as peers
import work

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "model"


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--dir", default=os.path.join(peers.user_cache(), "olmes-peers"), help="folder of the environments (%(default)s)")
    p.add_argument("--out", default="servers", help="folder of the results (%(default)s)")
    p.add_argument("--tasks", default="arc_easy")
    p.add_argument("--instances", type=int, default=60)
    p.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    p.add_argument("--block", type=int, default=32, help="tokens of a block of the server's cache; 32 are the least on processors (%(default)s)")
    p.add_argument("--concurrent", default="1,8", help="requests at a time, tried for lm-eval on a few instances (%(default)s)")
    p.add_argument("--probe", type=int, default=4, help="instances on which that is tried (%(default)s)")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--olmes", help="the program (default: built from this source)")
    return p.parse_args()


class Server:
    """A vLLM server on the loopback address."""

    def __init__(self, python, model, args, environ, log):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        command = [python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2]]
        command += ["--served-model-name", NAME, "--dtype", {"f32": "float32", "bf16": "bfloat16"}[args.dtype], "--max-model-len", str(2050)]
        command += ["--block-size", str(args.block), "--enable-prefix-caching", "--enforce-eager", "--logprobs-mode", "raw_logprobs"]
        command += ["--generation-config", "vllm", "--enable-prompt-tokens-details", "--enable-tokenizer-info-endpoint", "--no-enable-log-requests"]
        # The development mode lets the cache be emptied.
        environ = environ | {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1", "VLLM_SERVER_DEV_MODE": "1"}
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen(command, env=environ, stdout=self.log, stderr=self.log, start_new_session=True)
        deadline = time.monotonic() + 600
        while True:
            try:
                self.get("/health")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise SystemExit(f"vLLM did not start; its messages are in {log}") from None
                time.sleep(1)

    def get(self, path, method="GET"):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=60) as r:
            return r.read().decode()

    def forget(self):
        self.get("/reset_prefix_cache", "POST")

    def computed(self):
        """Prompt tokens that the server has computed since it started."""
        lines = self.get("/metrics").splitlines()
        ours = [t for t in lines if t.startswith("vllm:prompt_tokens_by_source_total{") and 'source="local_compute"' in t]
        return int(sum(float(t.rpartition(" ")[2]) for t in ours))

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 15)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, 9)
                self.process.wait()
        self.log.close()


def run_olmes(olmes, server, line, args):
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "record")
        command = [olmes, "run", "--engine", server.url, "-t", line.replace(".", ":"), "--limit", str(args.instances), "--no-reuse"]
        server.forget()
        at, seen = peers.watched([*command, "-o", record, "--runs", folder], {"prepare", "score"}, lambda _: server.computed())
        with open(os.path.join(record, "manifest.json"), encoding="utf-8") as f:
            tokens = json.load(f)["provenance"]["tokens"]
        texts = peers.output(olmes, "predictions", record).splitlines()
    predictions = {q["doc_id"]: q for q in map(json.loads, texts)}
    return {
        "peer": "olmes", "seconds": at["score"] - at["prepare"], "tokens_server": seen["score"] - seen["prepare"], "tokens": tokens,
        "logprobs": {i: [c["logprob"] for c in q["choices"]] for i, q in predictions.items()},
    }  # fmt: skip


def run_lmeval(python, server, model, requests, line, args, environ):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [python, "-B", os.path.join(HERE, "client.py"), "--url", server.url, "--name", NAME, "--model", model, "--requests", requests]
        command += ["--line", line, "--instances", str(args.instances), "--concurrent", args.concurrent, "--probe", str(args.probe), "--out", out]
        before = server.computed()
        log = os.path.join(args.out, "lm-eval.log")
        with open(log, "a", encoding="utf-8") as f:
            if subprocess.run(command, env=environ, stdout=f, stderr=f).returncode:
                raise SystemExit(f"lm-eval's client failed; its messages are in {log}")
        after = server.computed()
        with open(out, encoding="utf-8") as f:
            measured = json.load(f)
    return measured | {"peer": "lm-eval", "tokens_server_with_probe": after - before}


def margin(values):
    a = sorted(values, reverse=True)
    return a[0] - a[1]


def main():
    args = arguments()
    # What Bench needs beside.
    args.peers, args.repeats, args.batch_sizes, args.peer_instances = f"vllm:{args.dtype}", 1, "1", 0
    b = peers.Bench(args)
    os.makedirs(b.out, exist_ok=True)
    b.install()
    if "vllm" not in b.environments:
        return 1
    python = b.environments["vllm"].python
    model = b.weights()["vllm", args.dtype]
    requests = b.requests()
    server = Server(python, model, args, b.environ, os.path.join(b.out, "vllm.log"))
    rows = []
    try:
        for line in b.lines:
            ours = run_olmes(b.olmes, server, line, args)
            theirs = run_lmeval(python, server, model, requests, line, args, b.environ)
            ids, _ = work.instances(requests, line, args.instances)
            pairs = [(ours["logprobs"][i], v) for i, v in zip(ids, theirs.pop("logprobs"))]
            worst = max(abs(x - y) for o, t in pairs for x, y in zip(o, t))
            flipped = [margin(o) for o, t in pairs if o.index(max(o)) != t.index(max(t))]
            row = {
                "line": line, "instances": len(ids), "seconds_olmes": ours["seconds"], "seconds_lmeval": theirs["seconds"],
                "ratio": theirs["seconds"] / ours["seconds"], "concurrent_lmeval": theirs["concurrent"], "tried_lmeval": theirs["tried"],
                "tokens_naive": ours["tokens"]["naive"], "tokens_distinct": ours["tokens"]["distinct"], "tokens_server_olmes": ours["tokens_server"],
                "largest_difference": worst, "decisions_differ": len(flipped), "their_margins": flipped,
            }  # fmt: skip
            rows.append(row)
            with open(os.path.join(b.out, "servers.jsonl"), "a", encoding="utf-8") as f:
                f.write(json.dumps(row | {"dtype": args.dtype, "block": args.block, "machine": peers.machine(), "load": os.getloadavg()[0]}) + "\n")
    finally:
        server.close()
    print("| requests | olmes, s | lm-eval, s | ratio | naive | distinct | computed for olmes | of distinct | of naive | largest difference, nats | decisions that differ |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for r in rows:
        n, d, c = r["tokens_naive"], r["tokens_distinct"], r["tokens_server_olmes"]
        print(
            f"| {r['line']} | {r['seconds_olmes']:.1f} | {r['seconds_lmeval']:.1f} | {r['ratio']:.1f} | {n} | {d} | {c} | {c / d:.2f} | {c / n:.2f}"
            f" | {r['largest_difference']:.2g} | {r['decisions_differ']} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
