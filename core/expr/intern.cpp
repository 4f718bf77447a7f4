// The arena: interning, and the leaves of the algebra.
#include <algorithm>

#include "base/deep_stack.hpp"
#include "base/faults.hpp"
#include "base/work.hpp"
#include "expr/characters.hpp"
#include "expr/identities.hpp"
#include "expr/liveness.hpp"
#include "expr/outside.hpp"

namespace guiderail {

Arena::Arena(Limits limits) : limits_(limits) {
  limits_.max_depth = std::min(limits_.max_depth, kMostDepth);
  table_.reserve(512);
  chunks_ = make_uncleared<Node*>((limits.max_nodes >> kChunkBits) + 1);
  struct Pages {  // frees the pages if the constructor fails: no destructor runs then
    Arena& arena;
    bool made = false;
    ~Pages() {
      if (!made) arena.give_all_pages();
    }
  } pages{*this};
  ensure_chunk(kEmpty);
  new (&node(kEmpty)) Node;
  new (&node(kEpsilon)) Node;
  Node& none = node(kEmpty);
  none.kind = Kind::Empty;
  none.shortest = kInf;
  Node& eps = node(kEpsilon);
  eps.kind = Kind::Epsilon;
  eps.flags = kNullable;
  count_ = 2;
  any_text_ = repeat(char_class(CharSet::any()), 0, kInf);
  pages.made = true;
}

Arena::~Arena() { give_all_pages(); }

void Arena::give_all_pages() {
  static_assert(std::is_trivially_destructible_v<Node>);
  for (u32 i = 0; i < chunk_count_; ++i) give_pages(chunks_[i], kChunkBytes);
  for (std::size_t i = 0; i < row_blocks_.size(); ++i)
    give_pages(row_blocks_[i], (i == 0 ? kFirstRows : kMoreRows) * sizeof(Id));
}

void Arena::count(Tally& to) const {
  to.add("expressions", ((count_ + kChunkMask) >> kChunkBits) * page_bytes(kChunkBytes) + table_.memory() +
                            block_bytes(((limits_.max_nodes >> kChunkBits) + 1) * sizeof(void*)) + sizeof(*this));
  to.add("operands", pool_.memory());
  to.add("identities", identities_ ? identities_->memory() : 0);
  to.add("transitions", row_bytes_ + bytes_of(row_blocks_));
  to.add("byte sets", bytes_of(byte_sets_) + bytes_of(firsts_) + byte_set_ids_.memory() + first_ids_.memory());
  to.add("character sets", bytes_of(charsets_) + charset_ids_.memory() + bytes_of(odd_sets_) + composed_sets_.memory() +
                               bytes_of(literal_chars_));
  to.add("rules", rule_bytes_ + bytes_of(rules_) + bytes_of(symbols_));
  to.add("memos", bytes_of(narrow_memo_) + plain_parts_.memory() + derive_memo_.memory() + exact_memo_.memory() +
                      union_paths_.memory() + union_memo_.memory() + (liveness_ ? liveness_->memory() : 0) +
                      (characters_ ? characters_->memory() : 0));
  for (const auto& family : families_) family->count(to);
}

std::size_t Arena::memory() const {
  Tally all;
  count(all);
  return all.total;
}

void Arena::let_others_in() {
  const Away away(*this);
  cap_hit_ = false;
  mutex.make_room();
}

Id Arena::intern(Draft& d) {
  Work::spend();
  if (d.depth > limits_.max_depth && (!DeepStack::here() || d.depth > DeepStack::kLevels)) [[unlikely]]
    refuse_depth();
  const u64 bucket = d.bucket();
  const u32 known = table_.find(bucket, [&](u32 id) {
    const Node& n = node(Id{id});
    if (n.kind != d.kind || n.min != d.min || n.max != d.max) return false;
    if (!d.has_list) return n.a == d.a && n.b == d.b;
    return n.b == d.list.size() && std::equal(d.list.begin(), d.list.end(), pool_.at(n.a));
  });
  return known != IdTable::kNone ? Id{known} : add_node(d, bucket);
}

void Arena::refuse_depth() const {
  throw Error("depth",
              "the constraint is nested more than " + std::to_string(limits_.max_depth) + " levels deep; flatten it");
}

void Arena::ensure_chunk(Id next) {
  if (index_of(next) >> kChunkBits < chunk_count_) return;
  store_atomic(chunks_[chunk_count_], static_cast<Node*>(take_pages(kChunkBytes)), std::memory_order_release);
  ++chunk_count_;
}

Id Arena::add_node(const Draft& d, u64 bucket) {
  if (extent() >= limits_.max_nodes || faults::on_limit())
    throw Error("nodes", "the constraint needs more than " + std::to_string(limits_.max_nodes) +
                             " expressions; simplify it or raise max_nodes");
  const Id id{count_};
  ensure_chunk(id);
  Node& n = *new (&node(id)) Node;
  n.kind = d.kind;
  n.flags.store(d.flags, std::memory_order_relaxed);
  n.depth = d.depth;
  if (d.has_list) {
    n.a = pool_.add(d.list);
    n.b = static_cast<u32>(d.list.size());
  } else {
    n.a = d.a;
    n.b = d.b;
  }
  n.min = d.min;
  n.max = d.max;
  n.shortest = d.shortest;
  n.longest = d.longest;
  table_.add(bucket, count_);
  store_atomic(count_, count_ + 1, std::memory_order_relaxed);  // see node_count()
  return id;
}

// -- leaves --
u32 Arena::charset_index(const CharSet::Ptr& set, bool composed) {
  const u64 key = reinterpret_cast<std::uintptr_t>(set.get());
  if (const u32* known = charset_ids_.find(key)) return *known;
  charsets_.reserve(charsets_.size() + 1 > charsets_.capacity() ? 2 * charsets_.size() + 8 : 0);
  const u32 index = static_cast<u32>(charsets_.size());
  const bool odd = finalized_ && !composed;
  if (odd) odd_sets_.insert(index);  // first: an odd set that is not marked would be read by byte classes
  try {
    charset_ids_.set(key, index);
  } catch (...) {
    if (odd) odd_sets_.erase(index);
    throw;
  }
  charsets_.push_back(set);
  return index;
}

// The characters of both sets, or of either one. Bytes that neither set tells apart are alike to the result, so it fits
// the byte classes if both do.
u32 Arena::compose(SetOperation operation, u32 a, u32 b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  const u64 key = u64{a} << 32 | u64{b} << 1 | static_cast<u64>(operation);
  if (const u32* known = composed_sets_.find(key)) return *known;
  const CharSet &one = *charsets_[a], &other = *charsets_[b];
  const auto made = operation == SetOperation::Both ? CharSet::intersect(one, other) : CharSet::unite(one, other);
  const u32 index = charset_index(made, !odd_sets_.contains(a) && !odd_sets_.contains(b));
  if (finalized_) composed_sets_.set(key, index);
  return index;
}

Id Arena::char_class(CharSet::Ptr set) { return class_of(charset_index(set)); }

Id Arena::class_of(u32 set) {
  if (charsets_[set]->ranges().empty()) return kEmpty;
  Draft d = draft(Kind::Class);
  d.a = set;
  if (odd_sets_.contains(set)) d.flags |= kExactStep;
  d.shortest = d.longest = 1;
  return intern(d);
}

Id Arena::class_tail(u32 set, u16 state) {
  if (state == CharSet::kDead) return kEmpty;
  if (state == CharSet::kDone) return kEpsilon;
  Draft d = draft(Kind::ClassTail);
  d.a = set;
  d.b = state;
  if (odd_sets_.contains(set)) d.flags |= kExactStep;
  return intern(d);
}

Id Arena::bytes(const ByteSet& set) {
  if (!set.any()) return kEmpty;
  if (!(set.words[2] | set.words[3])) {  // ASCII: a class of characters
    std::vector<CharSet::Range> ranges;
    for (u32 b = 0; b < 128; ++b)
      if (set.has(static_cast<u8>(b))) ranges.push_back({b, b});
    return char_class(CharSet::make(std::move(ranges)));
  }
  raw_bytes_ = true;
  Draft d = draft(Kind::Bytes);
  d.a = id_of(set, byte_sets_, byte_set_ids_);
  d.longest = 1;
  d.shortest = 1;
  for (unsigned b = 0x80; b < 0xC0; ++b)
    if (set.has(static_cast<u8>(b))) d.shortest = 0;
  return intern(d);
}

Id Arena::literal(std::string_view text) {
  note_literal(text);
  Id e = kEpsilon;
  for (std::size_t i = text.size(); i-- > 0;) {
    u32 b = static_cast<u8>(text[i]);
    std::pair<u32, Id> edge{b | b << 8, e};
    e = make_switch({&edge, 1}, false);
  }
  return e;
}

void Arena::note_literal(std::string_view text) {
  if (!is_utf8(text)) {
    raw_bytes_ = true;
    return;
  }
  if (finalized_) return;  // expressions of the literal have the flag kExactStep
  for (std::size_t i = 0; i < text.size(); ++i) {
    const u8 lead = static_cast<u8>(text[i]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    u32 c = lead & (0x3Fu >> more);
    for (int k = 0; k < more; ++k) c = c << 6 | (static_cast<u8>(text[++i]) & 0x3Fu);
    literal_chars_.push_back(c);
  }
}

// Edges: (low byte | high byte << 8, target), disjoint, sorted by low byte.
Id Arena::make_switch(std::span<std::pair<u32, Id>> edges, bool accept) {
  std::size_t kept = 0;
  for (const auto& edge : edges) {
    if (edge.second == kEmpty) continue;
    if (kept && edges[kept - 1].second == edge.second && (edges[kept - 1].first >> 8) + 1 == (edge.first & 0xFF))
      edges[kept - 1].first = (edges[kept - 1].first & 0xFF) | (edge.first & 0xFF00);  // joins neighbours
    else
      edges[kept++] = edge;
  }
  edges = edges.first(kept);
  if (edges.empty()) return accept ? kEpsilon : kEmpty;
  bool plain = !accept && !finalized_;
  for (auto [range, target] : edges) plain = plain && target == kEpsilon && (range >> 8) < 0x80;
  if (plain) {
    std::vector<CharSet::Range> ranges;
    for (auto [range, target] : edges) ranges.push_back({range & 0xFF, range >> 8});
    return char_class(CharSet::make(std::move(ranges)));
  }
  Draft d = draft(Kind::Switch);
  Ids list;
  d.min = accept;
  d.shortest = accept ? 0 : kInf;
  for (auto [range, target] : edges) {
    const Node& t = node(target);
    absorb(d, target, false);
    bool middle = is_continuation(static_cast<u8>(range));
    d.shortest = std::min(d.shortest, add_sat(t.shortest, middle ? 0 : 1));
    d.longest = std::max(d.longest, add_sat(t.longest, is_continuation(static_cast<u8>(range >> 8)) && middle ? 0 : 1));
    list.push_back(Id{range});
    list.push_back(target);
  }
  d.depth = 0;                            // nothing recurses into the targets of a Switch
  if (finalized_) d.flags |= kExactStep;  // a text found while reading: the byte classes do not fit it
  if (accept) d.flags |= kNullable;
  d.list = {list.data(), list.size()};
  d.has_list = true;
  return intern(d);
}

bool Arena::is_literal(Id e, std::string* out) const {
  for (;;) {
    const Node& n = node(e);
    if (n.kind == Kind::Epsilon) return true;
    if (n.kind == Kind::Class) {
      const auto& ranges = charsets_[n.a]->ranges();
      if (ranges.size() != 1 || ranges[0].first != ranges[0].second || ranges[0].first >= 0x80) return false;
      if (out) out->push_back(static_cast<char>(ranges[0].first));
      return true;
    }
    if (n.kind != Kind::Switch || edge_count(n) != 1 || (n.flags.load(std::memory_order_relaxed) & kNullable))
      return false;
    const Edge only = edge(n, 0);
    if (only.low != only.high) return false;
    if (out) out->push_back(static_cast<char>(only.low));
    e = only.to;
  }
}

Id Arena::token(const std::vector<Symbol>& symbols) {
  Ids list;  // indices into symbols_
  Draft d = draft(Kind::Token);
  for (const Symbol& s : symbols) {
    auto it = std::find(symbols_.begin(), symbols_.end(), s);
    if (it == symbols_.end()) it = symbols_.insert(symbols_.end(), s);
    list.push_back(Id{static_cast<u32>(it - symbols_.begin())});
  }
  list.sort_unique();
  if (list.empty()) return kEmpty;
  d.flags = kHasToken;
  for (Id s : list)
    if (std::holds_alternative<TokenSet>(symbols_[index_of(s)])) d.longest = kInf;  // tokens of text are in it, too
  d.list = list;
  d.has_list = true;
  return intern(d);
}

Id Arena::rule(std::string name, bool holds_items) {
  Draft d = draft(Kind::Ref);
  d.a = static_cast<u32>(rules_.size());
  d.longest = kInf;
  d.flags = kHasRef | (holds_items ? kHasItem | kFiniteItem : 0);
  rule_bytes_ += bytes_of(name);
  rules_.push_back({std::move(name)});
  return intern(d);
}

void Arena::define(Id ref, Id body) {
  if (index_of(ref) >= count_ || node(ref).kind != Kind::Ref || index_of(body) >= count_)
    throw Error("bad-handle", "define takes a rule made by rule() and an expression of the same builder");
  if (has(body, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope within one rule");
  rules_[node(ref).a].body = body;
}

}  // namespace guiderail
