#include "captures/extract/extract.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "captures/extract/checksums.hpp"
#include "captures/io/test_support.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string samples = RDMAWIRE_SOURCE_DIR "/captures/samples/";
constexpr SipKey key{1, 2};

/// Returns the captures in the repository, and in the shared directory if it exists.
std::vector<std::string> all_captures() {
  std::vector<std::string> found;
  auto collect = [&](const std::filesystem::path& directory) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, missing)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".pcap") != std::string::npos && entry.file_size() < 4'000'000)
        found.push_back(entry.path().string());
    }
  };
  collect(samples);
  const char* shared = std::getenv("RDMAWIRE_SHARED");
  collect(std::filesystem::path(shared ? shared : RDMAWIRE_SOURCE_DIR "/../shared") / "captures");
  std::sort(found.begin(), found.end());
  return found;
}

Extracted run(const std::string& input, const std::string& output, const ExtractOptions& options) {
  auto reader = Reader::open(input);
  auto writer = Writer::create(output);
  if (!reader || !writer) {
    ADD_FAILURE() << input;
    return {};
  }
  auto extracted = extract(*reader, *writer, options);
  EXPECT_TRUE(extracted) << to_string(extracted.error());
  EXPECT_TRUE(writer->close());
  return extracted.value_or(Extracted{});
}
ExtractOptions everything() {
  ExtractOptions options;
  options.select = [](const tracking::Packet&) { return true; };
  return options;
}
ExtractOptions anonymized(bool blank_payload = false) {
  ExtractOptions options = everything();
  options.anonymize = AnonymizeOptions{key, blank_payload};
  return options;
}
ExtractOptions frames(const std::set<std::uint64_t>& numbers, std::uint32_t around = 0) {
  ExtractOptions options;
  options.select = [numbers](const tracking::Packet& p) { return numbers.contains(p.number); };
  options.dissect = false;
  options.last = *numbers.rbegin();
  options.around = around;
  return options;
}
std::vector<std::string> numbers_in(const std::string& file) {
  std::vector<std::string> numbers;
  for (const auto& packet : read_all(Reader::open(file)).packets) {
    const std::string& comment = packet.comments.back();
    numbers.push_back(comment.substr(6, comment.find(' ', 6) - 6));
  }
  return numbers;
}

/// An address in a packet.
struct Address {
  Display kind;
  ByteVector bytes;
  friend auto operator<=>(const Address&, const Address&) = default;
};
void collect(const HeaderInfo& header, Bytes bytes, std::vector<Address>& out) {
  for (const Field& f : header.fields) {
    const bool address = f.display == Display::mac || f.display == Display::ipv4 || f.display == Display::ipv6 ||
                         f.display == Display::guid;
    if (!address || !f.present_in(bytes.data())) continue;
    const Bytes raw = f.bytes(bytes.data());
    out.push_back({f.display, {raw.begin(), raw.end()}});
  }
  if (!header.parts || bytes.size() <= header.size) return;
  const Parts parts = header.parts(bytes);
  for (std::size_t i = 0; i < parts.count; ++i)
    collect(*parts.layers[i].header, bytes.subspan(parts.layers[i].offset, parts.layers[i].length), out);
}
std::vector<Address> addresses_of(const tracking::Packet& packet) {
  std::vector<Address> out;
  for (const Layer& layer : packet.stack.layers()) collect(*layer.header, packet.stack.bytes_of(layer), out);
  return out;
}
template <class Visit>
void each_packet(const std::string& file, Visit visit) {
  auto reader = Reader::open(file);
  ASSERT_TRUE(reader) << to_string(reader.error());
  tracking::Dissector dissector;
  tracking::Packet packet;
  Record record;
  while (reader->next(record) == Next::record) {
    packet.number = record.number;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    visit(packet, record);
  }
}

/// Returns whether the anonymizer keeps the address, because it does not identify a host.
bool is_kept(const Address& address) {
  const ByteVector& o = address.bytes;
  if (std::all_of(o.begin(), o.end(), [](std::uint8_t b) { return b == 0; })) return true;
  switch (address.kind) {
    case Display::mac: return o[0] & 1;
    case Display::ipv4: return o[0] == 0 || o[0] == 127 || o[0] >= 224;
    case Display::ipv6:
      return o[0] == 0xff || (o[15] == 1 && std::all_of(o.begin(), o.end() - 1, [](std::uint8_t b) { return b == 0; }));
    default: return false;
  }
}

TEST(SipHash, HasThePublishedValue) {
  // Test vector in the appendix of the SipHash paper: key 00 to 0f, message 00 to 0e.
  std::uint8_t message[15];
  for (std::uint8_t i = 0; i < 15; ++i) message[i] = i;
  EXPECT_EQ(siphash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, message), 0xa129ca6149be45e5);
}

TEST(Pseudonyms, PreserveExactlyTheCommonPrefix) {
  Pseudonyms pseudonyms(key);
  std::uint32_t seed = 12345;
  auto random = [&] { return seed = seed * 1664525 + 1013904223; };
  auto shared = [](std::uint32_t a, std::uint32_t b) { return std::countl_zero(a ^ b); };
  for (int i = 0; i < 5000; ++i) {
    const std::uint32_t a = (random() & 0x00ffffff) | 0x53000000, b = a ^ (1U << (random() >> 27)) ^ (random() & 1);
    if (b >> 24 == 0 || b >> 24 == 127 || b >> 28 >= 14) continue;
    EXPECT_EQ(shared(a, b), shared(pseudonyms.ipv4(a), pseudonyms.ipv4(b))) << std::hex << a << " " << b;
  }
  EXPECT_NE(pseudonyms.ipv4(0x0a000002), 0x0a000002U);
  EXPECT_EQ(pseudonyms.ipv4(0x0a000002), Pseudonyms(key).ipv4(0x0a000002));
  EXPECT_NE(pseudonyms.ipv4(0x0a000002), Pseudonyms({1, 3}).ipv4(0x0a000002));
}

TEST(Pseudonyms, StayInSpecialRanges) {
  Pseudonyms pseudonyms(key);
  EXPECT_EQ(pseudonyms.ipv4(0x0a010203) >> 24, 10U);
  EXPECT_EQ(pseudonyms.ipv4(0xc0a80203) >> 16, 0xc0a8U);
  EXPECT_EQ(pseudonyms.ipv4(0xac1f0203) >> 20, 0xac1U);
  for (std::uint32_t kept : {0x00000000U, 0x7f000001U, 0xe0000016U, 0xffffffffU})
    EXPECT_EQ(pseudonyms.ipv4(kept), kept);
  // Pseudonyms of other addresses are outside of these ranges.
  for (std::uint32_t i = 0; i < 4096; ++i) {
    const std::uint32_t address = 0x08000000 + i * 0x1357b;
    if (address >> 24 == 10) continue;
    EXPECT_NE(pseudonyms.ipv4(address) >> 24, 10U);
  }
  EXPECT_EQ(pseudonyms.mac(0xffffffffffff), 0xffffffffffff);
  EXPECT_EQ(pseudonyms.mac(0x01005e000016), 0x01005e000016);
  EXPECT_EQ(pseudonyms.mac(0x525400000002) >> 40 & 3, 2U) << "locally administered, unicast";
}

TEST(Pseudonyms, DerivedAddressesStayConsistent) {
  Pseudonyms pseudonyms(key);
  const std::uint64_t mac = pseudonyms.mac(0x525400000002);
  // A GUID that contains the MAC address, and the link-local GID, in which the flag is inverted.
  EXPECT_EQ(pseudonyms.eui64(0x525400fffe000002), mac >> 24 << 40 | 0xfffe000000 | (mac & 0xffffff));
  const ByteVector gid = hex("fe80 0000 0000 0000 5054 00ff fe00 0002");
  const auto mapped = pseudonyms.ipv6(gid.data());
  EXPECT_EQ(load_be<8>(mapped.data()), 0xfe80000000000000);
  EXPECT_EQ(load_be<8>(mapped.data() + 8), (mac ^ 0x020000000000) >> 24 << 40 | 0xfffe000000 | (mac & 0xffffff));
  const ByteVector v4 = hex("0000 0000 0000 0000 0000 ffff 0a00 0002");
  EXPECT_EQ(load_be<4>(pseudonyms.ipv6(v4.data()).data() + 12), pseudonyms.ipv4(0x0a000002));
  // Solicited-node multicast groups of IPv6 and Ethernet.
  const ByteVector group = hex("ff02 0000 0000 0000 0000 0001 ff00 0002");
  EXPECT_EQ(load_be<3>(pseudonyms.ipv6(group.data()).data() + 13), pseudonyms.mac(0x3333ff000002) & 0xffffff);
}

TEST(Pseudonyms, ReplacesKnownAddressesInUndescribedBytes) {
  Pseudonyms pseudonyms(key);
  const std::uint32_t replaced = pseudonyms.ipv4(0x0a000003);
  const std::uint64_t mac = pseudonyms.mac(0x525400000003);
  const ByteVector raw =
      hex("ff 00000000000000000000ffff0a000003 0a000003 525400000003 525400000004"
          "00000000000000000000ffff0a000004 525400");
  ByteVector copy = raw;
  EXPECT_EQ(pseudonyms.replace_known(raw, copy), 2U);
  ByteVector expected = raw;
  store_be(expected.data() + 13, 4, replaced);
  store_be(expected.data() + 21, 6, mac);
  EXPECT_EQ(copy, expected) << "binary IPv4 addresses and unknown addresses are kept";
  const std::string_view text = "at 10.0.0.3:7471, not 110.0.0.3 nor 10.0.0.4, 10.0.0.3";
  const ByteVector words(text.begin(), text.end());
  copy = words;
  EXPECT_EQ(pseudonyms.replace_known(words, copy), 2U);
  EXPECT_EQ(std::string(copy.begin(), copy.end()),
            "at " + std::string(8, '\0') + ":7471, not 110.0.0.3 nor 10.0.0.4, " + std::string(8, '\0'));
}

TEST(Extract, CopiesSelectedAndSurroundingPackets) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  const Extracted one = run(samples + "rping.pcap", out, frames({100}));
  EXPECT_EQ(one.read, 100U);  // reading stops after the last selected packet
  EXPECT_EQ(one.written, 1U);
  const auto original = read_all(Reader::open(samples + "rping.pcap")).packets[99];
  const auto copied = read_all(Reader::open(out)).packets[0];
  EXPECT_EQ(copied.bytes, original.bytes);
  EXPECT_EQ(copied.time, original.time);
  EXPECT_THAT(copied.comments, ElementsAre("frame 100 of the original capture"));

  const Extracted some = run(samples + "rping.pcap", out, frames({2, 7, 9}, 2));
  EXPECT_EQ(some.selected, 3U);
  EXPECT_EQ(some.written, 11U);
  EXPECT_THAT(numbers_in(out), ElementsAre("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"));
  run(samples + "rping.pcap", out, frames({2, 9}, 1));
  EXPECT_THAT(numbers_in(out), ElementsAre("1", "2", "3", "8", "9", "10"));
}

TEST(Extract, KeepsCommentsInterfacesAndStatistics) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  run(samples + "two-interfaces.pcapng", out, everything());
  auto before = Reader::open(samples + "two-interfaces.pcapng"), after = Reader::open(out);
  const Whole was = read_all(*before), is = read_all(*after);
  ASSERT_EQ(is.packets.size(), was.packets.size());
  for (std::size_t i = 0; i < is.packets.size(); ++i) {
    auto comments = is.packets[i].comments;
    ASSERT_FALSE(comments.empty());
    comments.pop_back();
    EXPECT_EQ(comments, was.packets[i].comments);
    EXPECT_EQ(is.packets[i].time, was.packets[i].time);
    EXPECT_EQ(after->interfaces()[is.packets[i].interface].name, before->interfaces()[was.packets[i].interface].name);
  }
  for (const Interface& interface : before->interfaces()) {
    const auto same = std::find_if(after->interfaces().begin(), after->interfaces().end(),
                                   [&](const Interface& other) { return other.name == interface.name; });
    ASSERT_NE(same, after->interfaces().end());
    EXPECT_EQ(same->statistics, interface.statistics);
  }
}

TEST(Extract, WritesReadablePartOfTruncatedFile) {
  const TemporaryDirectory directory;
  ByteVector raw = read_file(samples + "rping.pcap");
  raw.resize(3000);
  write_file(directory.file("cut.pcap"), raw);
  const Extracted extracted = run(directory.file("cut.pcap"), directory.file("x.pcapng"), everything());
  ASSERT_TRUE(extracted.input);
  EXPECT_EQ(extracted.input->kind, CaptureError::Kind::truncated);
  EXPECT_EQ(read_all(Reader::open(directory.file("x.pcapng"))).packets.size(), extracted.read);
  EXPECT_GT(extracted.read, 5U);
}

TEST(Anonymize, RemovesAllAddressesOfEveryCapture) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  for (const std::string& file : all_captures()) {
    SCOPED_TRACE(file);
    std::set<ByteVector> secrets;
    std::vector<std::vector<Address>> before;
    each_packet(file, [&](const tracking::Packet& packet, const Record&) {
      before.push_back(addresses_of(packet));
      for (const Address& address : before.back())
        // Shorter addresses are ignored, because their bytes also occur by accident in large files.
        if (!is_kept(address) && address.bytes.size() >= 6) secrets.insert(address.bytes);
    });
    // The payload is blanked, because application data may contain any bytes.
    run(file, out, anonymized(true));
    const ByteVector written = read_file(out);
    const std::string_view text(reinterpret_cast<const char*>(written.data()), written.size());
    for (const ByteVector& secret : secrets)
      EXPECT_EQ(text.find(std::string_view(reinterpret_cast<const char*>(secret.data()), secret.size())),
                std::string_view::npos)
          << ::testing::PrintToString(secret);

    // Pseudonyms must be unique, and no address may be kept.
    std::map<Address, ByteVector> forth;
    std::map<Address, ByteVector> back;
    std::size_t frame = 0;
    each_packet(out, [&](const tracking::Packet& packet, const Record&) {
      ASSERT_LT(frame, before.size());
      for (const tracking::Pdu& pdu : packet.pdus)
        EXPECT_NE(pdu.crc.status, CrcCheck::Status::bad) << "frame " << frame + 1;
      const std::vector<Address> after = addresses_of(packet);
      ASSERT_EQ(after.size(), before[frame].size()) << "frame " << frame + 1;
      for (std::size_t i = 0; i < after.size(); ++i) {
        const Address& was = before[frame][i];
        const ByteVector& is = after[i].bytes;
        EXPECT_EQ(forth.try_emplace(was, is).first->second, is);
        EXPECT_EQ(back.try_emplace({was.kind, is}, was.bytes).first->second, was.bytes);
        EXPECT_TRUE(is_kept(was) || was.bytes != is) << "frame " << frame + 1;
      }
      ++frame;
    });
    EXPECT_EQ(frame, before.size());
  }
}

TEST(Anonymize, ReplacesGidsThatProgramsExchange) {
  // One capture contains perftest's exchange over RDMA. Another contains NVMe's discovery log, in which the target's
  // address is text.
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  struct Exchange {
    std::string file, secret;
  };
  const Exchange exchanges[] = {
      {"linlinw5-cm.pcap", std::string(10, '\0') + "\xff\xff\x0a\x01\x10\x3e"},
      {"nvme-over-rdma.pcap.zst", "10.0.0.2"},
      {"siw-read.pcap.gz", "\x52\x54" + std::string(3, '\0') + "\x03"},
  };
  for (const Exchange& one : exchanges) {
    SCOPED_TRACE(one.file);
    auto times = [&](const ExtractOptions& options) {
      run(samples + one.file, out, options);
      std::size_t packets = 0;
      each_packet(out, [&](const tracking::Packet& packet, const Record&) {
        const Bytes payload = packet.stack.bytes_of(packet.stack.payload);
        packets += std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size()).find(one.secret) !=
                   std::string_view::npos;
      });
      return packets;
    };
    EXPECT_GE(times(everything()), 2U);
    EXPECT_EQ(times(anonymized()), 0U);
  }
}

TEST(Anonymize, RemovesNamesOfHostsAndServices) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  auto holds = [&](const ExtractOptions& options, std::string_view text) {
    run(samples + "nvme-over-rdma.pcap.zst", out, options);
    const ByteVector written = read_file(out);
    return std::string_view(reinterpret_cast<const char*>(written.data()), written.size()).find(text) !=
           std::string_view::npos;
  };
  EXPECT_TRUE(holds(everything(), "nqn.2014-08.org.nvmexpress"));
  EXPECT_FALSE(holds(anonymized(true), "nqn.2014-08.org.nvmexpress"));
  // The key of an MPA frame is also text. It is kept, because it identifies iWARP.
  run(samples + "siw-rping.pcap", out, anonymized(true));
  std::size_t keys = 0;
  each_packet(out, [&](const tracking::Packet& packet, const Record&) {
    for (const tracking::Pdu& pdu : packet.pdus) keys += pdu.stack.find(info<MpaFrame>) != nullptr;
  });
  std::size_t original = 0;
  each_packet(samples + "siw-rping.pcap", [&](const tracking::Packet& packet, const Record&) {
    for (const tracking::Pdu& pdu : packet.pdus) original += pdu.stack.find(info<MpaFrame>) != nullptr;
  });
  EXPECT_EQ(keys, original);
}

TEST(Anonymize, PreservesOtherFieldsAndRecomputesChecksums) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  for (const std::string& file : all_captures()) {
    SCOPED_TRACE(file);
    run(file, out, anonymized());
    std::vector<std::string> shapes;
    auto shape = [](const tracking::Packet& packet) {
      std::string text;
      for (const Layer& layer : packet.stack.layers()) {
        text += layer.header->name;
        text += ' ';
      }
      if (const auto bth = packet.stack.get<Bth>())
        text += std::to_string(bth->get<"dest_qp">()) + " " + std::to_string(bth->get<"psn">());
      return text;
    };
    each_packet(file, [&](const tracking::Packet& packet, const Record&) { shapes.push_back(shape(packet)); });
    std::size_t frame = 0;
    each_packet(out, [&](const tracking::Packet& packet, const Record& record) {
      ASSERT_LT(frame, shapes.size());
      EXPECT_EQ(shape(packet), shapes[frame]) << "frame " << frame + 1;
      EXPECT_NE(packet.icrc.status, CrcCheck::Status::bad) << "frame " << frame + 1;
      EXPECT_NE(packet.vcrc.status, CrcCheck::Status::bad) << "frame " << frame + 1;
      for (const tracking::Pdu& pdu : packet.pdus)
        EXPECT_NE(pdu.crc.status, CrcCheck::Status::bad) << "frame " << frame + 1;
      for (const Checksum& checksum : checksums_of(packet.stack))
        EXPECT_NE(checksum.status, CrcCheck::Status::bad) << checksum.name << ", frame " << frame + 1;
      EXPECT_FALSE(record.comments().empty());
      ++frame;
    });
    EXPECT_EQ(frame, shapes.size());
  }
}

TEST(Anonymize, TsharkFindsNoBadChecksum) {
  if (!installed("tshark")) GTEST_SKIP() << "requires tshark";
  const TemporaryDirectory directory;
  const std::string out = directory.file("x.pcapng");
  for (const char* name : {"rping.pcap", "rc-pingpong-loss.pcap.gz", "rc-write-ipv6.pcap", "siw-rping.pcap"}) {
    run(samples + name, out, anonymized());
    const std::string bad = output_of(
        "tshark -r " + quoted(out) +
        " -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE -Y 'ip.checksum.status == "
        "\"Bad\" or udp.checksum.status == \"Bad\" or tcp.checksum.status == \"Bad\" or icmpv6.checksum.status == "
        "\"Bad\" or _ws.malformed' 2>/dev/null");
    EXPECT_EQ(bad, "") << name;
  }
  const std::string comment =
      output_of("tshark -r " + quoted(out) + " -Y 'frame.number == 1' -T fields -e frame.comment 2>/dev/null");
  EXPECT_THAT(comment, HasSubstr("frame 1 of the original capture, anonymized"));
}

/// A packet that was dissected and anonymized.
struct Result {
  ByteVector bytes;
  std::string remark;
  tracking::Packet packet;  ///< dissected from `bytes`
};
Result anonymize(const ByteVector& original, LinkType link = LinkType::ethernet, std::uint32_t wire_length = 0,
                 bool blank_payload = false) {
  Result result;
  tracking::Dissector dissector;
  tracking::Packet packet;
  packet.link = link;
  const auto length = wire_length ? wire_length : static_cast<std::uint32_t>(original.size());
  dissector.dissect(packet, original, length);
  Anonymizer({key, blank_payload}).anonymize(packet, result.bytes, result.remark);
  result.packet.link = link;
  dissector.dissect(result.packet, result.bytes, length);
  return result;
}
Value<Ipv4> ip(std::uint32_t src, std::uint32_t dst) { return Value<Ipv4>().set<"src">(src).set<"dst">(dst); }
Frame send_only() {
  Frame frame = Value<Ethernet>().set<"src">(0x525400000003).set<"dst">(0x525400000002) / ip(0x0a000003, 0x0a000002) /
                Value<Udp>() / Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(0x11).set<"psn">(100);
  frame.payload = {'h', 'e', 'l', 'l', 'o'};
  return frame;
}

TEST(Anonymize, RemarkContainsOriginalCrcStatus) {
  EXPECT_EQ(anonymize(send_only().encode()).remark, "original ICRC: good");
  Frame bad = send_only();
  bad.icrc = 0x12345678;
  bad.layers[1].set(*info<Ipv4>.find("checksum"), 1);
  const Result result = anonymize(bad.encode());
  EXPECT_EQ(result.remark, "original ICRC: bad; original IP checksum: bad");
  EXPECT_EQ(result.packet.icrc.status, CrcCheck::Status::good);

  const Frame native = Frame(Value<Lrh>() / Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(5)) / Value<Deth>();
  ByteVector raw = native.encode();
  raw.back() ^= 1;
  const Result recomputed = anonymize(raw, LinkType::infiniband);
  EXPECT_EQ(recomputed.remark, "original ICRC: good; original VCRC: bad");
  EXPECT_EQ(recomputed.packet.vcrc.status, CrcCheck::Status::good);
}

TEST(Anonymize, KeepsPayloadUnlessBlanked) {
  const auto payload = [](const Result& r) {
    const Bytes bytes = r.packet.stack.bytes_of(r.packet.stack.payload);
    return std::string(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(payload(anonymize(send_only().encode())), "hello");
  const Result blanked = anonymize(send_only().encode(), LinkType::ethernet, 0, true);
  EXPECT_EQ(payload(blanked), std::string(5, '\0'));
  EXPECT_EQ(blanked.packet.icrc.status, CrcCheck::Status::good);
  // Payload of other protocols is always blanked, because it may contain addresses that no header field describes.
  Frame other = Frame(Value<Ethernet>() / ip(0x0a000003, 0x0a000002)) / Value<Udp>().set<"dst_port">(53);
  other.payload = {10, 0, 0, 3};
  EXPECT_EQ(payload(anonymize(other.encode())), std::string(4, '\0'));
}

TEST(Anonymize, TunnelsOptionsTrailersAndTruncatedPackets) {
  // A mirrored packet: both pairs of addresses are replaced, and the inner ICRC and the outer UDP checksum are
  // recomputed.
  Frame mirrored = Value<Ethernet>() / ip(0xc0a80001, 0xc0a80002) / Value<Udp>().set<"dst_port">(4789) / Value<Vxlan>();
  for (const HeaderValue& layer : send_only().layers) mirrored /= layer;
  const Result tunnel = anonymize(mirrored.encode());
  EXPECT_EQ(tunnel.packet.icrc.status, CrcCheck::Status::good);
  for (const Address& address : addresses_of(tunnel.packet)) {
    EXPECT_NE(address.bytes, hex("0a000002"));
    EXPECT_NE(address.bytes, hex("c0a80001"));
  }
  for (const Checksum& checksum : checksums_of(tunnel.packet.stack))
    EXPECT_THAT(checksum.status, ::testing::AnyOf(CrcCheck::Status::good, CrcCheck::Status::absent)) << checksum.name;

  // The record route option has three bytes, then addresses.
  HeaderValue routed = ip(0x0a000003, 0x0a000002).set<"header_length">(8);
  routed.set_tail(hex("07 0b 0c 0a000002 0a000003 00"));
  Frame option = Frame(Value<Ethernet>() / routed) / Value<Udp>().set<"dst_port">(53);
  const Result route = anonymize(option.encode());
  EXPECT_EQ(load_be<4>(route.bytes.data() + 14 + 23), load_be<4>(route.bytes.data() + 14 + 16)) << "as the destination";
  EXPECT_NE(load_be<4>(route.bytes.data() + 14 + 23), 0x0a000002U);

  // Ethernet padding may contain old contents of a buffer.
  ByteVector padded = send_only().encode() + hex("0a000002 0a000003");
  const Result trailer = anonymize(padded);
  EXPECT_EQ(ByteVector(trailer.bytes.end() - 8, trailer.bytes.end()), ByteVector(8, 0));
  // A frame check sequence does not count as padding.
  ByteVector checked = send_only().encode();
  const std::uint32_t fcs = __builtin_bswap32(crc32(checked));
  checked.resize(checked.size() + 4);
  store_be(checked.data() + checked.size() - 4, 4, fcs);
  const Result rechecked = anonymize(checked);
  const Bytes covered = Bytes(rechecked.bytes).first(rechecked.bytes.size() - 4);
  EXPECT_EQ(load_be<4>(rechecked.bytes.data() + covered.size()), __builtin_bswap32(crc32(covered)));

  // A truncated header has no fields, and may contain a part of an address.
  ByteVector whole = send_only().encode();
  const Result cut = anonymize(ByteVector(whole.begin(), whole.begin() + 32), LinkType::ethernet,
                               static_cast<std::uint32_t>(whole.size()));
  EXPECT_EQ(ByteVector(cut.bytes.begin() + 14, cut.bytes.end()), ByteVector(18, 0));
}

TEST(Anonymize, ChecksumsOfTruncatedPacketsAreUpdated) {
  // TCP over IPv4 with 100 bytes, of which 60 are captured. The checksum remains valid for the 40 missing bytes.
  Frame tcp = Frame(Value<Ethernet>() / ip(0x0a000003, 0x0a000002)) / Value<Tcp>().set<"data_offset">(5);
  tcp.payload.assign(100, 0);
  ByteVector whole = tcp.encode();
  const ByteVector cut(whole.begin(), whole.begin() + 14 + 20 + 20 + 60);
  Result result = anonymize(cut, LinkType::ethernet, static_cast<std::uint32_t>(whole.size()));
  result.bytes.resize(whole.size());  // appends zeros, which are the bytes that the capture truncated
  tracking::Packet packet;
  tracking::Dissector().dissect(packet, result.bytes, static_cast<std::uint32_t>(result.bytes.size()));
  for (const Checksum& checksum : checksums_of(packet.stack)) EXPECT_EQ(checksum.status, CrcCheck::Status::good);
}

TEST(Anonymize, AcceptsAnyBytes) {
  std::uint32_t seed = 99;
  auto random = [&] { return seed = seed * 1664525 + 1013904223; };
  const ByteVector whole = send_only().encode();
  for (LinkType link :
       {LinkType::ethernet, LinkType::infiniband, LinkType::raw_ip, LinkType::erf, LinkType::linux_sll}) {
    for (std::size_t length = 0; length <= whole.size(); ++length)
      EXPECT_EQ(anonymize(ByteVector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), link, 2000)
                    .bytes.size(),
                length);
    for (int i = 0; i < 3000; ++i) {
      ByteVector raw = whole;
      for (int flips = 0; flips < 4; ++flips) raw[random() % raw.size()] = static_cast<std::uint8_t>(random() >> 24);
      EXPECT_EQ(anonymize(raw, link).bytes.size(), raw.size());
    }
  }
}

}  // namespace
}  // namespace rdmawire::captures
