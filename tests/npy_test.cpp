#include "npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "error.h"

namespace flashbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file with this header text and data, as NumPy lays it out.
std::string file(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xffU);
  bytes += static_cast<char>(header.size() >> 8U);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<double> values(const NpyArray& array) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    all.push_back(load_element(array.data.data(), array.dtype, i));
  }
  return all;
}

std::string message(const std::string& bytes) {
  try {
    parse_npy(bytes, "x.npy");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "read without an error";
}

TEST(Npy, ReadsTheThreeTypes) {
  const NpyArray f32 = parse_npy(file(header("<f4", "(3,)"), floats({1.5F, -2.0F, 0.25F})), "x");
  EXPECT_EQ(f32.dtype, Dtype::f32);
  EXPECT_THAT(f32.shape, ElementsAre(3));
  EXPECT_THAT(values(f32), ElementsAre(1.5, -2.0, 0.25));

  const NpyArray f16 = parse_npy(file(header("<f2", "(1, 2)"), {"\x00\x3c\x00\xc0", 4}), "x");
  EXPECT_EQ(f16.dtype, Dtype::f16);
  EXPECT_THAT(values(f16), ElementsAre(1.0, -2.0));

  for (const char* descr : {"bfloat16", "<V2", "|V2", "<u2"}) {
    const NpyArray bf16 = parse_npy(file(header(descr, "(2,)"), {"\x80\x3f\x00\xc0", 4}), "x");
    EXPECT_EQ(bf16.dtype, Dtype::bf16) << descr;
    EXPECT_THAT(values(bf16), ElementsAre(1.0, -2.0)) << descr;
  }
}

TEST(Npy, ReadsEveryVersionAndKeyOrder) {
  const std::string other = "{\"shape\": (2L,), 'descr': '<f4', 'fortran_order': False}";
  for (const char version : {'\1', '\2', '\3'}) {
    EXPECT_THAT(values(parse_npy(file(other, floats({1, 2}), version), "x")),
                ElementsAre(1.0, 2.0));
  }
}

TEST(Npy, FortranOrderIsTurned) {
  // [[1, 2, 3], [4, 5, 6]] column by column.
  const std::string bytes = file(header("<f4", "(2, 3)", "True"), floats({1, 4, 2, 5, 3, 6}));
  EXPECT_THAT(values(parse_npy(bytes, "x")), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, MalformedFilesGiveOneLine) {
  const std::string data = floats({1, 2});
  EXPECT_EQ(message("PK\3\4"), "x.npy: is not a .npy file");
  EXPECT_EQ(message("\x93NUMPY\1"), "x.npy: ends inside its header");
  EXPECT_THAT(message(file(header("<f4", "(2,)"), data, '\7')), HasSubstr("version 7"));
  EXPECT_THAT(message(file(header("<f4", "(3,)"), data)),
              HasSubstr("holds 8 bytes of data where its shape needs 12"));
  EXPECT_THAT(message(file(header("<f4", "(1,)"), data)), HasSubstr("holds 8 bytes"));
  EXPECT_THAT(message(file(header("<f4", "(-2,)"), data)), HasSubstr("bad shape"));
  EXPECT_THAT(message(file(header("<f4", "(2"), data)), HasSubstr("malformed"));
  EXPECT_THAT(message(file(header("<f4", "(2,)", "Maybe"), data)),
              HasSubstr("neither True nor False"));
  EXPECT_THAT(message(file("{'descr': '<f4'}", data)), HasSubstr("lacks"));
  EXPECT_THAT(message(file("{'descr': [('a', '<f4')], }", data)), HasSubstr("records"));
  EXPECT_THAT(message(file("{'descr': '<f4", data)), HasSubstr("does not end"));
  EXPECT_THAT(message(file("", data)), HasSubstr("no '{'"));
  EXPECT_THAT(message(file(header("<f4", "(4294967296, 4294967296, 4294967296)"), data)),
              HasSubstr("too large"));
  std::string cut = file(header("<f4", "(2,)"), data);
  cut.resize(30);
  EXPECT_EQ(message(cut), "x.npy: ends inside its header");
  for (std::size_t size = 0; size < cut.size(); ++size) {
    EXPECT_NE(message(cut.substr(0, size)), "read without an error");
  }
}

TEST(Npy, OtherTypesAreRefusedWithTheReason) {
  EXPECT_THAT(message(file(header("<f8", "(1,)"), floats({1, 2}))),
              HasSubstr("'<f8': expected float32"));
  EXPECT_THAT(message(file(header(">f4", "(2,)"), floats({1, 2}))), HasSubstr("big-endian"));
  EXPECT_THAT(message(file(header("float8_e4m3fn", "(2,)"), "ab")), HasSubstr("float8"));
  EXPECT_THAT(message(file(header("|V1", "(2,)"), "ab")), HasSubstr("scales"));
}

TEST(Npy, LayoutIsBroughtToRowsBeforeHeads) {
  NpyArray array;
  array.shape = {1, 2, 3, 1};  // batch, heads, rows, head_dim
  const std::string data = floats({1, 2, 3, 4, 5, 6});
  array.data.assign(data.begin(), data.end());
  const NpyArray turned = to_bnhd(array, NpyLayout::bhnd, "x");
  EXPECT_THAT(turned.shape, ElementsAre(1, 3, 2, 1));
  EXPECT_THAT(values(turned), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(to_bnhd(array, NpyLayout::bnhd, "x").data, array.data);

  array.shape = {2, 3};
  EXPECT_THAT(to_bnhd(array, NpyLayout::bnhd, "x").shape, ElementsAre(1, 2, 1, 3));
  EXPECT_THAT(to_bnhd(array, NpyLayout::bhnd, "x").shape, ElementsAre(1, 2, 1, 3));
  array.shape = {2, 3, 1};
  EXPECT_THAT(to_bnhd(array, NpyLayout::bhnd, "x").shape, ElementsAre(1, 3, 2, 1));
  array.shape = {6};
  EXPECT_THROW(to_bnhd(array, NpyLayout::bnhd, "x"), UsageError);
  EXPECT_THROW(parse_npy_layout("nhd"), UsageError);
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  const std::string path = testing::TempDir() + "npy_test.npy";
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{6}, {2, 3}, {1, 2, 3, 1}, {2, 0}}) {
      NpyArray array;
      array.dtype = dtype;
      array.shape = shape;
      array.data.resize(static_cast<std::size_t>(array.elements() * size_of(dtype)));
      for (std::int64_t i = 0; i < array.elements(); ++i) {
        store_element(array.data.data(), dtype, i, static_cast<float>(i) - 2.5F);
      }
      write_npy(path, array);
      const NpyArray back = read_npy(path);
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.data, array.data);
      const std::string bytes = format_npy(array);
      EXPECT_EQ((bytes.size() - array.data.size()) % 64, 0U) << "data must be aligned";
    }
  }
  std::filesystem::remove(path);
}

TEST(Npy, UnreadableAndUnwritablePathsSayWhy) {
  try {
    read_npy("/nonexistent/x.npy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
  EXPECT_THROW(write_npy("/nonexistent/x.npy", NpyArray{}), Error);
}

// Where Python has NumPy: it reads what is written here, and the other way round.
TEST(Npy, AgreesWithNumPy) {
  // NOLINTNEXTLINE(bugprone-command-processor,cert-env33-c)
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 has no numpy";
  }
  const std::string ours = testing::TempDir() + "ours.npy";
  const std::string theirs = testing::TempDir() + "theirs.npy";
  NpyArray array;
  array.shape = {2, 3};
  const std::string data = floats({1, 2, 3, 4, 5, 6});
  array.data.assign(data.begin(), data.end());
  write_npy(ours, array);
  const std::string command =
      "python3 -c 'import numpy as n, sys; a = n.load(sys.argv[1]); "
      "n.save(sys.argv[2], n.asfortranarray(a * 2).astype(n.float16))' " +
      ours + " " + theirs;
  // NOLINTNEXTLINE(bugprone-command-processor,cert-env33-c)
  ASSERT_EQ(std::system(command.c_str()), 0);
  const NpyArray back = read_npy(theirs);
  EXPECT_EQ(back.dtype, Dtype::f16);
  EXPECT_THAT(values(back), ElementsAre(2, 4, 6, 8, 10, 12));
}

}  // namespace
}  // namespace flashbench
