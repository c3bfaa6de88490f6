#include "reference/openblas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "error.h"

namespace flashbench {
namespace {

/// The kernels for the instruction sets that this processor and system offer, or null: OpenBLAS'
/// own choice.
const char* kernels_for_this_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

/// An environment variable set for the lifetime of this object, if it was not set before and
/// `value` is not null.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value)
      : name_(name), set_(value != nullptr && getenv(name) == nullptr) {
    if (set_) setenv(name_, value, 0);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (set_) unsetenv(name_);
  }

 private:
  const char* name_;
  bool set_;
};

template <typename Function>
Function find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw Error(fmt::format("libopenblas.so.0 has no {}", name));
  return reinterpret_cast<Function>(symbol);
}

/// Index of an element in a matrix of `columns` columns.
std::size_t at(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
         static_cast<std::size_t>(column);
}

/// Largest |error| of C = A B^T (`transposed`) or A B, in units of the rounding error that k
/// products may show.
double error_of_product(decltype(&cblas_sgemm) sgemm, bool transposed, int m, int n, int k) {
  std::vector<float> a(static_cast<std::size_t>(m) * static_cast<std::size_t>(k));
  std::vector<float> b(static_cast<std::size_t>(n) * static_cast<std::size_t>(k));
  std::vector<float> c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n), NAN);
  unsigned state = 1;
  const auto fill = [&](std::vector<float>& values) {
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;  // Numerical Recipes' quick generator
      value = static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F;
    }
  };
  fill(a);
  fill(b);
  const int ldb = transposed ? k : n;
  sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, m, n, k, 1.0F,
        a.data(), k, b.data(), ldb, 0.0F, c.data(), n);
  double worst = 0.0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double exact = 0.0;
      double magnitude = 0.0;
      for (int l = 0; l < k; ++l) {
        const double product = static_cast<double>(a[at(i, k, l)]) *
                               static_cast<double>(b[transposed ? at(j, k, l) : at(l, n, j)]);
        exact += product;
        magnitude += std::abs(product);
      }
      const double bound =
          k * 0x1p-24 * magnitude;  // gamma_k of Higham, Accuracy and Stability, section 3.1
      const double error = std::abs(c[at(i, n, j)] - exact) / bound;
      if (!(error <= worst)) worst = error;  // a NaN sticks
    }
  }
  return worst;
}

OpenBlas load() {
  const ScopedVariable kernels("OPENBLAS_CORETYPE", kernels_for_this_processor());
  const ScopedVariable threads("OPENBLAS_NUM_THREADS",
                               "1");  // or it starts a pool that nobody uses
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(fmt::format("OpenBLAS cannot be loaded: {}", dlerror()));
  OpenBlas blas;
  blas.sgemm = find<decltype(&cblas_sgemm)>(library, "cblas_sgemm");
  find<decltype(&openblas_set_num_threads)>(library, "openblas_set_num_threads")(1);
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  std::istringstream config(find<decltype(&openblas_get_config)>(library, "openblas_get_config")());
  std::string name;
  std::string version;
  config >> name >> version;
  blas.description =
      fmt::format("{} {} {}", name, version,
                  find<decltype(&openblas_get_corename)>(library, "openblas_get_corename")());
  for (const bool transposed : {true, false}) {
    for (const auto& [m, n, k] :
         {std::array{1, 33, 80}, {65, 97, 64}, {130, 200, 256}, {7, 64, 1000}}) {
      const double error = error_of_product(blas.sgemm, transposed, m, n, k);
      if (!(error <= 1.0)) {
        throw Error(fmt::format(
            "{} multiplies wrongly on this processor ({}x{}x{}, {:.3g} times the rounding error): "
            "set OPENBLAS_CORETYPE, for example to Haswell",
            blas.description, m, n, k, error));
      }
    }
  }
  return blas;
}

}  // namespace

const OpenBlas& openblas() {
  static const OpenBlas blas = load();
  return blas;
}

std::optional<std::string> openblas_refusal() {
  try {
    openblas();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace flashbench
