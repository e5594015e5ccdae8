#pragma once
// Work that several threads share.

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace fettle {

/// make_work()(i) for each i in [0, n), on at most `threads` threads, this one among them, in any order. make_work is
/// called once on each, for what a thread has to itself.
template <class MakeWork>
void for_each_on_threads(size_t n, int threads, const MakeWork& make_work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    auto work = make_work();
    for (size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (size_t t = 1; t < static_cast<size_t>(threads) && t < n; ++t) helpers.emplace_back(run);
  run();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace fettle
