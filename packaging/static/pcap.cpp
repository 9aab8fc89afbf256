// Replaces libpcap's D-Bus module with one that supports no device. A static libpcap then needs no libdbus.
// The signatures are those of pcap-dbus.h in libpcap 1.10.

#include <pcap/pcap.h>

extern "C" {

/// Reports that `device` does not belong to D-Bus.
pcap_t* dbus_create(const char* device, char* error, int* is_ours);
pcap_t* dbus_create(const char* /*device*/, char* /*error*/, int* is_ours) {
  *is_ours = 0;
  return nullptr;
}

/// Adds no device.
int dbus_findalldevs(void* list, char* error);
int dbus_findalldevs(void* /*list*/, char* /*error*/) { return 0; }
}
