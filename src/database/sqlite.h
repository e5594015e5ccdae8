#pragma once
// A thin layer over SQLite: ownership, and result codes as diagnostics.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace fettle::sqlite {

/// One prepared statement. Bind, step, read columns; then reset, to be used again.
class Statement {
 public:
  Statement() = default;
  Statement(std::string where, sqlite3_stmt* statement) : where_(std::move(where)), statement_(statement) {}

  void bind(int index, int64_t value);
  void bind(int index, double value);
  /// Copies `text`.
  void bind(int index, std::string_view text);
  void bind_blob(int index, const void* data, size_t bytes);

  /// True: there is a row. False: done.
  Result<bool> step();
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  /// Valid until the next step.
  std::string_view blob(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::string where_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Connection {
 public:
  enum class Mode { kReadOnly, kReadWrite, kMemory };

  /// kReadWrite makes the file where there is none.
  static Result<Connection> open(const std::string& path, Mode mode, int busy_timeout_ms);

  Result<> execute(const char* sql);
  Result<Statement> prepare(std::string_view sql) const;
  Result<int64_t> integer(std::string_view sql) const;  // the first column of the first row; 0 without rows
  int64_t last_row() const;
  /// Replaces this connection's content with that of `from`.
  Result<> copy_from(const Connection& from);
  const std::string& where() const { return where_; }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::string where_;
  std::unique_ptr<sqlite3, Close> db_;
};

/// The write lock from begin to commit; rolls back when it goes out of scope before.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);
  Transaction(Transaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Result<> commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

}  // namespace fettle::sqlite
