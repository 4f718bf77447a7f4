// The tokens that may come in a state of the pre-tokenizer, in groups with the same state after them.
#include <algorithm>

#include "vocab/spelling.hpp"

namespace guiderail {

// Calls f(shape, state after it) for each shape that may come. The shapes are sorted, so states of a common prefix are
// reused.
template <class F>
void Spelling::each_shape(Pretokens::State state, bool cut, F f) {
  std::vector<Pretokens::State> states{state};
  for (u32 i = 0; i < shapes_.size(); ++i) {
    if (states.back() == Pretokens::kDead && alike_[i] + 1 >= states.size()) continue;
    const std::string& atoms = shapes_[i].atoms;
    states.resize(std::min<std::size_t>(states.size(), alike_[i] + 1));
    while (states.size() <= atoms.size() && states.back() != Pretokens::kDead)
      states.push_back(
          pretokens_.step(states.back(), static_cast<u8>(atoms[states.size() - 1]), cut && states.size() == 1));
    if (states.back() != Pretokens::kDead) f(i, states.back());
  }
}

// Adds the tokens of a kind to a group.
void Spelling::join(Side& to, u32 kind, const std::vector<u32>& tokens, u32 group) const {
  Group& out = to.groups[group];
  to.group_of[kind] = group;
  if (out.words.empty() && out.tokens.size() + tokens.size() > own_.size() / 2) {
    out.words.assign(own_.size(), 0);
    for (u32 token : out.tokens) set_bit(out.words, token);
    out.tokens = {};
  }
  if (out.words.empty()) return void(out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end()));
  for (u32 token : tokens) set_bit(out.words, token);
}

void Spelling::take_shapes(Pretokens::State state, bool cut, Side& to) {
  std::vector<u32> group;  // by state
  each_shape(state, cut, [&](u32 shape, Pretokens::State next) {
    if (group.size() <= next) group.resize(next + 1, 0);
    if (group[next] == 0) {
      group[next] = static_cast<u32>(to.groups.size());
      to.groups.push_back({next, cuts_after(next), {}, {}});
    }
    join(to, shape, shapes_[shape].tokens, group[next]);
  });
  for (const Group& one : to.groups) {
    for (u32 token : one.tokens) set_bit(to.may, token);
    for (std::size_t w = 0; w < one.words.size(); ++w) to.may[w] |= one.words[w];
  }
}

// The tokens that may come in a state of the pre-tokenizer: as the beginning of a piece, and within the current one.
const Spelling::Masks& Spelling::masks(Pretokens::State state) {
  if (state < masks_.size() && masks_[state]) return *masks_[state];
  auto made = std::make_unique<Masks>();
  for (const bool cut : {true, false}) {
    Side& out = cut ? made->begins : made->inside;
    out.may.assign(vocabulary_->words(), 0);
    out.group_of.assign(shapes_.size() + broken_.size(), 0);
    out.groups.push_back({Pretokens::kDead, 0, {}, {}});
    if (!pretokens_.is_partial(state)) take_shapes(state, cut, out);
    take_broken(state, cut, out);
  }
  if (!whole_)
    for (std::size_t w = 0; w < own_.size(); ++w) made->begins.may[w] &= own_[w];
  if (masks_.size() <= state) masks_.resize(state + 1);
  masks_[state] = std::move(made);
  return *masks_[state];
}

std::size_t Spelling::Masks::memory() const {
  std::size_t bytes = sizeof(*this);
  for (const Side* side : {&begins, &inside}) {
    bytes += bytes_of(side->may) + bytes_of(side->group_of) + bytes_of(side->groups);
    for (const Group& group : side->groups) bytes += bytes_of(group.tokens) + bytes_of(group.words);
  }
  return bytes;
}

}  // namespace guiderail
