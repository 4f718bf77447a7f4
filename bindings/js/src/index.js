export { GuiderailError } from "./errors.js";
export { allocateTokenBitmask, allowedTokens, applyTokenBitmask } from "./bitmask.js";
export { Guide, Matcher } from "./matcher.js";
export { Program } from "./program.js";
export { Vocabulary } from "./vocabulary.js";
export { isLoaded, load, version } from "./wasm.js";
