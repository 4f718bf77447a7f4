// Lists in which at least two items are equal JSON values (the negation of uniqueItems).
//
// Twice(b, S) matches b if some part wrapped in Item equals another one or one of the values S. A new item is read in
// two ways at once. Either it is one of the values S; then the rest of b is unconstrained. Or it is none of them, and
// its text joins S. The two exclude each other, so few states exist in parallel.
//
// Items have labels, at most kItemLabels different ones: items with equal labels have the same values, others have no
// value in common. So the text of b alone tells whether an item can still come twice, without a search.
#include <algorithm>

#include "json/json.hpp"

namespace guiderail {
namespace {

u32 label_of(u32 facts) { return u32{1} << (facts >> kItemFacts); }

}  // namespace

Id Json::twice(Id body) {
  used_ = true;
  return twice_node(body, seen_states_.id({}), 0);
}

// `labels`: those of the items in S.
Id Json::twice_node(Id body, u32 seen, u32 labels) {
  const auto [first, rest] = unstack(body);
  if (const Node& f = node(first); f.kind == Kind::Item && item_rest(f) == kEpsilon && item_text(f) != 0)
    return twice_node(rest, with_seen(seen, item_text(f)), labels | label_of(item_facts(f)));
  if (!comes_twice(body, labels)) return kEmpty;
  Draft d = draft(Kind::Twice);
  d.a = index_of(body);
  d.b = seen;
  d.min = labels;
  absorb(d, body, true);
  d.flags &= ~static_cast<u32>(kHasItem | kFiniteItem);
  if (seen_states_.values[seen].texts != 0) d.flags |= kExactStep;
  d.shortest = node(body).shortest;
  d.longest = node(body).longest;
  return intern(d);
}

// Does some path through the body have an item with one of the labels, or two items with the same label?
bool Json::comes_twice(Id body, u32 labels) {
  for (;;) {
    if (!has(body, kHasItem)) return false;
    const Id first = unstack(body).head, rest = unstack(body).tail;
    if (!has(first, kHasItem)) {
      body = rest;
      continue;
    }
    const Node& f = node(first);
    if (f.kind == Kind::Item) {
      const u32 label = label_of(item_facts(f));
      if (item_text(f) == 0 && (labels & label)) return true;  // an item in progress differs from all values before it
      labels |= label;
      body = rest;
      continue;
    }
    const u64 key = u64{index_of(body)} << 32 | labels;
    if (auto known = twice_.find(key); known != twice_.end()) return known->second;
    bool found = false;
    if (f.kind == Kind::Union) {
      const Ids members(operands(first));
      found = std::any_of(members.begin(), members.end(), [&](Id m) { return comes_twice(concat(m, rest), labels); });
    } else if (f.kind == Kind::Repeat) {
      const u32 min = f.min;
      found = f.max > 1 || comes_twice(concat(f.body(), rest), labels) || (min == 0 && comes_twice(rest, labels));
    } else {
      throw Error("item-outside", "an item cannot stand inside a rule, intersection, complement or terminal");
    }
    twice_.emplace(key, found);
    return found;
  }
}

Id Json::derive_item_twice(Id item, Id rest, const ListState& of, u8 byte) {
  const u32 text = item_text(node(item)), facts = item_facts(node(item));
  Id e = item_rest(node(item)), out = kEmpty;
  if (text == 0) {
    const SeenState& state = seen_states_.values[of.seen];
    if (state.some) return unknown();
    if (state.texts != 0 && (of.labels & label_of(facts))) {
      if (const Id d = derive(intersect(std::array{e, same_as(of.seen)}, true), byte); d != kEmpty)
        out = concat(d, without_items(rest));
      e = other_than(e, of.seen);
    }
  }
  if (const Id d = derive(e, byte); d != kEmpty) {
    const u32 longer = text == kSomeText ? kSomeText : texts_.grow(text, byte);
    out = unite(out, twice_node(concat(item_at(d, longer, facts), rest), of.seen, of.labels));
  }
  if (text != 0 && nullable(e))
    out = unite(out, derive_list(rest, {with_seen(of.seen, text), of.labels | label_of(facts), true}, byte));
  return out;
}

// The body when its items need no longer be stored.
Id Json::without_items(Id e) {
  if (!has(e, kHasItem)) return e;
  if (auto known = bare_.find(e); known != bare_.end()) return known->second;
  Id out = e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Item: return item_rest(n);
    case Kind::Concat: {  // as long as the list: no recursion along it
      std::vector<Id> stack;
      Id tail = e;
      for (; node(tail).kind == Kind::Concat && !bare_.contains(tail); tail = node(tail).tail()) stack.push_back(tail);
      out = without_items(tail);
      while (!stack.empty()) {
        out = concat(without_items(node(stack.back()).head()), out);
        bare_.emplace(stack.back(), out);
        stack.pop_back();
      }
      return out;
    }
    case Kind::Union: out = unite(mapped(e, [&](Id m) { return without_items(m); })); break;
    case Kind::Repeat: {
      const u32 min = n.min, max = n.max;
      const bool capped = n.b != 0;
      const Id inner = without_items(n.body());
      out = capped ? capped_repeat(inner, min, max) : repeat(inner, min, max);
      break;
    }
    default: throw Error("item-outside", "an item cannot stand inside a rule, intersection, complement or terminal");
  }
  bare_.emplace(e, out);
  return out;
}

}  // namespace guiderail
