"""Writes a tiny Llama with random weights that prefers the punctuation of JSON, so that its texts end.

    python benchmarks/support/leaning_model.py folder-with-a-tokenizer out

It serves to measure servers on machines where a real model would be too slow. The tokenizer is copied from the first
folder (the tokens named here are SmolLM2's). Needs torch and transformers.
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

PIECES = [
    '"',
    "}",
    "]",
    '"}',
    '",',
    ",",
    ":",
    '":',
    "0",
    "1",
    "2",
    "true",
    "a",
    'Ġ"',
    "]}",
    '"]',
    "}}",
    '{"',
    '["',
    "{",
    "[",
]


def main() -> None:
    source, out = sys.argv[1:]
    torch.manual_seed(1)
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=256,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    liked = {tokenizer.eos_token_id, *map(tokenizer.convert_tokens_to_ids, PIECES)} - {None}
    with torch.no_grad():
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding.normal_(0, 0.3)
        embedding[:, 0] = 4.0  # a direction shared by all states
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.1)
            layer.mlp.down_proj.weight.mul_(0.1)
        head.normal_(0, 0.1)
        head[:, 0] = 0
        along = model.model(torch.tensor([[5, 6, 7]])).last_hidden_state[0, -1, 0].item()
        head[sorted(liked), 0] = 12.0 / along
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
