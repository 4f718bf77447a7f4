// The end of construction: byte classes, and conditions on the rules of a grammar.
#include <unordered_set>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/alternatives.hpp"
#include "expr/identities.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

// Bytes that all sets of the arena treat alike share a class. Derivatives introduce no finer sets. Expressions only
// come in addition, so classes only split. Searches ask for them again and again while more come.
void Arena::ensure_classes() {
  if (finalized_) return;
  const auto [nodes, charsets, byte_sets] = split_;
  split_ = {count_, static_cast<u32>(charsets_.size()), static_cast<u32>(byte_sets_.size())};
  if (split_ == std::array{nodes, charsets, byte_sets}) return;
  Work::spend(1 + (count_ - nodes) / 64 + (charsets_.size() - charsets) / 4);
  std::array<u32, 256> cls{};
  std::copy(classes_.begin(), classes_.end(), cls.begin());
  std::array<u8, 256> member{};  // the first byte of each class
  u32 n = std::max(class_count_, 1u);
  for (unsigned b = 256; b-- > 0;) member[cls[b]] = static_cast<u8>(b);
  static thread_local std::vector<u16> seen(1 << 16, 0);  // (class, value) -> new class + 1; cleared after use
  auto refine = [&, &seen = seen](auto value) {
    bool splits = false;  // most sets cut where others have cut
    for (unsigned b = 0; b < 256; ++b) splits |= value(b) != value(member[cls[b]]);
    if (!splits) return;
    std::array<u32, 256> next{};
    n = 0;
    for (unsigned b = 0; b < 256; ++b) {
      u16& slot = seen[cls[b] << 8 | value(b)];
      if (!slot) {
        member[n] = static_cast<u8>(b);
        slot = static_cast<u16>(++n);
      }
      next[b] = slot - 1u;
    }
    for (unsigned b = 0; b < 256; ++b) seen[cls[b] << 8 | value(b)] = 0;
    cls = next;
  };
  for (const auto& family : families_) family->split_bytes(starts_);
  for (u32 e = nodes; e < count_; ++e) {
    const Node& of = node(Id{e});
    if (of.kind != Kind::Switch) continue;
    for (u32 i = 0; i < edge_count(of); ++i) {
      const auto [low, high, to] = edge(of, i);
      starts_.add(low);
      if (high < 255) starts_.add(static_cast<u8>(high + 1));
    }
  }
  std::array<u32, 256> run{};
  for (unsigned b = 1; b < 256; ++b) run[b] = run[b - 1] + starts_.has(static_cast<u8>(b));
  refine([&](unsigned b) { return run[b]; });
  for (std::size_t i = charsets; i < charsets_.size() && n < 256; ++i) {
    const auto& of = charsets_[i]->byte_classes();
    refine([&](unsigned b) { return of[b]; });
  }
  for (std::size_t i = byte_sets; i < byte_sets_.size(); ++i)
    refine([&](unsigned b) { return static_cast<u32>(byte_sets_[i].has(static_cast<u8>(b))); });
  for (unsigned b = 256; b-- > 0;) {
    classes_[b] = static_cast<u8>(cls[b]);
    representatives_[cls[b]] = static_cast<u8>(b);
  }
  // A printable representative, where the class has one: searches for plain texts see only representatives.
  for (unsigned b = 0x7F; b-- > 0x20;)
    if (b != '\\') representatives_[cls[b]] = static_cast<u8>(b);
  class_count_ = n;
}

// A part that is shared is taken once: there may be exponentially many ways to it.
void Arena::left_edges(Id e, std::vector<u32>& rules) const {
  std::unordered_set<u32> seen;
  std::vector<Id> open{e};
  while (!open.empty()) {
    const Id at = open.back();
    open.pop_back();
    if (!has(at, kHasRef) || !seen.insert(index_of(at)).second) continue;
    Work::spend();
    const Node& n = node(at);
    switch (n.kind) {
      case Kind::Ref: rules.push_back(n.a); break;
      case Kind::Concat:
        if (nullable(n.head())) open.push_back(n.tail());
        open.push_back(n.head());
        break;
      case Kind::Union: {
        const auto members = operands(at);
        open.insert(open.end(), members.rbegin(), members.rend());
        break;
      }
      case Kind::Repeat: open.push_back(n.body()); break;
      default:
        if (const Family* family = family_of(n.kind)) open.push_back(family->left_edge(at));
    }
  }
}

// Finds what is nullable and what is productive, as least fixed points over all nodes made so far (operands have
// smaller ids than operators, except through rules).
void Arena::check_rules() {
  if (rules_.empty()) return;
  for (const Rule& r : rules_)
    if (r.body == kUnknown) throw Error("undefined-rule", "rule '" + r.name + "' is used but never defined");
  std::vector<char> productive(count_, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (u32 i = 0; i < count_; ++i) {
      const Id id{i};
      Node& n = node(id);
      bool null = has(id, kNullable), prod = productive[i];
      if (null && prod) continue;
      bool was_null = null, was_prod = prod;
      switch (n.kind) {
        case Kind::Empty: break;
        case Kind::Ref:
          null = null || has(rules_[n.a].body, kNullable);
          prod = productive[index_of(rules_[n.a].body)];
          break;
        case Kind::Concat:
          null = null || (has(n.head(), kNullable) && has(n.tail(), kNullable));
          prod = productive[index_of(n.head())] && productive[index_of(n.tail())];
          break;
        case Kind::Union:
          for (Id m : operands(id)) {
            null = null || has(m, kNullable);
            prod = prod || productive[index_of(m)];
          }
          break;
        case Kind::Repeat:
          null = null || n.min == 0 || has(n.body(), kNullable);
          prod = n.min == 0 || productive[index_of(n.body())];
          break;
        default:
          if (const Family* family = family_of(n.kind))
            family->productive(id, productive, null, prod);
          else
            prod = true;
          break;
      }
      if (null != was_null) n.flags.fetch_or(kNullable);
      if (prod != was_prod) productive[i] = 1;
      changed = changed || null != was_null || prod != was_prod;
    }
  }
  for (Rule& r : rules_)
    if (!productive[index_of(r.body)])
      throw Error(
          "unproductive-rule",
          "rule '" + r.name + "' can never finish: each of its alternatives needs itself; add one that does not");
}

void Arena::check_left_recursion() const {
  std::vector<char> colour(rules_.size(), 0);  // 1: on the path, 2: done
  std::vector<std::pair<u32, std::vector<u32>>> path;
  for (u32 start = 0; start < rules_.size(); ++start) {
    if (colour[start]) continue;
    auto enter = [&](u32 r) {
      colour[r] = 1;
      std::vector<u32> next;
      left_edges(rules_[r].body, next);
      path.push_back({r, std::move(next)});
    };
    enter(start);
    while (!path.empty()) {
      auto& [r, next] = path.back();
      if (next.empty()) {
        colour[r] = 2;
        path.pop_back();
        continue;
      }
      u32 to = next.back();
      next.pop_back();
      if (colour[to] == 1)
        throw Error("left-recursion", "rule '" + rules_[to].name +
                                          "' begins with itself (left recursion); put the recursion at the right");
      if (colour[to] == 0) enter(to);
    }
  }
}

// Families may know better bounds once the rules are known.
void Arena::measure_rules() {
  if (rules_.empty()) return;
  const u32 count = count_;
  for (u32 i = 0; i < count; ++i) {
    const Id id{i};
    if (!has(id, kHasRef)) continue;
    if (Family* family = family_of(node(id).kind)) {
      const u32 least = family->shortest(id);
      node(id).shortest = std::max(node(id).shortest, least);
    }
  }
}

void Arena::finalize(Id root) {
  if (index_of(root) >= count_) throw Error("bad-handle", "no such expression in this builder");
  if (has(root, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope");
  check_rules();
  check_left_recursion();
  Alternatives::rank_rules(*this);
  measure_rules();
  for (const auto& family : families_) family->prepare();
  ensure_classes();
  // first sets were computed before all rules were known
  if (!rules_.empty())
    for (u32 i = 0; i < count_; ++i) node(Id{i}).first = kNone;
  finalized_sets_ = static_cast<u32>(charsets_.size());
  finalized_ = true;
  for (const auto& family : families_) family->finalize();
  extent_ = {count_, pool_.size(), static_cast<u32>(byte_sets_.size()), raw_bytes_};
  for (const auto& family : families_) family->note_extent();
  for (const auto& family : families_) family->survey();
}

std::shared_ptr<Arena> Arena::fresh() {
  auto copy = std::make_shared<Arena>(limits_);
  Arena& to = *copy;
  for (u32 id = 0; id < extent_.nodes; ++id) {
    if (id % kNodesBetweenBreaks == 0) make_room();
    to.ensure_chunk(Id{id});
    const Node& from = node(Id{id});
    Node& n = *new (&to.node(Id{id})) Node;  // memos start empty
    n.kind = from.kind;
    n.flags.store(from.flags.load(std::memory_order_relaxed), std::memory_order_relaxed);
    n.depth = from.depth;
    n.a = from.a;
    n.b = from.b;
    n.min = from.min;
    n.max = from.max;
    n.shortest = from.shortest;
    n.longest = from.longest;
  }
  to.count_ = extent_.nodes;
  to.pool_.copy_first(pool_, extent_.pool);
  to.table_.clear();
  to.table_.reserve(std::max<u32>(to.count_, 512));
  for (u32 id = 2; id < to.count_; ++id) {
    if (id % kNodesBetweenBreaks == 0) make_room();
    const Node& n = to.node(Id{id});
    Draft d{n.kind, n.a, n.b, n.min, n.max};
    d.has_list = n.kind == Kind::Switch || n.kind == Kind::Union || n.kind == Kind::And || n.kind == Kind::Token;
    if (d.has_list) d.list = to.operands(Id{id});
    to.table_.add(d.bucket(), id);
  }
  for (u32 i = 0; i < finalized_sets_; ++i) to.charset_index(charsets_[i]);  // the same indices
  to.byte_sets_.assign(byte_sets_.begin(), byte_sets_.begin() + extent_.byte_sets);
  to.byte_set_ids_ = ids_of(to.byte_sets_);
  to.symbols_ = symbols_;
  to.rules_ = rules_;
  to.rule_bytes_ = rule_bytes_;
  to.classes_ = classes_;
  to.representatives_ = representatives_;
  to.class_count_ = class_count_;
  to.any_text_ = any_text_;
  to.literal_chars_ = literal_chars_;
  to.raw_bytes_ = extent_.raw_bytes;
  to.finalized_ = true;
  to.finalized_sets_ = finalized_sets_;
  to.extent_ = extent_;
  for (const auto& family : families_) family->fresh(to);
  to.proofs_ = proofs_;
  if (identities_) to.identities_ = std::make_unique<Identities>(to, *identities_, extent_.nodes);
  return copy;
}

}  // namespace guiderail
