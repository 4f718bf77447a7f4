// The near form of an expression: what the bytes of one token can tell of it. Counters far from their bounds are cut,
// so that `.{0,4000}` has a handful of masks instead of 4,000. The texts of keys and items in progress are forgotten.
#include <algorithm>

#include "mask/abstraction.hpp"

namespace guiderail {

u32 Abstraction::slack(Id e) {
  const Node& n = node(e);
  auto some_length = [&](Id part) { return has(part, kSearch) ? node(part).longest : node(part).shortest; };  // at most
  if (n.kind != Kind::Concat && n.kind != Kind::Union && n.kind != Kind::Repeat) return n.longest;
  if (auto it = slack_memo_.find(e); it != slack_memo_.end()) return it->second;
  u32 s = kInf;
  switch (n.kind) {
    case Kind::Concat: {
      s = 0;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat && s != kInf; cur = node(cur).tail())
        s = std::max(s, add_sat(slack(node(cur).head()), some_length(node(cur).tail())));
      if (s != kInf) s = std::max(s, slack(cur));
      break;
    }
    case Kind::Union: {
      s = 0;
      Ids members(operands(e));
      for (Id m : members) s = std::max(s, slack(m));
      break;
    }
    case Kind::Repeat: s = add_sat(slack(n.body()), mul_sat(n.min, some_length(n.body()))); break;
    default: break;
  }
  s = std::min(s, n.longest);
  slack_memo_.emplace(e, s);
  return s;
}

// Does e match whole characters only? A complement also matches other bytes. Parts are shared, so there may be
// exponentially many ways to one: the answers are kept.
bool Abstraction::only_characters(Id e) {
  for (; node(e).kind == Kind::Concat; e = node(e).tail())
    if (!only_characters(node(e).head())) return false;
  if (!has(e, kSearch)) return true;
  if (auto it = characters_memo_.find(e); it != characters_memo_.end()) return it->second;
  const Node& n = node(e);
  auto only = [&](Id m) { return only_characters(m); };
  bool found = false;
  switch (n.kind) {
    case Kind::Repeat: found = only(n.body()); break;
    case Kind::Union: found = std::ranges::all_of(Ids(operands(e)), only); break;
    case Kind::And: found = std::ranges::any_of(Ids(operands(e)), only); break;
    default: break;
  }
  characters_memo_.emplace(e, found);
  return found;
}

// May the text of a key or item in progress decide whether e has a match, since few others are left?
bool Abstraction::hinges_on_text(Id e) {
  if (!has(e, kExactKey)) return false;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Concat: return hinges_on_text(n.head()) || hinges_on_text(n.tail());
    case Kind::Union:
    case Kind::And: {
      const Ids parts(operands(e));
      return std::any_of(parts.begin(), parts.end(), [&](Id part) { return hinges_on_text(part); });
    }
    case Kind::Distinct:
    case Kind::Twice: return has(distinct_body(n), kFiniteItem) || hinges_on_text(distinct_body(n));
    case Kind::Item: return node(item_rest(n)).longest != kInf || hinges_on_text(item_rest(n));
    case Kind::Repeat: return hinges_on_text(n.body());
    case Kind::Key: {
      KeyApart key;
      return !json_.key_apart(e, key) || !key.table->dense;
    }
    default: return false;
  }
}

// The text of the key or item in progress is in the head, or follows the whitespace before a key. It stays where other
// conditions, or items that follow, may leave no other text.
Id Abstraction::without_texts(Id e) {
  if (!has(e, kExactKey | kHasCapture)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Concat: {
      const Id tail = n.tail();
      if (has(n.head(), kHasItem) && has(tail, kFiniteItem)) return e;
      const Id head = without_texts(n.head());
      return concat(head, without_texts(tail));
    }
    case Kind::Union: return unite(mapped(e, [&](Id m) { return without_texts(m); }));
    case Kind::And:
      return hinges_on_text(e) || has(e, kHasCapture)
                 ? e
                 : intersect(mapped(e, [&](Id m) { return without_texts(m); }), true);
    case Kind::Distinct: return json_.distinct_node(without_texts(distinct_body(n)), distinct_seen(n));
    case Kind::Twice: return json_.twice_node(without_texts(distinct_body(n)), distinct_seen(n), twice_labels(n));
    case Kind::Item: return json_.item_at(without_texts(item_rest(n)), kSomeText, item_facts(n));
    case Kind::Key: return json_.key_without_text(e);
    case Kind::Escaped: return escaped_.escaped_at(without_texts(escaped_text(n)), escaped_place(n), escapes_of(n));
    case Kind::Capture: return captures_.without_text(e, elided());
    case Kind::Recall: return captures_.without_text(e, elided_before(first(e)));
    case Kind::Repeat: return n.max == 1 && !n.b ? repeat(without_texts(n.body()), n.min, n.max) : e;
    default: return e;
  }
}

Id Abstraction::without_values(Id e, std::unordered_map<Id, Id>& known) {
  if (!json_.used()) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Concat:
    case Kind::Union:
    case Kind::And:
    case Kind::Distinct:
    case Kind::Item:
    case Kind::Members:
    case Kind::Key: break;
    case Kind::Repeat:
      if (n.max == 1 && !n.b) break;
      return e;
    default: return e;
  }
  if (auto it = known.find(e); it != known.end()) return it->second;
  Id out = e;
  switch (n.kind) {
    case Kind::Concat: {  // as long as the nesting is deep: no recursion along the parts
      std::vector<Id> stack;
      Id tail = e;
      for (; node(tail).kind == Kind::Concat && !known.contains(tail); tail = node(tail).tail()) stack.push_back(tail);
      Id plain = without_values(tail, known);
      for (std::size_t i = stack.size(); i-- > 0;) {
        const Node& part = node(stack[i]);
        const Id head = without_values(part.head(), known);
        plain = head != part.head() || plain != part.tail() ? concat(head, plain) : stack[i];
        known.emplace(stack[i], plain);
      }
      return plain;
    }
    case Kind::Union:
    case Kind::And: {
      Ids members(operands(e));
      bool changed = false;
      for (Id& m : members) {
        const Id plain = without_values(m, known);
        changed = changed || plain != m;
        m = plain;
      }
      if (changed) out = n.kind == Kind::Union ? unite(members) : intersect(members, true);
      break;
    }
    case Kind::Distinct:
      out = json_.distinct_node(without_values(distinct_body(n), known), json_.without_seen(distinct_seen(n)));
      break;
    case Kind::Item: out = item_text(n) == 0 ? e : json_.item_at(item_rest(n), kSomeText, item_facts(n)); break;
    case Kind::Members: {
      const MemberState& state = json_.state(members_state(n));
      if (state.seen != 0) out = json_.members_node(json_.without_keys(state));
      break;
    }
    case Kind::Key: out = json_.key_without_values(e); break;
    case Kind::Repeat: out = repeat(without_values(n.body(), known), n.min, n.max); break;
    default: break;
  }
  known.emplace(e, out);
  return out;
}

Id Abstraction::near_form(Id e, u32 horizon) {
  Node& n = node(e);
  if (!has(e, kBigRepeat | kExactKey | kHasScan | kHasCapture)) return e;
  if (has(e, kExactKey | kHasCapture) && n.near_form == kUnknown) {
    // Texts stay under a complement and in the text of a string: then the expression stays as it is.
    const Id forgetful = without_texts(e);
    if (forgetful != e) {
      const Id plain = near_form(forgetful, horizon);
      n.near_form = plain;
    } else if (!has(e, kBigRepeat | kHasScan)) {
      n.near_form = e;
    }
  }
  if (n.near_form != kUnknown) return n.near_form;
  Id out = e;
  switch (n.kind) {
    case Kind::Repeat: {
      // What one token reads is too short for more iterations than `most`: empty ones aside, each reads `least` bytes.
      const u32 least = std::max(node(n.body()).shortest, 1u), most = std::max(horizon / least, 1u);
      const u32 min = std::min(n.min, most + 1);
      const u32 max = n.max > most ? kInf : n.max;
      if (!has(e, kSearch)) out = repeat(near_form(n.body(), horizon), min, max);
      break;
    }
    case Kind::Concat: {  // down the stack to the first part with a known form or nothing to cut
      Ids parts;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat && has(cur, kBigRepeat | kHasScan) && node(cur).near_form == kUnknown;
           cur = node(cur).tail())
        parts.push_back(cur);
      out = near_form(cur, horizon);
      for (std::size_t i = parts.size(); i-- > 0;) {
        out = concat(near_form(node(parts[i]).head(), horizon), out);
        node(parts[i]).near_form = out;
      }
      break;
    }
    case Kind::Union:
      if (!has(e, kHasScan))  // outcomes.cpp handles each place separately
        out = unite(mapped(e, [&](Id m) { return near_form(m, horizon); }));
      break;
    case Kind::Scan: out = lexed_.cut_scan(e); break;
    case Kind::MunchGuard: out = lexed_.munch_guard(guard_texts(n), near_form(guarded(n), horizon)); break;
    case Kind::Counted:  // one token cannot reach the bound
      if (n.b || n.min > 0) out = near_form(n.body(), horizon);
      break;
    case Kind::Escaped:
      out = escaped_.escaped_at(near_form(escaped_text(n), horizon), escaped_place(n), escapes_of(n));
      break;
    case Kind::Distinct: out = json_.distinct_node(near_form(distinct_body(n), horizon), distinct_seen(n)); break;
    case Kind::Twice:
      out = json_.twice_node(near_form(distinct_body(n), horizon), distinct_seen(n), twice_labels(n));
      break;
    case Kind::And: {
      // e & any{0,n}: the bound cannot be reached if every state of e within the horizon can finish in time. Raw bytes
      // are not counted by `any`.
      if (const Id open = unbounded(e, horizon); open != kEmpty) {
        out = open;
        break;
      }
      if (n.b != 2 || arena_.has_raw_bytes()) break;
      for (int i = 0; i < 2; ++i) {
        const Id bound_id = operands(e)[i], other = operands(e)[1 - i];
        const Node& bound = node(bound_id);
        if (bound.kind != Kind::Repeat || bound.min != 0 || node(bound.body()).kind != Kind::Class ||
            charset_ptr(node(bound.body()).a) != CharSet::any() || has(other, kHasLook) || !only_characters(other))
          continue;
        if (add_sat(slack(other), horizon) <= bound.max) {
          out = near_form(other, horizon);
          break;
        }
      }
      break;
    }
    default: break;  // other kinds, such as Not and Scope, can depend on distant bounds
  }
  n.near_form = out;
  return out;
}

// What is searched for a match as a whole stays as it is: the search would reach a cap inside it. Consecutive parts are
// searched one by one.
Id Abstraction::cap_groups(Id e, u32 most) {
  if (!has(e, kBigGroup) || has(e, kHasRef | kHasLook | kHasScan | kHasToken | kExactKey)) return e;
  const Node& n = node(e);
  if (has(e, kSearch) && n.kind != Kind::Concat && n.kind != Kind::Union && n.kind != Kind::Repeat) return e;
  const u64 key = u64{index_of(e)} << 32 | most;
  if (auto it = cap_memo_.find(key); it != cap_memo_.end()) return it->second;
  Id out = e;
  switch (n.kind) {
    case Kind::Repeat: {
      Id body = cap_groups(n.body(), most);
      bool group = node(n.body()).kind != Kind::Class;
      if (group && ((n.max != kInf && n.max > most) || n.min > most))
        out = capped_repeat(body, std::min(n.min, most), most);
      else
        out = repeat(body, n.min, n.max);
      break;
    }
    case Kind::Concat: out = mapped_parts(e, kBigGroup, [&](Id part) { return cap_groups(part, most); }); break;
    case Kind::Union: out = unite(mapped(e, [&](Id m) { return cap_groups(m, most); })); break;
    case Kind::Escaped:
      out = escaped_.escaped_at(cap_groups(escaped_text(n), most), escaped_place(n), escapes_of(n));
      break;
    default: break;
  }
  cap_memo_.emplace(key, out);
  return out;
}

}  // namespace guiderail
