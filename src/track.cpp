#include "track.h"

#include <algorithm>

namespace flashbench {

std::vector<Track> tracks_of(const Run& run, const Section& section) {
  std::vector<Track> tracks;
  for (const Cell& cell : run.cells) {
    if (std::find(section.problems.begin(), section.problems.end(), cell.problem) ==
        section.problems.end()) {
      continue;
    }
    auto track = std::find_if(tracks.begin(), tracks.end(), [&](const Track& other) {
      return other.name == cell.implementation;
    });
    if (track == tracks.end()) {
      tracks.push_back({cell.implementation, cell.kind, {}});
      track = tracks.end() - 1;
    }
    track->cells.push_back(&cell);
  }
  const auto compared = [](const Track& track) {
    return track.kind == Kind::naive || track.kind == Kind::fused;
  };
  if (std::any_of(tracks.begin(), tracks.end(), compared)) {
    std::erase_if(tracks, [&](const Track& track) { return !compared(track); });
  }
  return tracks;
}

}  // namespace flashbench
