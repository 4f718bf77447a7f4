// How byte-pair encodings spell: the tree of each token, the pairs that merges forbid, masks of pieces.
#include "vocab/spelling.hpp"

#include <algorithm>

#include "base/work.hpp"
#include "text/escape.hpp"

namespace guiderail {

namespace {
u64 pair_of(u32 a, u32 b) { return u64{a} << 32 | b; }
}  // namespace

Spelling::Spelling(std::shared_ptr<Vocabulary> vocabulary, const Merges& given, Pretokens pretokens)
    : vocabulary_(std::move(vocabulary)),
      pretokens_(std::move(pretokens)),
      whole_(given.whole),
      trees_(vocabulary_->token_count()),
      separate_(given.separate, given.closed),
      own_(vocabulary_->words(), 0),
      rows_(vocabulary_->token_count()) {
  for (const std::string& text : given.separate) {
    for (const char c : text) separate_bytes_.add(static_cast<u8>(c));
    const int token = vocabulary_->find(text);
    if (token >= 0) separate_tokens_.insert(static_cast<u32>(token));
    if (token >= 0 && given.by_character && !given.closed)
      writes_separate_ = true;
    else
      separate_texts_.push_back(text);
  }
  if (writes_separate_)
    for (u32 token : separate_tokens_)
      if (separate_.pass(0, vocabulary_->bytes(token)) == 0) apart_.push_back(token);
  const Merges merges = inward(given);
  plant(merges);
  sort_disorderly();
  order();
  sort_shapes();
  sort_broken();
  hold_odd();
  for (unsigned b = 0; b < 256; ++b)
    if (const std::int64_t token = merges.bytes[b]; token >= 0 && trees_[static_cast<u32>(token)].made)
      bytes_.add(static_cast<u8>(b));
  for (u32 t = 0; t < vocabulary_->size(); ++t) {
    if (t < vocabulary_->token_count() && vocabulary_->bytes(t).size() + 2 > vocabulary_->longest())
      longest_.push_back(t);
    if (is_piece(t)) continue;
    if (no_text_.empty() || no_text_.back().first != t >> 5) no_text_.push_back({t >> 5, 0});
    no_text_.back().second |= 1u << (t & 31);
  }
  place(Pretokens::kDead, 0);
  place(Pretokens::kFresh, 0);
}

// The same merges. Of tokens with the same text, the first stands for the others.
Merges Spelling::inward(Merges merges) {
  const u32 count = vocabulary_->token_count();
  if (merges.bytes.size() != 256 || merges.left.size() != merges.made.size() ||
      merges.right.size() != merges.made.size() || merges.rank.size() != merges.made.size())
    throw Error("bad-range", "merges are lists of one length, and a token of each byte");
  if (!merges.by_character) return merges;
  std::unordered_map<u32, u32> used;
  const auto lead = [&](auto& token) {
    if (static_cast<u32>(token) >= count)
      throw Error("vocabulary-token", "a merge names a token that the vocabulary does not have");
    const u32 own = static_cast<u32>(token);
    const int first = vocabulary_->find(vocabulary_->bytes(own));
    if (!vocabulary_->is_text(own) || first < 0) return;
    const auto [it, fresh] = used.try_emplace(static_cast<u32>(first), own);
    if (it->second != own) throw Error("bad-range", "two tokens that it makes have the same text");
    if (static_cast<u32>(first) == own) return;
    if (fresh) {
      inward_.emplace(own, static_cast<u32>(first));
      inward_.emplace(static_cast<u32>(first), kNoToken);
      outward_.push_back({static_cast<u32>(first), own});
    }
    token = static_cast<std::remove_reference_t<decltype(token)>>(first);
  };
  for (auto* tokens : {&merges.left, &merges.right, &merges.made, &merges.added})
    for (u32& token : *tokens) lead(token);
  const auto is = [&](auto token, std::string_view text) {
    if (static_cast<u64>(token) >= count || vocabulary_->bytes(static_cast<u32>(token)) != text)
      throw Error("bad-range", "the token of a character or a byte has another text");
  };
  for (auto& [code, token] : merges.characters) {
    is(token, utf8(code));
    lead(token);
    characters_.emplace(code, token);
  }
  for (u32 b = 0; b < 256; ++b)
    if (merges.bytes[b] >= 0) {
      is(merges.bytes[b], std::string(1, static_cast<char>(b)));
      if (b < 0x80) lead(merges.bytes[b]);
    }
  for (u32 i = 0; i < merges.made.size(); ++i) {
    const std::string_view made = vocabulary_->bytes(merges.made[i]), left = vocabulary_->bytes(merges.left[i]);
    if (!made.starts_with(left) || made.substr(left.size()) != vocabulary_->bytes(merges.right[i]))
      throw Error("bad-range", "a merge makes a token whose text is not that of its parts");
  }
  return merges;
}

void Spelling::outward(u32* words) const {
  for (const auto& [first, own] : outward_) {
    const u32 bit = words[first >> 5] >> (first & 31) & 1;
    words[first >> 5] &= ~(1u << (first & 31));
    words[own >> 5] = (words[own >> 5] & ~(1u << (own & 31))) | bit << (own & 31);
  }
}

// The parts that merging a text starts from. Empty: the text has a byte without a token.
std::vector<u32> Spelling::parts_of(const Merges& merges, std::string_view text) const {
  std::vector<u32> parts;
  for (std::size_t i = 0; i < text.size();) {
    const u8 first = static_cast<u8>(text[i]);
    const std::size_t n = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (n > 1 && is_utf8(text.substr(i, n))) {
      u32 code = first & (0xFFu >> (n + 1));
      for (std::size_t k = 1; k < n; ++k) code = code << 6 | (static_cast<u8>(text[i + k]) & 0x3F);
      if (const auto it = characters_.find(code); it != characters_.end()) {
        parts.push_back(it->second);
        i += n;
        continue;
      }
    }
    const std::int64_t token = merges.bytes[first];
    if (token < 0) return {};
    parts.push_back(static_cast<u32>(token));
    ++i;
  }
  return parts;
}

// Merges the text of each token alone: a token has the same tree everywhere.
void Spelling::plant(const Merges& merges) {
  const u32 count = vocabulary_->token_count();
  std::unordered_map<u64, u32> merge_of;
  merge_of.reserve(2 * merges.made.size());
  for (u32 i = 0; i < merges.made.size(); ++i) {
    if (std::max({merges.left[i], merges.right[i], merges.made[i]}) >= count)
      throw Error("vocabulary-token", "a merge names a token that the vocabulary does not have");
    merge_of.emplace(pair_of(merges.left[i], merges.right[i]), i);
  }
  for (u32 t = 0; t < count; ++t) {
    if (!is_piece(t)) continue;
    std::vector<u32> parts = parts_of(merges, vocabulary_->bytes(t));
    Tree tree;
    while (parts.size() > 1) {
      Work::spend(1 + parts.size() / 8);
      std::size_t best = 0;
      u32 least = kNone, merge = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i)
        if (auto it = merge_of.find(pair_of(parts[i], parts[i + 1]));
            it != merge_of.end() && merges.rank[it->second] < least) {
          merge = it->second;
          least = merges.rank[merge];
          best = i;
        }
      if (least == kNone) break;
      tree = {parts[best], parts[best + 1], least, false};
      parts[best] = merges.made[merge];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    if (parts.size() != 1 || parts[0] != t) continue;
    tree.made = true;
    trees_[t] = tree;
    set_bit(own_, t);
    if (tree.left != kNone) made_of_.set(pair_of(tree.left, tree.right), t);
  }
  for (u32 t = 0; t < count; ++t)
    if (!trees_[t].made && whole_ && is_piece(t)) odd_.push_back(t);
}

// Finds the tokens with a merge that precedes a merge of its parts.
void Spelling::sort_disorderly() {
  std::vector<u32> order;
  for (u32 t = 0; t < trees_.size(); ++t)
    if (trees_[t].made && trees_[t].left != kNone) order.push_back(t);
  std::sort(order.begin(), order.end(),
            [&](u32 a, u32 b) { return vocabulary_->bytes(a).size() < vocabulary_->bytes(b).size(); });
  std::unordered_map<u32, std::vector<u32>> bound_before;
  for (u32 t : order) bound_before[trees_[t].right].push_back(trees_[t].left);
  for (u32 t : order) {
    Tree& tree = trees_[t];
    for (u32 part : {tree.left, tree.right}) {
      const Tree& of = trees_[part];
      tree.orderly = tree.orderly && of.orderly && (of.left == kNone || of.rank < tree.rank);
    }
    if (tree.orderly) continue;
    disorderly_.push_back(t);
    disorderly_of_[tree.left].push_back(t);
    std::set<u32> before;
    for (u32 y = t; y != kNone; y = trees_[y].left)
      if (auto it = bound_before.find(y); it != bound_before.end()) before.insert(it->second.begin(), it->second.end());
    for (u32 x : before) disorderly_after_[x].push_back(t);
  }
}

// Orders tokens by their left spines: tokens whose tree begins with a token follow it, by the rank of the merge that
// absorbs it.
void Spelling::order() {
  const u32 count = vocabulary_->token_count();
  began_by_.resize(count);
  begin_.assign(count, 0);
  end_.assign(count, 0);
  for (u32 t = 0; t < count; ++t)
    if (trees_[t].made && trees_[t].left != kNone) began_by_[trees_[t].left].push_back(t);
  for (auto& tokens : began_by_)
    std::sort(tokens.begin(), tokens.end(), [&](u32 a, u32 b) { return trees_[a].rank < trees_[b].rank; });
  std::vector<std::pair<u32, u32>> stack;  // token, number of visited children
  for (u32 root = 0; root < count; ++root) {
    if (!trees_[root].made || trees_[root].left != kNone) continue;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [token, done] = stack.back();
      if (done == 0) {
        begin_[token] = static_cast<u32>(ordered_.size());
        ordered_.push_back(token);
      }
      if (done < began_by_[token].size()) {
        const u32 child = began_by_[token][done++];
        stack.push_back({child, 0});
      } else {
        end_[token] = static_cast<u32>(ordered_.size());
        stack.pop_back();
      }
    }
  }
}

void Spelling::sort_shapes() {
  const u32 count = vocabulary_->token_count();
  std::map<std::string, std::vector<u32>> by_atoms;
  shape_of_.assign(count, kNone);
  std::string atoms;
  for (u32 t = 0; t < count; ++t) {
    if (!is_piece(t)) continue;
    const std::string_view text = vocabulary_->bytes(t);
    if (!is_utf8(text)) {
      broken_.push_back({t, {}, 0, 0, false});
      continue;
    }
    atoms.clear();
    for (std::size_t i = 0; i < text.size();) {
      const u8 first = static_cast<u8>(text[i]);
      const std::size_t n = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
      u32 code = n == 1 ? first : first & (0xFFu >> (n + 1));
      for (std::size_t k = 1; k < n; ++k) code = code << 6 | (static_cast<u8>(text[i + k]) & 0x3F);
      atoms.push_back(static_cast<char>(pretokens_.atom(code)));
      i += n;
    }
    by_atoms[atoms].push_back(t);
  }
  for (auto& [key, tokens] : by_atoms) {
    for (u32 t : tokens) shape_of_[t] = static_cast<u32>(shapes_.size());
    const std::string before = shapes_.empty() ? std::string() : shapes_.back().atoms;
    const auto end = std::mismatch(key.begin(), key.end(), before.begin(), before.end()).first;
    alike_.push_back(static_cast<u32>(end - key.begin()));
    shapes_.push_back({key, std::move(tokens)});
  }
  std::stable_sort(broken_.begin(), broken_.end(),  // shortest first
                   [&](const Broken& a, const Broken& b) {
                     return vocabulary_->bytes(a.token).size() < vocabulary_->bytes(b.token).size();
                   });
}

// A piece of several tokens must not equal the text of a token that can only be a whole piece. A number describes the
// piece so far: 0 nothing, 1 no prefix of such a text, 2 + 2 n node n of their trie, and 3 + 2 n the same after several
// tokens.
void Spelling::hold_odd() {
  if (odd_.empty()) return;
  odd_trie_.emplace_back();
  std::vector<u32> ends;
  for (u32 token : odd_) {
    u32 at = 0;
    for (char c : vocabulary_->bytes(token)) {
      const auto [it, fresh] = odd_trie_[at].try_emplace(static_cast<u8>(c), static_cast<u32>(odd_trie_.size()));
      at = it->second;
      if (fresh) odd_trie_.emplace_back();
    }
    ends.push_back(at);
  }
  std::vector<bool> held(2 * odd_trie_.size() + 2);
  for (u32 node : ends) held[2 * node + 3] = true;
  pretokens_.hold(std::move(held));
}

// The tokens that bring a piece to the end of such a text, or closer to it.
const std::vector<u32>& Spelling::ends_below(u32 node) {
  if (const auto known = ends_below_.find(node); known != ends_below_.end()) return known->second;
  std::vector<u32> found;
  std::vector<std::pair<u32, u32>> open{{node, 0}};  // nodes of the trie of texts, and of the trie of tokens
  while (!open.empty()) {
    const auto [at, from] = open.back();
    open.pop_back();
    for (const auto& [byte, next] : odd_trie_[at]) {
      const u32 to = vocabulary_->child(from, byte);
      if (to == kNoFan) continue;
      if (const int token = vocabulary_->trie().nodes[to].token; token >= 0) found.push_back(static_cast<u32>(token));
      open.push_back({next, to});
    }
  }
  return ends_below_.emplace(node, std::move(found)).first->second;
}

// The same state without numbers, which matter only if a piece may not end.
Pretokens::State Spelling::untagged(Pretokens::State state) {
  if (odd_.empty()) return state;
  if (auto it = untagged_.find(state); it != untagged_.end()) return it->second;
  const Pretokens::State found = pretokens_.is_held(state) ? state : all_plain(state);
  return untagged_.emplace(state, found).first->second;
}

Pretokens::State Spelling::all_plain(Pretokens::State state) {
  if (auto it = all_plain_.find(state); it != all_plain_.end()) return it->second;
  const Pretokens::State found = pretokens_.retag(state, [](u32) { return 1; });
  return all_plain_.emplace(state, found).first->second;
}

// The state with the numbers that its pieces have after a token.
Pretokens::State Spelling::numbered(Pretokens::State state, u32 token) {
  if (odd_.empty() || state == Pretokens::kDead) return state;
  const auto after = [&](u32 tag) { return walk_odd(tag, vocabulary_->bytes(token)); };
  bool plain = true;
  pretokens_.each_tag(state, [&](u32 tag) { plain = plain && after(tag) == 1; });
  return plain ? all_plain(state) : pretokens_.retag(state, after);
}

u32 Spelling::walk_odd(u32 tag, std::string_view text) const {
  if (tag == 1) return 1;
  u32 node = tag == 0 ? 0 : (tag - 2) / 2;
  for (char c : text) {
    const auto it = odd_trie_[node].find(static_cast<u8>(c));
    if (it == odd_trie_[node].end()) return 1;
    node = it->second;
  }
  return 2 + 2 * node + (tag != 0);
}

// May b follow a? Walks in order of ranks: a merge across the boundary is done unless its parts are absorbed before.
bool Spelling::pair(u32 a, u32 b) const {
  if (!trees_[a].made || !trees_[b].made) return false;
  if (!trees_[a].orderly || !trees_[b].orderly) return played(steps(a), steps(b));
  u32 absorbed = kNone;  // the merge that absorbs x
  for (u32 x = a;;) {
    u32 taken = kNone;
    for (u32 y = b;;) {
      if (const u32* made = made_of_.find(pair_of(x, y))) {
        const u32 rank = trees_[*made].rank;
        if (!trees_[*made].orderly) return played(steps(a), steps(b));
        if (rank < absorbed && rank <= taken) return false;
      }
      if (trees_[y].left == kNone) break;
      taken = trees_[y].rank;
      y = trees_[y].left;
    }
    if (trees_[x].left == kNone) return true;
    absorbed = trees_[x].rank;
    x = trees_[x].right;
  }
}

bool Spelling::known_pair(u32 a, u32 b) {
  if (rows_[a]) return (*rows_[a])[b >> 5] >> (b & 31) & 1;
  if (const u8* known = pairs_.find(pair_of(a, b))) return *known != 0;
  const bool found = pair(a, b);
  pairs_.set(pair_of(a, b), found, kKnownPairs);
  return found;
}

// How a token is built, merge by merge.
std::vector<Spelling::Step> Spelling::steps(u32 token) const {
  std::vector<u32> parts{token};
  for (std::size_t i = 0; i < parts.size();)  // into bytes
    if (const Tree& tree = trees_[parts[i]]; tree.left == kNone) {
      ++i;
    } else {
      parts[i] = tree.left;
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, tree.right);
    }
  std::vector<Step> out;
  for (;;) {
    std::size_t best = 0;
    u32 least = kNone, made = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      if (const u32* one = made_of_.find(pair_of(parts[i], parts[i + 1])); one && trees_[*one].rank < least) {
        made = *one;
        least = trees_[made].rank;
        best = i;
      }
    out.push_back({least, parts.front(), parts.back()});
    if (least == kNone) return out;
    parts[best] = made;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// The same, merge by merge, for tokens with a merge that precedes a merge of its parts.
bool Spelling::played(const std::vector<Step>& left, const std::vector<Step>& right) const {
  for (std::size_t i = 0, j = 0;;) {
    if (const u32* made = made_of_.find(pair_of(left[i].last, right[j].first))) {
      const u32 rank = trees_[*made].rank;
      if (rank < left[i].rank && rank <= right[j].rank) return false;
    }
    if (left[i].rank == kNone && right[j].rank == kNone) return true;
    ++(left[i].rank <= right[j].rank ? i : j);
  }
}

// Decides one by one the pairs that the ranges of a row do not decide.
void Spelling::correct(u32 token, Words& out) {
  std::vector<Step> own;
  const auto follows = [&](u32 other) {
    if (trees_[other].orderly) return pair(token, other);
    if (own.empty()) own = steps(token);
    const auto [known, fresh] = steps_of_.try_emplace(other);
    if (fresh) known->second = steps(other);
    return played(own, known->second);
  };
  const auto play = [&](u32 other) { follows(other) ? set_bit(out, other) : clear_bit(out, other); };
  if (!trees_[token].orderly) {
    out = own_;
    for (u32 x = token; x != kNone; x = trees_[x].right)
      for (u32 made : began_by_[x])
        for (u32 i = begin_[trees_[made].right]; i < end_[trees_[made].right]; ++i) play(ordered_[i]);
    return;
  }
  for (u32 other : disorderly_) set_bit(out, other);
  for (u32 x = token; x != kNone; x = trees_[x].right) {
    if (auto it = disorderly_of_.find(x); it != disorderly_of_.end())
      for (u32 made : it->second)
        for (u32 i = begin_[trees_[made].right]; i < end_[trees_[made].right]; ++i) play(ordered_[i]);
    if (auto it = disorderly_after_.find(x); it != disorderly_after_.end())
      for (u32 other : it->second) play(other);
  }
}

// Clears the tokens that merges of a part forbid after it, before another merge absorbs the part.
void Spelling::forbid_after(u32 part, u32 absorbed, Words& out) const {
  for (u32 made : began_by_[part]) {
    const u32 rank = trees_[made].rank, next = trees_[made].right;
    if (rank >= absorbed) return;
    clear_bit(out, next);
    const std::vector<u32>& larger = began_by_[next];
    const auto late = std::lower_bound(larger.begin(), larger.end(), rank,
                                       [&](u32 token, u32 than) { return trees_[token].rank < than; });
    if (late == larger.end()) continue;
    for (u32 i = begin_[*late]; i < end_[next]; ++i) clear_bit(out, ordered_[i]);
  }
}

const Words& Spelling::row(u32 token) {
  if (rows_[token]) return *rows_[token];
  Words out = trees_[token].made ? own_ : Words(own_.size(), 0);
  u32 absorbed = kNone;
  if (trees_[token].made)
    for (u32 x = token;;) {
      forbid_after(x, absorbed, out);
      if (trees_[x].left == kNone) break;
      absorbed = trees_[x].rank;
      x = trees_[x].right;
    }
  if (trees_[token].made) correct(token, out);
  auto made = std::make_shared<const Words>(std::move(out));
  if (kept_rows_.size() >= kMostRows) {
    rows_[kept_rows_.front()].reset();
    kept_rows_.pop_front();
  }
  kept_rows_.push_back(token);
  rows_[token] = std::move(made);
  return *rows_[token];
}

Pretokens::State Spelling::read(Pretokens::State state, u32 token, bool cut) {
  if (shape_of_[token] == kNone || pretokens_.is_partial(state))
    return pretokens_.read(state, vocabulary_->bytes(token), cut);
  for (char atom : shapes_[shape_of_[token]].atoms) {
    state = pretokens_.step(state, static_cast<u8>(atom), cut);
    if (state == Pretokens::kDead) return state;
    cut = false;
  }
  return state;
}

u32 Spelling::place(Pretokens::State pieces, u32 separate) {
  if (places_.size() == places_.capacity()) places_.reserve(2 * places_.size() + 8);  // may fail: before it is numbered
  const auto [it, fresh] = place_of_.try_emplace({pieces, separate}, static_cast<u32>(places_.size()));
  if (fresh) places_.push_back({pieces, separate});
  return it->second;
}

const Spelling::Open& Spelling::opened(u32 separate) {
  if (auto it = open_.find(separate); it != open_.end()) return it->second;
  Open found;
  const auto note = [&](u32 token, u32 after) {
    if (after == Separate::kFound) {
      found.whole.push_back(token);
    } else if (after != 0) {
      found.begun.push_back(token);
      if (separate_.ends_next(after)) found.nearly.push_back(token);
    }
  };
  if (!separate_.none())
    for (u32 t = 0; t < vocabulary_->token_count(); ++t)
      if (is_piece(t)) note(t, separate_.read(separate, vocabulary_->bytes(t)));
  for (u32 t : separate_tokens_) note(t, separate_.pass(separate, vocabulary_->bytes(t)));
  return open_.emplace(separate, std::move(found)).first->second;
}

void Spelling::restrict(const State& state, u32* words) {
  std::lock_guard lock(mutex_);
  const auto [pieces, separate] = places_[state.place];
  const Masks& of = masks(untagged(pieces));
  const Words& after = state.last < 0 ? vocabulary_->zeros() : row(static_cast<u32>(state.last));
  const u32 ends = pretokens_.may_end(pieces) ? ~u32{0} : 0;
  std::vector<std::pair<u32, u32>> others;
  for (const auto& [w, tokens] : no_text_) others.push_back({w, words[w] & tokens & ends});
  for (std::size_t w = 0; w < own_.size(); ++w) words[w] &= of.begins.may[w] | (of.inside.may[w] & after[w]);
  for (const auto& [w, tokens] : others) words[w] |= tokens;
  for (u32 token : opened(separate).whole) words[token >> 5] &= ~(1u << (token & 31));
}

Spelling::State Spelling::next(const State& state, u32 token) {
  std::lock_guard lock(mutex_);
  const auto [pieces, separate] = places_[state.place];
  if (!is_piece(token)) {
    if (!pretokens_.may_end(pieces)) return {kDead, -1};
    if (!vocabulary_->is_text(token)) return State();
    const u32 after = separate_.pass(separate, vocabulary_->bytes(token));
    return after == Separate::kFound ? State{kDead, -1} : State{place(Pretokens::kFresh, after), -1};
  }
  Pretokens::State begun = Pretokens::kDead, inside = Pretokens::kDead;
  if (trees_[token].made || whole_) begun = read(pieces, token, true);
  if (state.last >= 0 && known_pair(static_cast<u32>(state.last), token)) inside = read(pieces, token, false);
  begun = pretokens_.unite(begun, inside);
  begun = numbered(begun, token);
  if (begun == Pretokens::kDead) return {kDead, -1};
  const u32 found = separate_.none() ? 0 : separate_.read(separate, vocabulary_->bytes(token));
  return found == Separate::kFound ? State{kDead, -1} : State{place(begun, found), static_cast<int>(token)};
}

u32 Spelling::settled(u32 of) {
  if (odd_.empty()) return of;
  std::lock_guard lock(mutex_);
  const auto [pieces, separate] = places_[of];
  return place(untagged(pieces), separate);
}

bool Spelling::may_end(const State& state) {
  std::lock_guard lock(mutex_);
  return pretokens_.may_end(places_[state.place].pieces);
}

std::size_t Spelling::memory() {
  std::lock_guard lock(mutex_);
  std::size_t bytes =
      pretokens_.memory() + trees_.size() * (sizeof(Tree) + 4 * sizeof(u32) + sizeof(rows_[0]) + sizeof(began_by_[0]));
  for (const auto& masks : masks_)
    if (masks) bytes += masks->memory();
  bytes += bytes_of(all_plain_) + bytes_of(lasts_) + bytes_of(no_text_) + bytes_of(longest_);
  bytes += ways_.memory() + pairs_.memory() + made_of_.memory() + bytes_of(cuts_after_);
  for (const auto& [token, steps] : steps_of_) bytes += 64 + bytes_of(steps);
  for (const auto& [node, ends] : ends_below_) bytes += 64 + bytes_of(ends);
  return bytes + kept_rows_.size() * bytes_of(own_) + outlooks_.memory() + proofs_.memory() + extents_.memory() +
         judgements_.memory();
}

}  // namespace guiderail
