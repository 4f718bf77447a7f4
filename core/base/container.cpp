#include "base/container.hpp"

#include "base/encoding.hpp"

namespace guiderail {
namespace {

// Like the first bytes of PNG, it shows whether a transfer as text or as 7-bit data changed the file.
constexpr std::string_view kMagic("\x89RAIL\r\n\x1a", 8);
constexpr u32 kVersion = 1;
constexpr std::size_t kHeader = 24, kEnd = 4;

constexpr std::array<u32, 256> kTable = [] {
  std::array<u32, 256> table{};
  for (u32 i = 0; i < 256; ++i) {
    u32 value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
    table[i] = value;
  }
  return table;
}();

const char* name_of(u32 kind) {
  return kind == static_cast<u32>(Saved::Program)      ? "a program"
         : kind == static_cast<u32>(Saved::Vocabulary) ? "a vocabulary"
                                                       : "something that this version does not know";
}

[[noreturn]] void refuse(const std::string& why) { throw Error("saved-file", why); }

}  // namespace

u32 crc32(std::string_view bytes) {
  u32 crc = 0xFFFFFFFF;
  for (char c : bytes) crc = kTable[(crc ^ static_cast<u8>(c)) & 0xFF] ^ (crc >> 8);
  return crc ^ 0xFFFFFFFF;
}

std::string contained(Saved kind, std::string_view contents) {
  ByteWriter writer;
  writer.out().reserve(kHeader + contents.size() + kEnd);
  writer.raw(kMagic);
  writer.fixed<u32>(static_cast<u32>(kind));
  writer.fixed<u32>(kVersion);
  writer.fixed<u64>(contents.size());
  writer.raw(contents);
  writer.fixed<u32>(crc32(writer.out()));
  return std::move(writer.out());
}

std::string_view contents_of(std::string_view file, Saved kind) {
  if (file.size() < kMagic.size() || !file.starts_with(kMagic))
    refuse("this is not a file that guiderail has saved: it does not begin like one");
  if (file.size() < kHeader + kEnd) refuse("this file is damaged: it ends too early; save it again");
  ByteReader reader(file);
  reader.raw(kMagic.size());
  const u32 is = reader.fixed<u32>(), version = reader.fixed<u32>();
  const u64 size = reader.fixed<u64>();
  if (is != static_cast<u32>(kind))
    refuse(std::string("this file holds ") + name_of(is) + ", not " + name_of(static_cast<u32>(kind)));
  if (version != kVersion)
    refuse("this file has version " + std::to_string(version) + ", and this guiderail reads version " +
           std::to_string(kVersion) + "; save it again, or use the guiderail that wrote it");
  if (size != file.size() - kHeader - kEnd)
    refuse("this file is damaged: it should have " + std::to_string(size) + " bytes of contents, but has " +
           std::to_string(file.size() - kHeader - kEnd) + "; save it again");
  ByteReader end(file.substr(file.size() - kEnd));
  if (end.fixed<u32>() != crc32(file.substr(0, file.size() - kEnd)))
    refuse("this file is damaged: its checksum is wrong; save it again");
  return file.substr(kHeader, static_cast<std::size_t>(size));
}

}  // namespace guiderail
