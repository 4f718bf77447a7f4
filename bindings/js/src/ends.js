// The tokens that end a turn: the declared ones, and those of public chat formats among the tokenizer's special (or
// added) tokens.
const END_TEXTS = new Set([
  "</s>", // Llama 1 and 2, Mistral, T5
  "<eos>", // Gemma
  "<end_of_turn>",
  "<|endoftext|>", // GPT-2, Qwen, Phi
  "<|end_of_text|>", // Llama 3, Granite
  "<|eot_id|>",
  "<|eom_id|>",
  "<|eot|>", // Llama 4
  "<|eom|>",
  "<|im_end|>", // ChatML: Qwen, SmolLM2, Hermes
  "<|end|>", // Phi 3
  "<|return|>", // gpt-oss
  "<|call|>",
  "<|end_of_turn|>",
  "<|endofturn|>",
  "<|END_OF_TURN_TOKEN|>", // Command R
  "<｜end▁of▁sentence｜>", // DeepSeek
  "<end_of_utterance>", // SmolVLM
  "<|eos|>",
  "[EOS]",
  "<EOT>",
  "_<EOT>",
  "[EOT]",
  "<|EOT|>", // DeepSeek Coder
]);

// In some vocabularies these are text (the end of struck-out HTML): they count only as special tokens.
const SPECIAL_ONLY = new Set(["</s>", "<eos>", "[EOS]", "[EOT]", "<EOT>", "_<EOT>"]);

/**
 * @param {number[]} declared
 * @param {Map<string, number>} special by text
 * @param {Map<string, {id: number}>} added all added tokens, by text
 */
export function endTokens(declared, special, added) {
  // gpt-oss: <|end|> only closes a message; <|return|> or <|call|> ends the turn
  const inner = special.has("<|return|>") && special.has("<|call|>") ? "<|end|>" : null;
  const known = [];
  for (const [text, id] of special) if (END_TEXTS.has(text) && text !== inner) known.push(id);
  for (const [text, { id }] of added)
    if (END_TEXTS.has(text) && text !== inner && !SPECIAL_ONLY.has(text)) known.push(id);
  return [...new Set([...declared, ...known.sort((a, b) => a - b)])];
}
