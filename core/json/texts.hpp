// The texts that a state remembers: keys and items written, and sets of them.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/flat_map.hpp"
#include "base/interned.hpp"

namespace guiderail {

// A key or item text that is forgotten: masks need only know that there is some text (see Abstraction::near_form).
constexpr u32 kSomeText = 0xFFFFFFFF;

// Byte strings that grow by single bytes, by id (0: the empty one): a trie in which each links to its prefix.
class Texts {
 public:
  Texts() { links_.push_back({0, 0}); }
  u32 grow(u32 text, u8 byte) {
    const u64 key = u64{text} << 8 | byte;
    if (const u32* known = children_.find(key)) return *known;
    const u32 id = static_cast<u32>(links_.size());
    links_.push_back({text, byte});
    try {
      children_.set(key, id);
    } catch (...) {
      links_.pop_back();
      throw;
    }
    return id;
  }
  const std::string& whole(u32 text) {  // for complete texts; cached
    if (auto it = whole_.find(text); it != whole_.end()) return it->second;
    std::string out;
    for (u32 t = text; t != 0; t = links_[t].first) out.push_back(static_cast<char>(links_[t].second));
    std::reverse(out.begin(), out.end());
    const std::string& kept = whole_.emplace(text, std::move(out)).first->second;
    whole_bytes_ += bytes_of(kept);
    return kept;
  }
  u32 count() const { return static_cast<u32>(links_.size()); }
  Texts first(u32 count) const {
    Texts out;
    for (u32 t = 1; t < count; ++t) out.grow(links_[t].first, links_[t].second);
    return out;
  }
  std::size_t memory() const { return bytes_of(links_) + children_.memory() + bytes_of(whole_) + whole_bytes_; }

 private:
  std::vector<std::pair<u32, u8>> links_;
  FlatMap<> children_;
  std::unordered_map<u32, std::string> whole_;
  std::size_t whole_bytes_ = 0;  // of the texts in whole_
};

// Sets of texts, by id (0: the empty one). Equal sets have equal ids. A set is a treap, ordered by the texts; its
// priorities are hashes of them (Seidel & Aragon 1996). So each set has one shape, and sets share their parts: adding a
// text to n others makes O(log n) nodes.
class TextSets {
 public:
  explicit TextSets(Texts& texts) : texts_(texts) { nodes_.id({}); }
  u32 size(u32 set) const { return nodes_.values[set].size; }
  const Hash& identity(u32 set) const { return nodes_.values[set].identity; }  // the same in every arena
  // The text with `index` others before it.
  u32 at(u32 set, u32 index) const {
    for (;;) {
      const Node& n = nodes_.values[set];
      const u32 before = size(n.left);
      if (index == before) return n.text;
      set = index < before ? n.left : n.right;
      index -= index < before ? 0 : before + 1;
    }
  }
  bool has(u32 set, const std::string& text) const {
    while (set != 0) {
      const Node& n = nodes_.values[set];
      const int order = text.compare(texts_.whole(n.text));
      if (order == 0) return true;
      set = order < 0 ? n.left : n.right;
    }
    return false;
  }
  template <class F>
  void each(u32 set, F f) const {  // in order
    std::vector<u32> open;
    for (; set != 0 || !open.empty(); set = nodes_.values[set].right) {
      for (; set != 0; set = nodes_.values[set].left) open.push_back(set);
      set = open.back();
      open.pop_back();
      f(nodes_.values[set].text);
    }
  }
  u32 with(u32 set, u32 text) { return with(set, {text, 0, 0, 0, identity_of(text), {}}, texts_.whole(text)); }
  Hash identity_of(u32 text) const { return Identity(Of::Text).add(texts_.whole(text)).done(); }
  u32 count() const { return static_cast<u32>(nodes_.values.size()); }
  void take_first(const TextSets& of, u32 count) { nodes_ = of.nodes_.first(count); }
  std::size_t memory() const { return nodes_.memory(); }

 private:
  struct Node {
    u32 text = 0, left = 0, right = 0, size = 0;
    Hash own{}, identity{};  // of the text, which is its priority, too; and of all texts
    bool operator==(const Node& o) const {
      return text == o.text && left == o.left && right == o.right && size == o.size;
    }
    friend u64 bucket_hash(const Node& n) {
      return BucketHash(u64{n.left} << 32 | n.right).add(u64{n.text} << 32 | n.size).done();
    }
    friend std::size_t bytes_of(const Node&) { return 0; }
    bool above(const Node& o) const { return own.lo != o.own.lo ? own.lo > o.own.lo : own.hi > o.own.hi; }
  };

  u32 make(Node node, u32 left, u32 right) {
    node.left = left;
    node.right = right;
    node.size = 1 + size(left) + size(right);
    node.identity = Identity(Of::Text).add(node.own).add(identity(left)).add(identity(right)).done();
    return nodes_.id(node);
  }
  u32 with(u32 set, const Node& added, const std::string& text) {
    if (set == 0) return make(added, 0, 0);
    const Node here = nodes_.values[set];
    if (here.text == added.text) return set;
    if (added.above(here)) {
      const auto [before, after] = split(set, text);
      return make(added, before, after);
    }
    if (text < texts_.whole(here.text)) return make(here, with(here.left, added, text), here.right);
    return make(here, here.left, with(here.right, added, text));
  }
  std::pair<u32, u32> split(u32 set,
                            const std::string& text) {  // the texts before and after one that is not among them
    if (set == 0) return {0, 0};
    const Node here = nodes_.values[set];
    if (text < texts_.whole(here.text)) {
      const auto [before, after] = split(here.left, text);
      return {before, make(here, after, here.right)};
    }
    const auto [before, after] = split(here.right, text);
    return {make(here, here.left, before), after};
  }

  Texts& texts_;
  Interned<Node> nodes_;
};

}  // namespace guiderail
