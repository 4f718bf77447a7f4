// Masks of keys: by their names where a token can complete one, and else as strings; and the forms of states that share
// masks (see lookahead.cpp).
#include <algorithm>

#include "mask/mask.hpp"

namespace guiderail {
namespace {
constexpr u32 kUnquoted = 60, kBehindBlank = 61;  // see KeyHits
}  // namespace

// [blank]? key tail, or what is left of an object that nothing was written of.
bool MaskBuilder::key_parts(Id e, KeyParts& out) {
  auto is_key = [&](Id x) {
    const Node& n = arena_.node(x);
    return n.kind == Kind::Key || (n.kind == Kind::Members && arena_.first(x).has('"'));
  };
  out = {kEpsilon, e, kEpsilon, 0};
  if (arena_.node(e).kind == Kind::Concat) {
    out.key = arena_.node(e).a;
    out.tail = arena_.node(e).b;
    const Node& h = arena_.node(out.key);
    if (std::string blank; h.kind == Kind::Repeat && h.min == 0 && h.max == 1 && !h.b &&
                           arena_.is_literal(h.a, &blank) && blank.size() == 1) {
      out.before = out.key;
      out.blank = blank[0];
      out.key = out.tail;
      out.tail = kEpsilon;
      if (arena_.node(out.key).kind == Kind::Concat) {
        out.tail = arena_.node(out.key).b;
        out.key = arena_.node(out.key).a;
      }
    }
  }
  return is_key(out.key);
}

// Is this the way to a node of the trie below `node`?
bool MaskBuilder::on_path(u32 node, std::string_view text) const {
  for (std::size_t i = 0; i < text.size() && node != kNoFan; ++i)
    node = vocabulary_.child(node, static_cast<u8>(text[i]));
  return node != kNoFan;
}

// Whether a token can complete this name, or must not begin it, is asked for every name at every key: two bits are kept
// for each number of bytes that are missing.
MaskBuilder::Touch MaskBuilder::touches(KeyHits* known, const KeyApart& key, const std::string& name,
                                        const KeyParts& parts) {
  const u32 depth = key.key->depth;
  const bool quoted = key.key->quoted;
  const std::size_t missing = name.size() - depth;
  const u32 slot = quoted ? static_cast<u32>(missing) : parts.blank ? kBehindBlank : kUnquoted;
  const bool keep = known && (!quoted || missing < kUnquoted) && (key.any || depth == 0) && !key.table->vote;
  if (keep && (known->known >> slot & 1))
    return known->hit >> slot & 1 ? Touch::Hit : known->dies >> slot & 1 ? Touch::Alone : Touch::None;
  const std::string_view rest = std::string_view(name).substr(depth);
  const std::string text = (quoted ? "" : "\"") + canonical_spelling(rest) + '"';
  const KeyAlong along = Json::of(arena_).others_along(key, rest);
  bool hit = on_path(0, text) || along == KeyAlong::Unclear;
  if (parts.blank) hit = hit || on_path(0, std::string(1, parts.blank) + text);
  if (keep) {
    known->known |= u64{1} << slot;
    if (hit) known->hit |= u64{1} << slot;
    if (along == KeyAlong::Dies) known->dies |= u64{1} << slot;
  }
  return hit ? Touch::Hit : along == KeyAlong::Dies ? Touch::Alone : Touch::None;
}

// The names and other keys that tell this key from any other one; false: some of them are not that simple.
bool MaskBuilder::touched_names(const KeyApart& key, const KeyParts& parts, Touched& out) {
  const KeyState& k = *key.key;
  const MemberTable& table = *key.table;
  if (key_hits_.size() <= key.table_id) key_hits_.resize(key.table_id + 1);
  std::vector<KeyHits>& of = key_hits_[key.table_id];
  if (of.empty()) {
    of.resize(table.names.size());
    owned(Strategy::OpenKeys) += bytes_of(of);
  }
  auto take = [&](const std::string& name, KeyHits* known, bool allowed) {
    if (k.quoted && k.depth == name.size()) return out.complete = true;
    if (key.any && k.depth == 0 && !name.empty()) {  // how most names are told apart
      const u8 last = static_cast<u8>(name.back());
      if (is_raw(last) && !vocabulary_.quoted_behind(last)) return true;
    }
    if (k.depth < name.size() && (static_cast<u8>(name[k.depth]) & 0xC0) == 0x80) return false;  // inside a character
    const Touch touch = touches(known, key, name, parts);
    if (touch == Touch::None || (touch == Touch::Alone && !allowed)) return true;
    const std::string text = (k.quoted ? "" : "\"") + canonical_spelling(std::string_view(name).substr(k.depth)) + '"';
    std::vector<std::string>& list = touch == Touch::Hit ? out.hit : out.alone;
    list.push_back(text);
    if (parts.blank) list.push_back(parts.blank + text);
    return true;
  };
  for (u32 i = k.lo; i < k.hi; ++i) {
    const u32 field = table.order[i];
    if (!take(table.names[field], &of[field], Json::of(arena_).name_allowed(k.members, field))) return false;
  }
  for (u32 i = k.seen_lo; i < k.seen_hi; ++i) {
    const u32 text = key.state->seen[i];
    if (!take(Json::of(arena_).text_of(text), &text_hits_[text], false)) return false;
  }
  return true;
}

// A state that has the same mask but for the tokens that stay open, and that other places come to as well.
Id MaskBuilder::shared_form(Id state) {
  auto cut = [&](Id e) {
    attempt(Strategy::Counters, [&] { return std::exchange(e, canonical(e)) != e; });
    return e;
  };
  if (!Json::of(arena_).used() || !arena_.symbols().empty() || arena_.has(state, kHasScan | kHasLook | kHasToken))
    return cut(state);
  Abstraction& abstraction = Abstraction::of(arena_);
  attempt(Strategy::DistinctLists, [&] {
    const Id whole = state;
    for (Id alone = abstraction.list_alone(state); alone != kEmpty; alone = abstraction.list_alone(state))
      state = alone;
    return state != whole;
  });
  KeyParts parts;
  if (key_parts(state, parts)) {
    Id form = kEmpty;
    if (attempt(Strategy::KeysAsStrings, [&] { return (form = key_form(state, parts)) != kEmpty; })) return form;
  }
  const Id e = cut(state);
  if (arena_.node(e).kind == Kind::Union) {
    if (const u32* known = shared_forms_.find(e)) return *known;
    Ids members(arena_.operands(e));
    for (Id& m : members) m = shared_form(m);
    const Id out = arena_.unite(members);
    shared_forms_.set(e, out);
    return out;
  }
  Id out = e;
  attempt(Strategy::Elision, [&] {
    if (!key_parts(e, parts)) {
      out = abstraction.elide_stack(e);
    } else {
      const Id tail = abstraction.elide_stack(parts.tail, Abstraction::kBehindObject);
      out = arena_.concat(parts.before, arena_.concat(parts.key, tail));
    }
    return out != e;
  });
  return out;
}

Id MaskBuilder::capped(Id state, u32 most) {
  Id out = state;
  attempt(Strategy::CappedGroups, [&] { return (out = Abstraction::of(arena_).cap_groups(state, most)) != state; });
  return out;
}

// The same of a key that no token can turn into a name. kEmpty: it is none.
Id MaskBuilder::key_form(Id e, const KeyParts& parts) {
  const bool object = arena_.node(parts.key).kind == Kind::Members;
  const Id key = object ? Json::of(arena_).key_start(arena_.node(parts.key).a) : parts.key;
  KeyApart apart;
  Touched names;
  if (!Json::of(arena_).key_apart(key, apart) || apart.closed || !touched_names(apart, parts, names) ||
      !names.hit.empty() || !names.alone.empty())
    return kEmpty;
  Id form = Abstraction::of(arena_).key_as_string(apart, names.complete);
  if (form == kEmpty) return kEmpty;
  const bool keep = !object && !names.complete && parts.before == kEpsilon;
  const u64 memo = u64{form} << 32 | parts.tail;
  if (const u32* known = keep ? stacked_forms_.find(memo) : nullptr) return *known;
  if (object && arena_.nullable(parts.key)) form = arena_.repeat(form, 0, 1);
  const Id tail = Abstraction::of(arena_).canonical(parts.tail, vocabulary_.longest());
  form = arena_.concat(parts.before,
                       arena_.concat(form, Abstraction::of(arena_).elide_stack(tail, Abstraction::kBehindObject)));
  if (keep) stacked_forms_.set(memo, form);
  if (!names.complete) return form;
  // a name, whole but for its quote: a string of one character more, or what the quote leads to
  const Id named = arena_.step_slow(e, '"');
  if (named == kEmpty) return form;
  if (arena_.has(named, kUnknownText)) return kEmpty;
  return arena_.unite(form, Json::of(arena_).quoted(Abstraction::of(arena_).elide_stack(
                                Abstraction::of(arena_).canonical(named, vocabulary_.longest()))));
}

// Of a key that a token can turn into a name: the same key without names. kEmpty: it is something else.
Id MaskBuilder::unnamed(Id e) {
  KeyParts parts;
  KeyApart apart;
  if (!key_parts(e, parts) || !Json::of(arena_).key_apart(parts.key, apart) || apart.closed) return kEmpty;
  const Id text = Abstraction::of(arena_).key_as_string(apart);
  return text == kEmpty ? kEmpty : arena_.concat(parts.before, arena_.concat(text, parts.tail));
}

// The tokens of the mask of another state, where that is known.
bool MaskBuilder::copy_known(Id e, u32 node) {
  const MaskEntry* entry = arena_.node(e).mask.load(std::memory_order_relaxed);
  if (!entry || node != 0 || !scratch_ || scratch_->touched()) return false;
  copy(*entry);
  return true;
}

void MaskBuilder::copy(const MaskEntry& entry) {
  if (entry.base) scratch_->add(entry.base);
  for (auto [word, value] : entry.diff) scratch_->put(word, value);
  postponed_.insert(postponed_.end(), entry.open_nodes.begin(), entry.open_nodes.end());
  postponed_tokens_.insert(postponed_tokens_.end(), entry.open_tokens.begin(), entry.open_tokens.end());
}

// A key that may be one of some names or any other one.
bool MaskBuilder::open_keys(Id e, u32 node) {
  KeyParts parts;
  KeyApart apart;
  if (shared_ || !key_parts(e, parts) || !Json::of(arena_).key_apart(parts.key, apart) || apart.closed) return false;
  Touched names;
  if (!touched_names(apart, parts, names)) return false;
  if (names.complete) names.hit.push_back("\"");
  if (names.hit.empty() && names.alone.empty()) return false;
  const Id free = unnamed(e);
  if (free == kEmpty) return false;
  if (!copy_known(free, node)) visit_free(free, node);
  std::vector<int> begin;
  for (const std::string& rest : names.alone) beginnings(std::string_view(rest).substr(0, rest.size() - 1), begin);
  for (int t : begin) set(t);
  for (const std::string& rest : names.hit) {
    u32 at = node;
    Id s = e;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      at = vocabulary_.child(at, static_cast<u8>(rest[i]));
      if (at == kNoFan) break;
      s = step(s, static_cast<u8>(rest[i]));
      if (i + 1 < rest.size() && s != kEmpty && !arena_.has(s, kUnknownText)) {
        if (const int t = trie_.nodes[at].token; t >= 0) set(t);
        continue;
      }
      clear(at);
      if (s != kEmpty) enter(s, at);
      break;
    }
  }
  return true;
}

// The tokens that begin a text, or are it; is it begun by any other?
bool MaskBuilder::beginnings(std::string_view text, std::vector<int>& out) const {
  u32 at = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    at = vocabulary_.child(at, static_cast<u8>(text[i]));
    if (at == kNoFan) return false;
    if (const int t = trie_.nodes[at].token; t >= 0) out.push_back(t);
  }
  return true;
}

// Keys that are names and nothing else: what begins one may come, whatever it leads to. Of names not begun yet these
// tokens are kept.
bool MaskBuilder::closed_keys(Id e, u32) {
  KeyParts parts;
  KeyApart key;
  if (shared_ || !key_parts(e, parts) || !Json::of(arena_).key_apart(parts.key, key) || !key.closed) return false;
  const KeyState& k = *key.key;
  const MemberTable& table = *key.table;
  if (arena_.has(e, kUnknownText)) return false;
  if (closed_names_.size() <= key.table_id) closed_names_.resize(key.table_id + 1);
  auto& of = closed_names_[key.table_id];
  if (of.empty()) {
    of.resize(table.names.size());
    owned(Strategy::ClosedKeys) += bytes_of(of);
  }
  for (u32 i = k.lo; i < k.hi; ++i) {
    const std::string& name = table.names[table.order[i]];
    if (k.depth < name.size() && (static_cast<u8>(name[k.depth]) & 0xC0) == 0x80) return false;  // inside a character
  }
  const Shared shared(*this);
  ClosedName here;
  for (u32 i = k.lo; i < k.hi; ++i) {
    const u32 field = table.order[i];
    if (!Json::of(arena_).name_allowed(k.members, field)) continue;
    const bool keep = k.depth == 0;
    ClosedName& tokens = keep ? of[field][k.quoted ? 0 : parts.blank ? 2 : 1] : here;
    if (!keep || !tokens.made) {
      if (!keep) here = {};
      const std::string spelled = canonical_spelling(std::string_view(table.names[field]).substr(k.depth));
      const std::string rest = (k.quoted ? "" : "\"") + spelled;
      for (int blank = 0; blank <= (parts.blank != 0); ++blank) {
        const std::string text = blank ? parts.blank + rest : rest;
        if (beginnings(text, tokens.begin) && on_path(0, text + '"')) tokens.whole.push_back(text + '"');
      }
      tokens.made = true;
      if (keep) {
        owned(Strategy::ClosedKeys) += bytes_of(tokens.begin) + bytes_of(tokens.whole);
        for (const std::string& text : tokens.whole) owned(Strategy::ClosedKeys) += bytes_of(text);
      }
    }
    for (int t : tokens.begin) set(t);
    for (const std::string& text : tokens.whole) {
      u32 at = 0;
      Id s = e;
      for (char c : text) {
        at = vocabulary_.child(at, static_cast<u8>(c));
        s = step(s, static_cast<u8>(c));
        if (s == kEmpty) break;
      }
      if (s != kEmpty) enter(s, at);
    }
  }
  return true;
}

// -- open tokens --
// The mask of a state from that of its shared form, where only single tokens are open.
const MaskEntry* MaskBuilder::settle_tokens(const MaskEntry& shared, Id state, std::shared_ptr<const MaskEntry>& made) {
  const MaskEntry* out = nullptr;
  attempt(Strategy::SettledTokens, [&] { return (out = settled(shared, state, made)) != nullptr; });
  return out;
}

const MaskEntry* MaskBuilder::settled(const MaskEntry& shared, Id state, std::shared_ptr<const MaskEntry>& made) {
  made = nullptr;
  const std::vector<int>& open = shared.open_tokens;
  if (!shared.open_nodes.empty() || open.size() > kMostOpenTokens || !vocabulary_.twins().empty()) return nullptr;
  u64 alive = 0;
  std::vector<Id>& states = exit_states_;  // along the last token
  if (states.size() < vocabulary_.longest() + 2) states.resize(vocabulary_.longest() + 2);
  states[0] = state;
  std::string_view last;
  std::size_t known = 0;  // bytes of it that were read
  for (std::size_t i = 0; i < open.size(); ++i) {
    const std::string_view text = vocabulary_.bytes(static_cast<u32>(open[i]));
    std::size_t at = 0;
    while (at < known && at < text.size() && text[at] == last[at]) ++at;
    for (; at < text.size() && states[at] != kEmpty; ++at) {
      const u8 byte = static_cast<u8>(text[at]);
      const Id next = arena_.known_step(states[at], arena_.byte_class(byte));
      states[at + 1] = next != kUnknown ? next : arena_.step_slow(states[at], byte);
    }
    last = text;
    known = at;
    if (at == text.size() && states[at] != kEmpty) alive |= u64{1} << i;
  }
  if (!alive) return &shared;
  const Outcome key{&shared, alive};
  auto [it, fresh] = outcomes_.try_emplace(key);
  if (!fresh) return it->second.get();
  auto entry = std::make_shared<MaskEntry>();
  entry->base = shared.base;
  entry->specials = shared.specials;
  std::map<u32, u32> words;  // that are not in the other's
  entry->diff = shared.diff;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (!(alive >> i & 1)) continue;
    const u32 word = static_cast<u32>(open[i]) >> 5, bit = u32{1} << (open[i] & 31);
    auto at = std::lower_bound(entry->diff.begin(), entry->diff.end(), std::pair<u32, u32>{word, 0});
    if (at == entry->diff.end() || at->first != word)
      at = entry->diff.insert(at, {word, shared.base ? (*shared.base)[word] : 0});
    at->second |= bit;
  }
  it->second = entry;
  made = entry;
  return entry.get();
}

// -- several keys --
// The same keys without their names, kEmpty if nothing is left; false if something else is among them.
bool MaskBuilder::without_names(Id e, Id& free, std::vector<std::string>& rests) {
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Concat: {
      const Id head = n.a, tail = n.b;
      const Node& h = arena_.node(head);
      if (h.kind == Kind::Repeat && h.min == 0 && h.max == 1 && !h.b) {  // a blank before the key
        std::string blank;
        const std::size_t before = rests.size();
        if (!arena_.is_literal(h.a, &blank) || blank.size() != 1 || !without_names(tail, free, rests)) return false;
        for (std::size_t i = before, end = rests.size(); i < end; ++i) rests.push_back(blank + rests[i]);
        free = arena_.concat(head, free);
        return true;
      }
      if (!without_names(head, free, rests)) return false;
      free = arena_.concat(free, tail);
      return true;
    }
    case Kind::Union: {
      Ids members(arena_.operands(e));
      for (Id& m : members)
        if (!without_names(m, m, rests)) return false;
      free = arena_.unite(members);
      return true;
    }
    case Kind::Key:
      free = e;
      return Json::of(arena_).free_key(e) != kUnknown || Json::of(arena_).key_without_names(e, free, rests);
    default: return false;
  }
}

// All names of an object, and all tokens that a name is made of, lead back to the same keys without names.
void MaskBuilder::visit_free(Id free, u32 node) {
  if (node != 0 || !scratch_ || scratch_->touched()) return visit(free, node);
  if (copy_known(free, node)) return;
  if (free_.key == free) {
    if (free_.base) scratch_->add(free_.base);
    for (auto [word, value] : free_.diff) scratch_->put(word, value);
    return;
  }
  visit(free, node);
  if (!postponed_.empty() || !postponed_tokens_.empty() || arena_.cap_hit()) return;
  free_.key = free;
  free_.base = scratch_->base();
  scratch_->differences(free_.diff);
}

// Keys that may be anything or one of some names: what follows differs only where a token completes a name.
bool MaskBuilder::several_keys(Id e, u32 node) {
  if (shared_) return false;  // another alternative may have allowed tokens here
  std::vector<std::string> rests;
  Id free = kEmpty;
  if (!without_names(e, free, rests) || rests.empty()) return false;
  std::sort(rests.begin(), rests.end());
  rests.erase(std::unique(rests.begin(), rests.end()), rests.end());
  if (free == kEmpty) {
    if (arena_.has(e, kUnknownText)) return false;
    only_names(e, node, rests);
    return true;
  }
  visit_free(free, node);
  Escapes mode{};
  Id loop = kEmpty;
  const bool any = opens_string(free, mode, loop) != 0, raw = free_class(free) == raw_characters();
  for (const std::string& rest : rests) {
    if (any || (raw && rest.find('\\') == std::string::npos)) {  // what begins a name is in the mask already
      u32 end = node;
      for (std::size_t i = 0; i < rest.size() && end != kNoFan; ++i)
        end = vocabulary_.child(end, static_cast<u8>(rest[i]));
      if (end == kNoFan) continue;
    }
    u32 at = node;
    Id s = e;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      at = vocabulary_.child(at, static_cast<u8>(rest[i]));
      if (at == kNoFan) break;
      s = s == kEmpty ? kEmpty : step(s, static_cast<u8>(rest[i]));
      if (i + 1 < rest.size()) {
        if (const int t = trie_.nodes[at].token; t >= 0 && s != kEmpty) set(t);
        continue;
      }
      clear(at);
      if (s != kEmpty) enter(s, at);
    }
  }
  return true;
}

// Keys that are names and nothing else: what begins one may come, whatever it leads to.
void MaskBuilder::only_names(Id e, u32 node, const std::vector<std::string>& rests) {
  const Shared shared(*this);
  for (const std::string& rest : rests) {
    u32 at = node;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      at = vocabulary_.child(at, static_cast<u8>(rest[i]));
      if (at == kNoFan) break;
      if (i + 1 < rest.size()) {
        if (const int t = trie_.nodes[at].token; t >= 0) set(t);
        continue;
      }
      Id s = e;
      for (char c : rest) s = s == kEmpty ? kEmpty : step(s, static_cast<u8>(c));
      if (s != kEmpty) enter(s, at);
    }
  }
}

void MaskBuilder::clear(u32 node) {
  for (u32 n = node; n < trie_.nodes[node].end; ++n)
    if (const int t = trie_.nodes[n].token; t >= 0) unset(t);
}

}  // namespace guiderail
