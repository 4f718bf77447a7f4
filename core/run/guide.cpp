// Guides: masks of a program over a vocabulary. Each is made once, by the first thread that needs it.
#include "run/matcher.hpp"

#include <algorithm>

#include "expr/identities.hpp"
#include "run/mask_making.hpp"

namespace guiderail {

namespace {
constexpr const char* kMask = "the mask at this position of the text";
constexpr const char* kToken = "reading this token";
}  // namespace

Guide::Guide(std::shared_ptr<Program> program, std::shared_ptr<Vocabulary> vocabulary,
             const std::unordered_map<std::string, u32>& symbols, std::size_t max_memory)
    : vocabulary_(std::move(vocabulary)), root_(program->root()), program_(std::move(program)) {
  Program::Lock lock(*program_);
  if (program_->vocabulary_ && program_->vocabulary_ != vocabulary_)
    throw Error("program-bound", "this program was compiled for another vocabulary; compile one for each vocabulary");
  if (program_->root() == kEmpty)
    throw Error("unsatisfiable", "the constraint matches no text at all, so nothing could be generated");
  for (const Symbol& symbol : program_->arena().symbols()) {
    if (const TokenSet* set = std::get_if<TokenSet>(&symbol)) {
      symbols_->add(resolve(*set, symbols));
      continue;
    }
    u32 token = 0;
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
    symbols_->add(token);
  }
  own_bytes_ = shared_bytes<Guide>() + shared_bytes<Symbols>() + symbols_->memory();
  if (!program_->vocabulary_) program_->serve(vocabulary_);
  if (max_memory != 0) {  // a renewal cannot free what exists from the start
    const Arena& arena = *program_->arena_;
    const u32 nodes = arena.extent();
    budget_.bytes = std::max(max_memory, 2 * arena.memory());
    budget_.nodes = nodes + (std::max(arena.limits().max_nodes, nodes) - nodes) / 2;
    program_->budget_ = budget_;
  }
}

// The compile cache drops a guide when a new one needs its room. Whoever compiles that one does not wait.
Guide::~Guide() {
  const std::size_t bytes = program_->bytes_.load(std::memory_order_relaxed);
  if (program_.use_count() == 1 && bytes >= kDiscardedLeast) discard(std::move(program_), bytes);
}

void Guide::prepare(u32 masks) const {
  const std::shared_ptr<Program> program = this->program();
  {
    Program::Lock lock(*program);
    Arena& arena = program->arena();
    if (!Json::of(arena).used()) {  // a likely text is short, or cannot be guessed
      // The first mask would compute it, and would take as long as the constraint is large.
      if (!arena.has(root_, kHasToken | kExactKey | kHasScan)) arena.identities().of(root_);
      return;
    }
    arena.identities().all();
  }
  const std::string text = program->likely(root_, kBytesOfMask * masks);
  std::string_view rest = text;
  try {
    const Work::Step step(program->step_work(), "this");  // for all masks together
    for (Id state = root_; masks > 0 && !rest.empty(); --masks) {
      mask(*program, state);
      const int token = vocabulary_->longest_token(rest);
      if (token < 0 || (state = advance(*program, state, static_cast<u32>(token))) == kEmpty) break;
      rest.remove_prefix(vocabulary_->bytes(static_cast<u32>(token)).size());
    }
  } catch (const Error&) {
    // A guessed text reached a limit. The error belongs to the caller that actually reaches that state.
  }
  Program::Lock lock(*program);
  program->note_size();
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
    set_bit(named, token);
  }
  if (set.but) {
    for (u32 s : vocabulary_->stops()) set_bit(named, s);
    for (u32 t = 0; t < count; ++t)  // a token without bytes would not advance the text
      if (vocabulary_->is_text(t) && vocabulary_->bytes(t).empty()) set_bit(named, t);
    for (u32 w = 0; w < named.size(); ++w) named[w] = ~named[w];
    for (u32 t = count; t < 32 * named.size(); ++t) clear_bit(named, t);
  }
  if (std::all_of(named.begin(), named.end(), [](u32 w) { return w == 0; }))
    throw Error("no-token", "the set contains no token of the vocabulary; exclude fewer tokens");
  return std::make_shared<const Words>(std::move(named));
}

std::shared_ptr<Program> Guide::program() const {
  std::lock_guard lock(mutex_);
  return program_;
}

std::shared_ptr<Program> Guide::start() {
  std::shared_ptr<Program> current = program();
  if (!current->outgrown()) return current;
  std::unique_lock renewing(renewal_, std::try_to_lock);
  if (!renewing) return current;  // another thread is renewing it: one more text does no harm
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
    return program.noting_refusal(step, maker.key(), [&] {
      return maker.make([&] {
        Program::Builder builder(program, lock);
        const MaskEntry* entry = make_mask(program, *builder, lock, state);
        builder.done();
        program.arena_->node(state).mask.store(entry, std::memory_order_release);
        return entry;
      });
    });
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
  auto own = builder.settle(*entry, state);
  entry = own.get();
  program.keep(std::move(own));
  return entry;
}

// The special tokens that a state reads; ~s: those of a set, by its symbol.
std::vector<int> Guide::specials(Program& program, Id state) const {
  Arena& arena = *program.arena_;
  std::vector<int> found;
  std::vector<u32> symbols;
  if (symbols_->empty() || !arena.has(state, kHasToken | kHasRef)) return found;
  arena.first_symbols(state, symbols);
  for (u32 s : symbols)
    if (arena.live(arena.derive_symbol(state, s)))
      found.push_back(symbols_->set(s) ? ~static_cast<int>(s) : static_cast<int>(symbols_->token(s)));
  return found;
}

// The mask of a form, which may leave tokens open.
const MaskEntry* Guide::form_mask(Program& program, MaskBuilder& builder, Program::Lock& lock, Id form) const {
  Arena& arena = *program.arena_;
  for (;;) {
    if (const MaskEntry* known = arena.node(form).mask.load(std::memory_order_relaxed)) return known;
    std::optional<Hash> key;  // of masks that other programs may share
    if (!arena.has(form, kHasToken | kExactKey | kHasScan) && !builder.own_key(form)) key = arena.identities().of(form);
    std::shared_ptr<const MaskEntry> made = key ? vocabulary_->cached_mask(*key) : nullptr;
    Program::Maker maker(program, Program::Making::Form, form);
    if (!made) {
      if (!maker.begin(lock)) continue;
      made = maker.make([&] {
        auto entry = build(program, builder, form);
        auto found = specials(program, form);
        if (found.empty()) return entry;
        auto with = std::make_shared<MaskEntry>(*entry);
        with->specials = std::move(found);
        return std::shared_ptr<const MaskEntry>(std::move(with));
      });
      if (key) vocabulary_->cache_mask(*key, made);
    }
    program.keep(made);
    const MaskEntry* entry = made.get();
    arena.node(form).mask.store(entry, std::memory_order_release);
    return entry;
  }
}

// The mask of a state that may count groups. First the counters are capped, so that states that differ only in such
// counts share one mask, as long as no token reaches the cap.
std::shared_ptr<const MaskEntry> Guide::build(Program& program, MaskBuilder& builder, Id state) const {
  Arena& arena = *program.arena_;
  struct Clear {  // an abandoned walk may have set it
    ~Clear() { arena.clear_cap_hit(); }
    Arena& arena;
  } clear{arena};
  for (u32 most : {4u, 16u}) {
    const Id capped = builder.capped(state, most);
    if (capped == state) break;
    if (program.short_caps_.contains(capped)) continue;
    const auto key = arena.identities().of(capped);
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
    for (u32 s : stops) set_bit(out, s);
  for (int s : entry->specials) {
    if (s >= 0) {
      set_bit(out, s);
    } else {
      const Words& set = *symbols_->set(static_cast<u32>(~s));
      for (std::size_t w = 0; w < words; ++w) out[w] |= set[w];
    }
  }
  return !entry->full &&
         !MaskBuilder::allows_all(out, vocabulary_->size());  // a stop token may be all that the mask itself lacks
}

// Searches from a state for ends of texts, by f(distance, step, key), unless found(distance) is the answer. Another
// thread that searches from there comes first.
template <class Found, class F>
auto Guide::search(Program& program, Id state, Found found, F f) const {
  vocabulary_->bytes_below();  // otherwise the search would make it under the mutex
  return program.deep(state, [&] {
    Program::Lock lock(program);
    std::unique_ptr<CompletionDistance>& distance = program.distance_;
    if (!distance) distance = std::make_unique<CompletionDistance>(*program.arena_, *vocabulary_, symbols_);
    for (;;) {
      if (const auto known = found(*distance)) return *known;
      Program::Maker maker(program, Program::Making::Cost, state);
      if (!maker.begin(lock)) continue;
      const Work::Step step(program.search_work(), kSearchForEnd, program.step_work());
      return f(*distance, step, maker.key());
    }
  });
}

u32 Guide::needed(Program& program, Id state, bool thorough) const {
  auto found = [&](CompletionDistance& distance) {
    return thorough || !distance.is_composed(state) ? std::nullopt : distance.found(state);
  };
  return search(program, state, found, [&](CompletionDistance& distance, const Work::Step& step, u64 key) {
    program.check_refused(key, kSearchForEnd);
    return program.noting_refusal(
        step, key, [&] { return distance.or_composed(state, thorough ? distance.refine(state) : distance.of(state)); });
  });
}

void Guide::check_budget(u32 needed, u32 budget) {
  if (needed == kInf)
    throw Error("budget-unknown",
                "no way to complete the text was found, so no number of tokens can be promised; bound the "
                "constraint, or continue without a budget");
  if (needed > budget)
    throw Error("budget-too-small", "the shortest completion found takes " + std::to_string(needed) +
                                        " tokens, but the budget is " + std::to_string(budget) + "; raise the budget");
}

// Would more budget change nothing? Otherwise removes tokens from a mask.
bool Guide::within(Program& program, Id state, u32 budget, u32* out) const {
  auto plenty = [&](CompletionDistance& distance) {
    const bool is = budget > 0 && distance.worst(state).value_or(kInf) <= budget - 1;
    return is ? std::optional(true) : std::nullopt;
  };
  return search(program, state, plenty, [&](CompletionDistance& distance, const Work::Step&, u64) {
    if (budget > 0 && distance.bound(state) <= budget - 1) return true;
    u32 needed = distance.of(state);
    if (needed > budget && distance.compose(state, budget)) needed = budget;
    if (needed > budget) needed = distance.refine(state);
    check_budget(needed, budget);
    if (budget == 0)
      std::memset(out, 0, vocabulary_->words() * 4);
    else
      distance.restrict(state, budget - 1, out);
    return false;
  });
}

bool Guide::suffices(Program& program, Id before, u32 token, Id after, u32 left) const {
  auto unknown = [](CompletionDistance&) { return std::optional<bool>(); };
  return search(program, after, unknown, [&](CompletionDistance& distance, const Work::Step&, u64) {
    return distance.bound(before) <= left || distance.suffices(before, token, after, left);
  });
}

bool Guide::fill_within(Program& program, Id state, const std::vector<u32>& stops, u32 budget, u32* out) const {
  bool restricts = fill(program, state, {}, out);
  restricts = !within(program, state, budget, out) || restricts;
  if (program.accepting(state))
    for (u32 s : stops) set_bit(out, s);
  return restricts;
}

Id Guide::advance(Program& program, Id state, u32 token) const {
  if (!symbols_->empty()) return advance_either(program, state, token);
  if (!vocabulary_->is_text(token)) return kEmpty;
  const std::string_view bytes = vocabulary_->bytes(token);
  const std::size_t read = program.advance_known(state, bytes);
  if (state == kEmpty) return kEmpty;
  const bool whole = read == bytes.size();
  if (whole && !program.arena_->has(state, kCounting)) return state;
  const Work::Step step(program.step_work(), kToken);
  return program.token_end(whole ? state : program.advance(state, bytes, token, read));
}

// For a token that may also be a symbol of the constraint.
Id Guide::advance_either(Program& program, Id state, u32 token) const {
  const Work::Step step(program.step_work(), kToken);
  Id as_unit = kEmpty;
  if (const std::vector<u32> symbols = symbols_->of(token); !symbols.empty())
    as_unit = program.advance_symbols(state, symbols);
  if (!vocabulary_->is_text(token)) return as_unit;
  return program.unite(as_unit, program.token_end(program.advance(state, vocabulary_->bytes(token), token)));
}

std::size_t Guide::memory() const {
  std::vector<std::shared_ptr<Program>> living;  // released without the mutex
  std::lock_guard lock(mutex_);
  std::size_t bytes = program_->memory() + own_bytes_;
  for (const auto& earlier : earlier_)
    if (auto program = earlier.lock()) {
      bytes += program->memory();
      living.push_back(std::move(program));
    }
  return bytes;
}

}  // namespace guiderail
