#include "database/sqlite.h"

#include <sqlite3.h>

namespace fettle::sqlite {
namespace {

Diagnostic diagnose(int code, sqlite3* db, const std::string& where) {
  std::string message = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  ErrorCode error = ErrorCode::E505;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      error = ErrorCode::E502;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // a table or column is missing: another program's database
    case SQLITE_SCHEMA:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      error = ErrorCode::E503;
      break;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      error = ErrorCode::E501;
      break;
    case SQLITE_IOERR:
      // A file cut short in the middle of a page.
      if (code == SQLITE_IOERR_SHORT_READ) error = ErrorCode::E503;
      break;
    default:
      break;  // FULL, READONLY, IOERR, NOMEM, TOOBIG
  }
  return Diagnostic(error, std::move(message), where);
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::bind(int index, int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }
void Statement::bind(int index, double value) { sqlite3_bind_double(statement_.get(), index, value); }
void Statement::bind(int index, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), index, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
}
void Statement::bind(int index, std::span<const std::byte> blob) {
  sqlite3_bind_blob64(statement_.get(), index, blob.empty() ? static_cast<const void*>("") : blob.data(), blob.size(),
                      SQLITE_TRANSIENT);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Diagnostic diagnostic = diagnose(sqlite3_extended_errcode(sqlite3_db_handle(statement_.get())),
                                   sqlite3_db_handle(statement_.get()), where_);
  reset();
  return fail(std::move(diagnostic));
}

Result<> Statement::run() {
  FETTLE_TRY([[maybe_unused]] const bool row, step());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }
std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))) : std::string();
}
std::string_view Statement::blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return data ? std::string_view(data, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)))
              : std::string_view();
}

void Connection::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Result<Connection> Connection::open(const std::string& path, Mode mode, int busy_timeout_ms) {
  Connection connection;
  connection.where_ = path;
  sqlite3* db = nullptr;
  const int flags = mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(mode == Mode::kMemory ? ":memory:" : path.c_str(), &db, flags, nullptr);
  connection.db_.reset(db);
  if (code != SQLITE_OK) {
    Diagnostic diagnostic = diagnose(code, db, path);
    diagnostic.code = ErrorCode::E501;
    return fail(std::move(diagnostic));
  }
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, busy_timeout_ms);
  return connection;
}

Result<> Connection::execute(const char* sql) {
  if (const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr); code != SQLITE_OK)
    return fail(diagnose(code, db_.get(), where_));
  return {};
}

Result<Statement> Connection::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return fail(diagnose(code, db_.get(), where_));
  return Statement(where_, statement);
}

Result<int64_t> Connection::integer(std::string_view sql) const {
  FETTLE_TRY(Statement statement, prepare(sql));
  FETTLE_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

int64_t Connection::last_row() const { return sqlite3_last_insert_rowid(db_.get()); }

Result<> Connection::copy_from(const Connection& from) {
  sqlite3_backup* backup = sqlite3_backup_init(db_.get(), "main", from.db_.get(), "main");
  if (!backup) return fail(diagnose(sqlite3_extended_errcode(db_.get()), db_.get(), where_));
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return fail(diagnose(code, nullptr, from.where_));
  return {};
}

Result<Transaction> Transaction::begin(Connection& connection) {
  FETTLE_TRY_VOID(connection.execute("BEGIN IMMEDIATE"));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_) (void)connection_->execute("ROLLBACK");
}

Result<> Transaction::commit() {
  FETTLE_TRY_VOID(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace fettle::sqlite
