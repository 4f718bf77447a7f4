"""A transformers model under a constraint in its own ``generate``, with beams.

Needs ``pip install transformers torch``. Without an argument the model is a tiny one with random weights: it writes
nonsense, but only nonsense that the constraint allows. The argument is the folder or hub name of a real one.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import guiderail as gr
from guiderail.integrations.transformers import GuiderailLogitsProcessor

if len(sys.argv) > 1:
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
else:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate([*sorted(letters), "</s>"])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", pad_token="</s>")
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                         num_attention_heads=4, bos_token_id=None, eos_token_id=tokenizer.eos_token_id)  # fmt: skip
    model = LlamaForCausalLM(config)

constraint = gr.patterns.date() | gr.choice(["never", "soon"])
processor = GuiderailLogitsProcessor(constraint, tokenizer)
inputs = tokenizer("It is due: ", return_tensors="pt", return_token_type_ids=False)
output = model.generate(
    **inputs, logits_processor=[processor], num_beams=4, num_return_sequences=4, do_sample=False,
    max_new_tokens=16, pad_token_id=tokenizer.eos_token_id,
)  # fmt: skip
for text in tokenizer.batch_decode(output[:, inputs.input_ids.shape[1] :], skip_special_tokens=True):
    print(repr(text))
    assert constraint.matches(text)
