"""A model out of a Hugging Face folder, without running anything of it."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import sys
from dataclasses import dataclass, field

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from .packing import is_out_of_memory
from .protocol import InputError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
STORED = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2}  # bytes; all else 1

# Packages beside accelerate that quantized weights need, by the method's name.
QUANTIZED = {"gptq": ("optimum", "gptqmodel"), "awq": ("gptqmodel",), "bitsandbytes": ("bitsandbytes",), "compressed-tensors": ("compressed_tensors",)}


# How many devices of a kind torch sees here.
ACCELERATORS = {
    "cuda": lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0,
    "mps": lambda: int(torch.backends.mps.is_available()),
    "xpu": lambda: torch.xpu.device_count() if torch.xpu.is_available() else 0,
}


@dataclass
class Loaded:
    """A model, its tokenizer, what a record should say of them, and what the
    weights take of the machine's memory."""

    model: torch.nn.Module
    tokenizer: object
    weight_type: str
    quantization: str = ""
    adapter: str = ""
    notes: list[str] = field(default_factory=list)
    bytes: int = 0


def load(
    model: str,
    device: str = "auto",
    dtype: str = "auto",
    adapter: str = "",
    trust_remote_code: bool = False,
    memory: int = 0,
) -> Loaded:
    """Loads a folder; an InputError says why it cannot be.

    memory is how many bytes of the machine's own can be taken, 0 where that is
    not known.
    """
    if not os.path.isfile(os.path.join(model, "config.json")):
        raise InputError(f"{model} is not a model in Hugging Face's form: it has no config.json")
    if os.path.exists(os.path.join(model, "adapter_config.json")):
        # transformers would load the base model that this file names.
        raise InputError(f"{model} is an adapter: give its base model as the model, and this folder as its adapter")
    options = {"local_files_only": True, "trust_remote_code": bool(trust_remote_code)}
    try:
        config = AutoConfig.from_pretrained(model, **options)
    except Exception as e:
        raise InputError(_reason(model, "configuration", e)) from e
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, **options)
    except Exception as e:
        raise InputError(_reason(model, "tokenizer", e)) from e
    stored, kind = _stored(model)
    quantization = _quantization(config)
    notes: list[str] = []
    where, placement = _placement(device, stored)
    chosen = _dtype(dtype, stored, quantization, where, notes)
    if quantization:
        packages = QUANTIZED.get(quantization.split()[0], ())
        _need(["accelerate", *packages] if packages or where.type != "cpu" else [], f"for weights quantized as {quantization}")
    if where.type == "cpu":
        _fits(stored, chosen, memory)
    options |= {"config": config, "dtype": chosen, "output_loading_info": True, "weights_only": True}
    options["use_safetensors"] = kind == "safetensors"
    if placement is not None or quantization and where.type != "cpu":
        _need(["accelerate"], "to place this model on its devices")
        options["device_map"] = placement or {"": where}
    result, info = _load_weights(model, config, options)
    for name in ("missing_keys", "mismatched_keys"):
        if info.get(name):
            # transformers would go on with random numbers in their place.
            raise InputError(f"{model} lacks {len(info[name])} of the model's weights, such as {sorted(map(str, info[name]))[0]}")
    if info.get("unexpected_keys"):
        unexpected = sorted(map(str, info["unexpected_keys"]))
        notes.append(f"{len(unexpected)} stored weights are not used by the model, such as {unexpected[0]}")
    if "device_map" not in options:
        result = result.to(where)
    if placement is not None:
        notes.append(f"the model is spread over {len(set(result.hf_device_map.values()))} devices")
    if not stored:  # a pickle's types are not known before it is loaded
        claimed = getattr(config, "dtype", None) or result.dtype
        stored = {kind: 1 for kind, value in STORED.items() if value == claimed}
    out = Loaded(result, tokenizer, _weight_type(stored, quantization), quantization, "", notes)
    if adapter:
        _adapt(out, adapter)
    out.model.eval()
    out.model.requires_grad_(False)
    out.bytes = sum(p.numel() * p.element_size() for p in out.model.parameters() if p.device.type == "cpu")
    return out


def _load_weights(model: str, config, options: dict):
    text = config.get_text_config()
    # Only eager attention caps its scores.
    kinds = ["eager"] if getattr(text, "attn_logit_softcapping", None) else ["sdpa", "eager"]
    for kind in kinds:
        try:
            return AutoModelForCausalLM.from_pretrained(model, attn_implementation=kind, **options)
        except Exception as e:
            if kind == "sdpa" and ("attn_implementation" in str(e) or "scaled_dot_product_attention" in str(e)):
                continue
            if is_out_of_memory(e):
                raise RuntimeError(f"the model does not fit into the memory of {options.get('device_map') or 'this machine'}: {e}") from e
            raise InputError(_reason(model, "model", e)) from e
    raise AssertionError("unreachable")


def _reason(model: str, part: str, e: Exception) -> str:
    text = f"{type(e).__name__}: {e}"[:1500]
    if "trust_remote_code" in text:
        return f"{model} needs Python code of its own to load its {part}, which is not run unless --trust-remote-code is given"
    if isinstance(e, ImportError) or "sentencepiece" in text or "tiktoken" in text:
        return f"cannot load the {part} of {model}: a Python package is missing: {text}"
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return f"transformers {transformers.__version__} does not know the architecture of {model}: a newer one may: {text}"
    return f"cannot load the {part} of {model}: {text}"


def _need(packages: list[str], why: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(name.replace("_", "-") for name in missing)
        raise InputError(f"the Python package{'s' * (len(missing) > 1)} {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} needed {why}: run: {sys.executable} -m pip install {names}")


def _fits(stored: dict[str, int], dtype, memory: int) -> None:
    """Refuses weights that the machine's memory cannot hold, before it is filled."""
    size = {kind: dtype.itemsize if isinstance(dtype, torch.dtype) and kind in STORED else SIZES.get(kind, 1) for kind in stored}
    need = sum(n * size[kind] for kind, n in stored.items())
    if 0 < memory < need:
        raise InputError(f"the model's weights need {-(-need // 10**6)} MB of memory, of which {memory // 10**6} MB are free: free some, or compute it on a GPU or in a narrower type (--dtype)")


def _stored(model: str) -> tuple[dict[str, int], str]:
    """Numbers of each type in the weights' files, and the files' kind."""
    names = sorted(os.listdir(model))
    files = [n for n in names if n.endswith(".safetensors") and n.startswith("model")] or [n for n in names if n.endswith(".safetensors")]
    counts: dict[str, int] = {}
    if not files:
        if not any(n.endswith(".bin") for n in names):
            raise InputError(f"{model} has no weights: neither .safetensors nor .bin files")
        return counts, "pickle"
    for name in files:
        path = os.path.join(model, name)
        try:
            with open(path, "rb") as f:
                (size,) = struct.unpack("<Q", f.read(8))
                if size > min(os.path.getsize(path), 100 << 20):
                    raise ValueError("its header is longer than the file")
                header = json.loads(f.read(size))
            for key, tensor in header.items():
                if key != "__metadata__":
                    count = 1
                    for n in tensor["shape"]:
                        count *= n
                    counts[tensor["dtype"]] = counts.get(tensor["dtype"], 0) + count
        except (OSError, ValueError, KeyError, TypeError, struct.error) as e:
            raise InputError(f"{path} is not a safetensors file: {e}") from e
    return counts, "safetensors"


def _weight_type(stored: dict[str, int], quantization: str) -> str:
    if quantization:
        return quantization
    return max(stored, key=stored.get) if stored else ""


def _quantization(config) -> str:
    q = getattr(config, "quantization_config", None)
    if q is None:
        return ""
    q = q if isinstance(q, dict) else q.to_dict()
    method = q.get("quant_method") or ("bitsandbytes" if q.get("load_in_4bit") or q.get("load_in_8bit") else "unknown")
    method = getattr(method, "value", method)
    bits = q.get("bits") or q.get("w_bit") or (4 if q.get("load_in_4bit") else 8 if q.get("load_in_8bit") else None)
    return f"{method} {bits}-bit" if bits else str(method)


def _dtype(name: str, stored: dict[str, int], quantization: str, where: torch.device, notes: list[str]):
    if name not in ("", "auto"):
        if name not in DTYPES:
            raise InputError(f"dtype {name!r} is not one of auto, {', '.join(DTYPES)}")
        return DTYPES[name]
    floats = {k: n for k, n in stored.items() if k in STORED}
    if quantization or not floats:
        return "auto"
    # The weights' own type; a configuration may claim another.
    found = STORED[max(floats, key=floats.get)]
    if found == torch.float16 and where.type == "cpu":
        notes.append("the weights are of 16-bit floats, which processors compute slowly: computed in 32 bits")
        return torch.float32
    return found


def _placement(device: str, stored: dict[str, int]):
    """The device, and a device_map where one device does not do."""
    if device in ("", "auto"):
        if torch.cuda.is_available():
            need = sum(n * SIZES.get(kind, 1) for kind, n in stored.items())
            free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
            best = max(range(len(free)), key=free.__getitem__)
            if need > 0.85 * free[best] and len(free) > 1:
                return torch.device("cuda", 0), "auto"
            return torch.device("cuda", best), None
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu"), None
    try:
        where = torch.device(device)
    except RuntimeError:
        where = None
    if where is None or where.type not in ("cpu", *ACCELERATORS) or where.type in ("cpu", "mps") and where.index:
        raise InputError(f"device {device!r} is not one of auto, cpu, cuda, cuda:N, mps, xpu, xpu:N")
    if where.type == "cpu":
        return where, None
    count = ACCELERATORS[where.type]()
    if (where.index or 0) >= count:
        built = where.type == "mps" or any(getattr(torch.version, name, None) for name in ("cuda", "hip", "xpu") if (name == "xpu") == (where.type == "xpu"))
        raise InputError(f"device {device}: torch {torch.__version__} sees {count or 'no'} {where.type.upper()} device{'s' * (count != 1)} here" + ("" if built else " and is built without support for them"))
    return torch.device(where.type, where.index or 0) if where.type != "mps" else where, None


def _adapt(loaded: Loaded, adapter: str) -> None:
    _need(["peft"], "to load an adapter")
    import peft

    if not os.path.isfile(os.path.join(adapter, "adapter_config.json")):
        raise InputError(f"{adapter} is not an adapter in PEFT's form: it has no adapter_config.json")
    try:
        wrapped = peft.PeftModel.from_pretrained(loaded.model, adapter, is_trainable=False, local_files_only=True)
    except Exception as e:
        raise InputError(f"cannot load the adapter {adapter}: {type(e).__name__}: {e}"[:1500]) from e
    settings = wrapped.peft_config["default"]
    if settings.is_prompt_learning:
        raise InputError(f"the adapter {adapter} puts learned tokens before every text ({settings.peft_type.value}), which the standard's requests have no place for")
    loaded.model = wrapped.get_base_model()  # with the adapter's layers in it
    rank = getattr(settings, "r", None)
    loaded.adapter = settings.peft_type.value.lower() + (f" of rank {rank}" if rank else "")
