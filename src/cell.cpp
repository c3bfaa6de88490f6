#include "cell.h"

namespace flashbench {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::unsupported: return "unsupported";
    case Status::out_of_memory: return "out_of_memory";
    case Status::wrong: return "wrong";
    case Status::failed: return "failed";
    case Status::not_run: return "not_run";
  }
  return "?";
}

std::string_view to_string(Load load) {
  return load == Load::burst ? "burst" : "sustained";
}

std::string_view to_string(CounterMode mode) {
  switch (mode) {
    case CounterMode::automatic: return "auto";
    case CounterMode::on: return "on";
    case CounterMode::off: return "off";
  }
  return "?";
}

}  // namespace flashbench
