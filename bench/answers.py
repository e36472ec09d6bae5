#!/usr/bin/env python3
"""Compares the greedy answers of random Llama models computed by transformers and by ergo.

usage: bench/answers.py ERGO

Needs torch and transformers. The script creates models in the shapes of real checkpoints and saves them with
transformers; the tokenizer is that of the demo models. All answers should be equal: both compute in 32-bit floats.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ASSETS = pathlib.Path(__file__).resolve().parent.parent / "assets"
BOS, EOS, PAD, ANSWER = 256, 257, 258, 259
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
)
SHAPES = {
    "grouped queries, tied, bf16": (
        dict(num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True), torch.bfloat16, "5GB"),
    "biases, f32": (
        dict(num_attention_heads=4, num_key_value_heads=4, attention_bias=True, mlp_bias=True), torch.float32, "5GB"),
    "llama3 rope, f16": (
        dict(num_attention_heads=4, num_key_value_heads=1, rope_theta=500000.0, rope_scaling=LLAMA3), torch.float16, "5GB"),
    "separate head size, linear rope": (
        dict(num_attention_heads=4, num_key_value_heads=2, head_dim=48, rope_scaling=dict(rope_type="linear", factor=2.0)),
        torch.float32, "5GB"),
    "several threads, shards": (
        dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12, num_key_value_heads=4),
        torch.bfloat16, "20MB"),
}


def save(folder, shape, dtype, shard):
    common = dict(vocab_size=260, hidden_size=128, intermediate_size=352, num_hidden_layers=3, initializer_range=0.15,
                  max_position_embeddings=512, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD)
    LlamaForCausalLM(LlamaConfig(**(common | shape))).to(dtype).save_pretrained(folder, max_shard_size=shard)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ASSETS / "models/tiny" / file, folder / file)


def answers_of_transformers(folder, problems):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for problem in problems:
        prompt = torch.tensor([[BOS, *problem.encode(), ANSWER]])
        tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=40,
                                eos_token_id=EOS, pad_token_id=PAD)[0, prompt.shape[1]:].tolist()
        yield bytes(token for token in tokens if token < 256).decode("utf-8", "replace"), len(tokens)


def answers_of_ergo(ergo, folder, problems, work):
    dataset = work / "problems.jsonl"
    dataset.write_text("\n".join(json.dumps(dict(problem=problem)) for problem in problems))
    runs = work / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    subprocess.run([ergo, "profile", "--quiet", "--idle", "0s", "--no-model", "--grader", "none", "--max-tokens", "40",
                    "--dataset", dataset, "--model", folder, "--output-dir", runs], check=True, stdout=subprocess.DEVNULL)
    (run,) = runs.iterdir()
    lines = map(json.loads, (run / "journal/session-0.events.jsonl").read_text().splitlines())
    ended = sorted((line["ended"] for line in lines if "ended" in line), key=lambda ended: ended["query"]["index"])
    return [(each["text"], each["usage"]["output"]) for each in ended]


def main():
    torch.manual_seed(0)
    lines = (ASSETS / "datasets/builtin.jsonl").read_text().splitlines()[:40]
    problems = [json.loads(line)["problem"] for line in lines]
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for number, (name, (shape, dtype, shard)) in enumerate(SHAPES.items()):
            folder = work / f"model{number}"
            folder.mkdir()
            save(folder, shape, dtype, shard)
            expected = list(answers_of_transformers(folder, problems))
            actual = answers_of_ergo(pathlib.Path(sys.argv[1]).resolve(), folder, problems, work)
            print(f"{name:36} {sum(one == other for one, other in zip(expected, actual))} of {len(expected)} equal")


if __name__ == "__main__":
    main()
