#include "codegen/kernel_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "schedule/primitives/annotate.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

std::mutex added_mutex;
KernelSources& added() {
  static KernelSources list;
  return list;
}

struct Annotated {
  const KernelSourceDef* source = nullptr;
  std::string version;
  int threads = 1;
};

/// What the annotation says. E301 where nobody knows the source.
Result<Annotated> annotated(const Func& scheduled) {
  const std::string text = kernel_source_of(scheduled);
  const std::string name = text.substr(0, text.find(' '));
  const KernelSourceDef* source = find_kernel_source(name);
  if (!source) return fail(ErrorCode::E301, fmt::format("there is no source of kernels named \"{}\"", name));
  return Annotated{source, text.substr(std::min(text.size(), name.size() + 1)),
                   static_cast<int>(scheduled.root().annotations.get_int(kKernelThreadsKey, 1))};
}

Result<KernelOffer> offer_of(const Annotated& of, const Func& scheduled) {
  FETTLE_TRY(KernelOffer offer, of.source->offer(scheduled, of.threads));
  if (offer.version != of.version)
    return fail(ErrorCode::E301, fmt::format("it was recorded with {} {}, and here is {}", of.source->library,
                                             of.version, offer.version));
  return offer;
}

Result<KernelInfo> info_of(const Annotated& of, const KernelOffer& offer, const Func& scheduled,
                           const BuildOptions& options) {
  KernelInfo info;
  info.computes_once = false;  // libraries do not say in which order they read and write
  info.numerics = Numerics::kReassociating;
  info.source = fmt::format("{} {}: {}", of.source->library, offer.version, offer.kernel);
  for (size_t i = 0; i < scheduled->params.size(); ++i) {
    const Param& param = scheduled->params[i];
    KernelParam made;
    made.source = static_cast<int>(i);
    made.kind = param.kind;
    made.dtype = param.buffer->dtype;
    made.is_read = !offer.packing || offer.packing->param != i;
    FETTLE_TRY(made.layout, Relayout::make(*param.buffer, options.ints));
    info.params.push_back(std::move(made));
  }
  if (offer.packing) {
    const KernelParam& from = info.params[offer.packing->param];
    KernelParam made;
    made.kind = ParamKind::kConstant;
    made.dtype = from.dtype;
    const int64_t elems = (offer.packing->bytes + from.dtype.element_bytes() - 1) / from.dtype.element_bytes();
    FETTLE_TRY(made.layout, Relayout::make(*make_buffer("packed", {elems}, from.dtype)));
    made.packed_from = {static_cast<int>(offer.packing->param)};
    made.packing = digest_bytes(fmt::format("{} {}\n{}\n{}", of.source->name, offer.version, offer.packing->layout,
                                            from.layout.digest().hex()));
    info.params.push_back(std::move(made));
  }
  return info;
}

}  // namespace

KernelSources kernel_sources() {
  const auto builtin = builtin_kernel_sources();
  KernelSources all(builtin.begin(), builtin.end());
  const std::lock_guard lock(added_mutex);
  all.insert(all.end(), added().begin(), added().end());
  return all;
}

const KernelSourceDef* find_kernel_source(std::string_view name) {
  for (const KernelSourceDef* def : kernel_sources())
    if (def->name == name) return def;
  return nullptr;
}

AddedKernelSource::AddedKernelSource(const KernelSourceDef& def) : def_(&def) {
  const std::lock_guard lock(added_mutex);
  added().push_back(def_);
}

AddedKernelSource::~AddedKernelSource() {
  const std::lock_guard lock(added_mutex);
  std::erase(added(), def_);
}

Result<KernelSources> kernel_sources_named(const std::vector<std::string>& names) {
  KernelSources found;
  for (const std::string& name : names) {
    const KernelSourceDef* def = find_kernel_source(name);
    if (!def) {
      std::string known;
      for (const KernelSourceDef* other : kernel_sources())
        known += fmt::format("{}{}", known.empty() ? "" : ", ", other->name);
      return fail(ErrorCode::E709, fmt::format("no library of that name; there are: {}", known), name);
    }
    if (std::ranges::find(found, def) == found.end()) found.push_back(def);
  }
  return found;
}

std::string kernel_source_of(const Func& scheduled) {
  const Attribute* found = scheduled.root().annotations.find(kKernelSourceKey);
  const auto* text = found ? std::get_if<std::string>(found) : nullptr;
  return text ? *text : "";
}

std::string kernel_source_of_trace(std::string_view trace) {
  // annotate(b0, "kernel_source", "onednn 3.2.0")
  const size_t key = trace.find(fmt::format("\"{}\"", kKernelSourceKey));
  if (key == std::string_view::npos) return "";
  const size_t open = trace.find('"', key + std::string_view(kKernelSourceKey).size() + 2);
  const size_t close = open == std::string_view::npos ? open : trace.find('"', open + 1);
  return close == std::string_view::npos ? "?" : std::string(trace.substr(open + 1, close - open - 1));
}

bool is_allowed(std::string_view trace, const KernelSources& sources) {
  const std::string needed = kernel_source_of_trace(trace);
  return needed.empty() || std::ranges::any_of(sources, [&](const KernelSourceDef* source) {
           const auto version = source->version();
           return version && needed == fmt::format("{} {}", source->name, *version);
         });
}

Result<OfferedSchedule> offered_schedule(const KernelSourceDef& source, const Func& workload,
                                         std::shared_ptr<const Target> target, int threads) {
  if (target->kind != source.device)
    return fail(ErrorCode::E301,
                fmt::format("{} has no kernels for devices of kind \"{}\"", source.library, target->kind));
  FETTLE_TRY(KernelOffer offer, source.offer(workload, threads));
  Schedule schedule(workload);
  schedule.set_target(std::move(target));
  FETTLE_TRY(const BlockRef root, get_block(schedule, {.name = workload.root().name}));
  FETTLE_TRY_VOID(annotate(schedule, {root, kKernelSourceKey, fmt::format("{} {}", source.name, offer.version)}));
  FETTLE_TRY_VOID(annotate(schedule, {root, kKernelThreadsKey, int64_t{threads}}));
  return OfferedSchedule{std::move(schedule), std::move(offer)};
}

Result<KernelInfo> describe_offered(const Func& scheduled, const BuildOptions& options) {
  FETTLE_TRY(const Annotated of, annotated(scheduled));
  FETTLE_TRY(const KernelOffer offer, offer_of(of, scheduled));
  return info_of(of, offer, scheduled, options);
}

Result<BuiltKernel> build_offered(const Func& scheduled, const Target& target, const BuildOptions& options) {
  FETTLE_TRY(const Annotated of, annotated(scheduled));
  if (of.source->device != target.kind)
    return fail(ErrorCode::E301,
                fmt::format("{} has no kernels for devices of kind \"{}\"", of.source->library, target.kind));
  FETTLE_TRY(const KernelOffer offer, offer_of(of, scheduled));
  BuiltKernel built;
  FETTLE_TRY(built.info, info_of(of, offer, scheduled, options));
  built.entry = options.entry_name.empty() ? scheduled->name : options.entry_name;
  FETTLE_TRY(built.image, of.source->build(offer, false, target, built.entry));
  if (!offer.packing) return built;
  built.prologue_entry = built.entry + "_prologue";
  FETTLE_TRY(built.prologue_image, of.source->build(offer, true, target, built.prologue_entry));
  built.prologue_params = {static_cast<int>(offer.packing->param), static_cast<int>(scheduled->params.size())};
  return built;
}

}  // namespace fettle
