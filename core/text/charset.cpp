#include "text/charset.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>

#include "base/at_fork.hpp"
#include "base/memory.hpp"

namespace guiderail {
namespace {

constexpr u32 kMax = 0x10FFFF;
constinit std::atomic<std::size_t> all_sets_bytes{0};
using Ranges = std::vector<CharSet::Range>;

// Ascending, no two touch, no surrogates.
bool is_normal(const Ranges& in) {
  u32 least = 0;
  for (auto [lo, hi] : in) {
    if (lo < least || lo > hi || hi > kMax || (lo < 0xE000 && hi > 0xD7FF)) return false;
    least = hi + 2;
  }
  return true;
}

Ranges normalise(Ranges in) {
  if (is_normal(in)) return in;
  Ranges cut;
  for (auto [lo, hi] : in) {
    hi = std::min(hi, kMax);
    if (lo > hi) continue;
    if (lo < 0xD800) cut.push_back({lo, std::min<u32>(hi, 0xD7FF)});
    if (hi > 0xDFFF) cut.push_back({std::max<u32>(lo, 0xE000), hi});
  }
  std::sort(cut.begin(), cut.end());
  Ranges out;
  for (auto r : cut) {
    // U+D7FF and U+E000 are neighbours: no scalar value lies between them.
    bool touches =
        !out.empty() && (r.first <= out.back().second + 1 || (out.back().second == 0xD7FF && r.first == 0xE000));
    if (touches)
      out.back().second = std::max(out.back().second, r.second);
    else
      out.push_back(r);
  }
  // Keep the surrogate gap explicit so that equal sets have equal ranges.
  Ranges split;
  for (auto [lo, hi] : out) {
    if (lo < 0xD800 && hi > 0xDFFF) {
      split.push_back({lo, 0xD7FF});
      split.push_back({0xE000, hi});
    } else {
      split.push_back({lo, hi});
    }
  }
  return split;
}

Ranges overlap(const Ranges& a, const Ranges& b) {
  Ranges out;
  out.reserve(std::max(a.size(), b.size()));
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    u32 lo = std::max(a[i].first, b[j].first), hi = std::min(a[i].second, b[j].second);
    if (lo <= hi) out.push_back({lo, hi});
    (a[i].second < b[j].second ? i : j)++;
  }
  return out;
}

// Builds the automaton top-down; equal (remaining bytes, set of suffixes) share a state.
class Utf8 {
 public:
  explicit Utf8(const Ranges& ranges) : ranges_(ranges), next_(3) {
    for (auto& row : next_) row.fill(CharSet::kDead);
    for (u32 b = 0; b < 0x80; ++b) lead(b, b, b, 0);
    for (u32 b = 0xC2; b < 0xE0; ++b) lead(b, (b & 0x1F) << 6, ((b & 0x1F) << 6) + 0x3F, 1);
    for (u32 b = 0xE0; b < 0xF0; ++b) {
      u32 base = (b & 0x0F) << 12;
      lead(b, base, base + 0xFFF, 2);
    }
    for (u32 b = 0xF0; b < 0xF5; ++b) {
      u32 base = (b & 0x07) << 18;
      lead(b, base, base + 0x3FFFF, 3);
    }
  }
  std::vector<std::array<u16, 256>> take() { return std::move(next_); }

 private:
  void lead(u32 byte, u32 lo, u32 hi, int more) {
    static constexpr u32 shortest[] = {0, 0x80, 0x800, 0x10000};  // no overlong forms
    u32 from = std::max(lo, shortest[more]);
    Ranges inside;
    for (auto it = std::lower_bound(ranges_.begin(), ranges_.end(), from,
                                    [](const CharSet::Range& r, u32 v) { return r.second < v; });
         it != ranges_.end() && it->first <= hi; ++it)
      inside.push_back({std::max(it->first, from) - lo, std::min(it->second, hi) - lo});
    next_[CharSet::kStart][byte] = state(more, inside);
  }
  u16 state(int more, const Ranges& set) {
    if (set.empty()) return CharSet::kDead;
    if (more == 0) return CharSet::kDone;
    auto key = std::make_pair(more, set);
    if (auto it = memo_.find(key); it != memo_.end()) return it->second;
    std::array<u16, 256> row;
    row.fill(CharSet::kDead);
    const u32 width = u32{1} << (6 * (more - 1));
    std::size_t at = 0;
    for (u32 i = 0; i < 64; ++i) {
      u32 lo = i * width, hi = lo + width - 1;
      while (at < set.size() && set[at].second < lo) ++at;
      Ranges inside;
      for (std::size_t k = at; k < set.size() && set[k].first <= hi; ++k)
        inside.push_back({std::max(set[k].first, lo) - lo, std::min(set[k].second, hi) - lo});
      row[0x80 + i] = state(more - 1, inside);
    }
    u16 id = static_cast<u16>(next_.size());
    next_.push_back(row);
    memo_.emplace(std::move(key), id);
    return id;
  }

  const Ranges& ranges_;
  std::vector<std::array<u16, 256>> next_;
  std::map<std::pair<int, Ranges>, u16> memo_;
};

struct Registry {
  ProcessMutex mutex;
  std::unordered_multimap<Hash, std::weak_ptr<const CharSet>, HashHasher> sets;
  std::size_t sweep_at = 1024;  // drop dead entries when the table has doubled
  void sweep() {
    std::erase_if(sets, [](const auto& entry) { return entry.second.expired(); });
    sweep_at = std::max<std::size_t>(1024, 2 * sets.size());
  }
};

Registry& registry() {
  static auto* r = new Registry;  // never destroyed: sets may outlive static destruction
  return *r;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto& any = CharSet::any()->automaton();
  u16 state = CharSet::kDone;
  for (char c : text)
    if ((state = any[state == CharSet::kDone ? CharSet::kStart : state][static_cast<u8>(c)]) == CharSet::kDead)
      return false;
  return state == CharSet::kDone;
}

u32 count_characters(std::string_view text) {
  return static_cast<u32>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(static_cast<u8>(c)); }));
}

CharSet::CharSet(std::vector<Range> ranges, const Hash& hash) : ranges_(std::move(ranges)), hash_(hash) {
  for (auto [lo, hi] : ranges_) size_ += hi - lo + 1;
  // The set, its reference counts, and its entry in the registry.
  charge(block_bytes(sizeof(CharSet)) + block_bytes(4 * sizeof(void*)) + block_bytes(6 * sizeof(void*)) +
         bytes_of(ranges_));
}

CharSet::~CharSet() { all_sets_bytes.fetch_sub(bytes_, std::memory_order_relaxed); }

std::size_t CharSet::all_bytes() { return all_sets_bytes.load(std::memory_order_relaxed); }

void CharSet::charge(std::size_t bytes) const {
  bytes_ += bytes;
  all_sets_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

CharSet::Ptr CharSet::make(std::vector<Range> ranges) { return intern(normalise(std::move(ranges))); }

CharSet::Ptr CharSet::intern(std::vector<Range> normal) {
  Identity identity(Of::CharSet);
  for (auto [lo, hi] : normal) identity.add(u64{lo} << 32 | hi);
  const Hash hash = identity.add(u64{normal.size()}).done();
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  auto [it, last] = r.sets.equal_range(hash);
  while (it != last) {
    const auto old = it->second.lock();
    if (old && old->ranges_ == normal) return old;
    it = old ? std::next(it) : r.sets.erase(it);  // repeated creation and destruction leaves no dead entries
  }
  std::shared_ptr<const CharSet> fresh(new CharSet(std::move(normal), hash));
  r.sets.emplace(hash, fresh);
  if (r.sets.size() > r.sweep_at) r.sweep();
  return fresh;
}

void CharSet::forget_dead() {
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  r.sweep();
}

CharSet::Ptr CharSet::unite(const CharSet& a, const CharSet& b) {
  auto all = a.ranges_;
  all.insert(all.end(), b.ranges_.begin(), b.ranges_.end());
  return make(std::move(all));
}

CharSet::Ptr CharSet::intersect(const CharSet& a, const CharSet& b) { return make(overlap(a.ranges_, b.ranges_)); }

CharSet::Ptr CharSet::invert(const CharSet& a) {
  std::vector<Range> out;
  u32 next = 0;
  for (auto [lo, hi] : a.ranges_) {
    if (lo > next) out.push_back({next, lo - 1});
    next = hi + 1;
  }
  if (next <= kMax) out.push_back({next, kMax});
  return make(std::move(out));
}

const CharSet::Ptr& CharSet::any() {
  static auto* set = new Ptr(make({{0, kMax}}));
  return *set;
}

bool CharSet::contains(u32 c) const {
  auto it = std::lower_bound(ranges_.begin(), ranges_.end(), c, [](const Range& r, u32 v) { return r.second < v; });
  return it != ranges_.end() && it->first <= c;
}

bool CharSet::covers(const CharSet& other) const {
  if (this == &other) return true;
  return std::all_of(other.ranges_.begin(), other.ranges_.end(), [&](const Range& one) {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), one,
                                        [](const Range& a, const Range& b) { return a.first < b.first; });
    return after != ranges_.begin() && std::prev(after)->second >= one.second;
  });
}

void CharSet::build() const {
  automaton_ = Utf8(ranges_).take();
  for (unsigned b = 0; b < 256; ++b)
    if (automaton_[kStart][b] != kDead) first_.add(static_cast<u8>(b));
  std::map<std::vector<u16>, u8> columns;
  std::vector<u16> column(automaton_.size());
  for (unsigned b = 0; b < 256; ++b) {
    for (std::size_t s = 0; s < automaton_.size(); ++s) column[s] = automaton_[s][b];
    classes_[b] = columns.emplace(column, static_cast<u8>(columns.size())).first->second;
  }
  charge(bytes_of(automaton_));  // last, so that a build that fails and starts over is counted once
}

void CharSet::build_once() const {
  std::call_once(built_, [this] { build(); });
  is_built_.store(true, std::memory_order_release);
}
const ByteSet& CharSet::first() const {
  automaton();
  return first_;
}
const std::array<u8, 256>& CharSet::byte_classes() const {
  automaton();
  return classes_;
}

}  // namespace guiderail
