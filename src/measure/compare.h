#pragma once
// Whether a candidate computed what it should.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/func.h"

namespace fettle {

/// How far an output may be from the reference, relative to the largest magnitude in it ("of scale").
///
/// Inputs are eighths (fill.h), so that sums of products are exact in f32 whatever their order: there a single term
/// left out or doubled is at least 1/64, and 1e-5 of scale tells. A program that divides or calls functions rounds, and
/// differently with each order: 1e-4. Half precision: 2e-2. Integers and bools: 0.
///
/// `error_bound`: of the scheduled program (schedule/reformulation.h), in units of epsilon. It holds for errors that
/// all add up; errors that are independent of each other reach about its square root. So much is allowed where it is
/// more, up to 1e-4: for Winograd's F(4x4, 3x3) 1.9e-5 with 64 channels and 4.3e-5 with 512, of which some 5e-6 and
/// 8e-6 are used.
double tolerance_of_scale(const Func& workload, DType output, double error_bound = 0);

/// Compares dense arrays of `dtype`. NaN equals NaN, an infinity itself. Returns what is wrong, or nothing:
/// "C[3, 17] is 1.25 instead of 1.5 (and 12 more elements differ)". `known`: which elements of the reference count;
/// empty: all.
std::optional<std::string> find_difference(std::string_view name, std::span<const int64_t> shape, DType dtype,
                                           const void* computed, const void* reference, double tolerance,
                                           const std::vector<bool>& known = {});

/// The elements that are the same, bit by bit, in both.
std::vector<bool> equal_elements(std::span<const char> a, std::span<const char> b, DType dtype);

}  // namespace fettle
