#include "run/matcher.hpp"

#include <algorithm>
#include <queue>

#include "run/mask_making.hpp"
#include "search/likely_text.hpp"

namespace guiderail {

namespace {
constexpr u32 kMostStates = 20'000;  // that a search for a short text visits
constexpr std::size_t kMostKeyTokens = 1u << 16;
constexpr std::size_t kMostRefused = 1u << 14;
constexpr std::size_t kBytesOfStep = 64;       // that may take the work of one step: most tokens are shorter
constexpr std::size_t kFirstPages = 1u << 20;  // bytes, of what its first texts will take
constexpr u32 kHaste = 32;                     // how much more than what was read counts what is missing, in haste
constexpr u32 kBetweenBreaks = 256;            // trie nodes of a walk, until others may be let in
constexpr const char* kMask = "the mask of this place in the text";
constexpr const char* kEnd = "the search for an end of the text, which may take four times as much as a mask,";

// A limit that the one who makes something has met; those who wait for the same have limits of their own.
bool of_work(const Error& error) { return error.code == "work" || error.code == "step-work"; }
}  // namespace

// -- Program --
Program::Program(std::shared_ptr<Arena> arena, Id root) : arena_(std::move(arena)), root_(root) {
  Abstraction::of(*arena_);  // and with it all kinds that it knows: from here on they are only looked up
  arena_->finalize(root_);
  if (!arena_->live(root_)) root_ = kEmpty;
  note_size();
}

Program::Program(const Program& compiled, std::shared_ptr<Arena> arena)
    : arena_(std::move(arena)), root_(compiled.root_), budget_(compiled.budget_) {
  if (compiled.vocabulary_) serve(compiled.vocabulary_);
  note_size();
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
  reserve_pages(kFirstPages);
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
  to.add("searches", costs_ ? costs_->memory() : 0);
  to.add("rest", sizeof(*this) + key_tokens_.memory() + bytes_of(short_caps_));
}

void Program::note_refused(u64 key) {
  if (refused_.size() >= kMostRefused) refused_.clear();
  refused_.insert(key);
}

void Program::note_growth() {  // a sum of many parts: not after every byte that is read
  const u32 nodes = arena_->node_count(), masks = static_cast<u32>(masks_.size());
  if (nodes - noted_nodes_ >= 32 || masks - noted_masks_ >= 4 || ++locks_ >= 16) note_size();
}

void Program::note_size() {
  noted_nodes_ = arena_->node_count();
  noted_masks_ = static_cast<u32>(masks_.size());
  locks_ = 0;
  Tally all;
  count(all);
  bytes_.store(all.total, std::memory_order_relaxed);
  // Masks that are shared are the vocabulary's, and yet not freed before the program.
  if (all.total + shared_mask_bytes_ > budget_.bytes || arena_->node_count() > budget_.nodes)
    outgrown_.store(true, std::memory_order_relaxed);
}

std::vector<std::pair<const char*, std::size_t>> Program::memory_parts() {
  std::vector<std::pair<const char*, std::size_t>> parts;
  Tally all{&parts};
  std::lock_guard lock(arena_->mutex);
  count(all);
  return parts;
}

Id Program::advance_known(Id state, std::string_view bytes) const {
  for (char c : bytes) {
    state = arena_->known_step(state, arena_->byte_class(static_cast<u8>(c)));
    if (state == kUnknown || state == kEmpty) break;
  }
  return state;
}

Id Program::advance(Id state, std::string_view bytes, u32 token) {
  std::size_t i = 0;
  for (; i < bytes.size(); ++i) {  // without the lock as far as transitions are known
    Id next = arena_->known_step(state, arena_->byte_class(static_cast<u8>(bytes[i])));
    if (next == kUnknown) break;
    if (next == kEmpty) return kEmpty;
    state = next;
  }
  if (i == bytes.size()) return state;
  return deep(state, [&] { return advance_from(state, bytes.substr(i), token, i == 0); });
}

Id Program::advance_from(Id state, std::string_view bytes, u32 token, bool whole) {
  Lock lock(*this);
  std::size_t i = 0;
  const bool keep = whole && token != kUnknown && arena_->has(state, kExactKey);
  const u64 memo = u64{state} << 32 | token;
  if (const u32* known = keep ? key_tokens_.find(memo) : nullptr) return *known;
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

bool Program::live(Id state) {
  return deep(state, [&] {
    Lock lock(*this);
    const Work::Step step(search_work(), "deciding whether a text can go on", step_work());
    return arena_->live(state);
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
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
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

// A* with the characters that are known to be missing. Of JSON: of printable ASCII and without escapes if there is one,
// for then the states are few. Where the shortest is too far to be found so, some completion is looked for in haste.
u64 Program::next_serial() {
  static std::atomic<u64> last{0};
  return ++last;
}

std::string Program::likely(Id state, std::size_t limit) {
  return deep(state, [&] {
    Lock lock(*this);
    constexpr std::size_t kWork = 64;  // expressions a byte
    Likely likely{limit, limit * kWork};
    likely_text(*arena_, state, likely);
    return likely.text;
  });
}

bool Program::shortest(Id start, std::size_t limit, std::string& out) {
  return start != kEmpty && deep(start, [&] { return shortest_from(start, limit, out); });
}

bool Program::shortest_from(Id start, std::size_t limit, std::string& out) {
  Lock lock(*this);
  const Work::Step step(search_work(), kEnd, step_work());
  for (bool haste : {false, true}) {
    bool all = true;  // whether every search saw all there is
    for (auto [plain, forget] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
      if (!Json::of(*arena_).used() && (plain || forget)) continue;  // the states are few: the shortest of all
      bool some = false;
      if (search(start, limit, {plain, forget, haste}, out, some)) return true;
      all = all && !some;
    }
    if (all) return false;
  }
  return false;
}

// One such search; `left`: whether states were left out for being too many.
bool Program::search(Id exact, std::size_t limit, Manner manner, std::string& out, bool& left) {
  const std::size_t most = std::min(arena_->limits().fuel, kMostStates);
  const std::size_t weight = manner.haste ? kHaste : 1;
  auto seen = [&](Id e) { return manner.forget ? Abstraction::of(*arena_).without_texts(e) : e; };
  const Id start = seen(exact);
  struct Item {
    std::size_t total, depth;
    Id id;
    bool operator<(const Item& o) const { return total != o.total ? total > o.total : depth < o.depth; }
  };
  std::unordered_map<Id, std::pair<Id, u8>> from{{start, {kEmpty, 0}}};
  std::unordered_map<Id, std::size_t> best{{start, 0}};
  std::priority_queue<Item> queue;
  queue.push({0, 0, start});
  while (!queue.empty()) {
    arena_->make_room();
    Work::spend();
    const auto [total, depth, state] = queue.top();
    queue.pop();
    if (best[state] < depth) continue;
    if (arena_->nullable(state)) {
      out.clear();
      for (Id s = state; s != start; s = from[s].first) out.push_back(static_cast<char>(from[s].second));
      std::reverse(out.begin(), out.end());
      return true;
    }
    left = left || from.size() > most;
    if (depth == limit || from.size() > most) continue;
    const ByteSet first = arena_->first(state);
    arena_->each_byte(state, [&, depth = depth, state = state](u8 byte) {
      if (!first.has(byte) || (manner.plain && (byte < 0x20 || byte >= 0x7F || byte == '\\'))) return true;
      const Id next = seen(arena_->step_slow(state, byte));
      if (next == kEmpty || arena_->has(next, kUnknownText)) return true;
      auto [it, fresh] = best.try_emplace(next, depth + 1);
      if (!fresh && it->second <= depth + 1) return true;
      it->second = depth + 1;
      from[next] = {state, byte};
      queue.push({depth + 1 + weight * arena_->node(next).shortest, depth + 1, next});
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

// -- Guide --
Guide::Guide(std::shared_ptr<Program> program, std::shared_ptr<Vocabulary> vocabulary,
             const std::unordered_map<std::string, u32>& symbols, std::size_t max_memory)
    : vocabulary_(std::move(vocabulary)), root_(program->root()), program_(std::move(program)) {
  Program::Lock lock(*program_);
  if (program_->vocabulary_ && program_->vocabulary_ != vocabulary_)
    throw Error("program-bound", "this program serves another vocabulary; build a program for each");
  if (program_->root() == kEmpty)
    throw Error("unsatisfiable", "the constraint matches no text at all, so nothing could be generated");
  for (const Symbol& symbol : program_->arena().symbols()) {
    u32 token = 0;
    if (const TokenSet* set = std::get_if<TokenSet>(&symbol)) {
      auto words = resolve(*set, symbols);
      for (u32 w = 0; token == 0; ++w)  // it is not empty
        if ((*words)[w] != 0) {
          token = 32 * w + static_cast<u32>(std::countr_zero((*words)[w]));
          break;
        }
      set_symbols_.push_back(static_cast<u32>(token_of_symbol_.size()));
      set_of_symbol_.push_back(std::move(words));
      token_of_symbol_.push_back(token);
      continue;
    }
    if (const u32* id = std::get_if<u32>(&symbol)) {
      token = *id;
      if (token >= vocabulary_->size())
        throw Error("unknown-token", "special token " + std::to_string(token) +
                                         " is not below the vocabulary's size, " + std::to_string(vocabulary_->size()));
      if (vocabulary_->is_text(token))
        throw Error("unknown-token",
                    "token " + std::to_string(token) + " is ordinary text, not a special token; use a literal for it");
    } else {
      auto it = symbols.find(std::get<std::string>(symbol));
      if (it == symbols.end())
        throw Error("unknown-token", "the vocabulary has no special token '" + std::get<std::string>(symbol) +
                                         "'; its special_tokens lists those it has");
      token = it->second;
    }
    symbols_of_token_[token].push_back(static_cast<u32>(token_of_symbol_.size()));
    set_of_symbol_.push_back(nullptr);
    token_of_symbol_.push_back(token);
  }
  own_bytes_ = shared_bytes<Guide>() + bytes_of(symbols_of_token_) + bytes_of(token_of_symbol_) +
               bytes_of(set_of_symbol_) + bytes_of(set_symbols_);
  for (const auto& [token, of] : symbols_of_token_) own_bytes_ += bytes_of(of);
  for (const auto& set : set_of_symbol_)
    if (set) own_bytes_ += shared_bytes<Words>() + bytes_of(*set);
  if (!program_->vocabulary_) program_->serve(vocabulary_);
  if (max_memory != 0) {  // of what is there from the start, a renewal frees nothing
    const Arena& arena = *program_->arena_;
    const u32 nodes = arena.node_count();
    budget_.bytes = std::max(max_memory, 2 * arena.memory());
    budget_.nodes = nodes + (std::max(arena.limits().max_nodes, nodes) - nodes) / 2;
    program_->budget_ = budget_;
  }
}

void Guide::prepare(u32 masks) const {
  constexpr std::size_t kBytesOfMask = 32;  // of the text, at most
  const std::shared_ptr<Program> program = this->program();
  if (!Json::of(program->arena()).used()) return;  // a text of few tokens, or one of which nothing is known
  const std::string text = program->likely(root_, kBytesOfMask * masks);
  std::string_view rest = text;
  try {
    const Work::Step step(program->step_work(), "this");  // of them all
    for (Id state = root_; masks > 0 && !rest.empty(); --masks) {
      mask(*program, state);
      const int token = vocabulary_->longest_token(rest);
      if (token < 0 || (state = advance(*program, state, static_cast<u32>(token))) == kEmpty) return;
      rest.remove_prefix(vocabulary_->bytes(static_cast<u32>(token)).size());
    }
  } catch (const Error&) {
    // A limit, met by a text that was only guessed: it is for who comes to that state.
  }
}

std::shared_ptr<const Words> Guide::resolve(const TokenSet& set,
                                            const std::unordered_map<std::string, u32>& specials) const {
  const u32 count = vocabulary_->token_count();
  Words named(vocabulary_->words(), 0);
  for (const auto& name : set.tokens) {
    std::int64_t token = -1;
    if (const u32* id = std::get_if<u32>(&name)) {
      token = *id < count ? static_cast<std::int64_t>(*id) : -1;
    } else {
      const std::string& text = std::get<std::string>(name);
      auto it = specials.find(text);
      token = it != specials.end() ? static_cast<std::int64_t>(it->second) : vocabulary_->find(text);
    }
    if (token < 0 || token >= count)
      throw Error("unknown-token", "the vocabulary has no token " + (std::holds_alternative<u32>(name)
                                                                         ? std::to_string(std::get<u32>(name))
                                                                         : "'" + std::get<std::string>(name) + "'"));
    named[static_cast<u32>(token) >> 5] |= 1u << (token & 31);
  }
  if (set.but) {
    for (u32 s : vocabulary_->stops()) named[s >> 5] |= 1u << (s & 31);
    for (u32 t = 0; t < count; ++t)  // a token of no bytes would get a text no further
      if (vocabulary_->is_text(t) && vocabulary_->bytes(t).empty()) named[t >> 5] |= 1u << (t & 31);
    for (u32 w = 0; w < named.size(); ++w) named[w] = ~named[w];
    for (u32 t = count; t < 32 * named.size(); ++t) named[t >> 5] &= ~(1u << (t & 31));
  }
  if (std::all_of(named.begin(), named.end(), [](u32 w) { return w == 0; }))
    throw Error("no-token", "no token of the vocabulary is left to choose from; exclude fewer");
  return std::make_shared<const Words>(std::move(named));
}

// The symbols that a token is.
std::vector<u32> Guide::symbols_of(u32 token) const {
  std::vector<u32> symbols;
  if (auto it = symbols_of_token_.find(token); it != symbols_of_token_.end()) symbols = it->second;
  for (u32 s : set_symbols_)
    if ((*set_of_symbol_[s])[token >> 5] >> (token & 31) & 1) symbols.push_back(s);
  return symbols;
}

std::shared_ptr<Program> Guide::program() const {
  std::lock_guard lock(mutex_);
  return program_;
}

std::shared_ptr<Program> Guide::start() {
  std::shared_ptr<Program> current = program();
  if (!current->outgrown()) return current;
  std::unique_lock renewing(renewal_, std::try_to_lock);
  if (!renewing) return current;  // another thread is at it: one text more makes no difference
  current = program();
  if (!current->outgrown()) return current;
  std::shared_ptr<Program> next = current->fresh();
  std::lock_guard lock(mutex_);
  std::erase_if(earlier_, [](const auto& p) { return p.expired(); });
  earlier_.push_back(current);
  program_ = next;
  return next;
}

const MaskEntry* Guide::mask(Program& program, Id state) const {
  if (const MaskEntry* known = program.known_mask(state)) return known;
  return program.deep(state, [&] { return new_mask(program, state); });
}

const MaskEntry* Guide::new_mask(Program& program, Id state) const {
  Program::Lock lock(program);
  for (;;) {
    if (const MaskEntry* known = program.known_mask(state)) return known;
    Program::Maker maker(program, Program::Making::Mask, state);
    program.check_refused(maker.key(), kMask);
    if (!maker.begin(lock)) continue;
    const Work::Step step(program.step_work(), kMask);
    try {
      Program::Builder builder(program, lock);
      const MaskEntry* entry = make_mask(program, *builder, lock, state);
      program.arena_->node(state).mask.store(entry, std::memory_order_release);
      return entry;
    } catch (const Error& error) {
      if (error.code == "step-work" && step.decides()) program.note_refused(maker.key());
      if (!of_work(error)) maker.fail(std::current_exception());
      throw;
    } catch (...) {
      maker.fail(std::current_exception());
      throw;
    }
  }
}

const MaskEntry* Guide::make_mask(Program& program, MaskBuilder& builder, Program::Lock& lock, Id state) const {
  const MaskEntry* entry = nullptr;
  if (Lexed::of(*program.arena_).used()) {
    bool fresh = false;
    if (auto made = builder.lexed(state, specials(program, state), fresh)) {
      entry = made.get();
      if (fresh) program.keep(std::move(made));
    }
  }
  if (!entry) entry = form_mask(program, builder, lock, builder.shared_form(state));
  if (!entry->is_open()) return entry;
  std::shared_ptr<const MaskEntry> own;
  const MaskEntry* settled = builder.settle_tokens(*entry, state, own);
  if (!settled) {
    own = builder.settle(*entry, state);
    settled = own.get();
  }
  if (own) program.keep(own);
  return settled;
}

// Special tokens that a state reads; ~s: those of a set, by its symbol.
std::vector<int> Guide::specials(Program& program, Id state) const {
  Arena& arena = *program.arena_;
  std::vector<int> found;
  std::vector<u32> symbols;
  if (token_of_symbol_.empty() || !arena.has(state, kHasToken | kHasRef)) return found;
  arena.first_symbols(state, symbols);
  for (u32 s : symbols)
    if (arena.live(arena.derive_symbol(state, s)))
      found.push_back(set_of_symbol_[s] ? ~static_cast<int>(s) : static_cast<int>(token_of_symbol_[s]));
  return found;
}

// The mask of a form of states, which may leave tokens open.
const MaskEntry* Guide::form_mask(Program& program, MaskBuilder& builder, Program::Lock& lock, Id canonical) const {
  Arena& arena = *program.arena_;
  for (;;) {
    if (const MaskEntry* known = arena.node(canonical).mask.load(std::memory_order_relaxed)) return known;
    if (const Id unnamed = builder.unnamed(canonical); unnamed != kEmpty) form_mask(program, builder, lock, unnamed);
    std::optional<Hash> key;  // of what other programs may share
    if (!arena.has(canonical, kHasToken | kExactKey | kHasScan) && !builder.own_key(canonical))
      key = arena.portable_hash(canonical);
    std::shared_ptr<const MaskEntry> made = key ? vocabulary_->cached_mask(*key) : nullptr;
    Program::Maker maker(program, Program::Making::Form, canonical);
    if (!made) {
      if (!maker.begin(lock)) continue;
      try {
        made = build(program, builder, canonical);
        if (auto found = specials(program, canonical); !found.empty()) {
          auto with = std::make_shared<MaskEntry>(*made);
          with->specials = std::move(found);
          made = with;
        }
      } catch (const Error& error) {
        if (!of_work(error)) maker.fail(std::current_exception());
        throw;
      } catch (...) {
        maker.fail(std::current_exception());
        throw;
      }
      if (key) vocabulary_->cache_mask(*key, made);
    }
    program.keep(made);
    const MaskEntry* entry = made.get();
    arena.node(canonical).mask.store(entry, std::memory_order_release);
    return entry;
  }
}

// The mask of a state whose groups may be counted: first with the counters cut short, so that states that differ in
// nothing but how often something may still come share one mask, as long as no token reaches the cut.
std::shared_ptr<const MaskEntry> Guide::build(Program& program, MaskBuilder& builder, Id state) const {
  Arena& arena = *program.arena_;
  struct Clear {  // of what a walk that was given up leaves
    ~Clear() { arena.clear_cap_hit(); }
    Arena& arena;
  } clear{arena};
  for (u32 most : {4u, 16u}) {
    const Id capped = Abstraction::of(arena).cap_groups(state, most);
    if (capped == state) break;
    if (program.short_caps_.contains(capped)) continue;
    const auto key = arena.portable_hash(capped);
    if (auto known = key ? vocabulary_->cached_mask(*key) : nullptr) return known;
    arena.clear_cap_hit();
    auto made = builder.build(capped);
    const bool hit = arena.cap_hit();
    arena.clear_cap_hit();
    if (!hit) {
      if (key) vocabulary_->cache_mask(*key, made);
      return made;
    }
    program.short_caps_.insert(capped);
  }
  return builder.build(state);
}

bool Guide::fill(Program& program, Id state, const std::vector<u32>& stops, u32* out) const {
  const MaskEntry* entry = mask(program, state);
  const std::size_t words = vocabulary_->words();
  if (entry->base)
    std::memcpy(out, entry->base->data(), words * 4);
  else
    std::memset(out, 0, words * 4);
  for (auto [word, value] : entry->diff) out[word] = value;
  if (program.accepting(state))
    for (u32 s : stops) out[s >> 5] |= 1u << (s & 31);
  for (int s : entry->specials) {
    if (s >= 0) {
      out[s >> 5] |= 1u << (s & 31);
    } else {
      const Words& set = *set_of_symbol_[static_cast<u32>(~s)];
      for (std::size_t w = 0; w < words; ++w) out[w] |= set[w];
    }
  }
  return !entry->full;
}

CompletionDistance& Guide::costs(Program& program) const {
  if (!program.costs_)
    program.costs_ =
        std::make_unique<CompletionDistance>(*program.arena_, *vocabulary_, token_of_symbol_, set_of_symbol_);
  return *program.costs_;
}

u32 Guide::needed(Program& program, Id state, bool thorough) const {
  vocabulary_->bytes_below();  // or the costs would make it under the mutex
  return program.deep(state, [&] { return new_need(program, state, thorough); });
}

u32 Guide::new_need(Program& program, Id state, bool thorough) const {
  Program::Lock lock(program);
  CompletionDistance& costs = this->costs(program);
  for (;;) {
    if (!thorough)
      if (const auto found = costs.found(state)) return *found;
    Program::Maker maker(program, Program::Making::Cost, state);
    program.check_refused(maker.key(), kEnd);
    if (!maker.begin(lock)) continue;
    const Work::Step step(program.search_work(), kEnd, program.step_work());
    try {
      return thorough ? costs.refine(state) : costs.of(state);
    } catch (const Error& error) {
      if (error.code == "step-work" && step.decides()) program.note_refused(maker.key());
      throw;
    }
  }
}

void Guide::within(Program& program, Id state, u32 budget, u32* out, bool& restricts) const {
  Program::Lock lock(program);
  CompletionDistance& costs = this->costs(program);
  auto plenty = [&] { return budget > 0 && costs.worst(state).value_or(kInf) <= budget - 1; };
  while (!plenty()) {
    Program::Maker maker(program, Program::Making::Cost, state);
    if (!maker.begin(lock)) continue;
    const Work::Step step(program.search_work(), kEnd, program.step_work());
    u32 needed = costs.of(state);
    if (needed > budget) needed = costs.refine(state);
    if (needed == kInf)
      throw Error("budget-unknown",
                  "no way to complete the text was found, so no number of tokens can be promised; bound the "
                  "constraint, or go on without a budget");
    if (needed > budget)
      throw Error("budget-too-small", "completing the text takes " + std::to_string(needed) +
                                          " tokens or more as far as was found, but the budget is " +
                                          std::to_string(budget));
    if (budget == 0)
      std::memset(out, 0, vocabulary_->words() * 4);
    else
      costs.restrict(state, budget - 1, out);
    restricts = true;
    break;
  }
}

bool Guide::suffices(Program& program, Id before, u32 token, Id after, u32 left) const {
  vocabulary_->bytes_below();
  return program.deep(after, [&] {
    Program::Lock lock(program);
    CompletionDistance& costs = this->costs(program);
    for (;;) {
      Program::Maker maker(program, Program::Making::Cost, after);
      if (!maker.begin(lock)) continue;
      const Work::Step step(program.search_work(), kEnd, program.step_work());
      return costs.suffices(before, token, after, left);
    }
  });
}

bool Guide::fill_within(Program& program, Id state, const std::vector<u32>& stops, u32 budget, u32* out) const {
  bool restricts = fill(program, state, {}, out);
  vocabulary_->bytes_below();
  program.deep(state, [&] {
    within(program, state, budget, out, restricts);
    return true;
  });
  if (program.accepting(state))
    for (u32 s : stops) out[s >> 5] |= 1u << (s & 31);
  return restricts;
}

Id Guide::advance_known(const Program& program, Id state, u32 token) const {
  if (!token_of_symbol_.empty() || !vocabulary_->is_text(token)) return kUnknown;
  const Id next = program.advance_known(state, vocabulary_->bytes(token));
  return next != kUnknown && program.arena_->has(next, kCounting) ? kUnknown : next;
}

Id Guide::advance(Program& program, Id state, u32 token) const {
  const Work::Step step(program.step_work(), "reading this token");
  Id as_unit = kEmpty;
  if (!token_of_symbol_.empty())
    if (const std::vector<u32> symbols = symbols_of(token); !symbols.empty())
      as_unit = program.advance_symbols(state, symbols);
  if (!vocabulary_->is_text(token)) return as_unit;
  return program.unite(as_unit, program.token_end(program.advance(state, vocabulary_->bytes(token), token)));
}

std::size_t Guide::memory() const {
  std::vector<std::shared_ptr<Program>> living;  // let go without the mutex
  std::lock_guard lock(mutex_);
  std::size_t bytes = program_->memory() + own_bytes_;
  for (const auto& earlier : earlier_)
    if (auto program = earlier.lock()) {
      bytes += program->memory();
      living.push_back(std::move(program));
    }
  return bytes;
}

// -- Matcher --
Matcher::Matcher(std::shared_ptr<Guide> guide, std::vector<u32> stops)
    : guide_(std::move(guide)), program_(guide_->start()), stops_(std::move(stops)), state_(guide_->root()) {
  std::sort(stops_.begin(), stops_.end());
  stops_.erase(std::unique(stops_.begin(), stops_.end()), stops_.end());
  for (u32 s : stops_)
    if (s >= guide_->vocabulary().size())
      throw Error("matcher-token", "stop token " + std::to_string(s) + " is not below the vocabulary's size");
}

void Matcher::refuse_user() const {
  throw Error("matcher-shared",
              "another thread is using this matcher; a matcher follows one text, in one thread at a time: give each "
              "thread a matcher or a fork() of its own, or wait until the other call has ended");
}

void Matcher::check_running(const char* what) const {
  if (terminated_)
    throw Error("matcher-terminated",
                std::string(what) + " after a stop token was accepted; reset() or rollback() first");
}

template <class F>
auto Matcher::placed(F f) const {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code != "step-work") throw;
    const std::string rules = program_->rules_ahead(state_);
    throw Error(error.code, std::string(error.what()) + " (after " + std::to_string(steps_.size()) +
                                " tokens of the text" + (rules.empty() ? ")" : "; what follows is " + rules + ")"));
  }
}

bool Matcher::accept_known(std::int64_t token) {
  if (users_.count.load(std::memory_order_acquire) != 0 || terminated_ || token < 0 ||
      token >= guide_->vocabulary().size())
    return false;
  const Id next = guide_->advance_known(*program_, state_, static_cast<u32>(token));
  if (next == kUnknown || next == kEmpty) return false;
  steps_.push_back({state_, static_cast<std::int32_t>(token)});
  state_ = next;
  return true;
}

bool Matcher::accept_token(std::int64_t token) {
  check_running("accept_token");
  if (token < 0 || token >= guide_->vocabulary().size())
    throw Error("matcher-token", "token id " + std::to_string(token) + " is not in 0.." +
                                     std::to_string(guide_->vocabulary().size() - 1));
  const u32 id = static_cast<u32>(token);
  const Id next = placed([&] { return guide_->advance(*program_, state_, id); });
  if (next != kEmpty) {
    steps_.push_back({state_, static_cast<std::int32_t>(id)});
    state_ = next;
    return true;
  }
  if (!std::binary_search(stops_.begin(), stops_.end(), id) || !program_->accepting(state_)) return false;
  steps_.push_back({state_, static_cast<std::int32_t>(id)});
  terminated_ = true;
  return true;
}

bool Matcher::accept_within(std::int64_t token, std::int64_t budget) {
  if (budget < 1) throw Error("matcher-budget", "a token needs a budget of 1 or more, not " + std::to_string(budget));
  const Id before = state_;
  if (!accept_token(token)) return false;
  try {
    if (terminated_ || program_->accepting(state_)) return true;
    if (const u32 needed = this->needed(false); needed != kInf && needed < budget) return true;
    const auto left = static_cast<u32>(std::min<std::int64_t>(budget - 1, kInf - 1));
    const auto read = static_cast<u32>(token);
    if (placed([&] { return guide_->suffices(*program_, before, read, state_, left); })) return true;
  } catch (...) {  // a limit was met
    rollback(1);
    throw;
  }
  rollback(1);
  return false;
}

std::size_t Matcher::validate(const std::vector<std::int64_t>& draft) const {
  Id state = state_;
  if (terminated_) return 0;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    if (draft[i] < 0 || draft[i] >= guide_->vocabulary().size()) return i;
    const u32 token = static_cast<u32>(draft[i]);
    const Id next = placed([&] { return guide_->advance(*program_, state, token); });
    if (next == kEmpty)  // a stop token is the last that can be accepted
      return i + (std::binary_search(stops_.begin(), stops_.end(), token) && program_->accepting(state));
    state = next;
  }
  return draft.size();
}

std::vector<bool> Matcher::fill_draft(const std::vector<std::int64_t>& draft, const std::vector<std::int64_t>& parents,
                                      const std::vector<u32*>& rows) const {
  check_running("fill_next_token_bitmasks_for_draft");
  const Vocabulary& vocabulary = guide_->vocabulary();
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (parents[i] < -1 || parents[i] >= static_cast<std::int64_t>(i))
      throw Error("matcher-draft", "the parent of token " + std::to_string(i) + " of the draft is " +
                                       std::to_string(parents[i]) +
                                       "; it must be -1 or the number of an earlier token");
  auto everything = [&](u32* out) {
    std::fill(out, out + vocabulary.words(), ~u32{0});
    if (const u32 used = vocabulary.size() % 32; used != 0) out[vocabulary.words() - 1] = (u32{1} << used) - 1;
  };
  std::vector<Id> states(draft.size() + 1, kEmpty);  // kEmpty: refused, or stopped
  std::vector<bool> accepted(draft.size(), false);
  states[0] = state_;
  placed([&] { return guide_->fill(*program_, state_, stops_, rows[0]); });
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const Id before = states[static_cast<std::size_t>(parents[i] + 1)];
    if (before != kEmpty && draft[i] >= 0 && draft[i] < vocabulary.size()) {
      const u32 token = static_cast<u32>(draft[i]);
      const Id next = states[i + 1] = placed([&] { return guide_->advance(*program_, before, token); });
      accepted[i] =
          next != kEmpty || (std::binary_search(stops_.begin(), stops_.end(), token) && program_->accepting(before));
    }
    if (states[i + 1] != kEmpty)
      placed([&] { return guide_->fill(*program_, states[i + 1], stops_, rows[i + 1]); });
    else
      everything(rows[i + 1]);
  }
  return accepted;
}

bool Matcher::accept_string(std::string_view bytes) {
  check_running("accept_string");
  // counted as one token
  const Id next = placed([&] { return program_->token_end(program_->advance(state_, bytes)); });
  if (next == kEmpty) return false;
  steps_.push_back({state_, -1});
  state_ = next;
  return true;
}

bool Matcher::fill(u32* out) const {
  check_running("fill_next_token_bitmask");
  return placed([&] { return guide_->fill(*program_, state_, stops_, out); });
}

bool Matcher::fill(u32* out, std::int64_t budget) const {
  check_running("fill_next_token_bitmask");
  if (budget < 0)
    throw Error("matcher-budget", "a budget is a number of tokens, 0 or more, not " + std::to_string(budget));
  const auto most = static_cast<u32>(std::min<std::int64_t>(budget, kInf - 1));
  return placed([&] { return guide_->fill_within(*program_, state_, stops_, most, out); });
}

u32 Matcher::needed(bool thorough) const {
  return terminated_ ? 0 : placed([&] { return guide_->needed(*program_, state_, thorough); });
}

void Matcher::rollback(std::int64_t count) {
  if (count < 0 || static_cast<std::size_t>(count) > steps_.size())
    throw Error("matcher-rollback", "cannot roll back " + std::to_string(count) +
                                        " steps: " + std::to_string(steps_.size()) + " were accepted");
  if (count == 0) return;
  state_ = steps_.drop(static_cast<std::size_t>(count));
  terminated_ = false;
}

void Matcher::reset() {
  program_ = guide_->start();
  state_ = guide_->root();
  steps_.clear();
  terminated_ = false;
}

std::string Matcher::forced(std::size_t limit) const {
  return terminated_ ? std::string() : placed([&] { return program_->forced(state_, limit); });
}

bool Matcher::complete() const {
  if (terminated_) return true;
  if (!program_->accepting(state_)) return false;
  return placed([&] { return !program_->next_bytes(state_).any() && program_->next_symbols(state_).empty(); });
}

}  // namespace guiderail
