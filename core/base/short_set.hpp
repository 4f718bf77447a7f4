// A set that is usually small: its first members lie in place and are searched one by one.
#pragma once

#include <algorithm>
#include <unordered_set>

#include "base/short_vector.hpp"

namespace guiderail {

template <class T, std::size_t kFew = 16>
class ShortSet {
 public:
  bool insert(T x) {  // false: it was there
    if (!more_.empty()) return more_.insert(x).second;
    if (std::find(few_.begin(), few_.end(), x) != few_.end()) return false;
    if (few_.size() < kFew) {
      few_.push_back(x);
    } else {
      more_.insert(few_.begin(), few_.end());
      more_.insert(x);
    }
    return true;
  }

 private:
  ShortVector<T, kFew> few_;
  std::unordered_set<T> more_;  // all of them, once there are many
};

}  // namespace guiderail
