"""Log-probabilities of requests from transformers in fp32, out of a GGUF file."""

import hashlib
import os
import re
import struct

import gguf
import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

WINDOW = 2048

MODELS = {
    "smollm2": {
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "bos": False,
    },
    "gemma": {
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "bos": True,
    },
}

# GGUF's tensor names in the terms of transformers' module names. Gemma has a
# norm before and after each half of a layer, Llama only before.
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
FFN_NORM = {"llama": "post_attention_layernorm", "gemma3": "pre_feedforward_layernorm"}
TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def _hf_name(architecture, name):
    if name in TOP:
        return TOP[name]
    layer, part = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name).groups()
    part = FFN_NORM[architecture] if part == "ffn_norm" else BLOCK[part]
    return f"model.layers.{layer}.{part}.weight"


def _hf_values(architecture, name, values, heads, kv_heads):
    """A GGUF tensor's values in transformers' convention."""
    if architecture == "llama" and re.search(r"attn_[qk]\.weight$", name):
        # GGUF pairs the two halves of a rotary dimension, row 2j and 2j + 1;
        # transformers keeps them half a head apart.
        n = heads if "attn_q." in name else kv_heads
        size = values.shape[0] // n
        rows = [h * size + 2 * j + half for h in range(n) for half in range(2) for j in range(size // 2)]
        return values[rows]
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return values - np.float32(1)  # transformers multiplies by 1 + weight
    return values


def check_weights(model, reader):
    """Compares every parameter with gguf-py's own dequantization, bit for bit.

    Returns the number of tensors compared.
    """
    architecture = reader.get_field("general.architecture").contents()
    heads = reader.get_field(f"{architecture}.attention.head_count").contents()
    kv_heads = reader.get_field(f"{architecture}.attention.head_count_kv").contents()
    state = dict(model.named_parameters())
    for tensor in reader.tensors:
        want = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        want = _hf_values(architecture, tensor.name, want, heads, kv_heads)
        name = _hf_name(architecture, tensor.name)
        have = state.pop(name).detach().numpy()
        if have.dtype != np.float32 or have.shape != want.shape or not np.array_equal(have, want):
            raise SystemExit(f"{name}: differs from gguf-py's dequantized {tensor.name}")
    if state:
        raise SystemExit(f"parameters that no tensor fills: {sorted(state)}")
    if model.lm_head.weight is not model.model.embed_tokens.weight:
        raise SystemExit("output head is not the embedding")
    return len(reader.tensors)


def check_config(config, reader):
    """The facts that transformers could get wrong or fill with a default."""
    architecture = reader.get_field("general.architecture").contents()

    def field(name):
        return reader.get_field(f"{architecture}.{name}").contents()

    have = {"theta": config.rope_parameters.get("rope_theta"), "eps": config.rms_norm_eps, "head": config.head_dim}
    want = {"theta": field("rope.freq_base"), "eps": field("attention.layer_norm_rms_epsilon")}
    if architecture == "gemma3":
        rope = config.rope_parameters
        have |= {
            "theta": rope["full_attention"]["rope_theta"],
            "local theta": rope["sliding_attention"]["rope_theta"],
            "window": config.sliding_window,
            "scale": config.query_pre_attn_scalar,
            "global layers": [i for i, t in enumerate(config.layer_types) if t == "full_attention"],
            "activation": config.hidden_activation,
            "bidirectional": config.use_bidirectional_attention,
        }
        want |= {
            "head": field("attention.key_length"),
            # Not in the file; Gemma 3's published configuration.
            "local theta": 10000.0,
            "window": field("attention.sliding_window"),
            "scale": field("attention.key_length"),
            "global layers": [i for i in range(field("block_count")) if i % 6 == 5],
            "activation": "gelu_pytorch_tanh",
            "bidirectional": False,
        }
    else:
        want["head"] = field("rope.dimension_count")
    if have != want:
        raise SystemExit(f"configuration: have {have}, want {want}")


class Reference:
    def __init__(self, name, path):
        spec = MODELS[name]
        with open(path, "rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        if digest != spec["sha256"]:
            raise SystemExit(f"{path}: SHA-256 {digest}, want {spec['sha256']}")
        folder, file = os.path.split(os.path.abspath(path))
        self.reader = gguf.GGUFReader(path)
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        if self.model.config._attn_implementation != "eager":
            raise SystemExit("attention is not eager")
        check_config(self.model.config, self.reader)
        self.tensors = check_weights(self.model, self.reader)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        if self.reader.get_field("tokenizer.ggml.pre").contents() == "smollm":
            # transformers does not know this pre-tokenizer: every digit stands
            # alone before the byte-level split.
            self.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            )
        types = self.reader.get_field("tokenizer.ggml.token_type").contents()
        self.control = {i for i, t in enumerate(types) if t == 3}
        self.bos = [self.reader.get_field("tokenizer.ggml.bos_token_id").contents()] if spec["bos"] else []
        self.window = min(WINDOW, self.model.config.max_position_embeddings)
        self.separate_differs = 0  # requests whose two parts tokenize otherwise alone

    def tokenize(self, text):
        ids = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
        if self.control.intersection(ids):
            raise SystemExit("text parsed to a special token")
        if self.tokenizer.decode(ids, clean_up_tokenization_spaces=False) != text:
            raise SystemExit("ids do not decode to the text")
        return ids

    def encode(self, context, continuation):
        """Ids as fed and predicted, the continuation's length, tokens dropped."""
        kept = context.rstrip()
        continuation = context[len(kept) :] + continuation
        prefix = self.tokenize(kept)
        joint = self.tokenize(kept + continuation)
        if joint != prefix + self.tokenize(continuation):
            self.separate_differs += 1
        n = len(joint) - len(prefix)
        if n < 1:
            raise SystemExit("continuation without a token")
        # The last id is predicted and never fed, so one more than the window fits.
        dropped = max(0, len(self.bos) + len(joint) - (self.window + 1))
        if dropped > len(prefix):
            raise SystemExit("continuation longer than the window")
        return self.bos + joint[dropped:], n, dropped

    @torch.inference_mode()
    def token_logprobs(self, ids, n):
        """Natural log-probabilities of the last n ids, each after all before it."""
        fed = torch.tensor([ids[:-1]])
        logits = self.model(fed, use_cache=False, logits_to_keep=n).logits[0].double()
        return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[-n:])[:, None])[:, 0].tolist()


def ids_sha256(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()
