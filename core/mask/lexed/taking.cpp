// What pieces and outcomes add to a mask (see outcomes.cpp).
#include "mask/lexed/pieces.hpp"

namespace guiderail {

void MaskBuilder::begin_taking() {
  scratch_->begin();
  taken_.resize(open_.size());
  ++taking_;  // pieces and outcomes are dropped before it overflows
}

void MaskBuilder::take(Piece& piece, Sum& to) {
  if (piece.taken == taking_) return;
  piece.taken = taking_;
  if (piece.dense) {
    to.dense.push_back(piece.dense);
    if (!piece.open) return;
  }
  for (auto [word, bits] : piece.words) scratch_->unite(word, bits);
  to.open_nodes.insert(to.open_nodes.end(), piece.open_nodes.begin(), piece.open_nodes.end());
  to.open_tokens.insert(to.open_tokens.end(), piece.open_tokens.begin(), piece.open_tokens.end());
  for (const auto& part : piece.parts) take(*part, to);
}

void MaskBuilder::take(u32 outcome, Sum& to) {
  if (outcome == kNothing || taken_[outcome] == taking_) return;
  taken_[outcome] = taking_;
  const std::span<const u32> of = this->outcome(outcome);
  const Continuation& continuation = continuations_[of[0]];
  to.blurred = to.blurred || continuation.blurred;
  for (int t : continuation.of->whole) set(t);
  for (auto [word, bits] : continuation.words) scratch_->unite(word, bits);
  for (const auto& piece : continuation.pieces) take(*piece, to);
  for (std::size_t i = 1; i < of.size(); ++i) take(of[i], to);
}

}  // namespace guiderail
