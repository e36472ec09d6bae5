#!/usr/bin/env python3
"""Writes a Llama model with random weights in the Hugging Face layout, with the tokenizer of the demo model `tiny`.

usage: bench/random_llama.py FOLDER [--hidden N, 1024] [--intermediate N, 3072] [--layers N, 4] [--context N, 2048]

The model gives random text, which is enough to measure time. It needs no download. The Python packages numpy and
safetensors are required. Every byte is a token.
"""

import argparse
import json
import pathlib

import numpy
from safetensors.numpy import save_file

DEMO = pathlib.Path(__file__).resolve().parent.parent / "assets/models/tiny"
HEADS = 8


def tensors(config, seed=0):
    random = numpy.random.default_rng(seed)
    hidden, inner, vocabulary = (config[name] for name in ("hidden_size", "intermediate_size", "vocab_size"))

    def weight(*shape):
        return random.standard_normal(shape, dtype="float32") * numpy.float32(0.02)

    def norm():
        return numpy.ones(hidden, "float32")

    found = {"model.embed_tokens.weight": weight(vocabulary, hidden), "lm_head.weight": weight(vocabulary, hidden),
             "model.norm.weight": norm()}
    for layer in range(config["num_hidden_layers"]):
        start = f"model.layers.{layer}"
        found |= {f"{start}.{name}.weight": norm() for name in ("input_layernorm", "post_attention_layernorm")}
        found |= {f"{start}.self_attn.{name}_proj.weight": weight(hidden, hidden) for name in "qkvo"}
        found |= {f"{start}.mlp.{name}_proj.weight": weight(inner, hidden) for name in ("gate", "up")}
        found[f"{start}.mlp.down_proj.weight"] = weight(hidden, inner)
    return found


def write(folder, hidden, intermediate, layers, context):
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((DEMO / "config.json").read_text())
    config |= dict(hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
                   num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=context,
                   torch_dtype="float32")
    tokenizer = json.loads((DEMO / "tokenizer_config.json").read_text()) | dict(model_max_length=context)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))
    (folder / "tokenizer.json").write_bytes((DEMO / "tokenizer.json").read_bytes())
    save_file(tensors(config), folder / "model.safetensors", metadata=dict(format="pt"))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--intermediate", type=int, default=3072)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=2048)
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
