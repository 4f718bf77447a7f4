// Identities that mean the same in every arena, for what is kept with the vocabulary. An expression is hashed by what
// it says of itself and by the identities of its parts, never by an id of its arena; a rule is hashed by what it
// unfolds to.
#include <algorithm>
#include <unordered_set>

#include "expr/identities.hpp"

namespace guiderail {
namespace {
constexpr std::size_t kMostRules = 6;  // that one rule leads to
constexpr Hash kNoIdentity{~u64{0}, ~u64{0}};
}  // namespace

// Not for expressions made of what is the arena's own; known() leaves them out.
template <class To>
void Identities::describe(Id e, To& to) const {
  const Node& n = arena_.node(e);
  to.word(static_cast<u64>(n.kind));
  switch (n.kind) {
    case Kind::Class: to.hash(arena_.charset(n.a).hash()); break;
    case Kind::ClassTail:
      to.hash(arena_.charset(n.a).hash());
      to.word(n.b);
      break;
    case Kind::Bytes:
      for (u64 w : arena_.byte_set(n.a).words) to.word(w);
      break;
    case Kind::Switch: {
      to.word(u64{n.b} << 1 | n.min);
      const auto edges = arena_.operands(e);
      for (u32 i = 0; i < n.b; i += 2) {
        to.word(edges[i]);
        to.part(edges[i + 1]);
      }
      break;
    }
    case Kind::Concat:
      to.part(n.a);
      to.part(n.b);
      break;
    case Kind::Union:
    case Kind::And: to.unordered(arena_.operands(e)); break;
    case Kind::Repeat:
      to.part(n.a);
      to.word(n.b);
      to.word(u64{n.min} << 32 | n.max);
      break;
    case Kind::Ahead:
    case Kind::Behind:
      to.word(n.b);
      to.part(n.a);
      break;
    case Kind::Not:
    case Kind::Scope: to.part(n.a); break;
    case Kind::Counted:
      to.word(u64{n.b} << 32 | n.min);
      to.part(n.a);
      break;
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Token:  // unknown()
    case Kind::Ref: break;
    default: arena_.family_of(n.kind)->describe(e, to); break;
  }
}

// Which parts must be known first.
class Identities::Unknown final : public Description {
 public:
  Unknown(const Identities& identities, const Fold& with, std::vector<Id>& found)
      : identities_(identities), with_(with), found_(found) {}
  void word(u64) override {}
  void hash(const Hash&) override {}
  void text(std::string_view) override {}
  void part(Id e) override {
    std::optional<Hash> known;
    if (!identities_.known(e, with_, known)) found_.push_back(e);
  }
  void unordered(std::span<const Id> parts) override {
    for (Id e : parts) part(e);
  }
  void shared(const Family& family, Kind kind, u32 which) override {
    if (!with_.shared.contains(key_of(kind, which))) family.describe_shared(which, *this);
  }

 private:
  const Identities& identities_;
  const Fold& with_;
  std::vector<Id>& found_;
};

// The identity itself; none where a part has none.
class Identities::Told final : public Description {
 public:
  Told(const Identities& identities, Fold& with, Of what) : identities_(identities), with_(with), identity_(what) {}
  void word(u64 w) override { identity_.add(w); }
  void hash(const Hash& h) override { identity_.add(h); }
  void text(std::string_view t) override { identity_.add(t); }
  void part(Id e) override { identity_.add(of(e)); }
  void unordered(std::span<const Id> parts) override {
    ShortVector<Hash, 12> hashes;
    for (Id e : parts) hashes.push_back(of(e));
    identity_.add_unordered({hashes.begin(), hashes.end()});
  }
  void shared(const Family& family, Kind kind, u32 which) override {
    auto [it, fresh] = with_.shared.try_emplace(key_of(kind, which));
    if (fresh) {
      Told inside(identities_, with_, Of::Shared);
      family.describe_shared(which, inside);
      it->second = inside.done();
    }
    if (it->second)
      identity_.add(*it->second);
    else
      all_ = false;
  }
  std::optional<Hash> done() const { return all_ ? std::optional(identity_.done()) : std::nullopt; }
  Hash alone() const { return identity_.done(); }

 private:
  Hash of(Id e) {
    std::optional<Hash> known;
    identities_.known(e, with_, known);
    all_ = all_ && known;
    return known.value_or(Hash{});
  }
  const Identities& identities_;
  Fold& with_;
  Identity identity_;
  bool all_ = true;
};

// False: not known yet. `out`: none where there is no identity that other arenas know.
bool Identities::known(Id e, const Fold& with, std::optional<Hash>& out) const {
  const Node& n = arena_.node(e);
  out.reset();
  if (arena_.has(e, kHasToken | kExactKey)) return true;
  if (!arena_.has(e, kHasRef)) {
    if (n.hash == Hash{}) return false;
    out = n.hash;
    return true;
  }
  switch (n.kind) {
    case Kind::Ref:
      if (auto it = with.rules.find(n.a); it != with.rules.end()) out = it->second;
      return true;
    case Kind::Repeat:
    case Kind::Concat:
    case Kind::Union:
    case Kind::And: break;
    default:
      if (const Family* family = arena_.family_of(n.kind); !family || !family->portable_over_rules(e)) return true;
      break;
  }
  if (with.final) {
    if (n.hash == Hash{}) return false;
    if (n.hash != kNoIdentity) out = n.hash;
    return true;
  }
  auto it = with.nodes.find(e);
  if (it != with.nodes.end()) out = it->second;
  return it != with.nodes.end();
}

// Parts first, on a stack of its own: lists of parts may be long.
std::optional<Hash> Identities::find(Id e, Fold& with) {
  std::optional<Hash> found;
  if (known(e, with, found)) return found;
  std::vector<Id> work{e};
  while (!work.empty()) {
    const Id at = work.back();
    if (known(at, with, found)) {
      work.pop_back();
      continue;
    }
    const std::size_t before = work.size();
    Unknown unknown(*this, with, work);
    describe(at, unknown);
    if (work.size() > before) continue;
    Told told(*this, with, Of::Expression);
    describe(at, told);
    if (arena_.has(at, kHasRef) && with.final)
      arena_.node(at).hash = told.done().value_or(kNoIdentity);
    else if (arena_.has(at, kHasRef))
      with.nodes.emplace(at, told.done());
    else
      arena_.node(at).hash = told.alone();
    work.pop_back();
  }
  known(e, with, found);
  return found;
}

void Identities::rules_below(Id e, std::vector<u32>& rules) const {
  std::vector<Id> work{e};
  std::unordered_set<Id> done;
  while (!work.empty()) {
    const Id at = work.back();
    work.pop_back();
    if (!arena_.has(at, kHasRef) || !done.insert(at).second) continue;
    const Node& n = arena_.node(at);
    switch (n.kind) {
      case Kind::Ref: rules.push_back(n.a); break;
      case Kind::Concat: work.push_back(n.b); [[fallthrough]];
      case Kind::Repeat: work.push_back(n.a); break;
      case Kind::Union:
      case Kind::And: work.insert(work.end(), arena_.operands(at).begin(), arena_.operands(at).end()); break;
      default:  // known() knows no others
        if (const Family* family = arena_.family_of(n.kind)) family->parts(at, work);
        break;
    }
  }
}

// Rules that look alike however often they are unfolded mean the same. Of two systems of n rules each, those that can
// be told apart are told apart by unfolding 2n times (as states of an automaton are: Moore 1956).
std::optional<Hash> Identities::of_rule(u32 rule) {
  std::vector<u32> reached{rule};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    std::vector<u32> next;
    rules_below(arena_.rule_body(reached[i]), next);
    for (u32 r : next)
      if (std::find(reached.begin(), reached.end(), r) == reached.end()) reached.push_back(r);
    if (reached.size() > kMostRules) return std::nullopt;
  }
  Fold now;
  const Hash start = Identity(Of::Rule).add(u64{reached.size()}).done();
  for (u32 r : reached) now.rules[r] = start;
  for (std::size_t round = 0; round < 2 * reached.size(); ++round) {
    Fold next;
    for (u32 r : reached) {
      const auto body = find(arena_.rule_body(r), now);
      if (!body) return std::nullopt;
      next.rules[r] = Identity(Of::Rule).add(start).add(*body).done();
    }
    now = std::move(next);
  }
  return now.rules[rule];
}

Identities::Identities(Arena& arena) : arena_(arena) {
  for (u32 r = 0; r < arena.rule_count(); ++r) fold_.rules[r] = of_rule(r);
  fold_.final = true;
}

std::size_t Identities::memory() const {
  return sizeof *this + bytes_of(fold_.rules) + bytes_of(fold_.nodes) + bytes_of(fold_.shared);
}

std::optional<Hash> Arena::portable_hash(Id e) {
  if (!identities_) identities_ = std::make_unique<Identities>(*this);
  return identities_->of(e);
}

}  // namespace guiderail
