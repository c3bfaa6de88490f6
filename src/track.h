#pragma once

#include <string>
#include <vector>

#include "cell.h"
#include "section.h"

namespace flashbench {

/// The cells of one implementation in a section, in the run's order.
struct Track {
  std::string name;
  Kind kind = Kind::naive;
  std::vector<const Cell*> cells;
};

/// What is drawn of a section: the naive and the fused implementations, which the tool compares;
/// all, where there are none of these. Points into the run.
std::vector<Track> tracks_of(const Run& run, const Section& section);

}  // namespace flashbench
