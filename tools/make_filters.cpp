// Writes the seccomp programs of src/sandbox/filter_rules.h as a C++ source: make_filters OUTPUT.
#include <linux/filter.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/sanitized.h"
#include "os/beneath.h"
#include "sandbox/filter_rules.h"
#include "sandbox/traced_calls.h"

namespace {

using namespace sallyport::sandbox;
using sallyport::kIsSanitized;
using sallyport::os::kOpenTableEnd;

[[noreturn]] void fail(const char* what, int error) {
  std::fprintf(stderr, "make_filters: %s: error %d\n", what, -error);
  std::exit(1);
}

void must(const char* what, int result) {
  if (result < 0) fail(what, result);
}

scmp_arg_cmp comparison(const ArgTest& test) {
  switch (test.compare) {
    case Compare::equal:
      return {test.index, SCMP_CMP_EQ, test.value, 0};
    case Compare::not_equal:
      return {test.index, SCMP_CMP_NE, test.value, 0};
    case Compare::greater:
      return {test.index, SCMP_CMP_GT, test.value, 0};
    case Compare::masked:
      return {test.index, SCMP_CMP_MASKED_EQ, test.value, test.wanted};
    case Compare::always:
      break;
  }
  fail("a test that compares nothing", 0);
}

bool overridden(std::span<const FilterRule> stricter, const FilterRule& rule) {
  for (const FilterRule& other : stricter) {
    if (other.call == rule.call) return true;
  }
  return false;
}

void add(scmp_filter_ctx context, const FilterRule& rule, bool is_notified) {
  const std::uint32_t action =
      is_notified && rule.is_violation ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO(static_cast<std::uint16_t>(rule.error));
  std::vector<scmp_arg_cmp> tests;
  for (const ArgTest& test : {rule.first, rule.second}) {
    if (test.compare != Compare::always) tests.push_back(comparison(test));
  }
  must(rule.name,
       seccomp_rule_add_array(context, action, rule.call, static_cast<unsigned>(tests.size()), tests.data()));
}

std::vector<sock_filter> exported(scmp_filter_ctx context) {
  const int file = memfd_create("filter", 0);
  must("memfd", file);
  must("export", seccomp_export_bpf(context, file));
  const off_t bytes = lseek(file, 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
  must("read back", pread(file, program.data(), static_cast<std::size_t>(bytes), 0) == bytes ? 0 : -1);
  close(file);
  seccomp_release(context);
  return program;
}

void allow(scmp_filter_ctx context, const char* what, int call, const std::vector<scmp_arg_cmp>& tests) {
  must(what, seccomp_rule_add_array(context, SCMP_ACT_ALLOW, call, static_cast<unsigned>(tests.size()), tests.data()));
}

std::vector<sock_filter> compile_worker() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (context == nullptr) fail("init", 0);
  must("foreign architectures", seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
  must("binary tree", seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2));
  for (const int call : kWorkerCalls) allow(context, "worker call", call, {});
  if (kIsSanitized) {
    for (const int call : kSanitizerCalls) allow(context, "sanitizer call", call, {});
  }
  // Nothing but the table is mapped below its end, and nothing can be put there.
  const scmp_arg_cmp is_above_table{0, SCMP_CMP_GE, kOpenTableEnd, 0};
  const auto has_none_of = [](std::uint64_t flags) { return scmp_arg_cmp{3, SCMP_CMP_MASKED_EQ, flags, 0}; };
  allow(context, "openat2", SYS_openat2, {{2, SCMP_CMP_LT, kOpenTableEnd, 0}});
  for (const int call : {SYS_munmap, SYS_mprotect, SYS_madvise}) allow(context, "memory", call, {is_above_table});
  allow(context, "mremap", SYS_mremap, {is_above_table, has_none_of(MREMAP_FIXED)});
  allow(context, "mmap", SYS_mmap, {is_above_table, has_none_of(MAP_GROWSDOWN)});
  allow(context, "mmap", SYS_mmap, {{0, SCMP_CMP_EQ, 0, 0}, has_none_of(MAP_FIXED | MAP_GROWSDOWN)});
  // libc falls back to clone, whose flags the container's own filter sees.
  must("clone3", seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SYS_clone3, 0));
  return exported(context);
}

std::vector<sock_filter> compile_traced() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) fail("init", 0);
  must("binary tree", seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2));
  for (const TracedCall& traced : kTracedCalls)
    must(traced.name, seccomp_rule_add(context, SCMP_ACT_TRACE(0), traced.call, 0));
  return exported(context);
}

std::vector<sock_filter> compile_start() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) fail("init", 0);
  for (const FilterRule& rule : kStartRules) add(context, rule, false);
  return exported(context);
}

std::vector<sock_filter> compile(bool is_notified, bool is_weak) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) fail("init", 0);
  must("foreign architectures", seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
  must("binary tree", seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2));
  for (const FilterRule& rule : kCommandRules) {
    if (is_weak && overridden(kWeakRules, rule)) continue;
    add(context, rule, is_notified);
  }
  if (is_weak) {
    for (const FilterRule& rule : kWeakRules) add(context, rule, is_notified);
  }
  const std::vector<sock_filter> checks = exported(context);

  // libseccomp cannot compare call numbers by range: numbers above the newest known one answer
  // ENOSYS, except those with the x32 bit, which the program itself kills.
  constexpr std::uint32_t kX32Bit = 0x40000000;
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, static_cast<std::uint32_t>(kNewestKnownCall), 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(ENOSYS)),
  };
  program.insert(program.end(), checks.begin(), checks.end());
  return program;
}

void write_array(std::FILE* out, const char* name, const std::vector<sock_filter>& program) {
  std::fprintf(out, "constexpr sock_filter %s[] = {\n", name);
  for (const sock_filter& step : program) {
    std::fprintf(out, "    {0x%x, %u, %u, 0x%x},\n", step.code, step.jt, step.jf, step.k);
  }
  std::fprintf(out, "};\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::FILE* out = std::fopen(argv[1], "w");
  if (out == nullptr) return 1;
  std::fprintf(out,
               "// Made by tools/make_filters.cpp from src/sandbox/filter_rules.h; do not edit.\n"
               "#include \"sandbox/filters.h\"\n\nnamespace sallyport::sandbox {\nnamespace {\n\n");
  must("api", seccomp_api_set(6));  // the target's kernel decides, not the build machine's
  write_array(out, "kCommand", compile(false, false));
  write_array(out, "kCommandNotified", compile(true, false));
  write_array(out, "kWeak", compile(false, true));
  write_array(out, "kTraced", compile_traced());
  write_array(out, "kStart", compile_start());
  write_array(out, "kWorker", compile_worker());
  std::fprintf(out,
               "\n}  // namespace\n\nstd::span<const sock_filter> filter_program(Filter filter) {\n"
               "  switch (filter) {\n"
               "    case Filter::command: return kCommand;\n"
               "    case Filter::command_notified: return kCommandNotified;\n"
               "    case Filter::weak: return kWeak;\n"
               "    case Filter::traced: return kTraced;\n"
               "    case Filter::start: return kStart;\n"
               "    case Filter::worker: return kWorker;\n"
               "  }\n"
               "  return kWeak;\n"
               "}\n\n}  // namespace sallyport::sandbox\n");
  return std::fclose(out) == 0 ? 0 : 1;
}
