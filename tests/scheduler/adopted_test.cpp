// A sandbox that its maker supervises itself, and is killed with it.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "sandbox/scan_record.h"
#include "scheduler/world.h"

namespace sallyport::scheduler {
namespace {

namespace fs = std::filesystem;

class AdoptedContainer : public World {};

TEST_F(AdoptedContainer, WhoseMakerIsStillDyingWhenItsSessionHasEndedIsScanned) {
  auto record = sandbox::ScanRecord::write(path("/scans"), "adopted",
                                           sandbox::find_protected(path("/desk"), path("/home"), true, {}, {}));
  ASSERT_TRUE(record) << record.error().describe();
  record->must_stay();
  const std::string hook = path("/desk/new/.git/hooks/pre-commit");
  fs::create_directories(fs::path(hook).parent_path());
  std::ofstream(hook) << "evil";
  // It alone holds the record from now on.
  const pid_t maker = ::fork();
  if (maker == 0) {
    for (;;) ::pause();
  }
  *record = sandbox::ScanRecord();
  containers::Config config;
  config.profile = "helper";
  const auto adopted = life_->registry.prepare(config);
  ASSERT_TRUE(adopted) << adopted.error().describe();
  ASSERT_TRUE(life_->registry.adopt(**adopted, {.pid = maker, .maker = maker, .pid_namespace = {}}));
  life_->registry.release(**adopted, SIGKILL);
  // Whatever is asked of the launcher meanwhile comes after.
  container("helper");
  EXPECT_TRUE(fs::exists(hook)) << "as long as its maker lives it is not ours to scan";
  ::kill(maker, SIGKILL);
  ::waitpid(maker, nullptr, 0);
  EXPECT_TRUE(until([&] { return !fs::exists(hook); }));
}

}  // namespace
}  // namespace sallyport::scheduler
