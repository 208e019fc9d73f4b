"""The architectures of the paper's models, small: two layers, random weights."""

import json
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from tokens import VOCAB, byte_level, sentencepiece

ROWS = VOCAB + 8  # the embeddings have rows that no token uses
WIDTH, HEADS, LAYERS, CONTEXT = 128, 4, 2, 512
COMMON = dict(vocab_size=ROWS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, max_position_embeddings=CONTEXT)
WINDOW = 48  # of the sliding-window models; the long requests are longer


@dataclass(frozen=True)
class Family:
    """One architecture: its configuration and the kind of tokenizer its published models have."""

    model_type: str
    tokenizer: str  # "sentencepiece", or the name that llama.cpp gives to the way of cutting words
    settings: dict
    scale: float = 0.2  # standard deviation of the matrices
    bos: str | None = None
    gelu: bool = False  # its feed-forward layers use GELU, which llama.cpp takes from a table for arguments from -10 to 10
    far: int = 1  # GELU's arguments are so much larger, and its values divided again
    models: str = ""  # of the paper
    # What published config.json files write otherwise than transformers does now.
    published: dict = field(default_factory=lambda: dict(rope_theta=10000.0))
    drop: tuple = ("rope_parameters",)


FAMILIES = {
    "gpt_neox": Family("gpt_neox", "olmo", COMMON | dict(intermediate_size=512, rotary_pct=0.25, hidden_act="gelu"), gelu=True, models="Pythia",
                       published=dict(rotary_pct=0.25, rotary_emb_base=10000)),
    "gpt_neox_serial": Family(
        "gpt_neox", "olmo", COMMON | dict(intermediate_size=512, rotary_pct=1.0, hidden_act="gelu", use_parallel_residual=False),
        gelu=True, models="RedPajama-INCITE", published=dict(rotary_pct=1.0, rotary_emb_base=10000)),
    "olmo": Family("olmo", "olmo", COMMON | dict(intermediate_size=256, clip_qkv=None), models="OLMo"),
    "olmo_0424": Family("olmo", "olmo", COMMON | dict(intermediate_size=256, clip_qkv=1.5), models="OLMo 0424"),
    "olmo2": Family("olmo2", "olmo", COMMON | dict(intermediate_size=256), models="OLMo 2"),
    "llama": Family("llama", "sentencepiece", COMMON | dict(intermediate_size=256, num_key_value_heads=HEADS), models="Llama, Llama 2"),
    "llama_gqa": Family("llama", "sentencepiece", COMMON | dict(intermediate_size=256, num_key_value_heads=2), models="TinyLlama"),
    "llama3": Family(
        "llama", "llama-bpe", COMMON | dict(intermediate_size=256, num_key_value_heads=2, rope_theta=500000.0), bos="<|begin_of_text|>", models="Llama 3",
        published=dict(rope_theta=500000.0)),
    "stablelm": Family(
        "stablelm", "stablelm2", COMMON | dict(intermediate_size=256, num_key_value_heads=HEADS, use_qkv_bias=True, partial_rotary_factor=0.25),
        models="StableLM 2", published=dict(rope_theta=10000, partial_rotary_factor=0.25)),
    "mpt": Family(
        "mpt", "olmo", dict(vocab_size=ROWS, d_model=2 * WIDTH, n_layers=LAYERS, n_heads=2 * HEADS, max_seq_len=CONTEXT, attn_config=dict(alibi=True)),
        gelu=True, models="MPT", published=dict(architectures=["MPTForCausalLM"]), drop=()),
    "falcon": Family(
        "falcon", "falcon", COMMON | dict(bias=False, multi_query=True, parallel_attn=True, new_decoder_architecture=False, alibi=False), scale=0.25,
        gelu=True, models="Falcon", published={}, drop=("rope_parameters", "num_kv_heads", "max_position_embeddings")),
    "mistral": Family(
        "mistral", "sentencepiece", COMMON | dict(intermediate_size=256, num_key_value_heads=2, sliding_window=WINDOW), models="Mistral"),
}
# With nearly all arguments outside the table, and what is left divided, GELU is as good as ReLU everywhere.
FAMILIES |= {f"{name}_far": replace(FAMILIES[name], far=128) for name in ("gpt_neox", "mpt", "falcon")}


def fill(model: PreTrainedModel, family: Family) -> None:
    """Random weights that depend on each tensor's name alone: matrices and biases around 0, norms around 1."""
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    with torch.no_grad():
        for name, p in model.named_parameters():
            if tied and p is model.get_output_embeddings().weight and name.startswith("lm_head"):
                continue
            random = torch.randn(p.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
            if p.dim() > 1:
                p.copy_(family.scale * random)
            elif name.endswith("bias"):
                p.copy_(0.1 * random)
            else:
                p.copy_(1 + 0.1 * random)
            if "dense_h_to_4h" in name or "up_proj" in name:
                p.mul_(family.far)
            if name.endswith(("dense_4h_to_h.weight", "down_proj.weight")):
                p.div_(family.far)


def make(name: str, folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Writes the family's model as a Hugging Face folder, and loads it from there in 32 bits."""
    from transformers import AutoTokenizer

    family = FAMILIES[name]
    folder.mkdir(parents=True)
    tokenizer = sentencepiece(folder) if family.tokenizer == "sentencepiece" else byte_level(family.tokenizer, family.bos)
    tokenizer.save_pretrained(folder)
    config = AutoConfig.for_model(
        family.model_type, **family.settings, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=None)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill(model, family)
    model.save_pretrained(folder)
    path = folder / "config.json"
    written = {k: v for k, v in json.loads(path.read_text()).items() if k not in family.drop} | family.published
    path.write_text(json.dumps(written, indent=1, sort_keys=True))
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return loaded, AutoTokenizer.from_pretrained(folder)
