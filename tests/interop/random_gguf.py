"""Writes a Llama model with random weights and the tokenizer of a demo model in the format of llama.cpp.

    python random_gguf.py assets/models/tiny random.gguf

The model gives random text, but takes long enough for time measurements: 23 million parameters as 32-bit floats.
"""

import sys
from pathlib import Path

import demo_to_gguf
import gguf
import numpy

HIDDEN, FEED_FORWARD, LAYERS, HEADS, CONTEXT = 768, 2304, 3, 8, 1024
SHAPES = {
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (HIDDEN, HIDDEN),
    "attn_v": (HIDDEN, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_gate": (FEED_FORWARD, HIDDEN),
    "ffn_up": (FEED_FORWARD, HIDDEN),
    "ffn_down": (HIDDEN, FEED_FORWARD),
}


def write(folder, path):
    """Writes a model with the tokenizer of the demo model in `folder` to `path`."""
    config, tokenizer, tokenizer_config = demo_to_gguf.read_settings(folder)
    config |= {
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "max_position_embeddings": CONTEXT,
    }
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    demo_to_gguf.add_config(writer, config)
    demo_to_gguf.add_tokenizer(writer, tokenizer, tokenizer_config)
    random = numpy.random.default_rng(0)

    def add_weight(name, shape):
        writer.add_tensor(f"{name}.weight", random.standard_normal(shape, dtype="float32") * numpy.float32(0.02))

    def add_norm(name):
        writer.add_tensor(f"{name}.weight", numpy.ones(HIDDEN, "float32"))

    add_weight("token_embd", (config["vocab_size"], HIDDEN))
    add_weight("output", (config["vocab_size"], HIDDEN))
    add_norm("output_norm")
    for layer in range(LAYERS):
        add_norm(f"blk.{layer}.attn_norm")
        add_norm(f"blk.{layer}.ffn_norm")
        for name, shape in SHAPES.items():
            add_weight(f"blk.{layer}.{name}", shape)
    demo_to_gguf.write_files(writer)


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
