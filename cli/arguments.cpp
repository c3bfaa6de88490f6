#include "arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "axis.h"
#include "error.h"

namespace flashbench {
namespace {

/// Insertions, deletions and substitutions that lead from `a` to `b` (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// "; did you mean 'x'?" where something known is near.
std::string suggestion(std::string_view token, const std::vector<std::string>& known) {
  constexpr std::size_t kFarthest = 2;
  std::string best;
  std::size_t least = kFarthest + 1;
  for (const std::string& candidate : known) {
    const std::size_t d = distance(token, candidate);
    if (d < least && d < candidate.size()) {
      least = d;
      best = candidate;
    }
  }
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// An option token cut into its name and, where it is attached, its value.
struct Token {
  std::string name;
  std::optional<std::string> value;
};

Token cut(const std::string& text) {
  if (text.starts_with("--")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return {text, std::nullopt};
    return {text.substr(0, equals), text.substr(equals + 1)};
  }
  if (text.size() == 2) return {text, std::nullopt};
  return {text.substr(0, 2), text.substr(text[2] == '=' ? 3 : 2)};
}

class Canonicaliser {
 public:
  Canonicaliser(const CLI::App& app, const std::vector<std::string>& arguments)
      : app_(app), scope_(&app), arguments_(arguments) {}

  std::vector<std::string> run() {
    while (next_ < arguments_.size()) {
      const std::string& text = arguments_[next_++];
      if (text.size() > 1 && text.front() == '-') {
        take_option(text);
      } else if (scope_ == &app_) {
        take_command(text);
      } else {
        throw UsageError(
            fmt::format("unexpected argument {}; {} takes options only, see '{} --help'",
                        in_quotes(text), scope_->get_name(), full_name()));
      }
    }
    return out_;
  }

 private:
  std::string full_name() const {
    return scope_ == &app_ ? app_.get_name() : app_.get_name() + " " + scope_->get_name();
  }

  void take_command(const std::string& text) {
    const std::vector<std::string> names = command_names(app_);
    if (std::find(names.begin(), names.end(), text) == names.end()) {
      throw UsageError(fmt::format("unknown command {}{} accepted: {}", in_quotes(text),
                                   suggestion(text, names).empty() ? ";" : suggestion(text, names),
                                   join(names)));
    }
    scope_ = app_.get_subcommand(text);
    out_.push_back(text);
  }

  void take_option(const std::string& text) {
    const Token token = cut(text);
    const CLI::Option* option = scope_->get_option_no_throw(token.name);
    if (option == nullptr) {
      throw UsageError(fmt::format("unknown option {}{}; see '{} --help'", in_quotes(token.name),
                                   suggestion(token.name, option_names(*scope_)), full_name()));
    }
    if (!seen_.insert(option).second) {
      throw UsageError(fmt::format("{} is given twice; give it once", token.name));
    }
    const std::string name = "--" + option->get_lnames().front();
    if (option->get_items_expected_max() == 0) {
      if (token.value)
        throw UsageError(
            fmt::format("{} takes no value, but has {}", name, in_quotes(*token.value)));
      out_.push_back(name);
      return;
    }
    const std::string value = token.value ? *token.value : following(name, *option);
    if (value.empty()) {
      throw UsageError(
          fmt::format("{} has an empty value; accepted: {}", name, option->get_description()));
    }
    out_.push_back(name + "=" + value);
  }

  /// The next argument, unless that is plainly another option.
  std::string following(const std::string& name, const CLI::Option& option) {
    const bool other = next_ < arguments_.size() && arguments_[next_].starts_with("-") &&
                       scope_->get_option_no_throw(cut_name(arguments_[next_])) != nullptr;
    if (next_ == arguments_.size() || other) {
      throw UsageError(
          fmt::format("{} has no value; accepted: {}", name, option.get_description()));
    }
    return arguments_[next_++];
  }

  static std::string cut_name(const std::string& text) {
    return text.size() > 1 ? cut(text).name : text;
  }

  const CLI::App& app_;
  const CLI::App* scope_;
  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  std::set<const CLI::Option*> seen_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             const std::vector<std::string>& arguments) {
  return Canonicaliser(app, arguments).run();
}

}  // namespace flashbench
