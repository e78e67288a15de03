// approval.list show approve deny
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using approval::Question;
using approval::QuestionState;
using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

// Whatever policy says: only at the control door, and never by a session that speaks for a container.
Status check_place(const Permit& permit, const RequestContext& context) {
  if (permit.principal().is_host() && !context.is_narrowed && context.process != 0) return ok();
  return Error::make(Code::policy_denied, "approvals are seen and answered at the control door only");
}

Task<Reply> list(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  CO_TRY(check_place(permit, context));
  const std::string after = text(call.params().get("after"));
  const auto page = co_await host.gate.list(after);
  if (!page) co_return page.error();
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().key("approvals").begin_array();
    for (const Question& question : page->questions) {
      json.begin_object();
      approval::write_question(json, question, false);
      json.end_object();
    }
    json.end_array().member("has_more", page->has_more).end_object();
  });
}

constexpr Field kShow[] = {{.name = "id", .type = Type::string, .required = true, .most = 64}};

Task<Reply> show(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  CO_TRY(check_place(permit, context));
  const auto question = co_await host.gate.find(text(call.params().get("id")));
  if (!question) co_return question.error();
  co_return call.result([&](JsonWriter& json) {
    json.begin_object();
    approval::write_question(json, *question, true);
    const auto runs = host.mailbox.command_of(question->matter.container, question->matter.request_id);
    if (!runs.empty()) {
      json.key("runs").begin_array();
      for (const std::string& argument : runs) json.value(argument);
      json.end_array();
    }
    json.end_object();
  });
}

constexpr Field kAnswer[] = {{.name = "id", .type = Type::string, .required = true, .most = 64},
                             {.name = "why", .type = Type::string, .most = approval::kMaxWhyBytes},
                             {.name = "sha256", .type = Type::string, .least = 64, .most = 64}};

Task<Reply> answer(const Permit& permit, Call& call, RequestContext& context, Host& host, bool is_approved) {
  CO_TRY(check_place(permit, context));
  const auto question = co_await host.gate.answer(text(call.params().get("id")), is_approved,
                                                  "host/uid " + std::to_string(context.peer.uid),
                                                  text(call.params().get("why")), text(call.params().get("sha256")));
  if (!question) co_return question.error();
  if (question->state == QuestionState::expired) {
    co_return Error::make(Code::approval_expired, "the question has expired; nothing will run");
  }
  if (question->state == QuestionState::voided) {
    co_return Error::make(Code::conflict, "the question is void: " + question->why);
  }
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("id", question->id).member("state", to_string(question->state)).end_object();
  });
}

Task<Reply> approve(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  return answer(permit, call, context, host, true);
}

Task<Reply> deny(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  return answer(permit, call, context, host, false);
}

constexpr Method kMethods[] = {
    {.name = "approval.list", .handle = list, .params = wire::kPageFields},
    {.name = "approval.show", .handle = show, .params = kShow},
    {.name = "approval.approve", .handle = approve, .params = kAnswer, .audit = Audit::durable},
    {.name = "approval.deny", .handle = deny, .params = kAnswer, .audit = Audit::durable},
};

}  // namespace

std::span<const Method> approval_methods() { return kMethods; }

}  // namespace sallyport::handlers
