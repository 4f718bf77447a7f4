// What a search for completions does at every state: it takes its turn, and walks over all tokens.
#pragma once

#include <algorithm>

#include "base/work.hpp"
#include "expr/outside.hpp"
#include "search/completion_distance.hpp"

namespace guiderail {

// While it lives, a search has its turn. What the search keeps is set aside while others have theirs.
class CompletionDistance::Turn : public Arena::Aside {
 public:
  explicit Turn(CompletionDistance& of) : Arena::Aside(of.arena_), of_(of) {}
  void leave() override {
    search_ = std::exchange(of_.now_, Search());
    nodes_ = of_.arena_.node_count();
  }
  void enter() override {
    const u32 foreign = of_.arena_.node_count() - nodes_;
    of_.now_ = search_;
    of_.now_.begun_at += foreign;
    of_.now_.most_nodes += foreign;
  }

 private:
  CompletionDistance& of_;
  Search search_;
  u32 nodes_ = 0;
};

template <class F, class Whole, class Many, class Open>
void CompletionDistance::each_token(Id state, F f, Whole whole, Many many, Open open) {
  std::vector<Id> states(vocabulary_.longest() + 2);
  std::unordered_map<Id, ByteSet> stay;
  states[0] = state;
  u32 count = 0;
  for (u32 n = 1; n < trie_.nodes[0].end;) {
    if (++count % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
    }
    const TrieNode& node = trie_.nodes[n];
    const u32 depth = trie_.depths[n];
    const Id before = states[depth - 1];
    Id next = arena_.known_step(before, arena_.byte_class(node.byte));
    if (next == before) {  // e.g. within a string: all that follows is known
      if (const ByteSet* below = below_.of(n)) {
        auto [it, fresh] = stay.try_emplace(before);
        if (fresh) it->second = staying(before);
        if (it->second.contains(*below)) {
          if (!whole(n, arena_.token_end(before))) return;
          n = node.end;
          continue;
        }
      }
    } else {
      if (next == kUnknown) next = arena_.step_slow(before, node.byte);
      if (next != kEmpty) next = forget(next);
      if (next == kEmpty) {
        n = node.end;
        continue;
      }
      if (arena_.has(next, kUnknownText)) {
        open(n);
        n = node.end;
        continue;
      }
      if (node.end > n + 1) arena_.ensure_row(next);
    }
    states[depth] = next;
    if (node.token >= 0 && !f(static_cast<u32>(node.token), arena_.token_end(next))) return;
    ++n;
  }
  if (!symbols_->empty() && arena_.has(state, kHasToken | kHasRef)) {
    std::vector<u32> symbols, tokens;
    arena_.first_symbols(state, symbols);
    for (u32 s : symbols) {
      if (!symbols_->set(s)) {
        tokens.push_back(symbols_->token(s));
      } else if (const Id next = arena_.derive_symbol(state, s); next != kEmpty && arena_.live(next)) {
        many(*symbols_->set(s), forget(next));
      }
    }
    sort_unique(tokens);
    for (u32 token : tokens)
      if (const Id next = read_special(state, token); next != kEmpty && !f(token, forget(next))) return;
  }
}

template <class F>
void CompletionDistance::each_of(const Branch& branch, F f) const {
  std::for_each(branch.tokens.begin(), branch.tokens.end(), f);
  for (auto [first, end] : branch.spans)
    for (u32 token : trie_.within(first, end)) {
      f(token);
      if (twins_.empty()) continue;
      if (auto it = twins_.find(token); it != twins_.end()) std::for_each(it->second.begin(), it->second.end(), f);
    }
}

}  // namespace guiderail
