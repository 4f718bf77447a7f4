// Hashes that mean the same in every arena, for what is kept with the vocabulary. The hash of a node with rules below
// it holds the arena's own names of them; here a rule is hashed by what it unfolds to.
#include <algorithm>

#include "members.hpp"

namespace guiderail {
namespace {
constexpr std::size_t kMostRules = 6;  // that one rule leads to
constexpr std::size_t kMostFolded = 1u << 16;
}  // namespace

bool Arena::fold(Id e, Fold& with, Hash& out) const {
  std::vector<Id> chain;  // of Concats, which may be long
  for (; has(e, kHasRef) && node(e).kind == Kind::Concat && !with.nodes.contains(e); e = node(e).b) chain.push_back(e);
  if (!has(e, kHasRef)) {
    if (has(e, kHasToken | kExactKey)) return false;
    out = node(e).hash;
  } else {
    auto it = with.nodes.find(e);
    if (it == with.nodes.end()) {
      Hash made;
      const bool known = fold_node(e, with, made);
      it = with.nodes.emplace(e, known ? std::optional(made) : std::nullopt).first;
    }
    if (!it->second) return false;
    out = *it->second;
  }
  for (std::size_t i = chain.size(); i-- > 0;) {
    Hash head;
    if (!fold(node(chain[i]).a, with, head)) return false;
    out = hash_step(hash_step(draft(Kind::Concat).hash, head), out);
    with.nodes.emplace(chain[i], out);
  }
  return true;
}

bool Arena::fold_node(Id e, Fold& with, Hash& out) const {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Ref: {
      auto it = with.rules.find(n.a);
      if (it == with.rules.end() || !it->second) return false;
      out = *it->second;
      return true;
    }
    case Kind::Repeat:
      if (n.b || !fold(n.a, with, out)) return false;
      out = hash_step(hash_step(draft(n.kind).hash, out), u64{n.min} << 32 | n.max);
      return true;
    case Kind::Union:
    case Kind::And: {
      Hash sum;
      for (Id m : operands(e)) {  // in an order that is this arena's own
        Hash part;
        if (!fold(m, with, part)) return false;
        sum.lo += mix64(part.lo);
        sum.hi += mix64(part.hi ^ 0x5851f42d4c957f2dULL);
      }
      out = hash_step(hash_step(draft(n.kind).hash, sum), n.b);
      return true;
    }
    case Kind::Members:
    case Kind::Key: return fold_members(e, with, out);
    default: return false;
  }
}

// Rules that look alike however often they are unfolded mean the same. Of two systems of n rules each, those that can
// be told apart are told apart by unfolding 2n times (as states of an automaton are: Moore 1956).
std::optional<Hash> Arena::rule_hash(u32 rule) {
  std::vector<u32> reached{rule};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    std::vector<u32> next;
    rules_below(rules_[reached[i]].body, next);
    for (u32 r : next)
      if (std::find(reached.begin(), reached.end(), r) == reached.end()) reached.push_back(r);
    if (reached.size() > kMostRules) return std::nullopt;
  }
  Fold now;
  const Hash start = hash_step(draft(Kind::Ref).hash, reached.size());
  for (u32 r : reached) now.rules[r] = start;
  for (std::size_t round = 0; round < 2 * reached.size(); ++round) {
    Fold next;
    for (u32 r : reached) {
      Hash h;
      if (!fold(rules_[r].body, now, h)) return std::nullopt;
      next.rules[r] = hash_step(start, h);
    }
    now = std::move(next);
  }
  return now.rules[rule];
}

std::optional<Hash> Arena::portable_hash(Id e) {
  if (!has(e, kHasRef)) return node(e).hash;
  if (!fold_) {
    fold_ = std::make_unique<Fold>();
    for (u32 r = 0; r < rules_.size(); ++r) fold_->rules[r] = rule_hash(r);
  }
  if (fold_->nodes.size() > kMostFolded) fold_->nodes.clear();
  Hash out;
  return fold(e, *fold_, out) ? std::optional(out) : std::nullopt;
}

}  // namespace guiderail
