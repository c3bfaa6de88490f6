#pragma once

#include <string>

#include "cell.h"
#include "section.h"
#include "style.h"

namespace flashbench {

/// Arithmetic rate against arithmetic intensity, under what memory and the matrix unit reached
/// alone in the same run: read bandwidth (copy, where read is missing) times intensity, and the
/// matrix product's rate. A marker is one problem by one implementation, its algorithmic operations
/// over its time and over its HBM bytes, counted where they were; an implementation of several
/// steps has markers for each of them that multiplies, by what that step executes. Below, for the
/// longest problem of each, how near its steps come to what bounds them. Empty where the run has
/// not both roofs, and where no cell has rate and bytes.
std::string roofline(const Run& run, const Section& section, const Style& style);

}  // namespace flashbench
