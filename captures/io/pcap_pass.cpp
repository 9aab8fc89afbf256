// Reads a capture file once with libpcap, which is the minimum cost of any tool that uses libpcap. scripts/bench uses
// it as the baseline.

#include <pcap/pcap.h>

#include <cstdint>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pcap_pass FILE\n");
    return 2;
  }
  char error[PCAP_ERRBUF_SIZE];
  pcap_t* const capture = pcap_open_offline(argv[1], error);
  if (capture == nullptr) {
    std::fprintf(stderr, "pcap_pass: %s\n", error);
    return 3;
  }
  std::uint64_t packets = 0, total = 0;
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  while (pcap_next_ex(capture, &header, &bytes) == 1) {
    ++packets;
    total += bytes[0] + header->len;
  }
  pcap_close(capture);
  std::printf("%llu packets, %llu\n", static_cast<unsigned long long>(packets), static_cast<unsigned long long>(total));
}
