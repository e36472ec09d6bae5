"""Converts a demo model from the Hugging Face layout to GGUF, the format of llama.cpp.

    python demo_to_gguf.py assets/models/tiny tiny.gguf

Weights are stored as 32-bit floats, which hold the 16-bit weights exactly. Only features of the demo models are
supported: Llama without biases or scaled positions, and a tokenizer with one token per byte.
"""

import json
import sys
from pathlib import Path

import gguf
from safetensors.numpy import load_file

BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """The GGUF name of a tensor: `model.layers.1.self_attn.q_proj.weight` becomes `blk.1.attn_q.weight`."""
    whole = name.removesuffix(".weight")
    if whole in OUTSIDE:
        return f"{OUTSIDE[whole]}.weight"
    layer, part = whole.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{BLOCK[part]}.weight"


def interleave(weight, heads):
    """Reorders the rows of a head for llama.cpp's rotation: pairs are adjacent, not half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_config(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def add_tokenizer(writer, tokenizer, config):
    """A tokenizer with one token per byte, as a byte-pair encoding without merges."""
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    assert not tokenizer["model"]["merges"] and len(tokens) == 260
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
    # llama.cpp requires at least one merge. This one never applies, because special tokens are split off first.
    writer.add_token_merges(["<s> <s>"])
    writer.add_bos_token_id(special[config["bos_token"]])
    writer.add_eos_token_id(special[config["eos_token"]])
    writer.add_pad_token_id(special[config["pad_token"]])
    # The chat template begins with this token.
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(config["chat_template"])


def read_settings(folder):
    """The configuration, the tokenizer and the configuration of the tokenizer of the model in `folder`."""
    names = ("config.json", "tokenizer.json", "tokenizer_config.json")
    return [json.loads((Path(folder) / name).read_text()) for name in names]


def write_files(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert(folder, path):
    """Writes the model of `folder` to `path`."""
    folder = Path(folder)
    config, tokenizer, tokenizer_config = read_settings(folder)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(folder.name)
    add_config(writer, config)
    add_tokenizer(writer, tokenizer, tokenizer_config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, weight in load_file(folder / "model.safetensors").items():
        weight = weight.astype("float32")
        part = name.split(".")[-2]
        if part in heads:
            weight = interleave(weight, heads[part])
        writer.add_tensor(gguf_name(name), weight)
    write_files(writer)


if __name__ == "__main__":
    convert(*sys.argv[1:])
