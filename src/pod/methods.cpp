#include "pod/methods.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>

#include "pod/limits.h"

namespace sallyport::pod {
namespace {

using wire::Field;
using wire::Schema;
using wire::Type;

constexpr Field kPod{.name = "pod", .type = Type::string, .least = 1, .most = kMaxNameBytes};
constexpr Field kSizeFields[] = {
    {.name = "rows", .type = Type::integer, .required = true, .least = 1, .most = kMaxRows},
    {.name = "columns", .type = Type::integer, .required = true, .least = 1, .most = kMaxColumns}};
constexpr Field kStreamFields[] = {{.name = "$stream", .type = Type::integer, .required = true, .least = 1}};

constexpr Field kAttach[] = {kPod,
                             {.name = "role", .type = Type::string},
                             {.name = "take", .type = Type::boolean},
                             {.name = "size", .type = Type::object, .fields = kSizeFields},
                             {.name = "resume_offset", .type = Type::integer, .least = 0},
                             {.name = "input", .type = Type::object, .fields = kStreamFields}};
constexpr Field kLog[] = {kPod, {.name = "follow", .type = Type::boolean}};
constexpr Field kResize[] = {kPod, {.name = "size", .type = Type::object, .required = true, .fields = kSizeFields}};
constexpr Field kRole[] = {kPod, {.name = "role", .type = Type::string, .required = true}};
constexpr Field kSignal[] = {kPod, {.name = "signal", .type = Type::integer, .required = true, .least = 1, .most = 64}};
constexpr Field kStop[] = {kPod, {.name = "grace_ms", .type = Type::integer, .least = 0, .most = 10 * 60 * 1000}};
constexpr Field kWait[] = {kPod, {.name = "collect", .type = Type::boolean}};
constexpr Field kStatus[] = {kPod};

// What only a warden asks for: what to write down, which of its connections it writes down itself, and what the net
// rules are now. The voucher is any secret of its own, the same in both.
constexpr Field kVoucher{.name = "voucher", .type = Type::string, .required = true, .least = 16, .most = 64};
constexpr Field kLink[] = {kVoucher};
constexpr Field kReports[] = {
    kVoucher, {.name = "after", .type = Type::integer, .least = 0}, {.name = "knows_exit", .type = Type::boolean}};
// The connection becomes that of a file worker in the pod's sandbox: from the answer on it speaks the worker's methods.
constexpr Schema kWorker;
constexpr Field kNet[] = {{.name = "policy", .type = Type::object, .required = true}};

struct Row {
  std::string_view method;
  Schema schema;
  bool is_reported = false;
};
const std::array<Row, 12> kRows = {{{"pod.attach", kAttach, true},
                                    {"pod.log", kLog, true},
                                    {"pod.resize", kResize},
                                    {"pod.role", kRole, true},
                                    {"pod.signal", kSignal, true},
                                    {"pod.stop", kStop, true},
                                    {"pod.wait", kWait, true},
                                    {"pod.status", kStatus},
                                    {"pod.reports", kReports},
                                    {"pod.link", kLink},
                                    {"pod.worker", kWorker, true},
                                    {"pod.net", kNet}}};

const Row* find_row(std::string_view method) {
  const auto found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.method == method; });
  return found == kRows.end() ? nullptr : &*found;
}

}  // namespace

const Schema* find_schema(std::string_view method) {
  const Row* row = find_row(method);
  return row == nullptr ? nullptr : &row->schema;
}

bool is_reported(std::string_view method) {
  const Row* row = find_row(method);
  return row != nullptr && row->is_reported;
}

int exit_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::optional<int> exit_signal(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return std::nullopt;
  return WTERMSIG(wait_status);
}

void write_exit(wire::JsonWriter& json, int wait_status) {
  json.member("exit_code", exit_code(wait_status));
  if (const auto signal = exit_signal(wait_status)) json.member("signal", *signal);
  json.member("wait_status", wait_status);
}

void describe(wire::JsonWriter& json, const std::string& name, const Sighting& seen) {
  json.begin_object().member("pod", name).member("state", to_string(seen.life));
  if (!seen.problem.empty()) json.member("problem", seen.problem);
  if (const auto& record = seen.record) {
    json.member("address", record->address).member("pid", record->binding.pid).member("profile", record->profile);
    json.member("container", record->container)
        .member("workspace", record->workspace)
        .member("created_unix_ms", record->created_unix_ms);
    json.key("command").begin_array();
    for (const std::string& word : record->command) json.value(word);
    json.end_array();
    if (record->wait_status) write_exit(json, *record->wait_status);
  }
  json.end_object();
}

}  // namespace sallyport::pod
