#include "implementation.h"

namespace flashbench {

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::naive: return "naive";
    case Kind::fused: return "fused";
    case Kind::library: return "library";
    case Kind::approximate: return "approximate";
  }
  return "?";
}

}  // namespace flashbench
