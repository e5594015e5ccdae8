#pragma once
// Compiles CUDA C++ by threads, in the order in which it is asked for.

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace fettle::bench {

class CompileAhead {
 public:
  /// For this architecture (compile_cuda). Where `folder` is named, what was compiled before is found there, and what
  /// is compiled now is kept.
  CompileAhead(std::string arch, std::string folder);
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  /// What is not begun is dropped.
  ~CompileAhead();

  /// The machine code: E302, E708.
  std::shared_future<Result<std::string>> add(std::string source, std::vector<std::string> options);

 private:
  void work();
  Result<std::string> code_of(const std::string& source, const std::vector<std::string>& options) const;

  const std::string arch_, folder_;
  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::deque<std::packaged_task<Result<std::string>()>> waiting_;
  bool ends_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace fettle::bench
