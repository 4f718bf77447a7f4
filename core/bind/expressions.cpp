#include "base/work.hpp"
#include "bind/bindings.hpp"
#include "json/decimals.hpp"
#include "json/json.hpp"
#include "json/tallies.hpp"
#include "lexed/lexing.hpp"

namespace guiderail {
namespace {

using CharSetRef = std::shared_ptr<CharSet>;  // nanobind holders are not const

CharSetRef shared(const CharSet::Ptr& p) { return std::const_pointer_cast<CharSet>(p); }

// Hands out handles of one arena until finish() turns it into a program.
class Builder {
 public:
  Builder(u32 max_nodes, u32 fuel, u64 step_work)
      : arena_(std::make_shared<Arena>(Limits{max_nodes, fuel, Limits{}.max_depth, step_work})) {}

  Arena& arena() {
    check_unused();
    if (finished_) throw Error("builder-finished", "finish() was called; make a new Builder");
    return *arena_;
  }
  Id check(Id e) const {
    check_unused();
    if (e >= arena_->node_count())
      throw Error("bad-handle", "no such expression in this builder: " + std::to_string(e));
    return e;
  }
  std::vector<Id> check(std::vector<Id> list) const {
    for (Id e : list) check(e);
    return list;
  }
  std::shared_ptr<Program> finish(Id root) {
    arena();
    check(root);
    const Use use(*this);
    auto program = std::make_shared<Program>(arena_, root);
    finished_ = true;
    return program;
  }
  // While it lives, the core may let go of the interpreter lock, and other threads are refused.
  class Use {
   public:
    explicit Use(Builder& of) : mark_{of} {}

   private:
    struct Mark {
      explicit Mark(Builder& of) : of(of) { of.in_use_ = true; }
      ~Mark() { of.in_use_ = false; }
      Builder& of;
    } mark_;  // ends last: it changes under the interpreter lock
    LetGo let_go_;
  };

 private:
  void check_unused() const {
    if (in_use_) throw Error("builder-shared", "another thread is using this builder; give each thread its own");
  }
  std::shared_ptr<Arena> arena_;
  bool finished_ = false, in_use_ = false;
};

// Literals among the alternatives become one acyclic automaton.
Id unite_with_choice(Arena& arena, const std::vector<Id>& parts) {
  std::vector<std::string> strings;
  std::vector<Id> others;
  for (Id e : parts) {
    std::string text;
    if (e != kEpsilon && arena.node(e).kind == Kind::Switch && arena.is_literal(e, &text))
      strings.push_back(std::move(text));
    else
      others.push_back(e);
  }
  if (strings.size() > 1)
    others.push_back(arena.choice(std::move(strings)));
  else
    others = parts;
  return arena.unite(std::move(others));
}

using Values = std::vector<std::variant<Id, std::vector<std::pair<Id, u32>>>>;

MemberTable table_of(Builder& b, const std::vector<nb::bytes>& names, const Values& values,
                     const std::vector<bool>& required, const std::vector<std::tuple<Id, Id, bool, u32>>& others,
                     Id comma, Id colon, bool ordered, std::int64_t min, std::int64_t max, u32 escapes, u32 pending) {
  if (values.size() != names.size() || required.size() != names.size())
    throw Error("bad-shape", "members: names, values and required must have equal lengths");
  if (min < 0 || min >= kInf || max >= kInf || escapes > 1)
    throw Error("bad-bound", "members needs 0 <= min < 4294967295, max below that, escapes 0 or 1");
  MemberTable table;
  for (const auto& name : names) {
    table.names.emplace_back(view(name));
    if (!is_utf8(table.names.back())) throw Error("not-utf8", "members: a name is not UTF-8");
  }
  for (const auto& value : values) {
    auto& list = table.values.emplace_back();
    if (const Id* one = std::get_if<Id>(&value)) {
      list.push_back({b.check(*one), 0});
    } else {
      for (auto [e, discharges] : std::get<1>(value)) list.push_back({b.check(e), discharges});
    }
  }
  for (bool r : required) table.required.push_back(r);
  for (auto [key, value, dense, discharges] : others)
    table.others.push_back({b.check(key), b.check(value), dense, discharges, {}});
  table.comma = b.check(comma);
  table.colon = b.check(colon);
  table.ordered = ordered;
  table.min = static_cast<u32>(min);
  table.max = max < 0 ? kInf : static_cast<u32>(max);
  table.escapes = static_cast<Escapes>(escapes);
  table.pending = pending;
  return table;
}

Id make_members(Builder& b, const std::vector<nb::bytes>& names, const Values& values,
                const std::vector<bool>& required, const std::vector<std::tuple<Id, Id, bool, u32>>& others, Id comma,
                Id colon, bool ordered, std::int64_t min, std::int64_t max, u32 escapes, u32 pending) {
  MemberTable table = table_of(b, names, values, required, others, comma, colon, ordered, min, max, escapes, pending);
  Arena& arena = b.arena();
  const Builder::Use use(b);
  return Json::of(arena).members(std::move(table));
}

using Numbers = std::vector<u32>;

// Objects whose alternatives are read side by side, see votes.cpp.
// Of a vote whose cells are there.
void add_parts(Vote& vote, const std::vector<std::pair<u32, Numbers>>& parts) {
  for (const auto& [op, of] : parts) {
    for (u32 p : of)
      if (op > static_cast<u32>(Vote::Op::Not) || p >= (op == 0 ? vote.cells.size() : vote.parts.size()))
        throw Error("bad-shape", "vote: a part may refer to earlier parts only");
    if (op == 0 && of.size() != 1) throw Error("bad-shape", "vote: a part is one cell");
    vote.parts.push_back({static_cast<Vote::Op>(op), of});
  }
  if (vote.parts.empty()) throw Error("bad-shape", "vote: there is no formula");
}

Id make_vote(Builder& b, const std::vector<nb::bytes>& names, const Values& values, const std::vector<bool>& required,
             const std::vector<std::tuple<Id, Id, bool, u32>>& others, Id comma, Id colon, bool ordered, u32 escapes,
             const std::vector<std::tuple<Numbers, u32, std::int64_t>>& cells,
             const std::vector<std::pair<u32, Numbers>>& parts, const std::vector<Numbers>& effects,
             const std::vector<std::pair<Numbers, Id>>& settled) {
  MemberTable table = table_of(b, names, values, required, others, comma, colon, ordered, 0, -1, escapes, 1);
  auto vote = std::make_shared<Vote>();
  auto bits = [](const Numbers& set, std::size_t size) {
    Bits out(size);
    for (u32 i : set) {
      if (i >= size * 64) throw Error("bad-shape", "vote: a set has a number beyond the last cell or name");
      set_bit(out, i);
    }
    return out;
  };
  const std::size_t words = (cells.size() + 63) / 64;
  for (const auto& [needed, min, max] : cells) {
    vote->cells.push_back({bits(needed, names.size() / 64 + 1), min, max < 0 ? kInf : static_cast<u32>(max)});
    vote->counted = std::max({vote->counted, min, max < 0 ? 0 : static_cast<u32>(max) + 1});
  }
  add_parts(*vote, parts);
  for (const Numbers& effect : effects) vote->effects.push_back(bits(effect, words));
  auto known = [&](u32 effect) {
    if (effect >= effects.size()) throw Error("bad-shape", "vote: no such effect");
  };
  for (const auto& list : table.values)
    for (const Alternative& a : list) known(a.discharges);
  for (const OtherKeys& o : table.others) known(o.discharges);
  Arena& arena = b.arena();
  for (const auto& [set, start] : settled) {
    if (const auto plain = Json::of(arena).plain_members(b.check(start)))
      vote->settled.push_back({bits(set, words), start, *plain});
  }
  table.vote = std::move(vote);
  const Builder::Use use(b);
  return Json::of(arena).members(std::move(table));
}

Id make_tally(Builder& b, const std::vector<std::vector<std::tuple<Id, Numbers, Numbers>>>& places, Id comma,
              const std::vector<std::pair<u32, std::int64_t>>& cells, const std::vector<std::pair<u32, Numbers>>& parts,
              const std::vector<std::tuple<u32, u32, std::int64_t>>& counters) {
  auto bound = [](std::int64_t max) { return max < 0 ? kInf : static_cast<u32>(max); };
  TallyTable table;
  table.comma = b.check(comma);
  for (const auto& [min, max] : cells) table.vote.cells.push_back({{}, min, bound(max)});
  add_parts(table.vote, parts);
  for (const auto& [cell, min, max] : counters) {
    if (cell >= cells.size()) throw Error("bad-shape", "tally: a counter of no cell");
    table.counters.push_back({cell, min, bound(max)});
  }
  if (places.empty()) throw Error("bad-shape", "tally: there are no items");
  for (const auto& place : places) {
    auto& to = table.places.emplace_back();
    for (const auto& [value, fails, counts] : place) {
      TallyTable::Items items{b.check(value), Bits((cells.size() + 63) / 64), counts};
      for (u32 cell : fails) {
        if (cell >= cells.size()) throw Error("bad-shape", "tally: no such cell");
        set_bit(items.fails, cell);
      }
      for (u32 counter : counts)
        if (counter >= counters.size()) throw Error("bad-shape", "tally: no such counter");
      to.push_back(std::move(items));
    }
  }
  Arena& arena = b.arena();
  const Builder::Use use(b);
  return Tallies::of(arena).tally(std::move(table));
}

u128 decimal_digits(const std::string& digits) {
  u128 out = 0;
  for (char c : digits) {
    if (c < '0' || c > '9' || out > DecimalTable::kHuge) throw Error("bad-shape", "decimals: not a number below 10^36");
    out = 10 * out + static_cast<u32>(c - '0');
  }
  return out;
}

using DecimalCuts = std::vector<std::tuple<std::string, std::string, u32, u32, std::string>>;
using DecimalLabels = std::vector<std::pair<bool, std::vector<std::pair<std::string, std::vector<std::string>>>>>;

Id make_decimals(Builder& b, const DecimalCuts& cuts, const DecimalLabels& labels,
                 const std::vector<std::string>& moduli, u32 scale, std::int64_t room) {
  DecimalTable table;
  table.scale = scale;
  if (room >= 0) table.room = static_cast<u32>(room);
  for (const auto& [dotted, parts] : labels) {
    DecimalLabel& label = table.labels.emplace_back();
    label.dotted = dotted;
    for (const auto& [step, gaps] : parts) {
      DecimalPart& part = label.parts.emplace_back();
      part.step = decimal_digits(step);
      for (const std::string& gap : gaps) part.gaps.push_back(decimal_digits(gap));
    }
  }
  for (const auto& [whole, fraction, at, above, gap] : cuts) {
    if (std::max(at, above) >= labels.size()) throw Error("bad-handle", "decimals: no such label");
    table.cuts.push_back({whole, fraction, at, above, decimal_digits(gap)});
  }
  for (const std::string& modulus : moduli) table.moduli.push_back(decimal_digits(modulus));
  return Decimals::of(b.arena()).decimals(std::move(table));
}

using Lines = std::tuple<u32, u32, u32, std::vector<u32>, std::vector<u32>, u32, bool, bool>;

u32 make_lexer(Builder& b, const std::vector<std::tuple<Id, u32, std::vector<u32>, std::optional<u32>>>& terminals,
               const std::vector<u32>& ignore, const std::optional<Lines>& indentation, nb::bytes before,
               const std::vector<u32>& traps) {
  Lexer lexer;
  const std::size_t count = terminals.size();
  auto check = [&](u32 t) {
    if (t >= count) throw Error("bad-handle", "no such terminal in this lexer: " + std::to_string(t));
    return t;
  };
  for (const auto& [text, how, keyword_of, guard_of] : terminals) {
    for (u32 owner : keyword_of) check(owner);
    if (how > static_cast<u32>(Terminal::Ends::Nested))
      throw Error("bad-shape", "a terminal ends in one of 4 ways, not " + std::to_string(how));
    const auto ends = static_cast<Terminal::Ends>(how);
    lexer.terminals.push_back({b.check(text), ends, keyword_of, guard_of ? check(*guard_of) : kNone});
  }
  lexer.ignored.assign(count, 0);
  for (u32 t : ignore) lexer.ignored[check(t)] = 1;
  if (indentation) {
    const auto& [newline, indent, dedent, opening, closing, tab, strict_tabs, final_newline] = *indentation;
    if (tab == 0) throw Error("bad-bound", "a tab counts at least one column");
    for (const auto* list : {&opening, &closing})
      for (u32 t : *list) check(t);
    lexer.indentation =
        Indentation{check(newline), check(indent), check(dedent), opening, closing, tab, strict_tabs, final_newline};
  }
  for (u32 t : traps) lexer.traps.push_back(check(t));
  lexer.before = std::string(view(before));
  return Lexed::of(b.arena()).lexer(std::move(lexer));
}

Id check_state(Program& p, Id e) {
  if (e >= p.arena().node_count()) throw Error("bad-handle", "no such state in this program: " + std::to_string(e));
  return e;
}

nb::object to_python(const Symbol& symbol) {
  const auto* set = std::get_if<TokenSet>(&symbol);
  if (!set) {
    const auto* text = std::get_if<std::string>(&symbol);
    return text ? nb::cast(*text) : nb::cast(std::get<u32>(symbol));
  }
  nb::object made = nb::inst_alloc(nb::type<TokenSet>());  // nanobind copies where nothing may be thrown
  new (nb::inst_ptr<TokenSet>(made)) TokenSet(*set);
  nb::inst_mark_ready(made);
  return made;
}

template <class F>
auto while_let_go(F f) {
  LetGo let_go;
  return f();
}

}  // namespace

void bind_expressions(nb::module_& m) {
  m.def("set_bucket_bits", [](u32 bits) { return bucket_bits.exchange(bits); });
  m.def("identity", [](Program& p, Id e) -> std::optional<std::pair<u64, u64>> {
    std::lock_guard lock(p.arena().mutex);
    const auto hash = p.arena().portable_hash(check_state(p, e));
    if (!hash) return std::nullopt;
    return std::pair{hash->lo, hash->hi};
  });

  m.def("spend_work", [](u64 steps) { Work::spend(steps); });
  m.def("spent_work", &Work::spent);
  m.def("limit_work", [](u64 steps) {
    const Work::Allowed before = Work::limit(steps);
    return std::tuple(before.until, before.steps, reinterpret_cast<std::uintptr_t>(before.what));
  });
  m.def("restore_work", [](std::tuple<u64, u64, std::uintptr_t> before) {
    const auto [until, steps, what] = before;
    Work::restore({until, steps, reinterpret_cast<const char*>(what)});
  });
  nb::class_<CharSet>(m, "CharSet")
      .def(nb::new_([](const std::vector<CharSet::Range>& ranges) {
             for (auto [lo, hi] : ranges)
               if (lo > hi || hi > 0x10FFFF)
                 throw Error("bad-range", "a range of code points needs 0 <= low <= high <= 0x10FFFF");
             return shared(CharSet::make(ranges));
           }),
           nb::arg("ranges"))
      .def("ranges", [](const CharSet& s) { return s.ranges(); })
      .def("__or__", [](const CharSet& a, const CharSet& b) { return shared(CharSet::unite(a, b)); })
      .def("__and__", [](const CharSet& a, const CharSet& b) { return shared(CharSet::intersect(a, b)); })
      .def("__sub__",
           [](const CharSet& a, const CharSet& b) { return shared(CharSet::intersect(a, *CharSet::invert(b))); })
      .def("__invert__", [](const CharSet& a) { return shared(CharSet::invert(a)); })
      .def("__contains__", [](const CharSet& a, u32 c) { return a.contains(c); })
      .def("__len__", [](const CharSet& a) { return a.size(); })
      .def("__eq__",
           [](const CharSet& a, nb::handle b) {
             return nb::isinstance<CharSet>(b) && a.ranges() == nb::cast<const CharSet&>(b).ranges();
           })
      .def("__hash__", [](const CharSet& a) { return static_cast<Py_ssize_t>(a.hash().lo >> 2); });

  nb::class_<Builder>(m, "Builder")
      .def(nb::init<u32, u32, u64>(), nb::arg("max_nodes") = Limits{}.max_nodes, nb::arg("fuel") = Limits{}.fuel,
           nb::arg("step_work") = Limits{}.step_work)
      .def_ro_static("EMPTY", &kEmpty)
      .def_ro_static("EPSILON", &kEpsilon)
      .def("literal", [](Builder& b, nb::bytes data) { return b.arena().literal(view(data)); })
      .def("char_class", [](Builder& b, const CharSetRef& chars) { return b.arena().char_class(chars); })
      .def("byte_class",
           [](Builder& b, nb::bytes values) {
             ByteSet set;
             for (char c : view(values)) set.add(static_cast<u8>(c));
             return b.arena().bytes(set);
           })
      .def("concat", [](Builder& b, std::vector<Id> parts) { return b.arena().concat_all(b.check(std::move(parts))); })
      .def("union",
           [](Builder& b, std::vector<Id> parts) { return unite_with_choice(b.arena(), b.check(std::move(parts))); })
      .def("intersection",
           [](Builder& b, std::vector<Id> parts) { return b.arena().intersect(b.check(std::move(parts))); })
      .def("complement", [](Builder& b, Id e) { return b.arena().complement_text(b.check(e)); })
      .def(
          "repeat",
          [](Builder& b, Id e, std::int64_t min, std::int64_t max) {
            if (min < 0 || min >= kInf || max >= kInf || (max >= 0 && max < min))
              throw Error("bad-bound", "repeat needs 0 <= min <= max < 4294967295 (max < 0: no upper bound)");
            u32 most = max < 0 ? kInf : static_cast<u32>(max);
            return b.arena().repeat(b.check(e), static_cast<u32>(min), most);
          },
          nb::arg(), nb::arg(), nb::arg() = -1)
      .def("choice",
           [](Builder& b, const std::vector<nb::bytes>& strings) {
             std::vector<std::string> list;
             list.reserve(strings.size());
             for (const auto& s : strings) list.emplace_back(view(s));
             Arena& arena = b.arena();
             const Builder::Use use(b);
             Patience::let_go();
             return arena.choice(std::move(list));
           })
      .def("substring_of",
           [](Builder& b, const std::vector<nb::bytes>& texts) {
             std::vector<std::string> list;
             for (const auto& s : texts) list.emplace_back(view(s));
             Arena& arena = b.arena();
             const Builder::Use use(b);
             Patience::let_go();
             return arena.substring_of(list);
           })
      .def("substring_of_chunks",
           [](Builder& b, const std::vector<nb::bytes>& chunks) {
             std::vector<std::string> list;
             for (const auto& s : chunks) list.emplace_back(view(s));
             return b.arena().substring_of_chunks(list);
           })
      .def(
          "look_ahead", [](Builder& b, Id e, bool negative) { return b.arena().ahead(b.check(e), negative); },
          nb::arg(), nb::arg() = false)
      .def(
          "look_behind",
          [](Builder& b, Id e, bool negative) {
            Arena& a = b.arena();
            return a.behind(a.concat(a.any_text(), b.check(e)), negative);
          },
          nb::arg(), nb::arg() = false)
      .def("scope", [](Builder& b, Id e) { return b.arena().scope(b.check(e)); })
      .def("token",
           [](Builder& b, const std::vector<std::variant<std::string, u32>>& names) {
             std::vector<Symbol> symbols;
             for (const auto& name : names) std::visit([&](const auto& of) { symbols.emplace_back(of); }, name);
             return b.arena().token(symbols);
           })
      .def(
          "token_set",
          [](Builder& b, std::vector<std::variant<std::string, u32>> tokens, bool but) {
            return b.arena().token({TokenSet{std::move(tokens), but}});
          },
          nb::arg(), nb::arg("but") = false)
      .def("counted", [](Builder& b, Id e, u32 most) { return b.arena().counted(b.check(e), most); })
      .def(
          "rule",
          [](Builder& b, std::string name, bool holds_items) { return b.arena().rule(std::move(name), holds_items); },
          nb::arg(), nb::arg("holds_items") = false)
      .def(
          "escaped",
          [](Builder& b, Id e, u32 mode) {
            if (mode > 1) throw Error("bad-mode", "escaped takes mode 0 (canonical) or 1 (all spellings)");
            return Escaped::of(b.arena()).escaped(b.check(e), static_cast<Escapes>(mode));
          },
          nb::arg(), nb::arg("mode") = 0)
      .def("members", &make_members, nb::arg("names"), nb::arg("values"), nb::arg("required"), nb::arg("others"),
           nb::arg("comma"), nb::arg("colon"), nb::kw_only(), nb::arg("ordered") = false, nb::arg("min") = 0,
           nb::arg("max") = -1, nb::arg("escapes") = 0, nb::arg("pending") = 0)
      .def("vote", &make_vote, nb::arg("names"), nb::arg("values"), nb::arg("required"), nb::arg("others"),
           nb::arg("comma"), nb::arg("colon"), nb::kw_only(), nb::arg("ordered"), nb::arg("escapes"), nb::arg("cells"),
           nb::arg("parts"), nb::arg("effects"), nb::arg("settled"))
      .def(
          "item",
          [](Builder& b, Id e, bool infinite, u32 label) {
            return Json::of(b.arena()).item(b.check(e), infinite, label);
          },
          nb::arg(), nb::arg("infinite") = false, nb::arg("label") = 0)
      .def("distinct", [](Builder& b, Id body) { return Json::of(b.arena()).distinct(b.check(body)); })
      .def("tally", &make_tally, nb::arg("places"), nb::arg("comma"), nb::kw_only(), nb::arg("cells"), nb::arg("parts"),
           nb::arg("counters"))
      .def("twice", [](Builder& b, Id body) { return Json::of(b.arena()).twice(b.check(body)); })
      .def("decimals", &make_decimals, nb::arg("cuts"), nb::arg("labels"), nb::arg("moduli"), nb::arg("scale"),
           nb::arg("room") = -1)
      .def("lexer", &make_lexer, nb::arg("terminals"), nb::arg("ignore"), nb::arg("indentation") = nb::none(),
           nb::arg("before") = nb::bytes("", 0), nb::arg("traps") = std::vector<u32>())
      .def("terminal", [](Builder& b, u32 lexer, u32 index) { return Lexed::of(b.arena()).terminal(lexer, index); })
      .def("never", [](Builder& b, u32 lexer) { return Lexed::of(b.arena()).never(lexer); })
      .def("lexed", [](Builder& b, u32 lexer, Id body) { return Lexed::of(b.arena()).lexed(lexer, b.check(body)); })
      .def("define", [](Builder& b, Id rule, Id body) { b.arena().define(b.check(rule), b.check(body)); })
      .def("is_nullable", [](Builder& b, Id e) { return b.arena().nullable(b.check(e)); })
      .def("is_empty",
           [](Builder& b, Id e) {
             Arena& a = b.arena();
             if (a.has(b.check(e), kHasRef)) throw Error("not-regular", "is_empty takes an expression without rules");
             const Builder::Use use(b);
             return !a.live(e);
           })
      .def("first_bytes",
           [](Builder& b, Id e) {
             Arena& a = b.arena();
             if (a.has(b.check(e), kHasRef))
               throw Error("not-regular", "first_bytes takes an expression without rules");
             return to_bytes(a.first(e));
           })
      .def("dump", [](Builder& b, Id e) { return b.arena().dump(b.check(e)); })
      .def("finish", &Builder::finish);

  nb::class_<TokenSet>(m, "TokenSet")
      .def_prop_ro("tokens", [](const TokenSet& set) { return set.tokens; })
      .def_prop_ro("but", [](const TokenSet& set) { return set.but; });

  nb::class_<Program>(m, "Program")
      .def_prop_ro("root", [](Program& p) { return p.root(); })
      .def("derivative",
           [](Program& p, Id s, nb::bytes data) {
             check_state(p, s);
             LetGo let_go;
             // Whether this was read before is no matter of the constraint that asks: it counts by the byte.
             const u64 before = Work::spent();
             const Id out = p.advance(s, view(data));
             Work::recount(before + data.size());
             return out;
           })
      .def("derivative_symbol",
           [](Program& p, Id s, const Symbol& symbol) {
             check_state(p, s);
             LetGo let_go;
             const auto& symbols = p.arena().symbols();
             for (u32 i = 0; i < symbols.size(); ++i)
               if (symbols[i] == symbol) return p.advance_symbols(s, {i});
             return kEmpty;
           })
      .def("is_nullable", [](Program& p, Id s) { return p.arena().nullable(check_state(p, s)); })
      .def("is_live",
           [](Program& p, Id s) {
             check_state(p, s);
             LetGo let_go;
             return p.live(s);
           })
      .def("first_bytes",
           [](Program& p, Id s) {
             check_state(p, s);
             return to_bytes(while_let_go([&] { return p.next_bytes(s); }));
           })
      .def("first_symbols",
           [](Program& p, Id s) {
             check_state(p, s);
             nb::list out;
             for (u32 i : while_let_go([&] { return p.next_symbols(s); }))
               out.append(to_python(p.arena().symbols()[i]));
             return out;
           })
      .def("forced_bytes",
           [](Program& p, Id s, std::size_t limit) {
             check_state(p, s);
             return to_bytes(while_let_go([&] { return p.forced(s, limit); }));
           })
      .def("shortest",
           [](Program& p, Id s, std::size_t limit) -> std::optional<nb::bytes> {
             check_state(p, s);
             std::string out;
             if (!while_let_go([&] { return p.shortest(s, limit, out); })) return std::nullopt;
             return to_bytes(out);
           })
      .def("least_bytes", [](Program& p, Id s) { return p.arena().node(check_state(p, s)).shortest; })
      .def("likely",
           [](Program& p, Id s, std::size_t limit) {
             check_state(p, s);
             return to_bytes(while_let_go([&] { return p.likely(s, limit); }));
           })
      .def_prop_ro("serial", &Program::serial)
      .def("symbols",
           [](Program& p) {
             nb::list out;
             for (const Symbol& symbol : p.arena().symbols()) out.append(to_python(symbol));
             return out;
           })
      .def("dump",
           [](Program& p, Id s) {
             check_state(p, s);
             return while_let_go([&] { return p.dump(s); });
           })
      .def("node_count", [](Program& p) { return p.arena().node_count(); })
      .def("memory_size_bytes", [](Program& p) { return p.memory(); })
      .def("memory_parts", [](Program& p) {
        nb::dict parts;
        for (auto [name, bytes] : p.memory_parts()) parts[name] = bytes;
        return parts;
      });
}

}  // namespace guiderail
