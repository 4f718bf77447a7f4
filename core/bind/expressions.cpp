#include <atomic>

#include "base/stack.hpp"
#include "base/work.hpp"
#include "bind/bindings.hpp"
#include "build/builder.hpp"
#include "expr/identities.hpp"

namespace guiderail {
namespace {

using CharSetRef = std::shared_ptr<CharSet>;  // nanobind holders are not const

CharSetRef shared(const CharSet::Ptr& p) { return std::const_pointer_cast<CharSet>(p); }

// Reads a program for a fixed number of steps: the cost must not depend on what others have read before.
template <class F>
auto at_cost(u64 steps, F f) {
  const u64 before = Work::spent();
  auto out = f();
  Work::recount(before + steps);
  return out;
}

// A builder for one thread at a time: others are refused meanwhile. Its long operations let other threads run.
class SharedBuilder {
 public:
  SharedBuilder(u32 max_nodes, u32 fuel, u64 step_work, bool records)
      : builder_(Limits{max_nodes, fuel, Limits{}.max_depth, step_work}, records) {}

  // f(the builder), which is short.
  template <class F>
  auto with(F f) {
    const Mark mark(*this);
    return f(builder_);
  }
  // The same, but the core may release the interpreter lock.
  template <class F>
  auto with_patience(F f) {
    const Mark mark(*this);
    GilRelease gil;
    return f(builder_);
  }
  template <class Op>
  auto add(Op operation) {
    return with([&](Builder& b) { return b.add(std::move(operation)); });
  }
  template <class Op>
  auto add_patiently(Op operation) {
    return with_patience([&](Builder& b) { return b.add(std::move(operation)); });
  }
  std::shared_ptr<Program> finish(Id root) {
    return with_patience([&](Builder& b) { return std::make_shared<Program>(b.finish(root), root); });
  }
  Id replay(std::string_view file) {
    return with_patience([&](Builder& b) { return Replay(b).all(contents_of(file, Saved::Program)); });
  }
  std::string recorded(Id root) {
    return with_patience([&](Builder& b) { return contained(Saved::Program, b.recorded(root)); });
  }

 private:
  class Mark {
   public:
    explicit Mark(SharedBuilder& of) : of_(of) {
      if (of_.in_use_.exchange(true, std::memory_order_acquire))
        throw Error("builder-shared", "another thread is using this builder; give each thread its own");
    }
    ~Mark() { of_.in_use_.store(false, std::memory_order_release); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    SharedBuilder& of_;
  };
  Builder builder_;
  std::atomic<bool> in_use_{false};
};

namespace ops = operations;
using ops::Numbers, ops::Strings;

Strings strings(const std::vector<nb::bytes>& from) {
  Strings out;
  out.reserve(from.size());
  for (const auto& s : from) out.emplace_back(view(s));
  return out;
}

using Values = std::vector<std::variant<Id, std::vector<std::pair<Id, u32>>>>;
using Others = std::vector<std::tuple<Id, Id, bool, u32>>;
using Parts = std::vector<std::pair<u32, Numbers>>;

ops::Table table_of(const std::vector<nb::bytes>& names, const Values& values, const std::vector<bool>& required,
                    const Others& others, Id comma, Id colon, bool ordered, u32 escapes) {
  ops::Table table{strings(names), {}, required, {}, comma, colon, ordered, escapes};
  for (const auto& value : values) {
    auto& list = table.values.emplace_back();
    if (const Id* one = std::get_if<Id>(&value)) {
      list.push_back({*one, 0});
    } else {
      for (auto [e, discharges] : std::get<1>(value)) list.push_back({e, discharges});
    }
  }
  for (auto [key, value, dense, discharges] : others) table.others.push_back({key, value, dense, discharges});
  return table;
}

Id make_members(SharedBuilder& b, const std::vector<nb::bytes>& names, const Values& values,
                const std::vector<bool>& required, const Others& others, Id comma, Id colon, bool ordered,
                std::int64_t min, std::int64_t max, u32 escapes, u32 pending) {
  return b.add_patiently(
      ops::Members{table_of(names, values, required, others, comma, colon, ordered, escapes), min, max, pending});
}

// A builder function that takes just the arguments of an operation, as Python passes them.
template <class Op>
auto added() {
  return []<class... T>(std::type_identity<std::tuple<T&...>>) {
    return [](SharedBuilder& b, T... arguments) { return b.add(Op{std::move(arguments)...}); };
  }(std::type_identity<decltype(std::declval<Op&>().fields())>());
}

std::vector<ops::Part> parts_of(const Parts& parts) {
  std::vector<ops::Part> out;
  for (const auto& [op, of] : parts) out.push_back({op, of});
  return out;
}

// Objects whose alternatives are read in parallel: see votes.cpp.
Id make_vote(SharedBuilder& b, const std::vector<nb::bytes>& names, const Values& values,
             const std::vector<bool>& required, const Others& others, Id comma, Id colon, bool ordered, u32 escapes,
             const std::vector<std::tuple<Numbers, u32, std::int64_t>>& cells, const Parts& parts,
             const std::vector<Numbers>& effects, const std::vector<std::pair<Numbers, Id>>& settled,
             const std::vector<std::vector<std::pair<Numbers, Id>>>& wholes) {
  ops::Vote vote{
      table_of(names, values, required, others, comma, colon, ordered, escapes), {}, parts_of(parts), effects, {}, {}};
  for (const auto& [needed, min, max] : cells) vote.cells.push_back({needed, min, max});
  for (const auto& [set, start] : settled) vote.settled.push_back({set, start});
  for (const auto& of : wholes) {
    auto& to = vote.wholes.emplace_back();
    for (const auto& [set, value] : of) to.push_back({set, value});
  }
  return b.add_patiently(std::move(vote));
}

Id make_tally(SharedBuilder& b, const std::vector<std::vector<std::tuple<Id, Numbers, Numbers>>>& places, Id comma,
              const std::vector<std::pair<u32, std::int64_t>>& cells, const Parts& parts,
              const std::vector<std::tuple<u32, u32, std::int64_t>>& counters) {
  ops::Tally tally{{}, comma, {}, parts_of(parts), {}};
  for (const auto& place : places) {
    auto& to = tally.places.emplace_back();
    for (const auto& [value, fails, counts] : place) to.push_back({value, fails, counts});
  }
  for (const auto& [min, max] : cells) tally.cells.push_back({min, max});
  for (const auto& [cell, min, max] : counters) tally.counters.push_back({cell, min, max});
  return b.add_patiently(std::move(tally));
}

using DecimalCuts = std::vector<std::tuple<std::string, std::string, u32, u32, std::string>>;
using DecimalLabels = std::vector<std::pair<bool, std::vector<std::pair<std::string, std::vector<std::string>>>>>;

Id make_decimals(SharedBuilder& b, const DecimalCuts& cuts, const DecimalLabels& labels, const Strings& moduli,
                 u32 scale, std::int64_t room) {
  ops::Decimals decimals{{}, {}, moduli, scale, room};
  for (const auto& [whole, fraction, at, above, gap] : cuts) decimals.cuts.push_back({whole, fraction, at, above, gap});
  for (const auto& [dotted, parts] : labels) {
    auto& label = decimals.labels.emplace_back(ops::Decimals::Label{dotted, {}});
    for (const auto& [step, gaps] : parts) label.parts.push_back({step, gaps});
  }
  return b.add_patiently(std::move(decimals));
}

using Lines = std::tuple<u32, u32, u32, Numbers, Numbers, u32, bool, bool>;

using Terminals = std::vector<std::tuple<Id, u32, Numbers, std::optional<u32>>>;

ops::Lexer lexer_of(const Terminals& terminals, const Numbers& ignore, const std::optional<Lines>& indentation,
                    nb::bytes before, const Numbers& traps) {
  ops::Lexer lexer{{}, ignore, {}, std::string(view(before)), traps};
  for (const auto& [text, how, keyword_of, guard_of] : terminals)
    lexer.terminals.push_back({text, how, keyword_of, guard_of});
  if (indentation) {
    const auto& [newline, indent, dedent, opening, closing, tab, strict_tabs, final_newline] = *indentation;
    lexer.indentation = {newline, indent, dedent, opening, closing, tab, strict_tabs, final_newline};
  }
  return lexer;
}

LexerId make_lexer(SharedBuilder& b, const Terminals& terminals, const Numbers& ignore,
                   const std::optional<Lines>& indentation, nb::bytes before, const Numbers& traps) {
  return b.add_patiently(lexer_of(terminals, ignore, indentation, before, traps));
}

LexerId make_identifier_lexer(SharedBuilder& b, const Terminals& terminals, const Numbers& ignore, const Numbers& traps,
                              const std::vector<std::pair<u32, Numbers>>& identifiers,
                              const std::vector<std::tuple<u32, u32, u32>>& placeholders) {
  ops::IdentifierLexer lexer{lexer_of(terminals, ignore, std::nullopt, nb::bytes("", 0), traps), {}, {}};
  for (const auto& [relation, values] : identifiers) lexer.identifiers.push_back({relation, values});
  for (const auto& [terminal, variable, relation] : placeholders)
    lexer.placeholders.push_back({terminal, variable, relation});
  return b.add_patiently(std::move(lexer));
}

Id check_state(Program& p, Id e) {
  if (index_of(e) >= p.arena().node_count())
    throw Error("bad-handle", "no such state in this program: " + std::to_string(index_of(e)));
  return e;
}

nb::object to_python(const Symbol& symbol) {
  const auto* set = std::get_if<TokenSet>(&symbol);
  if (!set) {
    const auto* text = std::get_if<std::string>(&symbol);
    return text ? nb::cast(*text) : nb::cast(std::get<u32>(symbol));
  }
  nb::object made = nb::inst_alloc(nb::type<TokenSet>());  // nanobind copies where nothing may throw
  new (nb::inst_ptr<TokenSet>(made)) TokenSet(*set);
  nb::inst_mark_ready(made);
  return made;
}

template <class F>
auto without_gil(F f) {
  GilRelease gil;
  return f();
}

// What the interpreter does between its instructions and at its calls, for front ends that are compiled: it ends
// endless recursion, runs handlers of signals, and lets other threads in.
void as_the_interpreter(u64 steps) {
  if (stack_is_low()) {
    PyErr_SetString(PyExc_RecursionError, "the stack is nearly used up");
    throw nb::python_error();
  }
  constexpr u64 kTurn = 20'000;  // steps, some 2 ms
  const u64 spent = Work::spent();
  if (spent / kTurn == (spent - steps) / kTurn) return;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  nb::gil_scoped_release others;
}

}  // namespace

void bind_expressions(nb::module_& m) {
  m.def("set_bucket_bits", [](u32 bits) { return bucket_bits.exchange(bits); });
  m.def("identity", [](Program& p, Id e) -> std::optional<std::pair<u64, u64>> {
    std::lock_guard lock(p.arena().mutex);
    const auto hash = p.arena().identities().of(check_state(p, e));
    if (!hash) return std::nullopt;
    return std::pair{hash->lo, hash->hi};
  });

  m.def("spend_work", [](u64 steps) {
    Work::spend(steps);
    as_the_interpreter(steps);
  });
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

  nb::class_<SharedBuilder>(m, "Builder")
      .def(nb::init<u32, u32, u64, bool>(), nb::arg("max_nodes") = Limits{}.max_nodes, nb::arg("fuel") = Limits{}.fuel,
           nb::arg("step_work") = Limits{}.step_work, nb::arg("records") = false)
      .def_ro_static("EMPTY", &kEmpty)
      .def_ro_static("EPSILON", &kEpsilon)
      .def_static(
          "operations",
          [] {
            nb::dict out;
            [&]<std::size_t... i>(std::index_sequence<i...>) {
              ((out[std::variant_alternative_t<i, Operation>::kName] = std::variant_alternative_t<i, Operation>::kCode),
               ...);
            }(std::make_index_sequence<std::variant_size_v<Operation>>());
            return out;
          })
      .def("literal", [](SharedBuilder& b, nb::bytes data) { return b.add(ops::Literal{std::string(view(data))}); })
      .def("char_class", [](SharedBuilder& b, const CharSetRef& chars) { return b.add(ops::CharClass{chars}); })
      .def("byte_class",
           [](SharedBuilder& b, nb::bytes values) {
             ByteSet set;
             for (char c : view(values)) set.add(static_cast<u8>(c));
             return b.add(ops::ByteClass{set});
           })
      .def("concat", added<ops::Concat>())
      .def("union", added<ops::Union>())
      .def("intersection", added<ops::Intersection>())
      .def("complement", added<ops::Complement>())
      .def("repeat", added<ops::Repeat>(), nb::arg(), nb::arg(), nb::arg() = -1)
      .def("choice", [](SharedBuilder& b,
                        const std::vector<nb::bytes>& texts) { return b.add_patiently(ops::Choice{strings(texts)}); })
      .def("substring_of",
           [](SharedBuilder& b, const std::vector<nb::bytes>& texts) {
             return b.add_patiently(ops::SubstringOf{strings(texts)});
           })
      .def("substring_of_chunks",
           [](SharedBuilder& b, const std::vector<nb::bytes>& chunks) {
             return b.add(ops::SubstringOfChunks{strings(chunks)});
           })
      .def("look_ahead", added<ops::LookAhead>(), nb::arg(), nb::arg() = false)
      .def("look_behind", added<ops::LookBehind>(), nb::arg(), nb::arg() = false)
      .def("scope", added<ops::Scope>())
      .def("token", added<ops::OneToken>())
      .def("token_set", added<ops::TokenOf>(), nb::arg(), nb::arg("but") = false)
      .def("counted", added<ops::Counted>())
      .def("rule", added<ops::Rule>(), nb::arg(), nb::arg("holds_items") = false)
      .def("escaped", added<ops::Escaped>(), nb::arg(), nb::arg("mode") = 0)
      .def("members", &make_members, nb::arg("names"), nb::arg("values"), nb::arg("required"), nb::arg("others"),
           nb::arg("comma"), nb::arg("colon"), nb::kw_only(), nb::arg("ordered") = false, nb::arg("min") = 0,
           nb::arg("max") = -1, nb::arg("escapes") = 0, nb::arg("pending") = 0)
      .def("vote", &make_vote, nb::arg("names"), nb::arg("values"), nb::arg("required"), nb::arg("others"),
           nb::arg("comma"), nb::arg("colon"), nb::kw_only(), nb::arg("ordered"), nb::arg("escapes"), nb::arg("cells"),
           nb::arg("parts"), nb::arg("effects"), nb::arg("settled"), nb::arg("wholes"))
      .def("item", added<ops::Item>(), nb::arg(), nb::arg("left") = 0, nb::arg("label") = 0)
      .def("distinct", added<ops::Distinct>())
      .def("tally", &make_tally, nb::arg("places"), nb::arg("comma"), nb::kw_only(), nb::arg("cells"), nb::arg("parts"),
           nb::arg("counters"))
      .def("twice", added<ops::Twice>())
      .def("patterned", added<ops::Patterned>())
      .def("recall", added<ops::Recall>())
      .def("capture", added<ops::Capture>())
      .def("decimals", &make_decimals, nb::arg("cuts"), nb::arg("labels"), nb::arg("moduli"), nb::arg("scale"),
           nb::arg("room") = -1)
      .def("lexer", &make_lexer, nb::arg("terminals"), nb::arg("ignore"), nb::arg("indentation") = nb::none(),
           nb::arg("before") = nb::bytes("", 0), nb::arg("traps") = std::vector<u32>())
      .def("identifier_lexer", &make_identifier_lexer, nb::arg("terminals"), nb::arg("ignore"), nb::arg("traps"),
           nb::arg("identifiers"), nb::arg("placeholders"))
      .def("binding", added<ops::Binding>())
      .def("terminal", added<ops::Terminal>())
      .def("never", added<ops::Never>())
      .def("lexed", added<ops::Lexed>())
      .def("define", [](SharedBuilder& b, Id rule, Id body) { b.add(ops::Define{rule, body}); })
      .def("replay", [](SharedBuilder& b, nb::bytes file) { return b.replay(view(file)); })
      .def("recorded", [](SharedBuilder& b, Id root) { return to_bytes(b.recorded(root)); })
      .def("is_nullable",
           [](SharedBuilder& b, Id e) { return b.with([&](Builder& of) { return of.arena().nullable(of.check(e)); }); })
      .def("is_empty",
           [](SharedBuilder& b, Id e) {
             return b.with_patience([&](Builder& of) { return !of.arena().live(of.check_regular(e, "is_empty")); });
           })
      .def("first_bytes",
           [](SharedBuilder& b, Id e) {
             return to_bytes(b.with([&](Builder& of) { return of.arena().first(of.check_regular(e, "first_bytes")); }));
           })
      .def("dump",
           [](SharedBuilder& b, Id e) { return b.with([&](Builder& of) { return of.arena().dump(of.check(e)); }); })
      .def("finish", &SharedBuilder::finish);

  nb::class_<TokenSet>(m, "TokenSet")
      .def_prop_ro("tokens", [](const TokenSet& set) { return set.tokens; })
      .def_prop_ro("but", [](const TokenSet& set) { return set.but; });

  nb::class_<Program>(m, "Program")
      .def_prop_ro("root", [](Program& p) { return p.root(); })
      .def("derivative",
           [](Program& p, Id s, nb::bytes data) {
             check_state(p, s);
             GilRelease gil;
             return at_cost(data.size(), [&] { return p.advance(s, view(data)); });
           })
      .def("derivative_symbol",
           [](Program& p, Id s, const Symbol& symbol) {
             check_state(p, s);
             GilRelease gil;
             const auto& symbols = p.arena().symbols();
             for (u32 i = 0; i < symbols.size(); ++i)
               if (symbols[i] == symbol) return p.advance_symbols(s, {i});
             return kEmpty;
           })
      .def("is_nullable", [](Program& p, Id s) { return p.arena().nullable(check_state(p, s)); })
      .def("is_live",
           [](Program& p, Id s) {
             check_state(p, s);
             GilRelease gil;
             return p.live(s);
           })
      .def("first_bytes",
           [](Program& p, Id s) {
             check_state(p, s);
             auto first = [&] { return at_cost(p.arena().byte_class_count(), [&] { return p.next_bytes(s); }); };
             return to_bytes(without_gil(first));
           })
      .def("first_symbols",
           [](Program& p, Id s) {
             check_state(p, s);
             nb::list out;
             for (u32 i : without_gil([&] { return p.next_symbols(s); })) out.append(to_python(p.arena().symbols()[i]));
             return out;
           })
      .def("forced_bytes",
           [](Program& p, Id s, std::size_t limit) {
             check_state(p, s);
             return to_bytes(without_gil([&] { return p.forced(s, limit); }));
           })
      .def("shortest",
           [](Program& p, Id s, std::size_t limit) -> std::optional<nb::bytes> {
             check_state(p, s);
             std::string out;
             if (!without_gil([&] { return p.shortest(s, limit, out); })) return std::nullopt;
             return to_bytes(out);
           })
      .def("least_bytes", [](Program& p, Id s) { return p.arena().node(check_state(p, s)).shortest; })
      .def("likely",
           [](Program& p, Id s, std::size_t limit) {
             check_state(p, s);
             return to_bytes(without_gil([&] { return p.likely(s, limit); }));
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
             return without_gil([&] { return p.dump(s); });
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
