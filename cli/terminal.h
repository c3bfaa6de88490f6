#pragma once

#include <cstdio>

#include "style.h"

namespace flashbench {

bool is_terminal(std::FILE* stream);

/// Colour and braille on a terminal that can show them: not for NO_COLOR (https://no-color.org) and
/// not where TERM is dumb or unset.
Style style_of(std::FILE* stream);

/// Writes out standard output; throws Error with errno's text where that is not possible, so that
/// results lost to a full disk do not look like a success.
void flush_output();

}  // namespace flashbench
