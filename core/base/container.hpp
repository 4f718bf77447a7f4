// The envelope of a saved file: its type, its version and a checksum (docs/program_format.md).
#pragma once

#include "base/support.hpp"

namespace guiderail {

enum class Saved : u32 { Program = 1, Vocabulary = 2 };

u32 crc32(std::string_view bytes);  // the CRC-32 of zlib and PNG

// The bytes of a file with these contents.
std::string contained(Saved kind, std::string_view contents);
// The contents of a file of this kind; Error("saved-file") says what is wrong with it.
std::string_view contents_of(std::string_view file, Saved kind);

}  // namespace guiderail
