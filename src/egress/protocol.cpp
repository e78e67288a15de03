#include "egress/protocol.h"

#include <algorithm>
#include <span>

#include "os/packets.h"

namespace sallyport::egress {
namespace {

using wire::JsonWriter;
using wire::Value;

constexpr std::string_view kProtocols[] = {"connect", "http", "socks"};
constexpr std::string_view kKinds[] = {"refused", "opened", "closed"};
constexpr std::string_view kReport = "egress.report";

void write_rules(JsonWriter& json, const char* name, const std::vector<policy::NetRule>& rules) {
  json.key(name).begin_array();
  for (const policy::NetRule& rule : rules) json.value(rule.text);
  json.end_array();
}

std::vector<std::string> texts(Value array) {
  std::vector<std::string> all;
  for (const Value item : array.items()) all.emplace_back(item.as_string().value_or(""));
  return all;
}

std::string text(Value value) { return std::string(value.as_string().value_or("")); }
std::uint64_t number(Value value) { return value.as_uint().value_or(0); }

struct OrderWriter {
  JsonWriter& json;
  std::string_view operator()(const Serve& order) const {
    json.begin_object().member("container", order.container);
    write_policy(json.key("policy"), order.policy);
    json.member("used_bytes", order.used.bytes).member("used_requests", order.used.requests).end_object();
    return "egress.serve";
  }
  std::string_view operator()(const Update& order) const {
    json.begin_object().member("container", order.container);
    write_policy(json.key("policy"), order.policy);
    json.end_object();
    return "egress.update";
  }
  std::string_view operator()(const Stop& order) const {
    json.begin_object().member("container", order.container).end_object();
    return "egress.stop";
  }
};

Result<Bytes> event(std::string_view method, std::string_view params) {
  Bytes out;
  TRY(wire::append_event(out, "", method, params));
  if (out.size() > os::kMaxPacketBytes) return Error::make(Code::payload_too_large, "the net rules are too many");
  return out;
}

Result<wire::Message> decode(wire::Decoder& decoder, ByteView packet) {
  wire::FrameReader reader;
  reader.feed(packet);
  TRY(const auto body, reader.next());
  if (!body || packet.size() != body->size() + wire::kHeaderBytes) {
    return Error::make(Code::protocol_error, "a packet is no frame");
  }
  auto message = wire::decode_message(decoder, *body);
  if (!message) return message.malformed().error;
  if (message->type != wire::MessageType::event) return Error::make(Code::protocol_error, "a packet is no event");
  return std::move(*message);
}

std::optional<std::size_t> index_of(std::span<const std::string_view> names, Value name) {
  const auto found = std::find(names.begin(), names.end(), name.as_string().value_or(""));
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

void write_policy(JsonWriter& json, const policy::NetPolicy& policy) {
  json.begin_object();
  write_rules(json, "allow", policy.allow);
  write_rules(json, "deny", policy.deny);
  json.member("bytes", policy.limits.bytes).member("requests", policy.limits.requests);
  json.member("tunnels", policy.limits.tunnels).member("idle_ms", policy.limits.idle.count());
  json.member("duration_ms", policy.limits.duration.count()).member("faulty", policy.is_faulty).end_object();
}

Result<policy::NetPolicy> read_policy(Value value) {
  policy::NetLimits limits;
  limits.bytes = number(value.get("bytes"));
  limits.requests = number(value.get("requests"));
  limits.tunnels = static_cast<std::uint32_t>(number(value.get("tunnels")));
  limits.idle = Millis(value.get("idle_ms").as_int().value_or(0));
  limits.duration = Millis(value.get("duration_ms").as_int().value_or(0));
  TRY(auto policy, policy::NetPolicy::make(texts(value.get("allow")), texts(value.get("deny")), limits));
  // Absent is not "no".
  policy.is_faulty = value.get("faulty").as_bool().value_or(true);
  return policy;
}

std::string_view to_string(Protocol protocol) { return kProtocols[static_cast<std::size_t>(protocol)]; }

bool is_violation(const Report& report) {
  if (report.kind == Report::Kind::closed) return report.code == Code::quota_exceeded;
  constexpr Code kViolations[] = {Code::policy_denied, Code::quota_exceeded, Code::rate_limited, Code::protocol_error,
                                  Code::payload_too_large};
  return report.kind == Report::Kind::refused &&
         std::find(std::begin(kViolations), std::end(kViolations), report.code) != std::end(kViolations);
}

std::string Report::target() const { return port == 0 ? host : host + ":" + std::to_string(port); }

Result<Bytes> encode(const ToProxy& message) {
  std::string_view method;
  const std::string params = wire::to_json([&](JsonWriter& json) { method = std::visit(OrderWriter{json}, message); });
  return event(method, params);
}

void write_report(JsonWriter& json, const Report& report) {
  json.begin_object().member("kind", kKinds[static_cast<std::size_t>(report.kind)]);
  json.member("container", report.container).member("number", report.number);
  json.member("protocol", to_string(report.protocol)).member("host", report.host);
  json.member("port", static_cast<unsigned>(report.port)).member("rule", report.rule);
  if (report.code) json.member("code", to_string(*report.code));
  json.member("remedy", report.remedy);
  json.member("reason", report.reason).member("sent", report.sent);
  json.member("received", report.received).member("count", report.count).end_object();
}

Result<Bytes> encode(const Report& report) {
  return event(kReport, wire::to_json([&](JsonWriter& json) { write_report(json, report); }));
}

Result<ToProxy> decode_order(wire::Decoder& decoder, ByteView packet) {
  TRY(const wire::Message message, decode(decoder, packet));
  const Value params = message.params;
  std::string container = text(params.get("container"));
  if (container.empty()) return Error::make(Code::protocol_error, "no container is named");
  if (message.method == "egress.stop") return ToProxy(Stop{std::move(container)});
  if (message.method != "egress.serve" && message.method != "egress.update") {
    return Error::make(Code::method_not_found, "an unknown order");
  }
  TRY(auto policy, read_policy(params.get("policy")));
  if (message.method == "egress.update") return ToProxy(Update{std::move(container), std::move(policy)});
  return ToProxy(Serve{std::move(container),
                       std::move(policy),
                       {number(params.get("used_bytes")), number(params.get("used_requests"))}});
}

Result<Report> decode_report(wire::Decoder& decoder, ByteView packet) {
  TRY(const wire::Message message, decode(decoder, packet));
  if (message.method != kReport) return Error::make(Code::protocol_error, "an unknown report");
  return read_report(message.params);
}

Result<Report> read_report(Value params) {
  Report report;
  const auto kind = index_of(kKinds, params.get("kind"));
  const auto protocol = index_of(kProtocols, params.get("protocol"));
  const std::uint64_t port = number(params.get("port"));
  if (!kind || !protocol || port > 65'535) return Error::make(Code::protocol_error, "an unknown report");
  report.kind = static_cast<Report::Kind>(*kind);
  report.protocol = static_cast<Protocol>(*protocol);
  report.container = text(params.get("container"));
  report.number = number(params.get("number"));
  report.host = text(params.get("host"));
  report.port = static_cast<std::uint16_t>(port);
  if (const Value code = params.get("code")) report.code = code_from_string(code.as_string().value_or(""));
  const bool lacks_code = !report.code && (report.kind == Report::Kind::refused || params.get("code"));
  if (lacks_code) return Error::make(Code::protocol_error, "an unknown report");
  report.rule = text(params.get("rule"));
  report.remedy = text(params.get("remedy"));
  report.reason = text(params.get("reason"));
  report.sent = number(params.get("sent"));
  report.received = number(params.get("received"));
  report.count = std::max<std::uint64_t>(number(params.get("count")), 1);
  return report;
}

}  // namespace sallyport::egress
