// Guides and matchers; masks applied to logits.
#include <bit>
#include <deque>
#include <unordered_set>

#include "capi/handles.hpp"
#include "run/apply.hpp"

namespace guiderail::capi {
namespace {

constexpr u32 kPrepare = 12;                    // as in Python
constexpr std::size_t kMaxMemory = 128u << 20;  // the same

// Calls f(matcher) to read it.
template <class F>
gr_status reading(const gr_matcher* matcher, const void* out, F f) noexcept {
  return guarded([&] {
    need(matcher, "matcher");
    need(out, "out");
    const Matcher::Reading use(matcher->matcher);
    f(matcher->matcher);
  });
}

template <class F>
gr_status changing(gr_matcher* matcher, F f) noexcept {
  return guarded([&] {
    need(matcher, "matcher");
    const Matcher::Changing use(matcher->matcher);
    f(matcher->matcher);
  });
}

void need_words(const Matcher& matcher, std::size_t words) {
  const std::size_t needed = matcher.guide().vocabulary().words();
  if (words < needed)
    throw Error("bitmask-shape", "the bitmask has room for " + std::to_string(words) +
                                     " words, but the vocabulary needs " + std::to_string(needed));
}

void pad(const Matcher& matcher, u32* row, std::size_t words) {
  const std::size_t used = matcher.guide().vocabulary().words();
  std::fill(row + used, row + words, 0u);
}

std::vector<std::int64_t> signed_tokens(const u32* tokens, std::size_t count) {
  if (count > 0) need(tokens, "tokens");
  return count > 0 ? std::vector<std::int64_t>(tokens, tokens + count) : std::vector<std::int64_t>();
}

// The only token that the mask allows; -1: none, or several.
std::int64_t only_token(const std::vector<u32>& mask) {
  std::int64_t found = -1;
  for (std::size_t w = 0; w < mask.size(); ++w) {
    if (mask[w] == 0) continue;
    if (found >= 0 || !std::has_single_bit(mask[w])) return -1;
    found = static_cast<std::int64_t>(32 * w) + std::countr_zero(mask[w]);
  }
  return found;
}

// The row of each matcher, validated.
std::vector<u32*> rows_of(const gr_matcher* const* matchers, std::size_t count, u32* bitmask, std::size_t words,
                          std::size_t row_count, const std::size_t* rows) {
  std::vector<u32*> out(count);
  std::unordered_set<std::size_t> taken;
  for (std::size_t i = 0; i < count; ++i) {
    need(matchers[i], "a matcher");
    const Matcher& matcher = matchers[i]->matcher;
    const std::size_t row = rows ? rows[i] : i;
    if (row >= row_count)
      throw Error("bitmask-row", "row " + std::to_string(row) + " is not below " + std::to_string(row_count));
    if (!taken.insert(row).second) throw Error("bitmask-row", "two matchers would fill row " + std::to_string(row));
    need_words(matcher, words);
    if (matcher.check_unchanging().terminated())
      throw Error("matcher-terminated", "matcher " + std::to_string(i) + " has terminated; leave finished rows out");
    out[i] = bitmask + row * words;
  }
  return out;
}

}  // namespace

extern "C" {

GR_API void gr_guide_options_init(gr_guide_options* options) {
  if (options) *options = {sizeof *options, kMaxMemory, kPrepare};
}

GR_API gr_status gr_guide_new(const gr_program* program, const gr_vocabulary* vocabulary,
                              const gr_guide_options* options, gr_guide** out) {
  return guarded([&] {
    need(program, "program");
    need(vocabulary, "vocabulary");
    need(out, "out");
    const gr_guide_options of = known(options, &gr_guide_options_init);
    // A copy: a program serves one vocabulary, and this program may serve several guides.
    auto made = std::make_unique<gr_guide>(gr_guide{
        std::make_shared<Guide>(program->program->fresh(), vocabulary->tokens, vocabulary->names, of.max_memory)});
    if (of.prepare > 0) made->guide->prepare(of.prepare);
    *out = made.release();
  });
}

GR_API void gr_guide_free(gr_guide* guide) { delete guide; }

GR_API size_t gr_guide_memory(const gr_guide* guide) { return guide ? guide->guide->memory() : 0; }

GR_API gr_status gr_matcher_new(const gr_guide* guide, gr_matcher** out) {
  return guarded([&] {
    need(guide, "guide");
    need(out, "out");
    *out = new gr_matcher{Matcher(guide->guide, guide->guide->vocabulary().stops())};
  });
}

GR_API gr_status gr_matcher_new_with_stops(const gr_guide* guide, const uint32_t* stop, size_t stop_count,
                                           gr_matcher** out) {
  return guarded([&] {
    need(guide, "guide");
    need(out, "out");
    *out = new gr_matcher{Matcher(guide->guide, list(stop, stop_count, "stop"))};
  });
}

GR_API gr_status gr_matcher_fork(const gr_matcher* matcher, gr_matcher** out) {
  return reading(matcher, out, [&](const Matcher& of) { *out = new gr_matcher{Matcher(of)}; });
}

GR_API void gr_matcher_free(gr_matcher* matcher) { delete matcher; }

GR_API gr_status gr_matcher_fill_bitmask(const gr_matcher* matcher, uint32_t* bitmask, size_t words, bool* restricts) {
  return reading(matcher, bitmask, [&](const Matcher& of) {
    need_words(of, words);
    const bool some = of.fill(bitmask);
    pad(of, bitmask, words);
    if (restricts) *restricts = some;
  });
}

GR_API gr_status gr_matcher_fill_bitmask_within(const gr_matcher* matcher, uint64_t budget, uint32_t* bitmask,
                                                size_t words, bool* restricts) {
  return reading(matcher, bitmask, [&](const Matcher& of) {
    need_words(of, words);
    std::vector<u32> row(of.guide().vocabulary().words());  // a budget may prove too small midway
    const bool some = of.fill(row.data(), static_cast<std::int64_t>(std::min<u64>(budget, kInf - 1)));
    std::copy(row.begin(), row.end(), bitmask);
    pad(of, bitmask, words);
    if (restricts) *restricts = some;
  });
}

GR_API gr_status gr_matcher_accept_token(gr_matcher* matcher, uint32_t token, bool* accepted) {
  return changing(matcher, [&](Matcher& of) {
    need(accepted, "accepted");
    *accepted = of.accept_token(token);
  });
}

GR_API gr_status gr_matcher_accept_bytes(gr_matcher* matcher, const void* bytes, size_t size, bool* accepted) {
  return changing(matcher, [&](Matcher& of) {
    need(accepted, "accepted");
    *accepted = of.accept_string(text(bytes, size, "bytes"));
  });
}

GR_API gr_status gr_matcher_validate(const gr_matcher* matcher, const uint32_t* tokens, size_t count,
                                     size_t* accepted) {
  return reading(matcher, accepted, [&](const Matcher& of) { *accepted = of.validate(signed_tokens(tokens, count)); });
}

GR_API gr_status gr_matcher_rollback(gr_matcher* matcher, size_t steps) {
  return changing(matcher,
                  [&](Matcher& of) { of.rollback(static_cast<std::int64_t>(std::min<u64>(steps, u64{1} << 62))); });
}

GR_API gr_status gr_matcher_reset(gr_matcher* matcher) {
  return changing(matcher, [](Matcher& of) { of.reset(); });
}

GR_API gr_status gr_matcher_forced_bytes(const gr_matcher* matcher, size_t limit, uint8_t* out, size_t room,
                                         size_t* count) {
  return reading(matcher, count, [&](const Matcher& of) {
    need_room(out, room, count);
    write(of.forced(limit), out, room, count);
  });
}

GR_API gr_status gr_matcher_forced_tokens(const gr_matcher* matcher, uint32_t* out, size_t room, size_t* count) {
  return reading(matcher, count, [&](const Matcher& of) {
    if (room > 0) need(out, "out");
    Matcher ahead(of);
    std::vector<u32> mask(of.guide().vocabulary().words()), tokens;
    while (tokens.size() < room && !ahead.terminated()) {
      ahead.fill(mask.data());
      const std::int64_t token = only_token(mask);
      if (token < 0 || !ahead.accept_token(token)) break;
      tokens.push_back(static_cast<u32>(token));
    }
    std::copy(tokens.begin(), tokens.end(), out);
    *count = tokens.size();
  });
}

GR_API gr_status gr_matcher_is_accepting(const gr_matcher* matcher, bool* accepting) {
  return reading(matcher, accepting, [&](const Matcher& of) { *accepting = of.accepting(); });
}

GR_API gr_status gr_matcher_is_complete(const gr_matcher* matcher, bool* complete) {
  return reading(matcher, complete, [&](const Matcher& of) { *complete = of.complete(); });
}

GR_API gr_status gr_matcher_is_terminated(const gr_matcher* matcher, bool* terminated) {
  return reading(matcher, terminated, [&](const Matcher& of) { *terminated = of.terminated(); });
}

GR_API gr_status gr_matcher_step_count(const gr_matcher* matcher, size_t* steps) {
  return reading(matcher, steps, [&](const Matcher& of) { *steps = of.step_count(); });
}

GR_API gr_status gr_matcher_least_tokens(const gr_matcher* matcher, uint32_t* tokens) {
  return reading(matcher, tokens, [&](const Matcher& of) { *tokens = of.needed(true); });
}

GR_API gr_status gr_matcher_state(const gr_matcher* matcher, uint32_t* state) {
  return reading(matcher, state, [&](const Matcher& of) { *state = index_of(of.state()); });
}

GR_API gr_status gr_matcher_dump(const gr_matcher* matcher, uint8_t* out, size_t room, size_t* count) {
  return reading(matcher, count, [&](const Matcher& of) {
    need_room(out, room, count);
    write(of.program()->dump(of.state()), out, room, count);
  });
}

GR_API gr_status gr_matchers_fill_bitmask(const gr_matcher* const* matchers, size_t count, uint32_t* bitmask,
                                          size_t words, size_t row_count, const size_t* rows, unsigned threads) {
  return guarded([&] {
    if (count == 0) return;
    need(matchers, "matchers");
    need(bitmask, "bitmask");
    const std::vector<u32*> out = rows_of(matchers, count, bitmask, words, row_count, rows);
    bool all_ready = true;
    std::deque<Matcher::Reading> uses;
    for (std::size_t i = 0; i < count; ++i) {
      uses.emplace_back(matchers[i]->matcher);
      all_ready = all_ready && matchers[i]->matcher.ready();
    }
    parallel(count, all_ready && count < kFewCopies ? 1 : threads, [&](std::size_t i) {
      matchers[i]->matcher.fill(out[i]);
      pad(matchers[i]->matcher, out[i], words);
    });
  });
}

GR_API gr_status gr_apply_bitmask(void* logits, gr_dtype dtype, size_t rows, size_t columns, const uint32_t* bitmask,
                                  size_t words, uint32_t size) {
  return guarded([&] {
    struct Type {
      unsigned size;
      u64 infinity;
    };
    static constexpr Type kTypes[] = {{2, 0xFC00}, {2, 0xFF80}, {4, 0xFF800000}, {8, 0xFFF0000000000000}};
    if (dtype >= std::size(kTypes))
      throw Error("argument", "there is no number type " + std::to_string(static_cast<int>(dtype)));
    if (rows == 0 || columns == 0) return;
    need(logits, "logits");
    need(bitmask, "bitmask");
    const std::size_t covered = std::min<std::size_t>(size, columns);
    if ((covered + 31) / 32 > words)
      throw Error("bitmask-size", "the bitmask has fewer bits than it must cover: " + std::to_string(words) +
                                      " words for " + std::to_string(covered) + " tokens");
    const Type type = kTypes[dtype];
    const Logits to{static_cast<char*>(logits),
                    static_cast<std::ptrdiff_t>(columns * type.size),
                    static_cast<std::ptrdiff_t>(type.size),
                    columns,
                    type.size,
                    type.infinity};
    const Masks masks{reinterpret_cast<const char*>(bitmask), static_cast<std::ptrdiff_t>(words * 4), 4};
    for (std::size_t row = 0; row < rows; ++row) apply_row(to, masks, row, covered);
  });
}

}  // extern "C"

}  // namespace guiderail::capi
