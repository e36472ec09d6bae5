"""Runs a llama.cpp server in this process: prints its URL, then serves until standard input is closed.

    python llama_server.py tiny.gguf [--name tiny] [--slots 4] [--context 256] [--port 8080]

The package `xllamacpp` contains the server of llama.cpp.
"""

import argparse
import sys
from pathlib import Path

import xllamacpp


def start(arguments):
    params = xllamacpp.CommonParams()
    params.model.path = arguments.gguf
    params.model_alias = {arguments.name}
    params.port = arguments.port
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context * arguments.slots
    params.endpoint_metrics = True
    params.verbosity = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    if arguments.no_cache:
        params.cache_prompt = False
        params.cache_ram_mib = 0
    if arguments.ping is not None:
        params.sse_ping_interval = arguments.ping
    if arguments.key is not None:
        params.api_keys = [arguments.key]
    if arguments.template is not None:
        params.chat_template = arguments.template.read_text()
    # Exact keys and values, so that answers equal those of the embedded model.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(params)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("--name", default="tiny", help="model name")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free port")
    parser.add_argument("--slots", type=int, default=4, help="number of concurrent requests")
    parser.add_argument("--context", type=int, default=256, help="maximum number of tokens per request")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-cache", action="store_true", help="process every prompt in full, and save none in memory")
    parser.add_argument("--ping", type=int, help="seconds without a chunk before a keep-alive comment; default 30")
    parser.add_argument("--key", help="API key; requests without it get 401")
    parser.add_argument("--template", type=Path, help="chat template, instead of the model's")
    server = start(parser.parse_args())
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
