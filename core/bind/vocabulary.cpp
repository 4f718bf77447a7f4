#include "bind/bindings.hpp"
#include "mask/mask.hpp"
#include "vocab/spelling.hpp"

namespace guiderail {

namespace {
PyObject* core_error = nullptr;

// (code, message) -> exception, of the Python layer: so hot calls need no wrapper there.
struct Factory {
  nb::ft_mutex mutex;
  PyObject* callable = nullptr;
  nb::object get() {
    const nb::ft_lock_guard lock(mutex);
    return nb::borrow(callable);
  }
  void set(nb::object callable_now) {  // the one before lives as long as the process
    const nb::ft_lock_guard lock(mutex);
    callable = callable_now.release().ptr();
  }
};
Factory factory;
}  // namespace

void raise_error(const std::string& code, const std::string& message) {
  nb::object args = nb::make_tuple(code, message);
  const nb::object make = factory.get();
  PyObject* made = make.is_valid() ? PyObject_Call(make.ptr(), args.ptr(), nullptr) : nullptr;
  if (made) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made)), made);
    Py_DECREF(made);
  } else if (!PyErr_Occurred()) {
    PyErr_SetObject(core_error, args.ptr());
  }
}

void bind_errors(nb::module_& m) {
  core_error = PyErr_NewException("guiderail._core.CoreError", PyExc_Exception, nullptr);
  m.attr("CoreError") = nb::handle(core_error);
  m.def("set_error_factory", [](nb::object f) { factory.set(std::move(f)); });
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      raise_error(e.code, e.what());
    }
  });
}

void bind_strategies(nb::module_& m) {
  m.def("mask_strategies", [] {
    const auto counts = StrategyCounts::all();
    nb::list out;
    for (std::size_t i = 0; i < kStrategies; ++i) {
      const StrategyInfo& of = info(static_cast<Strategy>(i));
      nb::dict row;
      row["name"] = of.name;
      row["where"] = of.where;
      row["does"] = of.does;
      row["on"] = StrategySwitches::on(static_cast<Strategy>(i));
      row["tried"] = counts[i].tried;
      row["made"] = counts[i].made;
      row["steps"] = counts[i].steps;
      row["bytes"] = counts[i].bytes;
      out.append(row);
    }
    return out;
  });
  m.def("switch_mask_strategy", [](const std::string& name, bool on) {
    if (!StrategySwitches::set(name, on)) throw Error("bad-range", "no mask strategy is called '" + name + "'");
  });
}

void bind_vocabulary(nb::module_& m) {
  using U32 = nb::ndarray<const u32, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using U8 = nb::ndarray<const u8, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(nb::new_([](nb::bytes data, U32 offsets, U8 special, u32 size, std::vector<u32> stops) {
             std::string text(view(data));
             std::vector<u32> at(offsets.data(), offsets.data() + offsets.size());
             std::vector<u8> marks(special.data(), special.data() + special.size());
             nb::gil_scoped_release release;
             auto vocabulary =
                 std::make_shared<Vocabulary>(std::move(text), std::move(at), std::move(marks), size, std::move(stops));
             MaskBuilder::warm(*vocabulary);
             return vocabulary;
           }),
           nb::arg("data"), nb::arg("offsets"), nb::arg("special"), nb::arg("size"), nb::arg("stop_token_ids"))
      .def_prop_ro("size", &Vocabulary::size)
      .def_prop_ro("token_count", &Vocabulary::token_count)
      .def_prop_ro("longest_token", &Vocabulary::longest)
      .def_prop_ro("stop_token_ids", [](const Vocabulary& v) { return v.stops(); })
      .def("token_bytes",
           [](const Vocabulary& v, std::int64_t token) {
             if (token < 0 || token >= v.token_count())
               throw Error("vocabulary-token", "there is no token " + std::to_string(token) +
                                                   ": the vocabulary has the ids 0 to " +
                                                   std::to_string(v.token_count() - 1));
             return to_bytes(v.bytes(static_cast<u32>(token)));
           })
      .def("spells",
           [](const Vocabulary& v, const std::vector<std::int64_t>& tokens, nb::bytes text) {
             std::string_view rest = view(text);
             for (std::int64_t token : tokens) {
               if (token < 0 || token >= v.token_count() || !v.is_text(static_cast<u32>(token))) return false;
               const std::string_view bytes = v.bytes(static_cast<u32>(token));
               if (!rest.starts_with(bytes)) return false;
               rest.remove_prefix(bytes.size());
             }
             return rest.empty();
           })
      .def("find", [](const Vocabulary& v, nb::bytes text) { return v.find(view(text)); })
      .def("tokens_with_prefix",
           [](const Vocabulary& v, nb::bytes prefix, std::size_t limit) { return v.with_prefix(view(prefix), limit); })
      .def("warm",
           [](Vocabulary& v, const std::vector<std::shared_ptr<CharSet>>& sets) {
             std::vector<CharSet::Ptr> held(sets.begin(), sets.end());
             nb::gil_scoped_release release;
             for (const auto& set : held) v.warm(set);
           })
      .def("memory_size_bytes", &Vocabulary::memory)
      .def("cache_size_bytes", &Vocabulary::cache_memory)
      .def("clear_cache", &Vocabulary::clear_cache, nb::call_guard<nb::gil_scoped_release>());
}

// A level of a pre-tokenizer; for each instruction: operation, atoms, where it continues, where otherwise.
using Instructions = std::vector<std::tuple<u32, u64, u32, u32>>;

void bind_spelling(nb::module_& m) {
  using U32 = nb::ndarray<const u32, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  nb::class_<Spelling>(m, "Spelling")
      .def(nb::new_([](std::shared_ptr<Vocabulary> vocabulary, U32 table, std::vector<std::int64_t> bytes,
                       const std::vector<std::tuple<Instructions, u32, bool>>& levels, nb::bytes atoms, bool whole,
                       const std::vector<nb::bytes>& separate, bool by_character,
                       std::vector<std::pair<u32, u32>> characters, std::vector<u32> added, bool closed, u64 broken) {
             Merges merges;
             merges.by_character = by_character;
             merges.characters = std::move(characters);
             merges.added = std::move(added);
             merges.closed = closed;
             for (std::size_t i = 0; i + 3 < table.size(); i += 4) {
               merges.left.push_back(table.data()[i]);
               merges.right.push_back(table.data()[i + 1]);
               merges.made.push_back(table.data()[i + 2]);
               merges.rank.push_back(table.data()[i + 3]);
             }
             merges.bytes = std::move(bytes);
             merges.whole = whole;
             for (const nb::bytes& text : separate) merges.separate.emplace_back(view(text));
             std::vector<Pretokens::Level> read;
             for (const auto& [program, start, gaps] : levels) {
               Pretokens::Level level{{}, start, gaps};
               for (const auto& [op, set, a, b] : program)
                 level.program.push_back({static_cast<Pretokens::Op>(op & 3), set, a, b});
               read.push_back(std::move(level));
             }
             Pretokens pretokens(std::move(read), std::string(view(atoms)), broken);
             nb::gil_scoped_release release;
             return std::make_shared<Spelling>(std::move(vocabulary), merges, std::move(pretokens));
           }),
           nb::arg("vocabulary"), nb::arg("merges"), nb::arg("bytes"), nb::arg("levels"), nb::arg("atoms"),
           nb::arg("whole"), nb::arg("separate"), nb::arg("by_character") = false,
           nb::arg("characters") = std::vector<std::pair<u32, u32>>(), nb::arg("added") = std::vector<u32>(),
           nb::arg("closed") = false, nb::arg("broken") = ~u64{0})
      .def_prop_ro("odd", [](const Spelling& s) { return s.odd(); })
      .def("is_canonical",
           [](Spelling& s, const std::vector<std::int64_t>& tokens) {
             Spelling::State state;
             for (std::int64_t token : tokens) {
               if (token < 0 || token >= s.vocabulary().token_count()) return false;
               const u32 own = s.inward(static_cast<u32>(token));
               if (own == Spelling::kNoToken) return false;
               state = s.next(state, own);
               if (state.dead()) return false;
             }
             return s.may_end(state);
           })
      .def("restrict",  // the tokens that may come after these: how far a text of them can be canonical
           [](Spelling& s, const std::vector<std::int64_t>& tokens) {
             Spelling::State state;
             for (std::int64_t token : tokens)
               if (const u32 own = s.inward(static_cast<u32>(token)); own != Spelling::kNoToken)
                 state = s.next(state, own);
               else
                 state = {Spelling::kDead, -1};
             std::vector<u32> words(s.vocabulary().words(), ~u32{0});
             s.restrict(state, words.data());
             s.outward(words.data());
             return words;
           })
      .def("memory_size_bytes", &Spelling::memory);
}

}  // namespace guiderail
