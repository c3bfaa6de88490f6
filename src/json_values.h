#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace flashbench {

/// Members keep the order in which they are set.
using Json = nlohmann::ordered_json;

/// Sets a number; one that is not finite becomes null, with what it was under the same name with
/// "_reason" appended.
inline void put(Json& object, const std::string& name, double value) {
  if (std::isfinite(value)) {
    object[name] = value;
    return;
  }
  object[name] = nullptr;
  object[name + "_reason"] =
      std::isnan(value) ? "NaN" : (value > 0 ? "infinite" : "minus infinite");
}

/// The same; null where there is none.
inline void put(Json& object, const std::string& name, const std::optional<double>& value) {
  if (value) {
    put(object, name, *value);
  } else {
    object[name] = nullptr;
  }
}

/// A count kept in a double: an integer wherever it is one.
inline void put_count(Json& object, const std::string& name, double value) {
  constexpr double kBeyondInt64 = 9223372036854775808.0;
  if (value == std::floor(value) && std::abs(value) < kBeyondInt64) {
    object[name] = static_cast<std::int64_t>(value);
  } else {
    put(object, name, value);
  }
}

inline void put_count(Json& object, const std::string& name, const std::optional<double>& value) {
  if (value) {
    put_count(object, name, *value);
  } else {
    object[name] = nullptr;
  }
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// For what is 0 or empty where it is not known.
template <typename T>
Json or_null_if_empty(const T& value) {
  return value == T{} ? Json(nullptr) : Json(value);
}

}  // namespace flashbench
