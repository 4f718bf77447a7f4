// Among(L) matches what one of the alternatives in L matches.
//
// A list of distinct values excludes the values before: n unions with up to n alternatives. If each were a union of
// its own, they would take time and memory in n². So L is a list that links to the list without its last alternative,
// and so is its derivative: that of the shorter list, with the derivative of the last alternative added. An
// alternative that does not begin with the byte adds nothing, and the derivative of the shorter list is known from the
// item before. So a list of n texts costs what its texts cost, each once for every prefix that is read.
#include "json/among.hpp"

#include "base/thresholds.hpp"
#include "base/work.hpp"

namespace guiderail {

u32 Among::with(u32 list, Id alternative, const Hash& own) {
  if (!live(alternative)) return list;
  const u64 key = u64{list} << 32 | index_of(alternative);
  if (const u32* known = known_.find(key)) return *known;
  const List& from = lists_[list];
  const Node& n = node(alternative);
  List to;
  to.before = list;
  to.last = alternative;
  to.size = from.size + 1;
  Draft d = draft(Kind::Among);
  d.flags = from.flags;
  d.depth = from.depth;
  absorb(d, alternative, true);
  to.flags = d.flags | (nullable(alternative) ? u32{kNullable} : 0u);
  to.depth = d.depth;
  to.shortest = std::min(from.shortest, n.shortest);
  to.longest = std::max(from.longest, n.longest);
  to.first = from.first;
  to.first |= first(alternative);
  to.own = own;
  to.identity = Identity(Of::Text).add(from.identity).add(own).done();
  const u32 id = static_cast<u32>(lists_.size());
  lists_.push_back(to);
  try {
    known_.set(key, id);
  } catch (...) {
    lists_.pop_back();
    throw;
  }
  return id;
}

Id Among::any_of(u32 list) {
  if (const Id known = lists_[list].whole; known != kUnknown) return known;
  Id out = kEmpty;
  if (const List& of = lists_[list]; of.size <= kFewAmong) {
    Ids alternatives;
    for (u32 at = list; at != 0; at = lists_[at].before) alternatives.push_back(lists_[at].last);
    out = unite(alternatives);
  } else {
    Draft d = draft(Kind::Among);
    d.a = list;
    d.flags = (of.flags & ~u32{kSearch}) | kExactStep;  // every alternative is alive
    d.depth = of.depth;
    d.shortest = of.shortest;
    d.longest = of.longest;
    out = intern(d);
  }
  return lists_[list].whole = out;
}

u32 Among::derived(u32 list, u8 byte) {
  auto key = [byte](u32 at) { return u64{at} << 8 | byte; };
  std::vector<u32> open;  // lists whose last alternative may read the byte
  u32 out = 0, at = list;
  for (; at != 0 && lists_[at].first.has(byte); at = lists_[at].before) {
    if (const u32* known = derived_.find(key(at))) {
      out = *known;
      break;
    }
    Work::spend();
    if (at == list || first(lists_[at].last).has(byte)) open.push_back(at);
  }
  for (; !open.empty(); open.pop_back()) {
    at = open.back();
    const Id read = derive(lists_[at].last, byte);
    if (read != kEmpty) out = with(out, read, Identity(Of::Text).add(lists_[at].own).add(u64{byte}).done());
    derived_.set(key(at), out);
  }
  return out;
}

std::vector<DumpItem> Among::dump(Id e) const {
  return {{"among(" + std::to_string(lists_[node(e).a].size) + " texts)"}};
}

void Among::fresh(Arena& arena) const {
  Among& to = of(arena);
  to.lists_.assign(lists_.begin(), lists_.begin() + extent_);
  for (u32 list = 1; list < extent_; ++list) {
    List& copy = to.lists_[list];
    if (copy.whole != kUnknown && index_of(copy.whole) >= arena.node_count()) copy.whole = kUnknown;
    to.known_.set(u64{copy.before} << 32 | index_of(copy.last), list);
  }
  to.extent_ = extent_;
}

void Among::count(Tally& to) const {
  to.add("distinct values", bytes_of(lists_) + known_.memory() + derived_.memory());
}

}  // namespace guiderail
