#include "runtime/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "runtime/dtype.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) / ("fettle_npy_" + std::to_string(::getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  fs::path write(const std::string& bytes) {
    const fs::path path = folder / "x.npy";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// A version 1.0 file with this header text.
  static std::string with_header(std::string text, const std::string& data) {
    text += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(text.size() & 0xff);
    bytes += static_cast<char>(text.size() >> 8);
    return bytes + text + data;
  }
  std::string error_of(const std::string& bytes) {
    const auto tensor = read_npy(write(bytes));
    if (tensor) return "no error";
    EXPECT_EQ(tensor.error().code, ErrorCode::E703);
    return tensor.error().message;
  }

  fs::path folder;
};

TEST_F(Npy, SmallTypesAreWrittenAsBytes) {
  for (const auto& [dtype, type] : {std::pair(FETTLE_I4, "i8[3]"), {FETTLE_U2, "u8[3]"}, {FETTLE_F8E5M2, "u8[3]"}}) {
    auto tensor = Tensor::make(dtype, {3});
    ASSERT_TRUE(tensor);
    static_cast<uint8_t*>(tensor->data())[1] = 3;
    ASSERT_TRUE(write_npy(folder / "t.npy", *tensor));
    const auto read = read_npy(folder / "t.npy");
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->type_to_string(), type);
    EXPECT_EQ(static_cast<const uint8_t*>(read->data())[1], 3);
  }
}

TEST_F(Npy, RoundTripsEveryType) {
  for (int32_t dtype = FETTLE_BOOL; dtype <= FETTLE_F64; ++dtype) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {7}, {2, 3, 4}, {0, 5}}) {
      auto tensor = Tensor::make(static_cast<FettleDtype>(dtype), shape);
      ASSERT_TRUE(tensor);
      auto* bytes = static_cast<uint8_t*>(tensor->data());
      for (int64_t i = 0; i < tensor->n_bytes(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + 1);
      const fs::path path = folder / "t.npy";
      const auto written = write_npy(path, *tensor);
      ASSERT_TRUE(written) << written.error().to_string();
      const auto read = read_npy(path);
      ASSERT_TRUE(read) << read.error().to_string();
      EXPECT_EQ(read->type_to_string(), tensor->type_to_string());
      EXPECT_TRUE(std::equal(bytes, bytes + tensor->n_bytes(), static_cast<const uint8_t*>(read->data())));
    }
  }
}

TEST_F(Npy, DataStartAtAMultipleOf64) {
  auto tensor = Tensor::make(FETTLE_F32, {5});
  ASSERT_TRUE(write_npy(folder / "t.npy", *tensor));
  EXPECT_EQ((fs::file_size(folder / "t.npy") - 20) % 64, 0u);
}

TEST_F(Npy, ReadsWhatNumpyWrites) {
  const auto tensor = read_npy(write(with_header("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }     ",
                                                 std::string("\x01\x00\xff\xff", 4))));
  ASSERT_TRUE(tensor) << tensor.error().to_string();
  EXPECT_EQ(tensor->type_to_string(), "i16[2]");
  EXPECT_EQ(tensor->elems<int16_t>()[0], 1);
  EXPECT_EQ(tensor->elems<int16_t>()[1], -1);
}

TEST_F(Npy, ReadsVersion2AndFortranVectors) {
  std::string text = "{\"shape\": (3L,), \"descr\": \"|u1\", \"fortran_order\": True}\n";
  std::string bytes("\x93NUMPY\x02\x00", 8);
  bytes += static_cast<char>(text.size());
  bytes += std::string(3, '\0') + text + "abc";
  const auto tensor = read_npy(write(bytes));
  ASSERT_TRUE(tensor) << tensor.error().to_string();
  EXPECT_EQ(tensor->elems<uint8_t>()[2], 'c');
}

TEST_F(Npy, SaysWhatIsWrong) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  EXPECT_EQ(error_of(with_header(good, std::string(16, '\0'))), "no error");
  EXPECT_EQ(error_of(with_header(good, std::string(15, '\0'))), "the data are cut short: 15 of 16 bytes");
  EXPECT_EQ(error_of(""), "the file does not start as .npy files do");
  EXPECT_EQ(error_of("PK\x03\x04 a zip of arrays"), "the file does not start as .npy files do");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x04\x00\x10\x00", 10)), "version 4 of the format is not known");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x01\x00\x10", 9)), "the header is cut short");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x01\x00\x10\x00{", 11)), "the header is cut short");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)), "the header claims 4294967295 bytes");
  EXPECT_EQ(error_of(with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", "")),
            "the array is big-endian");
  EXPECT_EQ(error_of(with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 2), }", "")),
            "element type '<c8' is not supported");
  EXPECT_EQ(error_of(with_header("{'descr': '', 'fortran_order': False, 'shape': (2, 2), }", "")),
            "element type '' is not supported");
  EXPECT_EQ(error_of(with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", "")),
            "the array is in Fortran order");
  EXPECT_EQ(error_of(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000), }", "")),
            "shape [4000000000, 4000000000] is too large");
  EXPECT_EQ(error_of(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", "abcd")),
            "the data are cut short: 4 of 4000000000 bytes");
}

TEST_F(Npy, RefusesBrokenHeaders) {
  for (const char* text : {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
                           "{'descr': '<f4', 'fortran_order': No, 'shape': (1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': (1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} and more",
                           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"}) {
    EXPECT_EQ(error_of(with_header(text, "abcd")), "the header is not a dictionary of descr, fortran_order and shape")
        << text;
  }
}

TEST_F(Npy, UnreadableFiles) {
  EXPECT_EQ(read_npy(folder / "none.npy").error().code, ErrorCode::E701);
  EXPECT_EQ(read_npy(folder).error().code, ErrorCode::E701);
}

TEST_F(Npy, UnwritablePlacesLeaveNothing) {
  auto tensor = Tensor::make(FETTLE_F32, {5});
  EXPECT_EQ(write_npy(folder / "no_such_folder" / "t.npy", *tensor).error().code, ErrorCode::E702);
  fs::create_directories(folder / "taken.npy" / "inside");
  EXPECT_EQ(write_npy(folder / "taken.npy", *tensor).error().code, ErrorCode::E702);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "no temporary file is left";
}

}  // namespace
}  // namespace fettle
