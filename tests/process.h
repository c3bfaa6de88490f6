#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Programs as children, and files, for tests of the command line.

namespace flashbench {

inline std::string read_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// A directory of its own, removed with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "flashbench.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// What a program wrote and how it ended.
struct Outcome {
  int code = -1;  ///< exit code, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

/// A program started with nothing on stdin and its output in files.
class Child {
 public:
  /// `environment`: "NAME=value", over this process' own. Throws std::runtime_error where `argv`
  /// cannot be started. `out`: a file for stdout in the place of its own.
  explicit Child(std::vector<std::string> argv, const std::vector<std::string>& environment = {},
                 const std::string& out = "")
      : out_(out.empty() ? directory_.file("out") : out) {
    std::map<std::string, std::string> variables;
    const auto set = [&](const std::string& text) {
      const std::size_t equals = text.find('=');
      if (equals != std::string::npos) variables[text.substr(0, equals)] = text;
    };
    for (char** entry = environ; *entry != nullptr; ++entry) set(*entry);
    for (const std::string& entry : environment) set(entry);
    std::vector<char*> variable_pointers;
    for (auto& [name, text] : variables) variable_pointers.push_back(text.data());
    variable_pointers.push_back(nullptr);
    std::vector<char*> arguments;
    for (std::string& argument : argv) arguments.push_back(argument.data());
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int write = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), write, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, directory_.file("err").c_str(), write, 0600);
    const int error = ::posix_spawnp(&pid_, arguments.front(), &actions, nullptr, arguments.data(),
                                     variable_pointers.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error(argv.front() + ": " + std::strerror(error));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }

  Outcome wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (std::filesystem::is_regular_file(out_)) outcome.out = read_file(out_);
    outcome.err = read_file(directory_.file("err"));
    return outcome;
  }

 private:
  TemporaryDirectory directory_;
  std::string out_;
  pid_t pid_ = -1;
};

inline Outcome run_program(std::vector<std::string> argv,
                           const std::vector<std::string>& environment = {},
                           const std::string& out = "") {
  return Child(std::move(argv), environment, out).wait();
}

}  // namespace flashbench
