#include "vocab/vocabulary.hpp"

#include "capi/handles.hpp"
#include "vocab/saved.hpp"

namespace guiderail::capi {
namespace {

constexpr u32 kMostTokens = 1u << 28;

std::unique_ptr<gr_vocabulary> made(VocabularyParts parts) {
  auto out = std::make_unique<gr_vocabulary>();
  out->names = std::move(parts.names);
  out->tokens = std::make_shared<Vocabulary>(std::move(parts.data), std::move(parts.offsets), std::move(parts.special),
                                             parts.size, std::move(parts.stops));
  MaskBuilder::warm(*out->tokens);
  return out;
}

// A name for a special token without text.
std::string name_of(const VocabularyParts& parts, u32 token) {
  if (token + 1 < parts.offsets.size()) {
    std::string text = parts.data.substr(parts.offsets[token], parts.offsets[token + 1] - parts.offsets[token]);
    if (!text.empty() && is_utf8(text) && !parts.names.contains(text)) return text;
  }
  return "<token " + std::to_string(token) + ">";
}

void add_bytes(const gr_vocabulary_parts& from, VocabularyParts& to) {
  if (from.token_count > 0) need(from.lengths, "lengths");
  if (from.token_count > kMostTokens) throw Error("vocabulary-size", "a vocabulary has at most 268,435,456 tokens");
  u64 end = 0;
  for (std::size_t i = 0; i < from.token_count; ++i) {
    end += from.lengths[i];
    if (end > 0xFFFFFFFF) throw Error("vocabulary-shape", "the tokens together exceed 4 GiB");
    to.offsets.push_back(static_cast<u32>(end));
  }
  to.data = text(from.bytes, static_cast<std::size_t>(end), "bytes");
}

VocabularyParts parts_of(const gr_vocabulary_parts& from) {
  VocabularyParts to;
  add_bytes(from, to);
  std::vector<u32> special = list(from.special, from.special_count, "special");
  to.stops = list(from.stop, from.stop_count, "stop");
  u64 needed = from.token_count;
  for (const auto* tokens : {&special, &to.stops})
    for (u32 token : *tokens) needed = std::max(needed, u64{token} + 1);
  to.size = from.size == 0 ? static_cast<u32>(std::min<u64>(needed, kMostTokens)) : from.size;
  if (needed > to.size || to.size > kMostTokens)
    throw Error("vocabulary-size", "token " + std::to_string(needed - 1) + " is out of range: the size is " +
                                       std::to_string(to.size) + ", and at most 268,435,456");
  to.offsets.resize(static_cast<std::size_t>(needed) + 1, to.offsets.back());
  to.special.assign(static_cast<std::size_t>(needed), 0);
  for (std::size_t i = 0; i < special.size(); ++i) {
    const char* given = from.special_texts ? from.special_texts[i] : nullptr;
    to.names.emplace(given ? std::string(given) : name_of(to, special[i]), special[i]);
    to.special[special[i]] = 1;
  }
  for (u32 token : to.stops)
    if (!to.special[token]) {
      to.names.emplace(name_of(to, token), token);
      to.special[token] = 1;
    }
  return to;
}

}  // namespace

extern "C" {

GR_API void gr_vocabulary_parts_init(gr_vocabulary_parts* parts) {
  if (!parts) return;
  *parts = {};
  parts->struct_size = sizeof *parts;
}

GR_API gr_status gr_vocabulary_new(const gr_vocabulary_parts* parts, gr_vocabulary** out) {
  return guarded([&] {
    need(parts, "parts");
    need(out, "out");
    *out = made(parts_of(known(parts, &gr_vocabulary_parts_init))).release();
  });
}

GR_API gr_status gr_vocabulary_load(const char* path, gr_vocabulary** out) {
  return guarded([&] {
    need(out, "out");
    *out = made(read_vocabulary(read_file(path))).release();
  });
}

GR_API gr_status gr_vocabulary_read(const void* file, size_t size, gr_vocabulary** out) {
  return guarded([&] {
    need(out, "out");
    *out = made(read_vocabulary(text(file, size, "file"))).release();
  });
}

GR_API void gr_vocabulary_free(gr_vocabulary* vocabulary) { delete vocabulary; }

GR_API uint32_t gr_vocabulary_size(const gr_vocabulary* vocabulary) {
  return vocabulary ? vocabulary->tokens->size() : 0;
}
GR_API size_t gr_vocabulary_bitmask_words(const gr_vocabulary* vocabulary) {
  return vocabulary ? vocabulary->tokens->words() : 0;
}

GR_API gr_status gr_vocabulary_token_bytes(const gr_vocabulary* vocabulary, uint32_t token, const uint8_t** bytes,
                                           size_t* size) {
  return guarded([&] {
    need(vocabulary, "vocabulary");
    need(bytes, "bytes");
    need(size, "size");
    const Vocabulary& tokens = *vocabulary->tokens;
    if (token >= tokens.size())
      throw Error("vocabulary-token", "there is no token " + std::to_string(token) +
                                          ": the vocabulary has the ids 0 to " + std::to_string(tokens.size() - 1));
    const std::string_view text = token < tokens.token_count() ? tokens.bytes(token) : std::string_view("");
    *bytes = reinterpret_cast<const uint8_t*>(text.data());
    *size = text.size();
  });
}

GR_API gr_status gr_vocabulary_special_token(const gr_vocabulary* vocabulary, const char* text, uint32_t* token) {
  return guarded([&] {
    need(vocabulary, "vocabulary");
    need(text, "text");
    need(token, "token");
    const auto found = vocabulary->names.find(text);
    if (found == vocabulary->names.end())
      throw Error("vocabulary-token", std::string("the vocabulary has no special token '") + text + "'");
    *token = found->second;
  });
}

GR_API gr_status gr_vocabulary_stop_tokens(const gr_vocabulary* vocabulary, const uint32_t** tokens, size_t* count) {
  return guarded([&] {
    need(vocabulary, "vocabulary");
    need(tokens, "tokens");
    need(count, "count");
    *tokens = vocabulary->tokens->stops().data();
    *count = vocabulary->tokens->stops().size();
  });
}

}  // extern "C"

}  // namespace guiderail::capi
