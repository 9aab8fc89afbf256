/// All commands with fake_verbs.

#include "conformance/agent/commands.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include "conformance/agent/testing.hpp"
#include "replay/rpc/protocol.hpp"

namespace rdmawire::agent {
namespace {

using Commands = AgentTest;

TEST_F(Commands, EveryCommandHasHandlerAndRejectsUnknownArguments) {
  begin();
  for (const rpc::Family& family : rpc::families()) {
    for (const rpc::Command* command : family.commands) {
      // The agent has no handlers for extensions, which only reference devices support.
      ASSERT_EQ(find_handler(command->name) != nullptr, !command->extension) << command->name;
      if (command->name == "hello" || command->extension) continue;
      const std::string error = controller.error(std::string(command->name), {{"color", "red"}});
      EXPECT_EQ(error.find(fmt::format("EINVAL: {}: \"color\": unknown argument", command->name)), 0U) << error;
    }
  }
}

TEST_F(Commands, ExtensionsOfReferenceDevicesAreRejected) {
  begin();
  EXPECT_EQ(controller.error("alloc_mr", {{"pd", pd}, {"length", 1}}), "ENOSYS: do: unknown command \"alloc_mr\"");
  const Json qp = queue_pair();
  EXPECT_EQ(post(qp, {{"opcode", "reg_mr"}, {"new_rkey", 1}})["error"]["message"],
            "post_send: requests[0]: opcode: reg_mr is supported only by reference devices");
  EXPECT_EQ(
      post(qp,
           {{"opcode", "fetch_add"}, {"remote_addr", 0}, {"rkey", 0}, {"add", 1}, {"add_mask", 1}})["error"]["name"],
      "EINVAL");
}

/// Runs all commands in one session and returns the errors. Continues after each error.
std::vector<Json> story(Controller& controller) {
  std::vector<Json> errors;
  const auto ask = [&](const std::string& what, const Json& arguments) {
    const Json answer = controller.ask(what, arguments);
    if (answer.contains("error")) errors.push_back(answer["error"]);
    return answer.value("result", Json::object());
  };
  const auto handle = [](const Json& result, const std::string& name) { return result.value(name, Json(999'999)); };
  controller.ask("hello", {{"protocol", 1}});
  ask("devices", Json::object());
  const Json device = handle(ask("open", {{"name", "fake0"}}), "device");
  ask("describe", {{"device", device}});
  ask("port", {{"device", device}});
  const Json pd = handle(ask("alloc_pd", {{"device", device}}), "pd");
  const Json xrcd = handle(ask("open_xrcd", {{"device", device}}), "xrcd");
  const Json channel = handle(ask("create_channel", {{"device", device}}), "channel");
  const Json cq = handle(ask("create_cq", {{"device", device}, {"cqe", 10}, {"channel", channel}}), "cq");
  ask("resize_cq", {{"cq", cq}, {"cqe", 20}});
  ask("notify", {{"cq", cq}});
  const Json region =
      ask("register", {{"pd", pd}, {"length", 64}, {"access", {"local_write", "remote_write", "mw_bind"}}});
  const Json mr = handle(region, "mr");
  ask("register", {{"pd", pd}, {"length", 64}, {"iova", 0}});
  ask("reregister", {{"mr", mr}, {"access", {"local_write", "remote_write"}}, {"pd", pd}});
  const Json mw = handle(ask("alloc_mw", {{"pd", pd}}), "mw");
  const Json srq = handle(ask("create_srq", {{"pd", pd}, {"max_wr", 4}}), "srq");
  ask("create_srq", {{"pd", pd}, {"max_wr", 4}, {"type", "xrc"}, {"xrcd", xrcd}, {"cq", cq}});
  ask("modify_srq", {{"srq", srq}, {"limit", 1}});
  ask("query_srq", {{"srq", srq}});
  ask("post_recv", {{"srq", srq}, {"requests", Json::array({Json::object()})}});
  ask("create_ah", {{"pd", pd}, {"grh", {{"dgid", "::1"}, {"sgid_index", 0}}}});
  const Json ud = handle(ask("create_qp", {{"type", "ud"}, {"pd", pd}, {"send_cq", cq}, {"recv_cq", cq}}), "qp");
  ask("attach_multicast", {{"qp", ud}, {"gid", "ff0e::1"}});
  ask("detach_multicast", {{"qp", ud}, {"gid", "ff0e::1"}});
  ask("create_qp", {{"type", "xrc_recv"}, {"xrcd", xrcd}});
  const Json made =
      ask("create_qp",
          {{"type", "rc"}, {"pd", pd}, {"send_cq", cq}, {"recv_cq", cq}, {"send_ops", {"atomic_write", "write"}}});
  const Json qp = handle(made, "qp");
  ask("modify_qp", {{"qp", qp}, {"state", "init"}});
  ask("modify_qp", {{"qp", qp}, {"state", "rtr"}, {"dest_qp_num", made.value("qp_num", 0)}});
  ask("modify_qp", {{"qp", qp}, {"state", "rts"}});
  ask("query_qp", {{"qp", qp}});
  ask("post_recv", {{"qp", qp}, {"requests", Json::array({Json::object()})}});
  ask("post_send", {{"qp", qp}, {"requests", Json::array({{{"opcode", "send"}, {"flags", {"signaled"}}}})}});
  ask("post_send", {{"qp", qp},
                    {"requests", Json::array({{{"opcode", "atomic_write"},
                                               {"bytes", "0011223344556677"},
                                               {"remote_addr", region.value("addr", 0ULL)},
                                               {"rkey", region.value("rkey", 0)}}})}});
  ask("bind_mw", {{"qp", qp}, {"mw", mw}, {"mr", mr}});
  ask("poll", {{"cq", cq}, {"timeout_ms", 5}});
  for (const Json& object : {qp, mw, mr, cq, channel, pd, device}) ask("destroy", {{"object", object}});
  return errors;
}

TEST_F(Commands, VerbsErrorsAreReportedAndObjectsReleased) {
  fake_verbs::fail_call(0, 0);
  const auto expected = story(controller);
  const unsigned calls = fake_verbs::calls();
  ASSERT_GT(calls, 45U);
  // Destroying CQ, channel, PD and device fails, because they are in use at the end.
  EXPECT_EQ(expected.size(), 4U) << Json(expected).dump(1);
  for (const Json& error : expected) EXPECT_EQ(error["name"], "EBUSY");
  controller.conversation().lost();
  ASSERT_EQ(fake_verbs::alive(), 0U);
  const unsigned with_release = fake_verbs::calls();

  std::set<std::string> failed;
  for (unsigned nth = 1; nth <= with_release; ++nth) {
    fake_verbs::fail_call(nth, EXFULL);
    const auto errors = story(controller);
    const std::string call = fake_verbs::failed_call();
    failed.insert(call);
    const bool told = std::any_of(errors.begin(), errors.end(), [&](const Json& error) {
      if (error["name"] != "EXFULL" || error["errno"] != EXFULL) return false;
      const std::string message = error["message"];
      // An error of `destroy` contains the name of the object, not of the call.
      return message.find(call) != std::string::npos || message.find("was not released") != std::string::npos ||
             message.find("ibv_wr_complete") != std::string::npos ||
             (call == "ibv_post_send" && message.find("ibv_bind_mw") != std::string::npos) || call == "ibv_post_recv";
    });
    // Optional parts of a description.
    EXPECT_TRUE(told || nth > calls || call == "ibv_query_gid_table" || call == "ibv_open_device" ||
                call == "ibv_query_port" || call == "ibv_query_device_ex")
        << nth << " " << call << " " << Json(errors).dump(1);
    controller.conversation().lost();
    ASSERT_EQ(fake_verbs::alive(), 0U) << nth << " " << call;
  }
  EXPECT_GT(failed.size(), 30U);
}

TEST_F(Commands, HandlesOfWrongKindAreRejected) {
  begin();
  const Json mr = region();
  const std::string a_cq = fmt::format("handle {} is a cq, not ", cq.get<int>());
  EXPECT_EQ(controller.error("alloc_pd", {{"device", cq}}), "EINVAL: alloc_pd: device: " + a_cq + "a device");
  EXPECT_EQ(controller.error("register", {{"pd", cq}, {"length", 1}}), "EINVAL: register: pd: " + a_cq + "a pd");
  EXPECT_EQ(controller.error("read", {{"mr", cq}}), "EINVAL: read: mr: " + a_cq + "an mr");
  EXPECT_EQ(controller.error("poll", {{"cq", pd}}), "EINVAL: poll: cq: handle 2 is a pd, not a cq");
  for (const auto& [what, name] : std::vector<std::pair<std::string, std::string>>{{"describe", "device"},
                                                                                   {"port", "device"},
                                                                                   {"counters", "device"},
                                                                                   {"open_xrcd", "device"},
                                                                                   {"create_channel", "device"},
                                                                                   {"create_cq", "device"},
                                                                                   {"notify", "cq"},
                                                                                   {"resize_cq", "cq"},
                                                                                   {"create_srq", "pd"},
                                                                                   {"modify_srq", "srq"},
                                                                                   {"query_srq", "srq"},
                                                                                   {"create_ah", "pd"},
                                                                                   {"alloc_mw", "pd"},
                                                                                   {"bind_mw", "qp"},
                                                                                   {"query_qp", "qp"},
                                                                                   {"modify_qp", "qp"},
                                                                                   {"post_send", "qp"},
                                                                                   {"post_recv", "srq"},
                                                                                   {"fill", "mr"},
                                                                                   {"checksum", "mr"},
                                                                                   {"reregister", "mr"},
                                                                                   {"attach_multicast", "qp"},
                                                                                   {"detach_multicast", "qp"}}) {
    EXPECT_NE(controller.error(what, {{name, 1000}}).find("no object 1000"), std::string::npos) << what;
    EXPECT_NE(controller.error(what, {{name, "cq"}}).find("must be an integer"), std::string::npos) << what;
    const int other = name == "device" ? cq.get<int>() : device.get<int>();
    EXPECT_NE(controller.error(what, {{name, other}}).find(fmt::format("handle {} is a", other)), std::string::npos)
        << what;
  }
  EXPECT_EQ(controller.error("destroy", {{"object", 77}}), "ENOENT: destroy: no object 77");
}

TEST_F(Commands, DevicesReportPortsAndGids) {
  controller.hello();
  const Json devices = controller.result("devices")["devices"];
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]["name"], "fake0");
  EXPECT_EQ(devices[0]["transport"], "ib");
  EXPECT_EQ(devices[0]["guid"], "0200:0000:0000:0001");
  const Json port = devices[0]["ports"][0];
  EXPECT_EQ(port["state"], "active");
  EXPECT_EQ(port["link_layer"], "ethernet");
  EXPECT_EQ(port["active_mtu"], 1024);
  EXPECT_EQ(port["netdev"], "lo");
  EXPECT_EQ(port["gids"][1], (Json{{"index", 1}, {"gid", "fe80::1"}, {"type", "roce_v2"}, {"netdev", "lo"}}));
  EXPECT_EQ(port["pkeys"], Json::array({0xFFFF}));
  EXPECT_EQ(fake_verbs::alive(), 0U);
}

TEST_F(Commands, MissingDeviceIsReportedWithReason) {
  controller.hello();
  fake_verbs::plug(false);
  EXPECT_EQ(controller.result("devices")["devices"].size(), 0U);
  EXPECT_GT(controller.result("devices")["reason"].get<std::string>().size(), 20U);
  fake_verbs::fail_call(1, ENOSYS);  // libibverbs sets it if the kernel has no verbs
  EXPECT_EQ(controller.result("devices")["devices"].size(), 0U);
  EXPECT_EQ(controller.error("open", {{"name", "fake0"}}).find("ENODEV: open: name: unknown device; "), 0U);
}

TEST_F(Commands, DeviceThatCannotBeOpenedHasProblem) {
  controller.hello();
  fake_verbs::fail_call(2, EACCES);
  const Json devices = controller.result("devices")["devices"];
  EXPECT_EQ(devices[0]["problem"], "ibv_open_device: EACCES: Permission denied");
  EXPECT_EQ(controller.error("open", {{"name", "mlx"}}), "ENODEV: open: name: unknown device; available: fake0");
}

TEST_F(Commands, DescribeReturnsNamesOfCapabilities) {
  begin();
  const Json description = controller.result("describe", {{"device", device}});
  EXPECT_EQ(description["firmware"], "1.2.3");
  EXPECT_EQ(description["limits"]["max_qp"], 1024);
  EXPECT_EQ(description["capabilities"], (Json{"rc_rnr_nak_gen", "atomic_write"}));
  EXPECT_EQ(description["atomic"], "hca");
  EXPECT_EQ(description["odp"]["rc"], (Json{"send", "read"}));
  EXPECT_EQ(description["ports"].size(), 1U);
  EXPECT_EQ(controller.error("port", {{"device", device}, {"port", 2}}),
            "EINVAL: port: ibv_query_port: EINVAL: Invalid argument");
  EXPECT_EQ(controller.error("port", {{"device", device}, {"port", 0}}),
            "ERANGE: port: port: must be from 1 to 255, not 0");
}

TEST_F(Commands, CountersAreReadFromSysfs) {
  const std::filesystem::path sysfs = testing::TempDir() + "agent_sysfs";
  std::filesystem::remove_all(sysfs);
  for (const char* sub : {"ports/1/counters", "ports/1/hw_counters", "hw_counters"})
    std::filesystem::create_directories(sysfs / sub);
  std::ofstream(sysfs / "ports/1/counters/port_xmit_data") << "123\n";
  std::ofstream(sysfs / "ports/1/counters/unsupported") << "N/A (no PMA)\n";
  std::ofstream(sysfs / "ports/1/hw_counters/rcvd_pkts") << "18446744073709551615\n";
  std::ofstream(sysfs / "ports/1/hw_counters/lifespan") << "10\n";
  fake_verbs::set_sysfs(sysfs.string());
  begin();
  EXPECT_EQ(
      controller.result("counters", {{"device", device}}).dump(),
      R"({"counters":{"port_xmit_data":123},"hw_counters":{"rcvd_pkts":18446744073709551615},"device_hw_counters":{}})");
  EXPECT_EQ(controller.error("counters", {{"device", device}, {"port", 9}}).find("EINVAL: counters: port: "), 0U);
  std::filesystem::remove_all(sysfs);
}

TEST_F(Commands, DeviceInUseIsNotClosed) {
  begin();
  EXPECT_EQ(controller.error("destroy", {{"object", device}}),
            "EBUSY: destroy: device 1 is still in use; destroy the objects that use it first");
  controller.result("destroy", {{"object", pd}});
  controller.result("destroy", {{"object", cq}});
  controller.result("destroy", {{"object", device}});
  EXPECT_EQ(fake_verbs::alive(), 0U);
}

TEST_F(Commands, AsynchronousEventsAreReported) {
  begin();
  const Json qp = queue_pair();
  fake_verbs::raise_port_event(IBV_EVENT_PORT_ERR);
  EXPECT_EQ(controller.event("async"),
            (Json{{"event", "async"}, {"type", "port_err"}, {"device", device}, {"port", 1}}));
  fake_verbs::raise_qp_event(qp["qp_num"], IBV_EVENT_QP_FATAL);
  EXPECT_EQ(controller.event("async"),
            (Json{{"event", "async"}, {"type", "qp_fatal"}, {"device", device}, {"qp", qp["qp"]}}));
}

TEST_F(Commands, MemoryIsWrittenAndRead) {
  begin();
  const Json mr = region({"local_write"}, 64);
  EXPECT_EQ(mr["length"], 64);
  EXPECT_EQ(mr["rkey"], mr["lkey"]);
  EXPECT_EQ(controller.result("read", {{"mr", mr["mr"]}})["bytes"], std::string(128, '0'));
  controller.result("write", {{"mr", mr["mr"]}, {"offset", 62}, {"bytes", "C0fe"}});
  EXPECT_EQ(controller.result("read", {{"mr", mr["mr"]}, {"offset", 61}})["bytes"], "00c0fe");
  controller.result("fill", {{"mr", mr["mr"]}, {"pattern", "counter"}, {"value", 250}, {"length", 8}});
  EXPECT_EQ(controller.result("read", {{"mr", mr["mr"]}, {"length", 9}})["bytes"], "fafbfcfdfeff000100");
  // Published test vector of SplitMix64 for seed 0.
  controller.result("fill", {{"mr", mr["mr"]}, {"pattern", "random"}, {"length", 12}});
  EXPECT_EQ(controller.result("read", {{"mr", mr["mr"]}, {"length", 13}})["bytes"], "afcd1d7b39a820e2f465b9a100");
  controller.result("write", {{"mr", mr["mr"]}, {"bytes", "313233343536373839"}});
  EXPECT_EQ(controller.result("checksum", {{"mr", mr["mr"]}, {"length", 9}})["crc32"], 0xCBF43926);
}

TEST_F(Commands, AccessOutsideOfRegionIsRejected) {
  begin();
  const Json mr = region({"local_write"}, 64)["mr"];
  EXPECT_EQ(controller.error("read", {{"mr", mr}, {"offset", 65}}),
            "ERANGE: read: offset: must be from 0 to 64, not 65");
  EXPECT_EQ(controller.error("read", {{"mr", mr}, {"offset", 60}, {"length", 5}}),
            "ERANGE: read: length: must be from 0 to 4, not 5");
  EXPECT_EQ(controller.error("read", {{"mr", mr}, {"offset", -1}}),
            "ERANGE: read: offset: must be from 0 to 18446744073709551615, not -1");
  EXPECT_EQ(controller.error("read", {{"mr", mr}, {"offset", 1.5}}),
            "EINVAL: read: offset: must be an integer, not 1.5");
  EXPECT_EQ(controller.error("fill", {{"mr", mr}, {"offset", UINT64_MAX}, {"pattern", "byte"}}).substr(0, 7),
            "ERANGE:");
  EXPECT_EQ(controller.error("write", {{"mr", mr}, {"offset", 63}, {"bytes", "0011"}}),
            "ERANGE: write: bytes: 2 bytes at offset 63 exceed the region of 64 bytes");
  EXPECT_EQ(controller.error("write", {{"mr", mr}, {"bytes", "001"}}),
            "EINVAL: write: bytes: must be bytes in hexadecimal, two digits per byte");
  EXPECT_EQ(controller.result("read", {{"mr", mr}, {"offset", 64}})["bytes"], "");
}

TEST_F(Commands, TotalMemoryOfRegionsIsLimited) {
  bench.settings.most_memory = 10'000;
  begin();
  const Json first = region({"local_write"}, 6000);
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 6000}}).substr(0, 7), "ENOMEM:");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 10'001}}).substr(0, 7), "ERANGE:");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 0}}).substr(0, 7), "ERANGE:");
  controller.result("destroy", {{"object", first["mr"]}});
  region({"local_write"}, 10'000);
  EXPECT_EQ(controller.conversation().session()->memory, 10'000U);
  fake_verbs::fail_call(1, ENOSPC);
  controller.error("register", {{"pd", pd}, {"length", 1}});
  EXPECT_EQ(controller.conversation().session()->memory, 10'000U);
}

TEST_F(Commands, RegionHasRequestedAddress) {
  begin();
  EXPECT_EQ(controller.result("register", {{"pd", pd}, {"length", 8}, {"iova", 0x10000}})["addr"], 0x10000);
  EXPECT_EQ(controller.result("register", {{"pd", pd}, {"length", 8}, {"access", {"zero_based"}}})["addr"], 0);
  const Json filled =
      controller.result("register", {{"pd", pd}, {"length", 4}, {"fill", {{"pattern", "byte"}, {"value", 171}}}});
  EXPECT_EQ(controller.result("read", {{"mr", filled["mr"]}})["bytes"], "abababab");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 4}, {"fill", {{"pattern", "byte"}, {"value", 256}}}}),
            "ERANGE: register: fill: value: must be from 0 to 255, not 256");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 4}, {"fill", {{"pattern", "byte"}, {"color", 1}}}}),
            "EINVAL: register: fill: \"color\": unknown argument; expected pattern, value");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 8}, {"access", {"remote_write"}}}),
            "EINVAL: register: ibv_reg_mr: EINVAL: Invalid argument");
  EXPECT_EQ(controller.error("register", {{"pd", pd}, {"length", 8}, {"access", {"everything"}}})
                .find("EINVAL: register: access: unknown name \"everything\"; expected local_write, "),
            0U);
}

TEST_F(Commands, WindowsAreBound) {
  begin();
  const Json mr = region({"local_write", "mw_bind"});
  const Json qp = queue_pair();
  bring_up(qp, qp);
  const Json mw = controller.result("alloc_mw", {{"pd", pd}});
  const Json bound = controller.result(
      "bind_mw", {{"qp", qp["qp"]}, {"mw", mw["mw"]}, {"mr", mr["mr"]}, {"wr_id", 5}, {"flags", {"signaled"}}});
  EXPECT_EQ(bound["rkey"].get<int>(), mw["rkey"].get<int>() + 1);
  EXPECT_EQ(poll()[0]["opcode"], "bind_mw");
  EXPECT_EQ(controller.error("alloc_mw", {{"pd", pd}, {"type", 3}}).substr(0, 7), "ERANGE:");
  const Json second = controller.result("alloc_mw", {{"pd", pd}, {"type", 2}});
  EXPECT_EQ(controller.error("bind_mw", {{"qp", qp["qp"]}, {"mw", second["mw"]}, {"mr", mr["mr"]}}),
            "EINVAL: bind_mw: ibv_bind_mw: EINVAL: Invalid argument");
  const Json answer = post(qp, {{"opcode", "bind_mw"}, {"mw", second["mw"]}, {"mr", mr["mr"]}, {"new_rkey", 4711}});
  EXPECT_TRUE(answer.contains("result")) << answer;
  EXPECT_EQ(poll()[0]["opcode"], "bind_mw");
}

TEST_F(Commands, QueuePairStatesAreChanged) {
  begin();
  const Json qp = queue_pair({{"max_send_wr", 3}, {"max_inline_data", 10}});
  EXPECT_EQ(qp["max_send_wr"], 3);
  bring_up(qp, qp);
  const Json query = controller.result("query_qp", {{"qp", qp["qp"]}});
  EXPECT_EQ(query["state"], "rts");
  EXPECT_EQ(query["type"], "rc");
  EXPECT_EQ(query["path_mtu"], 1024);
  EXPECT_EQ(query["rq_psn"], 7);
  EXPECT_EQ(query["dest_qp_num"], qp["qp_num"]);
  EXPECT_EQ(query["access"], Json::array({"remote_write"}));
  EXPECT_EQ(query["timeout"], 14);
  EXPECT_EQ(controller.error("modify_qp", {{"qp", qp["qp"]}, {"state", "rtr"}}),
            "EINVAL: modify_qp: ibv_modify_qp: EINVAL: Invalid argument");
  EXPECT_EQ(controller.error("modify_qp", {{"qp", qp["qp"]}, {"state", "happy"}}),
            "EINVAL: modify_qp: state: must be one of reset, init, rtr, rts, sqd, sqe, err, not \"happy\"");
  EXPECT_EQ(controller.error("modify_qp", {{"qp", qp["qp"]}, {"path_mtu", 1500}}),
            "ERANGE: modify_qp: path_mtu: must be 256, 512, 1024, 2048 or 4096");
}

TEST_F(Commands, AddressVectorsAreParsed) {
  begin();
  const Json qp = queue_pair();
  controller.result("modify_qp", {{"qp", qp["qp"]}, {"state", "init"}, {"port", 1}});
  const Json grh = {{"dgid", "::ffff:10.0.0.3"},
                    {"sgid_index", 1},
                    {"hop_limit", 3},
                    {"traffic_class", 104},
                    {"flow_label", 0xFFFFF}};
  const Json address = {{"dlid", 5}, {"sl", 2}, {"src_path_bits", 1}, {"static_rate", 3}, {"port", 1}, {"grh", grh}};
  controller.result("modify_qp", {{"qp", qp["qp"]}, {"state", "rtr"}, {"ah_attr", address}});
  EXPECT_EQ(controller.result("query_qp", {{"qp", qp["qp"]}})["ah_attr"], address);
  const auto error = [&](const Json& part) {
    return controller.error("modify_qp", {{"qp", qp["qp"]}, {"ah_attr", part}});
  };
  EXPECT_EQ(error({{"grh", {{"dgid", "10.0.0.3"}, {"sgid_index", 1}}}}),
            "EINVAL: modify_qp: ah_attr: grh: dgid: must be a GID in IPv6 notation");
  EXPECT_EQ(error({{"grh", {{"dgid", "::1"}}}}),
            "EINVAL: modify_qp: ah_attr: grh: sgid_index: missing required argument");
  EXPECT_EQ(error({{"sl", 16}}), "ERANGE: modify_qp: ah_attr: sl: must be from 0 to 15, not 16");
  EXPECT_EQ(error({{"grh", {{"dgid", "::1"}, {"sgid_index", 0}, {"hops", 1}}}}),
            "EINVAL: modify_qp: ah_attr: grh: \"hops\": unknown argument; expected dgid, sgid_index, hop_limit, "
            "traffic_class, flow_label");
}

TEST_F(Commands, AttributeMaskContainsSpecifiedAttributes) {
  begin();
  const Json qp = queue_pair();
  controller.result("modify_qp", {{"qp", qp["qp"]}, {"state", "init"}, {"qkey", 5}, {"rq_psn", 9}});
  controller.result("modify_qp", {{"qp", qp["qp"]}, {"qkey", 6}});
  const Json query = controller.result("query_qp", {{"qp", qp["qp"]}});
  EXPECT_EQ(query["qkey"], 6);
  EXPECT_EQ(query["rq_psn"], 9);
  EXPECT_EQ(query["state"], "init");
}

TEST_F(Commands, XrcQueuePairUsesDomain) {
  begin();
  const Json xrcd = controller.result("open_xrcd", {{"device", device}})["xrcd"];
  const Json srq =
      controller.result("create_srq", {{"pd", pd}, {"max_wr", 4}, {"type", "xrc"}, {"xrcd", xrcd}, {"cq", cq}});
  EXPECT_EQ(srq["srq_num"], 77);
  controller.result("create_qp", {{"type", "xrc_recv"}, {"xrcd", xrcd}});
  const Json sender = controller.result("create_qp", {{"type", "xrc_send"}, {"pd", pd}, {"send_cq", cq}});
  EXPECT_EQ(post(sender, {{"opcode", "send"}})["error"]["message"],
            "post_send: requests[0]: remote_srqn: missing required argument");
  EXPECT_EQ(controller.error("destroy", {{"object", xrcd}}).substr(0, 6), "EBUSY:");
  EXPECT_EQ(controller.error("create_qp", {{"type", "xrc_recv"}, {"xrcd", xrcd}, {"pd", pd}}),
            "EINVAL: create_qp: pd: not with `xrc_recv`");
}

TEST_F(Commands, MessagesAreDelivered) {
  begin();
  const Json from = region(), into = region();
  const Json one = queue_pair({{"max_inline_data", 16}}), two = queue_pair();
  bring_up(one, two);
  bring_up(two, one);
  controller.result("fill", {{"mr", from["mr"]}, {"pattern", "counter"}});
  const Json receives = Json::array(
      {{{"wr_id", 1}, {"sges", Json::array({{{"mr", into["mr"]}, {"length", 8}}})}},
       {{"wr_id", 2}, {"sges", Json::array({{{"addr", into["addr"]}, {"length", 100}, {"lkey", into["lkey"]}}})}},
       {{"wr_id", 3}}});
  EXPECT_EQ(controller.result("post_recv", {{"qp", two["qp"]}, {"requests", receives}})["posted"], 3);
  const Json sges = Json::array({{{"mr", from["mr"]}, {"offset", 16}, {"length", 8}}});
  post(one, {{"opcode", "send"}, {"wr_id", 10}, {"sges", sges}});
  EXPECT_EQ(
      poll(2).dump(),
      R"([{"wr_id":1,"status":"success","status_number":0,"vendor_err":0,"qp_num":19,"opcode":"recv","byte_len":8,)"
      R"("flags":[],"src_qp":18,"pkey_index":0,"slid":0,"sl":0,"dlid_path_bits":0},)"
      R"({"wr_id":10,"status":"success","status_number":0,"vendor_err":0,"qp_num":18,"opcode":"send","byte_len":8,)"
      R"("flags":[]}])");
  EXPECT_EQ(controller.result("read", {{"mr", into["mr"]}, {"length", 9}})["bytes"], "101112131415161700");
  post(one, {{"opcode", "send_imm"}, {"imm", 0xC0FFEE01}, {"flags", {"inline"}}, {"sges", sges}});
  Json completions = poll(1);
  EXPECT_EQ(completions[0]["imm"], 0xC0FFEE01);
  EXPECT_EQ(completions[0]["flags"], Json::array({"imm"}));
  EXPECT_EQ(controller.result("read", {{"mr", into["mr"]}, {"length", 3}})["bytes"], "101112");
  post(one, {{"opcode", "send_inv"}, {"invalidate_rkey", 5}});
  completions = poll(2);
  EXPECT_EQ(completions[0]["invalidated_rkey"], 5);
  // The receiver has no posted receive request.
  post(one, {{"opcode", "send"}, {"wr_id", 13}});
  EXPECT_EQ(poll()[0].dump(),
            R"({"wr_id":13,"status":"rnr_retry_exc_err","status_number":13,"vendor_err":0,"qp_num":18})");
  EXPECT_EQ(controller.result("query_qp", {{"qp", one["qp"]}})["state"], "err");
}

TEST_F(Commands, RdmaAndAtomicsAccessRemoteMemory) {
  begin();
  const Json here = region(),
             there = controller.result("register",
                                       {{"pd", pd},
                                        {"length", 64},
                                        {"iova", 0x7000},
                                        {"access", {"local_write", "remote_write", "remote_read", "remote_atomic"}}});
  const Json one = queue_pair(), two = queue_pair();
  bring_up(one, two);
  bring_up(two, one);
  controller.result("fill", {{"mr", here["mr"]}, {"pattern", "byte"}, {"value", 1}});
  const Json eight = Json::array({{{"mr", here["mr"]}, {"length", 8}}});
  const auto request = [&](const std::string& opcode, Json more) {
    more.update({{"opcode", opcode}, {"remote_addr", 0x7008}, {"rkey", there["rkey"]}, {"sges", eight}});
    const Json answer = post(one, more);
    EXPECT_TRUE(answer.contains("result")) << answer;
    return poll()[0];
  };
  const auto bytes = [&] {
    return controller.result("read", {{"mr", there["mr"]}, {"offset", 8}, {"length", 8}})["bytes"];
  };
  EXPECT_EQ(request("write", {})["opcode"], "write");
  EXPECT_EQ(bytes(), "0101010101010101");
  EXPECT_EQ(request("fetch_add", {{"add", 0xFF}})["opcode"], "fetch_add");
  EXPECT_EQ(bytes(), "0002010101010101");
  EXPECT_EQ(request("compare_swap", {{"compare", 0x0101010101010200}, {"swap", 0xFFFFFFFFFFFFFFFF}})["opcode"],
            "compare_swap");
  EXPECT_EQ(bytes(), "ffffffffffffffff");
  EXPECT_EQ(controller.result("read", {{"mr", here["mr"]}, {"length", 8}})["bytes"], "0002010101010101");
  EXPECT_EQ(request("read", {})["byte_len"], 8);
  EXPECT_EQ(controller.result("read", {{"mr", here["mr"]}, {"length", 9}})["bytes"], "ffffffffffffffff01");
  controller.result("post_recv", {{"qp", two["qp"]}, {"requests", Json::array({Json::object()})}});
  EXPECT_EQ(request("write_imm", {{"imm", 7}})["opcode"], "recv_write_imm");
  static_cast<void>(poll());
  EXPECT_EQ(post(one, {{"opcode", "write"}, {"rkey", 1}})["error"]["message"],
            "post_send: requests[0]: remote_addr: missing required argument");
  post(one, {{"opcode", "write"}, {"sges", eight}, {"remote_addr", 0x7000 + 60}, {"rkey", there["rkey"]}});
  EXPECT_EQ(poll()[0]["status"], "rem_access_err");
}

TEST_F(Commands, InlineDataCannotReadAgentMemory) {
  begin();
  const Json mr = region();
  const Json qp = queue_pair({{"max_inline_data", 16}});
  bring_up(qp, qp);
  Json raw = {{"opcode", "send"},
              {"flags", {"inline"}},
              {"sges", Json::array({{{"addr", mr["addr"]}, {"length", 8}, {"lkey", mr["lkey"]}}})}};
  EXPECT_EQ(post(qp, raw)["error"]["message"],
            "post_send: requests[0]: sges[0]: addr: inline requires entries of the form mr, offset, length");
  raw["flags"] = Json::array();
  EXPECT_TRUE(post(qp, raw).contains("result"));
  const Json much = {
      {"opcode", "send"}, {"flags", {"inline"}}, {"sges", Json::array({{{"mr", mr["mr"]}, {"length", 17}}})}};
  EXPECT_EQ(post(qp, much)["error"]["message"],
            "post_send: requests[0]: sges: 17 inline bytes; the limit of the queue pair is 16");
}

TEST_F(Commands, FailedRequestOfListIsNamed) {
  begin();
  const Json qp = queue_pair();
  bring_up(qp, qp);
  Json requests = Json::array();
  for (int i = 0; i < 4; ++i)
    requests.push_back({{"opcode", "local_inv"}, {"invalidate_rkey", 1}, {"wr_id", i}, {"flags", {"signaled"}}});
  fake_verbs::fail_call(3, ENOMEM);
  EXPECT_EQ(controller.error("post_send", {{"qp", qp["qp"]}, {"requests", requests}}),
            "ENOMEM: post_send: requests[2]: ibv_post_send: ENOMEM: Cannot allocate memory; the preceding requests "
            "were posted");
  EXPECT_EQ(poll(2).size(), 2U);
  requests[3]["opcode"] = "fly";
  EXPECT_EQ(controller.error("post_send", {{"qp", qp["qp"]}, {"requests", requests}})
                .find("EINVAL: post_send: requests[3]: opcode: must be one of write, "),
            0U);
  EXPECT_EQ(controller.result("poll", {{"cq", cq}})["completions"].size(), 0U);
  EXPECT_EQ(controller.error("post_send", {{"qp", qp["qp"]}}),
            "EINVAL: post_send: requests: missing required argument");
  EXPECT_EQ(controller.error("post_send", {{"qp", qp["qp"]}, {"requests", Json::array()}}),
            "EINVAL: post_send: requests: requires at least 1 entry");
  EXPECT_EQ(controller.error("post_recv", {{"requests", Json::array({Json::object()})}}),
            "EINVAL: post_recv: qp: either qp or srq is required");
  const Json receives = Json::array({Json::object(),
                                     {{"sges", Json::array({{{"addr", 1}, {"length", 1}, {"lkey", 1}},
                                                            {{"addr", 1}, {"length", 1}, {"lkey", 1}}})}}});
  EXPECT_EQ(controller.error("post_recv", {{"qp", qp["qp"]}, {"requests", receives}}),
            "EINVAL: post_recv: requests[1]: sges: 2 entries; the limit of the queue is 1");
  fake_verbs::fail_call(2, ENOMEM);
  EXPECT_EQ(
      controller.error("post_recv", {{"qp", qp["qp"]}, {"requests", Json::array({Json::object(), Json::object()})}}),
      "ENOMEM: post_recv: requests[1]: ibv_post_recv: ENOMEM: Cannot allocate memory; the preceding requests were "
      "posted");
}

TEST_F(Commands, AtomicWriteRequiresSendOpsOfQueuePair) {
  begin();
  const Json mr = region();
  const Json plain = queue_pair(), able = queue_pair({{"send_ops", {"atomic_write"}}});
  bring_up(plain, able);
  bring_up(able, plain);
  const Json request = {
      {"opcode", "atomic_write"}, {"bytes", "0011223344556677"}, {"remote_addr", mr["addr"]}, {"rkey", mr["rkey"]}};
  EXPECT_EQ(post(plain, request)["error"]["name"], "EOPNOTSUPP");
  EXPECT_TRUE(post(able, request).contains("result"));
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_EQ(controller.result("read", {{"mr", mr["mr"]}, {"length", 8}})["bytes"], "0011223344556677");
  const Json flush = {{"opcode", "flush"},   {"length", 1},      {"placement", {"global"}},
                      {"selectivity", "mr"}, {"remote_addr", 0}, {"rkey", 0}};
  EXPECT_EQ(post(able, flush)["error"]["name"], "EOPNOTSUPP");
}

TEST_F(Commands, DatagramsRequireAddressHandle) {
  begin();
  const Json mr = region();
  const Json one = queue_pair({{"type", "ud"}}), two = queue_pair({{"type", "ud"}});
  bring_up(one, one);
  bring_up(two, two);
  const Json ah = controller.result("create_ah", {{"pd", pd}, {"grh", {{"dgid", "fe80::1"}, {"sgid_index", 1}}}})["ah"];
  EXPECT_EQ(controller.error("create_ah", {{"pd", pd}, {"port", 9}}),
            "EINVAL: create_ah: ibv_create_ah: EINVAL: Invalid argument");
  controller.result("post_recv",
                    {{"qp", two["qp"]}, {"requests", Json::array({{{"sges", Json::array({{{"mr", mr["mr"]}}})}}})}});
  EXPECT_EQ(post(one, {{"opcode", "send"}})["error"]["message"],
            "post_send: requests[0]: ah: missing required argument");
  EXPECT_EQ(post(one, {{"opcode", "write"},
                       {"ah", ah},
                       {"remote_addr", 1},
                       {"rkey", 1},
                       {"remote_qpn", 1},
                       {"remote_qkey", 1}})["error"]["message"],
            "post_send: requests[0]: opcode: must be send or send_imm with UD");
  post(one, {{"opcode", "send"},
             {"ah", ah},
             {"remote_qpn", two["qp_num"]},
             {"remote_qkey", 1},
             {"sges", Json::array({{{"mr", mr["mr"]}, {"length", 10}}})}});
  const Json completion = poll(2)[0];
  EXPECT_EQ(completion["byte_len"], 50);
  EXPECT_EQ(completion["flags"], Json::array({"grh"}));
  EXPECT_EQ(completion["src_qp"], one["qp_num"]);
}

TEST_F(Commands, CompletionEventsAreReported) {
  begin();
  const Json channel = controller.result("create_channel", {{"device", device}})["channel"];
  EXPECT_EQ(controller.error("notify", {{"cq", cq}}),
            fmt::format("EINVAL: notify: cq: {} has no completion channel", cq.get<int>()));
  cq = controller.result("create_cq", {{"device", device}, {"cqe", 8}, {"channel", channel}})["cq"];
  const Json qp = queue_pair();
  bring_up(qp, qp);
  controller.result("notify", {{"cq", cq}});
  post(qp, {{"opcode", "local_inv"}, {"invalidate_rkey", 1}});
  EXPECT_EQ(controller.event("completion"), (Json{{"event", "completion"}, {"cq", cq}}));
  // Each `notify` causes one event. If solicited_only is set, only a solicited completion causes it.
  controller.result("notify", {{"cq", cq}, {"solicited_only", true}});
  post(qp, {{"opcode", "local_inv"}, {"invalidate_rkey", 1}});
  for (int i = 0; i < 10; ++i) bench.step();
  EXPECT_TRUE(controller.lines.empty());
  controller.result("post_recv", {{"qp", qp["qp"]}, {"requests", Json::array({Json::object()})}});
  post(qp, {{"opcode", "send"}, {"flags", {"solicited"}}});
  EXPECT_EQ(controller.event("completion")["cq"], cq);
  EXPECT_EQ(controller.error("destroy", {{"object", channel}}).substr(0, 6), "EBUSY:");
}

TEST_F(Commands, WaitingPollDoesNotBlockOtherCommands) {
  begin();
  const Json qp = queue_pair();
  bring_up(qp, qp);
  EXPECT_EQ(controller.result("poll", {{"cq", cq}})["completions"].size(), 0U);
  controller.send(fmt::format(R"({{"id":"w","do":"poll","cq":{},"min":2,"timeout_ms":1000}})", cq.get<int>()));
  post(qp, {{"opcode", "local_inv"}, {"invalidate_rkey", 1}});
  for (int i = 0; i < 10; ++i) bench.step();
  EXPECT_TRUE(controller.lines.empty());
  post(qp, {{"opcode", "local_inv"}, {"invalidate_rkey", 1}});
  for (int i = 0; i < 10; ++i) bench.step();
  ASSERT_EQ(controller.lines.size(), 1U);
  EXPECT_EQ(Json::parse(controller.lines[0])["result"]["completions"].size(), 2U);
}

TEST_F(Commands, PollEndsAtTimeoutOrWhenQueueIsDestroyed) {
  begin();
  const Loop::Time before = bench.time;
  EXPECT_EQ(controller.result("poll", {{"cq", cq}, {"timeout_ms", 100}})["completions"].size(), 0U);
  EXPECT_GE(bench.time - before, 100 * Loop::millisecond);
  EXPECT_LE(bench.time - before, 110 * Loop::millisecond);
  controller.lines.clear();
  controller.send(fmt::format(R"({{"id":"w","do":"poll","cq":{},"timeout_ms":1000}})", cq.get<int>()));
  controller.result("destroy", {{"object", cq}});
  for (int i = 0; i < 10; ++i) bench.step();
  ASSERT_EQ(controller.lines.size(), 1U);
  EXPECT_NE(controller.lines[0].find("\"ECANCELED\""), std::string::npos);
  EXPECT_EQ(controller.error("poll", {{"cq", pd}, {"max", 0}}).substr(0, 7), "EINVAL:");
}

TEST_F(Commands, SharedQueueReportsLimitReached) {
  begin();
  const Json srq = controller.result("create_srq", {{"pd", pd}, {"max_wr", 8}})["srq"];
  const Json qp = queue_pair({{"srq", srq}});
  bring_up(qp, qp);
  controller.result("post_recv", {{"srq", srq}, {"requests", Json::array({Json::object(), Json::object()})}});
  EXPECT_EQ(controller.error("post_recv", {{"qp", qp["qp"]}, {"requests", Json::array({Json::object()})}}),
            fmt::format("EINVAL: post_recv: qp: {} uses an srq; post to the srq", qp["qp"].get<int>()));
  controller.result("modify_srq", {{"srq", srq}, {"limit", 2}});
  EXPECT_EQ(controller.result("query_srq", {{"srq", srq}})["limit"], 2);
  post(qp, {{"opcode", "send"}});
  EXPECT_EQ(controller.event("async"),
            (Json{{"event", "async"}, {"type", "srq_limit_reached"}, {"device", device}, {"srq", srq}}));
  EXPECT_EQ(controller.error("destroy", {{"object", srq}}).substr(0, 6), "EBUSY:");
}

}  // namespace
}  // namespace rdmawire::agent
