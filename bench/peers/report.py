"""Tables and compared decisions out of the measured lines."""

import math
import statistics
import time

PEERS = ["torch", "transformers", "vllm", "llama.cpp"]
NAMES = {"torch": "olmes, torch", "transformers": "lm-eval, transformers", "vllm": "lm-eval, vLLM", "llama.cpp": "llama.cpp, one at a time"}


def scores(logprobs, chars, normalization):
    if normalization == "character":
        return [p / n for p, n in zip(logprobs, chars, strict=True)]
    return logprobs


def best(values):
    return values.index(max(values))  # the first of equals, as the standard has it


def compare(olmes, peer):
    """Decisions of a peer beside olmes's, on the instances that both scored.

    Returns (instances, equal ids, differences, shifts): a shift is how far two
    choices' difference moved at most on an instance that is decided alike.
    """
    at = {doc_id: i for i, doc_id in enumerate(olmes["doc_ids"])}
    equal_ids = 0
    differing, shifts, deltas = [], [], []
    for j, doc_id in enumerate(peer["doc_ids"]):
        i = at[doc_id]
        if peer["ids_sha256"][j] == olmes["ids_sha256"][i]:
            equal_ids += 1
        deltas += [abs(a - b) for a, b in zip(peer["logprobs"][j], olmes["logprobs"][i], strict=True)]
        own = scores(olmes["logprobs"][i], olmes["chars"][i], olmes["normalization"])
        other = scores(peer["logprobs"][j], olmes["chars"][i], olmes["normalization"])
        moved = [b - a for a, b in zip(own, other, strict=True)]
        a, b = best(own), best(other)
        if a == b:
            shifts.append(max(moved) - min(moved))
        else:
            differing.append({"doc_id": doc_id, "olmes": a, "peer": b, "gold": olmes["gold"][i], "margin": own[a] - own[b]})
    return {
        "instances": len(peer["doc_ids"]),
        "equal_ids": equal_ids,
        "differing": differing,
        "shifts": shifts,
        "deltas": deltas,
    }


def rate(m):
    return m["instances"] / m["seconds"]


def ratio(olmes, peer):
    return rate(olmes) / rate(peer)


def cpu(m):
    """Processor seconds of an instance; NaN where they are not known."""
    return m["cpu_seconds"] / m["instances"] if m.get("cpu_seconds") else math.nan


def joined(header, rows):
    out = ["| " + " | ".join(header) + " |", "|" + "|".join("---" if i < 2 else "--:" for i in range(len(header))) + "|"]
    return "\n".join(out + ["| " + " | ".join(r) + " |" for r in rows])


def speed_table(by, dtype, peers, lines):
    header = ["task", "form", "instances", "tokens", "distinct", "olmes s", "olmes inst/s"]
    for p in peers:
        header += [f"{p} inst/s", "olmes is"]
    rows = []
    for line in lines:
        o = by["olmes", dtype, line]
        row = [line[0], line[1], str(o["instances"]), str(o["tokens_naive"]), str(o["tokens_distinct"])]
        row += [f"{o['seconds']:.2f}", f"{rate(o):.2f}"]
        for p in peers:
            m = by.get((p, dtype, line))
            row += [f"{rate(m):.3f}", f"{ratio(o, m):.1f}x"] if m else ["-", "-"]
        rows.append(row)
    return joined(header, rows)


def summary(by, dtype, peers, lines, own="olmes"):
    """All tasks of a formulation together: seconds for one instance of each. own is the engine that peers are compared with."""
    rows = []
    for p in peers:
        for form in ("cf", "mcf"):
            both = [line for line in lines if line[1] == form and (p, dtype, line) in by and (own, dtype, line) in by]
            if not both or p == own:
                continue
            ratios = [ratio(by[own, dtype, line], by[p, dtype, line]) for line in both]
            olmes = sum(1 / rate(by[own, dtype, line]) for line in both)
            peer = sum(1 / rate(by[p, dtype, line]) for line in both)
            cpus = [sum(cpu(by[q, dtype, line]) for line in both) for q in (p, own)]
            rows.append([
                NAMES[p], dtype + " " + form, str(len(both)),
                f"{peer / olmes:.1f}x", f"{statistics.median(ratios):.1f}x", f"{min(ratios):.1f}x", f"{max(ratios):.1f}x",
                f"{cpus[0] / cpus[1]:.1f}x" if cpus[0] > 0 and cpus[1] > 0 else "-",
            ])  # fmt: skip
    return rows


def details(m):
    text = f"{m['task']} {m['formulation']}: {m['instances']} instances, {m['seconds']:.1f} s"
    text += f" and {m['encode_seconds']:.1f} s tokenizing, {m['tokens_computed']} tokens computed"
    return text + (f", batch size {m['batch_size']}" if "batch_size" in m else "")


def decisions(by, peers):
    """Compared decisions, and every difference with what explains it."""
    rows, listed = [], []
    groups = {}
    for (p, dtype, line), m in by.items():
        if p in peers and ("olmes", dtype, line) in by:
            o = by["olmes", dtype, line]
            key = (p, dtype, line[1], o["normalization"])
            groups.setdefault(key, []).append((line, compare(o, m)))
    for (p, dtype, form, normalization), compared in sorted(groups.items()):
        shifts = [s for _, c in compared for s in c["shifts"]]
        deltas = [d for _, c in compared for d in c["deltas"]]
        bound = max(shifts, default=0.0)
        instances = sum(c["instances"] for _, c in compared)
        differing = [(line, d) for line, c in compared for d in c["differing"]]
        unexplained = sum(d["margin"] > bound for _, d in differing)
        rows.append([
            NAMES[p], f"{dtype} {form}, {normalization}", str(instances), str(sum(c["equal_ids"] for _, c in compared)),
            f"{max(deltas):.5f}", f"{statistics.fmean(deltas):.5f}", f"{bound:.5f}", str(len(differing)), str(unexplained),
        ])  # fmt: skip
        for line, d in differing:
            listed.append([
                NAMES[p], f"{dtype} {line[0]} {form}", str(d["doc_id"]), str(d["olmes"]), str(d["peer"]), str(d["gold"]),
                f"{d['margin']:.5f}", f"{bound:.5f}", "near-tie" if d["margin"] <= bound else "not explained",
            ])  # fmt: skip
    return rows, listed


def markdown(measured, machine, command, missing):
    by = {(m["peer"], m["dtype"], (m["task"], m["formulation"])): m for m in measured}
    dtypes = [d for d in ("f32", "bf16") if any(k[0] == "olmes" and k[1] == d for k in by)]
    peers = [p for p in PEERS if any(k[0] == p for k in by)]
    versions = {}
    for m in measured:
        versions |= {f"{k}": v for k, v in m["versions"].items()}
    out = ["# Side by side", ""]
    out += [
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}, {measured[0]['threads'] if measured else 0} threads each. "
        f"Command: `{command}`. " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())) + ".",
        "",
        "Seconds are those of scoring, models loaded before. An instance is one question with all of its choices.",
    ]
    out += [f"Left out: {name}: {reason}" for name, reason in missing.items()]
    rows = []
    for dtype in dtypes:
        lines = [k[2] for k in by if k[0] == "olmes" and k[1] == dtype]
        present = [p for p in peers if any(k[0] == p and k[1] == dtype for k in by)]
        rows += summary(by, dtype, present, lines)
    header = ["peer", "precision, form", "tasks", "olmes is faster", "median", "least", "most", "in processor time"]
    out += ["", "## Ratio", "", joined(header, rows), ""]
    rows = []
    for dtype in dtypes:
        lines = [k[2] for k in by if k[0] == "torch" and k[1] == dtype]
        rows += summary(by, dtype, [p for p in peers if p in ("transformers", "vllm")], lines, "torch")
    if rows:
        out += ["`olmes --engine torch` beside the same peers:", "", joined(header, rows), ""]
    out.append("`olmes is faster`: an instance of each task together. Processor time depends less on what else the machine does.")
    busy = max((m["load_average"] for m in measured), default=0.0)
    if measured and busy > machine["cores"] + 1:
        out += ["", f"**The machine was busy with other work: load average up to {busy:.1f}. Seconds are not to be relied on.**"]
    for dtype in dtypes:
        lines = [k[2] for k in by if k[0] == "olmes" and k[1] == dtype]
        present = [p for p in peers if any(k[0] == p and k[1] == dtype for k in by)]
        out += ["", f"## Instances per second, {dtype}", "", speed_table(by, dtype, present, lines)]
        for p in present:
            out += ["", f"{NAMES[p]}:", ""]
            out += ["- " + details(by[p, dtype, line]) for line in lines if (p, dtype, line) in by]
    rows, listed = decisions(by, peers)
    header = ["peer", "lines", "instances", "equal ids", "max nats", "mean nats", "shift", "other decision", "not explained"]
    out += ["", "## Decisions", "", joined(header, rows), ""]
    out.append(
        "`max` and `mean`: of the log-probabilities' differences to olmes in the same precision. `shift`: the most that the difference"
        " of two choices moved on an instance both decide alike, in the normalization's own unit; another decision is explained"
        " by a margin of olmes's below it."
    )
    if listed:
        header = ["peer", "line", "doc_id", "olmes", "peer's", "gold", "margin", "shift", ""]
        out += ["", joined(header, listed)]
    return "\n".join(out) + "\n"
