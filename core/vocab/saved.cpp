#include "vocab/saved.hpp"

#include "base/container.hpp"
#include "base/encoding.hpp"

namespace guiderail {
namespace {

constexpr std::size_t kFingerprint = 32;  // bytes; Python compares it

u32 token(ByteReader& from, u32 size) {
  const u32 id = from.number32();
  if (id >= size) from.refuse("a token is not below the vocabulary's size");
  return id;
}

void read_lengths(ByteReader& from, std::size_t count, VocabularyParts& parts) {
  const u8 width = from.byte();
  if (width != 1 && width != 2 && width != 4) from.refuse("lengths take 1, 2 or 4 bytes");
  if (count > from.left() / width) from.refuse("it ends too early");
  u64 end = 0;
  parts.offsets.reserve(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    end += width == 1 ? from.byte() : width == 2 ? from.fixed<u16>() : from.fixed<u32>();
    if (end > 0xFFFFFFFF) from.refuse("the tokens together exceed 4 GiB");
    parts.offsets.push_back(static_cast<u32>(end));
  }
}

}  // namespace

VocabularyParts read_vocabulary(std::string_view file) {
  ByteReader from(contents_of(file, Saved::Vocabulary));
  VocabularyParts parts;
  parts.size = from.number32();
  const std::size_t count = from.number32();
  from.number();  // the token that begins a text
  for (std::size_t left = from.count(); left > 0; --left) parts.stops.push_back(token(from, parts.size));
  for (std::size_t left = from.count(); left > 0; --left) {
    const u32 id = token(from, parts.size);
    parts.names.emplace(from.text(), id);
  }
  for (std::size_t left = from.count(); left > 0; --left) {  // reasons why tokens are unknown: for people
    from.number();
    from.text();
  }
  from.text();  // its name
  from.raw(kFingerprint);
  read_lengths(from, count, parts);
  const std::string_view bits = from.raw((count + 7) / 8);
  for (std::size_t i = 0; i < count; ++i) parts.special.push_back(static_cast<u8>(bits[i / 8]) >> (i % 8) & 1);
  parts.data = from.text();
  if (parts.data.size() != parts.offsets.back()) from.refuse("the lengths of its tokens do not match its data");
  if (from.left() != 0) from.refuse("there is data after its end");
  return parts;
}

}  // namespace guiderail
