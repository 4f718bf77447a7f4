// An upper bound of what a text needs after any one token, found without looking at the tokens.
//
// Most masks are made while a budget is far from spent. Then no token can matter, and a proof of that is cheap: what a
// token may open has to be closed, and the rest of the text comes after that as before. So the bound of a stack is made
// of the bounds of its parts. The parts of a constraint are few, and their bounds are kept; a state costs a sum.
//
// A token reads only so many bytes, and only so many opening brackets: that ends the recursion of rules. After some
// bytes, a quote among them, tokens have only a few more.
//
// A bound is kInf where none was found, for example for alternatives read side by side, or for lexed texts: then the
// tokens are examined one by one.
#include <algorithm>

#include "base/work.hpp"
#include "search/token_walk.hpp"

namespace guiderail {
namespace {
constexpr u32 kLongestEscape = 12;  // bytes of a character spelled as two escapes
constexpr u32 kLongestSpelled =
    6;  // bytes of a character as it is spelled inside a JSON string, if it is spelled shortly
constexpr u32 kLongestCharacter = 4;  // bytes
constexpr u32 kShortLiteral = 8;      // bytes that are read one by one
constexpr u32 kUnclear = kHasRef | kHasToken | kHasItem | kHasLook | kUnknownText | kExactKey | kCapHit | kCounting;

u32 bytes_at_most(u32 characters) { return add_sat(mul_sat(characters, kLongestCharacter), kLongestCharacter - 1); }
}  // namespace

u32 CompletionDistance::bound(Id state, bool margin) {
  if (!symbols_->empty() || arena_.has(state, kHasToken) || !below_.each_alone()) return kInf;
  const Turn turn(*this);
  begin(kMaskSearchWork);
  const u32 found = most(state, below_.whole(), Unit::Tokens);
  if (!margin || found == kInf) return found;
  const u32 safe = add_sat(found, found / kBoundMargin);
  worst_.try_emplace(state, safe);
  return safe;
}

// What completes the expression, at most.
u32 CompletionDistance::least(Id e, Unit unit) {
  if (arena_.nullable(e)) return 0;
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Class: return character_need(n, unit, false);
    case Kind::ClassTail: return kLongestCharacter - 1;
    case Kind::Bytes: return unit == Unit::Tokens ? 1 : kLongestSpelled;
    case Kind::Concat: return add_sat(least(n.head(), unit), least(n.tail(), unit));
    case Kind::Union: {
      u32 out = kInf;
      for (Id part : arena_.operands(e)) out = std::min(out, least(part, unit));
      return out;
    }
    case Kind::Repeat: return n.b ? kInf : mul_sat(n.min, least(n.body(), unit));
    case Kind::Distinct: return least(distinct_body(n), unit);
    case Kind::Item: return item_need(n);
    case Kind::Members: return unit == Unit::Tokens ? members_need(members_state(n)) : kInf;
    default: break;
  }
  if (arena_.has(e, kHasItem)) return kInf;
  if (unit == Unit::Spelled) {
    const u32 found = explored(e, Reading::Text);
    return found != kInf ? found : height(e);
  }
  const u32 found = known(e);
  return found != kInf || exhausted() ? found : find(e);
}

// One character: all of it; `any`: whichever it is.
u32 CompletionDistance::character_need(const Node& of, Unit unit, bool any) const {
  const std::vector<CharSet::Range>& ranges = arena_.charset_ptr(of.a)->ranges();
  auto ascii = [](u32 c) { return c < 0x80 && is_raw(static_cast<u8>(c)); };
  if (unit == Unit::Tokens) return any || ranges[0].first >= 0x80 ? kLongestCharacter : 1;
  for (auto [low, high] : ranges) {
    const bool all = ascii(low) && ascii(high) && !(low < '"' && high > '"') && !(low < '\\' && high > '\\');
    if (any && !all) return kLongestSpelled;
    if (!any && (ascii(low) || ascii(high))) return 1;
  }
  return any ? 1 : kLongestSpelled;
}

// The longest way to the end of a match that passes no state twice, as spelled inside a JSON string; kInf: unknown. It
// bounds intersections: where all repetitions are of single bytes, each step of a shortest match leads on in one of the
// parts at least.
u32 CompletionDistance::height(Id e) {
  if (auto it = heights_.find(e); it != heights_.end()) return it->second;
  const Node& n = arena_.node(e);
  auto over = [&](auto join) {
    u32 out = 0;
    for (Id part : arena_.operands(e)) out = join(out, height(part));
    return out;
  };
  auto greater = [](u32 a, u32 b) { return std::max(a, b); };
  u32 out = kInf;
  switch (n.kind) {
    case Kind::Epsilon: out = 0; break;
    case Kind::Class: out = character_need(n, Unit::Spelled, true); break;
    case Kind::ClassTail: out = kLongestCharacter - 1; break;
    case Kind::Bytes: out = kLongestSpelled; break;
    case Kind::Concat: out = add_sat(height(n.head()), height(n.tail())); break;
    case Kind::Union: out = over(greater); break;
    case Kind::And: out = over(add_sat); break;
    case Kind::Repeat:
      if (n.max != kInf)
        out = mul_sat(n.max, height(n.body()));
      else if (arena_.node(n.body()).kind == Kind::Class && arena_.charset_ptr(arena_.node(n.body()).a)->ascii_only())
        out = mul_sat(n.min + 1, height(n.body()));
      break;
    case Kind::Switch: out = mul_sat(n.longest, kLongestSpelled); break;
    default: break;
  }
  return heights_[e] = out;
}

// What completes it once a part of it is read, at most: no more than the rest of a token.
u32 CompletionDistance::most(Id e, TokenRest rest, Unit unit) {
  if (rest.bytes == 0) return 0;
  const Node& n = arena_.node(e);
  if (arena_.has(e, kUnknownText | kCapHit)) return kInf;
  switch (n.kind) {
    case Kind::Empty:
    case Kind::Epsilon: return 0;
    case Kind::Class:
    case Kind::ClassTail:
    case Kind::Bytes: return kLongestCharacter - 1;
    case Kind::Concat: {
      u32 out = 0;
      for (Id at = e; rest.bytes > 0;) {
        const Node& stack = arena_.node(at);
        if (stack.kind != Kind::Concat) return std::max(out, most(at, rest, unit));
        const u32 following = least(stack.tail(), unit);
        out = std::max(out, add_sat(most(stack.head(), rest, unit), following));
        if (out == kInf) return kInf;
        rest = after(stack.head(), rest);
        at = stack.tail();
      }
      return out;
    }
    case Kind::Union: {
      u32 out = 0;
      for (Id part : arena_.operands(e)) out = std::max(out, most(part, rest, unit));
      return out;
    }
    case Kind::Repeat: return n.b ? kInf : add_sat(most(n.body(), rest, unit), mul_sat(n.min, least(n.body(), unit)));
    case Kind::Distinct:
      return Json::of(arena_).seen_count(n) > kBoundTexts ? kInf : most(distinct_body(n), rest, unit);
    case Kind::Item: return item_need(n);
    default: break;
  }
  const u64 key = u64{index_of(e)} << 32 | u64{rest.bytes} << 12 | u64{std::min(rest.brackets, 2047u)} << 1 |
                  static_cast<u64>(unit == Unit::Spelled);
  if (auto it = most_.find(key); it != most_.end()) return it->second;
  if (now_.bounds == 0 || !now_.open.insert(key).second) return kInf;  // a rule reaches itself and reads nothing
  --now_.bounds;
  Work::spend();
  const u32 found = most_of(e, rest, unit);
  now_.open.erase(key);
  return most_[key] = found;
}

u32 CompletionDistance::most_of(Id e, TokenRest rest, Unit unit) {
  const Node& n = arena_.node(e);
  if (n.kind == Kind::Ref) return most(arena_.rule_body(n.a), rest, unit);
  if (n.kind == Kind::Members || n.kind == Kind::Key) {
    if (unit == Unit::Spelled) return kInf;
    return most_of_members(n.kind == Kind::Key ? Json::of(arena_).key(key_state(n)).members : members_state(n), rest);
  }
  if (arena_.has(e, kUnclear)) return kInf;
  if (const Id whole = without_longest(e); whole != e)  // the limit counts characters
    return mul_sat(most(whole, rest, unit), unit == Unit::Tokens ? kLongestCharacter : kLongestSpelled);
  if (n.kind == Kind::Escaped) {
    const Id text = escaped_text(n);
    const u32 raw = explored(text, Reading::Text);
    return add_sat(raw != kInf ? raw : most(text, rest, Unit::Spelled), kLongestEscape);
  }
  if (const u32 found = explored(e, unit == Unit::Tokens ? Reading::Bytes : Reading::Text); found != kInf) return found;
  return std::min(height(e), unit == Unit::Tokens ? bytes_at_most(n.longest) : mul_sat(n.longest, kLongestSpelled));
}

// An intersection without its limit of length, if it has no other: what completes the rest with the fewest characters
// keeps to the limit.
Id CompletionDistance::without_longest(Id e) const {
  if (arena_.node(e).kind != Kind::And) return e;
  Id left = kEmpty;
  for (Id part : arena_.operands(e)) {
    const Node& n = arena_.node(part);
    if (n.kind == Kind::Repeat && n.min == 0 && !n.b && arena_.node(n.body()).kind == Kind::Class &&
        arena_.charset_ptr(arena_.node(n.body()).a) == CharSet::any())
      continue;
    if (left != kEmpty) return e;
    left = part;
  }
  return left == kEmpty ? e : left;
}

// What is left of a token that has read a match.
TokenRest CompletionDistance::after(Id e, TokenRest rest) const {
  const u32 shortest = arena_.node(e).shortest;
  std::string text;
  if (shortest > kShortLiteral || !arena_.is_literal(e, &text))
    return {rest.bytes - std::min(rest.bytes, shortest), rest.brackets};
  for (char c : text) rest = after(static_cast<u8>(c), rest);
  return rest;
}

TokenRest CompletionDistance::after(u8 byte, TokenRest rest) const {
  const u32 bracket = is_bracket(byte);
  if (rest.bytes == 0 || rest.brackets < bracket) return {};
  const TokenRest most = below_.after(byte);
  return {std::min(rest.bytes - 1, most.bytes), std::min(rest.brackets - bracket, most.brackets)};
}

// The states that a part reaches, if they are few: for each, the states before it.
class CompletionDistance::Reached {
 public:
  // `raw`: steps by bytes that represent themselves inside a JSON string.
  Reached(Arena& arena, Id from, bool raw) : states_{from} {
    std::unordered_map<Id, u32> numbers{{from, 0}};
    for (u32 at = 0; at < states_.size() && few(); ++at) {
      arena.make_room();
      Work::spend();
      arena.each_byte(states_[at], [&](u8 byte) {
        const Id next = arena.step_slow(states_[at], byte);
        if (next == kEmpty) return true;
        const auto [it, fresh] = numbers.try_emplace(next, static_cast<u32>(states_.size()));
        if (fresh) states_.push_back(next);
        if (!raw || is_raw(byte)) steps_.emplace_back(at, it->second);
        return true;
      });
    }
    for (Id state : states_) ends_.push_back(arena.nullable(state));
  }
  bool few() const { return states_.size() <= kBoundStates; }
  const std::vector<Id>& states() const { return states_; }
  // By state: the least number of bytes such that more than `others` matches have no more; kInf: there are none, or
  // they are long.
  std::vector<u32> needed(u64 others) const {
    std::vector<u64> matches(ends_.begin(), ends_.end()), longer;  // with `bytes` bytes, at least
    std::vector<u64> sums(matches);
    std::vector<u32> out(states_.size(), kInf);
    u32 open = static_cast<u32>(states_.size());
    for (u32 bytes = 0;; ++bytes) {
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] == kInf && sums[i] > others) {
          out[i] = bytes;
          --open;
        }
      if (open == 0 || bytes == kBoundBytes) return out;
      longer.assign(matches.size(), 0);
      for (auto [from, to] : steps_) longer[from] += matches[to];
      for (std::size_t i = 0; i < longer.size(); ++i) {
        longer[i] = std::min(longer[i], others + 1);
        sums[i] += longer[i];
      }
      matches.swap(longer);
    }
  }

 private:
  std::vector<Id> states_;
  std::vector<std::pair<u32, u32>> steps_;
  std::vector<char> ends_;
};

// The most bytes that any state needs that e reaches; kInf: unknown. If `apart`, for a match that differs from as many
// others as there may be.
u32 CompletionDistance::explored(Id e, Reading how) {
  if (arena_.has(e, kUnclear | kBigRepeat | kBigGroup)) return kInf;
  auto& known = explored_[static_cast<std::size_t>(how)];
  if (auto it = known.find(e); it != known.end()) return it->second;
  const Reached reached(arena_, e, how != Reading::Bytes);
  u32 most = kInf;
  if (reached.few()) {
    const std::vector<u32> needed = reached.needed(how == Reading::Apart ? kBoundTexts : 0);
    most = *std::max_element(needed.begin(), needed.end());
  }
  for (Id state : reached.states()) known[state] = most;
  return most;
}

// What completes a text that must differ from others, in bytes: while it is decoded.
u32 CompletionDistance::most_apart(Id text) {
  const u32 found = explored(text, Reading::Apart);
  return add_sat(found != kInf ? found : mul_sat(arena_.node(text).longest, kLongestSpelled), kLongestEscape);
}

// What an item of a list of distinct values needs, at most, whichever values it must differ from.
u32 CompletionDistance::item_need(const Node& item) {
  Id rest = item_rest(item);
  auto quote = [&](Id e) {
    std::string text;
    return arena_.is_literal(e, &text) && text == "\"";
  };
  if (quote(unstack(arena_, rest).head)) rest = unstack(arena_, rest).tail;
  const auto [string, end] = unstack(arena_, rest);
  if (arena_.node(string).kind != Kind::Escaped || !quote(end))
    return bytes_at_most(arena_.node(item_rest(item)).longest);
  return add_sat(most_apart(escaped_text(arena_.node(string))), 2);
}

// -- objects --
// Where no member depends on another, a member costs the same whatever else was written.

// What each name of an object costs; null: unknown.
const std::vector<u32>* CompletionDistance::name_costs(u32 table_id) {
  if (auto it = name_costs_.find(table_id); it != name_costs_.end()) return it->second.get();
  const MemberTable& table = Json::of(arena_).table(table_id);
  std::unique_ptr<std::vector<u32>> costs;
  if (!table.pending && !table.vote) {
    costs = std::make_unique<std::vector<u32>>();
    const u32 around = add_sat(least(table.comma, Unit::Tokens), least(table.colon, Unit::Tokens));
    for (u32 i = 0; i < table.names.size(); ++i) {
      u32 cheapest = kInf;
      for (const Alternative& a : table.values[i]) cheapest = std::min(cheapest, least(a.value, Unit::Tokens));
      const u32 quoted = fewest_tokens('"' + canonical_spelling(table.names[i]) + '"')[0];
      costs->push_back(add_sat(add_sat(around, cheapest), quoted));
    }
  }
  return (name_costs_[table_id] = std::move(costs)).get();
}

// What the members need that must still come.
u32 CompletionDistance::members_need(u32 members) {
  const Json& json = Json::of(arena_);
  const MemberState state = json.state(members);
  const MemberTable& table = json.table(state.table);
  if (json.seen_count(state) + table.names.size() > kBoundTexts) return kInf;
  const std::vector<u32>* costs = name_costs(state.table);
  if (!costs) {
    return kInf;
  }
  const bool more = state.count < table.min;  // some that are not required must come, too: all of them are enough
  if (more && (table.ordered || table.names.size() < table.min)) return kInf;
  u32 out = 0;
  for (u32 i = 0; i < costs->size(); ++i)
    if (!bit(state.gone, i) && (more || table.required[i])) out = add_sat(out, (*costs)[i]);
  return out;
}

u32 CompletionDistance::most_of_members(u32 members, TokenRest rest) {
  const u32 needed = members_need(members);
  if (needed == kInf) return kInf;
  const MemberState state = Json::of(arena_).state(members);
  const MemberTable& table = Json::of(arena_).table(state.table);
  const std::vector<u32>& costs = *name_costs(state.table);
  const MemberBounds& bounds = member_bounds(state.table, rest);
  u32 out = add_sat(needed, bounds.other);
  for (u32 i = 0; i < costs.size(); ++i) {
    if (bit(state.gone, i)) continue;
    const u32 others = table.required[i] ? needed - costs[i] : needed;  // once it is in progress, it is no longer due
    out = std::max(out, add_sat(others, bounds.names[i]));
  }
  return out;
}

// What a member in progress needs, at most.
const CompletionDistance::MemberBounds& CompletionDistance::member_bounds(u32 table_id, TokenRest rest) {
  const u64 key = u64{table_id} << 32 | u64{rest.bytes} << 12 | u64{rest.brackets};
  if (auto it = member_bounds_.find(key); it != member_bounds_.end()) return it->second;
  const MemberTable& table = Json::of(arena_).table(table_id);
  const TokenRest for_value = after(table.colon, after('"', rest));
  const u32 rest_of_comma = most(table.comma, rest, Unit::Tokens);
  const u32 rest_of_colon = most(table.colon, rest, Unit::Tokens), colon = least(table.colon, Unit::Tokens);
  auto member = [&](u32 name, Id value) {  // in its comma, its key, its colon or its value
    const u32 whole = least(value, Unit::Tokens);
    return std::max({add_sat(add_sat(rest_of_comma, name), add_sat(add_sat(colon, 2), whole)),
                     add_sat(rest_of_colon, whole), most(value, for_value, Unit::Tokens)});
  };
  MemberBounds made;
  for (u32 i = 0; i < table.names.size(); ++i) {
    const auto name = static_cast<u32>(canonical_spelling(table.names[i]).size()) + kLongestEscape;
    made.names.push_back(0);
    for (const Alternative& a : table.values[i]) made.names[i] = std::max(made.names[i], member(name, a.value));
  }
  for (const OtherKeys& other : table.others)
    made.other = std::max(made.other, member(most_apart(other.key), other.value));
  return member_bounds_[key] = std::move(made);
}

}  // namespace guiderail
