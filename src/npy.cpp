#include "npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "error.h"
#include "problem.h"

namespace flashbench {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostAxes = 8;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", name, why));
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the Python literal of the header: a dict of 'descr', 'fortran_order' and 'shape'.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header header;
    bool descr = false;
    bool order = false;
    bool shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        header.descr = description();
        descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        shape = true;
      } else {
        refuse(name_, fmt::format("its header has an unknown key '{}'", key));
      }
      take(',');
    }
    if (!descr || !order || !shape) {
      refuse(name_, "its header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(name_, fmt::format("its header is malformed: no '{}' at byte {}", c, at_));
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      refuse(name_, fmt::format("its header is malformed: no string at byte {}", at_));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos)
      refuse(name_, "its header is malformed: a string does not end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  std::string description() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') refuse(name_, "holds records, not numbers");
    return string();
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    }
    refuse(name_, "its header is malformed: fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t size = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) refuse(name_, "its header is malformed: bad shape");
      at_ = static_cast<std::size_t>(end - text_.data());
      take('L');  // Python 2 wrote it
      sizes.push_back(size);
      if (sizes.size() > kMostAxes) refuse(name_, "has too many axes");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

Dtype dtype_of(const std::string& descr, const std::string& name) {
  if (descr == "<f4") return Dtype::f32;
  if (descr == "<f2") return Dtype::f16;
  // ml_dtypes registers bfloat16 as a two-byte void type; its bits also travel as uint16.
  for (const std::string_view bits : {"bfloat16", "<V2", "|V2", "<u2"}) {
    if (descr == bits) return Dtype::bf16;
  }
  if (descr.find("float8") != std::string::npos || descr == "|V1" || descr == "<V1" ||
      descr == "<f1") {
    refuse(name, fmt::format(
                     "holds float8 ('{}'): attention in float8 needs scales that the file does not "
                     "carry; convert it to float16, bfloat16 or float32",
                     descr));
  }
  if (descr.starts_with('>')) {
    refuse(name,
           fmt::format("is big-endian ('{}'): save it with .astype(x.dtype.newbyteorder('<'))",
                       descr));
  }
  refuse(name,
         fmt::format("holds '{}': expected float32, float16 or bfloat16 (ml_dtypes, or its bits "
                     "as uint16)",
                     descr));
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[i]);
  }
  return value;
}

/// `data` in Fortran order as C order.
std::vector<std::uint8_t> to_c_order(std::string_view data, const std::vector<std::int64_t>& shape,
                                     std::int64_t item) {
  std::vector<std::uint8_t> result(data.size());
  const auto axes = shape.size();
  std::vector<std::int64_t> index(axes, 0);
  std::vector<std::int64_t> stride(axes, 1);
  for (std::size_t a = 1; a < axes; ++a) stride[a] = stride[a - 1] * shape[a - 1];
  for (std::size_t to = 0; to < result.size(); to += static_cast<std::size_t>(item)) {
    std::int64_t from = 0;
    for (std::size_t a = 0; a < axes; ++a) from += index[a] * stride[a];
    std::memcpy(result.data() + to, data.data() + from * item, static_cast<std::size_t>(item));
    for (std::size_t a = axes; a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
  return result;
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count = checked_multiply(count, size);
  return count;
}

NpyLayout parse_npy_layout(std::string_view name) {
  if (name == "bnhd") return NpyLayout::bnhd;
  if (name == "bhnd") return NpyLayout::bhnd;
  throw UsageError(
      fmt::format("unknown layout '{}': bnhd (batch, rows, heads, head_dim) or bhnd", name));
}

NpyArray parse_npy(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(kMagic)) refuse(name, "is not a .npy file");
  if (bytes.size() < 10) refuse(name, "ends inside its header");
  const auto version = static_cast<unsigned>(static_cast<std::uint8_t>(bytes[6]));
  if (version < 1 || version > 3)
    refuse(name, fmt::format("has .npy version {}, not 1 to 3", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) refuse(name, "ends inside its header");
  const std::size_t length = little_endian(bytes.substr(8, length_bytes));
  const std::size_t start = 8 + length_bytes;
  if (length > bytes.size() - start) refuse(name, "ends inside its header");
  const Header header = HeaderParser(bytes.substr(start, length), name).parse();

  NpyArray array;
  array.dtype = dtype_of(header.descr, name);
  array.shape = header.shape;
  const std::int64_t wanted = checked_multiply(array.elements(), size_of(array.dtype));
  const std::string_view data = bytes.substr(start + length);
  if (static_cast<std::int64_t>(data.size()) != wanted) {
    refuse(name,
           fmt::format("holds {} bytes of data where its shape needs {}", data.size(), wanted));
  }
  if (header.fortran_order) {
    array.data = to_c_order(data, array.shape, size_of(array.dtype));
  } else {
    array.data.assign(data.begin(), data.end());
  }
  return array;
}

NpyArray read_npy(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return parse_npy(bytes, path);
}

NpyArray to_bnhd(const NpyArray& array, NpyLayout layout, const std::string& name) {
  NpyArray result = array;
  const std::size_t axes = array.shape.size();
  if (axes < 2 || axes > 4) {
    refuse(name, fmt::format("has {} axes: expected batch, rows, heads, head_dim, or fewer", axes));
  }
  if (axes == 3) result.shape.insert(result.shape.begin(), 1);
  if (axes == 2) {
    const bool heads_first = layout == NpyLayout::bhnd;
    result.shape = heads_first ? std::vector<std::int64_t>{1, 1, array.shape[0], array.shape[1]}
                               : std::vector<std::int64_t>{1, array.shape[0], 1, array.shape[1]};
  }
  if (layout == NpyLayout::bnhd) return result;
  const std::int64_t batch = result.shape[0];
  const std::int64_t heads = result.shape[1];
  const std::int64_t rows = result.shape[2];
  const std::int64_t row_bytes = result.shape[3] * size_of(array.dtype);
  result.shape = {batch, rows, heads, result.shape[3]};
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t n = 0; n < rows; ++n) {
        std::memcpy(result.data.data() + ((b * rows + n) * heads + h) * row_bytes,
                    array.data.data() + ((b * heads + h) * rows + n) * row_bytes,
                    static_cast<std::size_t>(row_bytes));
      }
    }
  }
  return result;
}

std::string format_npy(const NpyArray& array) {
  std::string shape;
  for (const std::int64_t size : array.shape) shape += fmt::format("{}, ", size);
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.resize(shape.size() - 1);
  const std::string_view descr =
      array.dtype == Dtype::f32 ? "<f4" : (array.dtype == Dtype::f16 ? "<f2" : "<u2");
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // Magic, version and length take ten bytes; the data begins at a multiple of 64.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\1', '\0', static_cast<char>(header.size() & 0xffU),
            static_cast<char>(header.size() >> 8U)};
  bytes += header;
  bytes.append(array.data.begin(), array.data.end());
  return bytes;
}

void write_npy(const std::string& path, const NpyArray& array) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::string bytes = format_npy(array);
  if (file) file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace flashbench
