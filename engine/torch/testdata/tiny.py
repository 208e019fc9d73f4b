"""Writes small models with random weights. Arguments: a folder and recipes, one
model a recipe, in a folder of its name with spaces as underscores.

A recipe is an architecture and words: sentencepiece (the tokenizer), nfc (it
normalizes), bin (the weights as a pickle), hostile (one that writes a file
"executed" beside it when it is read as pickles are), lora (an adapter in the
folder adapter).
"""

import os
import sys

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SHAPES = {
    "llama": dict(num_key_value_heads=2, intermediate_size=64, num_attention_heads=4, hidden_size=32),
    "gemma3_text": dict(
        num_key_value_heads=1, intermediate_size=64, num_attention_heads=4, hidden_size=32, head_dim=8,
        sliding_window=16, query_pre_attn_scalar=8,
    ),
    "gpt_neox": dict(num_attention_heads=4, intermediate_size=64, hidden_size=32),
    "mpt": dict(n_heads=4, d_model=32, n_layers=2, max_seq_len=4096),
    "mamba": dict(hidden_size=32, state_size=8, num_hidden_layers=2),
    "gemma2": dict(
        num_key_value_heads=1, intermediate_size=64, num_attention_heads=4, hidden_size=32, head_dim=8,
        sliding_window=16, query_pre_attn_scalar=8, attn_logit_softcapping=2.0,
    ),
}


def byte_level():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate(["<s>", "</s>", *alphabet])}
    merges = [("a", "n"), ("Ġ", "a"), ("Ġa", "n")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    t = Tokenizer(models.BPE(vocab, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def sentencepiece():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["▁", *map(chr, range(33, 127)), "an", "▁a", "▁an"]
    vocab = {t: i for i, t in enumerate(tokens)}
    t = Tokenizer(models.BPE(vocab, [("a", "n"), ("▁", "a"), ("▁a", "n")], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def write(folder, recipe):
    kind, *words = recipe.split()
    inner = sentencepiece() if "sentencepiece" in words else byte_level()
    if "nfc" in words:
        inner.normalizer = normalizers.NFC()
    special = {"bos_token": "<s>", "eos_token": "</s>"} | ({"unk_token": "<unk>"} if "sentencepiece" in words else {})
    inner.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special.values()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)

    settings = dict(
        vocab_size=len(tokenizer), num_hidden_layers=2, max_position_embeddings=4096, initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=None, tie_word_embeddings=False,
    )
    settings |= SHAPES[kind]
    if kind == "gemma3_text" or kind == "gemma2":
        settings["layer_types"] = ["sliding_attention", "full_attention"]
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings), dtype=torch.float32)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if "bin" in words or "hostile" in words:
        state = model.state_dict()
        if "hostile" in words:
            state["hostile"] = Hostile(os.path.join(folder, "executed"))
        torch.save(state, os.path.join(folder, "pytorch_model.bin"))
        os.remove(os.path.join(folder, "model.safetensors"))
    if "lora" in words:
        import peft

        adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
        adapted.save_pretrained(os.path.join(folder, "adapter"))


for recipe in sys.argv[2:]:
    write(os.path.join(sys.argv[1], recipe.replace(" ", "_")), recipe)
