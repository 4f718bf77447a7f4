#include "vocab/character_index.hpp"

#include "vocab/vocabulary.hpp"

namespace guiderail {
void CharacterIndex::build(const Trie& trie, u32 words, u32 longest) {
  const auto& automaton = CharSet::any()->automaton();
  const std::size_t count = trie.nodes.size();
  text_.assign(words, 0);
  paths_.assign(count, {});
  std::array<std::vector<u32>, 128> users;
  std::vector<u32> beyond, broken;
  std::vector<u16> states(longest + 2);
  states[0] = CharSet::kDone;
  for (u32 n = 1; n < count; ++n) {
    const TrieNode& node = trie.nodes[n];
    const u32 parent = trie.parents[n], depth = trie.depths[n];
    Letters path = paths_[parent];
    const u16 before = states[depth - 1u];
    const u16 state =
        before == CharSet::kDead ? before : automaton[before == CharSet::kDone ? CharSet::kStart : before][node.byte];
    states[depth] = state;
    path.broken = path.broken || state == CharSet::kDead;
    if (node.byte >= 0x80)
      path.beyond = true;
    else
      (node.byte < 64 ? path.low : path.high) |= u64{1} << (node.byte & 63);
    path.chars = node.chars;
    paths_[n] = path;
    if (parent != 0 && trie.nodes[parent].whole) exits_[node.byte].push_back(n);
    if (node.token < 0) continue;
    const u32 token = static_cast<u32>(node.token);
    set_bit(text_, token);
    for (u64 bits = path.low; bits; bits &= bits - 1) users[static_cast<u32>(std::countr_zero(bits))].push_back(token);
    for (u64 bits = path.high; bits; bits &= bits - 1)
      users[64 + static_cast<u32>(std::countr_zero(bits))].push_back(token);
    if (path.beyond) beyond.push_back(token);
    if (path.broken) broken.push_back(token);
  }
  auto keep = [&](std::vector<u32>& tokens, Users& out) {
    if (tokens.size() < kWorthDenseClass) {
      out.few = std::move(tokens);
      out.few.shrink_to_fit();
      return;
    }
    out.dense.assign(words, 0);
    for (u32 t : tokens) set_bit(out.dense, t);
  };
  for (u32 c = 0; c < 128; ++c) keep(users[c], users_[c]);
  keep(beyond, beyond_);
  keep(broken, broken_);
  for (auto& nodes : exits_) nodes.shrink_to_fit();
}

void CharacterIndex::take(const Users& users, Words& from) const {
  if (!users.dense.empty()) {
    const u32* out = users.dense.data();
    u32* mine = from.data();
    for (std::size_t i = 0; i < from.size(); ++i) mine[i] &= ~out[i];
  }
  for (u32 t : users.few) clear_bit(from, t);
}

void CharacterIndex::add_users(u8 c, Words& to) const {
  const Users& users = users_[c];
  for (std::size_t i = 0; i < users.dense.size(); ++i) to[i] |= users.dense[i];
  for (u32 t : users.few) set_bit(to, t);
}

bool CharacterIndex::letters_of(const CharSet& chars, Letters& out) {
  static const CharSet::Ptr beyond_ascii = CharSet::make({{0x80, 0x10FFFF}});
  const bool all = chars.covers(*beyond_ascii);
  const ByteSet& first = chars.first();
  out = {first.words[0], first.words[1], all, false};
  return all || chars.ascii_only();
}

std::shared_ptr<const SpelledClass> CharacterIndex::spelled_class(const CharSet::Ptr& chars) {
  if (empty() || chars->ranges().empty()) return nullptr;
  {
    std::lock_guard lock(mutex_);
    if (auto it = classes_.find(chars.get()); it != classes_.end()) return it->second;
  }
  auto made = std::make_shared<SpelledClass>();
  if (!letters_of(*chars, made->letters)) return nullptr;
  made->chars = chars;
  const ByteSet& first = chars->first();
  Words tokens = text_;
  for (u32 c = 0; c < 128; ++c)
    if (!first.has(static_cast<u8>(c))) take(users_[c], tokens);
  if (!made->letters.beyond) take(beyond_, tokens);
  take(broken_, tokens);
  for (u32 w : tokens) made->tokens += static_cast<std::size_t>(std::popcount(w));
  std::shared_ptr<const SpelledClass> out;
  if (made->tokens >= kFewTokensOfSet) {
    made->dense = std::make_shared<const Words>(std::move(tokens));
    out = made;
  }
  std::lock_guard lock(mutex_);
  if (classes_.size() >= kMostClasses) {
    classes_.clear();
    with_.clear();
  }
  if (out) classes_.emplace(chars.get(), out);  // this keeps the set alive, and so its address unique
  return out;
}

std::shared_ptr<const SpelledExits> CharacterIndex::exits(u8 byte, const Trie& trie) {
  {
    std::lock_guard lock(mutex_);
    if (tries_[byte]) return tries_[byte];
  }
  auto made = std::make_shared<SpelledExits>();
  std::vector<u32> origin;
  auto merged = std::make_shared<ExitTrie>(merge_exits(trie, exits_[byte], byte, &origin));
  for (u32 node : origin) made->before.push_back(paths_[trie.parents[node]]);
  made->trie = std::move(merged);
  std::lock_guard lock(mutex_);
  if (!tries_[byte]) tries_[byte] = std::move(made);
  return tries_[byte];
}

std::shared_ptr<const Words> CharacterIndex::dense_with(const SpelledClass& of, u8 byte, const SpelledExits& exits) {
  const auto key = std::pair{of.chars.get(), byte};
  {
    std::lock_guard lock(mutex_);
    if (auto it = with_.find(key); it != with_.end()) return it->second;
  }
  auto made = std::make_shared<Words>(*of.dense);
  const auto& top = exits.trie->nodes[0];
  for (u32 i = top.first; i < top.last; ++i)
    if (exits.before[i].within(of.letters)) set_bit(*made, exits.trie->tokens[i]);
  std::lock_guard lock(mutex_);
  if (with_.size() >= kMostClasses) with_.clear();
  if (classes_.contains(of.chars.get())) with_.emplace(key, made);
  return made;
}

std::size_t CharacterIndex::memory() const {
  std::size_t bytes = bytes_of(text_) + bytes_of(paths_);
  for (const Users& u : users_) bytes += bytes_of(u.dense) + bytes_of(u.few);
  for (const Users* u : {&beyond_, &broken_}) bytes += bytes_of(u->dense) + bytes_of(u->few);
  for (const auto& nodes : exits_) bytes += bytes_of(nodes);
  std::lock_guard lock(mutex_);
  bytes += bytes_of(classes_) + bytes_of(with_) + classes_.size() * shared_bytes<SpelledClass>() +
           (classes_.size() + with_.size()) * (shared_bytes<Words>() + bytes_of(text_));
  for (const auto& t : tries_)
    if (t) bytes += shared_bytes<SpelledExits>() + bytes_of(t->before) + t->trie->memory();
  return bytes;
}

}  // namespace guiderail
