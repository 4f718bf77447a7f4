// Masks inside strings and keys: strings that any character may follow, strings composed of their text and what follows
// it, and classes of characters found through the character index.
#include <algorithm>

#include "expr/outside.hpp"
#include "json/patterned.hpp"
#include "mask/in_progress.hpp"
#include "mask/mask.hpp"

namespace guiderail {
// Can any continuation still become a match of the text? So with any* x, or with all but finitely many texts.
bool MaskBuilder::takes_any(Id text, int depth) {
  const Node& n = arena_.node(text);
  if (depth > kMostTextNesting) return false;
  switch (n.kind) {
    case Kind::Repeat: {
      const u32 set = arena_.endless_class(text);
      return set != kNone && arena_.charset_ptr(set) == CharSet::any();
    }
    case Kind::Concat: return takes_any(n.head(), depth + 1) && arena_.live(text);
    case Kind::Patterned: return Patterned::of(arena_).never_fails(text);
    case Kind::Union: {
      Ids members(arena_.operands(text));
      return std::any_of(members.begin(), members.end(), [&](Id m) { return takes_any(m, depth + 1); });
    }
    case Kind::And: {
      bool any = false;
      for (Id m : arena_.operands(text)) {
        const Node& one = arena_.node(m);
        if (one.kind == Kind::Not ? arena_.node(one.body()).longest == kInf : !takes_any(m, kMostTextNesting))
          return false;
        any = any || one.kind != Kind::Not;
      }
      return any;
    }
    default: return false;
  }
}

// Does every character lead only to texts that every character may follow? (In [a-z]* [^a-z] .*, every text can be
// continued, although it may need one more character.)
bool MaskBuilder::never_dies(Id text) {
  ByteSet first = CharSet::any()->first();
  first &= arena_.first(text);
  if (first.count() != CharSet::any()->first().count() || arena_.has(text, kHasLook | kBigRepeat | kBigGroup))
    return false;
  if (auto it = never_dies_.find(text); it != never_dies_.end()) return it->second;
  const auto& any = CharSet::any()->automaton();
  const bool hit_before = arena_.cap_hit();
  std::vector<std::pair<Id, u16>> seen{{text, CharSet::kStart}};  // with the position inside a character
  bool all = true;
  for (std::size_t i = 0; i < seen.size() && all; ++i) {
    const auto [state, at] = seen[i];
    for (unsigned b = 0; b < 256 && all; ++b) {
      const u16 to = any[at][b];
      if (to == CharSet::kDead) continue;
      const Id next = arena_.step_text(state, static_cast<u8>(b));
      const std::pair<Id, u16> pair{next, to == CharSet::kDone ? CharSet::kStart : to};
      if (next != kEmpty && std::find(seen.begin(), seen.end(), pair) == seen.end()) seen.push_back(pair);
      all = next != kEmpty && !arena_.has(next, kUnknownText) && seen.size() <= kMostTexts;
    }
  }
  if (!hit_before) arena_.clear_cap_hit();  // then the answer is no, which is never wrong
  never_dies_[text] = all;
  return all;
}

// Is e made only of strings and keys in progress? `all`: some of them may continue with any character.
bool MaskBuilder::reads_any(Id e, bool& all) {
  return each_in_progress(arena_, e, [&](const InProgress& part) {
    if (part.what == InProgress::What::Item) return false;
    Ids texts;
    if (part.what == InProgress::What::String)
      texts.push_back(escaped_text(arena_.node(part.e)));
    else if (!Json::of(arena_).key_in_progress(part.e, texts))
      return false;
    for (Id text : texts) all = all || (text != kEmpty && (takes_any(text, 0) || never_dies(text)));
    return true;
  });
}

// Strings that any character may follow: all tokens of such characters, plus those tokens that leave the string, each
// traced from its beginning. If no character makes a difference, they leave it from one state.
bool MaskBuilder::absorbing_strings(Id e, u32 node) {
  bool all = false;
  if (arena_.has(e, kUnknownText) || !reads_any(e, all) || !all) return false;
  if (self_loop(e).chars == raw_characters()) return self_loops(e, node);
  const Shared shared(*this);
  auto mask = class_mask(raw_characters(), node);
  add(*mask, kInf);
  ShortVector<u32, 512> exits;
  for (u8 byte : {static_cast<u8>('"'), static_cast<u8>('\\')}) {
    exits.append({mask->exits.data() + mask->exit_at[byte], mask->exits.data() + mask->exit_at[byte + 1u]});
    if (const u32 at = vocabulary_.child(node, byte); at != kNoFan) exits.push_back(at);
  }
  std::sort(exits.begin(), exits.end());
  struct Read {
    u32 node;
    Id state;
  };
  ShortVector<Read, 16> path{{node, e}};  // from `node` downwards
  ShortVector<u32, 16> down;
  for (u32 at : exits) {
    while (trie_.nodes[path.back().node].end <= at) path.pop_back();
    down.clear();
    for (u32 n = at; n != path.back().node; n = trie_.parents[n]) down.push_back(n);
    Id s = path.back().state;
    for (std::size_t i = down.size(); i-- > 0 && s != kEmpty;) {
      s = step(s, trie_.nodes[down[i]].byte);
      if (i > 0) path.push_back({down[i], s});
    }
    if (s != kEmpty) enter(s, at);
  }
  return true;
}

// A string h " t, perhaps before its opening quote. The first quote ends it whatever h and t are, so its texts are
// those that h " any* and any* " t have in common, and its tokens are those that both of these allow. The one mask
// belongs to the text, the other to what follows: of m texts before n continuations, m + n masks are drawn. Not for
// texts that few bytes begin, which a walk reads at once.
bool MaskBuilder::composed_strings(Id e, u32) {
  if (!blank() || arena_.has_raw_bytes() || arena_.has(e, kUnknownText | kHasScan | kHasLook)) return false;
  if (alternative_strings(e)) return true;
  auto opens = [&](Id part) {
    std::string opening;
    return arena_.is_literal(part, &opening) && opening == "\"";
  };
  auto may_precede = [&](Id part) {
    char blank = 0;
    return optional_blank(part, blank) && blank == ' ';
  };
  Ids until;  // the end of the text
  Id tail = e;
  bool string = false;
  while (!string) {
    if (arena_.node(tail).kind != Kind::Concat) return false;
    const Id part = arena_.node(tail).head();
    string = is_escaped(arena_.node(part));
    if (!string && (until.size() == 2 || !(opens(part) || (until.empty() && may_precede(part))))) return false;
    until.push_back(part);
    tail = arena_.node(tail).tail();
  }
  const ByteSet begins = arena_.first(until.back());
  if (!summary_part(until.back()) || static_cast<unsigned>(begins.count()) < kSmallLoop) return false;
  if (begins.words[2]) return false;  // inside a character, which any* does not continue
  if (const ByteSet& first = arena_.first(tail); !first.has('"') || first.count() != 1) return false;
  const Id any = Escaped::of(arena_).escaped(arena_.any_text(), escapes_of(arena_.node(until.back())));
  static const CharSet::Ptr quote = CharSet::make({{'"', '"'}});
  const Id ended = arena_.concat(arena_.char_class(quote), arena_.any_text());
  if (until.back() == any || tail == ended) return false;
  auto followed_by = [&](Id last) { return arena_.concat(arena_.concat_all(until), last); };
  const Id text = followed_by(ended);
  until.pop_back();
  until.push_back(any);
  const Id rest = followed_by(tail);
  if (!may_draw_apart(text) || !may_draw_apart(rest)) return false;
  const auto allowed = entry_of(text), after = entry_of(rest);
  if (arena_.cap_hit()) return false;
  copy(*allowed);
  postponed_.insert(postponed_.end(), after->open_nodes.begin(), after->open_nodes.end());
  for (int token : after->open_tokens)
    if (scratch_->has(static_cast<u32>(token))) postponed_tokens_.push_back(token);
  scratch_->intersect(after->base.get(), after->diff);
  return true;
}

// Strings of bounded length that are alternatives, such as keys of two kinds: the tokens that any of them allows.
bool MaskBuilder::alternative_strings(Id e) {
  const auto [head, tail] = unstack(arena_, e);
  if (arena_.node(head).kind != Kind::Union || arena_.operands(head).size() > kMostStrings) return false;
  std::vector<std::shared_ptr<const MaskEntry>> entries;
  Ids ways(arena_.operands(head));
  for (Id& way : ways) {
    way = arena_.concat(way, tail);
    const Node& string = arena_.node(unstack(arena_, way).head);
    if (!is_escaped(string) || arena_.node(escaped_text(string)).longest == kInf || !may_draw_apart(way)) return false;
  }
  for (Id way : ways) entries.push_back(entry_of(way));
  if (arena_.cap_hit()) return false;
  copy(*entries[0]);
  for (const auto& entry : std::span(entries).subspan(1)) {
    scratch_->unite(entry->base.get(), entry->diff);
    postponed_.insert(postponed_.end(), entry->open_nodes.begin(), entry->open_nodes.end());
    postponed_tokens_.insert(postponed_tokens_.end(), entry->open_tokens.begin(), entry->open_tokens.end());
  }
  return true;
}

// Adds the tokens of a class, and those that leave it by bytes on none of its paths. False: there are too many exits.
bool MaskBuilder::leave_all(const SpelledClass& of, const Ways& ways) {
  CharacterIndex& index = vocabulary_.character_index();
  for (auto [byte, next] : ways)
    if (index.many_exits(byte)) return false;
  bool added = false;
  for (auto [byte, next] : ways) {
    auto exits = index.exits(byte, trie_);
    if (postpone_exits(*exits->trie, next, 0)) continue;
    const bool first = !added && !scratch_->touched();
    if (first) scratch_->add(index.dense_with(of, byte, *exits));
    added = added || first;
    const Spelled only{exits->before, of.letters};
    walk_exits(*exits->trie, next, &only, !first);
  }
  if (!added) scratch_->add(of.dense);
  return true;
}

// run_loop() for a class without a class mask. False: impossible.
bool MaskBuilder::run_spelled(const Loop& loop) {
  if (loop.min > 1 || loop.max != kInf) return false;
  auto of = vocabulary_.spelled_class(loop.chars);
  if (!of) return false;
  const ByteSet first = loop.tail == kEmpty ? ByteSet{} : arena_.first(loop.tail), &inside = loop.chars->first();
  Ways ways, before;
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    const bool other = loop.other.has(byte);
    if (!other && !first.has(byte)) continue;
    if (inside.has(byte)) return false;
    if (const Id next = step(other ? after(loop, 1) : loop.tail, byte);
        next != kEmpty && !vocabulary_.character_index().no_exits(byte))
      ways.push_back({byte, next});
    if (other) before.push_back({byte, loop.whole});
  }
  if (!leave_all(*of, ways)) return false;
  for (auto [byte, from] : before) {  // before any character of the class
    const u32 at = vocabulary_.child(0, byte);
    if (at == kNoFan) continue;
    if (const Id next = step(from, byte); next != kEmpty) enter(next, at);
  }
  return true;
}

// self_loops() for a class without a class mask. False: impossible.
bool MaskBuilder::semantic_spelled(const SelfLoop& loop, Id e) {
  auto of = vocabulary_.spelled_class(loop.chars);
  if (!of) return false;
  const ByteSet &inside = loop.chars->first(), first = arena_.first(loop.inside);
  Ways ways;
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (inside.has(byte) || !first.has(byte) || vocabulary_.character_index().no_exits(byte)) continue;
    if (const Id next = step(loop.inside, byte); next != kEmpty) ways.push_back({byte, next});
  }
  if (!leave_all(*of, ways)) return false;
  return trie_.each_child(0, [&](u32 c, u8 byte) {
    if (inside.has(byte)) return true;
    if (const Id next = step(e, byte); next != kEmpty) enter(next, c);
    return true;
  });
}

std::shared_ptr<ClassMask> MaskBuilder::class_mask(const CharSet::Ptr& chars, u32 node) {
  if (auto known = vocabulary_.known_class_mask(chars, node)) return known;
  if (arena_.cap_hit()) return vocabulary_.class_mask(chars, node);  // cap_hit() would hold for others, too
  const Arena::Outside outside(arena_);
  return vocabulary_.class_mask(chars, node);
}

std::shared_ptr<const ExitTrie> MaskBuilder::exit_trie(ClassMask& mask, u8 byte) {
  if (auto known = vocabulary_.known_exit_trie(mask, byte)) return known;
  if (arena_.cap_hit()) return vocabulary_.exit_trie(mask, byte);
  const Arena::Outside outside(arena_);
  return vocabulary_.exit_trie(mask, byte);
}

}  // namespace guiderail
