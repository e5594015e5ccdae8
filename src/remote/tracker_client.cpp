#include "remote/tracker_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "devices.grpc.pb.h"
#include "remote/limits.h"

namespace fettle {
namespace {

/// Beyond what the call itself waits.
constexpr double kAnswerSeconds = 10;

}  // namespace

struct TrackerClient::State {
  std::string address, authorization;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::Tracker::Stub> stub;

  template <class Reply, class Request>
  Result<Reply> call(grpc::Status (wire::Tracker::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, double wait_s = 0) {
    if (request.ByteSizeLong() > static_cast<size_t>(kMaxRemoteMessageBytes))
      return fail(ErrorCode::E803, fmt::format("{} bytes are too many for one message", request.ByteSizeLong()),
                  address);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>(1e3 * (wait_s + kAnswerSeconds))));
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    Reply reply;
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    if (status.ok()) return reply;
    return fail(code_of(status), status.error_message(), address);
  }

  static ErrorCode code_of(const grpc::Status& status) {
    // What the tracker itself refused, it says.
    for (const ErrorCode code : {ErrorCode::E802, ErrorCode::E803, ErrorCode::E805})
      if (status.error_details() == error_info(code).name) return code;
    switch (status.error_code()) {
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return ErrorCode::E802;
      case grpc::StatusCode::INVALID_ARGUMENT:
      case grpc::StatusCode::OUT_OF_RANGE:
        return ErrorCode::E803;
      case grpc::StatusCode::UNIMPLEMENTED:
        return ErrorCode::E805;
      // Threads that are all taken and a message that is too large look the same, but for the words.
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return status.error_message().find("larger than max") != std::string::npos ? ErrorCode::E803 : ErrorCode::E801;
      // Streams that were cut short are INTERNAL, too. TLS that fails is a connection that fails; the library's words
      // tell them apart.
      default:
        return status.error_message().find("SSL_ERROR_SSL") != std::string::npos ? ErrorCode::E802 : ErrorCode::E801;
    }
  }
};

TrackerClient::TrackerClient(const Address& address, const Credentials& c) : state_(std::make_unique<State>()) {
  state_->address = address.to_string();
  if (!c.token.empty()) state_->authorization = "Bearer " + c.token;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (c.tls) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = c.ca;
    tls.pem_cert_chain = c.cert;
    tls.pem_private_key = c.key;
    credentials = grpc::SslCredentials(tls);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxRemoteMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxRemoteMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy is no place for a tracker
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  state_->channel = grpc::CreateCustomChannel(state_->address, credentials, arguments);
  state_->stub = wire::Tracker::NewStub(state_->channel);
}

TrackerClient::~TrackerClient() = default;

const std::string& TrackerClient::address() const { return state_->address; }

Result<wire::RegisterReply> TrackerClient::enlist(const wire::RegisterRequest& request) {
  return state_->call(&wire::Tracker::Stub::Register, request);
}
Result<wire::Work> TrackerClient::next(const wire::NextRequest& request) {
  return state_->call(&wire::Tracker::Stub::Next, request, request.wait_s());
}
Result<wire::BeatReply> TrackerClient::beat(const wire::BeatRequest& request) {
  return state_->call(&wire::Tracker::Stub::Beat, request);
}
Result<wire::OpenReply> TrackerClient::open(const wire::OpenRequest& request) {
  return state_->call(&wire::Tracker::Stub::Open, request);
}
Result<wire::SubmitReply> TrackerClient::submit(const wire::SubmitRequest& request) {
  return state_->call(&wire::Tracker::Stub::Submit, request);
}
Result<wire::FetchReply> TrackerClient::fetch(const wire::FetchRequest& request) {
  return state_->call(&wire::Tracker::Stub::Fetch, request, request.wait_s());
}
Result<wire::QueryReply> TrackerClient::query() {
  return state_->call(&wire::Tracker::Stub::Query, wire::QueryRequest());
}

}  // namespace fettle
