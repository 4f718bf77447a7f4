// The derivative of what may be read in several ways: of alternatives, and of optional parts before others.
//
// Such an expression is a graph-structured stack (Tomita 1986): a Concat is a node that holds a part of a rule, and its
// tail says where that part may return to. Were each alternative derived alone, every caller of a rule would get a copy
// of what the rule leads to, and the copies would multiply with every byte. So the calls of a rule are gathered first,
// over all alternatives and all parts that optional ones give way to, and the rule is read once, before the union of
// what follows its calls (as in GLL, Scott & Johnstone 2010). A rule begins with no rule that may call it at the same
// byte, so there is an order in which all calls of a rule are known when it is read. The new nodes of a byte are at
// most the parts of rules times the unions made before, hence the work for a text is at most cubic in its length.
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/work.hpp"
#include "expr/alternatives.hpp"
#include "expr/caps.hpp"
#include "expr/mapped.hpp"

namespace guiderail {
namespace {

constexpr u64 kGraphMark = u64{1} << 63;  // in the memo of derivatives: read as a graph

}  // namespace

class Arena::Alternatives::Readings {
 public:
  Readings(Arena& arena, u8 byte) : arena_(arena), byte_(byte) {}

  Id derive(Id e) {
    read(e, kEpsilon);
    while (!calls_.empty()) {
      auto call = calls_.extract(std::prev(calls_.end())).mapped();
      const Id body = arena_.rule_body(node(call.of).a);
      several_ = several_ || call.tails.size() > 1;
      read(body, listed(arena_, call.tails));
    }
    Ids parts;
    for (const Group& end : ends_) several_ = several_ || end.tails.size() > 1;
    several_ = several_ || ends_.size() > 1;
    for (Group& end : ends_) parts.push_back(arena_.concat(end.of, listed(arena_, end.tails)));
    return parts.size() == 1 ? parts[0] : Alternatives(arena_, parts, Form::Top).unite();
  }

  bool several() const { return several_; }  // was there more than one?

 private:
  struct Group {
    Id of;      // a rule that is called, or what is left of a part after the byte
    Ids tails;  // what may follow
  };

  const Node& node(Id e) const { return std::as_const(arena_).node(e); }
  bool begins(Id e) const { return arena_.first(e).has(byte_); }

  // Takes apart all that `root` may begin with, before `rest`.
  void read(Id root, Id rest) {
    open_.push_back({root, rest});
    while (!open_.empty()) {
      auto [e, follow] = open_.back();
      open_.pop_back();
      while (node(e).kind == Kind::Concat && arena_.has(e, kHasRef) && begins(e) && is_new(e, follow)) {
        const Id head = node(e).head(), tail = node(e).tail();
        if (begins(head)) take(head, arena_.concat(tail, follow));
        e = arena_.nullable(head) ? tail : kEmpty;
      }
      if (node(e).kind != Kind::Concat || !arena_.has(e, kHasRef)) take(e, follow);
    }
  }

  bool is_new(Id e, Id follow) {
    Work::spend();
    return seen_.insert(u64{index_of(e)} << 32 | index_of(follow)).second;
  }

  void take(Id e, Id follow) {
    if (e == kEmpty || !begins(e)) return;
    const Node& n = node(e);
    if (!arena_.has(e, kHasRef)) return end(e, follow);
    switch (n.kind) {
      case Kind::Union:
        if (is_new(e, follow))
          for (Id m : arena_.operands(e)) open_.push_back({m, follow});
        return;
      case Kind::Repeat:
        if (n.max != 0) open_.push_back({n.body(), arena_.concat(arena_.repeat_less(e), follow)});
        return;
      case Kind::Concat: open_.push_back({e, follow}); return;
      case Kind::Ref: {
        Group& call = calls_[n.max];
        call.of = e;
        call.tails.push_back(follow);
        return;
      }
      default: return end(e, follow);
    }
  }

  void end(Id e, Id follow) {
    const Id left = arena_.derive(e, byte_);
    if (left == kEmpty) return;
    for (Group& group : ends_)
      if (group.of == left) return group.tails.push_back(follow);
    ends_.push_back({left, {}});
    ends_.back().tails.push_back(follow);
  }

  Arena& arena_;
  const u8 byte_;
  std::vector<std::pair<Id, Id>> open_;
  std::unordered_set<u64> seen_;
  std::map<u32, Group> calls_;  // by rank
  std::vector<Group> ends_;
  bool several_ = false;
};

bool Arena::Alternatives::has_readings(const Arena& arena, Id e) {
  if (!arena.finalized_ || !arena.has(e, kHasRef) || Attempt::in(arena)) return false;
  const Node& n = arena.node(e);
  return n.kind == Kind::Union || (n.kind == Kind::Concat && arena.nullable(n.head()));
}

// Most ambiguous texts have few readings that differ deep down: deep unions keep their states small, often finitely
// many, so they are attempted first. Where that takes much work, the state is read as a graph, and so are those after
// it, which do not lose their compact form again while several readings are ahead.
Id Arena::Alternatives::derive_readings(Arena& arena, Id e, u8 byte) {
  const auto graph = [](Id of) { return kGraphMark | index_of(of); };
  if (!arena.derive_memo_.find(graph(e))) {
    const CapWatch watch(arena);
    const Attempt attempt(arena);
    const Id out = arena.derive_composed(e, byte);
    if (!attempt.failed()) {
      if (watch.hit()) arena.note_cap(true);
      return out;
    }
    arena.clear_cap_hit();
  }
  Readings readings(arena, byte);
  const Id out = readings.derive(e);
  if (readings.several()) arena.derive_memo_.set(graph(out), kEpsilon, arena.memo_limit());
  return out;
}

Id Arena::Alternatives::append(Arena& arena, Id head, Id tail) {
  const Node& n = arena.node(head);
  const bool optional = n.kind == Kind::Repeat && n.min == 0 && n.max == 1 && !n.b;
  if (!arena.finalized_ || !arena.has(head, kHasRef) || n.depth < kDeepHead || (n.kind != Kind::Union && !optional))
    return arena.concat(head, tail);
  if (optional) return arena.unite(append(arena, n.body(), tail), tail);
  return arena.unite(mapped(arena, head, [&](Id m) { return arena.concat(m, tail); }));
}

// Numbers the rules so that a rule has a higher number than those that it begins with.
void Arena::Alternatives::rank_rules(Arena& arena) {
  std::vector<u32> ranks(arena.rule_count(), kNone), open, next;
  std::vector<char> entered(arena.rule_count(), 0);
  u32 count = 0;
  for (u32 start = 0; start < arena.rule_count(); ++start) {
    open.push_back(start);
    while (!open.empty()) {
      const u32 rule = open.back();
      if (entered[rule]) {
        open.pop_back();
        if (ranks[rule] == kNone) ranks[rule] = ++count;
        continue;
      }
      entered[rule] = 1;
      next.clear();
      arena.left_edges(arena.rule_body(rule), next);
      for (u32 other : next)
        if (!entered[other]) open.push_back(other);
    }
  }
  for (u32 i = 0; i < arena.node_count(); ++i)
    if (Node& n = arena.node(Id{i}); n.kind == Kind::Ref) n.max = ranks[n.a];
}

}  // namespace guiderail
