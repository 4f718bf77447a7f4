// The mask of a state as that of another one, with differences. Most characters lead the state into some b, and lead b
// back to b. Only texts that begin with other characters tell the two apart, and most of these reach the same states
// after a byte or two. So the mask of b, which is needed anyway, is copied, and both states are walked where they
// differ.
#include <algorithm>

#include "expr/identities.hpp"
#include "json/patterned.hpp"
#include "mask/mask.hpp"

namespace guiderail {
// The mask of another state, drawn separately.
std::shared_ptr<const MaskEntry> MaskBuilder::entry_of(Id e) {
  const bool plain = arena_.symbols().empty();
  if (const MaskEntry* known = arena_.node(e).mask.load(std::memory_order_relaxed); known && plain)
    return {std::shared_ptr<const MaskEntry>(), known};  // the program keeps it alive
  if (auto it = kept_.find(e); it != kept_.end()) return it->second;
  std::optional<Hash> key;
  if (plain && !arena_.has(e, kHasToken | kExactKey | kHasScan)) key = arena_.identities().of(e);
  std::shared_ptr<const MaskEntry> made = key ? vocabulary_.cached_mask(*key) : nullptr;
  if (!made) {
    const Apart apart(*this, e);
    made = draw(e);
    if (key && !arena_.cap_hit()) vocabulary_.cache_mask(*key, made);
  }
  if (!arena_.cap_hit() && kept_.emplace(e, made).second && !made->shared)
    owned(Strategy::StateDifferences) += made->memory();
  return made;
}

// Two states may each be described by the other, and chains may be long. In such cases, a mask is drawn independently.
bool MaskBuilder::may_draw_apart(Id e) const {
  return drawing_.size() < kMostApart && std::find(drawing_.begin(), drawing_.end(), e) == drawing_.end();
}

// An intersection with all but some texts, split into the two.
bool MaskBuilder::split_excluded(Id e, Id& others, ByteSet& begins) {
  if (arena_.node(e).kind != Kind::And) return false;
  Ids kept;
  for (Id m : Ids(arena_.operands(e))) {
    if (arena_.node(m).kind != Kind::Not)
      kept.push_back(m);
    else
      begins |= arena_.first(arena_.node(m).body());
  }
  if (kept.empty() || kept.size() == arena_.operands(e).size()) return false;
  others = arena_.intersect(std::move(kept), true);
  return true;
}

// The bytes after which e and b may differ. If e is b without some texts: the bytes that these texts begin with.
ByteSet MaskBuilder::telling_bytes(Id e, Id b) {
  const auto [head, tail] = unstack(arena_, e);
  Id others = kEmpty;
  ByteSet begins;
  const bool apart = split_excluded(head, others, begins) && arena_.nullable(head) == arena_.nullable(others) &&
                     arena_.concat(others, tail) == b;
  return apart ? begins : ByteSet::all();
}

// Finds where the tokens of e and b differ, below a node that both lead to. False: that takes too long.
bool MaskBuilder::differences(Id e, Id b, u32 node, u32& budget, std::vector<Difference>& out) {
  const ByteSet telling = telling_bytes(e, b);
  const Id *const row = arena_.ensure_row(e), *const beside = arena_.ensure_row(b);
  auto child = [&](u32 at, u8 byte) {
    if (!telling.has(byte)) return true;
    if (budget == 0) return false;
    --budget;
    const Id mine = forget(step_along(e, row, byte)), other = forget(step_along(b, beside, byte));
    if (mine == other) return true;
    if (mine == kEmpty || other == kEmpty || arena_.has(mine, kUnknownText) || arena_.has(other, kUnknownText)) {
      out.push_back({at, mine, other != kEmpty});
      return true;
    }
    return trie_.nodes[at].end == at + 1 || differences(mine, other, at, budget, out);
  };
  return trie_.each_child(node, child);
}

// The mask of e from that of b (`form`: a form of b with the same mask). Nothing must be drawn yet.
bool MaskBuilder::differential(Id e, Id b, Id form) {
  if (!blank() || arena_.has(e, kUnknownText | kHasScan) || !may_draw_apart(form)) return false;
  std::vector<Difference> found;
  std::size_t anew = 0;
  u32 left = kMostPairsInAll;
  const ByteSet telling = telling_bytes(e, b);
  const Id *const row = arena_.ensure_row(e), *const beside = arena_.ensure_row(b);
  const bool like = trie_.each_child(0, [&](u32 c, u8 byte) {
    if (!telling.has(byte)) return true;
    const Id mine = forget(step_along(e, row, byte)), other = forget(step_along(b, beside, byte));
    if (mine == other) return true;
    const std::size_t before = found.size();
    u32 budget = std::min(kMostPairs, left);
    const u32 given = budget;
    const bool apart =
        mine == kEmpty || other == kEmpty || arena_.has(mine, kUnknownText) || arena_.has(other, kUnknownText);
    if (!apart && differences(mine, other, c, budget, found)) {
      left -= given - budget;
      return true;
    }
    left -= given - budget;
    found.resize(before);
    if (trie_.nodes[c].end - c >= kMostPairs && mine != kEmpty && ++anew > kMostAnew) return false;
    found.push_back({c, mine, other != kEmpty});
    return true;
  });
  if (!like) return false;
  const auto entry = entry_of(form);
  if (arena_.cap_hit()) return false;
  copy(*entry);
  apply(found);
  return true;
}

void MaskBuilder::apply(const std::vector<Difference>& found) {
  for (const Difference& d : found) {
    if (d.clears) clear(d.node);
    if (d.state != kEmpty) enter(d.state, d.node);
  }
}

bool MaskBuilder::state_differences(Id e, u32) {
  const SelfLoop loop = self_loop(e);
  return loop.chars && loop.inside != e && differential(e, loop.inside, loop.inside);
}

// An intersection with all but some texts, such as the earlier items of a list. Without these, it is the same as soon
// as the text can no longer become one of them.
bool MaskBuilder::excluded_texts(Id e, u32) {
  const auto [head, tail] = unstack(arena_, e);
  Id others = kEmpty;
  ByteSet begins;
  if (!blank() || !split_excluded(head, others, begins)) return false;
  const Id b = arena_.concat(others, tail);
  return b != kEmpty && b != e && arena_.live(b) && differential(e, b, shared_form(b));
}

// Is e = key tail, a key in progress whose text no mask depends on? Its texts are those of its kinds of other keys.
bool MaskBuilder::key_of(Id e, Strings& out) {
  KeyParts parts;
  KeyApart apart;
  if (!key_parts(e, parts) || !Json::of(arena_).key_apart(parts.key, apart) || !apart.key->quoted ||
      apart.key->remembers())
    return false;
  out.key = true;
  for (Id text : apart.key->others) {
    if (Patterned::of(arena_).chooses(text)) return false;  // what follows depends on it
    if (text != kEmpty) out.texts.push_back(text);
  }
  return out.texts.size() <= kMostStrings && Json::of(arena_).named_rests(*apart.key, false, out.names);
}

// Splits e into strings in progress, all with the same escapes, or takes it as a key. If only a quote may follow, the
// rest of the text is empty.
bool MaskBuilder::strings_of(Id e, Strings& out) {
  if (key_of(e, out)) return true;
  auto only_quote = [&](Id x) { return arena_.first(x).has('"') && arena_.first(x).count() == 1; };
  auto take = [&](Id one) {
    if (only_quote(one)) {
      out.texts.push_back(kEpsilon);
      return true;
    }
    if (arena_.node(one).kind != Kind::Concat) return false;
    const Id head = arena_.node(one).head(), tail = arena_.node(one).tail();
    const Node& h = arena_.node(head);
    if (!is_escaped(h) || arena_.has(escaped_text(h), kExactStep) || !only_quote(tail)) return false;
    out.texts.push_back(escaped_text(h));
    return true;
  };
  if (const Id head = unstack(arena_, e).head; arena_.node(head).kind == Kind::Union) e = head;
  if (arena_.node(e).kind != Kind::Union) return take(e);
  if (arena_.operands(e).size() > kMostStrings) return false;
  for (Id m : Ids(arena_.operands(e)))
    if (!take(m)) return false;
  return true;
}

// Like differences(), but by the texts alone, whose states many strings share. What follows them matters only after a
// quote.
bool MaskBuilder::text_differences(TextPairs pairs, bool key, u32 node, u32& budget, std::vector<TextDifference>& out) {
  auto nullable = [&](Id text) { return text != kEmpty && arena_.nullable(text); };
  struct Text {
    Id at;
    const Id* row;  // null: see kExactStep
  };
  auto begin = [&](Id text) { return Text{text, text == kEmpty ? nullptr : arena_.ensure_row(text)}; };
  auto step = [&](const Text& text, u8 byte) {
    if (text.at == kEmpty) return kEmpty;
    const Id next = text.row ? text.row[arena_.byte_class(byte)] : kUnknown;
    return next != kUnknown ? next : arena_.step_text(text.at, byte);
  };
  ShortVector<Text, 2 * kMostStrings> texts;
  for (auto [mine, other] : pairs)
    for (const Id text : {mine, other}) texts.push_back(begin(text));
  std::array<TextPair, kMostStrings> next;
  const std::span<TextPair> after(next.data(), pairs.size());
  return trie_.each_child(node, [&](u32 c, u8 byte) {
    if (budget == 0) return false;
    --budget;
    if (!is_raw(byte)) {
      auto same = [&](const TextPair& p) { return nullable(p.first) == nullable(p.second); };
      const bool leaves = byte == '"' || byte == '\\';
      if (leaves && (byte == '\\' || !std::all_of(pairs.begin(), pairs.end(), same))) out.push_back({c, true});
      return true;
    }
    bool same = true, dead = true, alone = true, endless = !key, unknown = false;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Text &mine = texts[2 * i], &other = texts[2 * i + 1];
      const Id a = step(mine, byte), b = mine.at == other.at ? a : step(other, byte);
      after[i] = {a, b};
      same = same && a == b;
      dead = dead && a == kEmpty;
      alone = alone && b == kEmpty;
      unknown = unknown || arena_.has(a, kUnknownText) || arena_.has(b, kUnknownText);
    }
    if (unknown) out.push_back({c, true});
    if (same || unknown) return true;
    // A key that only few texts can complete may be none of them.
    for (std::size_t i = 0; i < pairs.size() && !endless; ++i)
      endless = Json::of(arena_).surely_endless(after[i].first);
    if (dead || alone || !endless) {
      out.push_back({c, !dead || key});
      return true;
    }
    return text_differences(after, key, c, budget, out);
  });
}

// Does the text treat all characters alike, as any{m,n} and combinations of it do?
bool MaskBuilder::uniform_text(Id text, int depth) const {
  const Node& n = arena_.node(text);
  if (depth > kMostTextNesting) return false;
  switch (n.kind) {
    case Kind::Epsilon: return true;
    case Kind::Class: return arena_.charset_ptr(n.a) == CharSet::any();
    case Kind::Repeat: return !n.b && uniform_text(n.body(), depth + 1);
    case Kind::Concat: return uniform_text(n.head(), depth + 1) && uniform_text(n.tail(), depth + 1);
    case Kind::Union: {
      for (Id m : arena_.operands(text))
        if (!uniform_text(m, depth + 1)) return false;
      return true;
    }
    default: return false;
  }
}

// Do two keys belong to the same object, where the same follows, and can b no longer become a name?
bool MaskBuilder::free_beside(Id e, Id b) {
  KeyParts parts, beside;
  KeyApart mine, other;
  Json& json = Json::of(arena_);
  if (!key_parts(e, parts) || !key_parts(b, beside) || parts.tail != beside.tail || !json.key_apart(parts.key, mine) ||
      !json.key_apart(beside.key, other))
    return false;
  const KeyState& of = *other.key;
  return mine.key->members == of.members && mine.key->text == of.text && of.lo == of.hi && of.seen_lo == of.seen_hi;
}

// A string with a text that most characters lead into another text, which they lead back to itself. So is a key that
// may become a name or match a pattern: most characters lead to a key that may have any text.
bool MaskBuilder::string_differences(Id e, u32) {
  Strings strings;
  if (!blank() || arena_.has(e, kUnknownText | kHasScan) || !strings_of(e, strings)) return false;
  if (std::none_of(strings.texts.begin(), strings.texts.end(), [&](Id t) { return arena_.node(t).longest == kInf; }))
    return false;  // no text returns to itself
  auto after = [&](const Ids& texts, u8 byte) {
    Ids next = texts;
    for (Id& t : next) t = t == kEmpty ? kEmpty : arena_.step_text(t, byte);
    return next;
  };
  auto begins_name = [&](u8 byte) {
    return std::any_of(strings.names.begin(), strings.names.end(),
                       [&](const std::string& name) { return static_cast<u8>(name[0]) == byte; });
  };
  Ids base;  // where most letters lead
  int votes = 0;
  u8 sample = 0;
  const bool uniform =
      !strings.key && std::all_of(strings.texts.begin(), strings.texts.end(), [&](Id t) { return uniform_text(t, 0); });
  // The only candidate for a majority (Boyer & Moore 1991).
  for (u8 byte = 'A'; byte <= (uniform ? 'A' : 'z'); ++byte) {
    if (!is_raw(byte) || begins_name(byte)) continue;
    Ids next = after(strings.texts, byte);
    if (votes == 0) {
      base = std::move(next);
      sample = byte;
      votes = 1;
    } else {
      votes += next == base ? 1 : -1;
    }
  }
  if (votes <= 0 || base == strings.texts || after(base, sample) != base) return false;
  if (strings.key && std::none_of(base.begin(), base.end(), [&](Id t) { return Json::of(arena_).any_key_text(t); }))
    return false;
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < base.size(); ++i) pairs.emplace_back(strings.texts[i], base[i]);
  std::sort(pairs.begin(), pairs.end());
  std::vector<Id> key;
  for (auto [mine, other] : pairs) key.insert(key.end(), {mine, other});
  if (strings.key) key.push_back(kEmpty);    // judged in another way
  auto known = text_differences_.find(key);  // independent of what follows the texts
  if (known == text_differences_.end()) {
    std::vector<TextDifference> found;
    u32 budget = kMostPairsInAll;
    const u32 quote = vocabulary_.child(0, '"');
    if (uniform && quote != kNoFan)  // every character leads to the base
      found.push_back({quote, true});
    else if (!text_differences(pairs, strings.key, 0, budget, found))
      found.assign(1, {0, false});
    if (arena_.cap_hit()) return false;
    known = text_differences_.emplace(key, std::move(found)).first;
    owned(Strategy::StringDifferences) += bytes_of(known->second) + bytes_of(known->first);
  }
  const std::vector<TextDifference>& found = known->second;
  if (!found.empty() && found[0].node == 0) return false;  // too many differences
  const Id b = step(e, sample);
  if (b == kEmpty || b == e || !may_draw_apart(b) || (strings.key && !free_beside(e, b))) return false;
  const auto entry = entry_of(b);
  if (arena_.cap_hit()) return false;
  copy(*entry);
  std::vector<Difference> apart;
  auto correct = [&](u32 node) {
    const std::string path = path_to(node);
    const Id mine = read(e, path), other = read(b, path);
    apart.clear();
    u32 budget = kMostPairs;
    if (mine == kEmpty || other == kEmpty || arena_.has(mine, kUnknownText) || arena_.has(other, kUnknownText) ||
        !differences(mine, other, node, budget, apart))
      apart.assign(1, {node, mine, true});
    apply(apart);
  };
  for (const TextDifference& d : found) {
    if (d.alive)
      correct(d.node);
    else
      clear(d.node);
  }
  for (const std::string& name : strings.names)
    if (const u32 node = vocabulary_.find_node(name); node != kNoFan) correct(node);
  return true;
}

// The tokens in the mask of a string of any length that leave it, or that may (open ones).
const std::vector<MaskBuilder::Leaving>* MaskBuilder::leaving_of(Id e, const MaskEntry& entry, Escapes mode) {
  if (auto it = leaving_.find(e); it != leaving_.end()) return &it->second;
  std::vector<Leaving> out;
  const auto& leaving = vocabulary_.leaving_strings(mode);
  auto diff = entry.diff.begin();
  for (const auto& [chars, token] : leaving) {
    const u32 word = static_cast<u32>(token) >> 5;
    while (diff != entry.diff.end() && diff->first < word) ++diff;
    const u32 bits = diff != entry.diff.end() && diff->first == word ? diff->second
                     : entry.base                                    ? (*entry.base)[word]
                                                                     : 0;
    if (bits >> (token & 31) & 1) out.push_back({chars, token, false});
  }
  auto open = [&](int token) {
    const auto at = std::lower_bound(leaving.begin(), leaving.end(), token,
                                     [](const StringCounts::Count& c, int t) { return c.token < t; });
    if (at != leaving.end() && at->token == token) out.push_back({at->chars, token, true});
  };
  for (int token : entry.open_tokens) open(token);
  for (u32 node : entry.open_nodes)
    for (u32 token : trie_.below(node)) open(static_cast<int>(token));
  owned(Strategy::BoundedStrings) += bytes_of(out);
  return &leaving_.emplace(e, std::move(out)).first->second;
}

// Leaves a token that another mask allows only if this state allows it, too.
void MaskBuilder::check_again(Id e, int token) {
  const Id next = read(e, vocabulary_.bytes(static_cast<u32>(token)));
  if (next != kEmpty && !arena_.has(next, kUnknownText)) return;
  unset(token);
  set_after(next, token);
}

// The mask of a string without its count, minus the tokens that the count forbids.
bool MaskBuilder::cut_strings(Id e, Id tail, const Abstraction::Uncounted& of, Escapes mode) {
  const Id free = arena_.concat(Escaped::of(arena_).escaped(of.text, mode), tail);
  const auto longer = vocabulary_.strings_longer(of.most, mode);
  const auto last = vocabulary_.strings_longer(of.most - std::min(of.most, of.ending), mode);
  const std::size_t at_end = last.size() - longer.size();
  if (at_end > kMostLast || !may_draw_apart(free)) return false;
  const auto entry = entry_of(free);
  if (arena_.cap_hit()) return false;
  copy(*entry);
  for (const auto& [chars, token] : longer) unset(token);
  for (const auto& [chars, token] : last.first(at_end))
    if (scratch_->has(static_cast<u32>(token))) check_again(e, token);
  for (const Leaving& l : *leaving_of(free, *entry, mode))
    if ((l.chars < of.least || l.chars > of.most) && !l.open) unset(l.token);
  return true;
}

// The paths of tokens that read many characters of a class before others, by number, greatest first.
const std::vector<MaskBuilder::LongRun>& MaskBuilder::long_runs(const ClassMask& mask) {
  const auto [it, fresh] = long_runs_.try_emplace(mask.chars);
  if (!fresh) return it->second;
  for (const u32 node : mask.exits)
    if (const u32 read = trie_.nodes[trie_.parents[node]].chars; read > kShortRun) it->second.push_back({read, node});
  std::ranges::sort(it->second, [](const LongRun& a, const LongRun& b) { return a.chars > b.chars; });
  Work::spend(mask.exits.size() / kNodesPerStep);
  owned(Strategy::BoundedStrings) += bytes_of(it->second);
  return it->second;
}

// The mask of another state, minus the tokens of a class that are longer than `most` characters. The last `ending`
// characters before that are read.
bool MaskBuilder::without_longer(Id e, Id free, const ClassMask& mask, u32 most, u32 ending) {
  const auto upto = [&](u32 chars) { return mask.tokens.empty() ? 0 : mask.upto[std::min(chars, mask.most)]; };
  const u32 from = upto(most - std::min(most, ending)), until = upto(most);
  if (until - from > kMostLast || !may_draw_apart(free)) return false;
  const auto entry = entry_of(free);
  if (arena_.cap_hit()) return false;
  copy(*entry);
  for (u32 i = from; i < until; ++i) {
    if (scratch_->has(static_cast<u32>(mask.tokens[i]))) check_again(e, mask.tokens[i]);
  }
  for (std::size_t i = until; i < mask.tokens.size(); ++i) unset(mask.tokens[i]);
  return true;
}

// A text, or one in a string, that begins with at most n characters of a class, such as a label of a host name: the
// mask without the bound, minus the tokens that begin with more of them.
bool MaskBuilder::bounded_run(Id e) {
  if (arena_.has(e, kUnknownText | kHasScan | kHasLook) || arena_.first(e).words[2]) return false;
  const auto [head, tail] = unstack(arena_, e);
  const Node& n = arena_.node(head);
  const bool string = is_escaped(n);
  Abstraction::Run run;
  if (string && escapes_of(n) != Escapes::Canonical) return false;
  if (!Abstraction::of(arena_).open_run(string ? escaped_text(n) : e, run) || run.most <= kShortRun) return false;
  const CharSet::Ptr chars = arena_.charset_ptr(run.chars);
  if (string && CharSet::intersect(*chars, *raw_characters()) != chars) return false;
  const Id free = string ? arena_.concat(Escaped::of(arena_).escaped(run.text, Escapes::Canonical), tail) : run.text;
  const auto mask = class_mask(chars, 0);
  if (!without_longer(e, free, *mask, run.most, run.ending)) return false;
  for (const LongRun& one : long_runs(*mask)) {
    if (one.chars <= run.most) break;
    for (const u32 token : trie_.below(one.node)) unset(static_cast<int>(token));
  }
  return true;
}

// A text of at most n characters that would go on for any length without this bound: the mask without it, minus the
// tokens that are too long.
bool MaskBuilder::bounded_text(Id e) {
  const Node& n = arena_.node(e);
  if (n.kind == Kind::Repeat && arena_.node(n.body()).kind == Kind::Class) return false;  // a class mask does
  if (arena_.has(e, kUnknownText | kHasScan | kHasToken | kHasItem)) return false;
  Abstraction::Uncounted of;
  return Abstraction::of(arena_).uncounted(e, of) && of.most != kInf &&
         without_longer(e, of.text, *class_mask(CharSet::any(), 0), of.most, of.ending);
}

// A string of m to n more characters, of any kind. Its tokens are those that stay in a string of any text and read at
// most n characters, and those that leave such a string after m to n characters. If the text is constrained but goes
// on for any length: the mask without the lengths, minus the tokens of other lengths.
bool MaskBuilder::bounded_string(Id e) {
  if (arena_.node(e).kind != Kind::Concat || arena_.has(e, kUnknownText)) return false;
  const Id head = arena_.node(e).head(), tail = arena_.node(e).tail();
  if (!is_escaped(arena_.node(head))) return false;
  if (const ByteSet& first = arena_.first(tail); !first.has('"') || first.count() != 1) return false;
  auto any_repeat = [&](Id x) {
    const Node& n = arena_.node(x);
    return n.kind == Kind::Repeat && !n.b && arena_.node(n.body()).kind == Kind::Class &&
           arena_.charset_ptr(arena_.node(n.body()).a) == CharSet::any();
  };
  const Escapes mode = static_cast<Escapes>(arena_.node(head).min);
  const Id length = escaped_text(arena_.node(head));
  if (Abstraction::Uncounted of; Abstraction::of(arena_).uncounted(length, of)) return cut_strings(e, tail, of, mode);
  if (!any_repeat(length)) return false;
  const u32 min = arena_.node(length).min, max = arena_.node(length).max;
  if (min == 0 && max == kInf) return false;
  const Id any = arena_.concat(Escaped::of(arena_).escaped(arena_.any_text(), mode), tail);
  if (!may_draw_apart(any)) return false;
  const auto entry = entry_of(any);
  if (arena_.cap_hit()) return false;
  const std::vector<Leaving>& leaving = *leaving_of(any, *entry, mode);
  if (auto inside = vocabulary_.string_of(max, mode)) scratch_->add(inside);
  for (const Leaving& l : leaving) {
    if (l.chars < min || l.chars > max) continue;
    if (l.open)
      postponed_tokens_.push_back(l.token);
    else
      set(l.token);
  }
  return true;
}

bool MaskBuilder::bounded_strings(Id e, u32) {
  return blank() && (bounded_string(e) || bounded_text(e) || bounded_run(e));
}

}  // namespace guiderail
