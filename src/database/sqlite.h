#pragma once
// A thin layer over SQLite: ownership, and result codes as diagnostics.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  void bind(int index, std::span<const std::byte> blob);
  void bind(int index, std::integral auto value) { bind(index, static_cast<int64_t>(value)); }
  /// Values for ?1, ?2 and so on.
  template <class... Values>
  void bind_all(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
  }

  /// True: there is a row. False: done.
  Result<bool> step();
  /// Of what has no rows: steps and resets.
  Result<> run();
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
  template <class... Values>
  Result<Statement> prepare(std::string_view sql, const Values&... values) const {
    Result<Statement> made = prepare(sql);
    if (made) made->bind_all(values...);
    return made;
  }
  /// Of what has no rows.
  template <class... Values>
  Result<> run(std::string_view sql, const Values&... values) const {
    FETTLE_TRY(Statement statement, prepare(sql, values...));
    return statement.run();
  }
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
