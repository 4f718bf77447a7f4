// Class masks made from those of larger classes. If a class lacks only few characters (blanks, a slash), its part of
// the trie is almost that of all characters: only the nodes reached by the missing characters are examined.
#include <algorithm>
#include <span>

#include "text/escape.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {
namespace {

void clear_range(PagedVector<u64>& bits, u32 from, u32 to) {
  const u64 first = ~u64{0} << (from & 63), last = (u64{1} << (to & 63)) - 1;
  if (from >> 6 == to >> 6) {
    bits[from >> 6] &= ~(first & last);
    return;
  }
  bits[from >> 6] &= ~first;
  std::fill(bits.begin() + (from >> 6) + 1, bits.begin() + (to >> 6), 0);
  if (to & 63) bits[to >> 6] &= ~last;
}
}  // namespace

// Null: no larger class is at hand that differs little.
std::shared_ptr<ClassMask> Vocabulary::cut_class(const CharSet::Ptr& chars, u32 root) {
  const auto& nodes = trie_.nodes;
  const u32 end = nodes[root].end;
  if (character_index_.empty() || end - root < kWorthCutting || !nodes[root].whole || chars->ranges().empty())
    return nullptr;
  std::shared_ptr<const ClassMask> base;
  for (const CharSet::Ptr& larger : {raw_characters(), CharSet::any()}) {
    std::lock_guard lock(mutex_);
    const Cached* known = larger->covers(*chars) ? cache_.find(class_key(larger.get(), root)) : nullptr;
    if (!known) continue;
    base = known->classes;
    break;
  }
  if (!base || !base->dense) return nullptr;
  // The bytes that begin a character of the larger class that this class lacks.
  const ByteSet leads = CharSet::intersect(*base->chars, *CharSet::invert(*chars))->first();
  Words cut(words(), 0);                       // tokens to remove
  std::vector<std::span<const u32>> suspects;  // nodes that such a byte leads to
  std::size_t count = 0;
  for (unsigned b = 0; b < 256; ++b) {
    if (!leads.has(static_cast<u8>(b))) continue;
    if (root == 0 && b < 0x80) character_index_.add_users(static_cast<u8>(b), cut);
    const std::vector<u32>& all = character_index_.nodes_at(static_cast<u8>(b));
    const auto from = std::upper_bound(all.begin(), all.end(), root), to = std::lower_bound(from, all.end(), end);
    suspects.emplace_back(all.data() + (from - all.begin()), static_cast<std::size_t>(to - from));
    count += suspects.back().size();
  }
  if (count > (end - root) / kMostCutShare) return nullptr;
  auto out = std::make_shared<ClassMask>();
  out->chars = chars;
  out->root = root;
  out->alive = base->alive;
  PagedVector<u32> boundary;
  const auto& automaton = chars->automaton();
  auto leave = [&](u32 n) {
    boundary.push_back(n);
    clear_range(out->alive, n - root, nodes[n].end - root);
    if (root == 0 && nodes[n].byte < 0x80) return;  // see add_users()
    for (u32 token : trie_.below(n)) set_bit(cut, token);
  };
  std::vector<u8> known(automaton.size(), 2);
  auto whole = [&](auto& self, u16 state) -> bool {  // do all endings of the character lie in the class?
    if (state <= CharSet::kDone) return state == CharSet::kDone;
    if (known[state] == 2) {
      known[state] = 1;
      for (unsigned b = 0x80; b < 0xC0 && known[state]; ++b) known[state] = self(self, automaton[state][b]);
    }
    return known[state];
  };
  auto look = [&](auto& self, u32 n, u16 state) -> void {  // within a character of the larger class
    if (!out->is_alive(n)) return;
    const u16 s = automaton[state][nodes[n].byte];
    if (s == CharSet::kDead) return leave(n);
    if (whole(whole, s)) return;
    for (u32 c = n + 1; c < nodes[n].end; c = nodes[c].end) self(self, c, s);
  };
  if (root == 0)
    for (unsigned b = 0; b < 256; ++b)
      if (leads.has(static_cast<u8>(b)) && roots_[b] != kNoFan) look(look, roots_[b], CharSet::kStart);
  for (const auto& some : suspects)
    for (u32 n : some) look(look, n, CharSet::kStart);
  // What leaves the larger class leaves this one, too. Nothing counts below a node that is cut.
  for (u32 n : base->exits)
    if (!base->is_alive(n)) boundary.push_back(n);
  boundary.insert(boundary.end(), base->splits.begin(), base->splits.end());
  for (u32 c = root + 1; c < end; c = nodes[c].end)
    if (!base->is_alive(c)) boundary.push_back(c);
  std::erase_if(boundary, [&](u32 n) { return !out->is_alive(trie_.parents[n]); });
  std::sort(boundary.begin(), boundary.end());
  out->dense = [&] {
    auto dense = std::make_shared<Words>(*base->dense);
    for (std::size_t i = 0; i < cut.size(); ++i) (*dense)[i] &= ~cut[i];
    return dense;
  }();
  out->tokens.reserve(base->tokens.size());
  for (u32 chars_read = 0, i = 0; chars_read < base->upto.size(); ++chars_read) {
    for (; i < base->upto[chars_read]; ++i)
      if (!bit(cut, base->tokens[i])) out->tokens.push_back(base->tokens[i]);
    if (chars_read == 0 || out->tokens.size() > out->upto.back()) out->most = chars_read;
    out->upto.push_back(static_cast<u32>(out->tokens.size()));
  }
  out->upto.resize(out->most + 1);
  find_exits(*out, boundary);
  return out;
}

}  // namespace guiderail
