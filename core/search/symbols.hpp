// What the symbols of a constraint are in a vocabulary: each is one token, or a set of tokens.
#pragma once

#include "vocab/mask_scratch.hpp"

namespace guiderail {

class Symbols {
 public:
  void add(u32 token) {
    of_token_[token].push_back(count());
    all_.push_back({token, nullptr});
  }
  void add(std::shared_ptr<const Words> set) {  // not an empty one
    u32 word = 0;
    while ((*set)[word] == 0) ++word;
    sets_.push_back(count());
    all_.push_back({32 * word + static_cast<u32>(std::countr_zero((*set)[word])), std::move(set)});
  }
  bool empty() const { return all_.empty(); }
  bool has_sets() const { return !sets_.empty(); }
  u32 token(u32 symbol) const { return all_[symbol].token; }             // of a set, its first
  const Words* set(u32 symbol) const { return all_[symbol].set.get(); }  // null: it is one token
  std::vector<u32> of(u32 token) const {                                 // the symbols that a token matches
    std::vector<u32> found;
    if (auto it = of_token_.find(token); it != of_token_.end()) found = it->second;
    for (u32 s : sets_)
      if (bit(*all_[s].set, token)) found.push_back(s);
    return found;
  }
  // By token: those of its symbols that are no sets.
  const std::unordered_map<u32, std::vector<u32>>& of_tokens() const { return of_token_; }
  std::size_t memory() const {
    std::size_t bytes = bytes_of(all_) + bytes_of(sets_) + bytes_of(of_token_);
    for (const auto& [token, of] : of_token_) bytes += bytes_of(of);
    for (u32 s : sets_) bytes += shared_bytes<Words>() + bytes_of(*all_[s].set);
    return bytes;
  }

 private:
  struct Meaning {
    u32 token;
    std::shared_ptr<const Words> set;
  };
  u32 count() const { return static_cast<u32>(all_.size()); }

  std::vector<Meaning> all_;
  std::vector<u32> sets_;
  std::unordered_map<u32, std::vector<u32>> of_token_;
};

}  // namespace guiderail
