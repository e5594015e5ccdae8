// oneDNN as a source of kernels.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codegen/kernel_source.h"
#include "codegen/llvm/forwarder.h"
#include "codegen/onednn/parts.h"
#include "rt/onednn.h"

#ifndef FETTLE_ONEDNN_LIBRARY
#define FETTLE_ONEDNN_LIBRARY ""
#endif

namespace fettle {
namespace {

/// Where it is where the loader does not find it.
std::string library_file() {
  const char* said = std::getenv("FETTLE_ONEDNN");
  return said ? said : FETTLE_ONEDNN_LIBRARY;
}

Result<std::string> version_of_onednn() {
  int32_t version[3];
  const char* reason = nullptr;
  if (!rt::onednn_version(library_file().c_str(), version, &reason)) return fail(ErrorCode::E301, reason);
  return fmt::format("{}.{}.{}", version[0], version[1], version[2]);
}

/// Notes where each part's packed weights lie, and which of them are one. The bytes of all.
int64_t place_packings(rt::OnednnCall& call, const rt::OnednnReport& report) {
  int64_t bytes = 0;
  for (int32_t p = 0; p < call.n_parts; ++p) {
    rt::OnednnPart& part = call.parts[p];
    part.layout = report.layout[p];
    rt::OnednnTensor* const end = part.tensors + part.n_tensors;
    rt::OnednnTensor* const weights = std::find_if(part.tensors, end, [](const auto& t) { return t.packed == 1; });
    const rt::OnednnPart* same = std::find_if(call.parts, &part, [&](const rt::OnednnPart& other) {
      return other.layout == part.layout &&
             std::memcmp(&other.packed_from, &part.packed_from, sizeof(part.packed_from)) == 0;
    });
    part.packs = same == &part ? 1 : 0;
    if (part.packs == 0) {
      weights->offset_bytes = same->tensors[weights - part.tensors].offset_bytes;
      continue;
    }
    constexpr int64_t kLine = 64;
    weights->offset_bytes = bytes;
    bytes += (report.packed_bytes[p] + kLine - 1) / kLine * kLine;
  }
  return bytes;
}

Result<KernelOffer> offer_of_onednn(const Func& program, int threads) {
  FETTLE_TRY(const onednn::Matched matched, onednn::match(program));
  KernelOffer offer;
  FETTLE_TRY(offer.version, version_of_onednn());
  const onednn::MatchedTensor* weights = matched.find(rt::onednn::kWeights);
  const bool packs = weights && program->params[static_cast<size_t>(weights->param)].kind == ParamKind::kConstant;
  offer.description =
      onednn::make_call(matched, threads, packs ? weights->param : -1, static_cast<int>(program->params.size()));
  rt::OnednnCall& call = onednn::call_in(offer.description);
  if (std::sscanf(offer.version.c_str(), "%d.%d.%d", &call.version[0], &call.version[1], &call.version[2]) != 3)
    return fail(ErrorCode::E301, "the version of oneDNN is not known");
  const std::string file = library_file();
  if (file.size() < sizeof(call.library)) std::ranges::copy(file, call.library);
  rt::OnednnReport report;
  rt::onednn_prepare(&call, &report);
  if (report.reason) return fail(ErrorCode::E301, report.reason);
  offer.kernel = report.kernel;
  if (offer.kernel.starts_with("ref")) return fail(ErrorCode::E301, "oneDNN has no kernel for it but its reference");
  if (!packs) return offer;
  OfferedPacking packing{
      .param = static_cast<size_t>(weights->param), .bytes = place_packings(call, report), .layout = {}};
  for (int32_t p = 0; p < call.n_parts; ++p)
    packing.layout += fmt::format("{:x} {} {} {}; ", call.parts[p].layout, call.parts[p].packed_from.offset_bytes,
                                  report.packed_bytes[p], fmt::join(call.parts[p].packed_from.dims, "x"));
  packing.layout += fmt::format("{}", fmt::join(weights->strides, ","));
  offer.packing = std::move(packing);
  return offer;
}

Result<KernelImage> build_for_onednn(const KernelOffer& offer, bool prologue, const Target& target,
                                     const std::string& entry) {
  FETTLE_TRY(
      std::vector<uint8_t> object,
      compile_forwarder(entry, prologue ? "fettle_onednn_pack" : "fettle_onednn_run", offer.description, target));
  return KernelImage{{entry, std::make_shared<const std::vector<uint8_t>>(std::move(object))}};
}

}  // namespace

extern constinit const KernelSourceDef onednn_kernel_source = {
    .name = "onednn",
    .device = "llvm",
    .library = "oneDNN",
    .description =
        "products, convolutions, pooling, softmax and layer normalisation of f32 by oneDNN, one primitive a kernel",
    .version = version_of_onednn,
    .offer = offer_of_onednn,
    .build = build_for_onednn};

}  // namespace fettle
