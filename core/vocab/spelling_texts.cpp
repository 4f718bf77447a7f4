// Texts that tokens are made of: sets of characters, and texts that are tokens of their own.
#include "vocab/spelling.hpp"

namespace guiderail {

namespace {
void set_bit(Words& words, u32 token) { words[token >> 5] |= 1u << (token & 31); }
bool continues(char c) { return (static_cast<u8>(c) & 0xC0) == 0x80; }
}  // namespace

// How many characters of a text there are up to the one that leaves the branches; 0: none does.
std::size_t Spelling::leave(const Characters& of, std::string_view text) {
  for (std::size_t n = 1; n < text.size(); ++n) {
    const auto branch = of.branches.find(text.substr(0, n));
    if (branch == of.branches.end()) return 0;
    if (branch->second.has(static_cast<u8>(text[n]))) return n + 1;
  }
  return 0;
}

std::shared_ptr<const Spelling::Made> Spelling::made_of(const Characters& of) {
  std::lock_guard lock(mutex_);
  for (const auto& [known, tokens] : made_of_set_)
    if (known == of) return tokens;
  auto made = std::make_shared<Made>();
  made->whole.assign(vocabulary_->words(), 0);
  made->begun.assign(vocabulary_->words(), 0);
  for (u32 t = 0; t < vocabulary_->token_count(); ++t) {
    if (!is_piece(t)) continue;
    const std::string_view text = vocabulary_->bytes(t);
    std::size_t whole = text.size();
    if (shape_of_[t] == kNone) {
      do --whole;
      while (whole > 0 && continues(text[whole]));
      if (continues(text[whole]) || !is_utf8(text.substr(0, whole))) continue;
    }
    std::size_t begun = 0;
    if (!of.branches.empty() && !of.first.has(static_cast<u8>(text[0]))) begun = leave(of, text.substr(0, whole));
    bool all = true;
    for (std::size_t i = begun; i < whole && all; ++i) {
      const ByteSet& set = i == 0 ? of.first : of.others;
      if (of.escapes && text[i] == '\\')
        all = ++i < whole && std::string_view("\"\\/bfnrt").find(text[i]) != std::string_view::npos;
      else
        all = static_cast<u8>(text[i]) < 0x80 ? set.has(static_cast<u8>(text[i])) : of.beyond;
    }
    if (all) set_bit(whole == text.size() ? made->whole : made->begun, t);
  }
  if (made_of_set_.size() >= kMostMadeOf) made_of_set_.erase(made_of_set_.begin());
  made_of_set_.push_back({of, std::move(made)});
  return made_of_set_.back().second;
}

Separate::Separate(const std::vector<std::string>& texts) : nodes_(1) {
  for (const std::string& text : texts) {
    u32 at = 0;
    for (char c : text) {
      const auto [it, fresh] = nodes_[at].next.try_emplace(static_cast<u8>(c), static_cast<u32>(nodes_.size()));
      at = it->second;
      if (fresh) nodes_.emplace_back();
    }
    if (at != 0) nodes_[at].found = true;
  }
  std::deque<u32> queue{0};
  while (!queue.empty()) {
    const u32 at = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : nodes_[at].next) {
      u32 shorter = nodes_[at].shorter;
      while (at != 0 && shorter != 0 && !nodes_[shorter].next.contains(byte)) shorter = nodes_[shorter].shorter;
      if (auto it = nodes_[shorter].next.find(byte); at != 0 && it != nodes_[shorter].next.end())
        nodes_[child].shorter = it->second;
      nodes_[child].found = nodes_[child].found || nodes_[nodes_[child].shorter].found;
      queue.push_back(child);
    }
  }
}

u32 Separate::read(u32 state, std::string_view bytes) const {
  for (char c : bytes) {
    auto it = nodes_[state].next.find(static_cast<u8>(c));
    while (it == nodes_[state].next.end() && state != 0) {
      state = nodes_[state].shorter;
      it = nodes_[state].next.find(static_cast<u8>(c));
    }
    if (it != nodes_[state].next.end()) state = it->second;
    if (nodes_[state].found) return kFound;
  }
  return state;
}

}  // namespace guiderail
