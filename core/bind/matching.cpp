#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <mutex>

#include "bind/bindings.hpp"

namespace guiderail {
namespace {

// A NumPy array by its ABI since NumPy 1.7 (pybind11 does the same): the buffer protocol takes longer than all the rest
// of a known mask, because it formats the type as text and compares it.
struct NumpyArray {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t *shape, *strides;
  PyObject *base, *type;
  int flags;
};
struct NumpyType {
  PyObject_HEAD PyTypeObject* of_scalars;
  char kind, letter, byte_order, features;
  int number;
};
constexpr int kAligned = 0x0100, kWriteable = 0x0400, kInt = 5;  // of NumPy

// numpy.ndarray; null: not imported yet.
PyTypeObject* numpy_arrays() {
  static std::atomic<PyTypeObject*> known{nullptr};  // held for as long as the process lives
  if (PyTypeObject* type = known.load(std::memory_order_acquire)) return type;
  const nb::object module = nb::module_::import_("sys").attr("modules").attr("get")("numpy");
  nb::object type = nb::getattr(module, "ndarray", nb::none());
  PyTypeObject* nothing = nullptr;
  if (PyType_Check(type.ptr()) && known.compare_exchange_strong(nothing, reinterpret_cast<PyTypeObject*>(type.ptr())))
    type.release();
  return known.load(std::memory_order_acquire);
}

constexpr const char* kAllocate = "; allocate it with allocate_token_bitmask(batch, vocabulary.size)";

[[noreturn]] void not_int32(nb::handle array) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  const std::string holds = dtype.is_none() ? "other values than" : std::string(nb::str(dtype).c_str()) + ", not";
  throw Error("bitmask-dtype", "the bitmask holds " + holds + " int32" + kAllocate);
}

// A writable int32 array of shape (words,) or (batch, words). NumPy arrays are read directly, or through the buffer
// protocol, which costs a fraction of DLPack's handshake. Everything else (torch) goes through DLPack.
class Rows {
 public:
  explicit Rows(nb::handle array) {
    if (Py_TYPE(array.ptr()) == numpy_arrays() && numpy(array)) return;
    if (PyObject_CheckBuffer(array.ptr())) {
      if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_WRITABLE | PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        PyErr_Clear();
        throw Error("bitmask-array", std::string("the bitmask cannot be written to") + kAllocate);
      }
      held_ = true;
      std::string_view format = buffer_.format ? buffer_.format : "B";
      if (buffer_.itemsize != 4 || (format != "i" && format != "l" && format != "=i" && format != "<i")) {
        release();
        not_int32(array);
      }
      shape(buffer_.ndim, buffer_.shape, [&](int i) { return buffer_.strides[i]; }, buffer_.buf);
    } else {
      nb::ndarray<> other;
      if (!nb::try_cast(array, other))
        throw Error("bitmask-array", "the bitmask must be a NumPy array or a tensor in CPU memory, not " +
                                         std::string(nb::str(array.type().attr("__name__")).c_str()) + kAllocate);
      if (other.dtype() != nb::dtype<std::int32_t>()) not_int32(array);
      if (other.device_type() != nb::device::cpu::value)
        throw Error("bitmask-device", "the bitmask must be in CPU memory; fill it there, then copy it to the device");
      std::vector<Py_ssize_t> sizes;
      for (std::size_t i = 0; i < other.ndim(); ++i) sizes.push_back(static_cast<Py_ssize_t>(other.shape(i)));
      shape(
          static_cast<int>(other.ndim()), sizes.data(),
          [&](int i) { return static_cast<Py_ssize_t>(other.stride(static_cast<std::size_t>(i)) * 4); }, other.data());
      tensor_ = std::move(other);
    }
  }
  ~Rows() { release(); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  Py_ssize_t count() const { return rows_; }
  u32* row(std::int64_t index, std::size_t words) const {
    if (index < 0 || index >= rows_)
      throw Error("bitmask-row", "the bitmask has no row " + std::to_string(index) + ": it has " +
                                     std::to_string(rows_) + ", counted from 0; allocate one row for each text");
    if (width_ < words)
      throw Error("bitmask-shape", "the bitmask has " + std::to_string(width_) +
                                       " words per row, but the vocabulary needs " + std::to_string(words) + kAllocate);
    return reinterpret_cast<u32*>(static_cast<char*>(data_) + index * stride_);
  }
  void pad(u32* row, std::size_t words) const {  // logits beyond the vocabulary are never allowed
    if (width_ > words) std::memset(row + words, 0, (width_ - words) * 4);
  }

 private:
  // False: the array is not a plain one; the caller reports what is wrong with it.
  bool numpy(nb::handle array) {
    const auto& as = *reinterpret_cast<const NumpyArray*>(array.ptr());
    const auto& type = *reinterpret_cast<const NumpyType*>(as.type);
    constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
    if (type.number != kInt || sizeof(int) != 4 || (type.byte_order != '=' && type.byte_order != kNative)) return false;
    if ((as.flags & (kAligned | kWriteable)) != (kAligned | kWriteable) || as.dimensions < 1 || as.dimensions > 2)
      return false;
    if (as.shape[as.dimensions - 1] > 1 && as.strides[as.dimensions - 1] != 4) return false;
    kept_ = nb::borrow(array);  // like a buffer: it prevents resizing meanwhile
    shape(as.dimensions, as.shape, [&](int i) { return as.strides[i]; }, as.data);
    return true;
  }
  void release() {
    if (held_) PyBuffer_Release(&buffer_);
    held_ = false;
  }
  template <typename Stride>
  void shape(int ndim, const Py_ssize_t* sizes, Stride stride, void* data) {
    bool bad = ndim < 1 || ndim > 2 || (sizes[ndim - 1] > 1 && stride(ndim - 1) != 4);
    bad = bad || (ndim == 2 && sizes[0] > 1 && std::abs(stride(0)) < 4 * sizes[1]);  // threads fill rows side by side
    if (bad) {
      release();
      throw Error("bitmask-shape",
                  std::string("the bitmask must have shape (words,) or (batch, words), with contiguous "
                              "rows that do not overlap") +
                      kAllocate);
    }
    data_ = data;
    width_ = static_cast<std::size_t>(sizes[ndim - 1]);
    rows_ = ndim == 2 ? sizes[0] : 1;
    stride_ = ndim == 2 ? stride(0) : 0;
  }
  Py_buffer buffer_{};
  bool held_ = false;
  nb::object kept_;
  nb::ndarray<> tensor_;
  void* data_ = nullptr;
  std::size_t width_ = 0;
  Py_ssize_t rows_ = 0, stride_ = 0;
};

bool fill(Matcher& m, nb::handle bitmask, std::int64_t row, std::optional<std::int64_t> budget) {
  Rows rows(bitmask);
  const std::size_t words = m.guide().vocabulary().words();
  u32* out = rows.row(row, words);
  const Matcher::Reading reading(m);
  bool restricts;
  if (!budget && m.ready()) {
    restricts = m.fill(out);
  } else {
    nb::gil_scoped_release release;
    restricts = budget ? m.fill(out, *budget) : m.fill(out);
  }
  rows.pad(out, words);
  return restricts;
}

// The rows that matchers write, validated.
std::vector<u32*> rows_of(const std::vector<Matcher*>& matchers, const Rows& rows,
                          const std::optional<std::vector<std::int64_t>>& rows_at) {
  if (rows_at && rows_at->size() != matchers.size())
    throw Error("bitmask-row", "rows must name one row for each matcher");
  std::vector<u32*> out(matchers.size());
  for (std::size_t i = 0; i < matchers.size(); ++i) {
    if (!matchers[i])
      throw Error("matcher-none",
                  "matcher " + std::to_string(i) + " is None; leave it out, and pass the rows of the others as rows=…");
    const std::size_t words = matchers[i]->guide().vocabulary().words();
    out[i] = rows.row(rows_at ? (*rows_at)[i] : static_cast<std::int64_t>(i), words);
    const Matcher::Reading reading(*matchers[i]);
    if (matchers[i]->terminated())
      throw Error("matcher-terminated", "matcher " + std::to_string(i) +
                                            " has terminated; leave it out, and pass the rows of the others as rows=…");
  }
  return out;
}

unsigned threads_of(const std::optional<std::int64_t>& asked) {  // 0: one per core
  if (!asked) return 0;
  if (*asked < 1)
    throw Error("matcher-threads",
                "threads must be 1 or more, or None for one per core, not " + std::to_string(*asked));
  return static_cast<unsigned>(std::min<std::int64_t>(*asked, 1 << 16));  // the pool has fewer
}

// Masks that native threads fill while Python continues.
class Filling {
 public:
  Filling(const Held<Matcher>& matchers, nb::handle bitmask, const std::optional<std::vector<std::int64_t>>& rows_at,
          const std::optional<std::int64_t>& threads)
      : kept_(matchers.tuple),
        rows_(bitmask),
        matchers_(matchers.objects),
        out_(rows_of(matchers_, rows_, rows_at)),
        seconds_(matchers_.size(), 0.0),
        readings_(matchers_.size()) {
    const unsigned most = threads_of(threads);
    bool all_ready = true;
    for (std::size_t i = 0; i < matchers_.size(); ++i) {
      readings_[i].emplace(*matchers_[i]);
      all_ready = all_ready && matchers_[i]->ready();
    }
    if (all_ready && matchers_.size() < kFewCopies) {
      for (std::size_t i = 0; i < matchers_.size(); ++i) fill(i);
    } else {
      work_.emplace(matchers_.size(), most, [this](std::size_t i) { fill(i); });
    }
  }
  void wait() {
    if (!work_) return;
    nb::gil_scoped_release release;
    const std::lock_guard lock(waiting_);
    work_->wait();
  }
  bool done() const { return !work_ || work_->done(); }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  void fill(std::size_t i) {
    struct End {
      ~End() { reading.reset(); }
      std::optional<Matcher::Reading>& reading;
    } end{readings_[i]};
    const auto began = std::chrono::steady_clock::now();
    matchers_[i]->fill(out_[i]);
    rows_.pad(out_[i], matchers_[i]->guide().vocabulary().words());
    seconds_[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  nb::object kept_;
  Rows rows_;
  std::vector<Matcher*> matchers_;
  std::vector<u32*> out_;
  std::vector<double> seconds_;  // each written by the thread that fills the row
  std::vector<std::optional<Matcher::Reading>> readings_;
  std::mutex waiting_;              // of the thread that waits, and does what no other has begun
  std::optional<Background> work_;  // destroyed first: it uses the others
};

void fill_many(const Held<Matcher>& held, nb::handle bitmask, std::optional<std::vector<std::int64_t>> rows_at,
               std::optional<std::int64_t> asked) {
  const std::vector<Matcher*>& matchers = held.objects;
  unsigned threads = threads_of(asked);
  Rows rows(bitmask);
  const std::vector<u32*> out = rows_of(matchers, rows, rows_at);
  bool all_ready = true;
  std::deque<Matcher::Reading> readings;
  for (Matcher* m : matchers) {
    readings.emplace_back(*m);
    all_ready = all_ready && m->ready();
  }
  nb::gil_scoped_release release;
  if (all_ready && matchers.size() < kFewCopies) threads = 1;
  parallel(matchers.size(), threads, [&](std::size_t i) {
    matchers[i]->fill(out[i]);
    rows.pad(out[i], matchers[i]->guide().vocabulary().words());
  });
}

// Row first_row of the bitmask is for now, row first_row + 1 + i for after token i of the draft.
std::vector<bool> fill_draft(const Matcher& m, const std::vector<std::int64_t>& draft, nb::handle bitmask,
                             std::optional<std::vector<std::int64_t>> parents, std::int64_t first_row) {
  if (!parents) {
    parents.emplace(draft.size());
    for (std::size_t i = 0; i < draft.size(); ++i) (*parents)[i] = static_cast<std::int64_t>(i) - 1;
  }
  if (parents->size() != draft.size())
    throw Error("matcher-draft", "the draft has " + std::to_string(draft.size()) + " tokens but " +
                                     std::to_string(parents->size()) + " parents; give one parent per token");
  Rows rows(bitmask);
  const std::size_t words = m.guide().vocabulary().words();
  std::vector<u32*> out(draft.size() + 1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = rows.row(first_row + static_cast<std::int64_t>(i), words);
  const Matcher::Reading reading(m);
  nb::gil_scoped_release release;
  std::vector<bool> accepted = m.fill_draft(draft, *parents, out);
  for (u32* row : out) rows.pad(row, words);
  return accepted;
}

// Wraps a function of Python's that only reads a matcher.
template <auto Of>
auto reads(const Matcher& m) {
  const Matcher::Reading reading(m);
  return (m.*Of)();
}

void check_state(Program& program, Id state, Id least) {
  if (state < least || index_of(state) >= program.arena().node_count()) throw Error("bad-handle", "no such state");
}

template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy(std::vector<T>&& values) {
  auto made = std::make_unique<std::vector<T>>(std::move(values));
  nb::capsule owner(made.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  auto* held = made.release();
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), {held->size()}, owner);
}

}  // namespace

void bind_matching(nb::module_& m) {
  // How many microseconds others wait before long work makes room for them; for tests.
  m.def("set_lock_slice", [](u32 slice) { YieldingMutex::set_slice(std::chrono::microseconds(slice)); });
  nb::class_<Guide>(m, "Guide")
      .def(nb::new_([](std::shared_ptr<Program> program, std::shared_ptr<Vocabulary> vocabulary,
                       const std::unordered_map<std::string, u32>& symbols, std::size_t max_memory) {
             nb::gil_scoped_release release;
             return std::make_shared<Guide>(std::move(program), std::move(vocabulary), symbols, max_memory);
           }),
           nb::arg(), nb::arg(), nb::arg(), nb::arg("max_memory") = 0)
      .def_prop_ro("root", &Guide::root)
      .def_prop_ro("program", &Guide::program)
      .def("fill_state",
           [](const Guide& g, Id state, nb::handle bitmask, std::int64_t row) {
             const std::shared_ptr<Program> program = g.program();
             check_state(*program, state, kEpsilon);
             Rows rows(bitmask);
             u32* out = rows.row(row, g.vocabulary().words());
             rows.pad(out, g.vocabulary().words());
             nb::gil_scoped_release release;
             return g.fill(*program, state, g.vocabulary().stops(), out);
           })
      .def("accept_state",
           [](const Guide& g, Id state, std::int64_t token) {
             const std::shared_ptr<Program> program = g.program();
             check_state(*program, state, kEpsilon);
             if (token < 0 || token >= g.vocabulary().size())
               throw Error("matcher-token", "token id " + std::to_string(token) + " is out of range");
             GilRelease gil;
             return g.advance(*program, state, static_cast<u32>(token));
           })
      .def("is_accepting_state",
           [](const Guide& g, Id state) {
             const std::shared_ptr<Program> program = g.program();
             check_state(*program, state, kEmpty);
             return program->accepting(state);
           })
      .def("token_automaton",
           [](const Guide& g, std::size_t max_states) {
             TokenTable t;
             {
               nb::gil_scoped_release release;
               t = g.token_table(max_states);
             }
             return nb::make_tuple(to_numpy(std::move(t.indptr)), to_numpy(std::move(t.token)),
                                   to_numpy(std::move(t.next)), to_numpy(std::move(t.accepting)));
           })
      .def("require", &Guide::require, nb::call_guard<nb::gil_scoped_release>())
      .def("prepare", &Guide::prepare, nb::call_guard<nb::gil_scoped_release>())
      .def("memory_size_bytes", [](const Guide& g) {
        GilRelease gil;  // the guide may be busy
        return g.memory();
      });

  nb::class_<Matcher>(m, "Matcher")
      .def(
          "__init__",
          [](Matcher* self, const std::shared_ptr<Guide>& g, const std::optional<std::vector<std::int64_t>>& stops) {
            std::vector<u32> ids = stops ? std::vector<u32>{} : g->vocabulary().stops();
            if (stops)
              for (std::int64_t s : *stops) {
                if (s < 0 || s >= g->vocabulary().size())
                  throw Error("matcher-token", "there is no stop token " + std::to_string(s) +
                                                   ": the vocabulary has the ids 0 to " +
                                                   std::to_string(g->vocabulary().size() - 1));
                ids.push_back(static_cast<u32>(s));
              }
            std::optional<nb::gil_scoped_release> release;
            if (g->outgrown()) release.emplace();  // a fresh program takes a while
            new (self) Matcher(g, std::move(ids));
          },
          nb::arg("guide"), nb::arg("stop_token_ids") = nb::none())
      .def("__init__",
           [](Matcher* self, const Matcher& other) {
             const Matcher::Reading reading(other);
             new (self) Matcher(other);
           })
      .def_prop_ro("state", &reads<&Matcher::state>)
      .def_prop_ro("program", &reads<&Matcher::program>)
      .def("accept_token",
           [](Matcher& m, std::int64_t token) {
             const Matcher::Changing changing(m);
             GilRelease gil;
             return m.accept_token(token);
           })
      .def("accept_within",
           [](Matcher& m, std::int64_t token, std::int64_t budget) {
             const Matcher::Changing changing(m);
             GilRelease gil;
             return m.accept_within(token, budget);
           })
      .def("validate",
           [](const Matcher& m, const std::vector<std::int64_t>& draft) {
             const Matcher::Reading reading(m);
             GilRelease gil;
             return m.validate(draft);
           })
      .def("fill_draft", &fill_draft, nb::arg("draft"), nb::arg("bitmask"), nb::arg("parents") = nb::none(),
           nb::arg("first_row") = 0)
      .def("accept_string",
           [](Matcher& m, nb::bytes data) {
             const Matcher::Changing changing(m);
             GilRelease gil;
             return m.accept_string(view(data));
           })
      .def("fill_next_token_bitmask", &fill, nb::arg("bitmask"), nb::arg("row") = 0, nb::arg("budget") = nb::none())
      .def(
          "least_tokens",
          [](const Matcher& m, bool thorough) -> std::optional<u32> {
            const Matcher::Reading reading(m);
            GilRelease gil;
            const u32 needed = m.needed(thorough);
            return needed == kInf ? std::nullopt : std::optional(needed);
          },
          nb::arg("thorough") = true)
      .def("rollback",
           [](Matcher& m, std::int64_t count) {
             const Matcher::Changing changing(m);
             m.rollback(count);
           })
      .def("reset",
           [](Matcher& m) {
             const Matcher::Changing changing(m);
             const Program* current = m.guide().program().get();
             std::optional<nb::gil_scoped_release> release;  // as for a new one; may free the old program
             if (current != m.program().get() || m.program()->outgrown()) release.emplace();
             m.reset();
           })
      .def("forced_bytes",
           [](const Matcher& m, std::size_t limit) {
             std::string forced;
             {
               const Matcher::Reading reading(m);
               GilRelease gil;
               forced = m.forced(limit);
             }
             return to_bytes(forced);
           })
      .def("is_accepting", &reads<&Matcher::accepting>)
      .def("is_complete",
           [](const Matcher& m) {
             const Matcher::Reading reading(m);
             GilRelease gil;
             return m.complete();
           })
      .def("is_terminated", &reads<&Matcher::terminated>)
      .def("stop_token_ids", &Matcher::stops)
      .def_prop_ro("step_count", &reads<&Matcher::step_count>)
      .def(
          "history",
          [](const Matcher& m, std::optional<std::int64_t> last) {
            if (last && *last < 0)
              throw Error("matcher-history",
                          "history takes a number of steps, 0 or more, not " + std::to_string(*last));
            const Matcher::Reading reading(m);
            return m.history(last ? static_cast<std::size_t>(*last) : m.step_count());
          },
          nb::arg("last") = nb::none());

  nb::class_<Filling>(m, "Filling")
      .def(nb::init<const Held<Matcher>&, nb::handle, const std::optional<std::vector<std::int64_t>>&,
                    const std::optional<std::int64_t>&>(),
           nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none(), nb::arg("threads") = nb::none())
      .def("wait", &Filling::wait)
      .def("seconds", [](const Filling& f) { return f.done() ? f.seconds() : std::vector<double>(); })
      .def("done", &Filling::done);

  m.def("fill_next_token_bitmasks", &fill_many, nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none(),
        nb::arg("threads") = nb::none());
}

}  // namespace guiderail
