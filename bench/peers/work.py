"""What the workers share: requests in, one JSON line out for each task and formulation."""

import argparse
import hashlib
import json
import os
import resource
import struct
import time


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--requests", required=True, help="folder of TASK.FORMULATION.jsonl")
    parser.add_argument("--lines", required=True, help="TASK.FORMULATION, comma-separated, in order")
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True, choices=["f32", "bf16"])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--instances", type=int, required=True, help="scored of each line, from its first on")
    parser.add_argument("--out", required=True, help="file that the lines are appended to")
    return parser


def instances(folder, line, limit):
    """The first instances of a line: lists of (context, continuation), choices in order."""
    groups = {}
    with open(os.path.join(folder, line + ".jsonl"), encoding="utf-8") as f:
        for text in f:
            r = json.loads(text)
            groups.setdefault(r["doc_id"], []).append((r["context"], r["continuation"]))
    ids = list(groups)[:limit]
    return ids, [groups[i] for i in ids]


def boundary(context, continuation):
    """White space at a context's end belongs to the continuation."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def digest(ids):
    """As olmes's records have it of a request's ids."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def cpu_seconds(pid=None):
    """Processor time of a process and its living descendants, or None where the system does not tell."""
    try:
        parents, used = {}, {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", encoding="utf-8") as f:
                        fields = f.read().rpartition(")")[2].split()
                except OSError:
                    continue  # has ended meanwhile
                parents[int(name)], used[int(name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    except OSError:
        return None
    family, total = [pid or os.getpid()], 0
    for p in family:
        total += used.get(p, 0)
        family += [child for child, parent in parents.items() if parent == p]
    return total / os.sysconf("SC_CLK_TCK")


def spent(before):
    """Processor time since before, a value of cpu_seconds."""
    return None if before is None else cpu_seconds() - before


def regroup(groups, values):
    """Values of all requests, in order, as a list for each instance."""
    values = iter(values)
    return [[next(values) for _ in group] for group in groups]


def emit(args, line, ids, groups, encoded, logprobs, **measured):
    """Appends a measured line; it is complete or absent.

    encoded and logprobs (nats) are of all requests, in order.
    """
    task, formulation = line.rsplit(".", 1)
    record = {
        "task": task,
        "formulation": formulation,
        "dtype": args.dtype,
        "threads": args.threads,
        "instances": len(ids),
        "requests": sum(map(len, groups)),
        "load_average": os.getloadavg()[0],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **measured,
        "doc_ids": ids,
        "ids_sha256": regroup(groups, map(digest, encoded)),
        "logprobs": regroup(groups, logprobs),
    }
    with open(args.out, "a", encoding="utf-8") as f:
        f.write(json.dumps(record) + "\n")
        f.flush()
        os.fsync(f.fileno())
