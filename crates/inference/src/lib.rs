//! The embedded model: a folder with a Llama-architecture model goes in, streamed tokens come out.
