// Capture(n, G, T) matches a text of G, then a text of T in which each Recall(n) stands for what G has matched:
//
//   capture(1, [a-z]+, "=" recall(1))   matches "ab=ab"
//
// No automaton has the memory for that, but a derivative has: a Capture remembers what it has read of its group.
//
//   d Capture(G, w, T) = Capture(dG, w·b, T) | T[w·b]   the second part only if dG matches the empty text
//
// where T[w] is T with w for each Recall. So the ways in which the group may end are alternatives side by side. A
// Recall whose text is known is spelled out only when it is read: most of these alternatives end before. Both T and
// T[w] match something for every w, so emptiness needs no search. For that, neither G nor T may hold intersections,
// complements or look-arounds.
#include "captures/captures.hpp"

#include <algorithm>

#include "base/work.hpp"

namespace guiderail {
namespace {
// The meaning of the numbers of a Capture: what is left of the group, what follows, the text so far, and the label.
// Those of a Recall: its text, and its label as long as that is not known.
Id group_of(const Node& n) { return Id{n.a}; }
Id rest_of(const Node& n) { return Id{n.b}; }
u32 text_of(const Node& n) { return n.min; }
u32 label_of(const Node& n) { return n.max; }
}  // namespace

Id Captures::recall(u32 label) {
  Draft d = draft(Kind::Recall);
  d.max = label;
  d.flags = kHasRecall;
  d.longest = kInf;
  return intern(d);
}

Id Captures::recalled(u32 text) {
  if (text == 0) return kEpsilon;
  Draft d = draft(Kind::Recall);
  d.min = text;
  d.flags = kHasCapture;
  d.shortest = d.longest = texts_[text].characters;
  return intern(d);
}

Id Captures::capture(u32 label, Id group, Id rest) {
  if (has(group, kSearch | kHasLook | kHasRef | kHasToken) || has(rest, kSearch | kHasLook | kHasRef | kHasToken))
    throw Error("not-regular",
                "a captured group and what follows it can hold no intersection, complement, look-around, rule or "
                "special token");
  if (!has(rest, kHasRecall)) return concat(group, rest);
  made_ = true;
  return captured(label, group, 0, rest);
}

// The group has read the text so far. It ends here if it can, or reads more.
Id Captures::captured(u32 label, Id group, u32 text, Id rest) {
  if (group == kEmpty || rest == kEmpty) return kEmpty;
  Id more = kEmpty;
  if (group != kEpsilon) {
    Draft d = draft(Kind::Capture);
    d.a = index_of(group);
    d.b = index_of(rest);
    d.min = text;
    d.max = label;
    absorb(d, rest, true);
    std::vector<u32> bound{label};
    if (!open(rest, bound)) d.flags &= ~u32{kHasRecall};
    absorb(d, group, true);
    d.flags |= kHasCapture;
    const u32 more_text = std::max(node(group).shortest, 1u);
    d.shortest = add_sat(more_text, shortest_with(rest, label, add_sat(texts_[text].characters, more_text)));
    d.longest = kInf;
    more = intern(d);
  }
  return nullable(group) ? unite(more, filled(rest, label, recalled(text))) : more;
}

Id Captures::derivative(Id e, u8 byte) {
  const Node& n = node(e);
  if (n.kind == Kind::Recall) {  // without a text, it stands for nothing until its group has ended
    const u32 text = text_of(n);
    return text != 0 && texts_[text].first == byte ? literal(spelled_out(text).substr(1)) : kEmpty;
  }
  const Id group = derive(group_of(n), byte);
  return group == kEmpty ? kEmpty : captured(label_of(n), group, with(text_of(n), byte), rest_of(n));
}

ByteSet Captures::first_bytes(Id e) {
  const Node& n = node(e);
  if (n.kind == Kind::Capture) return first(group_of(n));
  ByteSet out;
  if (text_of(n) != 0) out.add(texts_[text_of(n)].first);
  return out;
}

Id Captures::without_text(Id e, Id unknown) {
  const Node& n = node(e);
  return n.kind == Kind::Recall ? unknown : concat(group_of(n), filled(rest_of(n), label_of(n), unknown));
}

// e with a text for each recall of this label.
Id Captures::filled(Id e, u32 label, Id text) {
  if (!has(e, kHasRecall)) return e;
  Work::spend();
  const Node& n = node(e);
  const auto fill = [&](Id part) { return filled(part, label, text); };
  switch (n.kind) {
    case Kind::Recall: return label_of(n) == label ? text : e;
    case Kind::Concat: return mapped_parts(e, kHasRecall, fill);
    case Kind::Union: return unite(mapped(e, fill));
    case Kind::Repeat: return repeat(fill(n.body()), n.min, n.max);
    default: break;
  }
  const Id rest = label_of(n) == label ? rest_of(n) : fill(rest_of(n));
  return captured(label_of(n), fill(group_of(n)), text_of(n), rest);
}

// The characters of a shortest match of e, if the text of each recall of this label has that many: a lower bound.
u32 Captures::shortest_with(Id e, u32 label, u32 characters) const {
  const Node& n = node(e);
  if (!has(e, kHasRecall)) return n.shortest;
  Work::spend();
  const auto of = [&](Id part) { return shortest_with(part, label, characters); };
  switch (n.kind) {
    case Kind::Recall: return label_of(n) == label ? characters : 0;
    case Kind::Concat: return add_sat(of(n.head()), of(n.tail()));
    case Kind::Union: {
      u32 out = kInf;
      for (Id m : operands(e)) out = std::min(out, of(m));
      return out;
    }
    case Kind::Repeat: return mul_sat(of(n.body()), n.min);
    default: break;
  }
  return label_of(n) == label ? n.shortest : add_sat(std::max(node(group_of(n)).shortest, 1u), of(rest_of(n)));
}

// Does e hold a recall of a label that is not among these?
bool Captures::open(Id e, std::vector<u32>& bound) const {
  if (!has(e, kHasRecall)) return false;
  Work::spend();
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Recall: return std::find(bound.begin(), bound.end(), label_of(n)) == bound.end();
    case Kind::Concat: return open(n.head(), bound) || open(n.tail(), bound);
    case Kind::Union: {
      for (Id m : operands(e))
        if (open(m, bound)) return true;
      return false;
    }
    case Kind::Repeat: return open(n.body(), bound);
    default: break;
  }
  if (open(group_of(n), bound)) return true;
  bound.push_back(label_of(n));
  const bool found = open(rest_of(n), bound);
  bound.pop_back();
  return found;
}

// -- texts --
u32 Captures::with(u32 text, u8 byte) {
  const u64 key = u64{text} << 8 | byte;
  if (const u32* known = known_.find(key)) return *known;
  const u32 id = static_cast<u32>(texts_.size());
  const Text& from = texts_[text];
  texts_.push_back({text, from.characters + (is_continuation(byte) ? 0u : 1u), text == 0 ? byte : from.first, byte});
  try {
    known_.set(key, id);
  } catch (...) {
    texts_.pop_back();
    throw;
  }
  return id;
}

std::string Captures::spelled_out(u32 text) const {
  std::string out;
  for (; text != 0; text = texts_[text].before) out.push_back(static_cast<char>(texts_[text].last));
  Work::spend(1 + out.size() / 4);
  std::reverse(out.begin(), out.end());
  return out;
}

// -- the rest of the interface --
void Captures::describe(Id e, Description& to) const {
  const Node& n = node(e);
  to.word(label_of(n));
  to.text(spelled_out(text_of(n)));
  if (n.kind == Kind::Recall) return;
  to.part(group_of(n));
  to.part(rest_of(n));
}

std::vector<DumpItem> Captures::dump(Id e) const {
  const Node& n = node(e);
  const std::string label = std::to_string(label_of(n));
  if (n.kind == Kind::Recall) return {{text_of(n) != 0 ? "the text captured" : "recall" + label}};
  return {{"capture" + label + "("}, {"", group_of(n)}, {", "}, {"", rest_of(n)}, {")"}};
}

// Any byte may become one of a recalled text.
void Captures::split_bytes(ByteSet& starts) {
  if (made_) starts.add_range(0, 255);
}

void Captures::fresh(Arena& arena) const {
  Captures& to = of(arena);
  to.texts_.assign(texts_.begin(), texts_.begin() + extent_);
  for (u32 text = 1; text < extent_; ++text) to.known_.set(u64{texts_[text].before} << 8 | texts_[text].last, text);
  to.extent_ = extent_;
  to.made_ = made_;
}

void Captures::count(Tally& to) const { to.add("captured texts", bytes_of(texts_) + known_.memory()); }

}  // namespace guiderail
