#include "run/apply.hpp"
#include "base/pages.hpp"
#include "bind/bindings.hpp"

namespace guiderail {
namespace {

// The total size of rows that makes it worth waking a thread.
constexpr std::size_t kWorthThreads = 4u << 20;

// A view of an array with one or two dimensions, valid as long as it lives.
class Array {
 public:
  Array(nb::handle array, bool writable, const char* what) {
    if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_STRIDES | (writable ? PyBUF_WRITABLE : 0)) != 0) {
      PyErr_Clear();
      throw Error("bitmask-array", std::string("the ") + what + " must be an array in memory");
    }
    if (buffer_.ndim != 1 && buffer_.ndim != 2) {
      PyBuffer_Release(&buffer_);
      throw Error("bitmask-shape", std::string("the ") + what + " must have one dimension or two");
    }
  }
  ~Array() { PyBuffer_Release(&buffer_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  char* data() const { return static_cast<char*>(buffer_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(buffer_.itemsize); }
  std::size_t rows() const { return buffer_.ndim == 1 ? 1 : static_cast<std::size_t>(buffer_.shape[0]); }
  std::size_t columns() const { return static_cast<std::size_t>(buffer_.shape[buffer_.ndim - 1]); }
  std::ptrdiff_t row_stride() const { return buffer_.ndim == 1 ? 0 : buffer_.strides[0]; }
  std::ptrdiff_t stride() const { return buffer_.strides[buffer_.ndim - 1]; }

 private:
  Py_buffer buffer_{};
};

void apply(nb::handle logits, nb::handle bitmask, const std::vector<std::size_t>& rows, std::size_t limit, u64 infinity,
           unsigned threads) {
  const Array numbers(logits, true, "logits"), words(bitmask, false, "bitmask");
  if ((numbers.size() != 2 && numbers.size() != 4 && numbers.size() != 8) || words.size() != 4)
    throw Error("bitmask-dtype", "logits are numbers of 2, 4 or 8 bytes, and a bitmask is int32");
  const std::size_t covered = std::min(limit, numbers.columns());
  if ((covered + 31) / 32 > words.columns())
    throw Error("bitmask-size", "the bitmask has fewer bits than it must cover");
  bool ascending = true;  // no duplicate rows: two threads must not write the same one
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= numbers.rows() || rows[i] >= words.rows())
      throw Error("bitmask-index", "row " + std::to_string(rows[i]) + " is out of range");
    ascending = ascending && (i == 0 || rows[i - 1] < rows[i]);
  }
  const Logits to{
      numbers.data(), numbers.row_stride(), numbers.stride(), numbers.columns(), static_cast<unsigned>(numbers.size()),
      infinity};
  const Masks masks{words.data(), words.row_stride(), words.stride()};
  nb::gil_scoped_release release;
  if (!ascending || (threads == 0 && rows.size() * to.columns * to.size < kWorthThreads)) threads = 1;
  parallel(rows.size(), threads, [&](std::size_t i) { apply_row(to, masks, rows[i], covered); });
}

}  // namespace

void bind_apply(nb::module_& m) {
  m.def("apply_bitmask", &apply, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("threads") = 0);
  // What is discarded is no longer in use.
  using Released = nb::call_guard<nb::gil_scoped_release>;
  m.def("pages_in_use", [] { return free_discarded(), pages_in_use(); }, Released());
  m.def("heap_in_use", [] { return free_discarded(), heap_in_use(); }, Released());
  m.def("character_sets_bytes", &CharSet::all_bytes);
  m.def(
      "trim_heap",
      [] {
        free_discarded();
        CharSet::forget_dead();
        trim_heap();
      },
      Released());
}

}  // namespace guiderail
