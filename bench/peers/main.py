"""Measures olmes, with both of its own engines, beside lm-eval with transformers, lm-eval with vLLM, and llama.cpp alone.

All score the requests that `olmes requests` prints, with the same weights and
threads. What is measured starts with a loaded model and ends with the last
log-probability. A measurement that stands in the output folder is kept, so an
interrupted command goes on where it was.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import environment
import report
import work

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODEL = "smollm2-135m-instruct"
TASKS = "arc_easy,hellaswag,winogrande,boolq,mmlu_anatomy,mmlu_econometrics,mmlu_world_religions"
PEERS = "torch:f32,torch:bf16,transformers:f32,transformers:bf16,llamacpp:f32,llamacpp:bf16,vllm:bf16"
SCRIPTS = {"transformers": "lmeval.py", "vllm": "lmeval.py", "llamacpp": "llamacpp.py"}


def user_cache():
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--dir", default=os.path.join(user_cache(), "olmes-peers"), help="folder of the environments (%(default)s)")
    p.add_argument("--out", default="peers", help="folder of the results (%(default)s)")
    p.add_argument("--tasks", default=TASKS)
    p.add_argument("--peers", default=PEERS, help="NAME:PRECISION of each (%(default)s)")
    p.add_argument("--instances", type=int, default=60, help="of each task (%(default)s)")
    p.add_argument("--peer-instances", type=int, default=0, help="that the peers score of them (default all)")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--repeats", type=int, default=3, help="of each run of olmes; the median counts (%(default)s)")
    p.add_argument("--batch-sizes", default="1,2,4,8,16", help="tried for transformers (%(default)s)")
    p.add_argument("--probe", type=int, default=0, help="instances on which the sizes are tried (default all)")
    p.add_argument("--olmes", help="the program (default: built from this source)")
    p.add_argument("--install-only", action="store_true", help="make the environments and stop")
    p.add_argument("--report-only", action="store_true", help="write the tables of what is measured and stop")
    return p.parse_args()


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def output(*command):
    return run(*command, stdout=subprocess.PIPE).stdout


def machine():
    """What a reader needs to know to compare."""
    model = ""
    memory = 0
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            model = next((t.partition(":")[2].strip() for t in f if t.startswith("model name")), "")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.system() + " " + platform.machine(),
        "python": platform.python_version(),
    }


def watched(command, needed, observe):
    """Runs olmes: when each of its phases was done, and what observe, which gets its process id, gave then."""
    at, seen, said = {}, {}, []
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for text in p.stderr:
        said.append(text)
        phase, found, _ = text.partition(": done")
        if found:
            name = phase.split()[0]
            at[name] = time.perf_counter()
            seen[name] = observe(p.pid)
    if p.wait() or not needed <= at.keys():
        raise SystemExit(f"{' '.join(command)} failed:\n{''.join(said)}")
    return at, seen


class Bench:
    def __init__(self, args):
        self.args = args
        self.out = os.path.abspath(args.out)
        self.results = os.path.join(self.out, "measured.jsonl")
        self.lines = [f"{t}.{f}" for t in args.tasks.split(",") for f in ("cf", "mcf")]
        self.peers = [tuple(p.split(":")) for p in args.peers.split(",") if p]
        for name, dtype in self.peers:
            if name not in [*SCRIPTS, "torch"] or dtype not in ("f32", "bf16"):
                raise SystemExit(f"--peers: {name}:{dtype} is none of torch, {', '.join(SCRIPTS)} with f32 or bf16")
        self.dtypes = list(dict.fromkeys(d for _, d in self.peers)) or ["f32", "bf16"]
        # The same threads for all; every library has its own way to be told.
        n = str(args.threads)
        self.environ = {**os.environ, "OMP_NUM_THREADS": n, "MKL_NUM_THREADS": n, "HF_HUB_OFFLINE": "1"}
        # olmes sets this for its own engine: the library's threads are ggml's.
        self.environ |= {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "true"}
        self.environ |= {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": f"0-{args.threads - 1}"}
        self.environ |= {"VLLM_LOGGING_LEVEL": "WARNING", "DO_NOT_TRACK": "1"}
        self.olmes = args.olmes and os.path.abspath(args.olmes)
        self.missing = {}

    def measured(self):
        if not os.path.exists(self.results):
            return []
        with open(self.results, encoding="utf-8") as f:
            return [json.loads(text) for text in f]

    def left(self, peer, dtype):
        """The lines that have no measurement yet."""
        have = {(m["peer"], m["dtype"], m["task"] + "." + m["formulation"]) for m in self.measured()}
        return [line for line in self.lines if (peer, dtype, line) not in have]

    def settings(self):
        """Refuses to mix measurements of other settings."""
        os.makedirs(self.out, exist_ok=True)
        path = os.path.join(self.out, "settings.json")
        keys = ["instances", "peer_instances", "threads"]
        now = {k: getattr(self.args, k) for k in keys} | {"machine": machine()}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                if json.load(f) != now:
                    raise SystemExit(f"{self.out} holds measurements of other settings: choose another --out")
            return
        with open(path, "w", encoding="utf-8") as f:
            json.dump(now, f, indent=1)

    def install(self):
        self.environments = {}
        # olmes's engine on transformers computes in lm-eval's environment.
        for name in dict.fromkeys("transformers" if name == "torch" else name for name, _ in self.peers):
            try:
                self.environments[name] = environment.make(self.args.dir, name, environment.MAKERS[name])
            except environment.Unavailable as reason:
                self.missing[name] = str(reason)
                print(f"{name} is left out: {reason}", file=sys.stderr)
        if not self.olmes:
            self.olmes = os.path.join(self.out, "olmes")
            run("go", "build", "-o", self.olmes, "./cmd/olmes", cwd=ROOT)
        listed = {e["variant"]: e for e in json.loads(output(self.olmes, "engine", "list", "--json"))}
        if not listed["native"]["installed"]:
            run(self.olmes, "engine", "install", "--variant", "native")
            listed = {e["variant"]: e for e in json.loads(output(self.olmes, "engine", "list", "--json"))}
        self.library = listed["native"]["library"]["dir"]
        if "llamacpp" in self.environments:
            environment.link_library(self.environments["llamacpp"], self.library)

    def requests(self):
        folder = os.path.join(self.out, "requests")
        os.makedirs(folder, exist_ok=True)
        for line in self.lines:
            path = os.path.join(folder, line + ".jsonl")
            if os.path.exists(path):
                continue
            with open(path + ".part", "w", encoding="utf-8") as f:
                spec = line.replace(".", ":")
                run(self.olmes, "requests", "-q", spec, "--limit", str(self.args.instances), stdout=f)
            os.rename(path + ".part", path)
        return folder

    def run_olmes(self, name, dtypes, *model):
        """Every line in a run of its own, so that each has its own time."""
        for dtype in dtypes:
            for line in self.left(name, dtype):
                runs = [self.one_run(name, line, dtype, *model) for _ in range(self.args.repeats)]
                runs.sort(key=lambda m: m["seconds"])
                m = runs[len(runs) // 2]
                m["repeats_seconds"] = [r["seconds"] for r in runs]
                with open(self.results, "a", encoding="utf-8") as f:
                    f.write(json.dumps(m) + "\n")
                print(f"{name} {dtype} {line}: {m['instances']} instances in {m['seconds']:.1f} s", flush=True)

    def one_run(self, name, line, dtype, folder_of_model=None):
        task, formulation = line.rsplit(".", 1)
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "record")
            command = [self.olmes, "run", "-t", f"{task}:{formulation}", "--limit", str(self.args.instances)]
            command += ["--threads", str(self.args.threads), "--no-reuse"]
            if name == "torch":
                command += ["--engine", "torch", "--dtype", {"f32": "float32", "bf16": "bfloat16"}[dtype]]
            else:
                command += ["-m", MODEL, "--weights", dtype, "--engine-variant", "native"]
            shown = ["olmes", *command[1:]]
            command += ["-o", record, "--runs", folder]
            if name == "torch":
                command += ["-m", folder_of_model, "--python", self.environments["transformers"].python]
            load = os.getloadavg()[0]
            at, cpu = watched(command, {"load", "prepare", "score"}, work.cpu_seconds)
            ended = time.perf_counter()
            with open(os.path.join(record, "manifest.json"), encoding="utf-8") as f:
                manifest = json.load(f)
            texts = output(self.olmes, "predictions", record).splitlines()
        predictions = {p["doc_id"]: p for p in map(json.loads, texts)}
        with open(os.path.join(self.out, "requests", line + ".jsonl"), encoding="utf-8") as f:
            ids = list(dict.fromkeys(json.loads(text)["doc_id"] for text in f))
        if set(ids) != set(predictions):
            raise SystemExit(f"{line}: the run has other instances than the requests")
        provenance = manifest["provenance"]
        e = provenance["environments"][0]
        tokens = provenance["tokens"]
        choices = [predictions[i]["choices"] for i in ids]
        return {
            "task": task,
            "formulation": formulation,
            "dtype": dtype,
            "threads": self.args.threads,
            "instances": len(ids),
            "requests": sum(map(len, choices)),
            "load_average": load,
            "finished": provenance["finished"],
            "peer": name,
            "versions": {"olmes": e["product"], e["engine"]: f'{e["engine_version"]} {e["engine_variant"]}'},
            "command": shown,
            "encode_seconds": at["prepare"] - at["load"],
            "seconds": at["score"] - at["prepare"],
            "cpu_seconds": cpu["score"] and cpu["score"] - cpu["prepare"],
            "seal_seconds": ended - at["score"],
            "tokens_naive": tokens["naive"],
            "tokens_distinct": tokens["distinct"],
            "tokens_computed": tokens["computed"],
            "normalization": manifest["identity"]["tasks"][0]["normalization"] if formulation == "cf" else "none",
            "gold": [predictions[i]["gold"] for i in ids],
            "chars": [[c["chars"] for c in cs] for cs in choices],
            "ids_sha256": [[c["ids_sha256"] for c in cs] for cs in choices],
            "logprobs": [[c["logprob"] for c in cs] for cs in choices],
            "doc_ids": ids,
        }

    def weights(self):
        """Paths of the model as each engine loads it, by engine and precision."""
        if self.environments:
            run(self.olmes, "prepare", "-q", "-m", MODEL, "-t", self.args.tasks, "--weights", "f32")
        cache = os.environ.get("OLMES_CACHE") or os.path.join(user_cache(), "olmes")
        published = os.path.join(cache, "models", MODEL)
        published = os.path.join(published, next(f for f in os.listdir(published) if f.endswith(".gguf")))
        with open(published, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        expanded = {}
        for name in os.listdir(os.path.join(cache, "expanded")):
            for dtype in ("f32", "bf16"):
                if name.startswith(f"{digest[:32]}-{dtype}-"):
                    expanded[dtype] = os.path.join(cache, "expanded", name)
        paths = {("llamacpp", d): path for d, path in expanded.items()}
        if self.environments.keys() & {"transformers", "vllm"}:
            folder = os.path.join(self.args.dir, "weights-" + digest[:32])
            if not os.path.exists(folder):
                e = environment.make(self.args.dir, "transformers", environment.transformers)
                command = [e.python, "-B", os.path.join(HERE, "weights.py"), "--gguf", published]
                run(*command, "--expanded", expanded["f32"], "--out", folder, env=self.environ)
            paths |= {(name, d): folder for name in ("transformers", "vllm") for d in self.dtypes}
        return paths

    def run_peers(self, requests):
        weights = self.weights()
        if "transformers" in self.environments:
            self.run_olmes("torch", [d for n, d in self.peers if n == "torch"], weights["transformers", self.dtypes[0]])
        limit = self.args.peer_instances or self.args.instances
        for name, dtype in self.peers:
            if name not in self.environments:  # olmes's own engine too
                continue
            left = self.left(name, dtype)
            if not left:
                continue
            print(f"{name} {dtype}: {len(left)} of {len(self.lines)} lines", flush=True)
            command = [self.environments[name].python, "-B", os.path.join(HERE, SCRIPTS[name])]
            command += ["--requests", requests, "--lines", ",".join(left), "--model", weights[name, dtype]]
            command += ["--dtype", dtype, "--threads", str(self.args.threads)]
            command += ["--instances", str(limit), "--out", self.results]
            if SCRIPTS[name] == "lmeval.py":
                command += ["--engine", name, "--batch-sizes", self.args.batch_sizes, "--probe", str(self.args.probe)]
            log = os.path.join(self.out, f"{name}.{dtype}.log")
            with open(log, "a", encoding="utf-8") as f:
                code = subprocess.run(command, env=self.environ, stdout=f, stderr=f).returncode
            if code:
                self.missing[f"{name}:{dtype}"] = f"ended with code {code}; its messages are in {log}"
                print(f"{name} {dtype}: {self.missing[f'{name}:{dtype}']}", file=sys.stderr)


def main():
    args = arguments()
    b = Bench(args)
    if not args.report_only:
        b.settings()
        b.install()
        if args.install_only:
            return 0
        requests = b.requests()
        b.run_olmes("olmes", b.dtypes)
        b.run_peers(requests)
    table = report.markdown(b.measured(), machine(), " ".join(["bench/peers.sh", *sys.argv[1:]]), b.missing)
    path = os.path.join(b.out, "peers.md")
    with open(path, "w", encoding="utf-8") as f:
        f.write(table)
    print(table)
    print(f"written to {path} and {b.results}")
    return 1 if b.missing else 0


if __name__ == "__main__":
    sys.exit(main())
