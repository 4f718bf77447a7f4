// What pieces and outcomes add to a mask (see outcomes.cpp).
//
// A mask takes hundreds of outcomes, each of a few words. One that several masks have taken keeps all that it leads to
// as one list.
#include <algorithm>

#include "mask/lexed/pieces.hpp"

namespace guiderail {

void MaskBuilder::begin_taking() {
  taken_.resize(open_.size());
  flat_at_.resize(open_.size(), kNotTaken);
  ++taking_;  // pieces and outcomes are dropped before it overflows
}

void MaskBuilder::take(Piece& piece, Sum& to) {
  if (piece.taken == taking_) return;
  piece.taken = taking_;
  if (piece.dense) {
    to.dense.push_back(piece.dense);
    if (!piece.open) return;
  }
  for (auto [word, bits] : piece.words) to.words[word] |= bits;
  to.open_nodes.insert(to.open_nodes.end(), piece.open_nodes.begin(), piece.open_nodes.end());
  to.open_tokens.insert(to.open_tokens.end(), piece.open_tokens.begin(), piece.open_tokens.end());
  for (const auto& part : piece.parts) take(*part, to);
}

void MaskBuilder::take(u32 outcome, Sum& to) {
  if (outcome == kNothing || taken_[outcome] == taking_) return;
  taken_[outcome] = taking_;
  const std::span<const u32> of = this->outcome(outcome);
  if (of.size() > 1 && take_flat(outcome, to)) return;
  const Continuation& continuation = continuations_[of[0]];
  to.blurred = to.blurred || continuation.blurred;
  for (int t : continuation.of->whole) to.words[static_cast<u32>(t) >> 5] |= 1u << (t & 31);
  for (auto [word, bits] : continuation.words) to.words[word] |= bits;
  for (const auto& piece : continuation.pieces) take(*piece, to);
  for (std::size_t i = 1; i < of.size(); ++i) take(of[i], to);
}

MaskBuilder::WordBits MaskBuilder::as_word_bits(const Piece* piece) {
  const u64 at = reinterpret_cast<std::uintptr_t>(piece);
  return {static_cast<u32>(at >> 32), static_cast<u32>(at)};
}

MaskBuilder::Piece* MaskBuilder::piece_in(WordBits at) {
  return reinterpret_cast<Piece*>(static_cast<std::uintptr_t>(u64{at.first} << 32 | at.second));
}

// An outcome that several masks have taken: all that it leads to, as one list. The list begins with its numbers of
// words and of pieces. False: there is no list.
bool MaskBuilder::take_flat(u32 outcome, Sum& to) {
  u32& at = flat_at_[outcome];
  if (at == kNotFlat) return false;
  if (at > kToFlatten) {
    --at;
    return false;
  }
  if (at == kToFlatten) {
    Flat all;
    at = flatten(outcome, all) ? flats_->add(all.list()) : kNotFlat;
    if (at == kNotFlat) return false;
  }
  const WordBits* of = flats_->at(at);
  const auto [words, pieces] = *of++;
  for (const WordBits* end = of + words; of != end; ++of) to.words[of->first] |= of->second;
  for (const WordBits* end = of + pieces; of != end; ++of) take(*piece_in(*of), to);
  return true;
}

// Adds what an outcome leads to. False: it is too much for a list, or tokens are missing.
bool MaskBuilder::flatten(u32 outcome, Flat& to) {
  const std::span<const u32> of = this->outcome(outcome);
  const Continuation& continuation = continuations_[of[0]];
  if (continuation.blurred) return false;
  for (int t : continuation.of->whole) to.words.push_back({static_cast<u32>(t) >> 5, 1u << (t & 31)});
  to.words.insert(to.words.end(), continuation.words.begin(), continuation.words.end());
  for (const auto& piece : continuation.pieces) to.pieces.push_back(as_word_bits(piece.get()));
  for (u32 part : of.subspan(1)) {
    if (part == kNothing) continue;
    const u32 known = flat_at_[part];
    if (known == kNotFlat) return false;
    if (known < kToFlatten) {
      const WordBits* at = flats_->at(known);
      const auto [words, pieces] = *at++;
      to.words.insert(to.words.end(), at, at + words);
      to.pieces.insert(to.pieces.end(), at + words, at + words + pieces);
    } else if (!flatten(part, to)) {
      return false;
    }
    if (to.words.size() > kMostFlat) to.merge();
    if (to.words.size() > kMostFlat) return false;
  }
  return true;
}

void MaskBuilder::Flat::merge() {
  std::sort(words.begin(), words.end());
  std::size_t kept = 0;
  for (const auto& [word, bits] : words) {
    if (kept && words[kept - 1].first == word)
      words[kept - 1].second |= bits;
    else
      words[kept++] = {word, bits};
  }
  words.resize(kept);
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
}

std::vector<MaskBuilder::WordBits> MaskBuilder::Flat::list() {
  merge();
  std::vector<WordBits> out{{static_cast<u32>(words.size()), static_cast<u32>(pieces.size())}};
  out.insert(out.end(), words.begin(), words.end());
  out.insert(out.end(), pieces.begin(), pieces.end());
  return out;
}

}  // namespace guiderail
