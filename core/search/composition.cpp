#include "search/composition.hpp"

#include <algorithm>

#include "base/work.hpp"
#include "expr/mapped.hpp"
#include "search/completion_distance.hpp"

namespace guiderail {

Composition::Composition(CompletionDistance& distance)
    : distance_(distance), known_(distance.parts_), arena_(distance.arena_) {
  if (known_.size() > kMostParts) known_ = {};
}

bool Composition::spend(std::size_t steps) {
  std::size_t& left = distance_.now_.for_parts;
  cut_ = cut_ || left < steps || depth_ > kPartsDepth;
  if (cut_) return false;
  left -= steps;
  Work::spend(steps);
  return true;
}

std::optional<std::string> Composition::text(Id e) {
  std::string out;
  if (add(e, nullptr) == kInf || add(e, &out) == kInf) return std::nullopt;
  return out;
}

// The completions of the parts of a stack, one after the other.
u32 Composition::add(Id e, std::string* to) {
  const Nested nested(*this);
  std::vector<Id> stack;
  u32 out = 0;
  for (; e != kEpsilon && !arena_.nullable(e); e = unstack(arena_, e).tail) {
    if (!spend()) return kInf;
    if (to) {
      out = add_sat(out, add_part(unstack(arena_, e).head, to));
      if (out > kLongestParts) return kInf;
      continue;
    }
    if (auto it = known_.tokens.find(e); it != known_.tokens.end()) {
      out = it->second;
      break;
    }
    stack.push_back(e);
  }
  for (; !stack.empty(); stack.pop_back()) {
    out = add_sat(out, add_part(unstack(arena_, stack.back()).head, nullptr));
    if (cut_) return kInf;
    if (out > kLongestParts) out = kInf;
    known_.tokens[stack.back()] = out;
  }
  return out;
}

u32 Composition::add_part(Id e, std::string* to) {
  if (arena_.has(e, kNotApart) || !spend()) return kInf;
  if (arena_.nullable(e)) return 0;
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Members: return add_members(members_state(n), to);
    case Kind::Key: return add_key(e, to);
    case Kind::Concat: return add(e, to);
    case Kind::Union:
      if (n.b <= kFewParts) return add_shortest(e, to);
      break;
    case Kind::Repeat: {
      const u32 one = n.b ? kInf : add(n.body(), nullptr), all = mul_sat(n.min, one);
      if (all > kLongestParts || !to) return all > kLongestParts ? kInf : all;
      for (u32 i = 0; i < n.min; ++i) add(n.body(), to);
      return all;
    }
    default: break;
  }
  return add_found(e, to);
}

u32 Composition::add_shortest(Id e, std::string* to) {
  u32 least = kInf;
  Id shortest = kEmpty;
  for (Id part : Ids(arena_.operands(e)))
    if (const u32 tokens = add(part, nullptr); tokens < least) {
      least = tokens;
      shortest = part;
    }
  if (least == kInf) return add_found(e, to);
  return to ? add(shortest, to) : least;
}

u32 Composition::add_found(Id e, std::string* to) {
  if (arena_.has(e, kHasItem)) return kInf;
  if (!known_.found.contains(e)) {
    cut_ = cut_ || distance_.now_.work < kMaskSearchWork / 2;  // the next mask has work for this
    if (cut_) return kInf;
    known_.found.try_emplace(e);  // if the search is refused, it is not begun again
    distance_.find(e);
    KnownParts::Text& known = known_.found[e];
    if (std::optional<std::string> text = distance_.text_of(e)) {
      known_.listed += text->capacity();
      known = {distance_.fewest_tokens(*text)[0], std::move(*text)};
    }
  }
  const KnownParts::Text& known = known_.found[e];
  if (to) *to += known.text;
  return known.tokens;
}

// -- objects: where no member depends on another, a member costs the same whatever else was written --

KnownParts::Texts Composition::member_texts(u32 table_id) {
  if (auto it = known_.members.find(table_id); it != known_.members.end()) return it->second;
  const MemberTable& table = Json::of(arena_).table(table_id);
  std::shared_ptr<std::vector<KnownParts::Text>> made;
  const std::optional<std::string> comma = text(table.comma), colon = text(table.colon);
  if (!table.pending && !table.vote && table.names.size() <= kMostPartNames && comma && colon) {
    made = std::make_shared<std::vector<KnownParts::Text>>();
    for (u32 i = 0; i < table.names.size(); ++i) {
      made->emplace_back();
      std::string member = '"' + json_spelling(table.names[i]) + '"' + *colon;
      Id cheapest = kEmpty;
      for (const Alternative& a : table.values[i])
        if (cheapest == kEmpty || tokens(a.value) < tokens(cheapest)) cheapest = a.value;
      if (cheapest == kEmpty || add(cheapest, nullptr) == kInf || add(cheapest, &member) == kInf) continue;
      const std::string later = *comma + member;
      const u32 tokens = std::max(distance_.fewest_tokens(member)[0], distance_.fewest_tokens(later)[0]);
      known_.listed += member.capacity() + sizeof(KnownParts::Text);
      made->back() = {tokens, std::move(member)};
    }
  }
  if (!cut_) known_.members[table_id] = made;
  return made;
}

// The names that must still come.
u32 Composition::add_members(u32 members, std::string* to) {
  const MemberState state = Json::of(arena_).state(members);
  const KnownParts::Texts texts = member_texts(state.table);
  if (!texts || cut_) return kInf;
  const MemberTable& table = Json::of(arena_).table(state.table);
  const bool more = state.count < table.min;  // some that are not required must come, too: all of them are enough
  if (more && (table.ordered || table.names.size() < table.min || table.max < table.names.size())) return kInf;
  u32 out = 0;
  bool first = state.count == 0;
  for (u32 i = 0; i < texts->size(); ++i) {
    if (bit(state.gone, i) || !(more || table.required[i])) continue;
    out = add_sat(out, (*texts)[i].tokens);
    if (!to || out == kInf) continue;
    if (!std::exchange(first, false)) add(table.comma, to);
    *to += (*texts)[i].text;
  }
  return out;
}

// Completes a key, and what follows it. Any key that may come is near enough (see need_bound.cpp).
u32 Composition::add_key(Id e, std::string* to) {
  for (const Manner manner : manners(1)) {
    const Id start = manner.forgetful ? distance_.forget(e) : e;
    if (arena_.has(start, kUnknownText) || (!manner.forgetful && distance_.forget(e) == e)) continue;
    auto missing = [&](Id at) { return arena_.node(at).shortest; };
    BestFirst<u8> states(start, missing(start));
    std::size_t most = kFewSearchStates;  // none once a text is missed
    for (BestFirst<u8>::Open at; states.next(at) && states.size() <= most;) {
      cut_ = cut_ || distance_.exhausted();  // each text makes expressions of its own
      if (!spend()) return kInf;
      const Id state = at.state;
      if (arena_.node(unstack(arena_, state).head).kind != Kind::Key) {
        const u32 rest = add(state, nullptr);
        if (rest == kInf) continue;
        std::string key;
        states.each_step(state, [&](Id, u8 byte, Id) { key.insert(key.begin(), static_cast<char>(byte)); });
        if (to) {
          *to += key;
          add(state, to);
        }
        return add_sat(distance_.fewest_tokens(key)[0], rest);
      }
      arena_.each_byte(state, [&](u8 byte) {
        if (!manner.takes(byte)) return true;
        Id next = arena_.step_slow(state, byte);
        if (next != kEmpty && manner.forgetful) next = distance_.forget(next);
        if (next == kEmpty) return true;
        if (arena_.has(next, kUnknownText))
          most = 0;
        else
          states.reach(at, byte, next, missing);
        return most > 0;
      });
    }
  }
  return kInf;
}

}  // namespace guiderail
