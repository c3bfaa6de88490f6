#include "atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "error.h"

namespace flashbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

/// An open descriptor. close() reports; the destructor, on the way out of a failure, does not.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

/// False with errno set.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// False with errno set. File systems that cannot sync a file or directory say EINVAL.
bool sync(int descriptor) {
  return ::fsync(descriptor) == 0 || errno == EINVAL;
}

/// `path` with its own symbolic links followed, so that a rename replaces the file and not the
/// link. A dangling link gives the name that it points to.
std::string follow_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path current = path;
  for (int hop = 0; hop < kMostLinks; ++hop) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(current, error))) return current.string();
    const fs::path next = fs::read_symlink(current, error);
    if (error) fail(path, error.value());
    current = next.is_absolute() ? next : current.parent_path() / next;
  }
  fail(path, ELOOP);
}

std::string directory_of(const std::string& target) {
  const std::string parent = fs::path(target).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// 1 or 2 where `file` is what standard output or standard error writes to, else -1. /dev/null is
/// nobody's output: it may well be both.
int standard_stream(const struct stat& file) {
  if (S_ISCHR(file.st_mode) && file.st_rdev == makedev(1, 3)) return -1;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream{};
    if (::fstat(descriptor, &stream) == 0 && stream.st_dev == file.st_dev &&
        stream.st_ino == file.st_ino) {
      return descriptor;
    }
  }
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    in_place_ = true;
    descriptor_ = STDOUT_FILENO;
    return;
  }
  struct stat existing{};
  if (::stat(path_.c_str(), &existing) == 0) {
    if (S_ISDIR(existing.st_mode)) fail(path_, EISDIR);
    // A pipe that the shell redirected to is reached by the descriptor; opening it anew may not
    // work.
    descriptor_ = standard_stream(existing);
    in_place_ = descriptor_ >= 0 || !S_ISREG(existing.st_mode);
    if (descriptor_ < 0 && ::access(path_.c_str(), W_OK) != 0) fail(path_, errno);
    target_ = in_place_ ? path_ : follow_links(path_);
  } else {
    if (errno != ENOENT) fail(path_, errno);
    target_ = follow_links(path_);
  }
  if (in_place_) return;
  const std::string directory = directory_of(target_);
  if (target_.empty() || target_.back() == '/') fail(path_, target_.empty() ? ENOENT : EISDIR);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail(path_, errno);
}

void AtomicFile::write(std::string_view text) {
  if (!in_place_) replace(text);
}

void AtomicFile::finish(std::string_view text) {
  if (in_place_) {
    write_in_place(text);
  } else {
    replace(text);
  }
}

void AtomicFile::replace(std::string_view text) const {
  const std::string directory = directory_of(target_);
  const std::string temporary =
      fmt::format("{}/.{}.{}.tmp", directory, fs::path(target_).filename().string(), ::getpid());
  const auto give_up = [&](int error) {
    ::unlink(temporary.c_str());
    fail(path_, error);
  };

  ::unlink(temporary.c_str());  // left by a killed process that had this id
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) fail(path_, errno);
  struct stat existing{};
  if (::stat(target_.c_str(), &existing) == 0) {
    // The owner first, as changing it clears mode bits. Only root may give a file away: no failure.
    [[maybe_unused]] const int owner = ::fchown(file.get(), existing.st_uid, existing.st_gid);
    if (::fchmod(file.get(), existing.st_mode & 07777U) != 0) give_up(errno);
  }
  if (!write_all(file.get(), text) || !sync(file.get()) || !file.close()) give_up(errno);
  if (::rename(temporary.c_str(), target_.c_str()) != 0) give_up(errno);

  // The rename itself must survive a power failure.
  Descriptor parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || !sync(parent.get())) fail(path_, errno);
}

void AtomicFile::write_in_place(std::string_view text) const {
  if (descriptor_ >= 0) {
    if (!write_all(descriptor_, text)) fail(path_, errno);
    return;
  }
  Descriptor file(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || !write_all(file.get(), text) || !file.close()) fail(path_, errno);
}

}  // namespace flashbench
