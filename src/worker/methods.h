// The handlers of the worker's methods, one per row of the table in service.cpp.
#pragma once

#include "worker/service.h"

namespace sallyport::worker::methods {

extern const wire::Schema kReadSchema;
extern const wire::Schema kWriteSchema;
extern const wire::Schema kEditSchema;
extern const wire::Schema kMultiEditSchema;
extern const wire::Schema kGlobSchema;
extern const wire::Schema kGrepSchema;
extern const wire::Schema kStatSchema;
extern const wire::Schema kListSchema;
extern const wire::Schema kCopySchema;
extern const wire::Schema kMoveSchema;
extern const wire::Schema kRemoveSchema;
extern const wire::Schema kMkdirSchema;
extern const wire::Schema kEnvSchema;

Status read(const Service& service, const Call& call);
Status write(const Service& service, const Call& call);
Status edit(const Service& service, const Call& call);
Status multi_edit(const Service& service, const Call& call);
Status glob(const Service& service, const Call& call);
Status grep(const Service& service, const Call& call);
Status stat(const Service& service, const Call& call);
Status list(const Service& service, const Call& call);
Status copy(const Service& service, const Call& call);
Status move(const Service& service, const Call& call);
Status remove(const Service& service, const Call& call);
Status mkdir(const Service& service, const Call& call);
Status env_get(const Service& service, const Call& call);
Status pong(const Service& service, const Call& call);

}  // namespace sallyport::worker::methods
