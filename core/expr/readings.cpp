// The derivative of what may be read in several ways: of alternatives, and of optional parts before others.
//
// Such an expression is a graph-structured stack (Tomita 1986): a Concat is a node that holds a part of a rule, and its
// tail says where that part may return to. Were each alternative derived alone, every caller of a rule would get a copy
// of what the rule leads to, and the copies would multiply with every byte. So each part is read once, before the union
// of all that may follow it, and so is each rule (as in GLL, Scott & Johnstone 2010). An expression is older than those
// that contain it, and a rule begins with no rule that may call it at the same byte, so there is an order in which all
// that may follow is known. A byte is read in as many steps as the state has parts and operands, whatever their
// nesting, and adds a few parts for each rule: the work for a text is at most cubic in its length.
#include <map>
#include <utility>
#include <vector>

#include "base/work.hpp"
#include "expr/alternatives.hpp"
#include "expr/caps.hpp"
#include "expr/mapped.hpp"

namespace guiderail {

class Arena::Alternatives::Readings {
 public:
  Readings(Arena& arena, u8 byte) : arena_(arena), byte_(byte) {}

  Id derive(Id e) {
    open(e, kEpsilon);
    read();
    while (!calls_.empty()) {
      auto call = calls_.extract(std::prev(calls_.end())).mapped();
      open(arena_.rule_body(node(call.of).a), listed(arena_, call.tails));
      read();
    }
    Ids parts;
    for (Group& end : ends_) parts.push_back(arena_.concat(end.of, listed(arena_, end.tails)));
    return parts.size() == 1 ? parts[0] : Alternatives(arena_, parts, Form::Top).unite();
  }

 private:
  struct Group {
    Id of;      // a rule that is called, or what is left of a part after the byte
    Ids tails;  // what may follow
  };

  const Node& node(Id e) const { return std::as_const(arena_).node(e); }
  bool begins(Id e) const { return arena_.first(e).has(byte_); }

  void open(Id e, Id follow) {
    if (e != kEmpty && begins(e)) open_[e].push_back(follow);
  }

  // Takes apart all that is open, the youngest first.
  void read() {
    while (!open_.empty()) {
      auto next = open_.extract(std::prev(open_.end()));
      Work::spend();
      take(next.key(), listed(arena_, next.mapped()));
    }
  }

  void take(Id e, Id follow) {
    const Node& n = node(e);
    if (!arena_.has(e, kHasRef)) return end(e, follow);
    switch (n.kind) {
      case Kind::Union:
        for (Id m : arena_.operands(e)) open(m, follow);
        return;
      case Kind::Repeat:
        if (n.max != 0) open(n.body(), arena_.concat(arena_.repeat_less(e), follow));
        return;
      case Kind::Concat:
        if (begins(n.head())) open(n.head(), arena_.concat(n.tail(), follow));
        if (arena_.nullable(n.head())) open(n.tail(), follow);
        return;
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
  std::map<Id, Ids> open_;      // what is to be taken apart, and what may follow it
  std::map<u32, Group> calls_;  // by rank
  std::vector<Group> ends_;
};

bool Arena::Alternatives::has_readings(const Arena& arena, Id e) {
  if (!arena.finalized_ || !arena.has(e, kHasRef) || Attempt::in(arena)) return false;
  const Node& n = arena.node(e);
  return n.kind == Kind::Union || (n.kind == Kind::Concat && arena.nullable(n.head()));
}

// Most ambiguous texts have few readings that differ deep down: deep unions keep their states small, often finitely
// many, so they are attempted first. Where that takes much work, the state is read as a graph, and so are those after
// it, as long as they contain alternatives that only a graph keeps apart (kListed).
Id Arena::Alternatives::derive_readings(Arena& arena, Id e, u8 byte) {
  if (!arena.has(e, kListed)) {
    const CapWatch watch(arena);
    const Attempt attempt(arena);
    const Id out = arena.derive_composed(e, byte);
    if (!attempt.failed()) {
      if (watch.hit()) arena.note_cap(true);
      return out;
    }
    arena.clear_cap_hit();
  }
  return Readings(arena, byte).derive(e);
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
