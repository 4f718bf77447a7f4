// Masks of keys: by their names, where a token can complete one, and otherwise as strings. Also the forms of states
// that share masks (see elision.cpp).
#include <algorithm>
#include <utility>

#include "mask/mask.hpp"

namespace guiderail {
namespace {
constexpr u32 kMostAround = 7;  // strings, one in the other

// Enters a string: three bits, one more than what has been read of an escape in progress.
struct InString {
  u32& around;
  const u32 before;
  InString(u32& around, EscapeAt at) : around(around), before(around) { around = around << 3 | (escape_read(at) + 1); }
  ~InString() { around = before; }
};

constexpr u32 kUnquoted = 60, kAfterBlank = 61;  // see KeyHits
}  // namespace

// Is e an optional character?
bool MaskBuilder::optional_blank(Id e, char& blank) const {
  const Node& n = arena_.node(e);
  std::string text;
  if (n.kind != Kind::Repeat || n.min != 0 || n.max != 1 || n.b || !arena_.is_literal(n.body(), &text) ||
      text.size() != 1)
    return false;
  blank = text[0];
  return true;
}

// Is e = [blank]? key tail? An object without members yet counts as a key.
bool MaskBuilder::key_parts(Id e, KeyParts& out) {
  auto is_key = [&](Id x) {
    const Node& n = arena_.node(x);
    return n.kind == Kind::Key || (n.kind == Kind::Members && arena_.first(x).has('"'));
  };
  Id before = kEpsilon;
  char blank = 0;
  auto [key, tail] = unstack(arena_, e);
  if (tail != kEpsilon && optional_blank(key, blank)) {
    before = key;
    const Stack after = unstack(arena_, tail);
    key = after.head;
    tail = after.tail;
  }
  out = {before, key, tail, blank};
  return is_key(key);
}

// Can a token reach the end of a text, as the strings around it spell it? Not `whole`: of its last byte, only how the
// spelling begins.
bool MaskBuilder::reaches(std::string_view text, bool whole) const {
  std::string out(text);
  for (u32 around = around_; around != 0 && !out.empty(); around >>= 3) {
    const std::string last = json_spelling(std::string_view(out).substr(out.size() - 1));
    out.pop_back();
    out = json_spelling(out) + (whole ? last : last.substr(0, 1));
    if (const u32 read = (around & 7) - 1; read > 0) {
      if (out[0] != '\\') return false;
      out.erase(0, read);
    }
  }
  return on_path(0, out);
}

// Can a token complete this name or, if the name is allowed, begin it where no other key does? This is asked for every
// name at every key, so the answer, apart from `allowed`, is kept for each number of missing bytes.
bool MaskBuilder::touches(KeyHits* known, const KeyApart& key, const std::string& name, const KeyParts& parts,
                          bool allowed) {
  const u32 depth = key.key->depth;
  const bool quoted = key.key->quoted;
  const std::size_t missing = name.size() - depth;
  const u32 slot = quoted ? static_cast<u32>(missing) : parts.blank ? kAfterBlank : kUnquoted;
  const bool keep = known && (!quoted || missing < kUnquoted) && !key.table->vote &&
                    (key.any || (depth == 0 && (key.table->dense || key.few_seen)));
  const u64 bit = u64{1} << slot;
  if (keep && (known->known & bit)) return ((known->hit | (allowed ? known->dies : 0)) & bit) != 0;
  const std::string_view rest = std::string_view(name).substr(depth);
  auto reached = [&](const std::string& spelled, bool whole) {
    const std::string text = (quoted ? "" : "\"") + spelled;
    return reaches(text, whole) || (parts.blank && reaches(parts.blank + text, whole));
  };
  std::size_t read;
  const KeyAlong along = Json::of(arena_).others_along(key, rest, read);
  bool hit = reached(json_spelling(rest) + '"', key.any);
  if (along == KeyAlong::Unclear && !hit) {  // from the first byte of the character that leads there
    std::string begin = read > 0 ? json_spelling(rest.substr(0, read - 1)) : "";
    if (read > 0) begin += json_spelling(rest.substr(read - 1, 1))[0];
    hit = reached(begin, false);
  }
  const bool dies = along == KeyAlong::Dies;
  if (keep) {
    known->known |= bit;
    if (hit) known->hit |= bit;
    if (dies) known->dies |= bit;
  }
  return hit || (dies && allowed);
}

// Can a token complete one of the names or of the keys written before, or begin one where no other key does?
// `complete`: one of them lacks only its quote.
bool MaskBuilder::names_matter(const KeyApart& key, const KeyParts& parts, bool& complete) {
  const KeyState& k = *key.key;
  const MemberTable& table = *key.table;
  if (key_hits_.size() <= key.table_id) key_hits_.resize(key.table_id + 1);
  std::vector<KeyHits>& of = key_hits_[key.table_id];
  if (of.empty()) {
    of.resize(table.names.size());
    owned(Strategy::KeysAsStrings) += bytes_of(of);
  }
  auto matters = [&](const std::string& name, KeyHits* known, bool allowed) {
    if (k.quoted && k.depth == name.size()) {
      complete = true;
      return false;
    }
    if (key.any && k.depth == 0 && !name.empty() && around_ == 0) {  // this decides most names
      const u8 last = static_cast<u8>(name.back());
      if (is_raw(last) && !vocabulary_.quote_after(last)) return false;
    }
    if (Json::inside_character(k, name)) return true;
    return touches(around_ == 0 ? known : nullptr, key, name, parts, allowed);
  };
  Json& json = Json::of(arena_);
  for (u32 i = k.lo; i < k.hi; ++i) {
    const u32 field = table.order[i];
    if (matters(table.names[field], &of[field], json.name_allowed(k.members, field))) return true;
  }
  for (u32 i = k.seen_lo; i < k.seen_hi; ++i) {
    const u32 text = json.seen_text(*key.state, i);
    if (matters(json.text_of(text), &text_hits_[text], false)) return true;
  }
  return false;
}

// A state with the same mask, except for tokens that stay open, that other positions reach as well.
Id MaskBuilder::shared_form(Id state, bool nested) {
  auto cut = [&](Id e) {
    attempt(Strategy::Counters, [&] { return std::exchange(e, near_form(e)) != e; });
    return e;
  };
  if (!Json::of(arena_).used() || !arena_.symbols().empty() || arena_.has(state, kHasScan | kHasLook | kHasToken))
    return cut(state);
  if (nested)
    if (const Id form = nested_form(state); form != kEmpty) return form;
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
  const bool key = key_parts(e, parts);
  // Alternatives, perhaps with a tail in common. Keys among them that forget their names need forms of their own.
  if (arena_.node(parts.key).kind == Kind::Union &&
      (parts.key == e || (arena_.operands(parts.key).size() <= kMostLoops && forgets(parts.key) != Forgets::Nothing))) {
    const u64 memo = u64{index_of(e)} << 32 | around_ << 1 | (nested ? 1u : 0u);
    if (const Id* known = shared_forms_.find(memo)) return *known;
    const Id out = arena_.unite(mapped(arena_, parts.key, [&](Id m) {
      return shared_form(arena_.concat(parts.before, arena_.concat(m, parts.tail)), nested);
    }));
    shared_forms_.set(memo, out);
    return out;
  }
  Id out = e;
  attempt(Strategy::Elision, [&] {
    if (!key) {
      out = abstraction.elide_stack(e);
    } else {
      const Id tail = abstraction.elide_stack(parts.tail, Abstraction::kAfterObject);
      out = arena_.concat(parts.before, arena_.concat(parts.key, tail));
    }
    return out != e;
  });
  return out;
}

// Is there an object near the beginning of the text of a string?
bool MaskBuilder::holds_object(Id text, int unions) const {
  for (int part = 0; part < kObjectParts && text != kEpsilon; ++part) {
    const auto [head, tail] = unstack(arena_, text);
    const Node& n = arena_.node(head);
    if (n.kind == Kind::Key || n.kind == Kind::Members) return true;
    if (n.kind == Kind::Union && unions < kObjectUnions)
      for (Id m : Ids(arena_.operands(head)))
        if (holds_object(m, unions + 1)) return true;
    text = tail;
  }
  return false;
}

// JSON inside a string has the form that it has outside, spelled. kEmpty: this is none.
Id MaskBuilder::nested_form(Id e) {
  const auto [head, tail] = unstack(arena_, e);
  const Node& n = arena_.node(head);
  if (n.kind != Kind::Escaped || escapes_of(n) != Escapes::Canonical || around_ >> 3 * (kMostAround - 1) != 0 ||
      !holds_object(escaped_text(n)))
    return kEmpty;
  const Id text = escaped_text(n);
  const EscapeAt at = escaped_place(n);
  const InString inside(around_, at);
  const Id form = shared_form(text);
  const Id after = Abstraction::of(arena_).near_form(tail, vocabulary_.longest());
  return arena_.concat(Escaped::of(arena_).escaped_at(form, at, Escapes::Canonical),
                       Abstraction::of(arena_).elide_stack(after, Abstraction::kAfterObject));
}

MaskBuilder::Forgets MaskBuilder::forgets(Id e) {
  Forgets out = Forgets::Nothing;
  if (!Json::of(arena_).used()) return out;
  if (arena_.node(e).kind == Kind::Union) {
    for (Id m : Ids(arena_.operands(e))) out = std::max(out, forgets(m));
    return out;
  }
  KeyParts parts;
  if (!key_parts(e, parts)) return arena_.node(parts.key).kind == Kind::Union ? forgets(parts.key) : out;
  const bool object = arena_.node(parts.key).kind == Kind::Members;
  const Id key = object ? Json::of(arena_).key_start(members_state(arena_.node(parts.key))) : parts.key;
  KeyApart apart;
  if (!Json::of(arena_).key_apart(key, apart) || apart.closed) return out;
  return apart.any ? Forgets::NamesOfAny : Forgets::Names;
}

Id MaskBuilder::capped(Id state, u32 most) {
  Id out = state;
  attempt(Strategy::CappedGroups, [&] { return (out = Abstraction::of(arena_).cap_groups(state, most)) != state; });
  return out;
}

// The same for a key that no token can turn into a name; kEmpty: a token can.
Id MaskBuilder::key_form(Id e, const KeyParts& parts) {
  const bool object = arena_.node(parts.key).kind == Kind::Members;
  const Id key = object ? Json::of(arena_).key_start(members_state(arena_.node(parts.key))) : parts.key;
  KeyApart apart;
  bool complete = false;
  if (!Json::of(arena_).key_apart(key, apart) || apart.closed || names_matter(apart, parts, complete)) return kEmpty;
  const Id form = key_spelled(parts, apart, complete);
  if (form == kEmpty || !complete) return form;
  // A name that lacks only its quote: either a string of at least one more character, or what the quote leads to.
  const Id named = arena_.step_slow(e, '"');
  if (named == kEmpty) return form;
  if (arena_.has(named, kUnknownText)) return kEmpty;
  return arena_.unite(form, Json::of(arena_).quoted(Abstraction::of(arena_).elide_stack(
                                Abstraction::of(arena_).near_form(named, vocabulary_.longest()))));
}

// The key as a string, whatever names there are. `longer`: of at least one more character. kEmpty: none says the same.
Id MaskBuilder::key_spelled(const KeyParts& parts, const KeyApart& apart, bool longer) {
  const bool object = arena_.node(parts.key).kind == Kind::Members;
  Id form = Abstraction::of(arena_).key_as_string(apart, longer);
  if (form == kEmpty) return kEmpty;
  const bool keep = !object && !longer && parts.before == kEpsilon;
  const u64 memo = u64{index_of(form)} << 32 | index_of(parts.tail);
  if (const Id* known = keep ? stacked_forms_.find(memo) : nullptr) return *known;
  if (object && arena_.nullable(parts.key)) form = arena_.repeat(form, 0, 1);
  const Id tail = Abstraction::of(arena_).near_form(parts.tail, vocabulary_.longest());
  form = arena_.concat(parts.before,
                       arena_.concat(form, Abstraction::of(arena_).elide_stack(tail, Abstraction::kAfterObject)));
  if (keep) stacked_forms_.set(memo, form);
  return form;
}

// Nothing must be drawn yet.
void MaskBuilder::copy(const MaskEntry& entry) {
  scratch_->add(entry.base);
  for (auto [word, value] : entry.diff) scratch_->put(word, value);
  postponed_.insert(postponed_.end(), entry.open_nodes.begin(), entry.open_nodes.end());
  postponed_tokens_.insert(postponed_tokens_.end(), entry.open_tokens.begin(), entry.open_tokens.end());
}

// -- several keys --
bool MaskBuilder::without_names(Id e, Id& free, std::vector<std::string>& rests) {
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Concat: {
      const Id head = n.head(), tail = n.tail();
      if (char blank; optional_blank(head, blank)) {  // before the key
        const std::size_t before = rests.size();
        if (!without_names(tail, free, rests)) return false;
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
      return Json::of(arena_).free_key(e) != kNone || Json::of(arena_).key_without_names(e, free, rests);
    default: return false;
  }
}

// Where the spelled names lead in the trie does not depend on which of them may still come.
const MaskBuilder::NamePaths& MaskBuilder::name_paths(const KeyApart& key, char blank, u32 node) {
  const KeyState& k = *key.key;
  const auto [it, made] = name_paths_.try_emplace({key.table_id, k.lo, k.depth << 1 | k.quoted, u32(u8(blank)), node});
  NamePaths& out = it->second;
  if (!made) return out;
  for (u32 i = k.lo; i < k.hi; ++i) {
    const std::string rest = Json::spelled_rest(k, key.table->names[key.table->order[i]]);
    Work::spend();
    for (const bool blanks : {false, true}) {
      if (blanks && !blank) continue;
      const std::string text = blanks ? blank + rest : rest;
      u32 at = node;
      for (std::size_t b = 0; b < text.size() && at != kNoFan; ++b) {
        at = vocabulary_.child(at, static_cast<u8>(text[b]));
        if (at != kNoFan && b + 1 < text.size() && trie_.nodes[at].token >= 0)
          out.tokens.push_back(trie_.nodes[at].token);
      }
      out.paths.push_back({i, static_cast<u32>(out.tokens.size()), at, blanks});
    }
  }
  owned(Strategy::SeveralKeys) += bytes_of(out.paths) + bytes_of(out.tokens);
  return out;
}

// Keys that can only be names, of one object or of alternatives. An object with many of them has a mask for each set of
// names that may still come.
bool MaskBuilder::closed_names(Id e, u32 node) {
  struct Closed {
    KeyApart key;
    char blank;
  };
  std::vector<Closed> keys;
  Json& json = Json::of(arena_);
  auto gather = [&](auto& self, Id x, char blank) -> bool {
    KeyParts parts;
    KeyApart key;
    const bool alone = key_parts(x, parts);
    if (blank && parts.blank) return false;
    if (parts.blank) blank = parts.blank;
    auto closed = [&](Id m) { return !arena_.live(m) || self(self, m, blank); };
    if (!alone)
      return arena_.node(parts.key).kind == Kind::Union && std::ranges::all_of(Ids(arena_.operands(parts.key)), closed);
    if (!json.key_apart(parts.key, key) || !key.closed || key.key->lo == key.key->hi) return false;
    keys.push_back({key, blank});
    return true;
  };
  if (arena_.has(e, kUnknownText) || !gather(gather, e, 0)) return false;
  for (const auto& [key, blank] : keys)
    for (u32 i = key.key->lo; i < key.key->hi; ++i)
      if (Json::inside_character(*key.key, key.table->names[key.table->order[i]])) return false;
  const Shared shared(*this);
  std::vector<std::pair<std::string, u32>> whole;  // the names that tokens contain, and where they lead
  for (const auto& [key, blank] : keys) {
    const KeyState& k = *key.key;
    u32 from = 0;
    const NamePaths& of = name_paths(key, blank, node);
    Work::spend((of.paths.size() + of.tokens.size()) / kNodesPerStep);
    for (const NamePaths::Path& path : of.paths) {
      const u32 begin = std::exchange(from, path.until);
      const u32 field = key.table->order[path.name];
      if (!json.name_allowed(k.members, field)) continue;
      for (u32 i = begin; i < path.until; ++i) set(of.tokens[i]);
      if (path.end == kNoFan) continue;
      const std::string rest = Json::spelled_rest(k, key.table->names[field]);
      whole.emplace_back(path.blanks ? blank + rest : rest, path.end);
    }
  }
  sort_unique(whole);
  for (const auto& [rest, at] : whole)
    if (const Id s = read(e, rest); s != kEmpty) enter(s, at);
  return true;
}

// Draws a key that has begun as a string, without the names that `rests` complete.
bool MaskBuilder::draw_without_names(Id e, std::vector<std::string>& rests) {
  KeyParts parts;
  KeyApart apart;
  if (!blank() || !key_parts(e, parts) || parts.before != kEpsilon || arena_.node(parts.key).kind != Kind::Key ||
      !Json::of(arena_).key_apart(parts.key, apart) || apart.closed || !apart.key->quoted)
    return false;
  rests.clear();
  if (!Json::of(arena_).named_rests(*apart.key, false, rests) || rests.empty() || rests.size() > kMostKeyNames)
    return false;
  const Id form = key_spelled(parts, apart, false);
  if (form == kEmpty || !may_draw_apart(form)) return false;
  const auto entry = entry_of(form);
  if (arena_.cap_hit()) return false;
  copy(*entry);
  return true;
}

// Keys that may be anything or one of some names: the difference lies only where a token completes a name.
bool MaskBuilder::several_keys(Id e, u32 node) {
  if (shared_) return false;  // another alternative may already have allowed tokens here
  if (closed_names(e, node)) return true;
  std::vector<std::string> rests;
  Id free = kEmpty;
  bool any = false, raw = false;  // which beginnings of names are in the mask already
  if (without_names(e, free, rests) && !rests.empty() && free != kEmpty) {
    visit(free, node);
    Escapes mode{};
    Id loop = kEmpty;
    any = opens_string(free, mode, loop) != 0;
    raw = free_class(free) == raw_characters();
  } else if (node != 0 || !draw_without_names(e, rests)) {
    return false;
  }
  sort_unique(rests);
  for (const std::string& rest : rests) {
    if ((any || (raw && rest.find('\\') == std::string::npos)) && !on_path(node, rest))
      continue;  // the beginning of the name is in the mask already
    u32 at = node;
    Id s = e;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      at = vocabulary_.child(at, static_cast<u8>(rest[i]));
      if (at == kNoFan) break;
      s = s == kEmpty ? kEmpty : step(s, static_cast<u8>(rest[i]));
      if (s == kEmpty && !any) {  // not even the beginning of another key is left
        clear(at);
        break;
      }
      if (i + 1 < rest.size()) {
        if (const int t = trie_.nodes[at].token; t >= 0) set_after(s, t);
        continue;
      }
      clear(at);
      if (s != kEmpty) enter(s, at);
    }
  }
  return true;
}

void MaskBuilder::clear(u32 node) {
  for (u32 token : trie_.below(node)) unset(static_cast<int>(token));
}

}  // namespace guiderail
