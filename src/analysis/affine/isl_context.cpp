#include "analysis/affine/isl_context.h"

#include <fmt/format.h>
#include <isl/ctx.h>
#include <isl/options.h>

namespace fettle {

isl::ctx isl_context() {
  struct Owner {
    isl_ctx* ctx = isl_ctx_alloc();
    Owner() { isl_options_set_on_error(ctx, ISL_ON_ERROR_CONTINUE); }
    ~Owner() { isl_ctx_free(ctx); }
  };
  thread_local const Owner owner;
  return owner.ctx;
}

namespace detail {

void bound_isl(int64_t operations) {
  isl_ctx* ctx = isl_context().get();
  isl_ctx_set_max_operations(ctx, static_cast<unsigned long>(operations));
  isl_ctx_reset_operations(ctx);
}

tl::unexpected<Diagnostic> isl_refusal(const isl::exception& e, int64_t operations) {
  if (dynamic_cast<const isl::exception_quota*>(&e))
    return fail(ErrorCode::E209, fmt::format("isl gave up after {} operations", operations));
  return fail(ErrorCode::E209, fmt::format("isl refuses: {}", e.what()));
}

}  // namespace detail
}  // namespace fettle
