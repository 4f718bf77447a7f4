// Sets of small numbers, as lists of words: of 64 bits here, of 32 in the masks that engines read.
#pragma once

#include <concepts>
#include <type_traits>

#include "base/short_vector.hpp"

namespace guiderail {

using Bits = ShortVector<u64, 1>;  // up to 64 numbers need no memory of their own

template <class Set>
using WordOf = std::remove_cvref_t<decltype(std::declval<Set&>()[0])>;

template <class Set>
bool bit(const Set& set, std::integral auto i) {
  constexpr std::size_t kWord = 8 * sizeof(WordOf<const Set>);
  const auto at = static_cast<std::size_t>(i);
  return set[at / kWord] >> (at % kWord) & 1;
}
template <class Set>
void set_bit(Set& set, std::integral auto i) {
  constexpr std::size_t kWord = 8 * sizeof(WordOf<Set>);
  const auto at = static_cast<std::size_t>(i);
  set[at / kWord] |= WordOf<Set>{1} << at % kWord;
}
template <class Set>
void clear_bit(Set& set, std::integral auto i) {
  constexpr std::size_t kWord = 8 * sizeof(WordOf<Set>);
  const auto at = static_cast<std::size_t>(i);
  set[at / kWord] &= ~(WordOf<Set>{1} << at % kWord);
}

}  // namespace guiderail
