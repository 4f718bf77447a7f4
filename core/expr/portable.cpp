// Identities that mean the same in every arena, for what is kept with the vocabulary. An expression is hashed by what
// it says of itself and by the identities of its parts, never by an id of its arena; a rule is hashed by what it
// unfolds to.
#include <algorithm>
#include <unordered_set>

#include "json/decimals.hpp"
#include "lexed/lexing.hpp"

namespace guiderail {
namespace {
constexpr std::size_t kMostRules = 6;  // that one rule leads to
constexpr Hash kNoIdentity{~u64{0}, ~u64{0}};
}  // namespace

// What an expression is, told to `to` in full and in one way only: its words and texts, its parts by what they stand
// for. Not for expressions made of what is this arena's own; known_identity() leaves them out.
template <class To>
void Arena::describe(Id e, To& to) const {
  const Node& n = node(e);
  to.word(static_cast<u64>(n.kind));
  switch (n.kind) {
    case Kind::Class: to.hash(charsets_[n.a]->hash()); break;
    case Kind::ClassTail:
      to.hash(charsets_[n.a]->hash());
      to.word(n.b);
      break;
    case Kind::Bytes:
      for (u64 w : byte_sets_[n.a].words) to.word(w);
      break;
    case Kind::Switch:
      to.word(u64{n.b} << 1 | n.min);
      for (u32 i = 0; i < n.b; i += 2) {
        to.word(pool_.at(n.a)[i]);
        to.part(pool_.at(n.a)[i + 1]);
      }
      break;
    case Kind::Concat:
      to.part(n.a);
      to.part(n.b);
      break;
    case Kind::Union:
    case Kind::And: to.unordered(operands(e)); break;  // in an order that is this arena's own
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
    case Kind::Escaped:
    case Kind::Counted:
      to.word(u64{n.b} << 32 | n.min);
      to.part(n.a);
      break;
    case Kind::Members: describe_members(json_->members.values[n.a], to); break;
    case Kind::Key: {
      const KeyState& key = json_->keys.values[n.a];
      describe_members(json_->members.values[key.members], to);
      to.word(u64{key.quoted} << 33 | u64{key.text == kSomeText} << 32 | key.at);
      to.word(u64{key.depth});
      to.word(u64{key.lo} << 32 | key.hi);
      to.word(u64{key.seen_lo} << 32 | key.seen_hi);
      to.word(key.others.size());
      for (Id o : key.others) to.part(o);
      break;
    }
    case Kind::Distinct: {
      const SeenState& seen = json_->seen.values[n.b];
      to.part(n.a);
      to.word(seen.some);
      std::vector<std::string> texts;  // in an order that is no arena's own
      for (u32 text : seen.texts) texts.push_back(json_->texts.whole(text));
      std::sort(texts.begin(), texts.end());
      to.word(texts.size());
      for (const std::string& text : texts) to.text(text);
      break;
    }
    case Kind::Item:
      to.word(u64{n.min} << 1 | (n.b == kSomeText));
      to.part(n.a);
      break;
    case Kind::Decimal: {
      const DecimalState& state = decimals_->states.values[n.a];
      to.text(decimals_->tables[state.table]->told);
      to.word(u64{state.phase} << 33 | u64{state.fresh} << 32 | state.count);
      to.word(u64{state.place} << 32 | state.room);
      to.word(state.list.size());
      for (u32 x : state.list) to.word(x);
      for (u128 v : state.value) {
        to.word(static_cast<u64>(v));
        to.word(static_cast<u64>(v >> 64));
      }
      break;
    }
    case Kind::Terminal:
      for (u64 w : lex_->symbol_sets[n.a].words) to.word(w);
      to.word(n.b);
      break;
    case Kind::Elided:
      to.word(n.a);
      if (n.b)
        for (u64 w : firsts_[n.b - 1].words) to.word(w);
      break;
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Token:  // unknown()
    case Kind::Ref:
    case Kind::Lexed:
    case Kind::Scan:
    case Kind::MunchGuard: break;
  }
}

template <class To>
void Arena::describe_members(const MemberState& state, To& to) const {
  to.table(state.table);
  to.word(u64{state.count} << 32 | state.pending);
  to.word(state.gone.size());
  for (u64 w : state.gone) to.word(w);
  to.word(state.failed.size());
  for (u64 w : state.failed) to.word(w);
  to.word(u64{state.seen.size()} << 1 | state.some);
  for (u32 text : state.seen) to.text(json_->texts.whole(text));  // sorted by text
}

template <class To>
void Arena::describe_table(const MemberTable& table, To& to) const {
  to.word(u64{table.ordered} << 8 | static_cast<u64>(table.escapes));
  to.word(u64{table.min} << 32 | table.max);
  to.word(table.pending);
  to.part(table.comma);
  to.part(table.colon);
  to.word(table.names.size());
  for (u32 i = 0; i < table.names.size(); ++i) {
    to.text(table.names[i]);
    to.word(u64{table.values[i].size()} << 1 | table.required[i]);
    for (const Alternative& a : table.values[i]) {
      to.part(a.value);
      to.word(a.discharges);
    }
  }
  to.word(table.others.size());
  for (const OtherKeys& o : table.others) {
    to.part(o.key);
    to.part(o.value);
    to.word(u64{o.discharges} << 1 | o.dense);
  }
  if (table.vote) describe_vote(*table.vote, to);
}

template <class To>
void Arena::describe_vote(const Vote& vote, To& to) const {
  auto bits = [&](const Bits& of) {
    for (u64 w : of) to.word(w);
  };
  to.word(vote.cells.size());
  for (const Vote::Cell& cell : vote.cells) {
    to.word(u64{cell.min} << 32 | cell.max);
    bits(cell.required);
  }
  to.word(vote.parts.size());
  for (const Vote::Part& part : vote.parts) {
    to.word(u64{part.of.size()} << 8 | static_cast<u64>(part.op));
    for (u32 p : part.of) to.word(p);
  }
  to.word(vote.effects.size());
  for (const Bits& effect : vote.effects) bits(effect);
  to.word(vote.settled.size());
  for (const Vote::Settled& settled : vote.settled) {
    bits(settled.cells);
    to.part(settled.start);
  }
}

// Which parts must be known first.
struct Arena::Unknown {
  const Arena& arena;
  const Fold& with;
  std::vector<Id>& found;
  void word(u64) {}
  void hash(const Hash&) {}
  void text(std::string_view) {}
  void part(Id e) {
    std::optional<Hash> known;
    if (!arena.known_identity(e, with, known)) found.push_back(e);
  }
  void unordered(std::span<const Id> parts) {
    for (Id e : parts) part(e);
  }
  void table(u32 table) {
    if (!with.tables.contains(table)) arena.describe_table(arena.json_->tables[table], *this);
  }
};

// The identity itself; none where a part has none.
struct Arena::Told {
  const Arena& arena;
  Fold& with;
  Identity identity;
  bool all = true;
  void word(u64 w) { identity.add(w); }
  void hash(const Hash& h) { identity.add(h); }
  void text(std::string_view t) { identity.add(t); }
  Hash of(Id e) {
    std::optional<Hash> known;
    arena.known_identity(e, with, known);
    all = all && known;
    return known.value_or(Hash{});
  }
  void part(Id e) { identity.add(of(e)); }
  void unordered(std::span<const Id> parts) {
    ShortVector<Hash, 12> hashes;
    for (Id e : parts) hashes.push_back(of(e));
    identity.add_unordered({hashes.begin(), hashes.end()});
  }
  void table(u32 table) {
    auto [it, fresh] = with.tables.try_emplace(table);
    if (fresh) {
      Told inside{arena, with, Identity(Of::MemberTable)};
      arena.describe_table(arena.json_->tables[table], inside);
      if (inside.all) it->second = inside.identity.done();
    }
    if (it->second)
      identity.add(*it->second);
    else
      all = false;
  }
  std::optional<Hash> done() const { return all ? std::optional(identity.done()) : std::nullopt; }
};

// False: not known yet. `out`: none where there is no identity that other arenas know.
bool Arena::known_identity(Id e, const Fold& with, std::optional<Hash>& out) const {
  const Node& n = node(e);
  out.reset();
  if (has(e, kHasToken | kExactKey)) return true;
  if (!has(e, kHasRef)) {
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
    case Kind::And:
    case Kind::Members:
    case Kind::Key: break;
    default: return true;
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
std::optional<Hash> Arena::identity(Id e, Fold& with) {
  std::optional<Hash> known;
  if (known_identity(e, with, known)) return known;
  std::vector<Id> work{e};
  while (!work.empty()) {
    const Id at = work.back();
    if (known_identity(at, with, known)) {
      work.pop_back();
      continue;
    }
    const std::size_t before = work.size();
    Unknown unknown{*this, with, work};
    describe(at, unknown);
    if (work.size() > before) continue;
    Told told{*this, with, Identity(Of::Expression)};
    describe(at, told);
    if (has(at, kHasRef) && with.final)
      node(at).hash = told.done().value_or(kNoIdentity);
    else if (has(at, kHasRef))
      with.nodes.emplace(at, told.done());
    else
      node(at).hash = told.identity.done();
    work.pop_back();
  }
  known_identity(e, with, known);
  return known;
}

void Arena::rules_below(Id e, std::vector<u32>& rules) const {
  std::vector<Id> work{e};
  std::unordered_set<Id> done;
  while (!work.empty()) {
    const Id at = work.back();
    work.pop_back();
    if (!has(at, kHasRef) || !done.insert(at).second) continue;
    const Node& n = node(at);
    switch (n.kind) {
      case Kind::Ref: rules.push_back(n.a); break;
      case Kind::Concat: work.push_back(n.b); [[fallthrough]];
      case Kind::Repeat: work.push_back(n.a); break;
      case Kind::Union:
      case Kind::And: work.insert(work.end(), operands(at).begin(), operands(at).end()); break;
      case Kind::Members: {
        const MemberTable& table = json_->tables[json_->members.values[n.a].table];
        for (const auto& list : table.values)
          for (const Alternative& a : list) work.push_back(a.value);
        for (const OtherKeys& o : table.others) work.push_back(o.value);
        if (table.vote)
          for (const Vote::Settled& settled : table.vote->settled) work.push_back(settled.start);
        break;
      }
      default: break;  // known_identity() knows no others
    }
  }
}

// Rules that look alike however often they are unfolded mean the same. Of two systems of n rules each, those that can
// be told apart are told apart by unfolding 2n times (as states of an automaton are: Moore 1956).
std::optional<Hash> Arena::rule_hash(u32 rule) {
  std::vector<u32> reached{rule};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    std::vector<u32> next;
    rules_below(rules_[reached[i]].body, next);
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
      const auto body = identity(rules_[r].body, now);
      if (!body) return std::nullopt;
      next.rules[r] = Identity(Of::Rule).add(start).add(*body).done();
    }
    now = std::move(next);
  }
  return now.rules[rule];
}

std::optional<Hash> Arena::portable_hash(Id e) {
  if (!fold_) {
    auto made = std::make_unique<Fold>();
    for (u32 r = 0; r < rules_.size(); ++r) made->rules[r] = rule_hash(r);
    made->final = true;
    fold_ = std::move(made);
  }
  return identity(e, *fold_);
}

std::size_t Arena::fold_memory() const { return sizeof(Fold) + fold_->memory(); }

}  // namespace guiderail
