"""Plain forwards of whole requests in 32 bits, by transformers alone.

Reads a JSON list of {"folder", "adapter", "requests": [{"ids", "start"}]} from
the file named and prints a list of lists of sums of log-probabilities, in nats,
of ids[start:].
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
answers = []
with open(sys.argv[1], encoding="utf-8") as f:
    jobs = json.load(f)
for job in jobs:
    model = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32, attn_implementation="eager").eval()
    if job["adapter"]:
        import peft

        model = peft.PeftModel.from_pretrained(model, job["adapter"]).eval()
    sums = []
    with torch.inference_mode():
        for request in job["requests"]:
            ids, start = request["ids"], request["start"]
            logits = model(input_ids=torch.tensor([ids[:-1]]), use_cache=False).logits[0].double()
            values = torch.log_softmax(logits, -1)[torch.arange(start - 1, len(ids) - 1), torch.tensor(ids[start:])]
            sums.append(values.sum().item())
    answers.append(sums)
print(json.dumps(answers))
