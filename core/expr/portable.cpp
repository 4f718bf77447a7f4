// Identities that are the same in every arena, for what is kept with the vocabulary. An expression is hashed by its own
// properties and by the identities of its parts, never by an id of its arena. A rule is hashed by what it unfolds to.
#include <algorithm>

#include "base/short_set.hpp"
#include "base/thresholds.hpp"
#include "expr/identities.hpp"

namespace guiderail {
namespace {
constexpr Hash kNoIdentity{~u64{0}, ~u64{0}};
constexpr u32 kOwnIdentity = kHasToken | kExactKey | kHasRef;  // of these, not every expression has one

// The beginning of an expression's identity: its kind.
const Identity& begun(Kind kind) {
  static const std::vector<Identity> all = [] {
    std::vector<Identity> made(kKinds, Identity(Of::Expression));
    for (std::size_t i = 0; i < kKinds; ++i) made[i].add(u64{i});
    return made;
  }();
  return all[static_cast<std::size_t>(kind)];
}
}  // namespace

// Describes e except for its kind, which is already hashed. Not for expressions local to the arena, which known()
// excludes.
template <class To>
void Identities::describe(Id e, To& to) const {
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Class: to.hash(arena_.charset_ptr(n.a)->hash()); break;
    case Kind::ClassTail:
      to.hash(arena_.charset_ptr(n.a)->hash());
      to.word(n.b);
      break;
    case Kind::Bytes:
      for (u64 w : arena_.byte_set(n.a).words) to.word(w);
      break;
    case Kind::Switch: {
      to.word(u64{n.b} << 1 | n.min);
      const auto edges = arena_.operands(e);
      for (u32 i = 0; i < n.b; i += 2) {
        to.word(index_of(edges[i]));  // a range of bytes
        to.part(edges[i + 1]);
      }
      break;
    }
    case Kind::Concat:
      to.part(n.head());
      to.part(n.tail());
      break;
    case Kind::Union:
    case Kind::And: to.unordered(arena_.operands(e)); break;
    case Kind::Repeat:
      to.part(n.body());
      to.word(n.b);
      to.word(u64{n.min} << 32 | n.max);
      break;
    case Kind::Ahead:
    case Kind::Behind:
      to.word(n.b);
      to.part(n.body());
      break;
    case Kind::Not:
    case Kind::Scope: to.part(n.body()); break;
    case Kind::Counted:
      to.word(u64{n.b} << 32 | n.min);
      to.part(n.body());
      break;
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Token:  // unknown()
    case Kind::Ref: break;
    default: arena_.family_of(n.kind)->describe(e, to); break;
  }
}

// Computes an identity if those of all parts are known. It pushes missing parts to `unknown`, and then hashes nothing
// more.
class Identities::Told final : public Description {
 public:
  Told(Identities& identities, Ids& unknown, const Identity& begun)
      : identities_(identities), unknown_(unknown), identity_(begun) {}
  void word(u64 w) override {
    if (!open_) identity_.add(w);
  }
  void hash(const Hash& h) override {
    if (!open_) identity_.add(h);
  }
  void text(std::string_view t) override {
    if (!open_) identity_.add(t);
  }
  void part(Id e) override { hash(of(e)); }
  void unordered(std::span<const Id> parts) override {
    ShortVector<Hash, 12> hashes;
    for (Id e : parts) hashes.push_back(of(e));
    if (!open_) identity_.add_unordered({hashes.begin(), hashes.end()});
  }
  void shared(const Family& family, Kind kind, u32 which) override {
    const u64 key = key_of(kind, which);
    std::optional<Hash> found;
    if (auto it = identities_.shared_.find(key); it != identities_.shared_.end()) {
      found = it->second;
    } else if (Round* round = identities_.round_; round && round->shared.contains(key)) {
      found = round->shared.at(key);
      final_ = false;
    } else {
      Told inside(identities_, unknown_, Identity(Of::Shared));
      family.describe_shared(which, inside);
      open_ = open_ || inside.open_;
      final_ = final_ && inside.final_;
      if (inside.open_) return;
      found = inside.done();
      (inside.final_ ? identities_.shared_ : round->shared).emplace(key, found);
    }
    all_ = all_ && found;
    hash(found.value_or(Hash{}));
  }
  bool open() const { return open_; }    // some part is missing
  bool final() const { return final_; }  // no part depends on the round
  std::optional<Hash> done() const { return all_ ? std::optional(identity_.done()) : std::nullopt; }
  Hash alone() const { return identity_.done(); }

 private:
  Hash of(Id e) {
    std::optional<Hash> found;
    const Known known = identities_.known(e, found);
    if (known == Known::No) {
      unknown_.push_back(e);
      open_ = true;
    }
    final_ = final_ && known != Known::InRound;
    all_ = all_ && found;
    return found.value_or(Hash{});
  }
  Identities& identities_;
  Ids& unknown_;
  Identity identity_;
  bool open_ = false, final_ = true, all_ = true;  // all_: every part has an identity
};

// `out` stays empty if other arenas cannot know this identity.
Identities::Known Identities::known(Id e, std::optional<Hash>& out) const {
  const Node& n = arena_.node(e);
  const Hash found = kept(e);
  if (const u32 own = n.flags.load(std::memory_order_relaxed) & kOwnIdentity; own == 0) [[likely]] {
    out = found;
    return found != Hash{} ? Known::Finally : Known::No;
  } else if (out.reset(); own & (kHasToken | kExactKey)) {
    return Known::Finally;
  }
  if (found != Hash{}) {
    if (found != kNoIdentity) out = found;
    return Known::Finally;
  }
  switch (n.kind) {
    case Kind::Ref:
      if (round_)
        if (auto it = round_->rules.find(n.a); it != round_->rules.end()) {
          out = it->second;
          return Known::InRound;
        }
      out = rules_[n.a].identity;
      return Known::Finally;
    case Kind::Repeat:
    case Kind::Concat:
    case Kind::Union:
    case Kind::And: break;
    default:
      if (const Family* family = arena_.family_of(n.kind); !family || !family->portable_over_rules(e))
        return Known::Finally;
      break;
  }
  if (!round_) return Known::No;
  auto it = round_->nodes.find(e);
  if (it == round_->nodes.end()) return Known::No;
  out = it->second;
  return Known::InRound;
}

// Parts first, on an explicit stack: lists of parts may be long.
std::optional<Hash> Identities::find(Id e) {
  std::optional<Hash> found;
  if (known(e, found) != Known::No) return found;
  Ids work{e};
  do {
    const Id at = work.back();
    Told told(*this, work, begun(arena_.node(at).kind));
    describe(at, told);
    if (told.open()) continue;
    if (!told.final())
      round_->nodes.emplace(at, told.done());
    else
      keep(at, arena_.has(at, kHasRef) ? told.done().value_or(kNoIdentity) : told.alone());
    do work.pop_back();
    while (!work.empty() && known(work.back(), found) != Known::No);
  } while (!work.empty());
  known(e, found);
  return found;
}

// In the order in which they were made: parts come before what they are parts of, so each is visited once.
void Identities::all() {
  Ids unknown;
  const u32 count = arena_.node_count();
  for (u32 i = 0; i < count; ++i) {
    if (i % kNodesBetweenBreaks == 0) arena_.make_room();
    const Id e{i};
    if (arena_.has(e, kOwnIdentity | kHasScan) || kept(e) != Hash{}) continue;
    Told told(*this, unknown, begun(arena_.node(e).kind));
    describe(e, told);
    if (!told.open()) keep(e, told.alone());
  }
}

// Adds the rules in e whose identities are open.
void Identities::rules_below(Id e, std::vector<u32>& rules) const {
  const auto open = [&](Id at) { return arena_.has(at, kHasRef) && kept(at) == Hash{}; };
  if (!open(e)) return;
  Ids work{e};
  ShortSet<Id> done;
  while (!work.empty()) {
    const Id at = work.back();
    work.pop_back();
    if (!open(at) || !done.insert(at)) continue;
    const Node& n = arena_.node(at);
    switch (n.kind) {
      case Kind::Ref:
        if (!rules_[n.a].decided) rules.push_back(n.a);
        break;
      case Kind::Concat: work.push_back(n.tail()); [[fallthrough]];
      case Kind::Repeat: work.push_back(n.body()); break;
      case Kind::Union:
      case Kind::And: work.append(arena_.operands(at)); break;
      default:  // known() admits no others
        if (const Family* family = arena_.family_of(n.kind)) family->parts(at, work);
        break;
    }
  }
}

// Decides this rule and those that it needs: groups of rules that reach each other, the innermost first (Tarjan 1972).
void Identities::decide(u32 rule) {
  struct Visit {
    u32 rule;
    std::vector<u32> needs;
    std::size_t at = 0;
  };
  struct Mark {
    std::size_t place, lowest;  // among the open rules: of this one, and of any that it reaches
  };
  std::unordered_map<u32, Mark> marks;
  std::vector<u32> open;
  std::vector<Visit> visits;
  const auto enter = [&](u32 r) {
    marks[r] = {open.size(), open.size()};
    open.push_back(r);
    visits.push_back({r, {}});
    rules_below(arena_.rule_body(r), visits.back().needs);
  };
  enter(rule);
  while (!visits.empty()) {
    Visit& visit = visits.back();
    if (visit.at < visit.needs.size()) {
      const u32 other = visit.needs[visit.at++];
      if (rules_[other].decided) continue;
      if (const auto it = marks.find(other); it != marks.end())
        marks[visit.rule].lowest = std::min(marks[visit.rule].lowest, it->second.lowest);
      else
        enter(other);
      continue;
    }
    const auto [place, lowest] = marks[visit.rule];
    visits.pop_back();
    if (lowest < place) {
      std::size_t& above = marks[visits.back().rule].lowest;
      above = std::min(above, lowest);
    } else {
      decide_together({open.begin() + static_cast<std::ptrdiff_t>(place), open.end()});
      open.resize(place);
    }
  }
}

// Rules that look alike however often they are unfolded mean the same. They are unfolded once more in each round, until
// a round tells no more of them apart (Moore 1956). A rule of another arena that looks the same then means the same, if
// all rules there look like the rules here: how a rule looks determines how it looked a round before, one to one in
// both arenas, so the same step leads from one round to the next in both, and further rounds tell none apart.
void Identities::decide_together(const std::vector<u32>& rules) {
  for (u32 r : rules) rules_[r].decided = true;
  if (rules.size() > kPortableRules) return;
  const Hash start = Identity(Of::Rule).add(u64{rules.size()}).done();
  Round round;
  for (u32 r : rules) round.rules[r] = start;
  const struct Ended {
    Round*& at;
    ~Ended() { at = nullptr; }
  } ended{round_ = &round};
  std::vector<Hash> apart{start};
  for (std::size_t before = 0; apart.size() > before;) {
    before = apart.size();
    apart.clear();
    Round next;
    for (u32 r : rules) {
      const auto body = find(arena_.rule_body(r));
      if (!body) break;
      const Hash looks = Identity(Of::Rule).add(start).add(*body).done();
      next.rules[r] = looks;
      if (std::find(apart.begin(), apart.end(), looks) == apart.end()) apart.push_back(looks);
    }
    if (next.rules.size() < rules.size()) return;  // they have no identities
    round = std::move(next);
  }
  const Hash all = Identity(Of::Rule).add(start).add_unordered(apart).done();
  for (u32 r : rules) rules_[r].identity = Identity(Of::Rule).add(all).add(round.rules[r]).done();
}

Identities::Identities(Arena& arena) : arena_(arena), rules_(arena.rule_count()) {}

// Families number anew what they add to a copy, so nothing is kept of what they share.
Identities::Identities(Arena& copy, const Identities& of, u32 nodes) : arena_(copy), rules_(of.rules_) {
  for (u32 e = 0; e < nodes; ++e) {
    if (e % kNodesBetweenBreaks == 0) of.arena_.make_room();
    if (const Hash known = of.kept(Id{e}); known != Hash{}) keep(Id{e}, known);
  }
}

std::optional<Hash> Identities::of(Id e) {
  if (arena_.has(e, kHasRef)) {
    std::vector<u32> open;
    rules_below(e, open);
    for (u32 r : open)
      if (!rules_[r].decided) decide(r);
  }
  return find(e);
}

void Identities::keep(Id e, const Hash& hash) {
  const std::size_t chunk = index_of(e) >> kChunkBits;
  if (kept_.size() <= chunk) kept_.resize(chunk + 1);
  if (kept_[chunk].empty()) kept_[chunk].resize(1u << kChunkBits);
  kept_[chunk][index_of(e) % (1u << kChunkBits)] = hash;
}

std::size_t Identities::memory() const {
  std::size_t chunks = bytes_of(kept_);
  for (const auto& chunk : kept_) chunks += bytes_of(chunk);
  return sizeof *this + chunks + bytes_of(rules_) + bytes_of(shared_);
}

Identities& Arena::identities() {
  if (!identities_) identities_ = std::make_unique<Identities>(*this);
  return *identities_;
}

}  // namespace guiderail
