#include "vocab/vocabulary.hpp"

#include <algorithm>

#include "base/short_vector.hpp"
#include "base/work.hpp"

namespace guiderail {

namespace {
std::size_t words_bytes(const std::shared_ptr<const Words>& of) {
  return of ? shared_bytes<Words>() + bytes_of(*of) : 0;
}
}  // namespace

std::size_t ExitTrie::memory() const { return shared_bytes<ExitTrie>() + bytes_of(nodes) + bytes_of(tokens); }

std::size_t ClassMask::memory() const {
  std::size_t bytes = shared_bytes<ClassMask>() + bytes_of(tokens) + bytes_of(upto) + words_bytes(dense) +
                      bytes_of(bounded) + bytes_of(exit_tries) + bytes_of(alive) + bytes_of(exits) + bytes_of(splits);
  for (const auto& [n, w] : bounded) bytes += words_bytes(w);
  for (const auto& [b, t] : exit_tries) bytes += t->memory();
  return bytes;
}

std::size_t PrefixSummary::memory() const {
  return shared_bytes<PrefixSummary>() + bytes_of(tokens) + words_bytes(dense) + rest.memory() -
         shared_bytes<ExitTrie>();
}

Vocabulary::Vocabulary(std::string data, std::vector<u32> offsets, const std::vector<u8>& special, u32 size,
                       std::vector<u32> stops)
    : data_(std::move(data)),
      offsets_(offsets.begin(), offsets.end()),
      size_(size),
      stops_(std::move(stops)),
      zeros_((size + 31) / 32, 0) {
  if (offsets_.size() < 2) throw Error("vocabulary-empty", "a vocabulary needs at least one token");
  if (special.size() != token_count()) throw Error("vocabulary-shape", "special must have one entry per token");
  if (size_ < special.size())
    throw Error("vocabulary-size",
                "size " + std::to_string(size_) + " is below the number of tokens, " + std::to_string(special.size()));
  if (size_ > (1u << 28)) throw Error("vocabulary-size", "size is above the largest supported, 268,435,456");
  for (std::size_t i = 0; i + 1 < offsets_.size(); ++i)
    if (offsets_[i] > offsets_[i + 1]) throw Error("vocabulary-shape", "offsets must not decrease");
  if (offsets_.front() != 0 || offsets_.back() != data_.size())
    throw Error("vocabulary-shape", "offsets must run from 0 to the length of the data");
  for (u32 s : stops_)
    if (s >= size_) throw Error("vocabulary-stop", "stop token " + std::to_string(s) + " is not below size");
  sort_unique(stops_);
  texts_.resize(special.size() / 64 + 1);
  for (u32 i = 0; i < special.size(); ++i) {
    auto text = bytes(i);
    if (special[i] || text.empty() || text.size() > kLongestToken ||
        std::binary_search(stops_.begin(), stops_.end(), i))
      continue;
    set_bit(texts_, i);
    ++text_tokens_;
    longest_ = std::max(longest_, static_cast<u32>(text.size()));
  }
  scratches_.reserve(kMostScratches);
  reserve_pages(kTokenBytes * text_tokens_);
  build_trie();
  roots_.fill(kNoFan);
  for (u32 c = 1; c < trie_.nodes.size(); c = trie_.nodes[c].end) roots_[trie_.nodes[c].byte] = c;
  for (u32 n = 1; n < trie_.nodes.size(); ++n)
    if (trie_.nodes[n].byte == '"') before_quote_.add(trie_.nodes[trie_.parents[n]].byte);
  if (trie_.nodes.size() <= kWorthWarming) return;
  warm_common();
  character_index_.build(trie_, words(), longest_);
  for (char c : {'"', '\\'}) character_index_.exits(static_cast<u8>(c), trie_);
  string_counts(Escapes::Canonical);
  reserve_pages(kVocabularyPages);
}

// The classes that most constraints loop over. Each takes a millisecond, paid once when a large vocabulary is made.
void Vocabulary::warm_common() {
  const std::vector<CharSet::Range> digits{{'0', '9'}}, lower{{'a', 'z'}}, upper{{'A', 'Z'}},
      letters{{'A', 'Z'}, {'a', 'z'}}, alphanumeric{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}},
      word{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, line{{0, '\n' - 1}, {'\n' + 1, 0x10FFFF}},
      quoted{{0, '"' - 1}, {'"' + 1, 0x10FFFF}}, string{{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}},
      everything{{0, 0x10FFFF}};
  for (const auto& ranges : {digits, lower, upper, letters, alphanumeric, word, line, quoted, string, everything})
    warm(CharSet::make(ranges));
}

void Vocabulary::build_trie() {
  std::vector<std::pair<u64, u32>> order;  // first eight bytes, big-endian: they decide most comparisons
  order.reserve(text_tokens_);
  for (u32 i = 0; i < token_count(); ++i) {
    if (!is_text(i)) continue;
    auto text = bytes(i);
    u64 key = 0;
    for (std::size_t k = 0; k < 8; ++k) key = key << 8 | (k < text.size() ? static_cast<u8>(text[k]) : 0);
    order.push_back({key, i});
  }
  std::sort(order.begin(), order.end(), [this](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    int c = bytes(a.second).compare(bytes(b.second));
    return c != 0 ? c < 0 : a.second < b.second;
  });
  auto& nodes = trie_.nodes;
  nodes.reserve(order.size() * 2 + 1);
  nodes.push_back({0, -1, kNoFan, 0, true, 0});
  trie_.parents.reserve(nodes.capacity());
  trie_.depths.reserve(nodes.capacity());
  trie_.parents.push_back(0);
  trie_.depths.push_back(0);
  std::vector<u32> path{0};     // nodes from the root to the last token
  std::vector<int> pending{0};  // continuation bytes due at each of these nodes; -1: not UTF-8
  std::string_view last;
  u32 last_token = 0;
  for (auto [key, token] : order) {
    auto text = bytes(token);
    if (path.size() > 1 && text == last) {
      twins_.push_back({last_token, token});
      continue;
    }
    std::size_t same = 0;
    while (same < last.size() && same < text.size() && last[same] == text[same]) ++same;
    while (path.size() > same + 1) {
      nodes[path.back()].end = static_cast<u32>(nodes.size());
      path.pop_back();
      pending.pop_back();
    }
    for (std::size_t i = same; i < text.size(); ++i) {
      const u8 b = static_cast<u8>(text[i]);
      const bool middle = is_continuation(b);
      int due = pending.back();
      if (due > 0)
        due = middle ? due - 1 : -1;
      else if (due == 0)
        due = b < 0x80 ? 0 : b >= 0xC2 && b < 0xE0 ? 1 : b >= 0xE0 && b < 0xF0 ? 2 : b >= 0xF0 && b < 0xF5 ? 3 : -1;
      const u32 id = static_cast<u32>(nodes.size());
      const u16 chars = static_cast<u16>(nodes[path.back()].chars + (middle ? 0 : 1));
      nodes.push_back({0, -1, kNoFan, b, due == 0, chars});
      trie_.parents.push_back(path.back());
      trie_.depths.push_back(static_cast<u16>(i + 1));
      path.push_back(id);
      pending.push_back(due);
    }
    nodes[path.back()].token = static_cast<int>(token);
    last = text;
    last_token = token;
  }
  for (u32 id : path) nodes[id].end = static_cast<u32>(nodes.size());
  trie_.ranks.reserve(nodes.size() + 1);
  trie_.tokens.reserve(order.size());
  for (const TrieNode& node : nodes) {
    trie_.ranks.push_back(static_cast<u32>(trie_.tokens.size()));
    if (node.token >= 0) trie_.tokens.push_back(static_cast<u32>(node.token));
  }
  trie_.ranks.push_back(static_cast<u32>(trie_.tokens.size()));
  for (u32 id = 0; id < nodes.size(); ++id) {
    u32 count = 0;
    for (u32 c = id + 1; c < nodes[id].end && count < kWideNode; c = nodes[c].end) ++count;
    if (count < kWideNode && id != 0) continue;
    Fan fan{static_cast<u32>(trie_.fan_nodes.size()), 0};
    for (u32 c = id + 1; c < nodes[id].end; c = nodes[c].end) {
      trie_.fan_bytes.push_back(nodes[c].byte);
      trie_.fan_nodes.push_back(c);
      ++fan.count;
    }
    nodes[id].fan = static_cast<u32>(trie_.fans.size());
    trie_.fans.push_back(fan);
  }
}

u32 Vocabulary::find_node(std::string_view text, u32 from) const {
  for (std::size_t i = 0; i < text.size() && from != kNoFan; ++i) from = child(from, static_cast<u8>(text[i]));
  return from;
}

int Vocabulary::find(std::string_view text) const {
  u32 at = text.empty() ? kNoFan : find_node(text);
  return at == kNoFan ? -1 : trie_.nodes[at].token;
}

std::vector<u32> Vocabulary::with_prefix(std::string_view prefix, std::size_t limit) const {
  const u32 at = find_node(prefix);
  if (at == kNoFan) return {};
  const auto found = trie_.below(at);
  return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min(limit, found.size()))};
}

// -- class masks --
std::shared_ptr<ClassMask> Vocabulary::scan_class(const CharSet::Ptr& chars, u32 root) const {
  auto out = std::make_shared<ClassMask>();
  out->chars = chars;
  out->root = root;
  const auto& automaton = chars->automaton();
  const auto& nodes = trie_.nodes;
  const u32 end = nodes[root].end, base_chars = nodes[root].chars, base_depth = trie_.depths[root];
  Work::spend((end - root) / kNodesPerStep);
  out->alive.assign((end - root + 63) / 64, 0);
  out->alive[0] |= 1;
  std::vector<u16> state(longest_ + 2);
  state[0] = CharSet::kStart;
  PagedVector<std::pair<u32, int>> found;  // characters, token
  PagedVector<u32> boundary;               // nodes at which the path leaves the set
  for (u32 n = root + 1; n < end;) {
    const TrieNode& node = nodes[n];
    const u32 depth = trie_.depths[n] - base_depth;
    u16 s = state[depth - 1];
    s = automaton[s == CharSet::kDone ? CharSet::kStart : s][node.byte];
    if (s == CharSet::kDead) {
      boundary.push_back(n);
      n = node.end;
      continue;
    }
    state[depth] = s;
    set_bit(out->alive, n - root);
    if (node.token >= 0) found.push_back({node.chars - base_chars, node.token});
    ++n;
  }
  for (auto [count, token] : found) out->most = std::max(out->most, count);
  out->upto.assign(out->most + 2, 0);
  for (auto [count, token] : found) ++out->upto[count + 1];
  for (u32 i = 1; i < out->upto.size(); ++i) out->upto[i] += out->upto[i - 1];
  out->tokens.resize(found.size());  // sorted by counting
  for (auto [count, token] : found) out->tokens[out->upto[count]++] = token;
  out->upto.pop_back();
  if (found.size() >= kFewTokensOfSet) {
    auto dense = std::make_shared<Words>(words(), 0);
    for (int t : out->tokens) set_bit(*dense, t);
    out->dense = dense;
  }
  find_exits(*out, boundary);
  return out;
}

// Exits: boundary nodes after a whole character, and nodes of the set on the way to any boundary.
void Vocabulary::find_exits(ClassMask& out, const PagedVector<u32>& boundary) const {
  const auto& nodes = trie_.nodes;
  const u32 root = out.root, end = nodes[root].end;
  PagedVector<u64> seen((end - root + 63) / 64, 0);
  PagedVector<u32> exits;
  for (u32 n : boundary) {
    u32 p = trie_.parents[n];
    if (p != root && !nodes[p].whole) out.splits.push_back(n);
    if (p != root && nodes[p].whole) exits.push_back(n);
    for (; p != root && !bit(seen, p - root); p = trie_.parents[p]) {
      set_bit(seen, p - root);
      u32 above = trie_.parents[p];
      if (above != root && nodes[above].whole) exits.push_back(p);
    }
  }
  for (u32 n : exits) ++out.exit_at[nodes[n].byte + 1];
  for (unsigned b = 0; b < 256; ++b) out.exit_at[b + 1] += out.exit_at[b];
  out.exits.resize(exits.size());
  auto at = out.exit_at;
  for (u32 n : exits) out.exits[at[nodes[n].byte]++] = n;
}

std::shared_ptr<ClassMask> Vocabulary::known_class_mask(const CharSet::Ptr& chars, u32 root) {
  std::lock_guard lock(mutex_);
  const Cached* known = cache_.find(class_key(chars.get(), root));
  return known ? known->classes : nullptr;
}

std::shared_ptr<ClassMask> Vocabulary::class_mask(const CharSet::Ptr& chars, u32 root) {
  if (auto known = known_class_mask(chars, root)) return known;
  const Hash key = class_key(chars.get(), root);
  auto fresh = cut_class(chars, root);
  if (!fresh) fresh = scan_class(chars, root);
  std::lock_guard lock(mutex_);
  if (const Cached* known = cache_.find(key)) return known->classes;  // another thread was first
  cache_.add(key, {fresh, nullptr, {}}, fresh->memory());
  cache_.forget(kCacheLimit);
  return fresh;
}

void Vocabulary::warm(const CharSet::Ptr& chars) {
  class_mask(chars, 0);
  const u32 space = find_node(" ");
  if (space != kNoFan && trie_.nodes[space].end - space >= kHeavy) class_mask(chars, space);
}

std::shared_ptr<const Words> Vocabulary::bounded(ClassMask& mask, u32 chars) {
  if (chars >= mask.most) return mask.dense;
  const u32 count = mask.upto[chars];
  if (!mask.dense || count < kFewTokensOfSet) return nullptr;
  std::lock_guard lock(mutex_);
  auto& slot = mask.bounded[chars];
  if (!slot) {
    std::shared_ptr<Words> made;
    if (mask.tokens.size() - count < count) {
      made = std::make_shared<Words>(*mask.dense);
      for (std::size_t i = count; i < mask.tokens.size(); ++i) clear_bit(*made, mask.tokens[i]);
    } else {
      made = std::make_shared<Words>(words(), 0);
      for (u32 i = 0; i < count; ++i) set_bit(*made, mask.tokens[i]);
    }
    slot = made;
    cache_.note_growth(class_key(mask.chars.get(), mask.root), made->size() * 4);
  }
  return slot;
}

u32 Vocabulary::child(u32 node, u8 byte) const {
  if (node == 0) return roots_[byte];
  const TrieNode& n = trie_.nodes[node];
  if (n.fan != kNoFan) {
    const Fan fan = trie_.fans[n.fan];
    const auto from = trie_.fan_bytes.begin() + fan.offset, to = from + fan.count;
    const auto it = std::lower_bound(from, to, byte);
    return it != to && *it == byte ? trie_.fan_nodes[static_cast<std::size_t>(it - trie_.fan_bytes.begin())] : kNoFan;
  }
  for (u32 c = node + 1; c < n.end; c = trie_.nodes[c].end)
    if (trie_.nodes[c].byte == byte) return c;
  return kNoFan;
}

int Vocabulary::longest_token(std::string_view text) const {
  int found = -1;
  u32 node = 0;
  for (char c : text) {
    if ((node = child(node, static_cast<u8>(c))) == kNoFan) break;
    if (trie_.nodes[node].token >= 0) found = trie_.nodes[node].token;
  }
  return found;
}

ExitTrie merge_exits(const Trie& trie, std::span<const u32> nodes, u8 byte, std::vector<u32>* origin) {
  ShortVector<TrieAt, 128> all;
  for (u32 n : nodes) all.push_back({nullptr, n});
  return merge_exits(trie, std::span<const TrieAt>(all.begin(), all.size()), byte, origin);
}

ExitTrie merge_exits(const Trie& trie, std::span<const TrieAt> nodes, u8 byte, std::vector<u32>* origin) {
  ExitTrie out;
  struct From {  // a node, the exit above it, and the byte that leads to it
    TrieAt at;
    u32 top;
    u8 byte;
  };
  ShortVector<From, 128> from;  // of all open nodes; those of the deepest one are last
  struct Open {                 // a written node: its children are from[at .. end)
    u32 id;
    std::size_t begin, at, end;
  };
  ShortVector<Open, 16> open;
  ShortVector<ExitTrie::Node, 128> written;
  ShortVector<int, 256> tokens;
  std::vector<From> unsorted;
  auto sort_by_byte = [&](std::size_t begin) {
    From* const first = from.begin() + begin;
    auto before = [](const From& a, const From& b) {
      return a.byte != b.byte ? a.byte < b.byte : a.at.node < b.at.node;
    };
    if (from.size() - begin < 256) return std::sort(first, from.end(), before);
    std::array<std::size_t, 257> at{};
    for (const From* it = first; it != from.end(); ++it) ++at[it->byte + 1u];
    for (std::size_t b = 0; b < 256; ++b) at[b + 1] += at[b];
    unsorted.assign(first, from.end());
    for (const From& f : unsorted) first[at[f.byte]++] = f;
  };
  auto write = [&](std::size_t begin, std::size_t end, u8 by) {  // writes the node that merges from[begin .. end)
    const u32 id = static_cast<u32>(written.size());
    const u32 first = static_cast<u32>(tokens.size());
    const std::size_t below = from.size();
    Work::spend();
    for (std::size_t i = begin; i < end; ++i) {
      const TrieAt of = from[i].at;
      const u32 top = from[i].top;
      of.each_token(trie, [&](int token) {
        tokens.push_back(token);
        if (origin) origin->push_back(top);
      });
      of.each_child(trie, [&](u8 b, TrieAt child) { from.push_back({child, top, b}); });
    }
    const u16 depth = static_cast<u16>(open.size());
    written.push_back({id + 1, first, static_cast<u32>(tokens.size()), depth, by});
    out.deepest = std::max(out.deepest, depth);
    if (end - begin > 1) sort_by_byte(below);
    if (from.size() > below) open.push_back({id, below, below, from.size()});
  };
  for (const TrieAt& at : nodes) from.push_back({at, at.node, byte});
  write(0, nodes.size(), byte);
  while (!open.empty()) {
    Open& last = open[open.size() - 1];
    if (last.at == last.end) {
      written[last.id].end = static_cast<u32>(written.size());
      from.resize(last.begin);
      open.pop_back();
      continue;
    }
    const std::size_t begin = last.at;
    const u8 by = from[begin].byte;
    while (last.at < last.end && from[last.at].byte == by) ++last.at;
    write(begin, last.at, by);
  }
  out.nodes.assign(written.begin(), written.end());
  out.tokens.assign(tokens.begin(), tokens.end());
  return out;
}

std::shared_ptr<const SpelledClass> Vocabulary::spelled_class(const CharSet::Ptr& chars) {
  {
    std::lock_guard lock(mutex_);
    if (cache_.has(class_key(chars.get(), 0))) return nullptr;
  }
  return character_index_.spelled_class(chars);
}

std::shared_ptr<const ExitTrie> Vocabulary::known_exit_trie(ClassMask& mask, u8 byte) {
  std::lock_guard lock(mutex_);
  const auto it = mask.exit_tries.find(byte);
  return it != mask.exit_tries.end() ? it->second : nullptr;
}

std::shared_ptr<const ExitTrie> Vocabulary::exit_trie(ClassMask& mask, u8 byte) {
  if (auto known = known_exit_trie(mask, byte)) return known;
  const std::span exits(mask.exits.data() + mask.exit_at[byte], mask.exits.data() + mask.exit_at[byte + 1]);
  auto out = std::make_shared<ExitTrie>(merge_exits(trie_, exits, byte));
  std::lock_guard lock(mutex_);
  auto [it, fresh] = mask.exit_tries.try_emplace(byte, out);
  if (fresh)
    cache_.note_growth(class_key(mask.chars.get(), mask.root), out->nodes.size() * 16 + out->tokens.size() * 4);
  return it->second;
}

// -- cache --
// No two classes have the same key: mix64 is invertible, and a cached mask keeps its set alive, so that the set's
// address is unique. Masks have identities, which nobody can make collide with a class key on purpose.
Hash Vocabulary::class_key(const CharSet* chars, u32 root) {
  const u64 at = mix64(reinterpret_cast<std::uintptr_t>(chars));
  return {mix64(at ^ root), at};
}

std::unique_ptr<MaskScratch> Vocabulary::take_scratch() {
  std::unique_ptr<MaskScratch> scratch;
  {
    std::lock_guard lock(mutex_);
    if (!scratches_.empty()) {
      scratch = std::move(scratches_.back());
      scratches_.pop_back();
    }
  }
  if (!scratch) scratch = std::make_unique<MaskScratch>(words());
  scratch->begin();
  return scratch;
}

void Vocabulary::give_back(std::unique_ptr<MaskScratch> scratch) {
  if (!scratch) return;
  std::lock_guard lock(mutex_);
  if (scratches_.size() < scratches_.capacity()) scratches_.push_back(std::move(scratch));
}

BytesBelow::BytesBelow(const Trie& trie) : places_(trie.nodes.size(), kNoFan) {
  std::vector<ByteSet> all(trie.nodes.size());
  std::vector<TokenRest> below(trie.nodes.size());
  ByteSet alone;
  auto raise = [](TokenRest& of, TokenRest to) {
    of.bytes = std::max(of.bytes, to.bytes);
    of.brackets = std::max(of.brackets, to.brackets);
  };
  for (u32 n = static_cast<u32>(all.size()); n-- > 1;) {
    const u8 byte = trie.nodes[n].byte;
    const u32 parent = trie.parents[n];
    all[parent] |= all[n];
    all[parent].add(byte);
    raise(after_[byte], below[n]);
    raise(below[parent], {below[n].bytes + 1, below[n].brackets + is_bracket(byte)});
    if (parent == 0 && trie.nodes[n].token >= 0) alone.add(byte);
  }
  all_ = all[0];
  whole_ = below[0];
  for (unsigned b = 0; b <= 0xF4; ++b) each_alone_ = each_alone_ && (alone.has(b) || b == 0xC0 || b == 0xC1);
  for (u32 n = 0; n < all.size(); ++n)
    if (trie.nodes[n].end - n > kWorthBytesBelow) {
      places_[n] = static_cast<u32>(sets_.size());
      sets_.push_back(all[n]);
    }
}

const BytesBelow& Vocabulary::bytes_below() {
  std::lock_guard making(making_bytes_below_);
  {
    std::lock_guard lock(mutex_);
    if (bytes_below_) return *bytes_below_;
  }
  auto made = std::make_unique<const BytesBelow>(trie_);
  std::lock_guard lock(mutex_);
  bytes_below_ = std::move(made);
  return *bytes_below_;
}

StringCounts& Vocabulary::string_counts(Escapes mode) {
  auto& made = string_counts_[static_cast<std::size_t>(mode)];
  if (!made) made = std::make_unique<StringCounts>(trie_, words(), longest_, mode);
  return *made;
}

std::shared_ptr<const Words> Vocabulary::string_of(u32 most, Escapes mode) {
  std::lock_guard lock(mutex_);
  return string_counts(mode).inside(most);
}

std::span<const StringCounts::Count> Vocabulary::strings_longer(u32 than, Escapes mode) {
  std::lock_guard lock(mutex_);
  return string_counts(mode).longer(than);
}

const std::vector<StringCounts::Count>& Vocabulary::leaving_strings(Escapes mode) {
  std::lock_guard lock(mutex_);
  return string_counts(mode).leaving();
}

std::shared_ptr<const MaskEntry> Vocabulary::cached_mask(const Hash& key) {
  std::lock_guard lock(mutex_);
  const Cached* known = cache_.find(key);
  return known ? known->mask : nullptr;
}

void Vocabulary::cache_mask(const Hash& key, std::shared_ptr<const MaskEntry> mask) {
  std::lock_guard lock(mutex_);
  if (cache_.has(key)) return;
  const std::size_t bytes = mask->memory();
  if (!mask->shared) mask->shared.to(shared_masks_, bytes);
  Cached made{nullptr, std::move(mask), {}};
  made.cached.to(cached_masks_, bytes);
  cache_.add(key, std::move(made), bytes);
  cache_.forget(kCacheLimit);
}

std::shared_ptr<const PrefixSummary> Vocabulary::cached_summary(const Hash& key, u32& asked) {
  std::lock_guard lock(mutex_);
  if (const auto* known = summaries_.find(key)) return *known;
  if (asked_.empty()) asked_.resize(kAsked);
  Asked& at = asked_[key.lo % kAsked];
  if (at.head != key.hi) at = {key.hi, 0};
  asked = ++at.times;
  return nullptr;
}

void Vocabulary::cache_summary(const Hash& key, std::shared_ptr<const PrefixSummary> head) {
  std::lock_guard lock(mutex_);
  if (summaries_.has(key)) return;
  const std::size_t bytes = head->memory();
  summaries_.add(key, std::move(head), bytes);
  summaries_.forget(kSummaryLimit);
}

void Vocabulary::clear_cache() {
  std::lock_guard lock(mutex_);
  cache_.clear();
  summaries_.clear();
  asked_.clear();
}

std::size_t Vocabulary::cache_memory() const {
  std::lock_guard lock(mutex_);
  return cache_.memory() + summaries_.memory() + bytes_of(asked_);
}

std::size_t Vocabulary::string_memory() const {
  std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& counts : string_counts_) bytes += counts ? counts->memory() : 0;
  if (bytes_below_) bytes += sizeof(BytesBelow) + bytes_below_->memory();
  return bytes;
}

std::size_t Vocabulary::memory() const {
  std::size_t shared = 0;  // masks that only guides still hold
  {
    std::lock_guard lock(mutex_);
    const std::size_t live = shared_masks_->load(), cached = cached_masks_->load();
    shared = live > cached ? live - cached : 0;
    for (const auto& scratch : scratches_) shared += scratch->memory();
  }
  return sizeof(*this) + bytes_of(data_) + bytes_of(offsets_) + bytes_of(texts_) + bytes_of(twins_) + bytes_of(zeros_) +
         bytes_of(trie_.nodes) + bytes_of(trie_.parents) + bytes_of(trie_.depths) + bytes_of(trie_.tokens) +
         bytes_of(trie_.ranks) + bytes_of(trie_.fans) + bytes_of(trie_.fan_bytes) + bytes_of(trie_.fan_nodes) +
         character_index_.memory() + shared + cache_memory() + string_memory();
}

}  // namespace guiderail
