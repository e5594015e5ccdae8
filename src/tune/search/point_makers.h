#pragma once
// PointMakers: threads that make points of a space, each with trees of its own. What they return is plain data.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "tune/search/candidate.h"
#include "tune/space/space.h"

namespace fettle {

/// A point of a space: its decisions where they are valid, the others drawn, keyed by `key`.
struct PointRequest {
  DecisionMap decisions;
  uint64_t key = 0;
};

/// The choices of a categorical decision, as far as they have a chance.
struct Categories {
  std::string address;
  std::vector<Decision> likely;
};

/// Which choices of which decisions were met: an address may have others elsewhere in the space.
class KnownCategories {
 public:
  /// Those of a categorical step, the first time that its address has this list of candidates.
  std::optional<Categories> fresh(const Step& step);

 private:
  std::unordered_map<std::string, std::set<uint64_t>> lists_;  // hashes, by address
};

/// What is known of a point that was made elsewhere.
struct MadePoint {
  bool legal = false;  // the space has a program there
  bool lowers = false;
  DecisionMap decisions;  // all of them
  std::vector<Categories> categories;
  size_t steps = 0;
  std::string canonical;  // as in Candidate
  CandidateFeatures features;
};

struct Description;
using DescribeFn = std::function<Result<Description>(const Schedule& schedule)>;

class PointMakers {
 public:
  /// The space is one that can be cloned.
  PointMakers(const Space& space, const Func& workload, std::shared_ptr<const Target> target, int kernel_threads,
              int threads);
  ~PointMakers();
  PointMakers(const PointMakers&) = delete;
  PointMakers& operator=(const PointMakers&) = delete;

  /// One for each request, in their order, whichever thread makes them. `describe` is called by all threads at once;
  /// empty: points are not described. So is `gives_up`; what is not made any more is as if it were not legal.
  std::vector<MadePoint> make(std::span<const PointRequest> requests, const DescribeFn& describe,
                              const std::function<bool()>& gives_up = {});

 private:
  void work(const std::string& workload);

  const Space& space_;
  std::shared_ptr<const Target> target_;
  const int kernel_threads_;
  std::mutex mutex_;
  std::condition_variable asked_, done_;
  std::span<const PointRequest> requests_;  // of the call at hand, as `describe_`
  const DescribeFn* describe_ = nullptr;
  const std::function<bool()>* gives_up_ = nullptr;
  std::vector<MadePoint> results_;
  size_t next_ = 0, finished_ = 0;
  bool end_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace fettle
