#include "mcp/place.h"

#include <algorithm>

namespace sallyport::mcp {
namespace {

// Every method has its own limit in the warden, and what waits for a human must be able to.
CallOptions no_hurry() { return {.deadline = Millis(wire::kMaxDeadlineMs), .token = {}}; }

std::string create_params(const PlaceOptions& options) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("template", options.profile).key("config").begin_object();
    json.member("workspace", options.workspace).member("ends_with_session", true);
    json.key("profile").begin_object().member("read_only", options.is_read_only).end_object();
    json.end_object().end_object();
  });
}

}  // namespace

// The end of the connection answers all that was asked on it, and whoever asked may be gone.
Place::~Place() {
  for (const auto& request : sent_) request->on_answer = [](const Result<Answer>&) {};
  client_.reset();
}

void Place::open() {
  if (client_) return;
  auto client = connect_(Warden::answering);
  if (!client) return fail(client.error());
  client_ = std::move(*client);
  client_->wait_eagerly();
  is_ready_ = false;
  client_->on_event([this](const wire::Message& event) {
    // Copied: what it calls may change the list.
    for (const auto& request : std::vector(sent_)) {
      if (request->id == event.id && request->on_event) request->on_event(event);
    }
  });
  const auto asked = client_->start(
      "container.create", create_params(options_),
      [this](Result<Answer> answer) { answer ? narrow(*answer) : fail(answer.error()); }, no_hurry());
  if (!asked) fail(asked.error());
}

void Place::narrow(const Answer& created) {
  container_ = created.value().get("container").as_string().value_or("");
  const std::string params =
      wire::to_json([&](wire::JsonWriter& json) { json.begin_object().member("container", container_).end_object(); });
  const auto asked = client_->start("session.narrow", params, [this](Result<Answer> answer) {
    if (!answer) return fail(answer.error());
    is_ready_ = has_been_ready_ = true;
  });
  if (!asked) fail(asked.error());
}

// What is wrong is not what was asked, so whoever asked is told that too.
static Error no_sandbox(Error error) {
  error.message.insert(0, "No sandbox can be made here: ");
  error.details_json = R"({"reason":"no_sandbox"})";
  return error;
}

void Place::fail(const Error& error) {
  failure_ = error;
  for (const auto& request : std::exchange(waiting_, {})) {
    request->is_over = true;
    request->on_answer(no_sandbox(error));
  }
}

void Place::send(std::shared_ptr<Request> request) {
  if (!client_) open();
  if (is_ready_) return start(request);
  if (!client_) {
    request->is_over = true;
    return request->on_answer(no_sandbox(*failure_));
  }
  waiting_.push_back(std::move(request));
}

void Place::start(const std::shared_ptr<Request>& request) {
  std::string params = request->params;
  if (!request->content.empty()) {
    auto stream = client_->open_stream();
    if (!stream) return request->on_answer(stream.error());
    request->stream = *stream;
    params.replace(params.size() - 1, 1, R"(,"content":{"$stream":)" + std::to_string(*stream) + "}}");
  }
  sent_.push_back(request);
  auto id = client_->start(
      request->method, params,
      [this, request](Result<Answer> answer) {
        request->is_over = true;
        std::erase(sent_, request);
        request->on_answer(std::move(answer));
      },
      no_hurry());
  if (!id) {
    std::erase(sent_, request);
    request->is_over = true;
    return request->on_answer(id.error());
  }
  request->id = *id;
  write_content(*request);
}

// Whatever goes wrong with it, the answer says.
void Place::write_content(Request& request) {
  const ByteView left = as_bytes(request.content).subspan(request.written);
  const std::size_t size = std::min(left.size(), client_->writable(request.stream));
  if (size == 0 || !client_->write_stream(request.stream, left.first(size))) return;
  request.written += size;
  if (size == left.size()) [[maybe_unused]]
    const Status finished = client_->finish_stream(request.stream);
}

void Place::cancel(Request& request) {
  if (request.is_over) return;
  if (!request.id.empty()) return client_->cancel(request.id);
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& each) { return &*each == &request; });
  if (found == waiting_.end()) return;
  const std::shared_ptr<Request> held = std::move(*found);
  waiting_.erase(found);
  held->is_over = true;
  held->on_answer(Error::make(Code::cancelled, "cancelled before it was sent"));
}

Result<Bytes> Place::read(std::uint32_t stream) {
  if (!client_) return Error::make(Code::unavailable, "the connection is lost");
  return client_->read_stream(stream, Millis(0));
}

void Place::drop(std::uint32_t stream) {
  if (client_) client_->reset_stream(stream, Error::make(Code::cancelled, "nobody reads it any more"));
}

Status Place::turn(Millis wait) {
  if (client_) {
    // The end of the connection answers everything that was asked on it.
    if (const Status dispatched = client_->dispatch(wait); !dispatched || failure_) {
      client_.reset();
      is_ready_ = false;
      container_.clear();
    }
  }
  if (is_ready_) {
    for (const auto& request : std::vector(sent_)) write_content(*request);
    for (const auto& request : std::exchange(waiting_, {})) start(request);
  }
  if (!failure_) return ok();
  const Error error = *failure_;
  fail(error);  // whoever came to wait since
  failure_.reset();
  return error;
}

std::vector<std::string> Place::end(Millis most) {
  std::vector<std::string> findings;
  if (!is_ready_) return findings;
  std::optional<Result<Answer>> ended;
  // A narrowed session may not end its own container: this is asked as who made it.
  const auto maker = connect_(Warden::running);
  if (!maker) return findings;
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("container", container_).member("grace_ms", 0).end_object();
  });
  const auto asked = (*maker)->start(
      "container.stop", params, [&](Result<Answer> answer) { ended.emplace(std::move(answer)); }, no_hurry());
  // Not a call, which waits a little longer for a warden to say itself that the time is over.
  const SteadyTime until = std::chrono::steady_clock::now() + most;
  bool is_there = asked.has_value();
  while (is_there && !ended && std::chrono::steady_clock::now() < until) {
    is_there = (*maker)->dispatch(std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now())).has_value();
  }
  if (is_there && !ended) {
    findings.emplace_back(
        "the sandbox is still being looked through; see `sallyport audit query --method container.finding`");
  }
  if (!ended || !*ended) return findings;
  for (const wire::Value report : (*ended)->value().get("reports").items()) {
    findings.emplace_back(report.as_string().value_or(""));
  }
  return findings;
}

}  // namespace sallyport::mcp
