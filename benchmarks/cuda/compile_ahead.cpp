#include "cuda/compile_ahead.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "codegen/cuda/cuda_compile.h"
#include "target/target.h"

namespace fettle::bench {

CompileAhead::CompileAhead(std::string arch, std::string folder) : arch_(std::move(arch)), folder_(std::move(folder)) {
  if (!folder_.empty()) std::filesystem::create_directories(folder_);
  for (int t = 0; t < available_threads(); ++t) threads_.emplace_back([this] { work(); });
}

CompileAhead::~CompileAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
}

std::shared_future<Result<std::string>> CompileAhead::add(std::string source, std::vector<std::string> options) {
  std::packaged_task<Result<std::string>()> task(
      [this, source = std::move(source), options = std::move(options)] { return code_of(source, options); });
  std::shared_future<Result<std::string>> result = task.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  wakes_.notify_one();
  return result;
}

void CompileAhead::work() {
  while (true) {
    std::packaged_task<Result<std::string>()> task;
    {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

Result<std::string> CompileAhead::code_of(const std::string& source, const std::vector<std::string>& options) const {
  if (folder_.empty()) return compile_cuda(source, arch_, options);
  std::string all = arch_ + nvrtc_version();
  for (const std::string& option : options) all += " " + option;
  const std::filesystem::path file = std::filesystem::path(folder_) / (digest_bytes(all + source).hex() + ".cubin");
  if (std::ifstream known(file, std::ios::binary); known)
    return std::string(std::istreambuf_iterator<char>(known), std::istreambuf_iterator<char>());
  FETTLE_TRY(std::string code, compile_cuda(source, arch_, options));
  std::ofstream(file, std::ios::binary).write(code.data(), static_cast<std::streamsize>(code.size()));
  return code;
}

}  // namespace fettle::bench
