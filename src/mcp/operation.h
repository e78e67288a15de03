// A tool call on its way through the warden: what file tools and commands have in common.
#pragma once

#include <memory>
#include <string>

#include "mcp/place.h"
#include "mcp/server.h"

namespace sallyport::mcp {

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<ToolCall> call, Place& place, std::string workspace)
      : call_(std::move(call)), place_(place), workspace_(std::move(workspace)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void start(std::string method, std::string params, std::string content = {});
  // Does what is due and says when it wants to be asked again.
  SteadyTime turn(SteadyTime now);
  bool is_over() const { return is_over_; }

 protected:
  // From turn(), never from within the connection's own work.
  virtual void on_answer(const Result<Answer>& answer) = 0;  // may start() again
  virtual void on_event(const wire::Message& event);
  virtual SteadyTime on_turn(SteadyTime /*now*/) { return SteadyTime::max(); }

  void fail(const Error& error);
  void cancel() { place_.cancel(*request_); }
  ToolCall& call() { return *call_; }
  Place& place() { return place_; }
  void approved() { is_waiting_ = false; }

 private:
  SteadyTime remind(SteadyTime now);

  std::shared_ptr<ToolCall> call_;
  Place& place_;
  std::string workspace_;
  std::shared_ptr<Request> request_;
  std::optional<Result<Answer>> answer_;
  std::string approval_;  // what a human must decide, or has
  SteadyTime asked_at_, next_reminder_;
  bool is_waiting_ = false;  // for them
  bool is_over_ = false;
};

}  // namespace sallyport::mcp
