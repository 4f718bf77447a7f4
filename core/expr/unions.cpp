// Unions: normal forms of alternatives, and a memo of the unions and intersections of lists.
#include <algorithm>
#include <map>
#include <optional>

#include "base/work.hpp"
#include "expr/alternatives.hpp"
#include "expr/kinds.hpp"

namespace guiderail {
namespace {

constexpr u32 kUnionRoot = 0, kAndRoot = ~u32{0}, kListRoot = kAndRoot - 1;
constexpr u32 kMostPaths = 1u << 31;  // numbers for lists of operands; then numbering starts over

}  // namespace

Arena::Alternatives::Alternatives(Arena& arena, std::span<const Id> list, Form form) : arena_(arena), form_(form) {
  take(Ids(list));
  if (parts_.size() > list.size()) Work::spend((parts_.size() - list.size()) / 8);
}

// Flattens; X{0,1} contributes X and the empty text.
void Arena::Alternatives::take(Ids input) {
  while (!input.empty()) {
    const Id e = input.back();
    input.pop_back();
    const Node& n = node(e);
    if (e == kEmpty) continue;
    if (e == kEpsilon) {
      epsilon_ = true;
    } else if (n.kind == Kind::Union) {
      input.append(arena_.operands(e));
    } else if (n.min == 0 && n.max == 1 && plain_repeat(e)) {
      epsilon_ = true;
      input.push_back(n.body());
    } else {
      parts_.push_back(e);
    }
  }
}

u64 Arena::Alternatives::kinds() const {
  static_assert(kKinds <= 64);
  u64 kinds = 0;
  for (Id e : parts_) kinds |= u64{1} << static_cast<u32>(node(e).kind);
  return kinds;
}

// Does some alternative match every text, and the others nothing else?
bool Arena::Alternatives::any_text() const {
  if (std::find(parts_.begin(), parts_.end(), arena_.any_text_) == parts_.end() || arena_.has_raw_bytes()) return false;
  return std::none_of(parts_.begin(), parts_.end(),
                      [&](Id e) { return arena_.has(e, kHasRef | kHasToken) || node(e).kind == Kind::Not; });
}

// Single characters become one class, single bytes one set, and families join their own kinds.
bool Arena::Alternatives::join_kinds() {
  u32 chars = 0;
  int classes = 0, byte_sets = 0;
  ByteSet byte_union;
  for (Id e : parts_) {
    const Node& n = node(e);
    if (n.kind == Kind::Class) {
      chars = classes > 0 ? arena_.compose(SetOperation::Either, chars, n.a) : n.a;
      ++classes;
    } else if (n.kind == Kind::Bytes) {
      byte_union |= arena_.byte_sets_[n.a];
      ++byte_sets;
    }
  }
  bool changed = false;
  if (const u64 own = kinds(); own & arena_.joined_kinds_)
    for (const auto& family : arena_.families_)
      if (own & family->joined_kinds()) changed = family->join(parts_) || changed;
  if (classes < 2 && byte_sets < 2) return changed;
  parts_.erase_if([&](Id e) {
    const Kind k = node(e).kind;
    return (k == Kind::Class && classes > 1) || (k == Kind::Bytes && byte_sets > 1);
  });
  if (classes > 1) parts_.push_back(arena_.class_of(chars));
  if (byte_sets > 1) parts_.push_back(arena_.bytes(byte_union));
  return true;
}

// Of equal texts with different counts, keeps the one that may have more tokens.
void Arena::Alternatives::keep_most_tokens() {
  std::map<std::pair<Id, u32>, u32> counted;
  for (Id e : parts_)
    if (const Node& n = node(e); n.kind == Kind::Counted) {
      u32& most = counted.try_emplace({n.body(), n.b}, n.min).first->second;
      most = std::max(most, n.min);
    }
  if (!counted.empty())
    parts_.erase_if([&](Id e) {
      const Node& n = node(e);
      return n.kind == Kind::Counted && n.min < counted[{n.body(), n.b}];
    });
}

// X{a,b} | X{c,d} and X | X{m,n}
bool Arena::Alternatives::join_repeats() {
  Ids bodies;
  for (Id e : parts_)
    if (plain_repeat(e)) bodies.push_back(node(e).body());
  if (bodies.empty()) return false;
  std::sort(bodies.begin(), bodies.end());
  const u64 own = kinds();
  bool changed = false;
  for (std::size_t i = 0, j = 0; i < bodies.size(); i = j) {
    const Id body = bodies[i];
    while (j < bodies.size() && bodies[j] == body) ++j;
    const bool bare =
        own >> static_cast<u32>(node(body).kind) & 1 && std::find(parts_.begin(), parts_.end(), body) != parts_.end();
    if (j - i + bare + epsilon_ >= 2) changed = join_repeats_of(body, j - i > 1, bare) || changed;
  }
  return changed;
}

// `several`: there are several repetitions of this body; `bare`: it is an alternative itself.
bool Arena::Alternatives::join_repeats_of(Id body, bool several, bool bare) {
  auto repeats = [&](Id e) { return plain_repeat(e) && node(e).body() == body; };
  if (!several && !bare) {  // beside only the empty text, which it may absorb
    const auto at = std::find_if(parts_.begin(), parts_.end(), repeats);
    if (node(*at).min != 1) return false;
    *at = arena_.repeat(body, 0, node(*at).max);
    return true;
  }
  struct Range {
    u32 min, max;
    bool operator<(const Range& other) const { return min != other.min ? min < other.min : max < other.max; }
  };
  ShortVector<Range, 12> ranges, joined;
  if (bare) ranges.push_back({1, 1});
  if (epsilon_) ranges.push_back({0, 0});
  for (Id e : parts_)
    if (repeats(e)) ranges.push_back({node(e).min, node(e).max});
  std::sort(ranges.begin(), ranges.end());
  for (const Range r : ranges) {
    if (!joined.empty() && r.min <= add_sat(joined.back().max, 1))
      joined[joined.size() - 1].max = std::max(joined.back().max, r.max);
    else
      joined.push_back(r);
  }
  if (joined.size() == ranges.size()) return false;
  parts_.erase_if([&](Id e) { return (bare && e == body) || repeats(e); });
  for (auto [lo, hi] : joined)
    if (hi > 0) parts_.push_back(arena_.repeat(body, lo, hi));
  return true;
}

// Is an alternative left as it is? Stacks of rules share tails like the nodes of a graph-structured stack. To unite all
// tails of common heads, down to the bottom, would make the graph deterministic, which may take exponentially many
// nodes. A common tail is factored out only of heads without rules: of the others, there would be a union for each set.
bool Arena::Alternatives::listed_only(Id e, bool heads) const {
  if (form_ == Form::Deep || !arena_.has(e, kHasRef)) return false;
  return form_ == Form::Listed || (!heads && node(e).kind == Kind::Concat && arena_.has(node(e).head(), kHasRef));
}

// Factors common heads, or tails, out of the alternatives.
bool Arena::Alternatives::factor(bool heads) {
  if (parts_.size() < 2) return false;
  auto key = [&](Id e) -> Id {
    const Node& n = node(e);
    if (n.kind != Kind::Concat) return e;
    return heads ? n.head() : n.tail();
  };
  ShortVector<u64, 12> keyed;  // key, part
  Ids next;
  for (Id e : parts_) {
    if (listed_only(e, heads))
      next.push_back(e);
    else
      keyed.push_back(u64{index_of(key(e))} << 32 | index_of(e));
  }
  std::sort(keyed.begin(), keyed.end());
  bool grouped = false;
  for (std::size_t i = 0; i < keyed.size();) {
    const Id common{static_cast<u32>(keyed[i] >> 32)};
    std::size_t j = i + 1;
    while (j < keyed.size() && keyed[j] >> 32 == index_of(common)) ++j;
    if (j - i == 1) {
      next.push_back(Id{static_cast<u32>(keyed[i])});
    } else {
      grouped = true;
      Ids others;
      for (std::size_t k = i; k < j; ++k) {
        const Node& n = node(Id{static_cast<u32>(keyed[k])});
        const bool bare = n.kind != Kind::Concat;
        others.push_back(bare ? kEpsilon : (heads ? n.tail() : n.head()));
      }
      const Id other = form_ == Form::Deep ? arena_.memoised(Kind::Union, others) : listed(arena_, others);
      next.push_back(heads ? arena_.concat(common, other) : arena_.concat(other, common));
    }
    i = j;
  }
  if (grouped) parts_ = std::move(next);
  return grouped;
}

// Do some alternatives with rules begin alike?
bool Arena::Alternatives::begin_alike() const {
  if (form_ == Form::Deep) return false;
  Ids heads;
  for (Id e : parts_)
    if (node(e).kind == Kind::Concat && arena_.has(e, kHasRef)) heads.push_back(node(e).head());
  const std::size_t all = heads.size();
  heads.sort_unique();
  return heads.size() < all;
}

Id Arena::Alternatives::unite() {
  for (int round = 0; round < 4; ++round) {
    parts_.sort_unique();
    if (parts_.size() < 2) break;
    if (any_text()) return arena_.any_text_;
    bool changed = join_kinds();
    keep_most_tokens();
    changed = join_repeats() || changed;
    const bool heads = factor(true);
    if (factor(false) || heads) {
      Ids flat;
      for (Id e : parts_) {
        if (e == kEpsilon) {
          epsilon_ = true;
        } else if (node(e).kind == Kind::Union) {
          flat.append(arena_.operands(e));
        } else {
          flat.push_back(e);
        }
      }
      parts_ = std::move(flat);
      changed = true;
    }
    if (!changed) break;
  }
  parts_.sort_unique();
  arena_.absorb_members(parts_, Kind::And);
  if (parts_.empty()) return epsilon_ ? kEpsilon : kEmpty;
  const Id e =
      parts_.size() == 1 ? parts_[0] : arena_.make_list(Kind::Union, parts_, begin_alike() ? u32{kListed} : 0u);
  if (!epsilon_ || (arena_.has(e, kNullable) && !arena_.has(e, kHasLook))) return e;
  return arena_.repeat(e, 0, 1);
}

Id Arena::unite(std::span<const Id> list) {
  make_room();
  work_ += list.size();
  Work::spend(1 + list.size() / 8);
  using Attempt = Alternatives::Attempt;
  std::optional<Attempt> attempt;
  if (!Attempt::in(*this) && std::any_of(list.begin(), list.end(), [&](Id e) { return has(e, kListed); }))
    attempt.emplace(*this);
  using Form = Alternatives::Form;
  return Alternatives(*this, list, Attempt::failed_in(*this) ? Form::Listed : Form::Deep).unite();
}

// The number of a list: of its path in a trie.
u32 Arena::path_of(u32 root, const Ids& parts) {
  if (union_path_ >= kMostPaths) {
    union_paths_.clear();
    union_memo_.clear();
    union_path_ = 0;
    ++union_era_;
  }
  Work::spend(1 + parts.size() / 8);
  u32 path = root;
  for (Id e : parts) {
    const u64 step = u64{path} << 32 | index_of(e);
    if (const u32* known = union_paths_.find(step)) {
      path = *known;
    } else {
      path = ++union_path_;
      union_paths_.set(step, path, memo_limit());
    }
  }
  return path;
}

// A union or intersection, found again by its operands. What follows a common head is united again, and so is what
// follows that. Ambiguous texts share these tails, so without a memo, the work would double wherever two readings meet.
// For intersections, see conditions().
Id Arena::memoised(Kind kind, Ids& parts) {
  parts.sort_unique();
  auto make = [&] { return kind == Kind::Union ? unite(parts) : intersect(parts); };
  int stacks = 0;
  for (Id e : parts) stacks += node(e).kind == Kind::Concat || node(e).kind == Kind::Union;
  if (kind == Kind::Union && stacks < 2) return make();
  const u32 path = path_of(kind == Kind::Union ? kUnionRoot : kAndRoot, parts);
  if (const Id* known = union_memo_.find(path)) return *known;
  const u32 era = union_era_;
  const Id out = make();
  if (era == union_era_ && !Alternatives::Attempt::failed_in(*this))
    union_memo_.set(path, out, memo_limit());  // otherwise numbering has started over
  return out;
}

thread_local Arena::Alternatives::Attempt* Arena::Alternatives::Attempt::current = nullptr;

Id Arena::Alternatives::listed(Arena& arena, Ids& parts) {
  if (std::none_of(parts.begin(), parts.end(), [&](Id e) { return arena.has(e, kHasRef); }))
    return arena.memoised(Kind::Union, parts);
  parts.sort_unique();
  if (parts.size() == 1) return parts[0];
  const u32 path = arena.path_of(kListRoot, parts);
  if (const Id* known = arena.union_memo_.find(path)) return *known;
  const u32 era = arena.union_era_;
  arena.make_room();
  const Id out = Alternatives(arena, parts, Form::Listed).unite();
  if (era == arena.union_era_) arena.union_memo_.set(path, out, arena.memo_limit());
  return out;
}

}  // namespace guiderail
