#include "remote/tracker_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "devices.grpc.pb.h"
#include "remote/tracker_state.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

/// Calls that wait hold a thread each; beyond so many, further callers are told to come again.
constexpr int kMaxThreads = 2048;

class Service final : public wire::Tracker::Service {
 public:
  Service(const TrackerOptions& options)
      : token_(options.credentials.token), times_(options.times), state_(options.limits, options.times) {
    ticker_ = std::thread([this] { tick(); });
  }
  ~Service() override {
    stop();
    ticker_.join();
  }
  /// Calls that wait end now.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }

  grpc::Status Register(grpc::ServerContext* c, const wire::RegisterRequest* q, wire::RegisterReply* a) override {
    return answer(c, a, [&](double now_s, bool) { return state_.enlist(*q, now_s); });
  }
  grpc::Status Next(grpc::ServerContext* c, const wire::NextRequest* q, wire::Work* a) override {
    return answer(
        c, a, [&](double now_s, bool first) { return state_.next(*q, now_s, first); },
        [](const wire::Work& w) { return !w.known() || !w.lease().empty(); }, q->wait_s());
  }
  grpc::Status Beat(grpc::ServerContext* c, const wire::BeatRequest* q, wire::BeatReply* a) override {
    return answer(c, a, [&](double now_s, bool) { return state_.beat(*q, now_s); });
  }
  grpc::Status Open(grpc::ServerContext* c, const wire::OpenRequest* q, wire::OpenReply* a) override {
    return answer(c, a, [&](double now_s, bool) { return state_.open(*q, now_s); });
  }
  grpc::Status Submit(grpc::ServerContext* c, const wire::SubmitRequest* q, wire::SubmitReply* a) override {
    return answer(c, a, [&](double now_s, bool) { return state_.submit(*q, now_s); });
  }
  grpc::Status Fetch(grpc::ServerContext* c, const wire::FetchRequest* q, wire::FetchReply* a) override {
    return answer(
        c, a, [&](double now_s, bool first) { return state_.fetch(*q, now_s, first); },
        [&](const wire::FetchReply& f) { return !f.known() || f.outcomes_size() > 0 || q->cancel(); }, q->wait_s());
  }
  grpc::Status Query(grpc::ServerContext* c, const wire::QueryRequest*, wire::QueryReply* a) override {
    return answer(c, a, [&](double now_s, bool) { return Result<wire::QueryReply>(state_.query(now_s)); });
  }

 private:
  static double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

  bool trusted(const grpc::ServerContext& context) const {
    if (token_.empty()) return true;
    const auto [begin, end] = context.client_metadata().equal_range("authorization");
    if (begin == end || std::next(begin) != end) return false;
    return same_secret("Bearer " + token_, {begin->second.data(), begin->second.size()});
  }

  // Asks the state, again with each change until `done` says so, the caller has gone, or the time is up.
  template <class Reply, class Ask>
  grpc::Status answer(grpc::ServerContext* context, Reply* reply, const Ask& ask) {
    return answer(context, reply, ask, [](const Reply&) { return true; }, 0);
  }
  template <class Reply, class Ask, class Done>
  grpc::Status answer(grpc::ServerContext* context, Reply* reply, const Ask& ask, const Done& done, double wait_s) {
    if (!trusted(*context)) return {grpc::StatusCode::UNAUTHENTICATED, "the token is missing or wrong", "E802"};
    if (!(wait_s >= 0)) wait_s = 0;
    const auto until = Clock::now() + std::chrono::duration<double>(std::min(wait_s, times_.wait_s));
    std::unique_lock lock(mutex_);
    for (bool first = true;; first = false) {
      Result<Reply> asked = ask(now_s(), first);
      if (!asked) {
        const Diagnostic& error = asked.error();
        const std::string where = error.where.empty() ? "" : " (" + error.where + ")";
        return {
            error.code == ErrorCode::E805 ? grpc::StatusCode::FAILED_PRECONDITION : grpc::StatusCode::INVALID_ARGUMENT,
            error.message + where, std::string(error_info(error.code).name)};
      }
      *reply = std::move(*asked);
      const bool over = done(*reply);
      if (first || over) {
        ++changes_;
        changed_.notify_all();
      }
      if (over) return grpc::Status::OK;
      const uint64_t seen = changes_;
      while (changes_ == seen && !stopping_ && !context->IsCancelled() && Clock::now() < until)
        changed_.wait_until(lock, std::min<Clock::time_point>(std::chrono::time_point_cast<Clock::duration>(until),
                                                              Clock::now() + std::chrono::milliseconds(200)));
      if (stopping_) return {grpc::StatusCode::UNAVAILABLE, "the tracker ends"};
      if (context->IsCancelled() || Clock::now() >= until) return grpc::Status::OK;
    }
  }

  void tick() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return stopping_; });
      if (!state_.tick(now_s())) continue;
      ++changes_;
      changed_.notify_all();
    }
  }

  const std::string token_;
  const TrackerTimes times_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TrackerState state_;
  uint64_t changes_ = 0;
  bool stopping_ = false;
  std::thread ticker_;
};

}  // namespace

struct TrackerServer::State {
  Address address;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::Server> server;
};

Result<std::unique_ptr<TrackerServer>> TrackerServer::start(const TrackerOptions& options) {
  auto state = std::make_unique<State>();
  state->address = options.address;
  state->service = std::make_unique<Service>(options);
  const Credentials& c = options.credentials;
  if (!options.address.is_loopback() && (!c.tls || c.token.empty()))
    return fail(ErrorCode::E802, "beyond this machine a token and TLS are needed", options.address.to_string());
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (c.tls) {
    grpc::SslServerCredentialsOptions tls(c.ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                       : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = c.ca;
    tls.pem_key_cert_pairs.push_back({c.key, c.cert});
    credentials = grpc::SslServerCredentials(tls);
  }
  grpc::ResourceQuota quota("tracker");
  quota.SetMaxThreads(kMaxThreads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRemoteMessageBytes);
  builder.SetMaxSendMessageSize(kMaxRemoteMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two trackers at one port would share its callers
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  int port = 0;
  builder.AddListeningPort(options.address.to_string(), credentials, &port);
  builder.RegisterService(state->service.get());
  state->server = builder.BuildAndStart();
  if (!state->server || port == 0)
    return fail(ErrorCode::E801, "it cannot listen there; is another one, or are the certificates no good?",
                options.address.to_string());
  state->address.port = port;
  return std::unique_ptr<TrackerServer>(new TrackerServer(std::move(state)));
}

TrackerServer::TrackerServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

TrackerServer::~TrackerServer() {
  state_->service->stop();
  state_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  state_->server->Wait();
}

const Address& TrackerServer::address() const { return state_->address; }

}  // namespace fettle
