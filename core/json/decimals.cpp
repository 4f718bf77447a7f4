// Plain decimals of one sign: intervals, multiples and their complements, read digit by digit.
//
// An automaton of the multiples of m has up to m states, and that many for each digit of a bound: too many to build in
// advance. Here a state is computed from what was read: its value modulo the divisors, and where it lies between the
// cuts. As in number_digits.py, the state keeps the cuts that begin with the digits read, separately for each length
// that the integer part may have. A text that no cut begins with keeps only the stretch in which it will end.
//
// Whether a state can be completed is computed, not searched for. For each length of the integer part, the numbers that
// begin with some digits form a block of consecutive units, and cuts divide it into stretches. The first multiple of m
// in a stretch follows from the beginning of the stretch modulo m. Multiples of a gap n are skipped. There are never
// many in a row: if m is a multiple of no n, then neither is k m for any k = 1 modulo all n.
#include "json/decimals.hpp"

#include <algorithm>
#include <utility>

#include "base/work.hpp"

namespace guiderail {
namespace {

constexpr u128 kHuge = DecimalTable::kHuge;

u128 gcd(u128 a, u128 b) {
  while (b) a = std::exchange(b, a % b);
  return a;
}

u128 times_ten(u128 x) { return x >= kHuge / 10 ? kHuge : x * 10; }

u128 power(u32 e) {
  u128 out = 1;
  for (; e > 0 && out < kHuge; --e) out *= 10;
  return out;
}

u32 digit_at(const std::string& digits, std::size_t place) {
  return place < digits.size() ? static_cast<u32>(digits[place] - '0') : 0;
}

}  // namespace

u64 bucket_hash(const DecimalState& s) {
  BucketHash hash(u64{s.table} << 32 | s.count);
  hash.add(u64{s.place} << 32 | s.room).add(u64{s.phase} << 1 | s.fresh);
  for (u128 v : s.value) hash.add(static_cast<u64>(v)).add(static_cast<u64>(v >> 64));
  return hash.add({s.list.data(), s.list.size()}).done();
}

void DecimalTable::derive() {
  const std::size_t count = moduli.size();
  auto modulus_of = [&](u128 divisor) {
    for (u32 i = 0; i < count; ++i)
      if (moduli[i] % divisor == 0) return i;
    throw Error("bad-shape", "decimals: a divisor that divides no modulus");
  };
  const u128 unit = power(scale);
  auto tell = [&](u128 x) {
    for (; x; x /= 10) told += static_cast<char>('0' + static_cast<int>(x % 10));
    told += ',';
  };
  tell(scale);
  tell(room);
  for (DecimalLabel& label : labels) {
    told += label.dotted ? "l." : "l";
    for (DecimalPart& part : label.parts) {
      const u128 step = part.step ? part.step : 1;
      for (u32 e = 0; e <= scale; ++e) {
        const u128 ten = power(e), both = step / gcd(step, ten) * ten;
        const bool none = std::any_of(part.gaps.begin(), part.gaps.end(), [&](u128 n) { return both % n == 0; });
        part.coarse.push_back(none ? 0 : both);
      }
      part.modulus = modulus_of(step / gcd(step, unit) * unit);
      for (u128 n : part.gaps) part.gap_moduli.push_back(modulus_of(n));
      told += 'p';
      tell(part.step);
      for (u128 n : part.gaps) tell(n);
      label.every = label.every || part.step == 0;
      label.all = label.all || (part.step == 0 && part.gaps.empty());
      const bool fractions = label.dotted && room != 0;
      for (u32 e = fractions ? 0 : scale; e <= scale; ++e) label.possible = label.possible || part.coarse[e];
    }
    label.every = label.every && label.dotted;
    label.possible = label.possible || label.every;
  }
  places.resize(scale + 1);
  for (u32 e = 0; e <= scale; ++e)
    for (u128 m : moduli) places[e].push_back(power(e) % m);
  for (u32 i = 0; i < cuts.size(); ++i) {
    const DecimalCut& cut = cuts[i];
    told += 'c' + cut.whole + '.' + cut.fraction;
    told += '@';
    tell(cut.at);
    tell(cut.above);
    if (!labels[cut.above].possible) cuts[i].above = 0;
    if (sizes.empty() || sizes.back().digits != cut.whole.size())
      sizes.push_back({static_cast<u32>(cut.whole.size()), i, i + 1});
    else
      sizes.back().high = i + 1;
    std::vector<u128> value;
    for (u128 m : moduli) {
      u128 v = 0;
      for (char c : cut.whole) v = (10 * v + static_cast<u32>(c - '0')) % m;
      for (u32 j = 0; j < scale; ++j) v = (10 * v + digit_at(cut.fraction, j)) % m;
      value.push_back(v);
    }
    values.push_back(std::move(value));
  }
}

// -- reading --
bool DecimalReader::has(u32 label, u32 place, const Value& value) const {
  for (const DecimalPart& part : t_.labels[label].parts) {
    if (place == DecimalState::kPast) {
      if (part.step == 0) return true;
      continue;
    }
    bool in = part.step == 0 || value[part.modulus] % part.step == 0;
    for (std::size_t g = 0; g < part.gaps.size() && in; ++g) in = value[part.gap_moduli[g]] % part.gaps[g] != 0;
    if (in) return true;
  }
  return false;
}

u32 DecimalReader::label_of_whole(Range r) const {
  return r.low < r.high && t_.cuts[r.low].fraction.empty() ? t_.cuts[r.low].at : t_.cuts[r.low - 1].above;
}

// The cuts that begin with the integer part read so far.
DecimalReader::Range DecimalReader::here(const DecimalState& s) const {
  if (s.phase == DecimalState::Zero) return {s.list[0], s.list[1]};
  const DecimalTable::Size& size = t_.sizes[s.list[0]];
  return size.digits == s.count ? Range{s.list[1], s.list[2]} : Range{size.low, size.low};
}

bool DecimalReader::accepts(const DecimalState& s) const {
  switch (s.phase) {
    case DecimalState::Start: return false;
    case DecimalState::Whole:
    case DecimalState::Zero: return has(label_of_whole(here(s)), 0, s.value);
    case DecimalState::Apart: return has(s.list.empty() ? t_.cuts.back().above : s.list[1], 0, s.value);
    case DecimalState::Loose: return !s.fresh && has(s.count, s.place, s.value);
    case DecimalState::Tight: {
      const DecimalCut& cut = t_.cuts[s.list[0]];
      const u32 label = cut.fraction.size() <= s.count ? cut.at : t_.cuts[s.list[0] - 1].above;
      return !s.fresh && t_.labels[label].dotted && has(label, s.place, s.value);
    }
  }
  return false;
}

// Among cuts that agree up to a place, those with this digit there.
DecimalReader::Range DecimalReader::split(Range rows, bool whole, u32 place, u8 digit) const {
  auto of = [&](u32 i) { return digit_at(whole ? t_.cuts[i].whole : t_.cuts[i].fraction, place); };
  const u32 d = digit - u32{'0'};
  auto find = [&](u32 lo, u32 hi, u32 least) {  // the first cut with at least this digit
    while (lo < hi) {
      const u32 mid = (lo + hi) / 2;
      if (of(mid) < least)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  };
  const u32 low = find(rows.low, rows.high, d);
  return {low, find(low, rows.high, d + 1)};
}

void DecimalReader::grow(Value& value, u32 digit) const {
  for (std::size_t m = 0; m < value.size(); ++m)
    value[m] = (10 * value[m] + digit * t_.places[t_.scale][m]) % t_.moduli[m];
}

// After a digit of the integer part. `ranges` are the cuts that begin like the text: one range for each entry of
// `sizes`, beginning at `from`.
bool DecimalReader::number(DecimalState& s, u32 from, std::span<const Range> ranges) const {
  s.list = {};
  if (std::any_of(ranges.begin(), ranges.end(), [](Range r) { return r.low != r.high; })) {
    s.phase = DecimalState::Whole;
    s.list.push_back(from);
    for (Range r : ranges) {
      s.list.push_back(r.low);
      s.list.push_back(r.high);
    }
    return true;
  }
  u32 at = s.count;
  auto add = [&](u32 count, u32 label) {
    if (!s.list.empty() && s.list.back() == label)
      s.list[s.list.size() - 2] += count;
    else
      s.list.append(std::array{count, label});
  };
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const DecimalTable::Size& size = t_.sizes[from + i];
    if (size.digits > at) add(size.digits - at, t_.cuts[size.low - 1].above);
    add(1, t_.cuts[ranges[i].low - 1].above);
    at = size.digits + 1;
  }
  const u32 last = t_.cuts.back().above;
  if (!s.list.empty() && s.list.back() == last) s.list.resize(s.list.size() - 2, 0);
  s.phase = DecimalState::Apart;
  s.count = 0;
  forget(s);
  return !s.list.empty() || last;
}

// Drops the value if no stretch that can still be reached depends on it.
void DecimalReader::forget(DecimalState& s) const {
  auto asks = [&](u32 label) { return label && !t_.labels[label].all; };
  bool needed = asks(t_.cuts.back().above);
  for (std::size_t i = 1; i < s.list.size() && !needed; i += 2) needed = asks(s.list[i]);
  if (!needed) std::fill(s.value.begin(), s.value.end(), 0);
}

bool DecimalReader::loosen(DecimalState& s, u32 label) const {
  if (!t_.labels[label].dotted) return false;
  s.phase = DecimalState::Loose;
  s.count = label;
  s.list = {};
  if (t_.labels[label].all) s.place = DecimalState::kPast;
  if (s.place == DecimalState::kPast) std::fill(s.value.begin(), s.value.end(), 0);
  return true;
}

bool DecimalReader::past_point(DecimalState& s, Range r, u32 read) const {
  if (r.low == r.high) return loosen(s, t_.cuts[r.low - 1].above);
  const DecimalCut& cut = t_.cuts[r.low];
  if (r.high - r.low == 1 && read >= cut.fraction.size()) {
    read = static_cast<u32>(cut.fraction.size());
    if (cut.at == cut.above) return loosen(s, cut.above);
  }
  s.phase = DecimalState::Tight;
  s.count = read;
  s.list = {r.low, r.high};
  if (s.place == DecimalState::kPast) std::fill(s.value.begin(), s.value.end(), 0);
  return true;
}

void DecimalReader::add_digit(DecimalState& s, u32 digit) const {
  if (s.room != kInf) --s.room;
  s.fresh = false;
  if (s.place == DecimalState::kPast) return;
  if (s.place == t_.scale) {
    if (digit) s.place = DecimalState::kPast;
    return;
  }
  ++s.place;
  for (std::size_t m = 0; m < s.value.size(); ++m)
    s.value[m] = (s.value[m] + digit * t_.places[t_.scale - s.place][m]) % t_.moduli[m];
}

bool DecimalReader::next(const DecimalState& s, u8 byte, DecimalState& out) const {
  const bool digit = byte >= '0' && byte <= '9';
  if (!digit && byte != '.') return false;
  const u32 d = byte - u32{'0'};
  out = s;
  switch (s.phase) {
    case DecimalState::Start: {
      if (!digit) return false;
      const Range ones = split({t_.sizes[0].low, t_.sizes[0].high}, true, 0, byte);
      if (d == 0) {
        out.phase = DecimalState::Zero;
        out.list = {ones.low, ones.high};
        return true;
      }
      grow(out.value, d);
      out.count = 1;
      std::vector<Range> ranges;
      for (const auto& size : t_.sizes) ranges.push_back(split({size.low, size.high}, true, 0, byte));
      return number(out, 0, ranges);
    }
    case DecimalState::Zero:
    case DecimalState::Whole: {
      if (!digit) {
        out.fresh = true;
        return t_.room != 0 && past_point(out, here(s), 0);
      }
      if (s.phase == DecimalState::Zero) return false;
      u32 from = s.list[0];
      std::size_t at = 1;
      if (t_.sizes[from].digits == s.count) {
        ++from;
        at += 2;
      }
      std::vector<Range> ranges;
      for (; at < s.list.size(); at += 2) ranges.push_back(split({s.list[at], s.list[at + 1]}, true, s.count, byte));
      grow(out.value, d);
      ++out.count;
      return number(out, from, ranges);
    }
    case DecimalState::Apart: {
      if (!digit) {
        out.fresh = true;
        return t_.room != 0 && loosen(out, s.list.empty() ? t_.cuts.back().above : s.list[1]);
      }
      grow(out.value, d);
      if (!s.list.empty() && --out.list[0] == 0)
        out.list = ShortVector<u32, 6>(std::span(s.list.begin() + 2, s.list.end()));
      forget(out);
      return !out.list.empty() || t_.cuts.back().above;
    }
    case DecimalState::Loose:
      if (!digit || s.room == 0) return false;
      add_digit(out, d);
      return loosen(out, s.count);
    case DecimalState::Tight: {
      if (!digit || s.room == 0) return false;
      add_digit(out, d);
      return past_point(out, split({s.list[0], s.list[1]}, false, s.count, byte), s.count + 1);
    }
  }
  return false;
}

// -- emptiness --
// Does the label contain a multiple of 10^e units that lies lo..hi units beyond the base?
bool DecimalReader::exists(const DecimalLabel& label, const Value& base, u32 e, u128 lo, u128 hi) const {
  if (lo > hi) return false;
  for (const DecimalPart& part : label.parts) {
    const u128 step = part.coarse[e];
    if (!step) continue;
    const u128 off = (base[part.modulus] + lo) % step;
    for (u128 at = off ? lo + (step - off) : lo; at <= hi; at += step) {
      Work::spend();
      bool in = true;
      for (std::size_t g = 0; g < part.gaps.size() && in; ++g) in = (base[part.gap_moduli[g]] + at) % part.gaps[g] != 0;
      if (in) return true;
    }
  }
  return false;
}

// How many digits after the point a number of the label needs that lies lo..hi units beyond the base. `some`: this
// interval contains decimals that are no whole number of units.
u32 DecimalReader::least_in(u32 label, const Block& b, const Value& base, u128 lo, u128 hi, bool some) const {
  const DecimalLabel& l = t_.labels[label];
  if (!l.possible || (b.dotted && !l.dotted)) return kInf;
  const u32 most = l.dotted ? b.most : 0;
  const u32 left = t_.scale - b.known;
  if (b.size)
    for (u32 f = b.need; f <= most && f <= std::max(left, b.need); ++f)
      if (exists(l, base, left - std::min(f, left), lo, hi)) return f;
  return l.every && some && most > left ? std::max(b.need, left + 1) : kInf;
}

DecimalReader::Offset DecimalReader::offset(u32 i, const Block& b) const {
  const DecimalCut& cut = t_.cuts[i];
  u128 units = 0;
  if (!b.dotted)
    for (std::size_t k = b.whole; k < cut.whole.size() && units < kHuge; ++k)
      units = std::min(times_ten(units) + digit_at(cut.whole, k), kHuge);
  for (u32 j = b.known; j < t_.scale && units < kHuge; ++j)
    units = std::min(times_ten(units) + digit_at(cut.fraction, j), kHuge);
  const bool exact = cut.fraction.size() <= std::max(t_.scale, b.dotted ? b.fraction : 0);
  return {units, exact, exact && units == 0};
}

// The units from a cut to the last number of the block.
u128 DecimalReader::rest(u32 i, const Block& b) const {
  const DecimalCut& cut = t_.cuts[i];
  u128 units = 0;
  if (!b.dotted)
    for (std::size_t k = b.whole; k < cut.whole.size() && units < kHuge; ++k)
      units = std::min(times_ten(units) + (9 - digit_at(cut.whole, k)), kHuge);
  for (u32 j = b.known; j < t_.scale && units < kHuge; ++j)
    units = std::min(times_ten(units) + (9 - digit_at(cut.fraction, j)), kHuge);
  return units;
}

// How many digits after the point the numbers of a block need at least. `cuts` are the cuts within it.
u32 DecimalReader::least_of(const Block& b, Range cuts) const {
  u32 best = kInf;
  auto take = [&](u32 f) { best = std::min(best, f); };
  auto at = [&](u32 i) { return offset(i, b); };
  const u128 last = b.size ? b.size - 1 : 0;
  for (u32 i = cuts.low; i <= cuts.high && best > b.need; ++i) {
    Work::spend();
    // From the cut before i (or the first number of the block) to cut i (or the last number).
    const bool end = i == cuts.high;
    if (i == cuts.low) {
      if (end) {
        take(least_in(t_.cuts[i - 1].above, b, *b.value, 0, last, true));
      } else if (const Offset to = at(i); !to.zero) {  // so i > 0
        const u128 hi = to.units - (to.exact ? 1 : 0);
        take(least_in(t_.cuts[i - 1].above, b, *b.value, 0, hi, true));
      }
    } else {
      const Value base(std::span<const u128>(t_.values[i - 1]));
      u128 hi;
      if (end) {
        hi = rest(i - 1, b);
      } else {
        const bool exact = t_.cuts[i].fraction.size() <= t_.scale;
        hi = t_.cuts[i - 1].gap;
        hi -= exact && hi > 0 ? 1 : 0;
      }
      if (hi > 0 || t_.labels[t_.cuts[i - 1].above].every) take(least_in(t_.cuts[i - 1].above, b, base, 1, hi, true));
    }
    if (end) break;
    const DecimalCut& cut = t_.cuts[i];
    const u32 read = b.dotted ? b.fraction : 0, size = static_cast<u32>(cut.fraction.size());
    const u32 f = std::max(size > read ? size - read : 0, b.need);
    if (cut.at && f <= b.most && (t_.labels[cut.at].dotted || (f == 0 && !b.dotted))) take(f);
  }
  return best;
}

u32 DecimalReader::least(const DecimalState& s) const {
  if (accepts(s)) return 0;
  const bool past = s.place == DecimalState::kPast;
  if (s.phase == DecimalState::Tight || s.phase == DecimalState::Loose) {
    Block b{&s.value,         past ? 0 : power(t_.scale - s.place), 0, s.count, true, past ? t_.scale : s.place, s.room,
            s.fresh ? 1u : 0u};
    const u32 found = s.phase == DecimalState::Tight ? least_of(b, {s.list[0], s.list[1]})
                                                     : least_in(s.count, b, s.value, 0, b.size ? b.size - 1 : 0, true);
    return std::max(found, 1u);
  }
  Value value = s.value;
  u128 size = power(t_.scale);
  u32 best = kInf;
  auto take = [&](u32 more, u32 f) {
    if (f != kInf) best = std::min(best, more + (f ? f + 1 : 0));
  };
  auto longer = [&] {
    for (std::size_t m = 0; m < value.size(); ++m) value[m] = 10 * value[m] % t_.moduli[m];
    size = times_ten(size);
  };
  auto block = [&](u32 whole) { return Block{&value, size, whole, 0, false, 0, t_.room, 0}; };
  const u32 last = t_.cuts.back().above;
  if (s.phase == DecimalState::Zero) {
    take(0, least_of(block(1), {s.list[0], s.list[1]}));
    return best;
  }
  if (s.phase == DecimalState::Whole) {
    std::size_t i = s.list[0], at = 1;
    for (u32 more = 0; more < best && (i < t_.sizes.size() || last); ++more, longer()) {
      Work::spend();
      if (i < t_.sizes.size() && t_.sizes[i].digits == s.count + more) {
        take(more, least_of(block(s.count), {s.list[at], s.list[at + 1]}));
        ++i;
        at += 2;
      } else {
        const u32 label = i < t_.sizes.size() ? t_.cuts[t_.sizes[i].low - 1].above : last;
        take(more, least_in(label, block(s.count), value, 0, size - 1, true));
      }
    }
    return best;
  }
  std::size_t at = 0;  // Apart
  u32 left = s.list.empty() ? 0 : s.list[0];
  for (u32 more = 0; more < best && (at < s.list.size() || last); ++more, longer()) {
    Work::spend();
    const u32 label = at < s.list.size() ? s.list[at + 1] : last;
    take(more, least_in(label, block(0), value, 0, size - 1, true));
    if (at < s.list.size() && --left == 0 && (at += 2) < s.list.size()) left = s.list[at];
  }
  return best;
}

// -- the expression --
Id Decimals::decimals(DecimalTable table) {
  if (table.cuts.empty() || table.cuts[0].whole != "0" || !table.cuts[0].fraction.empty())
    throw Error("bad-shape", "decimals: the first cut must be 0");
  for (char c : std::string_view("0123456789.")) char_class(CharSet::make({{static_cast<u8>(c), static_cast<u8>(c)}}));
  table.derive();
  DecimalState start;
  start.table = static_cast<u32>(tables_.size());
  start.room = table.room;
  start.value.resize(table.moduli.size(), 0);
  table_bytes_ += sizeof(table) + table.told.size() + 100 * table.cuts.size();
  tables_.push_back(std::make_shared<const DecimalTable>(std::move(table)));
  const DecimalReader reader(*tables_.back());
  u32 least = kInf;
  for (u8 byte = '0'; byte <= '9'; ++byte)
    if (DecimalState next; reader.next(start, byte, next))
      if (const u32 rest = reader.least(next); rest != kInf) least = std::min(least, rest + 1);
  return least == kInf ? kEmpty : decimal_node(std::move(start), least);
}

// A state is made only if it can be completed, so it is known to be live.
Id Decimals::decimal_node(DecimalState state, u32 least) {
  const DecimalTable& table = *tables_[state.table];
  Draft d = draft(Kind::Decimal);
  d.shortest = least;
  d.longest = kInf;
  d.flags = kSearch | kLiveKnown;
  if (DecimalReader(table).accepts(state)) d.flags |= kNullable;
  d.a = states_.id(std::move(state));
  return intern(d);
}

Id Decimals::derivative(Id e, u8 byte) {
  const DecimalState& state = states_.values[decimal_state(node(e))];
  const DecimalReader reader(*tables_[state.table]);
  DecimalState next;
  if (!reader.next(state, byte, next)) return kEmpty;
  const u32 least = reader.least(next);
  return least == kInf ? kEmpty : decimal_node(std::move(next), least);
}

ByteSet Decimals::first_bytes(Id e) {
  const DecimalState& state = states_.values[decimal_state(node(e))];
  ByteSet set;
  if (state.phase != DecimalState::Zero) set.add_range('0', '9');
  if (state.phase != DecimalState::Start && state.phase < DecimalState::Tight) set.add('.');
  return set;
}

void Decimals::describe(Id e, Description& to) const {
  const DecimalState& state = states_.values[decimal_state(node(e))];
  to.text(tables_[state.table]->told);
  to.word(u64{state.phase} << 33 | u64{state.fresh} << 32 | state.count);
  to.word(u64{state.place} << 32 | state.room);
  to.word(state.list.size());
  for (u32 x : state.list) to.word(x);
  for (u128 v : state.value) {
    to.word(static_cast<u64>(v));
    to.word(static_cast<u64>(v >> 64));
  }
}

std::vector<DumpItem> Decimals::dump(Id e) const { return {{"number " + std::to_string(decimal_state(node(e)))}}; }

void Decimals::note_extent() {
  extent_tables_ = static_cast<u32>(tables_.size());
  extent_states_ = static_cast<u32>(states_.values.size());
}

void Decimals::fresh(Arena& arena) const {
  Decimals& to = Decimals::of(arena);
  to.tables_.assign(tables_.begin(), tables_.begin() + extent_tables_);
  to.table_bytes_ = table_bytes_;
  to.states_ = states_.first(extent_states_);
  to.extent_tables_ = extent_tables_;
  to.extent_states_ = extent_states_;
}

void Decimals::count(Tally& to) const {
  if (!tables_.empty()) to.add("numbers", sizeof(*this) + bytes_of(tables_) + table_bytes_ + states_.memory());
}

}  // namespace guiderail
