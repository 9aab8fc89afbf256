// Registers the drivers of all devices with a static libibverbs, before main().

#define RDMA_STATIC_PROVIDERS all
#include <infiniband/verbs.h>

extern "C" {
/// Symbol for the linker option -u, which makes the linker include this file. The value is unused.
extern const int rdmawire_static_verbs;
const int rdmawire_static_verbs = [] {
  ibv_static_providers(nullptr, &verbs_provider_all, nullptr);
  return 1;
}();
}
