// A static program cannot load the name service modules of a host with another glibc. This restricts host names to
// the two services that glibc contains: /etc/hosts and DNS.

#include <nss.h>

namespace {
[[maybe_unused]] const int configured = __nss_configure_lookup("hosts", "files dns");
}
