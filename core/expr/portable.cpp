// Identities that are the same in every arena, for what is kept with the vocabulary. An expression is hashed by its own
// properties and by the identities of its parts, never by an id of its arena. A rule is hashed by what it unfolds to.
#include <algorithm>
#include <unordered_set>

#include "base/thresholds.hpp"
#include "expr/identities.hpp"

namespace guiderail {
namespace {
constexpr Hash kNoIdentity{~u64{0}, ~u64{0}};

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
  Told(const Identities& identities, Fold& with, Ids& unknown, const Identity& begun)
      : identities_(identities), with_(with), unknown_(unknown), identity_(begun) {}
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
    auto it = with_.shared.find(key_of(kind, which));
    if (it == with_.shared.end()) {
      Told inside(identities_, with_, unknown_, Identity(Of::Shared));
      family.describe_shared(which, inside);
      open_ = open_ || inside.open_;
      if (inside.open_) return;
      it = with_.shared.emplace(key_of(kind, which), inside.done()).first;
    }
    all_ = all_ && it->second;
    hash(it->second.value_or(Hash{}));
  }
  bool open() const { return open_; }  // some part is missing
  std::optional<Hash> done() const { return all_ ? std::optional(identity_.done()) : std::nullopt; }
  Hash alone() const { return identity_.done(); }

 private:
  Hash of(Id e) {
    std::optional<Hash> known;
    if (!identities_.known(e, with_, known)) {
      unknown_.push_back(e);
      open_ = true;
    }
    all_ = all_ && known;
    return known.value_or(Hash{});
  }
  const Identities& identities_;
  Fold& with_;
  Ids& unknown_;
  Identity identity_;
  bool open_ = false, all_ = true;  // all_: every part has an identity
};

// False: not known yet. `out` stays empty if other arenas cannot know this identity.
bool Identities::known(Id e, const Fold& with, std::optional<Hash>& out) const {
  const Node& n = arena_.node(e);
  if (const u32 own = n.flags.load(std::memory_order_relaxed) & (kHasToken | kExactKey | kHasRef); own == 0)
      [[likely]] {
    const Hash found = kept(e);
    out = found;
    return found != Hash{};
  } else if (own & (kHasToken | kExactKey)) {
    out.reset();
    return true;
  }
  out.reset();
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
    const Hash found = kept(e);
    if (found == Hash{}) return false;
    if (found != kNoIdentity) out = found;
    return true;
  }
  auto it = with.nodes.find(e);
  if (it != with.nodes.end()) out = it->second;
  return it != with.nodes.end();
}

// Parts first, on an explicit stack: lists of parts may be long.
std::optional<Hash> Identities::find(Id e, Fold& with) {
  std::optional<Hash> found;
  if (known(e, with, found)) return found;
  Ids work{e};
  do {
    const Id at = work.back();
    Told told(*this, with, work, begun(arena_.node(at).kind));
    describe(at, told);
    if (told.open()) continue;
    if (!arena_.has(at, kHasRef))
      keep(at, told.alone());
    else if (with.final)
      keep(at, told.done().value_or(kNoIdentity));
    else
      with.nodes.emplace(at, told.done());
    do work.pop_back();
    while (!work.empty() && known(work.back(), with, found));
  } while (!work.empty());
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
      case Kind::Concat: work.push_back(n.tail()); [[fallthrough]];
      case Kind::Repeat: work.push_back(n.body()); break;
      case Kind::Union:
      case Kind::And: work.insert(work.end(), arena_.operands(at).begin(), arena_.operands(at).end()); break;
      default:  // known() admits no others
        if (const Family* family = arena_.family_of(n.kind)) family->parts(at, work);
        break;
    }
  }
}

// Rules that look alike however often they are unfolded mean the same. Of two systems of n rules each, 2n unfoldings
// tell apart all rules that can be told apart (as for states of automata: Moore 1956).
std::optional<Hash> Identities::of_rule(u32 rule) {
  std::vector<u32> reached{rule};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    std::vector<u32> next;
    rules_below(arena_.rule_body(reached[i]), next);
    for (u32 r : next)
      if (std::find(reached.begin(), reached.end(), r) == reached.end()) reached.push_back(r);
    if (reached.size() > kPortableRules) return std::nullopt;
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

// Families number anew what they add to a copy, so nothing is kept of `shared`.
Identities::Identities(Arena& copy, const Identities& of, u32 nodes) : arena_(copy) {
  fold_.rules = of.fold_.rules;
  fold_.final = true;
  for (u32 e = 0; e < nodes; ++e) {
    if (e % kNodesBetweenBreaks == 0) of.arena_.make_room();
    if (const Hash known = of.kept(Id{e}); known != Hash{}) keep(Id{e}, known);
  }
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
  return sizeof *this + chunks + bytes_of(fold_.rules) + bytes_of(fold_.nodes) + bytes_of(fold_.shared);
}

std::optional<Hash> Arena::portable_hash(Id e) {
  if (!identities_) identities_ = std::make_unique<Identities>(*this);
  return identities_->of(e);
}

}  // namespace guiderail
