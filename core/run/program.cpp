// Programs: the expressions of a constraint, read without a vocabulary.
#include "run/matcher.hpp"

#include <algorithm>

#include "base/host.hpp"
#include "mask/abstraction.hpp"
#include "run/canonical.hpp"
#include "run/mask_making.hpp"
#include "search/best_first.hpp"
#include "search/likely_text.hpp"

namespace guiderail {

Program::Program(std::shared_ptr<Arena> arena, Id root) : arena_(std::move(arena)), root_(root) {
  Abstraction::of(*arena_);  // makes all the families it uses: from here on they are only looked up
  arena_->finalize(root_);
  if (arena_->live(root_))
    arena_->ensure_row(root_);  // the first text does not wait for the memory of transitions
  else
    root_ = kEmpty;
  note_size();
}

Program::Program(const Program& compiled, std::shared_ptr<Arena> arena)
    : arena_(std::move(arena)), root_(compiled.root_), budget_(compiled.budget_) {
  if (compiled.vocabulary_) serve(compiled.vocabulary_);
  note_size();
}

// The host must not wait while a large program is freed. The program's own memory stays until its members are gone, so
// no other object can get its address meanwhile.
Program::~Program() {
  const auto free = [&] {
    canonical_texts_.reset();
    distance_.reset();
    masks_.clear();
    builder_.reset();
    arena_.reset();
  };
  if (bytes_.load(std::memory_order_relaxed) >= kLargeProgramBytes)
    Host::released(free);
  else
    free();
}

std::shared_ptr<Program> Program::fresh() {
  std::shared_ptr<Arena> arena;
  {
    std::lock_guard lock(arena_->mutex);
    arena = arena_->fresh();
  }
  return std::shared_ptr<Program>(new Program(*this, std::move(arena)));
}

void Program::serve(std::shared_ptr<Vocabulary> vocabulary) {
  vocabulary_ = std::move(vocabulary);
  reserve_pages(kProgramPages);
}

void Program::keep(std::shared_ptr<const MaskEntry> mask) {
  masks_.push_back(std::move(mask));
  (masks_.back()->shared ? shared_mask_bytes_ : mask_bytes_) += masks_.back()->memory();
}

void Program::count(Tally& to) const {
  arena_->count(to);
  if (builder_) builder_->count(to);
  for (const MaskBuilder* spare : spares_) spare->count(to);
  to.add("masks", mask_bytes_ + bytes_of(masks_));
  to.add("searches", distance_ ? distance_->memory() : 0);
  to.add("canonical texts", canonical_texts_ ? canonical_texts_->memory() : 0);
  to.add("rest", sizeof(*this) + key_tokens_.memory() + bytes_of(short_caps_));
}

void Program::note_refused(u64 key) {
  if (faults::limit_failed()) return;  // a deliberate failure: the work was not too much
  if (refused_.size() >= kMostRefused) refused_.clear();
  refused_.insert(key);
}

void Program::note_growth(u64 work) {
  if ((uncounted_work_ += work) >= kWorkToCount)
    note_size();
  else
    note_bytes(rest_bytes_ + mask_bytes_);
}

void Program::note_size() {
  Tally all;
  count(all);
  rest_bytes_ = all.total - mask_bytes_;
  uncounted_work_ = 0;
  note_bytes(all.total);
}

void Program::note_bytes(std::size_t bytes) {
  bytes_.store(bytes, std::memory_order_relaxed);
  // Shared masks belong to the vocabulary, but live at least as long as the program.
  if (bytes + shared_mask_bytes_ > budget_.bytes || arena_->extent() > budget_.nodes)
    outgrown_.store(true, std::memory_order_relaxed);
}

std::size_t Program::memory() {
  if (const std::unique_lock lock(arena_->mutex, std::try_to_lock); lock) note_size();
  return bytes_.load(std::memory_order_relaxed);
}

std::vector<std::pair<const char*, std::size_t>> Program::memory_parts() {
  std::vector<std::pair<const char*, std::size_t>> parts;
  Tally all{&parts};
  std::lock_guard lock(arena_->mutex);
  count(all);
  return parts;
}

std::size_t Program::advance_known(Id& state, std::string_view bytes) const {
  std::size_t read = 0;
  for (; read < bytes.size() && state != kEmpty; ++read) {
    const Id next = arena_->known_step(state, arena_->byte_class(static_cast<u8>(bytes[read])));
    if (next == kUnknown) break;
    state = next;
  }
  return read;
}

Id Program::advance(Id state, std::string_view bytes, u32 token) {
  const std::size_t read = advance_known(state, bytes);
  return state == kEmpty || read == bytes.size() ? state : advance(state, bytes, token, read);
}

Id Program::advance(Id state, std::string_view bytes, u32 token, std::size_t read) {
  return deep(state, [&] { return advance_from(state, bytes.substr(read), token, read == 0); });
}

Id Program::advance_from(Id state, std::string_view bytes, u32 token, bool whole) {
  Lock lock(*this);
  std::size_t i = 0;
  const bool keep = whole && token != kNone && arena_->has(state, kExactKey);
  const u64 memo = u64{index_of(state)} << 32 | token;
  if (const Id* known = keep ? key_tokens_.find(memo) : nullptr) return *known;
  std::optional<Work::Step> step;
  for (std::size_t until = 0; i < bytes.size() && state != kEmpty;) {
    if (i >= until) {
      until = i + kBytesOfStep;
      step.emplace(step_work(), "reading this text");
    }
    if (const std::size_t read = Json::of(*arena_).read_key(state, bytes.substr(i)))
      i += read;
    else
      state = arena_->step_slow(state, static_cast<u8>(bytes[i++]));
  }
  if (keep) {
    if (key_tokens_.size() >= kMostKeyTokens) key_tokens_.clear();
    key_tokens_.set(memo, state);
  }
  return state;
}

Id Program::advance_symbols(Id state, const std::vector<u32>& symbols) {
  return deep(state, [&] {
    Lock lock(*this);
    Id next = kEmpty;
    for (u32 symbol : symbols) next = arena_->unite(next, arena_->derive_symbol(state, symbol));
    return next != kEmpty && arena_->live(next) ? next : kEmpty;
  });
}

Id Program::unite(Id a, Id b) {
  if (a == kEmpty || a == b) return b;
  if (b == kEmpty) return a;
  return deep(a, [&] {
    Lock lock(*this);
    return arena_->unite(a, b);
  });
}

Id Program::token_end(Id state) {
  if (!arena_->has(state, kCounting)) return state;
  return deep(state, [&] {
    Lock lock(*this);
    return arena_->token_end(state);
  });
}

Id Program::without_text(Id state) {
  if (!arena_->has(state, kExactKey)) return state;
  return deep(state, [&] {
    Lock lock(*this);
    return Abstraction::of(*arena_).without_texts(state);
  });
}

bool Program::live(Id state) {
  return deep(state, [&] {
    Lock lock(*this);
    const Work::Step step(search_work(), "deciding whether a text can continue", step_work());
    return arena_->live(state);
  });
}

ByteSet Program::first(Id state) {
  return deep(state, [&] {
    Lock lock(*this);
    return arena_->first(state);
  });
}

ByteSet Program::next_bytes(Id state) {
  if (state == kEmpty) return {};
  return deep(state, [&] {
    ByteSet out;
    Lock lock(*this);
    const Work::Step step(step_work(), "finding what may follow");
    const ByteSet first = arena_->first(state);
    for (unsigned b = 0; b < 256; ++b)
      if (first.has(static_cast<u8>(b)) && arena_->step_slow(state, static_cast<u8>(b)) != kEmpty)
        out.add(static_cast<u8>(b));
    return out;
  });
}

std::vector<u32> Program::next_symbols(Id state) {
  return deep(state, [&] {
    Lock lock(*this);
    const Work::Step step(step_work(), "finding what may follow");
    std::vector<u32> found;
    arena_->first_symbols(state, found);
    std::erase_if(found, [&](u32 s) { return !arena_->live(arena_->derive_symbol(state, s)); });
    return found;
  });
}

std::string Program::forced(Id state, std::size_t limit) {
  return deep(state, [&] { return forced_from(state, limit); });
}

std::string Program::forced_from(Id state, std::size_t limit) {
  std::string out;
  Lock lock(*this);
  std::optional<Work::Step> step;
  while (out.size() < limit && state != kEmpty && !arena_->nullable(state)) {
    if (out.size() % kBytesOfStep == 0) step.emplace(step_work(), "finding the text that must follow");
    const ByteSet first = arena_->first(state);
    if (arena_->has(state, kHasToken | kHasRef)) {
      std::vector<u32> symbols;
      arena_->first_symbols(state, symbols);
      if (!symbols.empty()) break;
    }
    Id only = kEmpty;
    int count = 0;
    u8 byte = 0;
    for (unsigned b = 0; b < 256 && count < 2; ++b) {
      if (!first.has(static_cast<u8>(b))) continue;
      if (Id next = arena_->step_slow(state, static_cast<u8>(b)); next != kEmpty) {
        only = next;
        byte = static_cast<u8>(b);
        ++count;
      }
    }
    if (count != 1) break;
    out.push_back(static_cast<char>(byte));
    state = only;
  }
  return out;
}

u64 Program::next_serial() {
  static std::atomic<u64> last{0};
  return ++last;
}

std::string Program::likely(Id state, std::size_t limit) {
  return deep(state, [&] {
    Lock lock(*this);
    Likely likely{limit, limit * kLikelyWork};
    likely_text(*arena_, state, likely);
    return likely.text;
  });
}

bool Program::shortest(Id start, std::size_t limit, std::string& out) {
  return start != kEmpty && deep(start, [&] { return shortest_from(start, limit, out); });
}

// Best first, with a lower bound on the missing characters. For JSON, it first tries printable ASCII without escapes,
// and states without the texts of keys: there are few of these. If a shortest completion is too far away, it searches
// for any.
bool Program::shortest_from(Id start, std::size_t limit, std::string& out) {
  Lock lock(*this);
  const Work::Step step(search_work(), kSearchForEnd, step_work());
  for (u32 haste : {1u, kShortestHaste}) {
    bool all = true;  // no search has left out states
    for (const Manner manner : manners(haste)) {
      if (!Json::of(*arena_).used() && !manner.takes_all()) continue;  // few states: the last search suffices
      bool some = false;
      if (search(start, limit, manner, out, some)) return true;
      all = all && !some;
    }
    if (all) return false;
  }
  return false;
}

// One search. `left`: states were left out because there were too many.
bool Program::search(Id exact, std::size_t limit, Manner manner, std::string& out, bool& left) {
  const std::size_t most = std::min<std::size_t>(arena_->limits().fuel, kMostSearchStates);
  auto seen = [&](Id e) { return manner.forgetful ? Abstraction::of(*arena_).without_texts(e) : e; };
  auto missing = [&](Id e) { return mul_sat(manner.haste, arena_->node(e).shortest); };
  BestFirst<u8> states(seen(exact), 0);
  for (BestFirst<u8>::Open at; states.next(at);) {
    arena_->make_room();
    Work::spend();
    if (arena_->nullable(at.state)) {
      out.clear();
      states.each_step(at.state, [&](Id, u8 byte, Id) { out.push_back(static_cast<char>(byte)); });
      std::reverse(out.begin(), out.end());
      return true;
    }
    left = left || states.size() > most;
    if (at.depth == limit || states.size() > most) continue;
    const ByteSet first = arena_->first(at.state);
    arena_->each_byte(at.state, [&](u8 byte) {
      if (!first.has(byte) || !manner.takes(byte)) return true;
      const Id next = seen(arena_->step_slow(at.state, byte));
      if (next == kEmpty || arena_->has(next, kUnknownText)) return true;
      if (add_sat(at.depth + 1, arena_->node(next).shortest) > limit) return true;  // no end is close enough
      states.reach(at, byte, next, missing);
      return true;
    });
  }
  return false;
}

std::string Program::rules_ahead(Id state) {
  Lock lock(*this);
  return arena_->rules_ahead(state);
}

std::string Program::dump(Id state) {
  return deep(state, [&] {
    Lock lock(*this);
    return arena_->dump(state);
  });
}

}  // namespace guiderail
