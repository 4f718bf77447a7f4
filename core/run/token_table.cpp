// The closed form of a guide: a table of its states and tokens.
#include <algorithm>

#include "run/matcher.hpp"

namespace guiderail {
namespace {

// Where tokens of sets lead as units; as text, they may lead elsewhere.
std::unordered_map<u32, Id> units_of_sets(Arena& arena, const Symbols& symbols, Id state) {
  std::unordered_map<u32, Id> units;
  if (!symbols.has_sets()) return units;
  std::vector<u32> first;
  arena.first_symbols(state, first);
  for (u32 s : first) {
    if (!symbols.set(s)) continue;
    const Id next = arena.derive_symbol(state, s);
    if (next == kEmpty || !arena.live(next)) continue;
    for_each_bit(*symbols.set(s), [&](u32 token) {
      Id& known = units.try_emplace(token, kEmpty).first->second;
      known = arena.unite(known, next);
    });
  }
  return units;
}

}  // namespace

TokenTable Guide::token_table(std::size_t max_states) const {
  const std::shared_ptr<Program> program = this->program();
  Arena& arena = *program->arena_;
  Program::Lock lock(*program);
  const Trie& trie = vocabulary_->trie();
  TokenTable table;
  std::unordered_map<Id, std::int32_t> number{{root(), 0}};
  std::vector<Id> states{root()}, stack(vocabulary_->longest() + 2);
  std::unordered_map<u32, std::vector<u32>> twins;
  for (auto [one, other] : vocabulary_->twins()) twins[one].push_back(other);
  table.indptr.push_back(0);
  auto number_of = [&](Id id) {
    auto [it, fresh] = number.try_emplace(id, static_cast<std::int32_t>(states.size()));
    if (fresh) {
      if (states.size() >= max_states)
        throw Error("states", "the token automaton has more than " + std::to_string(max_states) +
                                  " states; raise max_states or bound the constraint");
      states.push_back(id);
    }
    return it->second;
  };
  for (std::size_t at = 0; at < states.size(); ++at) {
    const Id state = states[at];
    std::vector<std::pair<std::int32_t, std::int32_t>> row;
    std::unordered_map<u32, Id> units = units_of_sets(arena, *symbols_, state);
    auto emit_one = [&](u32 token, Id next) {
      if (auto it = units.find(token); it != units.end()) {
        next = arena.unite(next, it->second);
        units.erase(it);
      }
      row.push_back({static_cast<std::int32_t>(token), number_of(next)});
    };
    auto emit = [&](u32 token, Id next) {
      emit_one(token, next);
      if (auto it = twins.find(token); it != twins.end())
        for (u32 other : it->second) emit_one(other, next);
    };
    stack[0] = state;
    u32 count = 0;
    for (u32 n = 1; n < trie.nodes[0].end;) {
      if (count++ % kNodesBetweenBreaks == 0) arena.make_room();
      const TrieNode& node = trie.nodes[n];
      const u32 depth = trie.depths[n];
      Id next = arena.step_slow(stack[depth - 1], node.byte);
      if (next == kEmpty) {
        n = node.end;
        continue;
      }
      arena.ensure_row(next);
      stack[depth] = next;
      if (node.token >= 0) emit(static_cast<u32>(node.token), arena.token_end(next));
      ++n;
    }
    for (const auto& [token, symbols] : symbols_->of_tokens()) {
      Id next = kEmpty;
      for (u32 symbol : symbols) next = arena.unite(next, arena.derive_symbol(state, symbol));
      if (next != kEmpty && arena.live(next)) emit(token, next);
    }
    while (!units.empty()) emit_one(units.begin()->first, units.begin()->second);
    std::sort(row.begin(), row.end());
    if (table.token.size() + row.size() > 400'000'000)
      throw Error("states", "the token automaton has more than 400,000,000 transitions; bound the constraint");
    for (auto [token, next] : row) {
      table.token.push_back(token);
      table.next.push_back(next);
    }
    table.indptr.push_back(static_cast<std::int64_t>(table.token.size()));
    table.accepting.push_back(arena.nullable(state));
  }
  return table;
}

}  // namespace guiderail
