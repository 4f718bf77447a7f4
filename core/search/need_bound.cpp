#include "search/need_bound.hpp"

#include <algorithm>

#include "base/work.hpp"
#include "expr/mapped.hpp"
#include "json/patterned.hpp"
#include "search/completion_distance.hpp"
#include "search/reachable.hpp"

namespace guiderail {
namespace {
constexpr u32 kLongestEscape = 12;    // bytes of a character spelled as two escapes
constexpr u32 kLongestSpelled = 6;    // bytes of a character inside a JSON string, spelled shortly
constexpr u32 kLongestCharacter = 4;  // bytes of one in UTF-8
constexpr u32 kShortLiteral = 8;      // bytes that are read one by one
constexpr u32 kNotAlone = kNotApart | kHasRef | kHasItem | kExactKey;

u32 bytes_at_most(u32 characters, bool text) {
  return add_sat(mul_sat(characters, text ? kLongestSpelled : kLongestCharacter), kLongestCharacter - 1);
}

u64 key_of(u32 part, TokenRest rest) {
  return u64{part} << 32 | u64{rest.bytes} << 16 | u64{rest.brackets};  // see kLongestToken
}
}  // namespace

std::size_t KnownNeeds::size() const {
  return most.size() + bytes.size() + texts.size() + keys.size() + heights.size() + members.size() + listed;
}

std::size_t KnownNeeds::memory() const {
  return bytes_of(most) + bytes_of(bytes) + bytes_of(texts) + bytes_of(keys) + bytes_of(heights) + bytes_of(members) +
         listed * sizeof(u32);
}

NeedBound::NeedBound(CompletionDistance& distance)
    : known_(distance.needs_), arena_(distance.arena_), below_(distance.below_), parts_(distance) {
  if (known_.size() > kMostParts) known_ = {};
}

// What completes it once a part of it is read, at most: no more than the rest of a token.
u32 NeedBound::most(Id e, TokenRest rest) {
  if (rest.bytes == 0) return 0;
  if (arena_.has(e, kNotApart)) return kInf;
  const Composition::Nested nested(parts_);
  if (!spend()) return kInf;
  const u64 key = key_of(index_of(e), rest);
  if (auto it = known_.most.find(key); it != known_.most.end()) return it->second;
  const u32 found = most_of(e, rest);
  if (cut()) return kInf;
  return known_.most[key] = found;
}

u32 NeedBound::most_of(Id e, TokenRest rest) {
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Empty:
    case Kind::Epsilon: return 0;
    case Kind::Class:
    case Kind::ClassTail:
    case Kind::Bytes: return kLongestCharacter - 1;
    case Kind::Concat: return most_of_stack(e, rest);
    case Kind::Union: {
      u32 out = 0;
      for (Id part : Ids(arena_.operands(e))) out = std::max(out, most(part, rest));
      return out;
    }
    case Kind::Repeat: return n.b ? kInf : add_sat(most(n.body(), rest), mul_sat(n.min, least(n.body())));
    case Kind::Ref: return most(arena_.rule_body(n.a), rest);
    case Kind::Members: return most_of_members(members_state(n), rest);
    case Kind::Key: return most_of_members(Json::of(arena_).key(key_state(n)).members, rest);
    case Kind::Distinct: {  // what must come needs a character at least for each item
      const u32 others = add_sat(Json::of(arena_).seen_count(n), arena_.node(distinct_body(n)).shortest);
      return others > kMostPartNames ? kInf : most(distinct_body(n), rest);
    }
    case Kind::Item: return item_need(item_rest(n));
    case Kind::Escaped: return add_sat(height(escaped_text(n), true, Company::None), kLongestEscape);
    default: return height(e, false, Company::None);
  }
}

u32 NeedBound::most_of_stack(Id e, TokenRest rest) {
  u32 out = 0;
  for (; rest.bytes > 0; e = arena_.node(e).tail()) {
    if (arena_.node(e).kind != Kind::Concat) return std::max(out, most(e, rest));
    const Id head = arena_.node(e).head(), tail = arena_.node(e).tail();
    out = std::max(out, add_sat(most(head, rest), least(tail)));
    if (out == kInf) return kInf;
    rest = after(head, rest);
  }
  return out;
}

// What is left of a token that has read a match.
TokenRest NeedBound::after(Id e, TokenRest rest) const {
  const u32 shortest = arena_.node(e).shortest;
  std::string text;
  if (shortest > kShortLiteral || !arena_.is_literal(e, &text))
    return {rest.bytes - std::min(rest.bytes, shortest), rest.brackets};
  for (char c : text) rest = after(static_cast<u8>(c), rest);
  return rest;
}

TokenRest NeedBound::after(u8 byte, TokenRest rest) const {
  const u32 bracket = is_bracket(byte);
  if (rest.bytes == 0 || rest.brackets < bracket) return {};
  const TokenRest most = below_.after(byte);
  return {std::min(rest.bytes - 1, most.bytes), std::min(rest.brackets - bracket, most.brackets)};
}

// -- parts without objects and rules --

// One character of a class, at most, whichever it is.
u32 NeedBound::character(const Node& of, bool text) const {
  if (of.kind == Kind::ClassTail) return kLongestCharacter - 1;
  if (of.kind == Kind::Bytes) return text ? kLongestSpelled : 1;
  bool raw = true;
  for (auto [low, high] : arena_.charset_ptr(of.a)->ranges())
    raw = raw && high < 0x80 &&
          (!text || (low >= 0x20 && !(low <= '"' && high >= '"') && !(low <= '\\' && high >= '\\')));
  return raw ? 1 : text ? kLongestSpelled : kLongestCharacter;
}

// What completes any state that it reaches, at most. `text`: as spelled inside a JSON string. A match of the fewest
// characters leaves out all that may be left out of a repetition, and keeps to limits of length. In an intersection
// with others that is a character that all parts may leave out: any other one counts in one of the parts at least.
u32 NeedBound::height(Id e, bool text, Company company) {
  if (arena_.has(e, kNotAlone)) return kInf;
  const Composition::Nested nested(parts_);
  if (!spend()) return kInf;
  const u64 key = u64{index_of(e)} << 3 | u64{text} << 2 | static_cast<u64>(company);
  if (auto it = known_.heights.find(key); it != known_.heights.end()) return it->second;
  const Node& n = arena_.node(e);
  u32 out = kInf;
  switch (n.kind) {
    case Kind::Epsilon: out = 0; break;
    case Kind::Class:
    case Kind::ClassTail:
    case Kind::Bytes: out = character(n, text); break;
    case Kind::Concat:
      out = 0;
      for (Id rest = e; rest != kEpsilon && out != kInf; rest = unstack(arena_, rest).tail)
        out = add_sat(out, height(unstack(arena_, rest).head, text, company));
      break;
    case Kind::Union:
      out = 0;
      for (Id part : Ids(arena_.operands(e))) out = std::max(out, height(part, text, company));
      break;
    case Kind::And: {
      Ids parts;
      for (Id part : Ids(arena_.operands(e)))
        if (!limits_length(part)) parts.push_back(part);
      out = 0;
      for (Id part : parts)
        out = add_sat(out, height(part, text, parts.size() > 1 ? Company::Others : std::max(company, Company::Limits)));
      break;
    }
    case Kind::Repeat: {
      const bool free = company != Company::Others || arena_.node(n.body()).kind == Kind::Class;
      if (!n.b) out = mul_sat(free ? std::min(n.max, add_sat(n.min, 1)) : n.max, height(n.body(), text, company));
      break;
    }
    default: break;
  }
  if (out == kInf && company == Company::None) out = explored(e, text ? known_.texts : known_.bytes);
  out = std::min(out, bytes_at_most(n.longest, text));
  if (cut()) return kInf;
  return known_.heights[key] = out;
}

bool NeedBound::limits_length(Id e) const {
  const Node& n = arena_.node(e);
  return n.kind == Kind::Repeat && n.min == 0 && !n.b && arena_.node(n.body()).kind == Kind::Class &&
         arena_.charset_ptr(arena_.node(n.body()).a) == CharSet::any();
}

// The same, found by looking at all these states, if they are few; kInf: unknown. For keys: what completes one that
// differs from as many others as there may be.
u32 NeedBound::explored(Id e, std::unordered_map<Id, u32>& known) {
  if (arena_.has(e, kNotAlone | kBigGroup)) return kInf;
  if (auto it = known.find(e); it != known.end()) return it->second;
  if (!spend(kBoundStates)) return kInf;
  known[e] = kInf;  // if the work is refused, it is not begun again
  const bool raw = &known != &known_.bytes;
  const Reachable reached(arena_, e, raw);
  u32 most = kInf;
  if (reached.few()) {
    const std::vector<u32> needed = reached.needed(&known == &known_.keys ? kMostPartNames : 0);
    most = 0;
    for (std::size_t i = 0; i < needed.size(); ++i)
      most = std::max(most, std::min(needed[i], bytes_at_most(arena_.node(reached.states()[i]).longest, raw)));
  }
  for (Id state : reached.states()) known[state] = most;
  return most;
}

// What completes a text that must differ from others, while it is spelled inside a JSON string.
u32 NeedBound::apart(Id text) {
  return add_sat(std::min(explored(text, known_.keys), bytes_at_most(arena_.node(text).longest, true)), kLongestEscape);
}

// What must come, at most. A list of distinct values is not composed of its items, but each has a bound.
u32 NeedBound::least(Id e) {
  if (!arena_.has(e, kHasItem)) return parts_.tokens(e);
  const Composition::Nested nested(parts_);
  u32 out = 0;
  for (; e != kEpsilon && !arena_.nullable(e) && out != kInf; e = unstack(arena_, e).tail) {
    if (!spend()) return kInf;
    const Id part = unstack(arena_, e).head;
    const Node& n = arena_.node(part);
    if (arena_.nullable(part)) continue;
    if (!arena_.has(part, kHasItem))
      out = add_sat(out, parts_.tokens(part));
    else if (n.kind == Kind::Item)
      out = add_sat(out, item_need(item_rest(n)));
    else if (n.kind == Kind::Repeat && !n.b)
      out = add_sat(out, mul_sat(n.min, least(n.body())));
    else
      return kInf;
  }
  return out;
}

// What the rest of an item of a list of distinct values needs, at most: a string may differ from any others.
u32 NeedBound::item_need(Id rest) {
  u32 out = 0;
  bool differs = false;
  for (Id at = rest; at != kEpsilon && spend(); at = unstack(arena_, at).tail) {
    const Id part = unstack(arena_, at).head;
    const bool text = arena_.node(part).kind == Kind::Escaped && !differs;
    out = add_sat(out, text ? apart(escaped_text(arena_.node(part))) : height(part, false, Company::None));
    differs = differs || text;
  }
  return std::min(differs ? out : kInf, bytes_at_most(arena_.node(rest).longest, false));
}

// -- objects --

u32 NeedBound::most_of_members(u32 members, TokenRest rest) {
  const u32 needed = parts_.members(members);
  const MemberState state = Json::of(arena_).state(members);
  const MemberTable& table = Json::of(arena_).table(state.table);
  if (needed == kInf || add_sat(Json::of(arena_).seen_count(state), table.names.size()) > kMostPartNames) return kInf;
  const KnownParts::Texts costs = parts_.member_texts(state.table);
  const auto begun = begun_members(state.table, rest);
  if (cut()) return kInf;
  u32 out = add_sat(needed, begun->other);
  for (u32 i = 0; i < costs->size(); ++i) {
    if (bit(state.gone, i)) continue;
    const u32 others =
        table.required[i] ? needed - (*costs)[i].tokens : needed;  // once it has begun, it is no longer due
    out = std::max(out, add_sat(others, begun->names[i]));
  }
  return out;
}

// What a member in progress needs, at most.
std::shared_ptr<const KnownNeeds::Members> NeedBound::begun_members(u32 table_id, TokenRest rest) {
  const u64 key = key_of(table_id, rest);
  if (auto it = known_.members.find(key); it != known_.members.end()) return it->second;
  const MemberTable& table = Json::of(arena_).table(table_id);
  const TokenRest for_value = after(table.colon, after('"', rest));
  const u32 rest_of_comma = most(table.comma, rest), rest_of_colon = most(table.colon, rest);
  const u32 colon = parts_.tokens(table.colon);
  auto member = [&](u32 name, Id value) {  // in its comma, its key, its colon or its value
    const u32 whole = parts_.tokens(value);
    return std::max({add_sat(add_sat(rest_of_comma, name), add_sat(add_sat(colon, 2), whole)),
                     add_sat(rest_of_colon, whole), most(value, for_value)});
  };
  auto made = std::make_shared<KnownNeeds::Members>();
  for (u32 i = 0; i < table.names.size(); ++i) {
    const auto name = static_cast<u32>(json_spelling(table.names[i]).size()) + kLongestEscape;
    made->names.push_back(0);
    for (const Alternative& a : table.values[i]) made->names[i] = std::max(made->names[i], member(name, a.value));
  }
  for (const OtherKeys& other : table.others) {
    const u32 key_bytes = apart(other.key);
    for (Id value : Patterned::of(arena_).values_after(other.key, other.value))
      if (value != kEmpty) made->other = std::max(made->other, member(key_bytes, value));
  }
  known_.listed += made->names.size();
  if (!cut()) known_.members[key] = made;
  return made;
}

}  // namespace guiderail
